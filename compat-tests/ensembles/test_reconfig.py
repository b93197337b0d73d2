"""Changing the members of an ensemble while it serves: of one kind, and of both.

`make compat-ensemble` runs all of it. `pytest --server=reference` runs the same against Apache ZooKeeper, and
so shows that the tests ask for nothing that it does not do.
"""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

import attrs
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadArgumentsError,
    BadVersionError,
    NewConfigNoQuorumError,
    NoAuthError,
    ReconfigDisabledError,
)

from ensembles.load import EnsembleLoad, assert_all_equal
from support.ensembles import Ensemble, Place, prepare_ensemble, wait_until
from support.servers import SMALL_FLAGS, Kind

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]

SETTINGS = {
    "tickTime": 500,
    "initLimit": 20,
    "syncLimit": 6,
    "maxClientCnxns": 0,
    "preAllocSize": 64,
    "reconfigEnabled": "true",
    "standaloneEnabled": "false",
}
FLAGS = (*SMALL_FLAGS, "-Dzookeeper.skipACL=yes")  # who may reconfigure is a test of its own
SECONDS_MAX = 20.0
MIXES = ("apache-apache-ours", "ours-ours-apache")


@contextmanager
def changing(
    kinds: list[Kind], *, leader: int | None = None, observers: tuple[int, ...] = ()
) -> Iterator[tuple[Ensemble, KazooClient]]:
    with prepare_ensemble(kinds, SETTINGS, observers=observers, jvm_flags=FLAGS) as ensemble:
        ensemble.begin(leader)
        with client_of(ensemble.hosts) as client:
            yield ensemble, client


@contextmanager
def client_of(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts=hosts, timeout=8.0)
    client.start(timeout=SECONDS_MAX)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def reconfigure(
    client: KazooClient, joining: str = "", leaving: str = "", members: str = "", version: int = -1
) -> dict[str, str]:
    """The new configuration, line by line. A leader that leaves may take the connection with it."""
    data, stat = client.retry(
        client.reconfig,
        joining=joining or None,
        leaving=leaving or None,
        new_members=members or None,
        from_config=version,
    )
    config = lines_of(data)
    assert stat.version == -1
    assert stat.mzxid == int(config["version"], 16)
    return config


def lines_of(data: bytes) -> dict[str, str]:
    return dict(line.split("=", 1) for line in data.decode().splitlines())


def line_of(ensemble: Ensemble, server_id: int) -> str:
    return f"server.{server_id}={ensemble.places[server_id].line}"


def config_at(ensemble: Ensemble, server_id: int) -> dict[str, str]:
    with client_of(ensemble[server_id].host_port) as client:
        return lines_of(client.get("/zookeeper/config")[0])


def is_known_at(ensemble: Ensemble, server_id: int, config: dict[str, str]) -> bool:
    return config_at(ensemble, server_id) == config


def assert_all_know(ensemble: Ensemble, config: dict[str, str]) -> None:
    """Every running member shows this configuration, and has it on disk."""
    for server_id in ensemble.running:
        ensemble[server_id].wait_until_serving()
        wait_until(
            partial(is_known_at, ensemble, server_id, config),
            lambda: ensemble.failure(f"does not know {config} everywhere"),
            SECONDS_MAX,
        )
        home = ensemble[server_id].home
        dynamic = (home / f"zoo.cfg.dynamic.{config['version']}").read_text()
        assert sorted(line for line in dynamic.split("\n") if not line.startswith("#")) == sorted(
            f"{key}={value}" for key, value in config.items() if key != "version"
        )
        assert f"dynamicConfigFile={home}/zoo.cfg.dynamic.{config['version']}" in (
            home / "zoo.cfg"
        ).read_text().replace("\\:", ":")
        assert not (home / "zoo.cfg.dynamic.next").exists()


def wait_for_mode(ensemble: Ensemble, server_id: int, mode: str) -> None:
    wait_until(
        lambda: ensemble[server_id].mode == mode,
        lambda: ensemble.failure(f"does not make server {server_id} a {mode}"),
        SECONDS_MAX,
    )


def write(client: KazooClient, path: str, data: bytes = b"") -> None:
    client.retry(client.ensure_path, path)
    client.retry(client.set, path, data)


def kinds_of(mix: str) -> list[Kind]:
    return ["reference" if name == "apache" else "triokeeper" for name in mix.split("-")]


# -- of one kind


def test_the_first_configuration_has_the_version_of_the_first_epoch(kind: Kind) -> None:
    with changing([kind] * 3) as (ensemble, _):
        expected = {f"server.{n}": ensemble.places[n].line for n in ensemble.ids}
        assert_all_know(ensemble, {**expected, "version": "100000000"})


def test_a_server_joins_and_its_vote_counts(kind: Kind) -> None:
    """It follows without a vote before. Of four, any three are a majority: also those it is one of."""
    with changing([kind] * 3, leader=3) as (ensemble, client):
        write(client, "/before", b"1")
        fourth = ensemble.add(kind)
        ensemble.start(fourth)
        assert ensemble[fourth].mode == "follower"
        config = reconfigure(client, joining=line_of(ensemble, fourth))
        assert config[f"server.{fourth}"] == ensemble.places[fourth].line
        assert_all_know(ensemble, config)
        ensemble.kill9(1)
        write(client, "/after", b"2")
        ensemble.kill9(2)
        ensemble.start(1)
        write(client, "/after", b"3")
        ensemble.start(2)
        ensemble.barrier()
        assert_all_equal(ensemble)


def test_who_would_observe_follows_until_it_is_listed(kind: Kind) -> None:
    """Its own configuration calls it an observer; the one in force does not know it."""
    with changing([kind] * 3) as (ensemble, client):
        fourth = ensemble.add(kind, is_observer=True)
        ensemble.start(fourth)
        wait_for_mode(ensemble, fourth, "follower")
        config = reconfigure(client, joining=line_of(ensemble, fourth))
        wait_for_mode(ensemble, fourth, "observer")
        assert_all_know(ensemble, config)
        ensemble.barrier(fourth)
        reconfigure(client, leaving=str(fourth))
        wait_for_mode(ensemble, fourth, "follower")  # without a vote
        ensemble.barrier(fourth)
        assert_all_equal(ensemble)


def test_the_leader_is_removed_and_another_leads_without_delay(kind: Kind) -> None:
    with changing([kind] * 4, leader=4) as (ensemble, client):
        write(client, "/a", b"1")
        config = reconfigure(client, leaving="4")
        assert "server.4" not in config
        wait_for_mode(ensemble, 4, "follower")  # without a vote
        write(client, "/a", b"2")
        assert ensemble.wait_for_leader() in (1, 2, 3)
        assert_all_know(ensemble, config)
        ensemble.barrier()
        assert_all_equal(ensemble)
        ensemble.kill9(4)
        write(client, "/a", b"3")


def test_the_leader_becomes_an_observer(kind: Kind) -> None:
    with changing([kind] * 3, leader=3) as (ensemble, client):
        line = line_of(ensemble, 3).replace("participant", "observer")
        config = reconfigure(client, joining=line)
        wait_for_mode(ensemble, 3, "observer")
        write(client, "/a", b"1")
        assert_all_know(ensemble, config)
        ensemble.barrier(3)
        assert_all_equal(ensemble)


def test_an_observer_becomes_a_participant_and_back(kind: Kind) -> None:
    with changing([kind] * 4, leader=3, observers=(4,)) as (ensemble, client):
        assert ensemble[4].mode == "observer"
        as_observer = line_of(ensemble, 4)
        config = reconfigure(client, joining=as_observer.replace("observer", "participant"))
        wait_for_mode(ensemble, 4, "follower")
        assert_all_know(ensemble, config)
        ensemble.kill9(1)
        write(client, "/a", b"1")  # 2, 3 and 4
        ensemble.start(1)
        config = reconfigure(client, joining=as_observer)
        wait_for_mode(ensemble, 4, "observer")
        assert_all_know(ensemble, config)
        ensemble.barrier(4)
        assert_all_equal(ensemble)


def test_all_members_are_replaced_one_half_at_a_time(kind: Kind) -> None:
    """The whole membership is given anew, on top of the version that is known; another is refused."""
    with changing([kind] * 2) as (ensemble, client):
        for _ in range(2):
            ensemble.start(ensemble.add(kind))
        first = int(lines_of(client.get("/zookeeper/config")[0])["version"], 16)
        members = ",".join(line_of(ensemble, n) for n in (1, 2, 3, 4))
        with pytest.raises(BadVersionError):
            reconfigure(client, members=members, version=first + 1)
        config = reconfigure(client, members=members, version=first)
        assert_all_know(ensemble, config)
        config = reconfigure(client, members="\n".join(line_of(ensemble, n) for n in (3, 4)))
        wait_until(
            lambda: ensemble.leader() in (3, 4), lambda: ensemble.failure("has no new leader"), SECONDS_MAX
        )
        ensemble.kill9(1, 2)
        with client_of(ensemble.hosts) as late:  # the first client knows nobody who is left
            write(late, "/a", b"1")
        assert_all_know(ensemble, config)


def test_what_is_refused(kind: Kind) -> None:
    """And nothing changes by it."""
    with changing([kind] * 3) as (ensemble, client):
        before = client.get("/zookeeper/config")
        absent = attrs.evolve(Place.free(), is_observer=False).line
        for joining, leaving, members, refusal in (
            ("server.4=127.0.0.1:1:2:participant", None, None, BadArgumentsError),
            ("server.4", None, None, BadArgumentsError),
            (None, "1,2,3", None, BadArgumentsError),
            (None, None, "tickTime=4", BadArgumentsError),
            (None, None, f"server.7={absent}", NewConfigNoQuorumError),
            (f"server.7={absent},server.8={absent},server.9={absent}", None, None, NewConfigNoQuorumError),
        ):
            with pytest.raises(refusal):
                client.reconfig(joining=joining, leaving=leaving, new_members=members)
        assert client.get("/zookeeper/config") == before
        ensemble.barrier()


def test_reconfiguration_is_off_unless_it_is_on(kind: Kind) -> None:
    with prepare_ensemble([kind] * 3, {**SETTINGS, "reconfigEnabled": "false"}) as ensemble:
        ensemble.begin()
        with client_of(ensemble.hosts) as client, pytest.raises(ReconfigDisabledError):
            client.reconfig(joining=None, leaving="1", new_members=None)


def test_who_may_not_write_the_config_node_may_not_reconfigure(kind: Kind) -> None:
    with prepare_ensemble([kind] * 3, SETTINGS) as ensemble:
        ensemble.begin()
        with client_of(ensemble.hosts) as client:
            with pytest.raises(NoAuthError):
                client.reconfig(joining=None, leaving="1", new_members=None)
            ensemble.barrier()


def test_watchers_of_the_config_node_are_told(kind: Kind) -> None:
    with changing([kind] * 4, leader=4) as (ensemble, client):
        told: list[str] = []
        with client_of(ensemble[1].host_port) as watcher:
            watcher.DataWatch("/zookeeper/config", lambda data, _: told.append(lines_of(data)["version"]))
            config = reconfigure(client, leaving="3")
            wait_until(
                lambda: told[-1] == config["version"],
                lambda: ensemble.failure("does not tell"),
                SECONDS_MAX,
            )


def test_the_client_port_moves(kind: Kind) -> None:
    """Whoever is connected stays; newcomers find the new port."""
    with changing([kind] * 3, leader=3) as (ensemble, client):
        with client_of(ensemble[1].host_port) as connected:
            session = connected.client_id
            place = attrs.evolve(ensemble.places[1], client_port=Place.free().client_port)
            ensemble.places[1] = place
            config = reconfigure(client, joining=line_of(ensemble, 1))
            ensemble[1].port = place.client_port
            ensemble[1].wait_until_serving()
            write(connected, "/a", b"1")
            assert connected.client_id == session
        assert_all_know(ensemble, config)
        ensemble[1].restart()
        assert config_at(ensemble, 1) == config


def test_a_whole_ensemble_starts_again_as_it_was_reconfigured(kind: Kind) -> None:
    with changing([kind] * 4, leader=4) as (ensemble, client):
        config = reconfigure(client, leaving="4")
        write(client, "/a", b"1")
        assert_all_know(ensemble, config)
        ensemble.kill9()
        ensemble.start(1, 2, 3)
        assert_all_know(ensemble, config)
        assert client.retry(client.get, "/a")[0] == b"1"
        ensemble[4].spawn()  # its own configuration does not list it any more
        wait_until(lambda: ensemble[4].has_ended, lambda: ensemble.failure("takes back"), SECONDS_MAX)


def test_members_come_and_go_under_load(kind: Kind) -> None:
    """Nothing that was acknowledged is lost, and no client sees time go back."""
    with (
        changing([kind] * 5, leader=5) as (ensemble, client),
        closing(EnsembleLoad.begin(ensemble, 7, writers=3, pause_seconds=0.02)) as load,
    ):
        with load.running():
            for leaving in (5, 1):
                reconfigure(client, leaving=str(leaving))
                time.sleep(1)
                rejoin(client, line_of(ensemble, leaving))
                time.sleep(1)
        load.audit()


# -- of both


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("leader", [3, 2])
def test_servers_of_both_kinds_join_and_leave(mix: str, leader: int) -> None:
    """A server of each kind joins; then the leader goes, whichever kind it is, and comes back to observe."""
    with changing(kinds_of(mix), leader=leader) as (ensemble, client):
        write(client, "/a", b"1")
        kinds: tuple[Kind, ...] = ("reference", "triokeeper")
        for kind in kinds:
            joining = ensemble.add(kind)
            ensemble.start(joining)
            config = reconfigure(client, joining=line_of(ensemble, joining))
            assert_all_know(ensemble, config)
        reconfigure(client, leaving=str(leader))
        wait_for_mode(ensemble, leader, "follower")
        write(client, "/a", b"2")
        config = rejoin(client, line_of(ensemble, leader).replace("participant", "observer"))
        wait_for_mode(ensemble, leader, "observer")
        assert_all_know(ensemble, config)
        ensemble.barrier(leader)
        assert_all_equal(ensemble)


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("mix", MIXES)
def test_a_mixed_ensemble_is_handed_from_leader_to_leader(mix: str) -> None:
    """The leader leaves and joins again, five times: whoever leads next may be of the other kind."""
    with changing(kinds_of(mix)) as (ensemble, client):
        for round_ in range(5):
            leader = ensemble.wait_for_leader()
            reconfigure(client, leaving=str(leader))
            write(client, "/a", b"%d" % round_)
            wait_for_mode(ensemble, leader, "follower")
            config = rejoin(client, line_of(ensemble, leader))
            assert_all_know(ensemble, config)
        ensemble.barrier()
        assert_all_equal(ensemble)


def rejoin(client: KazooClient, line: str) -> dict[str, str]:
    """Once it is synchronised with the new leader; until then it may be one too few."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            return reconfigure(client, joining=line)
        except NewConfigNoQuorumError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)
