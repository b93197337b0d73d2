"""Kafka's and Confluent's zookeeper-server-start and zookeeper-server-stop."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

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
    number = getattr(signal, f"SIG{name.removeprefix('SIG')}", None)
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


def servers(processes: Path) -> Iterator[int]:
    """The processes that run `triokeeper start` or Java's server, by their command lines in /proc."""
    for entry in sorted(processes.iterdir()):
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # ended meanwhile, or another user's
            if is_server(words):
                yield int(entry.name)


def is_server(words: Sequence[bytes]) -> bool:
    if any(word.endswith(b"quorum.QuorumPeerMain") for word in words):
        return True
    programs = [os.path.basename(word) for word in words]
    return any(pair == (b"triokeeper", b"start") for pair in zip(programs, words[1:], strict=False))
