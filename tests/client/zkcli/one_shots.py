"""One-shot zkCli commands in this process: nearly all of a command's time goes into starting Python."""

from collections.abc import Sequence
from io import StringIO
from typing import Self

import trio

from client.zkcli.console import Console
from client.zkcli.main import run
from tools.zkcli.processes import Answer, Running, split_events, start_process


class OneShot:
    """A command that runs when its input ends."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.events: list[str] = []
        self._arguments = arguments
        self._exit_code: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to be ended."""

    def read_start(self) -> Answer:
        raise AssertionError("a one-shot command asks for nothing")

    def enter(self, line: str) -> Answer:
        raise AssertionError("a one-shot command asks for nothing")

    def end_input(self, last: str = "") -> Answer:
        out, err = StringIO(), StringIO()
        self._exit_code = trio.run(run, self._arguments, Console(out, err))
        text, self.events = split_events(out.getvalue())
        return Answer(text, err.getvalue(), None)

    def exit_code(self) -> int:
        assert self._exit_code is not None, "it has ended"
        return self._exit_code


def start_here(arguments: Sequence[str], is_one_shot: bool) -> Running:
    """One-shot commands in this process, sessions in one of their own."""
    return OneShot(arguments) if is_one_shot else start_process("triokeeper")(arguments, is_one_shot)
