"""Shows how far a server is while it loads a large snapshot or log."""

import sys
import time
from typing import TextIO

from eventlog import log

_QUIET_SECONDS = 1.0


class LoadingProgress:
    """A persistence.recovery.Progress: nothing for the first second, then a line now and then.

    At a terminal the line is drawn over; elsewhere every tenth of the way is logged.
    """

    def __init__(self, terminal: TextIO | None) -> None:
        self._terminal = terminal
        self._shown_at = time.monotonic()
        self._shown = ("", 0)
        self._is_line_open = False

    def __call__(self, what: str, bytes_done: int, bytes_total: int) -> None:
        is_done = bytes_done >= bytes_total
        if time.monotonic() - self._shown_at < _QUIET_SECONDS and not (is_done and self._is_line_open):
            return
        percent = 100 * bytes_done // max(1, bytes_total)
        if self._terminal is not None:
            self._draw(f"loading the {what}: {percent}% of {bytes_total >> 20} MB", is_done)
        elif (what, percent // 10) > self._shown or what != self._shown[0]:
            self._shown = (what, percent // 10)
            log.info(f"loading_{what}", percent=percent, megabytes=bytes_total >> 20)
        self._shown_at = time.monotonic() - _QUIET_SECONDS * 0.8

    def _draw(self, line: str, is_done: bool) -> None:
        assert self._terminal is not None
        self._terminal.write(f"\r{line}\x1b[K" + ("\n" if is_done else ""))
        self._terminal.flush()
        self._is_line_open = not is_done


def loading_progress() -> LoadingProgress:
    return LoadingProgress(sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None)
