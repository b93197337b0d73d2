"""From the arguments of `triokeeper start` to a server that runs, or to an error that says what is wrong.

Nothing here needs the command line's library: a server starts without it.
"""

import os
import shlex
import signal
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import attrs

from server.config_error import INVALID_ARGUMENTS, ConfigError

if TYPE_CHECKING:
    from server.config import LoadedConfig
    from server.run import Companion

USAGE = (
    "Usage: triokeeper start [configfile | port datadir [ticktime] [maxcnxns]]\n"
    "       triokeeper start [--port PORT] [--data DIR] [--address ADDRESS]"
)
# The settings that options of `start` give, for a server without a configuration file.
OPTIONS = {"clientPort": "--port", "dataDir": "--data", "clientPortAddress": "--address"}
INSTALL_SNAPPY = "install it with: pip install 'triokeeper[snappy]'"


def start_server(
    arguments: tuple[str, ...],
    options: Mapping[str, str] | None = None,
    *,
    beside: "Companion | None" = None,
    shares_ports: bool = False,
) -> int:
    """Run the server that the arguments of `start` name, to its end; returns the process's exit code.

    `options` holds settings by their key in zoo.cfg: those of `OPTIONS` that were given.
    """
    from server.container.process_one import end_on_signals, take_note_of_orphans
    from server.logging_setup import choose_format, choose_level, configure_logging, unknown_choices

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the server listens to it: no traceback
    end_on_signals()
    take_note_of_orphans()
    form = choose_format(os.environ, is_terminal=sys.stdout is not None and sys.stdout.isatty())
    try:
        loaded = load(arguments, options or {})
    except ConfigError as error:
        configure_logging(form, choose_level(os.environ, {}))
        refuse(error, is_logged=form != "console")
    configure_logging(form, choose_level(os.environ, loaded.properties), loaded.config.my_id)
    log_notes(loaded, unknown_choices(os.environ))
    from server.run import serve_until_signalled

    return serve_until_signalled(loaded, beside=beside, shares_ports=shares_ports)


def load(arguments: tuple[str, ...], options: Mapping[str, str]) -> "LoadedConfig":
    """The configuration that the arguments or options name, if this installation can run it."""
    if arguments and options:
        given = ", ".join(OPTIONS[key] for key in options)
        raise ConfigError(
            wording=f"{given} cannot be combined with {' '.join(arguments)}",
            remedy=f"leave out one of them; a configuration file sets {', '.join(options)}",
            summary=INVALID_ARGUMENTS,
        )
    loaded = load_named(arguments) if arguments else load_without_file(options)
    if loaded.config.snapshot_compression == "snappy" and find_spec("cramjam") is None:
        raise ConfigError(
            wording="snappy snapshots need the library cramjam, which is not installed",
            remedy=f"{INSTALL_SNAPPY}, or choose gz",
            key="snapshot.compression.method",
        )
    return loaded


def load_without_file(options: Mapping[str, str]) -> "LoadedConfig":
    from server.config_loading import load_defaults

    try:
        return load_defaults(os.environ, options)
    except ConfigError as error:
        if error.key is None or error.key not in options:
            raise
        raise attrs.evolve(error, key=OPTIONS[error.key], summary=INVALID_ARGUMENTS) from None


def load_named(arguments: tuple[str, ...]) -> "LoadedConfig":
    from server.config_loading import load_config, load_direct_form

    if len(arguments) > 1:
        return load_direct_form(arguments, os.environ)
    [argument] = arguments
    if is_port_alone(argument):
        raise ConfigError(
            wording=f"{argument} file is missing, and a port needs a data directory",
            remedy=(
                f"triokeeper start --port {argument} keeps its data under ./data; "
                f"triokeeper start {argument} DATADIR chooses where"
            ),
            summary=INVALID_ARGUMENTS,
        )
    if not argument:
        raise ConfigError(
            wording="the name of the configuration file is empty",
            remedy="name a file, or give no argument at all to start with the defaults",
            summary=INVALID_ARGUMENTS,
        )
    if os.path.isdir(argument):
        raise ConfigError(
            wording=f"{argument} is a directory, not a configuration file",
            remedy=f"name a file, or to keep data there: triokeeper start --data {shlex.quote(argument)}",
            summary=INVALID_ARGUMENTS,
        )
    return load_config(Path(argument), os.environ)


def is_port_alone(argument: str) -> bool:
    """A number is a file's name, as with the original, only if there is such a file."""
    return argument.isascii() and argument.isdecimal() and not Path(argument).exists()


def refuse(error: ConfigError, *, is_logged: bool) -> NoReturn:
    """End with the error's exit code, saying why on stderr and, unless a person sees both, in the log."""
    if is_logged:
        from eventlog import log

        log.error(error.summary, reason=str(error))
        log.error(f"Exiting JVM with code {error.exit_code}")
    print(error.summary, file=sys.stderr)
    print(error, file=sys.stderr)
    if error.summary == INVALID_ARGUMENTS:
        print(USAGE, file=sys.stderr)
    sys.exit(error.exit_code)


def log_notes(loaded: "LoadedConfig", warnings: Iterable[str]) -> None:
    from eventlog import log

    for warning in warnings:
        log.warning(warning)
    for note in loaded.notes:
        log.at(note.level, note.message)
