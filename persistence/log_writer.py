"""Group commit: many transactions, one sync.

While one batch is being written and synced, the next accumulates. So the slower the disk, the larger the
batches: latency grows, throughput hardly falls.

The disk is waited for in another thread, never in the event loop's own: a sync may take seconds, and a
server that is silent for so long is taken for dead. But to be woken by the thread through the loop costs more
than the sync of a quick disk takes. So, as soon as the requests at hand have been served, a batch is handed
to the thread and waited for on a lock, for a moment; while the disk is that quick, all are. A disk that
stalls holds up the loop for that moment once and is then waited for by a task, for twice as many batches each
time it does so again.

A flush writes one batch. What is appended because that one is durable is left to the task, so that others
have their turn in between: a client that sends write upon write would otherwise keep the loop for itself.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

import trio

from persistence.errors import StorageError
from persistence.offload import Begin, Begun, Offload
from persistence.torn_tail import UNSYNCED_ENTRIES_MAX
from persistence.txn_log import TxnLog

MOMENT_SECONDS = 0.002
OFFLOADED_IN_A_ROW_MIN = 32
OFFLOADED_IN_A_ROW_MAX = 1 << 16


class LogWriter:
    """The only writer of a TxnLog.

    `begin` hands a batch to the thread behind `offload` and waits a moment for it; without it every batch is
    waited for by the task.

    `is_flushing` while whoever flushes waits: what is reported then is reported in its turn of the loop, and
    otherwise in one of the task's own.

    `txns_since_roll` and `bytes_since_roll` count what was appended since the last `roll`: when they pass
    their limits it is time to roll and take a snapshot.
    """

    def __init__(self, log: TxnLog, offload: Offload, begin: Begin | None = None) -> None:
        self.txns_since_roll = 0
        self.bytes_since_roll = 0
        self.is_flushing = False
        self._log = log
        self._offload = offload
        self._begin = begin
        self._under_way: tuple[Begun, int] | None = None  # a batch that took longer than a moment, its size
        self._to_offload = self._offloaded_in_a_row = OFFLOADED_IN_A_ROW_MIN
        self._on_durable: Callable[[int], None] = _nobody_to_tell
        self._pending: list[bytes] = []
        self._appended_count = 0
        self._taken_count = 0
        self._reported_count = 0
        self._rolls: deque[int] = deque()  # each: roll once this many have been written
        self._is_finishing = False
        self._failure: OSError | StorageError | None = None
        self._is_idle = False
        self._idle = trio.lowlevel.ParkingLot()
        self._draining = trio.lowlevel.ParkingLot()

    def append(self, payload: bytes) -> None:
        """Queue a payload; `flush` must follow. Whoever limits the requests limits how many may wait."""
        self._pending.append(payload)
        self._appended_count += 1
        self.txns_since_roll += 1
        self.bytes_since_roll += len(payload)

    def flush(self) -> None:
        """Let what was appended be written: at once if the disk is quick, else while the task waits for it.

        If the disk fails it is the task that says so. Who flushes may be on its way out, where an error that
        meets a cancellation is lost; and then whoever waits for the log to be drained would wait for ever.
        """
        if self._pending and self._is_idle:
            self.is_flushing = True
            try:
                self._write_at_once()
            finally:
                self.is_flushing = False

    def _write_at_once(self) -> None:
        """Write what is pending, as far as it fits in a batch, if the disk is quick."""
        self._is_idle = False  # whoever is told may flush again
        if self._begin is None or self._to_offload:
            self._wake()
            return
        batch, must_roll = self._take_batch()
        begun = self._begin(MOMENT_SECONDS, partial(self._write, batch, must_roll))
        self._under_way = (begun, len(batch))
        if not begun.is_done:
            self._to_offload = self._offloaded_in_a_row
            self._offloaded_in_a_row = min(2 * self._offloaded_in_a_row, OFFLOADED_IN_A_ROW_MAX)
            self._wake()
            return
        self._offloaded_in_a_row = OFFLOADED_IN_A_ROW_MIN
        try:
            count = self._take_begun()
        except (OSError, StorageError) as failure:
            self._failure = failure
            self._wake()
            return
        self._report(count)
        if self._pending:
            self._wake()
        else:
            self._is_idle = True

    async def drained(self) -> None:
        """Return once everything appended so far is durable and reported."""
        due = self._appended_count
        self.flush()
        while self._reported_count < due:
            await self._draining.park()
        await trio.lowlevel.checkpoint()

    def roll(self) -> None:
        """What is appended from now on goes into a new file, what was appended before does not."""
        self._rolls.append(self._appended_count)
        self.txns_since_roll = 0
        self.bytes_since_roll = 0

    def finish(self) -> None:
        """Let `run` return once everything appended so far is durable."""
        self._is_finishing = True
        self._wake()

    async def run(self, on_durable: Callable[[int], None]) -> None:
        """Write until `finish`; after each batch, say how many of the oldest unreported payloads are durable.

        A batch is reported whole or not at all. When cancelled, the batch under way is finished and reported
        first. When the disk fails the error comes out here, and what was not reported must be taken as lost.
        """
        self._on_durable = on_durable
        try:
            while True:
                if self._failure is not None:
                    raise self._failure
                if self._under_way is not None:
                    await self._finish_begun()
                elif self._pending and self._begin is not None and not self._to_offload:
                    self._write_at_once()
                    if self._failure is None:
                        await trio.lowlevel.checkpoint()  # others have their turn, and may flush
                        self._is_idle = False
                elif self._pending:
                    batch, must_roll = self._take_batch()
                    self._to_offload = max(0, self._to_offload - 1)
                    await self._offload(self._write, batch, must_roll)
                    self._report(len(batch))
                elif self._is_finishing:
                    return
                else:
                    await self._sleep()
        finally:
            self._is_idle = False
            if self._under_way is not None:
                await self._finish_begun()

    async def _finish_begun(self) -> None:
        assert self._under_way is not None
        await self._under_way[0].finished()
        self._report(self._take_begun())

    def _take_begun(self) -> int:
        """The size of the batch that was under way and is written; raises what kept it from being."""
        assert self._under_way is not None
        (begun, count), self._under_way = self._under_way, None
        begun.check()
        return count

    def _report(self, count: int) -> None:
        self._on_durable(count)
        self._reported_count += count
        if self._draining:
            self._draining.unpark_all()

    def _take_batch(self) -> tuple[list[bytes], bool]:
        must_roll = False
        while self._rolls and self._rolls[0] == self._taken_count:
            self._rolls.popleft()
            must_roll = True
        size_max = UNSYNCED_ENTRIES_MAX
        if self._rolls:
            size_max = min(size_max, self._rolls[0] - self._taken_count)
        batch, self._pending = self._pending[:size_max], self._pending[size_max:]
        self._taken_count += len(batch)
        return batch, must_roll

    def _write(self, batch: list[bytes], must_roll: bool) -> None:
        if must_roll:
            self._log.roll()
        self._log.append_batch(batch)

    async def _sleep(self) -> None:
        self._is_idle = True
        try:
            await self._idle.park()
        finally:
            self._is_idle = False

    def _wake(self) -> None:
        self._is_idle = False
        self._idle.unpark()


def _nobody_to_tell(count: int) -> None:
    raise AssertionError("nothing is written before `run` has begun")
