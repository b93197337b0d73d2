"""The `triokeeper` command.

A server should be up in a fraction of a second, so each command imports what it needs when it runs.
"""

import os
import signal
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from server import VERSION
from server.build_kind import build_kind
from server.config_error import INVALID_ARGUMENTS, ConfigError

if TYPE_CHECKING:
    from server.config import LoadedConfig
    from server.run import Companion

USAGE = "Usage: triokeeper start [configfile | port datadir [ticktime] [maxcnxns]]"
INSTALL_SNAPPY = "install it with: pip install 'triokeeper[snappy]'"
EXIT_UNSOUND_FILE = 1


# Commands that live beside what they run, by module and name: imported when asked for.
COMMANDS_ELSEWHERE: dict[str, tuple[str, str]] = {
    "change-tree-for-tests": ("server.test_control", "change_tree_for_tests"),
    "cli": ("client.shell.command", "cli"),
    "entrypoint": ("server.container.command", "entrypoint"),
    "scripts": ("server.tools.scripts_command", "scripts"),
    "serve-for-tests": ("server.test_control", "serve_for_tests"),
    "status": ("client.status.command", "status"),
    "zkcli": ("client.zkcli.command", "zkcli"),
}


class Commands(click.Group):
    """The commands of this file, and those of `COMMANDS_ELSEWHERE`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *COMMANDS_ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS_ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module, name = COMMANDS_ELSEWHERE[cmd_name]
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="triokeeper", message=f"%(prog)s %(version)s ({build_kind()})")
def main() -> None:
    """A ZooKeeper server without the JVM.

    \b
    triokeeper start                     a server on 127.0.0.1:2181, its data under ./data
    triokeeper start /conf/zoo.cfg       an existing configuration
    triokeeper dev --servers 3           a whole ensemble on this machine, to try things out with
    triokeeper cli ls /                  look at a tree, copy it, watch it
    triokeeper status                    an ensemble at a glance, and whether it serves
    triokeeper log inspect FILE          what a transaction log holds
    triokeeper snapshot inspect FILE     what a snapshot holds
    """


@main.command()
@click.argument("arguments", nargs=-1, metavar="[CONFIGFILE | PORT DATADIR [TICKTIME] [MAXCNXNS]]")
def start(arguments: tuple[str, ...]) -> NoReturn:
    """Run a server until SIGTERM or SIGINT.

    Without arguments it serves this machine alone, at 127.0.0.1:2181, from ./data.

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
    sys.exit(start_server(arguments))


def start_server(
    arguments: tuple[str, ...], *, beside: "Companion | None" = None, shares_ports: bool = False
) -> int:
    """Run the server that the arguments of `start` name, to its end; returns the process's exit code."""
    from server.container.process_one import end_on_signals, take_note_of_orphans
    from server.logging_setup import choose_format, choose_level, configure_logging, unknown_choices

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the server listens to it: no traceback
    end_on_signals()
    take_note_of_orphans()
    form = choose_format(os.environ, is_terminal=sys.stdout is not None and sys.stdout.isatty())
    try:
        loaded = load(arguments)
    except ConfigError as error:
        configure_logging(form, choose_level(os.environ, {}))
        refuse(error, is_logged=form != "console")
    configure_logging(form, choose_level(os.environ, loaded.properties), loaded.config.my_id)
    log_notes(loaded, unknown_choices(os.environ))
    from server.run import serve_until_signalled

    return serve_until_signalled(loaded, beside=beside, shares_ports=shares_ports)


def load(arguments: tuple[str, ...]) -> "LoadedConfig":
    """The configuration that the arguments of `start` name, if this installation can run it."""
    from server.config_loading import load_config, load_direct_form

    if len(arguments) > 1:
        return load_direct_form(arguments, os.environ)
    loaded = load_config(Path(arguments[0]) if arguments else None, os.environ)
    if loaded.config.snapshot_compression == "snappy" and find_spec("cramjam") is None:
        raise ConfigError(
            wording="snappy snapshots need the library cramjam, which is not installed",
            remedy=f"{INSTALL_SNAPPY}, or choose gz",
            key="snapshot.compression.method",
        )
    return loaded


def refuse(error: ConfigError, *, is_logged: bool) -> NoReturn:
    """End with the error's exit code, saying why on stderr and, unless a person sees both, in the log."""
    if is_logged:
        import structlog

        log = structlog.get_logger()
        log.error(error.summary, reason=str(error))
        log.error(f"Exiting JVM with code {error.exit_code}")
    click.echo(error.summary, err=True)
    click.echo(error, err=True)
    if error.summary == INVALID_ARGUMENTS:
        click.echo(USAGE, err=True)
    sys.exit(error.exit_code)


def log_notes(loaded: "LoadedConfig", warnings: Iterable[str]) -> None:
    import structlog

    log = structlog.get_logger()
    for warning in warnings:
        log.warning(warning)
    for note in loaded.notes:
        getattr(log, note.level)(note.message)


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
