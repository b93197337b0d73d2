"""Group commit: batches that accumulate, what is reported when, and how it ends."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import pytest
import trio
import trio.testing
from outcome import capture

from persistence.disk import RealDisk, RealFile
from persistence.log_format import zxid_of
from persistence.log_writer import MOMENT_SECONDS, OFFLOADED_IN_A_ROW_MIN, LogWriter
from persistence.offload import WorkerThread
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
    """A thread that counts what it is given, and does it within a moment or when the test says so."""

    def __init__(self) -> None:
        self.is_quick = True
        self.offloaded = 0
        self.may_go_on = trio.Event()

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        self.offloaded += 1
        return fn(*args)

    def begin(self, seconds: float, fn: Callable[[], None]) -> "BegunWork":
        assert seconds == MOMENT_SECONDS
        return BegunWork(self, fn)


class BegunWork:
    def __init__(self, disk: QuickDisk, fn: Callable[[], None]) -> None:
        self.is_done = disk.is_quick
        self._disk = disk
        self._fn = fn
        self._outcome = capture(fn) if disk.is_quick else None

    async def finished(self) -> None:
        with trio.CancelScope(shield=True):
            await self._disk.may_go_on.wait()
        self._outcome = capture(self._fn)

    def check(self) -> None:
        assert self._outcome is not None
        self._outcome.unwrap()


async def written_one_by_one(writer: LogWriter, zxids: range) -> None:
    for zxid in zxids:
        writer.append(payload(zxid))
        writer.flush()
        await trio.testing.wait_all_tasks_blocked()


async def test_a_quick_disk_is_waited_for_at_once(log: TxnLog, nursery: trio.Nursery) -> None:
    """Once it has gone well for a while: then all that was flushed is durable when `flush` returns."""
    quick, reports = QuickDisk(), list[int]()
    writer = LogWriter(log, quick, quick.begin)
    nursery.start_soon(writer.run, reports.append)
    await trio.testing.wait_all_tasks_blocked()
    await written_one_by_one(writer, range(1, OFFLOADED_IN_A_ROW_MIN + 1))
    assert len(reports) == quick.offloaded == OFFLOADED_IN_A_ROW_MIN
    for zxid in range(100, 110):
        writer.append(payload(zxid))
        writer.flush()
        assert zxids(log)[-1] == zxid
    assert reports == [1] * (OFFLOADED_IN_A_ROW_MIN + 10)
    assert quick.offloaded == OFFLOADED_IN_A_ROW_MIN
    nursery.cancel_scope.cancel()


async def test_a_disk_that_stalls_holds_nobody_up(log: TxnLog, nursery: trio.Nursery) -> None:
    """`flush` returns, what is appended meanwhile waits, and the task waits for the disk for a while then."""
    quick, reports = QuickDisk(), list[int]()
    writer = LogWriter(log, quick, quick.begin)
    nursery.start_soon(writer.run, reports.append)
    await written_one_by_one(writer, range(1, OFFLOADED_IN_A_ROW_MIN + 1))
    quick.is_quick = False
    for zxid in (100, 101, 102):
        writer.append(payload(zxid))
        writer.flush()
        await trio.testing.wait_all_tasks_blocked()
    assert sum(reports) == OFFLOADED_IN_A_ROW_MIN
    quick.is_quick = True
    quick.may_go_on.set()
    await trio.testing.wait_all_tasks_blocked()
    assert reports[OFFLOADED_IN_A_ROW_MIN:] == [1, 2]
    assert zxids(log)[-3:] == [100, 101, 102]
    await written_one_by_one(writer, range(200, 200 + 2 * OFFLOADED_IN_A_ROW_MIN))
    assert quick.offloaded == 2 * OFFLOADED_IN_A_ROW_MIN
    nursery.cancel_scope.cancel()


async def test_a_disk_that_stalls_again_and_again_is_tried_ever_more_rarely(
    log: TxnLog, nursery: trio.Nursery
) -> None:
    quick = QuickDisk()
    quick.is_quick = False
    quick.may_go_on.set()
    writer = LogWriter(log, quick, quick.begin)
    nursery.start_soon(writer.run, lambda count: None)
    tried = []
    for zxid in range(1, 15 * OFFLOADED_IN_A_ROW_MIN):
        before = quick.offloaded
        await written_one_by_one(writer, range(zxid, zxid + 1))
        if quick.offloaded == before:
            tried.append(before)
    assert tried == [factor * OFFLOADED_IN_A_ROW_MIN for factor in (1, 2, 4, 8)]
    nursery.cancel_scope.cancel()


async def test_a_writer_that_is_cancelled_while_the_disk_stalls_reports_that_batch(log: TxnLog) -> None:
    """It is written, so whoever closes the file must not come first."""
    quick, reports = QuickDisk(), list[int]()
    writer = LogWriter(log, quick, quick.begin)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run, reports.append)
        await written_one_by_one(writer, range(1, OFFLOADED_IN_A_ROW_MIN + 1))
        quick.is_quick = False
        writer.append(payload(100))
        writer.flush()
        nursery.cancel_scope.cancel()
        quick.may_go_on.set()
    assert sum(reports) == OFFLOADED_IN_A_ROW_MIN + 1
    assert zxids(log)[-1] == 100


@pytest.mark.parametrize("is_quick", [True, False])
async def test_a_disk_that_fails_ends_the_writer(disk: MemoryDisk, log: TxnLog, is_quick: bool) -> None:
    """Not whoever flushes, which may be on its way out: there the error could be lost."""
    quick, reports = QuickDisk(), list[int]()
    writer = LogWriter(log, quick, quick.begin)
    with pytest.RaisesGroup(pytest.RaisesExc(OSError, match="injected")):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run, reports.append)
            await written_one_by_one(writer, range(1, OFFLOADED_IN_A_ROW_MIN + 11))
            disk.faults["sync"] = OSError(errno.EIO, "injected")
            quick.is_quick = is_quick
            quick.may_go_on.set()
            for zxid in (100, 101):
                writer.append(payload(zxid))
                writer.flush()
            await writer.drained()
    assert len(reports) == quick.offloaded + 10
    assert 101 not in zxids(log)


async def test_what_is_appended_while_a_batch_is_reported_is_written_too(
    log: TxnLog, nursery: trio.Nursery
) -> None:
    """At once: a client that was held back by the last batch goes on with its next request."""
    quick, written = QuickDisk(), list[int]()
    writer = LogWriter(log, quick, quick.begin)

    def on_durable(count: int) -> None:
        written.append(count)
        if len(written) == OFFLOADED_IN_A_ROW_MIN + 5:
            writer.append(payload(1000))
            writer.flush()

    nursery.start_soon(writer.run, on_durable)
    await written_one_by_one(writer, range(1, OFFLOADED_IN_A_ROW_MIN + 6))
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


async def test_no_sync_runs_in_the_event_loops_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    """One that took seconds would keep a leader from its pings, and cost it its office. The loop goes on."""
    threads: set[int] = set()
    sync, may_end = RealFile.sync, threading.Event()
    may_end.set()

    def slow_sync(file: RealFile) -> None:
        threads.add(threading.get_ident())
        may_end.wait(60.0)
        sync(file)

    monkeypatch.setattr(RealFile, "sync", slow_sync)
    async with WorkerThread("log") as thread:
        log = TxnLog(RealDisk(), tmp_path)
        writer, reports = LogWriter(log, thread, thread.begin), list[int]()
        nursery.start_soon(writer.run, reports.append)
        for zxid in range(1, 3 * OFFLOADED_IN_A_ROW_MIN):
            writer.append(payload(zxid))
            await writer.drained()
        may_end.clear()
        reported = sum(reports)
        for zxid in range(500, 600):
            writer.append(payload(zxid))
            writer.flush()
            await trio.lowlevel.checkpoint()
        assert sum(reports) == reported
        may_end.set()
        await writer.drained()
        assert sum(reports) == reported + 100
        writer.finish()
        log.close()
    assert threads
    assert threading.get_ident() not in threads


async def test_others_have_their_turn_between_batches_that_follow_from_each_other(
    log: TxnLog, nursery: trio.Nursery
) -> None:
    """A client that was held back by each batch goes on with its next request: the loop is not its own."""
    quick, reports = QuickDisk(), list[bool]()
    writer = LogWriter(log, quick, quick.begin)

    def on_durable(count: int) -> None:
        reports.append(writer.is_flushing)
        if len(reports) > OFFLOADED_IN_A_ROW_MIN:
            writer.append(payload(1000 + len(reports)))
            writer.flush()

    nursery.start_soon(writer.run, on_durable)
    await written_one_by_one(writer, range(1, OFFLOADED_IN_A_ROW_MIN + 1))
    writer.append(payload(500))
    writer.flush()
    assert len(reports) == OFFLOADED_IN_A_ROW_MIN + 1
    turns = []
    for _ in range(20):
        before = len(reports)
        await trio.lowlevel.checkpoint()
        turns.append(len(reports) - before)
    assert sum(turns) > 10
    assert max(turns) <= 2  # whose turn comes first is drawn anew each time
    assert not any(reports[-10:])
    nursery.cancel_scope.cancel()


async def test_what_a_flush_reports_is_reported_in_the_turn_of_whoever_flushes(
    log: TxnLog, nursery: trio.Nursery
) -> None:
    quick, reports = QuickDisk(), list[bool]()
    writer = LogWriter(log, quick, quick.begin)
    nursery.start_soon(writer.run, lambda count: reports.append(writer.is_flushing))
    await written_one_by_one(writer, range(1, OFFLOADED_IN_A_ROW_MIN + 1))
    assert not any(reports)
    writer.append(payload(500))
    writer.flush()
    assert reports[-1]
    assert not writer.is_flushing
    nursery.cancel_scope.cancel()
