"""`triokeeper zkcli ARGUMENTS`: one command, commands from a pipe, or a person at a terminal."""

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

import trio

from client.errors import ServerError
from client.zkcli.client_settings import EXIT_INVALID_INVOCATION, SettingsRefused
from client.zkcli.command_words import Invocation, parse_invocation
from client.zkcli.console import Console
from client.zkcli.failures import EXIT_FAILED, JavaException
from client.zkcli.input_lines import InputLines
from client.zkcli.line_editing import added, edited
from client.zkcli.shell import Quit, Shell

CONNECT_BEFORE_PROMPT_S_MAX = 0.5


def main(arguments: Sequence[str]) -> int:
    """Run a zkCli to its end; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a trace, but at a terminal
    return trio.run(run, arguments, Console())


async def run(arguments: Sequence[str], console: Console) -> int:
    invocation = parse_invocation(arguments)
    if invocation.problem is not None:
        console.err(invocation.problem)
    console.out(f"Connecting to {invocation.server}")
    async with trio.open_nursery() as nursery:
        shell = Shell(invocation, console, nursery)
        exit_code = await _run_to_end(shell, invocation)
        shell.leave()
    return exit_code


async def _run_to_end(shell: Shell, invocation: Invocation) -> int:
    try:
        await shell.connect()
        await _serve(shell, invocation)
    except Quit:
        return shell.exit_code
    except JavaException as exception:
        shell.console.err(f'Exception in thread "main" {exception}')
        return EXIT_FAILED
    except SettingsRefused as refused:
        shell.console.err(str(refused))
        return EXIT_INVALID_INVOCATION
    return shell.exit_code


async def _serve(shell: Shell, invocation: Invocation) -> None:
    if invocation.words:
        await shell.run(invocation.words)
        return
    shell.console.out("Welcome to ZooKeeper!")
    shell.console.out("JLine support is enabled")
    with suppress(TimeoutError, ServerError):  # so that the first prompt tells that it is connected
        await shell.session.wait_connected(CONNECT_BEFORE_PROMPT_S_MAX)
    if sys.stdin.isatty() and sys.stdout.isatty():
        from client.zkcli.terminal import serve_person

        await serve_person(shell)
    else:
        await _serve_pipe(shell)


async def _serve_pipe(shell: Shell) -> None:
    """Read lines to the end of the input, each as JLine hands it to Apache's zkCli."""
    history: list[str] = []
    lines = InputLines()
    while True:
        shell.console.out_text(shell.prompt)
        typed = await lines.next_line()
        if typed is None:
            break
        kept, line = edited(typed, history)
        history = added(history, kept)
        await shell.enter(line)
    shell.console.out("JLine support is disabled")
