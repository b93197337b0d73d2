"""Group commit: batches that accumulate, what is reported when, and how it ends."""

import errno
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import pytest
import trio
import trio.testing

from persistence.log_format import zxid_of
from persistence.log_writer import OFFLOADED_IN_A_ROW_MIN, QUICK_SECONDS, LogWriter
from persistence.torn_tail import UNSYNCED_ENTRIES_MAX
from persistence.txn_log import TxnLog
from tests.persistence.fake_tree import DATA, inline, payload, payloads
from tests.persistence.memory_disk import MemoryDisk

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class SlowDisk:
    """An Offload whose work is done only when the test says so."""

    def __init__(self) -> None:
        self._permits = trio.Semaphore(0)

    def allow(self) -> None:
        self._permits.release()

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        with trio.CancelScope(shield=True):
            await self._permits.acquire()
        return fn(*args)


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(DATA)
    return disk


@pytest.fixture
def log(disk: MemoryDisk) -> TxnLog:
    return TxnLog(disk, DATA, preallocate_bytes=0)


def zxids(log: TxnLog) -> list[int]:
    return [zxid_of(payload) for payload in log.read_from(0)]


async def test_what_arrives_during_a_sync_makes_the_next_batch(
    disk: MemoryDisk, log: TxnLog, nursery: trio.Nursery
) -> None:
    slow = SlowDisk()
    writer = LogWriter(log, slow)
    reports: list[int] = []
    nursery.start_soon(writer.run, reports.append)
    writer.append(payload(1))
    writer.flush()
    await trio.testing.wait_all_tasks_blocked()
    for zxid in range(2, 10):
        writer.append(payload(zxid))
    slow.allow()
    await trio.testing.wait_all_tasks_blocked()
    assert reports == [1]
    slow.allow()
    await trio.testing.wait_all_tasks_blocked()
    assert reports == [1, 8]
    assert disk.syncs == 2
    nursery.cancel_scope.cancel()


async def test_nothing_is_reported_before_it_is_durable(
    disk: MemoryDisk, log: TxnLog, nursery: trio.Nursery
) -> None:
    synced: list[int] = []
    writer = LogWriter(log, inline)
    nursery.start_soon(writer.run, lambda count: synced.append(disk.syncs))
    for zxid in range(1, 4):
        writer.append(payload(zxid))
        writer.flush()
        await trio.testing.wait_all_tasks_blocked()
    assert synced == [1, 2, 3]
    nursery.cancel_scope.cancel()


async def test_a_batch_is_bounded(log: TxnLog) -> None:
    """Recovery relies on it: no more entries than this can be unsynced at once."""
    writer = LogWriter(log, inline)
    reports: list[int] = []
    for one in payloads(1, 2 * UNSYNCED_ENTRIES_MAX + 5):
        writer.append(one)
    writer.finish()
    await writer.run(reports.append)
    assert reports == [UNSYNCED_ENTRIES_MAX, UNSYNCED_ENTRIES_MAX, 5]


async def test_a_roll_keeps_its_place_among_the_appends(disk: MemoryDisk, log: TxnLog) -> None:
    writer = LogWriter(log, inline)
    for zxid in range(1, 8):
        if zxid in (1, 3, 6):
            writer.roll()
        if zxid == 3:
            writer.roll()
        writer.append(payload(zxid))
    writer.roll()
    writer.finish()
    await writer.run(lambda count: None)
    assert disk.names(DATA) == ["log.1", "log.3", "log.6"]
    assert zxids(log) == [1, 2, 3, 4, 5, 6, 7]


async def test_counts_start_again_with_a_roll(log: TxnLog) -> None:
    writer = LogWriter(log, inline)
    writer.append(payload(1, b"12345678"))
    writer.append(payload(2, b"12345678"))
    assert (writer.txns_since_roll, writer.bytes_since_roll) == (2, 80)
    writer.roll()
    assert (writer.txns_since_roll, writer.bytes_since_roll) == (0, 0)


async def test_finish_writes_everything_first(log: TxnLog, nursery: trio.Nursery) -> None:
    writer = LogWriter(log, inline)
    reports: list[int] = []
    nursery.start_soon(writer.run, reports.append)
    await trio.testing.wait_all_tasks_blocked()
    writer.append(payload(1))
    writer.append(payload(2))
    writer.finish()
    await trio.testing.wait_all_tasks_blocked()
    assert reports == [2]
    assert nursery.child_tasks == frozenset()


async def test_an_idle_writer_ends_at_once(log: TxnLog, nursery: trio.Nursery) -> None:
    writer = LogWriter(log, inline)
    nursery.start_soon(writer.run, lambda count: None)
    await trio.testing.wait_all_tasks_blocked()
    writer.finish()
    await trio.testing.wait_all_tasks_blocked()
    assert nursery.child_tasks == frozenset()


async def test_cancellation_reports_the_batch_under_way_and_starts_no_other(log: TxnLog) -> None:
    slow = SlowDisk()
    writer = LogWriter(log, slow)
    reports: list[int] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run, reports.append)
        writer.append(payload(1))
        writer.append(payload(2))
        await trio.testing.wait_all_tasks_blocked()
        writer.append(payload(3))
        nursery.cancel_scope.cancel()
        slow.allow()
        slow.allow()
    assert zxids(log)[: sum(reports)] == [1, 2, 3][: sum(reports)]
    assert zxids(log) == [1, 2, 3][: sum(reports)]


async def test_a_failing_disk_ends_the_writer(disk: MemoryDisk, log: TxnLog) -> None:
    writer = LogWriter(log, inline)
    reports: list[int] = []
    disk.faults["sync"] = OSError(errno.EIO, "injected")
    writer.append(payload(1))
    with pytest.raises(OSError, match="injected"):
        await writer.run(reports.append)
    assert reports == []


class QuickDisk:
    """An Offload that counts, and the clock beside a disk whose syncs take `seconds`."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.seconds = QUICK_SECONDS / 2
        self.offloaded = 0
        self._disk = disk

    def clock(self) -> float:
        return self._disk.syncs * self.seconds

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        self.offloaded += 1
        return fn(*args)


async def test_a_quick_disk_is_synced_on_the_spot(
    disk: MemoryDisk, log: TxnLog, nursery: trio.Nursery
) -> None:
    """And goes back to the thread after one slow sync, for a while."""
    quick, reports = QuickDisk(disk), list[int]()
    writer = LogWriter(log, quick, clock=quick.clock)
    nursery.start_soon(writer.run, reports.append)
    await trio.testing.wait_all_tasks_blocked()
    for zxid in range(1, OFFLOADED_IN_A_ROW_MIN + 11):
        writer.append(payload(zxid))
        writer.flush()
        await trio.testing.wait_all_tasks_blocked()
    assert quick.offloaded == OFFLOADED_IN_A_ROW_MIN
    quick.seconds = 2 * QUICK_SECONDS
    for zxid in range(100, 111):
        writer.append(payload(zxid))
        writer.flush()
        await trio.testing.wait_all_tasks_blocked()
    assert quick.offloaded == OFFLOADED_IN_A_ROW_MIN + 10
    assert reports == [1] * (OFFLOADED_IN_A_ROW_MIN + 21)
    nursery.cancel_scope.cancel()


async def test_a_disk_that_fails_on_the_spot_ends_the_writer(disk: MemoryDisk, log: TxnLog) -> None:
    """Not whoever flushes, which may be on its way out: there the error could be lost."""
    quick, reports = QuickDisk(disk), list[int]()
    writer = LogWriter(log, quick, clock=quick.clock)
    with pytest.RaisesGroup(pytest.RaisesExc(OSError, match="injected")):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run, reports.append)
            for zxid in range(1, OFFLOADED_IN_A_ROW_MIN + 11):
                await trio.testing.wait_all_tasks_blocked()
                writer.append(payload(zxid))
                writer.flush()
            await trio.testing.wait_all_tasks_blocked()
            disk.faults["sync"] = OSError(errno.EIO, "injected")
            for zxid in (100, 101):
                writer.append(payload(zxid))
                writer.flush()
            await writer.drained()
    assert len(reports) == quick.offloaded + 10
    assert 101 not in zxids(log)


async def test_what_is_appended_while_a_batch_is_reported_is_written_too(
    disk: MemoryDisk, log: TxnLog, nursery: trio.Nursery
) -> None:
    """On the spot: a client that was held back by the last batch goes on with its next request."""
    quick, written = QuickDisk(disk), list[int]()
    writer = LogWriter(log, quick, clock=quick.clock)

    def on_durable(count: int) -> None:
        written.append(count)
        if len(written) == OFFLOADED_IN_A_ROW_MIN + 5:
            writer.append(payload(1000))
            writer.flush()

    nursery.start_soon(writer.run, on_durable)
    await trio.testing.wait_all_tasks_blocked()
    for zxid in range(1, OFFLOADED_IN_A_ROW_MIN + 6):
        writer.append(payload(zxid))
        writer.flush()
        await trio.testing.wait_all_tasks_blocked()
    assert zxids(log)[-1] == 1000
    assert len(written) == OFFLOADED_IN_A_ROW_MIN + 6
    nursery.cancel_scope.cancel()


async def test_a_log_is_drained_once_all_of_it_is_durable_and_reported(
    log: TxnLog, nursery: trio.Nursery
) -> None:
    """What is appended later is not waited for."""
    slow = SlowDisk()
    writer = LogWriter(log, slow)
    reports: list[int] = []
    nursery.start_soon(writer.run, reports.append)
    drained: list[int] = []

    async def drain() -> None:
        await writer.drained()
        drained.append(sum(reports))

    await writer.drained()
    writer.append(payload(1))
    nursery.start_soon(drain)
    await trio.testing.wait_all_tasks_blocked()
    writer.append(payload(2))
    assert not drained
    slow.allow()
    await trio.testing.wait_all_tasks_blocked()
    assert drained == [1]
    slow.allow()
    await trio.testing.wait_all_tasks_blocked()
    nursery.cancel_scope.cancel()
