"""Kafka's scripts for a ZooKeeper server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from server.tools.kafka_server import signal_number, start, stop, with_flags
from server.tools.server_process import is_server
from tests.server.tools.script_environment import script_environment, stand_in


def test_the_server_gets_the_file_and_kafkas_flags(tmp_path: Path) -> None:
    stand_in(tmp_path, 'echo $$ "$@" "/ $JVMFLAGS"')
    program = (
        "import os, sys; from server.tools.kafka_server import start; start(['zk.properties'], os.environ)"
    )
    environ = script_environment(
        tmp_path, KAFKA_OPTS="-Dzookeeper.4lw.commands.whitelist=*", KAFKA_HEAP_OPTS="-Xmx1g"
    )

    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        out, _ = process.communicate()

    flags = "-Xmx1g -Dzookeeper.4lw.commands.whitelist=*"
    assert out == f"{process.pid} start zk.properties / {flags}\n"


def test_flags_of_kafka_come_behind_those_of_zookeeper() -> None:
    environ = {"JVMFLAGS": "-Da=1", "KAFKA_OPTS": "-Da=2", "KAFKA_JMX_OPTS": ""}

    assert with_flags(environ)["JVMFLAGS"] == "-Da=1 -Da=2"


def test_a_daemon_goes_on_in_the_background(tmp_path: Path) -> None:
    stand_in(tmp_path, f'echo $$ "$@"; echo done > {tmp_path}/done')
    os.mkfifo(tmp_path / "done")

    assert start(["-daemon", "zk.properties"], script_environment(tmp_path, LOG_DIR=f"{tmp_path}/kafka")) == 0

    assert (tmp_path / "done").read_text() == "done\n"
    pid, *arguments = (tmp_path / "kafka" / "zookeeper.out").read_text().split()
    os.waitpid(int(pid), 0)
    assert arguments == ["start", "zk.properties"]


def test_a_daemon_whose_log_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kafka").touch()

    assert start(["-daemon", "zk"], script_environment(tmp_path, LOG_DIR=f"{tmp_path}/kafka")) == 1
    assert "LOG_DIR names another directory" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["-daemon"]])
def test_start_without_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert start(arguments, script_environment(tmp_path)) == 1
    assert capsys.readouterr().err == "USAGE: bin/the-script [-daemon] zookeeper.properties\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["/venv/bin/python", "/venv/bin/triokeeper", "start", "/conf/zoo.cfg"], True),
        (["java", "-cp", "x", "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg"], True),
        (["/venv/bin/python", "/venv/bin/triokeeper", "cli", "start"], False),
        (["vim", "triokeeper"], False),
        ([""], False),
    ],
)
def test_a_server_is_known_by_its_command_line(words: list[str], expected: bool) -> None:
    assert is_server([word.encode() for word in words]) is expected


def processes(folder: Path, **command_lines: str) -> Path:
    """A folder like /proc; names are p1, p2 and so on."""
    for name, line in command_lines.items():
        (folder / name.removeprefix("p")).mkdir()
        (folder / name.removeprefix("p") / "cmdline").write_text(line.replace(" ", "\0") + "\0")
    (folder / "self").mkdir()
    (folder / "99").mkdir()  # ends while it is looked at
    return folder


def test_stop_signals_every_server(tmp_path: Path) -> None:
    proc = processes(
        tmp_path, p7="python triokeeper start zoo.cfg", p8="sleep 1", p9="triokeeper start a.cfg"
    )
    sent: list[tuple[int, int]] = []

    assert stop([], {}, proc, lambda pid, number: sent.append((pid, number))) == 0
    assert stop([], {"SIGNAL": "KILL"}, proc, lambda pid, number: sent.append((pid, number))) == 0
    assert sent == [(7, 15), (9, 15), (7, 9), (9, 9)]


@pytest.mark.parametrize(
    ("name", "number"),
    [("TERM", 15), ("term", 15), ("SIGINT", 2), ("9", 9), ("_DFL", None), ("999", None), ("0", None)],
)
def test_a_signal_is_named_as_for_kill(name: str, number: int | None) -> None:
    assert signal_number(name) == number


def test_nothing_to_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stop([], {}, processes(tmp_path, p8="sleep 1"), lambda pid, number: None) == 1
    assert capsys.readouterr().out == "No zookeeper server to stop\n"


def test_a_signal_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stop([], {"SIGNAL": "HELLO"}, tmp_path) == 1
    assert "SIGNAL=HELLO: there is no such signal" in capsys.readouterr().err


def test_a_server_of_another_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def forbidden(_pid: int, _number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    assert stop([], {}, processes(tmp_path, p7="triokeeper start zoo.cfg"), forbidden) == 1
    assert capsys.readouterr().err == "kill: (7) - Operation not permitted\n"
