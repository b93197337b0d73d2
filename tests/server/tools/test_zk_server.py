"""zkServer.sh, the part behind the shell: what its output leaves open, such as pid files and processes."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from server.tools import four_letter_word, server_process, zk_server
from server.tools.zk_server import main
from tests.server.tools.script_environment import script_environment, stand_in, write_config

UNTIL_KILLED = "while :; do sleep 0.05; done"
FOREGROUND = """
import os, signal, sys
if "HELD_BACK" in os.environ:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
from server.tools.zk_server import main
sys.exit(main(["start-foreground"], os.environ))
"""


@contextmanager
def answering(reply: bytes) -> Iterator[int]:
    """A port where one question is answered."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(10) == b"srvr"
                connection.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_config(tmp_path)
    return tmp_path


def pid_in(file: Path) -> int:
    return int(file.read_text())


# -- status


@pytest.mark.parametrize("mode", ["standalone", "leader", "follower", "observer", "read-only"])
def test_status_tells_the_mode(home: Path, capsys: pytest.CaptureFixture[str], mode: str) -> None:
    reply = f"Zookeeper version: 3.9.5\nLatency: 0\nMode: {mode}\nNode count: 5\n"
    with answering(reply.encode()) as port:
        write_config(home, clientPort=port, clientPortAddress="127.0.0.1")
        code = main(["status"], script_environment(home))

    assert capsys.readouterr().out.splitlines() == [
        f"Client port found: {port}. Client address: 127.0.0.1. Client SSL: false.",
        f"Mode: {mode}",
    ]
    assert code == 0


def test_status_of_a_server_that_says_nothing(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(four_letter_word, "SECONDS_MAX", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        write_config(home, clientPort=silent.getsockname()[1], clientPortAddress="127.0.0.1")

        assert main(["status"], script_environment(home)) == 1
    assert capsys.readouterr().out.endswith("Error contacting service. It is probably not running.\n")


@pytest.mark.parametrize(("seconds_max", "bytes_max"), [(0.05, 1 << 40), (60.0, 1000)])
def test_status_of_a_server_whose_answer_does_not_end(
    home: Path, monkeypatch: pytest.MonkeyPatch, seconds_max: float, bytes_max: int
) -> None:
    """It neither takes the time that each piece grants anew, nor the memory for all of them."""
    monkeypatch.setattr(four_letter_word, "SECONDS_MAX", seconds_max)
    monkeypatch.setattr(four_letter_word, "ANSWER_BYTES_MAX", bytes_max)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                while True:
                    connection.sendall(b"Mode: standalone\n")

        thread = threading.Thread(target=answer)
        thread.start()
        write_config(home, clientPort=listener.getsockname()[1], clientPortAddress="127.0.0.1")

        assert main(["status"], script_environment(home)) == 1
        thread.join()


def test_status_of_a_server_that_does_not_serve(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(b"This ZooKeeper instance is not currently serving requests\n") as port:
        write_config(home, clientPort=port, clientPortAddress="127.0.0.1")
        code = main(["status"], script_environment(home))

    assert capsys.readouterr().out.endswith("Error contacting service. It is probably not running.\n")
    assert code == 1


@pytest.mark.parametrize("port", ["none", "99999999"])
def test_status_with_a_port_that_is_none(home: Path, capsys: pytest.CaptureFixture[str], port: str) -> None:
    write_config(home, clientPort=port)

    assert main(["status"], script_environment(home)) == 1
    assert f"Client port found: {port}." in capsys.readouterr().out


def test_status_does_not_speak_tls_and_says_so(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_config(home, secureClientPort=2281)

    assert main(["status"], script_environment(home)) == 1
    out = capsys.readouterr().out
    assert "Client port found: 2281. Client address: localhost. Client SSL: true." in out
    assert "this command does not speak TLS" in out


def test_only_starting_writes_to_disk(home: Path) -> None:
    before = sorted(home.rglob("*"))
    for command in ("status", "stop", "version", "print-cmd", "nonsense"):
        main([command], script_environment(home))

    assert sorted(home.rglob("*")) == before


# -- starting and stopping


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server counts as started sooner than in life."""
    monkeypatch.setattr(zk_server, "START_SECONDS", 0.05)


@pytest.mark.usefixtures("soon")
def test_start_and_stop(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The pid file holds the pid without a newline, and goes with the process; output is in its file."""
    stand_in(home, f'echo "$@"; {UNTIL_KILLED}')
    environ = script_environment(home)

    assert main(["start"], environ) == 0
    pid_file = home / "data" / "zookeeper_server.pid"
    pid = pid_in(pid_file)
    assert pid_file.read_text() == str(pid)
    assert os.getsid(pid) == pid
    assert main(["start"], environ) == 1
    assert main(["stop"], environ) == 0

    assert not pid_file.exists()
    assert os.waitpid(pid, 0) == (pid, signal.SIGTERM)
    assert (home / "logs" / "zookeeper-zk-server-host.out").read_text() == f"start {home}/conf/zoo.cfg\n"
    assert capsys.readouterr().out.splitlines() == [
        "Starting zookeeper ... STARTED",
        f"Starting zookeeper ... already running as process {pid}.",
        "Stopping zookeeper ... STOPPED",
    ]


@pytest.mark.usefixtures("soon")
def test_restart_starts_another_process(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in(home, UNTIL_KILLED)
    environ = script_environment(home, ZOOPIDFILE=str(home / "run" / "zk.pid"))
    main(["start"], environ)
    first = pid_in(home / "run" / "zk.pid")

    assert main(["restart"], environ) == 0

    second = pid_in(home / "run" / "zk.pid")
    assert os.waitpid(first, 0)[0] == first
    assert second != first
    os.kill(second, signal.SIGKILL)
    os.waitpid(second, 0)
    assert capsys.readouterr().out.endswith(
        "Stopping zookeeper ... STOPPED\nStarting zookeeper ... STARTED\n"
    )


def test_a_server_that_ends_at_once_has_not_started(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in(home, "echo no >&2; exit 2")

    assert main(["start"], script_environment(home)) == 1
    assert capsys.readouterr().out == "Starting zookeeper ... FAILED TO START\n"
    assert (home / "logs" / "zookeeper-zk-server-host.out").read_text() == "no\n"


def test_a_stale_pid_file_does_not_keep_a_server_from_starting(home: Path) -> None:
    stand_in(home, "exit 0")
    (home / "data").mkdir()
    (home / "data" / "zookeeper_server.pid").write_text(str(ended_process()))

    assert main(["start"], script_environment(home)) == 1
    assert pid_in(home / "data" / "zookeeper_server.pid") > 0


def ended_process() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.mark.parametrize(
    ("file", "said"), [("logs", "SERVER DID NOT START"), ("data", "FAILED TO WRITE PID")]
)
def test_a_directory_that_cannot_be_made(
    home: Path, capsys: pytest.CaptureFixture[str], file: str, said: str
) -> None:
    (home / file).write_text("in the way")
    stand_in(home, UNTIL_KILLED)

    assert main(["start"], script_environment(home)) == 1
    captured = capsys.readouterr()
    assert captured.out == f"Starting zookeeper ... {said}\n"
    assert str(home / file) in captured.err


def test_start_without_a_data_directory(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "conf" / "zoo.cfg").write_text("clientPort=2181\n")

    assert main(["start"], script_environment(home)) == 1
    assert "sets no dataDir" in capsys.readouterr().err


def test_stopping_without_a_pid_file_is_no_failure(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pid_file = home / "zk.pid"

    assert main(["stop"], script_environment(home, ZOOPIDFILE=str(pid_file))) == 0
    captured = capsys.readouterr()
    expected = f"Stopping zookeeper ... no zookeeper to stop (could not find file {pid_file})\n"
    assert captured.out == expected
    assert "no process id" not in captured.err


def test_stopping_what_has_ended_removes_the_pid_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pid_file = home / "zk.pid"
    pid_file.write_text(f"{(pid := ended_process())}\n")

    assert main(["stop"], script_environment(home, ZOOPIDFILE=str(pid_file))) == 0
    captured = capsys.readouterr()
    assert captured.out == "Stopping zookeeper ... STOPPED\n"
    assert f"kill: ({pid}) - No such process" in captured.err
    assert not pid_file.exists()


def test_a_process_that_nobody_has_waited_for_has_ended(home: Path) -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    (home / "zk.pid").write_text(str(process.pid))

    assert main(["stop"], script_environment(home, ZOOPIDFILE=str(home / "zk.pid"))) == 0
    process.wait()


def test_a_process_of_another_user(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(_pid: int, _number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "kill", forbidden)
    monkeypatch.setattr(server_process, "command_line", lambda _pid: [])
    (home / "zk.pid").write_text("7")
    environ = script_environment(home, ZOOPIDFILE=str(home / "zk.pid"))

    assert main(["stop"], environ) == 1
    captured = capsys.readouterr()
    assert captured.out == "Stopping zookeeper ... FAILED TO STOP\n"
    assert captured.err.endswith("process 7: Operation not permitted\n")
    assert (home / "zk.pid").exists()
    assert main(["start"], environ) == 1
    assert capsys.readouterr().out == "Starting zookeeper ... already running as process 7.\n"


def test_another_program_that_got_the_pid_is_left_alone(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As when a container starts anew on the same volume."""
    stand_in(home, "exit 0")
    pid_file = home / "zk.pid"
    environ = script_environment(home, ZOOPIDFILE=str(pid_file))
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stranger:
        assert stranger.stdin is not None
        assert stranger.stdout is not None
        stranger.stdin.write(b"\n")
        stranger.stdin.flush()
        stranger.stdout.read(1)  # it runs: right after its start a process has no command line
        pid_file.write_text(str(stranger.pid))
        assert main(["stop"], environ) == 0
        captured = capsys.readouterr()
        assert captured.out == "Stopping zookeeper ... STOPPED\n"
        assert captured.err.endswith(f"process {stranger.pid} is another program and goes on\n")
        assert not pid_file.exists()

        pid_file.write_text(str(stranger.pid))
        main(["start"], environ)
        assert capsys.readouterr().out == "Starting zookeeper ... FAILED TO START\n"

    assert stranger.returncode == 0


@pytest.mark.parametrize("content", ["none", "0", "-1", "99999999", "²"])
def test_a_pid_file_without_a_pid(home: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    pid_file = home / "zk.pid"
    pid_file.write_text(content)

    assert main(["stop"], script_environment(home, ZOOPIDFILE=str(pid_file))) == 0
    assert f"{pid_file} holds no process id" in capsys.readouterr().err


def test_a_server_that_does_not_end(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zk_server, "STOP_SECONDS_MAX", 0.01)
    program = "import signal, sys; signal.signal(15, signal.SIG_IGN); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, f"{home}/conf/zoo.cfg"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (home / "zk.pid").write_text(str(process.pid))

        assert main(["stop"], script_environment(home, ZOOPIDFILE=str(home / "zk.pid"))) == 1
        assert f"process {process.pid} has not ended" in capsys.readouterr().out
        assert pid_in(home / "zk.pid") == process.pid


# -- in the foreground


def test_start_foreground_becomes_the_server(home: Path) -> None:
    stand_in(home, 'echo $$ "$@" "$TRIOKEEPER_SCRIPT"; exit 3')
    environ = script_environment(home) | {"PYTHONPATH": os.pathsep.join(sys.path)}

    process = subprocess.Popen(
        [sys.executable, "-c", FOREGROUND],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    out, _ = process.communicate()

    assert out == f"{process.pid} start {home}/conf/zoo.cfg bin/the-script\n"
    assert process.returncode == 3


@pytest.mark.parametrize("more", [{}, {"HELD_BACK": "by a container's entrypoint"}])
def test_without_exec_signals_reach_the_server(home: Path, more: dict[str, str]) -> None:
    stand_in(home, "trap 'exit 9' TERM; echo up; while :; do sleep 0.01; done")
    environ = script_environment(home, ZOO_NOEXEC="yes", **more) | {"PYTHONPATH": os.pathsep.join(sys.path)}

    with subprocess.Popen(
        [sys.executable, "-c", FOREGROUND],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.terminate()

    assert process.returncode == 9


def test_without_exec_a_server_that_is_killed_gives_the_shells_exit_code(home: Path) -> None:
    stand_in(home, "kill -9 $$")
    environ = script_environment(home, ZOO_NOEXEC="yes") | {"PYTHONPATH": os.pathsep.join(sys.path)}

    done = subprocess.run([sys.executable, "-c", FOREGROUND], env=environ, capture_output=True)

    assert done.returncode == 128 + signal.SIGKILL


@pytest.mark.parametrize("no_exec", ["", "yes"])
def test_a_command_that_is_not_there(home: Path, capsys: pytest.CaptureFixture[str], no_exec: str) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    assert main(["start-foreground"], script_environment(home, ZOO_NOEXEC=no_exec)) == 127
    for number, handler in before.items():
        signal.signal(number, handler)
    assert f"{home}/triokeeper: No such file or directory" in capsys.readouterr().err


def test_print_cmd_shows_what_start_runs(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["print-cmd"], script_environment(home)) == 0
    assert capsys.readouterr().out == (
        f'"{home}/triokeeper" start "{home}/conf/zoo.cfg"'
        f' > "{home}/logs/zookeeper-zk-server-host.out" 2>&1 < /dev/null\n'
    )
