"""`triokeeper scripts`: puts ZooKeeper's scripts into a directory, and runs what stands behind each of them.

    triokeeper scripts list
    triokeeper scripts install DIR [--command TRIOKEEPER] [NAME...]
    triokeeper scripts run NAME [ARGUMENT...]

`run` is for the scripts themselves, which set the environment that it reads.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

Run = Callable[[Sequence[str], Mapping[str, str]], int]

USAGE = """\
Usage: triokeeper scripts list
       triokeeper scripts install DIR [--command TRIOKEEPER] [NAME...]
       triokeeper scripts run NAME [ARGUMENT...]   (what the installed scripts do)"""

# The module and function behind each script.
SCRIPTS: dict[str, tuple[str, str]] = {
    "zkServer.sh": ("server.tools.zk_server", "main"),
    "zkServer-initialize.sh": ("server.tools.initialize", "main"),
    "zkCli.sh": ("server.tools.shells", "zk_cli"),
    "zkCleanup.sh": ("server.tools.cleanup", "main"),
    "zkTxnLogToolkit.sh": ("server.tools.txn_log_toolkit", "main"),
    "zkSnapShotToolkit.sh": ("server.tools.snapshot_toolkit", "main"),
    "zkSnapshotComparer.sh": ("server.tools.snapshot_comparer", "main"),
    "zkSnapshotRecursiveSummaryToolkit.sh": ("server.tools.snapshot_summary", "main"),
}
# Kafka's, which Confluent ships without `.sh`.
for _ending in ("", ".sh"):
    SCRIPTS[f"zookeeper-shell{_ending}"] = ("server.tools.shells", "zookeeper_shell")
    SCRIPTS[f"zookeeper-server-start{_ending}"] = ("server.tools.kafka_server", "start")
    SCRIPTS[f"zookeeper-server-stop{_ending}"] = ("server.tools.kafka_server", "stop")
ENVIRONMENT_SCRIPT = "zkEnv.sh"


def main(arguments: Sequence[str]) -> int:
    """Run `triokeeper scripts` with these arguments; the exit code."""
    match list(arguments):
        case ["list"]:
            print("\n".join([ENVIRONMENT_SCRIPT, *SCRIPTS]))
            return 0
        case ["install", directory, "--command", command, *names]:
            return install(directory, names, command)
        case ["install", directory, *names] if not directory.startswith("-"):
            return install(directory, names, sys.argv[0])
        case ["run", name, *others] if name in SCRIPTS:
            return run(name, others)
        case ["run", name, *_]:
            print(f"there is no script {name}; triokeeper scripts list names them", file=sys.stderr)
            return 2
        case ["-h"] | ["--help"]:
            print(USAGE)
            return 0
        case _:
            print(USAGE, file=sys.stderr)
            return 2


def run(name: str, arguments: Sequence[str]) -> int:
    """What the script of this name does."""
    if "TRIOKEEPER_SCRIPT" not in os.environ:
        print(
            f"{name} needs what zkEnv.sh sets: run the script that `triokeeper scripts install` writes",
            file=sys.stderr,
        )
        return 2
    module, function = SCRIPTS[name]
    behind_it: Run = getattr(import_module(module), function)
    prepare_streams()
    try:
        code = behind_it(arguments, os.environ)
        sys.stdout.flush()
    except OSError as problem:  # the output cannot be written
        if not isinstance(problem, BrokenPipeError):  # then whoever read it has seen enough
            print(f"{name}: {problem.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def prepare_streams() -> None:
    """A path or data may hold what a terminal cannot show, and a stream that is closed is None."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        getattr(sys, name).reconfigure(errors="replace")


def install(directory: str, names: Sequence[str], command: str) -> int:
    """Write the scripts of these names, or all, into a directory, which is made if it is not there.

    They will run `command`, the path of `triokeeper`.
    """
    unknown = [name for name in names if name not in SCRIPTS]
    if unknown:
        print(f"there is no script {', '.join(unknown)}; triokeeper scripts list names them", file=sys.stderr)
        return 2
    from server.tools.installing import write_scripts

    try:
        write_scripts(directory, names or list(SCRIPTS), os.path.abspath(command))
    except OSError as problem:
        print(f"{problem.filename}: {problem.strerror}; no scripts were installed", file=sys.stderr)
        return 1
    return 0
