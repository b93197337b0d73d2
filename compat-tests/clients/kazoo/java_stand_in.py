"""A `java` for programs that start ZooKeeper themselves: it starts Triokeeper with the same zoo.cfg.

Test harnesses (Kazoo's among them) run `java [flags] org.apache...QuorumPeerMain zoo.cfg`. Where `install`
has put this first on the PATH they get Triokeeper, and neither the harness nor its tests change. The server
takes the place of the process that was asked for, so signals and exit codes are its own.
"""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

SERVER_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
CHECKOUT = Path(__file__).resolve().parents[3]


def install(folder: Path) -> Path:
    """Put the stand-in into a folder that is to come first on the PATH."""
    java = folder / "java"
    java.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, __file__])} "$@"\n')
    java.chmod(0o755)
    return java


def command_of(arguments: Sequence[str]) -> list[str]:
    """What to run in place of `java` with these arguments: what stands after the class is handed on."""
    if SERVER_CLASS not in arguments:
        raise SystemExit(
            f"this java only stands in for {SERVER_CLASS}, and was called with: {shlex.join(arguments)}"
        )
    for_the_server = arguments[arguments.index(SERVER_CLASS) + 1 :]
    return [sys.executable, "-c", "from server.cli import main; main()", "start", *for_the_server]


def environment_of(arguments: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with the -D settings in JVMFLAGS, where ZooKeeper's scripts put them too."""
    flags = [argument for argument in arguments if argument.startswith("-D")]
    return dict(environ) | {"JVMFLAGS": shlex.join(flags), "PYTHONPATH": str(CHECKOUT)}


def main() -> NoReturn:
    command = command_of(sys.argv[1:])
    os.execve(command[0], command, environment_of(sys.argv[1:], os.environ))


if __name__ == "__main__":
    main()
