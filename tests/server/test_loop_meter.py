"""The loop measures itself: by a clock that each step of these tests sets."""

import attrs
import trio
import trio.testing

from server.loop_meter import COMMIT, REQUEST, LoopMeter
from tests.captured_logs import capture_logs


@attrs.frozen
class Task:
    name: str


FRONT, WRITER = Task("the front"), Task("the log writer")


class Loop:
    """A meter, and the passes of a loop that it is told of."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.meter = LoopMeter(lambda: self.now_s)
        self.meter.after_io_wait(0.0)

    def passes(self, *steps: tuple[Task, float]) -> None:
        for task, seconds in steps:
            self.now_s += seconds
            self.meter.after_task_step(task)
        self.sleep(1.0)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.meter.after_io_wait(seconds)


def test_a_pass_is_all_steps_between_two_looks_at_the_sockets() -> None:
    loop = Loop()
    loop.passes((FRONT, 0.002), (WRITER, 0.003))
    loop.passes((FRONT, 0.001))
    assert (loop.meter.holds.count, loop.meter.holds.total, loop.meter.holds.greatest) == (2, 6000, 5000)


def test_waiting_for_sockets_holds_nobody() -> None:
    loop = Loop()
    loop.sleep(60.0)
    assert loop.meter.holds.count == 0
    assert loop.meter.long_holds == {}


def test_a_meter_that_is_started_in_the_middle_of_a_pass_leaves_that_out() -> None:
    meter = LoopMeter(lambda: 1000.0)
    meter.noted(REQUEST, 7, 4)
    meter.after_task_step(FRONT)
    meter.after_io_wait(0.0)
    assert meter.holds.count == 0


def test_a_long_pass_is_blamed_on_its_longest_piece() -> None:
    """A task's step is blamed only for what is not a piece of work that was noted."""
    loop = Loop()
    with capture_logs() as lines:
        loop.now_s += 0.010
        loop.meter.noted(REQUEST, 7, 4)
        loop.now_s += 0.040
        loop.meter.noted(COMMIT, 0x10, 14)
        loop.passes((FRONT, 0.020), (WRITER, 0.005))
    assert loop.meter.long_holds == {(COMMIT, 14): 1}
    assert lines == [
        {
            "event": "loop_held",
            "log_level": "warning",
            "held_ms": 75,
            "cpu_ms": 75,
            "longest_ms": 40,
            "work": COMMIT,
            "session": "0x10",
            "opcode": 14,
            "unreported": 0,
        }
    ]


def test_the_line_says_how_much_of_it_was_work() -> None:
    """Not what the thread waited because others had the processor."""
    now_s = cpu_s = 0.0
    meter = LoopMeter(lambda: now_s, lambda: cpu_s)
    meter.after_io_wait(0.0)
    now_s, cpu_s = 0.090, 0.012
    meter.after_task_step(FRONT)
    with capture_logs() as lines:
        meter.after_io_wait(0.0)
    assert [(line["held_ms"], line["cpu_ms"]) for line in lines] == [(90, 12)]


def test_work_that_nobody_notes_is_its_tasks() -> None:
    loop = Loop()
    loop.passes((FRONT, 0.001), (WRITER, 0.060))
    assert loop.meter.long_holds == {("the log writer", 0): 1}


def test_a_compiled_tasks_name_does_not_tell_where_its_object_lies() -> None:
    loop = Loop()
    loop.passes(
        (Task("<bound method PlainFront.run of <server.client_fronts.PlainFront object at 0x7f>>"), 0.1)
    )
    assert loop.meter.long_holds == {("PlainFront.run", 0): 1}


def test_50_ms_are_allowed() -> None:
    loop = Loop()
    loop.passes((FRONT, 0.050))
    assert loop.meter.long_holds == {}


def test_what_held_one_pass_is_forgotten_in_the_next() -> None:
    loop = Loop()
    loop.now_s += 0.049
    loop.meter.noted(REQUEST, 7, 4)
    loop.passes((FRONT, 0.0))
    loop.passes((WRITER, 0.010), (FRONT, 0.045))
    assert loop.meter.long_holds == {("the front", 0): 1}


def test_there_is_one_line_in_ten_seconds_and_it_says_how_many_are_missing() -> None:
    loop = Loop()
    with capture_logs() as lines:
        for _ in range(21):
            loop.passes((FRONT, 0.060))
    assert [line["unreported"] for line in lines] == [0, 9, 9]
    assert loop.meter.long_holds == {("the front", 0): 21}


def test_without_a_stopwatch_nothing_is_noted() -> None:
    meter = LoopMeter()
    meter.noted(REQUEST, 1, 1)
    assert meter.holds.count == 0


async def test_trio_calls_it(autojump_clock: trio.testing.MockClock) -> None:
    """As an instrument, which trio would drop without a word to us if a hook failed."""
    meter = LoopMeter(trio.current_time)
    trio.lowlevel.add_instrument(meter)  # type: ignore[arg-type]
    await trio.sleep(1)
    await trio.sleep(1)
    trio.lowlevel.remove_instrument(meter)  # type: ignore[arg-type]
    assert meter.holds.count >= 1
    assert meter.holds.greatest == 0
