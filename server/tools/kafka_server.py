"""Kafka's and Confluent's zookeeper-server-start and zookeeper-server-stop."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from server.tools.server_process import command_line, is_server

START_USAGE = "USAGE: {script} [-daemon] zookeeper.properties"
# Where Kafka's scripts take flags for the JVM from, in the order in which Java sees them.
FLAG_VARIABLES = ("KAFKA_HEAP_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_JMX_OPTS", "KAFKA_OPTS")


def start(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Become a server with the configuration file named; -daemon starts one in the background."""
    is_daemon = arguments[:1] == ["-daemon"]
    files = arguments[1:] if is_daemon else arguments
    if not files:
        print(START_USAGE.format(script=environ["TRIOKEEPER_SCRIPT"]), file=sys.stderr)
        return 1
    command = [environ["TRIOKEEPER"], "start", files[0]]
    environment = with_flags(environ)
    from server.tools.server_process import become, leave_running, start_in_background

    if not is_daemon:
        return become(command, environment)
    log_dir = environ.get("LOG_DIR") or environ["ZOO_LOG_DIR"]
    try:
        process = start_in_background(command, environment, f"{log_dir}/zookeeper.out")
    except OSError as problem:
        print(f"{problem.filename}: {problem.strerror}; LOG_DIR names another directory", file=sys.stderr)
        return 1
    leave_running(process)
    return 0


def with_flags(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with Kafka's JVM flags in JVMFLAGS, where the server looks for -D settings."""
    flags = [environ[name] for name in ("JVMFLAGS", *FLAG_VARIABLES) if environ.get(name)]
    return dict(environ) | {"JVMFLAGS": " ".join(flags)}


def stop(
    _arguments: Sequence[str],
    environ: Mapping[str, str],
    processes: Path = Path("/proc"),
    kill: Callable[[int, int], None] = os.kill,
) -> int:
    """Send SIGTERM, or the signal in SIGNAL, to every server of this machine, as Kafka's script does."""
    name = environ.get("SIGNAL") or "TERM"
    number = signal_number(name)
    if number is None:
        print(f"SIGNAL={name}: there is no such signal; TERM and INT end a server", file=sys.stderr)
        return 1
    pids = list(servers(processes))
    if not pids:
        print("No zookeeper server to stop")
        return 1
    failed = 0
    for pid in pids:
        try:
            kill(pid, number)
        except OSError as problem:
            print(f"kill: ({pid}) - {problem.strerror}", file=sys.stderr)
            failed = 1
    return failed


def signal_number(name: str) -> int | None:
    """The number of a signal as `kill -s` takes it: TERM, term, SIGTERM or 15."""
    if name.isascii() and name.isdigit():
        return int(name) if int(name) in set(signal.Signals) else None
    signals = {number.name.removeprefix("SIG"): number for number in signal.Signals}
    return signals.get(name.upper().removeprefix("SIG"))


def servers(processes: Path) -> Iterator[int]:
    """The processes that run `triokeeper start` or Java's server, by their command lines in /proc."""
    for entry in sorted(processes.iterdir()):
        if entry.name.isdigit():
            words = command_line(int(entry.name), processes)
            if is_server(words):  # none if it has ended meanwhile, or is another user's
                yield int(entry.name)
