"""The `triokeeper` command.

A server should be up in a fraction of a second, so each command imports what it needs when it runs.
"""

import os
import shlex
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import click

from server import VERSION
from server.build_kind import build_kind
from server.starting import INSTALL_SNAPPY, OPTIONS, start_server

EXIT_UNSOUND_FILE = 1


# Commands that live beside what they run, by module and name: imported when asked for.
COMMANDS_ELSEWHERE: dict[str, tuple[str, str]] = {
    "cli": ("client.shell.command", "cli"),
    "completion": ("server.completion_command", "completion"),
    "crosscheck": ("client.crosscheck.command", "crosscheck"),
    "entrypoint": ("server.container.command", "entrypoint"),
    "scripts": ("server.tools.scripts_command", "scripts"),
    "status": ("client.status.command", "status"),
    "systemd-unit": ("server.systemd.unit_command", "systemd_unit"),
    "zkcli": ("client.zkcli.command", "zkcli"),
}


class Commands(click.Group):
    """The commands of this file, and those of `COMMANDS_ELSEWHERE`.

    Who leaves out `start` and goes on with its arguments is told so.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = shlex.join(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as problem:
            if problem.option_name not in OPTIONS.values():
                raise
            raise click.UsageError(f"{problem.format_message()} {meant(given)}", ctx) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        given = shlex.join(args)
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as problem:
            if not args[0].isdecimal() and not os.path.exists(args[0]):
                raise
            raise click.UsageError(f"{problem.format_message()} {meant(given)}", ctx) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *COMMANDS_ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS_ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module, name = COMMANDS_ELSEWHERE[cmd_name]
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command


def meant(arguments: str) -> str:
    return f"Did you mean: triokeeper start {arguments}"


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(VERSION, prog_name="triokeeper", message=f"%(prog)s %(version)s ({build_kind()})")
@click.pass_context
def main(ctx: click.Context) -> None:
    """A ZooKeeper server without the JVM.

    \b
    triokeeper                           a server on 127.0.0.1:2181, its data under ./data
    triokeeper start --port 2182         the same on another port; --data and --address choose more
    triokeeper start /conf/zoo.cfg       an existing configuration
    triokeeper dev --servers 3           a whole ensemble on this machine, to try things out with
    triokeeper cli ls /                  look at a tree, copy it, watch it
    triokeeper status                    an ensemble at a glance, and whether it serves
    triokeeper crosscheck --help         try another server with your application's own traffic
    triokeeper log inspect FILE          what a transaction log holds
    triokeeper snapshot inspect FILE     what a snapshot holds
    """
    if ctx.invoked_subcommand is None:
        sys.exit(start_server(()))


def _not_empty(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    if text is not None and not text.strip():
        raise click.BadParameter("it is empty; leave the option out for the default")
    return text


@main.command()
@click.argument(
    "arguments",
    nargs=-1,
    type=click.Path(),
    metavar="[CONFIGFILE | PORT DATADIR [TICKTIME] [MAXCNXNS]]",
)
@click.option("--port", type=click.IntRange(0, 65535), help="The client port; 0 for any. Default: 2181.")
@click.option(
    "--data",
    type=click.Path(file_okay=False),
    callback=_not_empty,
    help="Where the data is kept. Default: ./data.",
)
@click.option(
    "--address", callback=_not_empty, help="Where to listen; 0.0.0.0 for everywhere. Default: 127.0.0.1."
)
def start(arguments: tuple[str, ...], port: int | None, data: str | None, address: str | None) -> NoReturn:
    """Run a server until SIGTERM or SIGINT.

    Without arguments it serves this machine alone, at 127.0.0.1:2181, from ./data; --port, --data and
    --address change that. A configuration file or PORT DATADIR takes no options.

    CONFIGFILE is a zoo.cfg. Settings that ZooKeeper takes as Java properties are read from it too, and from
    -D flags in JVMFLAGS, SERVER_JVMFLAGS, and the files java.env and zookeeper-env.sh beside it; zoo.cfg
    comes first. Keys that have no effect are named in the log.

    \b
    Environment:
      TRIOKEEPER_LOG        console, plain or json; default: console on a terminal, else plain
      TRIOKEEPER_LOG_LEVEL  debug, info, warning or error

    \b
    Exit codes:
      0   stopped by a signal
      1   unexpected error, or the client port is taken
      2   wrong configuration or arguments
      3   data directory not usable
      14  election port not usable
    """
    folder = None if data is None else os.path.abspath(data)
    given = {"clientPort": port, "dataDir": folder, "clientPortAddress": address}
    sys.exit(start_server(arguments, {key: str(value) for key, value in given.items() if value is not None}))


@main.command()
@click.option(
    "--servers", default=3, show_default=True, type=click.IntRange(1, 50), help="Members that vote."
)
@click.option("--observers", default=0, type=click.IntRange(0, 50), help="Members that do not.")
@click.option(
    "--base-port",
    default=2181,
    show_default=True,
    type=click.IntRange(1, 60000),
    help="The first client port. Others: one up for each member; quorum 700 and election 1700 above.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep logs and data here, and go on with what is there; else they go away in the end.",
)
def dev(servers: int, observers: int, base_port: int, data: Path | None) -> None:
    """Run an ensemble on 127.0.0.1, each member a process of its own, until quit or Ctrl-C.

    Takes commands on standard input: status, leader, kill N, stop N, start N, restart N, help, quit.
    """
    from server.dev_ensemble import DevError, run_until_told

    try:
        run_until_told(servers, observers, base_port, data, click.echo)
    except DevError as problem:
        raise click.ClickException(str(problem)) from None


@main.group(name="log")
def log_commands() -> None:
    """Transaction logs: the files log.* in dataLogDir/version-2."""


@log_commands.command(name="inspect")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each transaction.")
def inspect_log_file(file: Path, as_json: bool) -> None:
    """Write out a transaction log, one line for each transaction.

    A damaged log is shown up to the damage; then the command says where and what it is, and ends with exit
    code 1.
    """
    from server.inspect_log import inspect_log

    show(file, inspect_log(file, as_json=as_json))


@main.group(name="snapshot")
def snapshot_commands() -> None:
    """Snapshots: the files snapshot.* in dataDir/version-2."""


@snapshot_commands.command(name="inspect")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each session and node.")
@click.option("-d", "--data", "with_data", is_flag=True, help="Show the nodes' data, not only its length.")
def inspect_snapshot_file(file: Path, as_json: bool, with_data: bool) -> None:
    """Write out a snapshot: every node with its bookkeeping, then the sessions.

    A damaged snapshot is shown up to the damage; then the command says where and what it is, and ends with
    exit code 1.
    """
    from server.inspect_snapshot import inspect_snapshot

    show(file, inspect_snapshot(file, as_json=as_json, with_data=with_data))


def show(file: Path, lines: Iterable[str]) -> None:
    """Print the lines as they come; if they end in an error, say so and exit with 1."""
    from persistence.errors import StorageError

    try:
        for line in lines:
            click.echo(line)
    except StorageError as problem:
        click.echo(f"{problem}.", err=True)
        sys.exit(EXIT_UNSOUND_FILE)
    except ModuleNotFoundError as problem:
        click.echo(f"{file} needs the library {problem.name}; {INSTALL_SNAPPY}", err=True)
        sys.exit(EXIT_UNSOUND_FILE)
    except BrokenPipeError:
        raise  # whoever read our output has seen enough; click ends quietly
    except OSError as problem:
        click.echo(f"File doesn't exist or not readable: {file} ({problem.strerror})", err=True)
        sys.exit(EXIT_UNSOUND_FILE)
