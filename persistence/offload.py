"""Blocking work away from the event loop.

`trio.to_thread.run_sync` hands each call to a pool, through a capacity limiter, and returns through the
loop's entry queue; a log that syncs thousands of times a second pays for that each time. `WorkerThread` is
one thread that lives as long as its owner and answers through a socket the loop waits on: measured beside
it, half of the CPU time a call or less (most of the rest is waking a thread on another core, twice).

What takes a fraction of a millisecond is not worth a trip through the loop's scheduler and its epoll. `begin`
hands work to the thread and waits for it on a lock, but only for a moment: nothing a disk does can hold up
the loop for longer than that.
"""

import queue
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self, TypeVar, TypeVarTuple

import outcome
import trio

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Offload(Protocol):
    """Runs a blocking function elsewhere and waits for it.

    A call that has begun is waited for even when cancelled: to give up on a write would leave nobody to say
    whether it happened. The cancellation shows at the caller's next checkpoint.
    """

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T: ...


class Begun(Protocol):
    """Work that was begun elsewhere."""

    @property
    def is_done(self) -> bool:
        """Whether it was done within the moment it was waited for. If not, `finished` must be awaited."""
        ...

    async def finished(self) -> None:
        """Return once it is done, cancelled or not: that shows at the caller's next checkpoint."""
        ...

    def check(self) -> None:
        """Raise what the work raised."""
        ...


# Begins a blocking function elsewhere, and waits for it for so many seconds at most. One at a time.
Begin = Callable[[float, Callable[[], None]], Begun]


class _Job:
    """Meets Begun, for WorkerThread. Whoever comes second of the two, the one who gives up waiting or the
    thread, finds what the other left: a wish to be woken, or the result."""

    def __init__(self, fn: Callable[[], None], woken_by: socket.socket, wake: Callable[[], None]) -> None:
        self.is_done = False
        self._fn = fn
        self._woken_by = woken_by
        self._wake = wake
        self._outcome: outcome.Outcome[None] | None = None
        self._running = threading.Lock()
        self._running.acquire()
        self._meeting = threading.Lock()
        self._is_awaited = False

    def run(self) -> None:
        result = outcome.capture(self._fn)
        with self._meeting:
            self._outcome = result
        self._running.release()
        if self._is_awaited:
            self._wake()

    def wait(self, seconds: float) -> None:
        if self._running.acquire(timeout=seconds):
            self.is_done = True
            return
        with self._meeting:
            self.is_done = self._outcome is not None
            self._is_awaited = not self.is_done

    async def finished(self) -> None:
        if not self.is_done:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.wait_readable(self._woken_by)
            self._woken_by.recv(1)
            self.is_done = True

    def check(self) -> None:
        assert self._outcome is not None
        self._outcome.unwrap()


class WorkerThread:
    """An Offload with one thread of its own; calls made at the same time run one after the other.

    Used as `async with WorkerThread("log") as offload`. Give the log and the snapshots one each, so that
    neither waits for the other's disk.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._turn = trio.Lock()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    async def __aenter__(self) -> Self:
        self._done, self._finished = socket.socketpair()
        self._done.setblocking(False)
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._jobs.put(None)
        self._thread.join()  # idle by now: whoever called has waited for the answer
        self._done.close()
        self._finished.close()

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        # Lock.acquire() costs a trip through the scheduler even when the lock is free.
        try:
            self._turn.acquire_nowait()
        except trio.WouldBlock:
            await self._turn.acquire()
        try:
            result: outcome.Outcome[T]

            def job() -> None:
                nonlocal result
                result = outcome.capture(fn, *args)
                self._wake()

            self._jobs.put(job)
            with trio.CancelScope(shield=True):
                await trio.lowlevel.wait_readable(self._done)
            self._done.recv(1)
            return result.unwrap()
        finally:
            self._turn.release()

    def begin(self, seconds: float, fn: Callable[[], None]) -> Begun:
        """Begin `fn` in the thread and wait so long for it. Nothing else may be called until it is done."""
        assert not self._turn.locked()
        job = _Job(fn, self._done, self._wake)
        self._jobs.put(job.run)
        job.wait(seconds)
        return job

    def _wake(self) -> None:
        self._finished.send(b"\0")

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
