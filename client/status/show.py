"""Reports on the screen: once, as soon as all are in, or again and again."""

import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from importlib.util import find_spec

import click
import trio

from client.status.report import Report, Verdict
from client.status.table import plain_table

WAIT_PAUSE_S = 0.25
CLEAR = "\x1b[H\x1b[2J"


class Screen:
    """Where reports go: JSON lines, plain tables or, on a terminal with rich installed, coloured ones."""

    def __init__(self, *, as_json: bool) -> None:
        self.last_verdict = Verdict.UNREACHABLE
        self._as_json = as_json
        self._is_terminal = sys.stdout.isatty()
        self._has_rich = self._is_terminal and not as_json and find_spec("rich") is not None
        self._is_live = False
        self._update: Callable[[Report], None] | None = None

    def show(self, report: Report) -> None:
        self.last_verdict = report.verdict
        if self._as_json:
            click.echo(json.dumps(report.as_json()))
        elif self._update is not None:
            self._update(report)
        elif self._has_rich:
            from rich.console import Console

            from client.status.rich_table import rich_table

            console = Console(highlight=False)
            console.print(rich_table(report, console.width))
        else:
            click.echo((CLEAR if self._is_live and self._is_terminal else "") + plain_table(report))

    def live(self) -> AbstractContextManager[object]:
        """For the time of the block, each report replaces the one before, where there is a terminal."""
        self._is_live = True
        if not self._has_rich:
            return nullcontext()
        from rich.live import Live

        from client.status.rich_table import rich_table

        stack = ExitStack()
        shown = stack.enter_context(Live(auto_refresh=False, screen=False))
        self._update = lambda report: shown.update(rich_table(report, shown.console.width), refresh=True)
        return stack


async def show_once(look: Callable[[], Awaitable[Report]], screen: Screen, wait_s: float) -> Verdict:
    """Show the report on which all are in, or the last one within the time given."""
    deadline = trio.current_time() + wait_s
    report = await look()
    while report.verdict is not Verdict.ALL_IN and trio.current_time() + WAIT_PAUSE_S <= deadline:
        await trio.sleep(WAIT_PAUSE_S)
        report = await look()
    screen.show(report)
    return report.verdict


async def keep_showing(look: Callable[[], Awaitable[Report]], screen: Screen, every_s: float) -> None:
    """Show a report every so often, until cancelled."""
    with screen.live():
        while True:
            screen.show(await look())
            await trio.sleep(every_s)
