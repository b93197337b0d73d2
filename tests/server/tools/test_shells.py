"""zkCli.sh and zookeeper-shell hand their arguments to `triokeeper zkcli`."""

import sys
from collections.abc import Sequence

import pytest

from server import command
from server.tools.shells import zk_cli, zookeeper_shell

ENVIRON = {"TRIOKEEPER_SCRIPT": "bin/zookeeper-shell"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments with which `triokeeper` was run."""
    asked: list[str] = []
    monkeypatch.setattr(sys, "argv", ["triokeeper", "scripts"])
    monkeypatch.setattr(command, "main", lambda: asked.extend(sys.argv))
    return asked


@pytest.mark.parametrize("arguments", [[], ["-server", "zoo1:2181", "ls", "/"]])
def test_zk_cli(asked: list[str], arguments: Sequence[str]) -> None:
    assert zk_cli(arguments, {}) == 0
    assert asked == ["triokeeper", "zkcli", *arguments]


def test_zookeeper_shell_takes_the_server_first(asked: list[str]) -> None:
    assert zookeeper_shell(["zoo1:2181/chroot", "ls", "/"], ENVIRON) == 0
    assert asked == ["triokeeper", "zkcli", "-server", "zoo1:2181/chroot", "ls", "/"]


def test_zookeeper_shell_without_a_server(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert zookeeper_shell([], ENVIRON) == 1
    assert capsys.readouterr().err.startswith("USAGE: bin/zookeeper-shell zookeeper_host:port[/path]")
    assert not asked


def test_a_tls_configuration_is_refused(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A shell that ignored it would speak in the open."""
    assert zookeeper_shell(["zoo1:2181", "-zk-tls-config-file", "tls.properties", "ls", "/"], ENVIRON) == 1
    assert "-zk-tls-config-file is not supported" in capsys.readouterr().err
    assert not asked
