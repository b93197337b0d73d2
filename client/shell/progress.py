"""A progress bar for what takes long: on a terminal, with rich installed, and not before half a second."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from client.shell.walk import Advance, ignore_progress

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE_S = 0.5


@contextmanager
def progress_bar(description: str, total: int | None) -> Iterator[Advance]:
    """A function to call with how many more are done."""
    if not sys.stderr.isatty() or find_spec("rich") is None:
        yield ignore_progress
        return
    bar = _LateBar(description, total)
    try:
        yield bar.advance
    finally:
        bar.close()


class _LateBar:
    """Draws nothing for work that is done at once: rich takes longer to import than most of it."""

    def __init__(self, description: str, total: int | None) -> None:
        self._description = description
        self._total = total
        self._begun = time.monotonic()
        self._done = 0
        self._progress: Progress | None = None

    def advance(self, count: int) -> None:
        self._done += count
        if self._progress is None and time.monotonic() - self._begun > PATIENCE_S:
            self._progress = self._start()
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=self._done)

    def _start(self) -> "Progress":
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        progress.add_task(self._description, total=self._total)
        progress.start()
        return progress

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
