"""Three and five servers of one kind: elections, kills, restarts under load, fail-over of clients.

`make compat-ensemble` runs all of it, `make test` what is quick. `pytest --server=reference` runs the same
against Apache ZooKeeper, and so shows that the tests ask for nothing that it does not do.
"""

import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Any

import pytest
from crash_model import Violation
from ensemble_load import EnsembleLoad, assert_all_equal
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.protocol.states import KazooState
from sync_modes import BEGUN_AS_LEADER, SITUATIONS, Situation, SyncMode, come_back
from zk_ensembles import Ensemble, prepare_ensemble, start_ensemble, wait_until
from zk_servers import Kind

pytestmark = pytest.mark.timeout(600)
long = pytest.mark.long

TICK_MS = 500
SETTINGS = {
    "tickTime": TICK_MS,
    "initLimit": 20,
    "syncLimit": 6,
    "maxSessionTimeout": 40_000,
    "maxClientCnxns": 0,
    "snapCount": 2000,  # so that snapshots are taken all the time
    "preAllocSize": 64,
}
HANG_SECONDS = 1.5 * 6 * TICK_MS / 1000  # longer than syncLimit
SESSION_SECONDS = 10.0
PACE_SECONDS = 0.02
FAIL_OVER_SECONDS_MAX = 8.0


@contextmanager
def under_load(ensemble: Ensemble, seed: int = 0, *, writers: int = 3) -> Iterator[EnsembleLoad]:
    """Clients write and read until the block ends; then all they know is held against every member."""
    with closing(EnsembleLoad.begin(ensemble, seed, writers=writers, pause_seconds=PACE_SECONDS)) as load:
        with load.running():
            time.sleep(0.5)
            yield load
        load.audit()
        assert load.acknowledged > 100


# -- what is done to ensembles


def kill_the_leader(ensemble: Ensemble) -> None:
    leader = ensemble.wait_for_leader()
    ensemble[leader].kill9()
    ensemble.wait_for_leader()
    time.sleep(0.5)
    ensemble.start(leader)


def kill_followers(ensemble: Ensemble) -> None:
    """As many as a majority can do without."""
    followers = ensemble.followers()[: (len(ensemble.voters) - 1) // 2]
    ensemble.kill9(*followers)
    time.sleep(0.5)
    ensemble.start(*followers)


def kill_all(ensemble: Ensemble) -> None:
    ensemble.kill9()
    ensemble.start()


def kill_all_but_one(ensemble: Ensemble) -> None:
    """No majority is left, then there is one again."""
    survivor = random.Random(0).choice(ensemble.ids)
    ensemble.kill9(*ensemble.others(survivor))
    time.sleep(0.5)
    ensemble.start()


def restart_one_by_one(ensemble: Ensemble) -> None:
    for server_id in ensemble.ids:
        ensemble[server_id].stop()
        ensemble.start(server_id)


def hang_the_leader(ensemble: Ensemble) -> None:
    """It does not know that the others went on without it."""
    leader = ensemble.wait_for_leader()
    ensemble[leader].send_signal(SIGSTOP)
    time.sleep(HANG_SECONDS)
    ensemble[leader].send_signal(SIGCONT)
    ensemble.wait_until_serving()


def hang_a_follower(ensemble: Ensemble) -> None:
    follower = ensemble.followers()[0]
    ensemble[follower].send_signal(SIGSTOP)
    time.sleep(HANG_SECONDS)
    ensemble[follower].send_signal(SIGCONT)
    ensemble.wait_until_serving()


def lose_a_disk(ensemble: Ensemble) -> None:
    follower = ensemble.followers()[0]
    ensemble[follower].kill9()
    ensemble.erase(follower)
    ensemble.start(follower)


Trouble = Callable[[Ensemble], None]
TROUBLES: list[Trouble] = [
    kill_the_leader,
    kill_followers,
    kill_all,
    kill_all_but_one,
    restart_one_by_one,
    hang_the_leader,
    hang_a_follower,
    lose_a_disk,
]


# -- tests


def test_a_leader_is_elected_and_everyone_serves(kind: Kind) -> None:
    """What is written through one member is read from all; the largest id leads who know the same."""
    with start_ensemble([kind] * 3, SETTINGS) as ensemble, ExitStack() as running:
        assert len(ensemble.followers()) == 2
        clients = [running.enter_context(kazoo(ensemble[server_id].host_port)) for server_id in ensemble.ids]
        for number, client in enumerate(clients):
            client.create(f"/by-{number}", b"%d" % number)
        for client in clients:
            client.sync("/")
            assert {f"by-{number}" for number in range(3)} <= set(client.get_children("/"))
        assert_all_equal(ensemble)


def test_a_killed_leader_is_replaced_under_load(kind: Kind) -> None:
    with start_ensemble([kind] * 3, SETTINGS) as ensemble, under_load(ensemble):
        kill_the_leader(ensemble)


def test_locks_and_ephemerals_survive_a_fail_over(kind: Kind) -> None:
    """The holder of a lock keeps it, and who waits for it still gets it afterwards."""
    with start_ensemble([kind] * 3, SETTINGS) as ensemble, ExitStack() as running:
        holder = running.enter_context(kazoo(ensemble.hosts))
        waiter = running.enter_context(kazoo(ensemble.hosts))
        states: list[str] = []
        holder.add_listener(states.append)
        session = holder.client_id
        lock = holder.Lock("/lock", "holder")
        assert lock.acquire(timeout=5)
        holder.create("/ephemeral", b"mine", ephemeral=True)
        waiting = waiter.handler.spawn(waiter.Lock("/lock", "waiter").acquire)
        wait_until(lambda: len(holder.get_children("/lock")) == 2, AssertionError, 5)

        ensemble[ensemble.wait_for_leader()].kill9()
        ensemble.wait_for_leader()
        retrying(lambda: holder.sync("/lock"))

        assert lock.is_acquired
        assert lock.contenders() == ["holder", "waiter"]
        stat = retrying(lambda: holder.exists("/ephemeral"))
        assert stat is not None
        assert holder.client_id == session
        assert stat.owner_session_id == session[0]
        assert KazooState.LOST not in states
        lock.release()
        waiting.join(10)
        assert not waiting.is_alive()


def test_an_ensemble_that_forgot_is_found_out(kind: Kind, tmp_path: Path) -> None:
    """All members get an older copy of their data: they serve, and the audit fails."""
    with start_ensemble([kind] * 3, SETTINGS) as ensemble:
        load = EnsembleLoad.begin(ensemble, 0, pause_seconds=PACE_SECONDS)
        with closing(load):
            ensemble.barrier()
            ensemble.kill9()
            for server_id in ensemble.ids:
                shutil.copytree(ensemble[server_id].data_dir, tmp_path / str(server_id))
            ensemble.start()
            with load.running():
                time.sleep(0.3)
            ensemble.kill9()
            for server_id in ensemble.ids:
                shutil.rmtree(ensemble[server_id].data_dir)
                shutil.copytree(tmp_path / str(server_id), ensemble[server_id].data_dir)
            ensemble.start()
            for each in load.writers:
                each.roamer.seconds_max = 1.0
            with pytest.raises(Violation, match="no member took a session"):
                load.audit()


@long
@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
def test_under_load(kind: Kind, trouble: Trouble, size: int) -> None:
    """Three times over: nothing acknowledged is lost, time never goes back, all members end up the same."""
    with start_ensemble([kind] * size, SETTINGS) as ensemble, under_load(ensemble):
        for _ in range(3):
            trouble(ensemble)


@long
@pytest.mark.parametrize(
    ("situation", "expected"), SITUATIONS.items(), ids=lambda each: getattr(each, "__name__", each)
)
def test_a_follower_is_brought_up_to_date(kind: Kind, situation: Situation, expected: SyncMode) -> None:
    """In each of the three ways; then from its own disk again; then it leads with what it has got."""
    leader = 3 if situation in BEGUN_AS_LEADER else 2
    with start_ensemble([kind] * 3, SETTINGS, leader=leader) as ensemble:
        come_back(ensemble, 3, situation, expected)


@long
@pytest.mark.parametrize("seed", range(4))
def test_all_sorts_of_trouble(kind: Kind, seed: int) -> None:
    """In random order, the next one often before the last one is over."""
    rng = random.Random(seed)
    with start_ensemble([kind] * rng.choice((3, 5)), SETTINGS) as ensemble, under_load(ensemble, seed):
        for trouble in rng.choices(TROUBLES, k=8):
            trouble(ensemble)
            time.sleep(rng.choice((0, 0, 0.3, 1.0)))


@long
def test_an_observer_under_load(kind: Kind) -> None:
    """It has sessions of its own, which outlive the leader."""
    with prepare_ensemble([kind] * 4, SETTINGS, observers=[4]) as ensemble:
        ensemble.begin()
        assert ensemble[4].mode == "observer"
        with under_load(ensemble):
            kill_the_leader(ensemble)
            kill_followers(ensemble)
            ensemble[4].kill9()
            ensemble.start(4)


@long
def test_the_longest_fail_over(kind: Kind) -> None:
    """From kill -9 of the leader to the next write of a client of each of the others."""
    with start_ensemble([kind] * 3, SETTINGS) as ensemble:
        for _ in range(3):
            leader = ensemble.wait_for_leader()
            ensemble[leader].kill9()
            began = time.monotonic()
            ensemble.barrier(*ensemble.others(leader))
            assert time.monotonic() - began < FAIL_OVER_SECONDS_MAX
            ensemble.start(leader)


@contextmanager
def kazoo(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts=hosts, timeout=SESSION_SECONDS)
    client.start(timeout=15)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def retrying(call: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + SESSION_SECONDS
    while True:
        try:
            return call()
        except KazooException:
            assert time.monotonic() < deadline
            time.sleep(0.05)
