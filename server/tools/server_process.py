"""Starting `triokeeper start` as a process: in place of this one, or in the background."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

NOT_FOUND = 127


def become(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the command in this process; it returns only if that is not possible."""
    sys.stdout.flush()
    try:
        os.execvpe(command[0], list(command), dict(environ))
    except OSError as problem:
        return not_started(command, problem)


def start_in_background(
    command: Sequence[str], environ: Mapping[str, str], out_file: str
) -> subprocess.Popen[bytes]:
    """Start the command in a session of its own, its output in `out_file`; OSError names what failed."""
    os.makedirs(os.path.dirname(out_file) or ".", exist_ok=True)
    with open(out_file, "wb") as out:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environ,
            start_new_session=True,
        )


def leave_running(process: subprocess.Popen[bytes]) -> None:
    """The process outlives this one on purpose: Popen is not to warn about it."""
    process.returncode = 0


def run_and_wait(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the command as a child, hand on the signals that end a server, and answer its exit code."""
    children: list[subprocess.Popen[bytes]] = []
    early: list[int] = []  # signals that came before there was a child

    def hand_on(number: int, _frame: object) -> None:
        early.append(number)
        for child in children:
            child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, hand_on)
    try:
        children.append(subprocess.Popen(command, env=environ))
    except OSError as problem:
        return not_started(command, problem)
    for received in early:
        children[0].send_signal(received)
    code = children[0].wait()
    return code if code >= 0 else 128 - code


def not_started(command: Sequence[str], problem: OSError) -> int:
    print(f"{command[0]}: {problem.strerror}; TRIOKEEPER names the command", file=sys.stderr)
    return NOT_FOUND
