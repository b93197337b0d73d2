"""The process of `triokeeper start`: made in place of this one or in the background, or found running."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

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

    handed_on = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in handed_on:
        signal.signal(number, hand_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, handed_on)  # a container's entrypoint holds them back
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


def command_line(pid: int, processes: Path = Path("/proc")) -> list[bytes]:
    """The words that a process was started with; none if it has ended, or nobody may know."""
    try:
        line = (processes / str(pid) / "cmdline").read_bytes()
    except OSError:
        return []
    return line.split(b"\0") if line else []


def is_server(words: Sequence[bytes]) -> bool:
    if any(word.endswith(b"quorum.QuorumPeerMain") for word in words):
        return True
    programs = [os.path.basename(word) for word in words]
    return any(pair == (b"triokeeper", b"start") for pair in zip(programs, words[1:], strict=False))
