"""Commands from lines: of a script, or of a person."""

import inspect
import shlex
from collections.abc import Awaitable, Callable
from itertools import count

import click

from client.shell.command_table import ShellCommands
from client.shell.failures import EXIT_USAGE, CommandFailed
from client.shell.shell import Shell

LINES = ShellCommands("", add_help_option=False)


class Quit(Exception):
    """`quit` or `exit`."""


async def run_script(shell: Shell, read_line: Callable[[], Awaitable[str]]) -> int:
    """Do one command after the other, until one fails or a line is empty to its very end."""
    for number in count(1):
        line = await read_line()
        if not line:
            break
        try:
            exit_code = await run_line(shell, line)
        except Quit:
            break
        if exit_code:
            shell.note(f"line {number}: {line.strip()}")
            return exit_code
    return 0


async def run_line(shell: Shell, line: str) -> int:
    """Do what a line says, and return the exit code. Raises Quit."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError as problem:
        return shell.complain(CommandFailed(f"{problem}: {line.strip()}", EXIT_USAGE))
    if not words:
        return 0
    if words[0] in ("quit", "exit"):
        raise Quit
    if words == ["help"]:
        words = ["--help"]
    shell.wants_json = shell.settings.as_json
    return await _run_words(shell, words)


async def _run_words(shell: Shell, words: list[str]) -> int:
    if words == ["--help"]:
        shell.out(LINES.get_help(click.Context(LINES, info_name="")))
        return 0
    try:
        work = LINES.main(words, prog_name="", obj=shell, standalone_mode=False)
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    return await shell.attempt(work) if inspect.iscoroutine(work) else 0
