"""Signals to a server that runs as a process of its own."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.zoo_cfg_files import write_zoo_cfg

ROOT = Path(__file__).parents[2]
WAIT_SECONDS_MAX = 60


class Server:
    """A standalone one, whose log is read line by line."""

    def __init__(self, folder: Path) -> None:
        file = write_zoo_cfg(folder, f"dataDir={folder}/data\nclientPort=0\n4lw.commands.whitelist=*")
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from server.cli import main; main()", "start", str(file)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TRIOKEEPER_LOG": "plain"},
            text=True,
        )
        self.port = int(self.hear(r"serving on \S*:(\d+),")[1])

    def hear(self, pattern: str) -> re.Match[str]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"the log ends without {pattern}")

    def ask(self, word: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), WAIT_SECONDS_MAX) as asking:
            asking.sendall(word)
            return asking.recv(100)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    with server.process:
        yield server
        server.process.kill()


def test_signals_that_end_a_process_do_not_end_a_server(server: Server) -> None:
    """Not without a word, at least. SIGQUIT is how one asks what it is doing."""
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        server.process.send_signal(number)
        server.hear(f"signal_without_effect .*signal={number.name}")
    server.process.send_signal(signal.SIGQUIT)
    for who in ("task .*_serve", "task .*write_log", "thread MainThread"):
        server.hear(f"SIGQUIT: {who}")
    assert server.ask(b"ruok") == b"imok"
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(WAIT_SECONDS_MAX) == 0


def test_tests_do_not_pass_on_that_signals_are_ignored() -> None:
    """As under nohup and in the background: what they start would not end when it is told to."""
    as_under_nohup = (
        "import signal, subprocess, sys\n"
        "signals = signal.SIGINT, signal.SIGHUP\n"
        "for number in signals: signal.signal(number, signal.SIG_IGN)\n"
        "import tests.conftest\n"
        "started = 'import signal; print(*(signal.getsignal(each) is signal.SIG_IGN for each in (1, 2)))'\n"
        "subprocess.run([sys.executable, '-c', started], check=True)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", as_under_nohup], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert told.split() == ["False", "False"]
