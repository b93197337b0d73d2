"""The command line of `triokeeper cli`: one command, a script on stdin, or a person at a terminal."""

import inspect
import os
import sys
from collections.abc import Coroutine, Sequence
from typing import Any, NoReturn

import click

from client.connect_string import ConnectString, InvalidConnectString, parse_connect_string
from client.option_types import Seconds
from client.paths import InvalidPath
from client.requester import DEFAULT_TIMEOUT_MS
from client.shell.blocking_shell import BlockingShell
from client.shell.command_table import ShellCommands, takes_its_time
from client.shell.script import run_script
from client.shell.shell import Settings, Shell
from client.standard_streams import open_missing_streams
from client.status.default_address import default_address

WAIT_S = 5.0


def _parse_servers(ctx: click.Context, param: click.Parameter, text: str | None) -> ConnectString:
    if text is None:
        return ConnectString((default_address(os.environ),))
    try:
        return parse_connect_string(text)
    except (InvalidConnectString, InvalidPath) as problem:
        raise click.BadParameter(str(problem)) from None


def _parse_auths(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, bytes], ...]:
    for text in texts:
        if ":" not in text:
            raise click.BadParameter(f"{text!r}: expected SCHEME:CREDENTIALS, e.g. digest:user:password")
    return tuple(
        (scheme, auth.encode(errors="surrogateescape"))
        for scheme, _, auth in (text.partition(":") for text in texts)
    )


@click.group(
    cls=ShellCommands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "-s",
    "--server",
    "servers",
    metavar="HOST:PORT,.../CHROOT",
    callback=_parse_servers,
    help="Default: this machine's.",
)
@click.option(
    "--wait",
    "wait_s",
    default=WAIT_S,
    show_default=True,
    type=Seconds(0),
    metavar="SECONDS",
    help="For a server to answer.",
)
@click.option(
    "--session-timeout",
    "session_timeout_s",
    default=DEFAULT_TIMEOUT_MS / 1000,
    show_default=True,
    type=Seconds(0.001),
    metavar="SECONDS",
)
@click.option("-r", "--read-only", is_flag=True, help="A server without a quorum will do.")
@click.option(
    "--auth",
    "auths",
    multiple=True,
    metavar="SCHEME:CREDENTIALS",
    callback=_parse_auths,
    help="As addauth; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Results as JSON, for all commands that read.")
@click.pass_context
def cli(
    ctx: click.Context,
    servers: ConnectString,
    wait_s: float,
    session_timeout_s: float,
    read_only: bool,
    auths: tuple[tuple[str, bytes], ...],
    as_json: bool,
) -> Coroutine[Any, Any, int] | None:
    """Look at the tree and change it.

    With a COMMAND it does that; without one it reads commands, from a person or a script. A script ends at
    the first command that fails. Standard output holds results and nothing else.

    \b
    Exit codes:
      0    done
      1    the server said no, nothing matches, it differs
      2    wrong arguments
      3    no server answered in time
      127  there is no such command
    """
    open_missing_streams()
    settings = Settings(servers, wait_s, int(session_timeout_s * 1000), read_only, auths, as_json)
    if ctx.invoked_subcommand is not None and not takes_its_time(ctx.invoked_subcommand):
        ctx.obj = BlockingShell(settings)
        return None
    from client.shell.trio_shell import TrioShell

    ctx.obj = shell = TrioShell(settings)
    if ctx.invoked_subcommand is not None:
        return None
    from client.shell.terminal import read_stdin, serve_person

    return serve_person(shell) if sys.stdin.isatty() else run_script(shell, read_stdin)


@cli.result_callback()
@click.pass_obj
def _run(shell: Shell, /, work: object, **options: object) -> None:
    if not inspect.iscoroutine(work):
        return  # --help
    sys.exit(shell.run(work))


def main(arguments: Sequence[str]) -> NoReturn:
    """Run it without the rest of `triokeeper`, which takes longer to import than this."""
    cli.main(list(arguments), prog_name="triokeeper cli")
