"""Virtual time: a clock that jumps, a scheduler that repeats itself, and processes that can be stopped.

Trio is made deterministic by seeding the one source of chance its scheduler has (see Trio's own
_tests/test_scheduler_determinism.py). Whenever every task waits, the clock jumps to the next thing that is
due: a task's deadline, or a function handed to `call_at`. The latter costs no task, which is what makes the
network cheap: a message wakes nobody but its receiver.

`Freezer` stops the tasks of one process as SIGSTOP does: timers run out and messages arrive meanwhile, but
nothing of it is acted upon before the process goes on.
"""

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from random import Random
from typing import TypeVar

import trio
from trio._core import _run as trio_run
from trio._core._traps import WaitTaskRescheduled
from trio.testing import MockClock

T = TypeVar("T")

# The name of the process a task belongs to: inherited by every task it starts.
PROCESS: ContextVar[str] = ContextVar("PROCESS", default="")


class VirtualClock:
    """Drives one of Trio's mock clocks; knows besides what is to happen when without any task waiting."""

    def __init__(self) -> None:
        self.mock = MockClock(autojump_threshold=0)
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = itertools.count()
        # Trio lets nobody inherit from its clock.
        self.mock._autojump = self._jump  # type: ignore[method-assign]
        self.mock.current_time = self.now  # type: ignore[method-assign]

    def now(self) -> float:
        return self.mock._virtual_base

    def call_at(self, when: float, function: Callable[[], None]) -> None:
        """Call `function`, which must not wait, at a time; in order of the calls, where times are equal."""
        heapq.heappush(self._due, (when, next(self._sequence), function))

    def call_later(self, delay: float, function: Callable[[], None]) -> None:
        self.call_at(self.now() + delay, function)

    def _jump(self) -> None:
        """Trio calls this when every task waits."""
        deadline = trio_run.GLOBAL_RUN_CONTEXT.runner.deadlines.next_deadline()
        due = self._due
        if due and due[0][0] <= deadline:
            now = self.mock._virtual_base = max(self.mock._virtual_base, due[0][0])
            while due and due[0][0] <= now:
                heapq.heappop(due)[2]()
        elif deadline < math.inf:
            self.mock._virtual_base = max(self.mock._virtual_base, deadline)


def run_repeatably(function: Callable[[VirtualClock], Awaitable[T]], seed: int) -> T:
    """Run a Trio program whose every step follows from the seed."""
    clock = VirtualClock()
    chance: Random = trio_run._r
    state_before, allowed_before = chance.getstate(), trio_run._ALLOW_DETERMINISTIC_SCHEDULING
    trio_run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    chance.seed(seed)
    try:
        return trio.run(function, clock, clock=clock.mock)
    finally:
        trio_run._ALLOW_DETERMINISTIC_SCHEDULING = allowed_before  # type: ignore[misc]
        chance.setstate(state_before)


class Freezer(trio.abc.Instrument):
    """Holds back the steps of every task of a frozen process.

    Trio asks its instruments before it looks at what a task is to be sent: what is sent is kept here, and
    the task is made to wait for `thaw` in its place.
    """

    def __init__(self) -> None:
        self._held: dict[str, list[tuple[trio.lowlevel.Task, object]]] = {}
        self._reasons: Counter[str] = Counter()  # how many there are to keep a process frozen

    def is_frozen(self, process: str) -> bool:
        return process in self._held

    def freeze(self, process: str) -> None:
        """Hold its tasks until `thaw` was called as often as this."""
        if not self._held:
            trio.lowlevel.add_instrument(self)
        self._held.setdefault(process, [])
        self._reasons[process] += 1

    def thaw(self, process: str) -> None:
        self._reasons[process] -= 1
        if self._reasons[process] <= 0:
            self.release(process)

    def release(self, process: str) -> None:
        """Let it go on whatever held it."""
        self._reasons.pop(process, None)
        if process not in self._held:
            return
        held = self._held.pop(process)
        if not self._held:
            trio.lowlevel.remove_instrument(self)
        for task, message in held:
            trio.lowlevel.reschedule(task, message)  # type: ignore[arg-type]

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        held = self._held.get(task.context.get(PROCESS, ""))
        if held is None:
            return
        message = task._next_send

        def hold(_: object) -> WaitTaskRescheduled:
            held.append((task, message))
            return WaitTaskRescheduled(_cannot_be_cancelled)

        task._next_send_fn = hold


def _cannot_be_cancelled(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED
