"""A server that nobody uses any more has let go of everything."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from server.replica import Replica
from tests.persistence.memory_disk import MemoryDisk
from tests.server.test_replica import opened
from tests.sim.leftovers import leftovers
from tests.sim.virtual_time import PROCESS

SERVERS = 3


def left_on(replica: Replica, *, streams: int = 8) -> list[str]:
    """Eight connections with two other servers: one of each kind, and one of each about to end."""
    network = SimpleNamespace(streams=[object()] * streams)
    machine: Any = SimpleNamespace(name="s1", server=replica, network=network)
    return list(leftovers(machine, SERVERS))


async def test_too_many_connections_are_told() -> None:
    assert left_on(opened(MemoryDisk())) == []
    assert left_on(opened(MemoryDisk()), streams=9) == ["9 connections"]


def with_replies_not_sent(replica: Replica) -> None:
    replica.state.unsent_bytes = 7


def with_a_watch(replica: Replica) -> None:
    watches: Any = replica.state.watches
    watches.data_once[b"/a"] = {}


def with_bytes_in_flight(replica: Replica) -> None:
    replica.pipeline.outstanding_bytes = 7


@pytest.mark.parametrize(
    ("happens", "told"),
    [
        (with_replies_not_sent, "replies not sent: 7"),
        (with_a_watch, "watches (data_once): {b'/a': {}}"),
        (with_bytes_in_flight, "bytes in flight: 7"),
    ],
)
async def test_what_is_kept_is_told(happens: Callable[[Replica], None], told: str) -> None:
    replica = opened(MemoryDisk())
    happens(replica)
    assert left_on(replica) == [told]


@pytest.mark.parametrize(("tasks", "told"), [(45, []), (46, ["46 tasks"])])
async def test_too_many_tasks_are_told(tasks: int, told: list[str]) -> None:
    """Of this server's process alone, wherever they were started."""
    async with trio.open_nursery() as nursery:
        for process, count in (("s1", tasks), ("s2", 100)):
            token = PROCESS.set(process)
            for _ in range(count):
                nursery.start_soon(trio.sleep_forever)
            PROCESS.reset(token)
        await wait_all_tasks_blocked()
        assert left_on(opened(MemoryDisk())) == told
        nursery.cancel_scope.cancel()
