"""Reports on a screen: once, when all are in, and again and again."""

import io
import json
from collections.abc import Awaitable, Callable

import pytest
import trio
from rich.console import Console
from trio.testing import MockClock

from client.status.answers import ServerFacts
from client.status.members import Member
from client.status.report import Report, ServerReport, Verdict
from client.status.rich_table import rich_table
from client.status.show import CLEAR, Screen, keep_showing, show_once
from client.status.table import EXPENDABLE, HEADINGS, fitting_columns
from tests.client.fake_terminal import FakeTerminal

UP = Report((ServerReport(Member(1, ("zk1", 2181)), ServerFacts(mode="standalone")),))
DOWN = Report((ServerReport(Member(1, ("zk1", 2181)), problem="zk1:2181: Connection refused"),))


def looking(*reports: Report) -> Callable[[], Awaitable[Report]]:
    """One report after the other, the last one for ever."""
    left = list(reports)

    async def look() -> Report:
        await trio.lowlevel.checkpoint()
        return left.pop(0) if len(left) > 1 else left[0]

    return look


async def test_waiting_ends_as_soon_as_all_are_in(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    start = trio.current_time()
    assert await show_once(looking(DOWN, DOWN, UP), Screen(as_json=False), 60) is Verdict.ALL_IN
    assert trio.current_time() - start == 0.5
    assert capsys.readouterr().out.endswith("the server is serving\n")


async def test_waiting_ends_in_time(autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]) -> None:
    start = trio.current_time()
    assert await show_once(looking(DOWN), Screen(as_json=True), 3) is Verdict.UNREACHABLE
    assert trio.current_time() - start == 3
    assert json.loads(capsys.readouterr().out)["exit_code"] == 3


async def test_watching_shows_each_report(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = Screen(as_json=True)
    with trio.move_on_after(5):
        await keep_showing(looking(UP, DOWN, UP, DOWN), screen, 2)
    told = [json.loads(line)["exit_code"] for line in capsys.readouterr().out.splitlines()]
    assert told == [0, 3, 0]
    assert screen.last_verdict is Verdict.ALL_IN


def test_the_coloured_table_says_the_same() -> None:
    output = io.StringIO()
    Console(file=output, width=140).print(rich_table(DOWN, 140))
    assert "zk1:2181  unreachable" in output.getvalue()
    assert "no server can be reached (0 of 1 serving)\nzk1:2181: Connection refused\n" in output.getvalue()


@pytest.mark.parametrize(
    ("width", "left_out"),
    [(140, set()), (80, {"epoch", "nodes", "data", "latency avg/max"}), (10, set(EXPENDABLE))],
)
def test_a_narrow_screen_shows_what_matters_most(width: int, left_out: set[str]) -> None:
    columns = {HEADINGS[index] for index in fitting_columns(DOWN, width)}
    assert set(HEADINGS) - columns == left_out


@pytest.mark.parametrize("has_rich", [True, False])
async def test_a_person_sees_the_latest_report(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, has_rich: bool
) -> None:
    """In colours where rich is installed; else the screen is cleared in between."""
    terminal = FakeTerminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    if not has_rich:
        monkeypatch.setattr("client.status.show.find_spec", lambda name: None)
    screen = Screen(as_json=False)
    screen.show(UP)
    assert "the server is serving" in terminal.getvalue()
    with trio.move_on_after(3):
        await keep_showing(looking(UP, DOWN), screen, 2)
    assert "no server can be reached" in terminal.getvalue()
    assert (CLEAR in terminal.getvalue()) is not has_rich
