"""Where zkCli writes: each line at once, so that the two streams keep their order for whoever sees both."""

import os
import sys
from collections.abc import Iterable
from typing import TextIO

import attrs


@attrs.define
class Console:
    """stdout and stderr. A reader that is gone is nobody's problem, as in Java."""

    _stdout: TextIO | None = None  # the process's own, whichever it is at that time, if None
    _stderr: TextIO | None = None

    def out(self, line: str) -> None:
        self.out_text(f"{line}\n")

    def out_lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.out(line)

    def out_text(self, text: str) -> None:
        """Without the end of a line."""
        _write(self._stdout or sys.stdout, text)

    def err(self, line: str) -> None:
        _write(self._stderr or sys.stderr, f"{line}\n")


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # for what is still in the buffer
