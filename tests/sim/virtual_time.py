"""Virtual time: a clock that jumps, a scheduler that repeats itself, and processes that can be stopped.

Trio is made deterministic by seeding the one source of chance its scheduler has (see Trio's own
_tests/test_scheduler_determinism.py). Whenever every task waits, the clock jumps to the next thing that is
due: a task's deadline, or a function handed to `call_at`. The latter costs no task, which is what makes the
network cheap: a message wakes nobody but its receiver. Nothing comes from outside, so the system is hardly
ever asked for input.

`Freezer` stops the tasks of one process as SIGSTOP does: timers run out and messages arrive meanwhile, but
nothing of it is acted upon before the process goes on.
"""

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random
from typing import Any, TypeVar

import trio
from trio._core import _run as trio_run
from trio._core._traps import WaitTaskRescheduled
from trio.testing import MockClock

T = TypeVar("T")

_ROUNDS_WITHOUT_INPUT = 100  # of Trio's loop

# The name of the process a task belongs to: inherited by every task it starts.
PROCESS: ContextVar[str] = ContextVar("PROCESS", default="")


class VirtualClock:
    """Drives one of Trio's mock clocks; knows besides what is to happen when without any task waiting."""

    def __init__(self) -> None:
        self.time = 0.0
        self.mock = MockClock(autojump_threshold=0)
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = itertools.count()
        # Trio lets nobody inherit from its clock.
        self.mock._autojump = self._jump  # type: ignore[method-assign]
        self.mock.current_time = self.now  # type: ignore[method-assign]

    def now(self) -> float:
        return self.time

    def call_at(self, when: float, function: Callable[[], None]) -> None:
        """Call `function`, which must not wait, at a time; in order of the calls, where times are equal."""
        heapq.heappush(self._due, (when, next(self._sequence), function))

    def call_later(self, delay: float, function: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.time + delay, next(self._sequence), function))

    def _jump(self) -> None:
        """Trio calls this when every task waits. Go on until one does not: a round of Trio's loop costs more
        than most of what is due."""
        runner, due = trio_run.GLOBAL_RUN_CONTEXT.runner, self._due
        deadlines = runner.deadlines
        while not runner.runq:
            deadline = deadlines.next_deadline()
            if due and due[0][0] <= deadline:
                now = self.time = max(self.time, due[0][0])
                while due and due[0][0] <= now:
                    heapq.heappop(due)[2]()
            elif deadline < math.inf:
                self.time = max(self.time, deadline)
                deadlines.expire(self.time)  # Trio would do so one round later
            else:
                return


class RareInput(vars(trio_run)["TheIOManager"]):  # type: ignore[misc]
    """Asks the system for input only now and then: nothing but the end of a run waits for any."""

    _rounds = 0

    def get_events(self, timeout: float) -> Any:
        self._rounds += 1
        return () if self._rounds % _ROUNDS_WITHOUT_INPUT else super().get_events(0)


class SchedulerChance(Random):
    """Orders the tasks that are to run. Mostly that is one."""

    def shuffle(self, x: Any) -> None:
        if len(x) > 1:
            super().shuffle(x)


def run_repeatably(function: Callable[[VirtualClock], Awaitable[T]], seed: int) -> T:
    """Run a Trio program whose every step follows from the seed."""
    clock = VirtualClock()
    with (
        _set(trio_run, "_ALLOW_DETERMINISTIC_SCHEDULING", True),
        _set(trio_run, "_r", SchedulerChance(seed)),
        _set(trio_run, "TheIOManager", RareInput),
    ):
        return trio.run(function, clock, clock=clock.mock)


@contextmanager
def _set(owner: Any, name: str, value: object) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


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
