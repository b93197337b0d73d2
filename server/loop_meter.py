"""How long the event loop is held between two looks at its sockets, and by what.

One loop serves every client, so whatever takes long in it is felt by all of them. The loop itself calls
`after_io_wait` and `after_task_step` (trio.abc.Instrument); whoever does a piece of work for a client calls
`noted` when it is done. The time of a pass, from the sockets to all tasks that were due, is counted; the
longest piece of it is what a long pass is blamed on: a request, a commit, or the rest of a task's step.

Always on: a pass costs two calls and a piece one clock reading, 0.1 us compiled. A pass is closed when the
next one begins, at the latest with the next tick.
"""

from collections.abc import Callable
from typing import Final, Protocol

from eventlog import log
from server.summaries import PercentileSummary

LONG_US: Final = 50_000  # nothing may hold the loop for longer
_REPORT_EVERY_S: Final = 10.0

REQUEST: Final = "request"
COMMIT: Final = "commit"
EXPIRY: Final = "expiry"


class Named(Protocol):
    """A task, as far as the meter looks at it."""

    @property
    def name(self) -> str: ...


class LoopMeter:
    """Measures one loop; without a stopwatch it counts nothing.

    `cpu_clock` tells how much of a pass this thread was running: the rest it waited, for the disk or because
    others had the processor.

    `long_holds` counts the passes above LONG_US by what took longest in them: the kind of work and, for
    requests and commits, the opcode.
    """

    def __init__(
        self, stopwatch: Callable[[], float] | None = None, cpu_clock: Callable[[], float] | None = None
    ) -> None:
        self._stopwatch = stopwatch
        self._cpu_clock = cpu_clock
        self._began_cpu_s = 0.0
        self.holds = PercentileSummary()  # of passes, in us
        self.long_holds: dict[tuple[str, int], int] = {}
        self._has_begun = False  # the first pass: the meter may be started in the middle of one
        self._began_s = 0.0  # of this pass
        self._at_s = 0.0  # up to where its time is attributed
        self._longest_s = -1.0
        self._kind = ""
        self._session = 0
        self._op = 0
        self._next_report_s = 0.0
        self._unreported = 0

    def noted(self, kind: str, session: int, op: int) -> None:
        """A piece of work for a session is done: it took the time since the piece before it."""
        stopwatch = self._stopwatch
        if stopwatch is None:
            return
        now_s = stopwatch()
        took_s = now_s - self._at_s
        self._at_s = now_s
        if took_s > self._longest_s:
            self._longest_s = took_s
            self._kind = kind
            self._session = session
            self._op = op

    def after_task_step(self, task: Named) -> None:
        """A task has had its turn; what nobody has noted of it is blamed on the task."""
        assert self._stopwatch is not None
        now_s = self._stopwatch()
        took_s = now_s - self._at_s
        self._at_s = now_s
        if took_s > self._longest_s:
            self._longest_s = took_s
            self._kind = task.name
            self._session = self._op = 0

    def after_io_wait(self, timeout: float) -> None:
        """The sockets have been looked at: the pass before is over, the next one begins."""
        assert self._stopwatch is not None
        if self._longest_s >= 0 and self._has_begun:
            held_us = round((self._at_s - self._began_s) * 1_000_000)
            self.holds.add(held_us)
            if held_us > LONG_US:
                self._count_long(held_us)
        self._longest_s = -1.0
        self._has_begun = True
        self._began_s = self._at_s = self._stopwatch()
        if self._cpu_clock is not None:
            self._began_cpu_s = self._cpu_clock()

    def _count_long(self, held_us: int) -> None:
        kind = _name_of(self._kind)
        what = kind, self._op
        self.long_holds[what] = self.long_holds.get(what, 0) + 1
        if self._at_s < self._next_report_s:
            self._unreported += 1
            return
        cpu_s = self._cpu_clock() - self._began_cpu_s if self._cpu_clock is not None else held_us / 1_000_000
        log.warning(
            "loop_held",
            held_ms=held_us // 1000,
            cpu_ms=round(cpu_s * 1000),
            longest_ms=round(self._longest_s * 1000),
            work=kind,
            session=f"0x{self._session & 0xFFFFFFFFFFFFFFFF:x}",
            opcode=self._op,
            unreported=self._unreported,
        )
        self._next_report_s = self._at_s + _REPORT_EVERY_S
        self._unreported = 0


def _name_of(kind: str) -> str:
    """Of a task that runs a compiled method, Trio's name for it tells the address of its object, too."""
    return kind.removeprefix("<bound method ").partition(" of <")[0]
