"""Blocking work away from the event loop.

`trio.to_thread.run_sync` hands each call to a pool, through a capacity limiter, and returns through the
loop's entry queue; a log that syncs thousands of times a second pays for that each time. `WorkerThread` is
one thread that lives as long as its owner and answers through a socket the loop waits on: measured beside
it, half of the CPU time a call or less (most of the rest is waking a thread on another core, twice).
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

            self._jobs.put(job)
            with trio.CancelScope(shield=True):
                await trio.lowlevel.wait_readable(self._done)
            self._done.recv(1)
            return result.unwrap()
        finally:
            self._turn.release()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            self._finished.send(b"\0")
