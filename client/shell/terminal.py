"""A person at a terminal: history and completion where prompt_toolkit is installed, plain lines where not.

Ctrl-C ends the line that is typed or the command that runs, never the session. Ctrl-D, quit and exit end the
shell.
"""

import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.util import find_spec

import trio

from client.connect_string import host_port
from client.shell.script import Quit, run_line
from client.shell.trio_shell import TrioShell

INSTALL_HINT = "no history and no completion: pip install 'triokeeper[shell]' brings them"

Reader = Callable[[str], Awaitable[str]]  # given the prompt; raises EOFError and KeyboardInterrupt


async def serve_person(shell: TrioShell) -> int:
    """Read and do commands until the input ends."""
    await shell.session()
    with trio.open_signal_receiver(signal.SIGINT) as interrupts:
        read = _reader(shell, interrupts)
        while True:
            try:
                await do_unless_interrupted(shell, await read(prompt_of(shell)), interrupts)
            except KeyboardInterrupt:
                continue
            except (EOFError, Quit):
                return 0


def prompt_of(shell: TrioShell) -> str:
    """Where commands go, and what is wrong with that, if anything."""
    session = shell.current_session
    if session is None or session.address is None:
        return f"{shell.servers} (not connected)> "
    return f"{host_port(*session.address)}{shell.servers.chroot.prefix}> "


def _reader(shell: TrioShell, interrupts: AsyncIterator[int]) -> Reader:
    if find_spec("prompt_toolkit") is not None:
        from client.shell.completion import prompting_reader

        return prompting_reader(shell)
    shell.note(INSTALL_HINT)

    async def read(prompt: str) -> str:
        return await _read_plainly(prompt, interrupts)

    return read


async def _read_plainly(prompt: str, interrupts: AsyncIterator[int]) -> str:
    """A line as the terminal itself lets people edit it; Ctrl-C writes the prompt again."""
    typed = ""

    def show_prompt(before: str = "\n") -> None:
        sys.stdout.write(before + prompt)
        sys.stdout.flush()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_on_each, interrupts, show_prompt)
        show_prompt("")
        typed = await read_stdin()
        nursery.cancel_scope.cancel()
    if not typed:
        raise EOFError
    return typed


async def read_stdin() -> str:
    """A line with its end, or nothing at the end of the input. Sessions go on meanwhile."""
    return await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)


async def do_unless_interrupted(shell: TrioShell, line: str, interrupts: AsyncIterator[int]) -> None:
    """Do a line. Ctrl-C ends it, and nothing else. Raises Quit."""
    has_quit = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_on_each, interrupts, nursery.cancel_scope.cancel)
        try:
            await run_line(shell, line)
        except Quit:
            has_quit = True
        nursery.cancel_scope.cancel()
    if has_quit:
        raise Quit


async def _on_each(interrupts: AsyncIterator[int], act: Callable[[], object]) -> None:
    async for _ in interrupts:
        act()
