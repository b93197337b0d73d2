"""A person at a terminal: history and completion by prompt_toolkit if it is installed, else plain lines.

Ctrl-C ends the line that is typed or the command that runs, never the session; Ctrl-D ends zkCli. What ends
Apache's zkCli with a stack trace, such as a version that is no number, ends only the command here.
"""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from importlib.util import find_spec

import trio

from client.zkcli.failures import JavaException
from client.zkcli.input_lines import InputLines
from client.zkcli.line_editing import added, edited
from client.zkcli.shell import Quit, Shell


async def serve_person(shell: Shell) -> None:
    """Read and do commands until the input ends. Raises Quit."""
    history: list[str] = []
    with trio.open_signal_receiver(signal.SIGINT) as interrupts:
        read = _line_reader(shell, interrupts)
        while True:
            try:
                typed = await read()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            kept, line = edited(typed, history)
            history = added(history, kept)
            await _enter(shell, line, interrupts)


def _line_reader(shell: Shell, interrupts: AsyncIterator[int]) -> Callable[[], Awaitable[str]]:
    if find_spec("prompt_toolkit") is not None:
        from client.zkcli.prompting import fancy_reader

        return fancy_reader(shell)

    return partial(_read_plainly, shell, InputLines(), interrupts)


async def _read_plainly(shell: Shell, lines: InputLines, interrupts: AsyncIterator[int]) -> str:
    """A line as the terminal itself lets people edit it; Ctrl-C writes the prompt again."""
    typed: str | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_on_each, interrupts, lambda: shell.console.out_text(f"\n{shell.prompt}"))
        shell.console.out_text(shell.prompt)
        typed = await lines.next_line()
        nursery.cancel_scope.cancel()
    if typed is None:
        raise EOFError
    return typed


async def _on_each(interrupts: AsyncIterator[int], act: Callable[[], None]) -> None:
    async for _ in interrupts:
        act()


async def _enter(shell: Shell, line: str, interrupts: AsyncIterator[int]) -> None:
    """Do a command unless it is interrupted."""
    has_quit = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_on_each, interrupts, nursery.cancel_scope.cancel)
        try:
            await shell.enter(line)
        except Quit:
            has_quit = True
        except JavaException as exception:
            shell.console.err(str(exception))
            shell.fail()
        nursery.cancel_scope.cancel()
    if has_quit:
        raise Quit
