"""The `triokeeper` command: what it prints, where, and its exit codes."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from server import VERSION, run
from server.build_kind import build_kind
from server.cli import main
from server.config import LoadedConfig, ServerConfig
from tests.captured_logs import logging_restored
from tests.server.zoo_cfg_files import write_zoo_cfg

ROOT = Path(__file__).parents[2]
SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
THREE_SERVERS = (
    "dataDir=DIR/data\ninitLimit=10\nsyncLimit=5\n"
    "server.1=a:2888:3888;2181\nserver.2=b:2888:3888;2181\nserver.3=c:2888:3888;2181\n"
)


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Neither this machine's settings count, nor does a test leave its logging behind."""
    for variable in ("JVMFLAGS", "SERVER_JVMFLAGS", "TRIOKEEPER_LOG", "TRIOKEEPER_LOG_LEVEL"):
        monkeypatch.delenv(variable, raising=False)
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    with logging_restored():
        yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[LoadedConfig]:
    """The configurations with which a server was started; none of them really runs."""
    configurations: list[LoadedConfig] = []

    def serve(loaded: LoadedConfig, **_: object) -> int:
        configurations.append(loaded)
        return 7

    monkeypatch.setattr(run, "serve_until_signalled", serve)
    return configurations


def triokeeper(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


def test_version() -> None:
    result = triokeeper("--version")

    assert (result.exit_code, result.stdout) == (0, f"triokeeper {VERSION} ({build_kind()})\n")


@pytest.mark.parametrize(
    "command", [[], ["start"], ["log"], ["log", "inspect"], ["snapshot"], ["snapshot", "inspect"]]
)
def test_every_command_explains_itself(command: list[str]) -> None:
    result = triokeeper(*command, "--help")

    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")


def test_start_without_arguments_serves_this_machine(started: list[LoadedConfig]) -> None:
    result = triokeeper("start")

    assert result.exit_code == 7
    assert (started[0].config.client_port_address, started[0].config.client_port) == ("127.0.0.1", 2181)


def test_start_with_a_file_logs_what_the_loader_noticed(started: list[LoadedConfig], tmp_path: Path) -> None:
    file = write_zoo_cfg(tmp_path, "dataDir=DIR/data\nclientPort=2181\nticktime=5", my_id="3")

    result = triokeeper("start", file)

    assert result.exit_code == 7
    assert started[0].path == file
    assert f"- INFO  [main:starting@{note_line()}] - Reading configuration from: {file}" in result.stdout
    assert "[myid:3] - WARN " in result.stdout
    assert "did you mean tickTime?" in result.stdout


def note_line() -> int:
    """The line of server/starting.py that logs notes."""
    lines = (ROOT / "server" / "starting.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if "note.level" in line)


def test_start_takes_port_and_directory_like_the_original(
    started: list[LoadedConfig], tmp_path: Path
) -> None:
    assert triokeeper("start", "2182", tmp_path, "500", "9").exit_code == 7

    config = started[0].config
    assert (config.client_port, config.data_dir, config.tick_ms) == (2182, tmp_path, 500)
    assert config.max_client_cnxns == 9


def test_a_wrong_configuration_ends_with_2_and_the_short_form_on_stderr(
    started: list[LoadedConfig], tmp_path: Path
) -> None:
    file = write_zoo_cfg(tmp_path, "dataDir=DIR\nclientPort=abc")

    result = triokeeper("start", file)

    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "Invalid config, exiting abnormally",
        f'Error processing {file}: line 2, clientPort=abc: For input string: "abc"',
        "  Remedy: write a whole number, at most 2147483647, and nothing after it",
    ]
    assert "Invalid config, exiting abnormally" in result.stdout
    assert result.stdout.endswith("Exiting JVM with code 2\n")
    assert not started


def test_wrong_arguments_end_with_2_and_the_usage() -> None:
    result = triokeeper("start", "1", "2", "3", "4", "5")

    assert result.exit_code == 2
    first, *_, usage, also = result.stderr.splitlines()
    assert first == "Invalid arguments, exiting abnormally"
    assert usage == "Usage: triokeeper start [configfile | port datadir [ticktime] [maxcnxns]]"
    assert also.split() == "triokeeper start [--port PORT] [--data DIR] [--address ADDRESS]".split()


def test_a_member_of_an_ensemble_starts(started: list[LoadedConfig], tmp_path: Path) -> None:
    file = write_zoo_cfg(tmp_path, THREE_SERVERS, my_id="1")

    triokeeper("start", file)

    [loaded] = started
    assert loaded.config.is_distributed
    assert loaded.config.my_id == 1


def test_snappy_without_its_library_is_refused_at_start(
    started: list[LoadedConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.starting.find_spec", lambda name: None)
    file = write_zoo_cfg(tmp_path, "dataDir=DIR\nsnapshot.compression.method=snappy")

    result = triokeeper("start", file)

    assert result.exit_code == 2
    assert "pip install 'triokeeper[snappy]'" in result.stderr


def test_json_logs_are_one_object_a_line(
    started: list[LoadedConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIOKEEPER_LOG", "json")

    lines = [json.loads(line) for line in triokeeper("start").stdout.splitlines()]

    assert lines[0]["event"] == "clientPortAddress is 127.0.0.1:2181"
    assert {line["level"] for line in lines} == {"info"}


def test_the_console_threshold_of_the_original_is_the_level(
    started: list[LoadedConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JVMFLAGS", "-Dzookeeper.console.threshold=WARN")

    assert triokeeper("start").stdout == ""


def test_a_person_at_a_terminal_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIOKEEPER_LOG", "console")

    result = triokeeper("start", "/nowhere/zoo.cfg")

    assert result.stdout == ""
    assert "/nowhere/zoo.cfg file is missing" in result.stderr


@pytest.mark.parametrize("kind", ["log", "snapshot"])
def test_inspecting_a_file_that_is_not_there_ends_with_1(kind: str, tmp_path: Path) -> None:
    result = triokeeper(kind, "inspect", tmp_path / "none")

    assert result.exit_code == 1
    assert result.stderr.startswith("File doesn't exist or not readable: ")


def test_a_real_process_keeps_stdout_and_stderr_apart(tmp_path: Path) -> None:
    file = write_zoo_cfg(tmp_path, "tickTime=2000")
    command = [sys.executable, "-c", "from server.cli import main; main()", "start", str(file)]
    environ = {key: value for key, value in os.environ.items() if not key.startswith("TRIOKEEPER")}

    done = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=30, check=False
    )

    assert done.returncode == 2
    assert done.stderr.startswith("Invalid config, exiting abnormally\nError processing ")
    assert "Traceback" not in done.stdout + done.stderr
    assert "dataDir is not set" in done.stdout


@pytest.mark.parametrize(
    ("number", "remedy"), [(errno.ENOSPC, "make room"), (errno.EIO, "mend it"), (errno.EMFILE, "ulimit -n")]
)
def test_what_ended_the_server_is_named_with_its_own_remedy(
    number: int, remedy: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A disk that is neither full nor broken is not blamed."""

    def fail(*_: object, **__: object) -> None:
        raise ExceptionGroup("of tasks", [OSError(number, os.strerror(number))])

    monkeypatch.setattr("trio.run", fail)

    assert run.serve_until_signalled(LoadedConfig(config=ServerConfig(data_dir=Path("data")))) == 1
    told = capsys.readouterr().err
    assert remedy in told
    assert ("disk" in told) is (number != errno.EMFILE)


def test_ctrl_c_in_the_first_moments_leaves_no_traceback(tmp_path: Path, started: list[LoadedConfig]) -> None:
    """Until the server listens to signals itself, Python would show where it was."""
    triokeeper("start", write_zoo_cfg(tmp_path, "dataDir=DIR/data\nclientPort=2181"))
    assert len(started) == 1
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL


def test_no_signal_ends_a_server_before_it_listens_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be reading a large tree by then."""
    ignored: list[bool] = []

    def look(*_: object, **__: object) -> None:
        ignored.extend(signal.getsignal(number) is signal.SIG_IGN for number in SIGNALS)

    monkeypatch.setattr("trio.run", look)
    assert run.serve_until_signalled(LoadedConfig(config=ServerConfig(data_dir=Path("data")))) == 0
    assert ignored == [False, True, True, True, True]


def test_a_log_format_that_is_not_known_is_named(
    tmp_path: Path, started: list[LoadedConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIOKEEPER_LOG", "xml")
    monkeypatch.setenv("TRIOKEEPER_LOG_LEVEL", "loud")
    told = triokeeper("start", write_zoo_cfg(tmp_path, "dataDir=DIR/data\nclientPort=2181")).stdout
    assert "TRIOKEEPER_LOG=xml has no effect: known are console, plain, json" in told
    assert "TRIOKEEPER_LOG_LEVEL=loud has no effect" in told


@pytest.mark.parametrize(
    ("failure", "remedy"),
    [
        (OSError(errno.EADDRINUSE, "Address already in use"), "Stop whatever uses the port, or set another"),
        (
            OSError(errno.EACCES, "Permission denied"),
            "Ports below 1024 need a privilege: set another clientPort",
        ),
        (OSError(errno.EADDRNOTAVAIL, "Cannot assign"), "no such address: correct clientPortAddress"),
        (socket.gaierror(-2, "Name or service not known"), "not known here: correct clientPortAddress"),
    ],
    ids=["busy", "forbidden", "foreign", "unknown"],
)
def test_a_client_port_that_cannot_be_had(
    failure: OSError, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each way has its own remedy."""

    def refuse(*_: object) -> None:
        raise failure

    monkeypatch.setattr(run, "_bound", refuse)
    done = triokeeper("start", write_zoo_cfg(tmp_path, "dataDir=DIR/data\nclientPort=81"))
    assert done.exit_code == 1
    assert "cannot listen on *:81 (clientPort): " in done.stderr
    assert remedy in done.stderr


def test_a_data_directory_that_cannot_be_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some directory above it is closed to this user. (A test may run as one to whom none is.)"""

    def exists(_: object, path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("persistence.disk.RealDisk.exists", exists)
    done = triokeeper("start", write_zoo_cfg(tmp_path, "dataDir=DIR/data"))
    assert done.exit_code == 3
    assert "Cannot enter data directory" in done.stderr
    assert "chown" in done.stderr
    assert done.stdout.endswith("Exiting JVM with code 3\n")
