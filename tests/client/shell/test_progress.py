"""Progress bars: for people who wait, and for nobody else."""

import sys

import pytest

from client.connect_string import ConnectString
from client.shell import progress
from client.shell.progress import progress_bar
from client.shell.shell import Settings
from client.shell.terminal import prompt_of
from client.shell.trio_shell import TrioShell
from client.shell.walk import ignore_progress
from tests.client.fake_terminal import FakeTerminal


def test_a_bar_appears_when_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = FakeTerminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE_S", -1.0)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("reading /app", 10) as advance:
        advance(3)
        advance(4)
    assert "reading /app" in terminal.getvalue()
    assert "7/10" in terminal.getvalue()


def test_what_is_done_at_once_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = FakeTerminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_bar("reading /app", 10) as advance:
        advance(10)
    assert terminal.getvalue() == ""


def test_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("reading /app", 10) as advance:
        assert advance is ignore_progress


def test_the_prompt_says_when_nobody_is_connected() -> None:
    servers = ConnectString((("zk1", 2181), ("zk2", 2181)))
    shell = TrioShell(Settings(servers, wait_s=1, session_timeout_ms=4000))
    assert prompt_of(shell) == "zk1:2181,zk2:2181 (not connected)> "
