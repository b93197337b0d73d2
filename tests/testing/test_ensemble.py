"""Several servers for tests: a lost leader, partitions, and sessions that expire on any of them."""

import gc
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from testing import ensemble as ensemble_module
from testing.ensemble import Ensemble
from testing.errors import ServerError
from tests.testing.stories import kazoo, wait_until


@pytest.fixture
def ensemble() -> Iterator[Ensemble]:
    with Ensemble() as ensemble:
        yield ensemble


def test_what_was_acknowledged_survives_the_leader(ensemble: Ensemble) -> None:
    """The leader is killed amid writes; every acknowledged one is in the tree of the next."""
    acknowledged: list[str] = []
    with kazoo(ensemble.hosts) as client:
        client.ensure_path("/log")
        leader = ensemble.leader
        assert leader is not None
        for number in range(60):
            if number == 30:
                leader.kill()
            client.retry(client.create, f"/log/{number}")
            acknowledged.append(f"/log/{number}")
    assert ensemble.wait_for_leader() is not leader
    assert set(acknowledged) <= ensemble.tree("/log").keys()
    leader.start()
    assert leader in ensemble.followers  # it serves when start returns
    assert set(acknowledged) <= leader.tree("/log").keys()


def test_a_minority_that_is_cut_off_serves_nobody_until_it_is_back(ensemble: Ensemble) -> None:
    lone = ensemble.followers[0]
    with kazoo(lone.hosts, 20) as client, kazoo(ensemble.hosts) as other:
        states: list[str] = []
        client.add_listener(states.append)
        ensemble.partition([lone])
        wait_until(lambda: "SUSPENDED" in states)
        other.retry(other.create, "/meanwhile")
        ensemble.heal()
        wait_until(lambda: states[-1] == "CONNECTED")
        client.sync("/")
        assert client.exists("/meanwhile")


def test_a_session_expires_wherever_its_client_is(ensemble: Ensemble) -> None:
    follower = ensemble.followers[0]
    with kazoo(follower.hosts, 30) as client:
        lost = threading.Event()
        client.add_listener(lambda state: lost.set() if state == "LOST" else None)
        follower.expire(client.client_id[0])
        assert lost.wait(10)


def test_observers_come_after_the_voters() -> None:
    with Ensemble(size=1, observers=1) as ensemble:
        assert len(ensemble) == 2
        assert ensemble.observers == [ensemble[1]]
        assert ensemble.leader is ensemble[0]
        assert ensemble.hosts == f"{ensemble[0].hosts},{ensemble[1].hosts}"
        with ensemble.namespace() as namespace, kazoo(f"{ensemble[1].hosts}{namespace.path}") as client:
            client.create("/a")
            assert f"{namespace.path}/a" in ensemble.tree()


def test_no_partition_where_members_write_down_what_they_were_told() -> None:
    ensemble = Ensemble(config={"reconfigEnabled": "true"})
    with pytest.raises(ServerError, match="reconfigEnabled"):
        ensemble.partition([ensemble[0]])
    ensemble.close()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"size": 0}, "at least one server must vote"),
        ({"observers": -1}, "at least one server must vote"),
        ({"data_dir": "/somewhere"}, "data_dir: each member has its own"),
        ({"port": 2181}, "port: each member has its own"),
        ({"config": {"dataDir": "/somewhere"}}, "dataDir: each member has its own"),
        ({"config": {"clientPort": 2181}}, "clientPort: each member has its own"),
        ({"tls": True}, "tls=True"),
        ({"tick_time": -1}, "tick_time=-1"),
    ],
)
def test_options_that_make_no_sense_leave_nothing_behind(options: dict[str, Any], complaint: str) -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ValueError, match=complaint):
        Ensemble(**options)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_leader_that_is_cut_off_is_no_leader(ensemble: Ensemble) -> None:
    """It takes a while until it gives up; meanwhile the test waits for the next one."""
    before = ensemble.leader
    assert before is not None
    with ensemble.namespace() as namespace:
        ensemble.partition([before])
        assert ensemble.leader is not before
        assert ensemble.wait_for_leader() is not before
        ensemble.load({f"{namespace.path}/a": b""})
    assert namespace.path not in ensemble.tree()
    ensemble.heal()
    wait_until(lambda: before in ensemble.followers)
    with pytest.raises(ValueError, match="None is no member"):
        ensemble.partition([None])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="two groups"):
        ensemble.partition([before], [ensemble[0], ensemble[1], ensemble[2]])
    assert len(ensemble.followers) == 2


def test_members_that_cannot_serve_say_why() -> None:
    with pytest.raises(ServerError, match=r"(?s)server ended with code 2.*syncLimit=soon"):
        Ensemble(size=1, config={"syncLimit": "soon"}).__enter__()


def test_an_ensemble_that_elects_nobody_in_time_shows_its_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensemble_module, "LEADER_SECONDS_MAX", -1.0)
    with pytest.raises(ServerError, match=r"(?s)no quorum within .*The end of their logs:.*\[myid:1\]"):
        Ensemble(size=2).__enter__()
