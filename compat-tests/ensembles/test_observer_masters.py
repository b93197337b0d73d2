"""Observers served by followers instead of the leader (observerMasterPort), of either kind on either kind."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from support.ensembles import Ensemble, prepare_ensemble, wait_until
from support.servers import Kind, free_ports

pytestmark = [pytest.mark.timeout(180), pytest.mark.long]

OBSERVER = 4
SESSION_SECONDS = 4.0
SECONDS_MAX = 20.0


@contextmanager
def observed(kinds: Sequence[Kind]) -> Iterator[Ensemble]:
    """Three voters and an observer. All masters have the same port, so each needs an address of its own."""
    settings = {"tickTime": 500, "initLimit": 20, "syncLimit": 6, "observerMasterPort": free_ports(1)[0]}
    with prepare_ensemble(kinds, settings, observers=[OBSERVER]) as ensemble:
        lines = "".join(
            f"server.{n}={place.short_line.replace('127.0.0.1', f'127.0.0.{n}')}\n"
            for n, place in ensemble.places.items()
        )
        for server_id, kind in enumerate(kinds, 1):
            ensemble.prepare(server_id, kind, lines)
        ensemble.start()
        yield ensemble


def master_of_observer(ensemble: Ensemble) -> int:
    return int(ensemble[OBSERVER].mntr().get("zk_observer_master_id", -1))


def write_until_it_works(client: KazooClient, path: str, data: bytes) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            client.set(path, data)
        except KazooException:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(("triokeeper",) * 4, id="ours"),
        pytest.param(("reference",) * 3 + ("triokeeper",), id="our-observer-on-apache"),
        pytest.param(("triokeeper",) * 3 + ("reference",), id="apache-observer-on-ours"),
    ],
)
def test_an_observer_is_served_by_a_follower_and_then_by_another(kinds: Sequence[Kind]) -> None:
    """Writes, syncs and sessions go through the follower; when it dies, the session goes on elsewhere."""
    with observed(kinds) as ensemble:
        leader = ensemble.wait_for_leader()
        master = master_of_observer(ensemble)
        assert master in ensemble.followers()
        assert ensemble[master].mntr()["zk_synced_observers"] == "1"
        assert ensemble[leader].mntr()["zk_synced_observers"] == "0"

        client = KazooClient(hosts=ensemble[OBSERVER].host_port, timeout=SESSION_SECONDS)
        client.start()
        try:
            client.create("/mine", b"", ephemeral=True)
            for n in range(50):
                client.set("/mine", b"%d" % n)
                client.sync("/")
            assert client.get("/mine")[0] == b"49"
            time.sleep(1.5 * SESSION_SECONDS)  # nobody but the observer hears this client meanwhile
            session = client.client_id
            assert client.exists("/mine") is not None

            ensemble[master].kill9()
            write_until_it_works(client, "/mine", b"after")
            assert client.client_id == session
            assert client.get("/mine")[0] == b"after"
            wait_until(
                lambda: master_of_observer(ensemble) not in (-1, master),
                lambda: ensemble.failure("has an observer without a master"),
                SECONDS_MAX,
            )
        finally:
            client.stop()
            client.close()
        ensemble.start(master)
        ensemble.barrier()
