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
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.protocol.states import KazooState

from ensembles.load import EnsembleLoad, assert_all_equal
from ensembles.sync_modes import BEGUN_AS_LEADER, SITUATIONS, Situation, SyncMode, come_back
from ensembles.troubles import (
    PACE_SECONDS,
    SETTINGS,
    TROUBLES,
    Trouble,
    kill_followers,
    kill_the_leader,
    under_load,
)
from support.ensembles import prepare_ensemble, start_ensemble, wait_until
from support.servers import Kind
from support.write_model import Violation

pytestmark = pytest.mark.timeout(600)
long = pytest.mark.long

SESSION_SECONDS = 10.0
FAIL_OVER_SECONDS_MAX = 8.0


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
