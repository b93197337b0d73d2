"""The entrypoint on a real file system: owners, users, files, and the server it becomes."""

import errno
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import pytest

from server.config import Note
from server.container import entrypoint
from server.container.commands import Command, understand
from server.container.entrypoint import Machine, prepare, say
from server.container.plan import Plan
from server.container.variables import Refused
from tests.captured_logs import logging_restored

ROOT = Path(__file__).parents[3]
SERVER = understand(["zkServer.sh", "start-foreground"])
DIRECTORIES = ("conf", "data", "datalog", "logs", "opt/bitnami/zookeeper/conf", "etc/kafka")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A container's directories below a temporary one."""
    for name in DIRECTORIES:
        (tmp_path / name).mkdir(parents=True)
    return Machine(str(tmp_path), "zoo1")


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories that the server's user gets; the user of this process stays what it is."""
    paths: list[Path] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(entrypoint, "become_user", paths.extend)
    return paths


def test_the_plan_is_carried_out(machine: Machine, handed_over: list[Path]) -> None:
    plan = prepare(SERVER, {"ZOO_TICK_TIME": "500"}, machine)

    assert "tickTime=500\n" in machine.real("/conf/zoo.cfg").read_text()
    assert machine.real("/data/myid").read_text() == "1\n"
    assert handed_over == [machine.real(path) for path in ("/data", "/datalog", "/logs")]
    assert sorted(os.listdir(machine.real("/conf"))) == ["zoo.cfg"]
    assert plan.config_file == "/conf/zoo.cfg"


def test_a_second_start_changes_nothing(machine: Machine, handed_over: list[Path]) -> None:
    prepare(SERVER, {"ZOO_TICK_TIME": "500"}, machine)
    before = machine.real("/conf/zoo.cfg").read_bytes()

    plan = prepare(SERVER, {"ZOO_TICK_TIME": "700"}, machine)

    assert machine.real("/conf/zoo.cfg").read_bytes() == before
    assert [note.message for note in plan.notes] == [
        "/conf/zoo.cfg is there already and wins over the environment: ZOO_TICK_TIME (tickTime=500 there)"
    ]


def test_a_refused_environment_leaves_nothing_behind(machine: Machine, handed_over: list[Path]) -> None:
    with pytest.raises(Refused, match="ZOO_TICK_TIME=abc"):
        prepare(SERVER, {"ZOO_TICK_TIME": "abc"}, machine)

    assert os.listdir(machine.real("/conf")) == []
    assert os.listdir(machine.real("/data")) == []


@pytest.mark.parametrize("servers", ["server.1=a:1:2;3 server.1=b:1:2;3", "server.1=zoo1"])
def test_a_bad_value_is_no_obstacle_where_a_file_wins(
    machine: Machine, handed_over: list[Path], servers: str
) -> None:
    machine.real("/conf/zoo.cfg").write_text("dataDir=/data\nclientPort=2181\n")

    plan = prepare(SERVER, {"ZOO_SERVERS": servers}, machine)

    assert plan.config_file == "/conf/zoo.cfg"
    assert [note.level for note in plan.notes] == ["warning"]


def test_secrets_are_for_the_server_alone(machine: Machine, handed_over: list[Path]) -> None:
    secret = machine.real("/secret")
    secret.write_text("super:x\n")

    prepare(SERVER, {"ZOO_CFG_DigestAuthenticationProvider_superDigest_FILE": "/secret"}, machine)

    file = machine.real("/conf/zoo.cfg")
    assert file.read_text().endswith("DigestAuthenticationProvider.superDigest=super:x\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_secret_may_be_a_link_as_kubernetes_mounts_it(machine: Machine, handed_over: list[Path]) -> None:
    """The name is a link to a file in a directory that is a link too, so that all can change at once."""
    version = machine.real("/secrets/..2026_11_18")
    version.mkdir(parents=True)
    (version / "tick").write_text("700\r\n")
    (version.parent / "..data").symlink_to(version.name)
    (version.parent / "tick").symlink_to("..data/tick")

    prepare(SERVER, {"ZOO_TICK_TIME_FILE": "/secrets/tick"}, machine)

    assert "tickTime=700\n" in machine.real("/conf/zoo.cfg").read_text()


def test_a_secret_that_is_no_regular_file_is_refused(machine: Machine, handed_over: list[Path]) -> None:
    """A FIFO would make the start wait for a writer, for ever."""
    os.mkfifo(machine.real("/fifo"))
    machine.real("/link").symlink_to(machine.real("/fifo"))
    machine.real("/device").symlink_to("/dev/zero")
    machine.real("/directory").mkdir()

    for path in ("/fifo", "/link", "/device"):
        with pytest.raises(
            Refused, match=rf"ZOO_TICK_TIME_FILE={path}: cannot be read \(not a regular file\)"
        ):
            prepare(SERVER, {"ZOO_TICK_TIME_FILE": path}, machine)
    with pytest.raises(Refused, match=r"ZOO_TICK_TIME_FILE=/directory: cannot be read \(Is a directory\)"):
        prepare(SERVER, {"ZOO_TICK_TIME_FILE": "/directory"}, machine)
    assert os.listdir(machine.real("/conf")) == []


@pytest.mark.parametrize("path", ["/conf/zoo.cfg", "/conf/java.env", "/data/myid"])
def test_a_fifo_among_the_files_is_refused(machine: Machine, handed_over: list[Path], path: str) -> None:
    os.mkfifo(machine.real(path))

    with pytest.raises(Refused, match=rf"{path} cannot be read \(not a regular file\)"):
        prepare(SERVER, {}, machine)


def test_a_file_can_be_masked(machine: Machine, handed_over: list[Path]) -> None:
    """`-v /dev/null:/conf/java.env` does, and a link to the same."""
    machine.real("/conf/java.env").symlink_to(os.devnull)

    assert prepare(SERVER, {}, machine).needs_shell


def test_directories_of_other_images_are_made_and_the_usual_place_leads_there(
    machine: Machine, handed_over: list[Path]
) -> None:
    prepare(SERVER, {"ALLOW_ANONYMOUS_LOGIN": "yes"}, machine)

    assert machine.real("/bitnami/zookeeper/data/myid").read_text() == "1\n"
    assert machine.real("/conf/zoo.cfg").resolve() == machine.real("/opt/bitnami/zookeeper/conf/zoo.cfg")


def test_what_is_in_the_usual_place_stays(machine: Machine, handed_over: list[Path]) -> None:
    machine.real("/conf/zoo.cfg").write_text("mine")

    prepare(SERVER, {"ZOOKEEPER_CLIENT_PORT": "2181"}, machine)

    assert machine.real("/conf/zoo.cfg").read_text() == "mine"
    assert "clientPort=2181\n" in machine.real("/etc/kafka/zookeeper.properties").read_text()


def test_other_commands_change_no_owners(machine: Machine, handed_over: list[Path]) -> None:
    prepare(understand(["zkCli.sh"]), {}, machine)

    assert handed_over == []
    assert machine.real("/conf/zoo.cfg").exists()


def test_without_a_conf_directory_the_configuration_is_beside_the_data(
    machine: Machine, handed_over: list[Path]
) -> None:
    machine.real("/conf").rmdir()

    plan = prepare(SERVER, {}, machine)

    assert plan.config_file == "/data/conf/zoo.cfg"
    assert "dataDir=/data\n" in machine.real("/data/conf/zoo.cfg").read_text()


def test_a_file_that_cannot_be_written_stops_a_server_only(
    machine: Machine, handed_over: list[Path], capfd: pytest.CaptureFixture[str]
) -> None:
    machine.real("/conf/.zoo.cfg.new").mkdir()

    with pytest.raises(Refused, match=r"/conf/zoo\.cfg cannot be written by uid 0 \(Is a directory\)"):
        prepare(SERVER, {}, machine)
    prepare(understand(["zkCli.sh"]), {}, machine)

    assert capfd.readouterr().err == "/conf/zoo.cfg is not written: Is a directory\n"


def test_a_refused_environment_makes_no_directories(machine: Machine, handed_over: list[Path]) -> None:
    with pytest.raises(Refused, match="ZOO_TICK_TIME=abc"):
        prepare(SERVER, {"ZOO_TICK_TIME": "abc", "ZOO_DATA_DIR": "/elsewhere"}, machine)

    assert not machine.real("/elsewhere").exists()
    assert handed_over == []


def test_a_link_in_the_place_of_a_new_file_is_not_followed(machine: Machine, handed_over: list[Path]) -> None:
    """Whoever can write to the volume could otherwise choose a file for root to write."""
    victim = machine.real("/victim")
    victim.write_text("precious")
    machine.real("/data/.myid.new").symlink_to(victim)

    prepare(SERVER, {}, machine)

    assert victim.read_text() == "precious"
    assert machine.real("/data/myid").read_text() == "1\n"


def test_what_a_start_that_was_cut_short_left_is_no_obstacle(
    machine: Machine, handed_over: list[Path]
) -> None:
    machine.real("/conf/.zoo.cfg.new").write_text("dataDir=/da")
    machine.real("/conf/.zoo.cfg.new").chmod(0o400)

    prepare(SERVER, {}, machine)

    assert os.listdir(machine.real("/conf")) == ["zoo.cfg"]


def test_a_file_is_on_disk_before_it_has_its_name(
    machine: Machine, handed_over: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that loses its power leaves no empty zoo.cfg, which would win at the next start."""
    steps: list[str] = []
    rename = Path.rename

    def synced(file: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{file}"))
        steps.append(f"sync {path.name}" + (f" of {path.stat().st_size} bytes" if path.is_file() else ""))

    def renamed(source: Path, target: Path) -> Path:
        steps.append(f"rename {source.name} of {source.stat().st_size} bytes")
        return rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)

    prepare(SERVER, {}, machine)

    whole = machine.real("/conf/zoo.cfg").stat().st_size
    assert steps == [
        f"sync .zoo.cfg.new of {whole} bytes",
        f"rename .zoo.cfg.new of {whole} bytes",
        "sync conf",
        "sync .myid.new of 2 bytes",
        "rename .myid.new of 2 bytes",
        "sync data",
    ]


def test_a_full_disk_leaves_no_half_of_a_file(
    machine: Machine, handed_over: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(Refused, match=r"\(No space left on device\): make room on that volume"):
        prepare(SERVER, {}, machine)
    assert os.listdir(machine.real("/conf")) == []


def test_a_file_to_be_mounted_that_does_not_exist_is_explained(
    machine: Machine, handed_over: list[Path]
) -> None:
    """Docker makes a directory then, on the host and in the container."""
    machine.real("/conf/zoo.cfg").mkdir()

    with pytest.raises(Refused, match="which Docker makes where a file to be mounted does not exist"):
        prepare(SERVER, {}, machine)


@pytest.mark.parametrize("path", ["/conf/zoo.cfg", "/data/myid"])
def test_a_file_that_cannot_be_read_is_named(machine: Machine, handed_over: list[Path], path: str) -> None:
    machine.real(path).symlink_to(machine.real(path))

    with pytest.raises(Refused, match=rf"{path} cannot be read \(Too many levels of symbolic links\)"):
        prepare(SERVER, {}, machine)


@pytest.mark.parametrize("variable", ["ZOO_CFG_dataDir", "ZOO_CFG_EXTRA", "ZOOKEEPER_DATA_DIR"])
def test_the_data_directory_that_counts_gets_the_id_and_the_user(
    machine: Machine, handed_over: list[Path], variable: str
) -> None:
    value = "dataDir=/elsewhere" if variable == "ZOO_CFG_EXTRA" else "/elsewhere"
    more = {"ZOOKEEPER_SERVER_ID": "1"} if variable.startswith("ZOOKEEPER") else {}

    prepare(SERVER, {variable: value} | more, machine)

    assert machine.real("/elsewhere/myid").read_text() == "1\n"
    assert machine.real("/elsewhere") in handed_over


def test_a_directory_that_cannot_be_written_is_named() -> None:
    """In a process of its own, so that root can be somebody else for once."""

    def is_refused(machine: Machine) -> bool:
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        try:
            prepare(SERVER, {}, machine)
        except Refused as refusal:
            return refusal.exit_code == 3 and str(refusal).startswith("/data ")
        return False

    with TemporaryDirectory() as directory:  # pytest's own let nobody else in
        os.chmod(directory, 0o755)
        machine = Machine(directory)
        machine.real("/data").mkdir(mode=0o555)

        assert holds_in_a_child(lambda: is_refused(machine))


def holds_in_a_child(check: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if check() else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def test_what_a_user_of_group_0_makes_can_be_written_by_the_group(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a user is a number without a name, and the next one may be another."""
    masks: list[int] = []
    monkeypatch.setattr(os, "geteuid", lambda: 123456)
    monkeypatch.setattr(os, "getegid", lambda: 0)
    monkeypatch.setattr(os, "umask", masks.append)

    prepare(SERVER, {}, machine)

    assert masks == [0o002]


@needs_root
def test_root_hands_the_directories_over_and_becomes_the_servers_user(tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()
    (tmp_path / "version-2" / "log.1").touch()
    os.symlink("/etc/passwd", tmp_path / "link")
    outside = tmp_path.with_name("outside")
    (outside / "folder").mkdir(parents=True)
    os.symlink(outside, tmp_path / "version-2" / "way-out")

    def is_another_user() -> bool:
        entrypoint.become_user([tmp_path / "missing", tmp_path, tmp_path / "version-2" / "way-out"])
        ids = {*os.getresuid(), *os.getresgid(), *os.getgroups()}
        return ids == {1000}

    assert holds_in_a_child(is_another_user)
    assert (tmp_path / "version-2" / "log.1").stat().st_uid == 1000
    assert tmp_path.stat().st_uid == 1000
    assert (tmp_path / "link").lstat().st_uid == 1000
    assert Path("/etc/passwd").stat().st_uid == 0, "links are not followed"
    assert (outside.stat().st_uid, (outside / "folder").stat().st_uid) == (0, 0)


def test_a_root_that_may_not_change_its_user_is_told_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with all capabilities dropped."""

    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setgroups", forbidden)
    monkeypatch.setattr(os, "initgroups", forbidden)

    with pytest.raises(
        Refused, match="root may not become uid 1000 here: run the container with --user 1000"
    ):
        entrypoint.become_user([])


# -- what is said


@pytest.fixture
def own_logging() -> Iterator[None]:
    with logging_restored():
        yield


def plan_saying(*notes: Note, command: Command) -> Plan:
    return Plan(
        files=(), link=None, notes=notes, exports={}, command=command, config_file=None, needs_shell=False
    )


def test_notes_begin_a_servers_log(own_logging: None, capsys: pytest.CaptureFixture[str]) -> None:
    say(plan_saying(Note("info", "one"), Note("warning", "two"), command=SERVER))

    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("] - one")
    assert " - WARN " in second


def test_beside_other_commands_only_warnings_are_said_and_not_on_stdout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say(plan_saying(Note("info", "one"), Note("warning", "two"), command=understand(["bash"])))

    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "two\n")


# -- whole processes

# Root becomes the server's user in a container; here everybody stays who they are.
PROGRAM = """\
import os, sys
from server.container import entrypoint
entrypoint.SERVER_USER, entrypoint.SERVER_UID = "nobody by this name", os.geteuid()
from server.command import main
main()
"""


def container(directory: Path, *words: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """A command line that runs the entrypoint with its directories below `directory`."""
    for name in DIRECTORIES:
        (directory / name).mkdir(parents=True, exist_ok=True)
    settings = {f"ZOO_{name.upper()}_DIR": directory / name for name in ("conf", "data", "log")}
    settings["ZOO_DATA_LOG_DIR"] = directory / "datalog"
    exports = [f"{name}={value}" for name, value in {**settings, **(environ or {})}.items()]
    path = f"PATH={Path(sys.executable).parent}:{os.environ['PATH']}"
    return ["env", path, *exports, sys.executable, "-c", PROGRAM, "entrypoint", *words]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("words", "code", "out"),
    [
        (["sh", "-c", "echo $ZOOCFGDIR; exit 7"], 7, "DIR/conf\n"),
        (["sh", "-c", "sleep 9 & kill -PIPE $!; wait $!; echo $?"], 0, f"{128 + signal.SIGPIPE}\n"),
        (["no-such-command"], 127, ""),
        (["/"], 126, ""),
    ],
)
def test_a_command_is_run_with_its_own_exit_code(
    words: list[str], code: int, out: str, tmp_path: Path
) -> None:
    done = run(container(tmp_path, *words))

    assert (done.returncode, done.stdout) == (code, out.replace("DIR", str(tmp_path)))


def test_the_command_explains_itself(tmp_path: Path) -> None:
    done = run(container(tmp_path, "--help"))

    assert done.returncode == 0
    assert done.stdout.startswith("Usage: triokeeper entrypoint [OPTIONS] [CMD ARGS...]\n")
    assert not (tmp_path / "conf" / "zoo.cfg").exists()


def test_a_refusal_is_two_lines_and_exit_code_2(tmp_path: Path) -> None:
    done = run(container(tmp_path, environ={"ZOO_TICK_TIME": "abc"}))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "Invalid environment, exiting abnormally",
        'ZOO_TICK_TIME=abc: For input string: "abc"; write it like ZOO_TICK_TIME=2000',
    ]


def test_a_server_serves_and_ends(tmp_path: Path) -> None:
    """One process from the entrypoint to the server, whose command line names its configuration."""
    port = free_port()
    environ = {"ZOO_SERVERS": f"server.1=localhost:2888:3888;{port}", "ZOO_4LW_COMMANDS_WHITELIST": "ruok"}
    command = container(tmp_path, "zkServer.sh", "start-foreground", environ=environ)
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        lines = read_until(server.stdout, "serving on")
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(b"ruok")
            assert client.recv(4) == b"imok"
        words = Path(f"/proc/{server.pid}/cmdline").read_bytes().split(b"\0")
        server.terminate()
        assert server.wait(timeout=20) == 0
        assert server.stderr is not None
        assert server.stderr.read() == f"Using config: {tmp_path}/conf/zoo.cfg\n"

    assert words[-3:-1] == [b"start", bytes(tmp_path / "conf" / "zoo.cfg")]
    messages = [line.partition("] - ")[2].partition("] - ")[2] for line in lines]
    expected = [
        "Starting server",
        "Snapshot loaded in",
        "Created server with tickTime 2000 ms",
        f"binding to port /0.0.0.0:{port}",
        "PrepRequestProcessor (sid:0) started, reconfigEnabled=false",
    ]
    found = [message for message in messages if message.startswith(tuple(expected))]
    assert [message.startswith(wanted) for message, wanted in zip(found, expected, strict=True)] == [True] * 5


def read_until(output: IO[str] | None, text: str) -> list[str]:
    assert output is not None
    lines = []
    for line in output:
        lines.append(line.rstrip("\n"))
        if text in line:
            return lines
    raise AssertionError(f"it ended without {text!r}: {lines}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def test_a_shell_reads_the_files_that_need_one(tmp_path: Path) -> None:
    """zkServer.sh does; here it is a stand-in that says what it was asked."""
    script = tmp_path / "zkServer.sh"
    script.write_text('#!/bin/sh\necho "$ZOOCFGDIR" "$@"\n')
    script.chmod(0o755)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "java.env").touch()
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    done = run(container(tmp_path, environ=environ))

    assert done.stdout == f"{tmp_path}/conf start-foreground {tmp_path}/conf/zoo.cfg\n"


@pytest.mark.parametrize(
    ("line", "becomes_server"),
    [
        ("zkServer.sh start-foreground", True),
        ("zkServer.sh --config /data/conf start-foreground", True),
        ("zkServer.sh start", False),
        ("zkServer.sh status", False),
        ("triokeeper start /x", True),
        ("zookeeper-server-start /x", True),
        ("zookeeper-server-start -daemon /x", False),
        ("/run.sh", True),
        ("bash -c zkServer.sh", False),
    ],
)
def test_signals_wait_for_a_command_that_becomes_the_server(line: str, becomes_server: bool) -> None:
    """For any other they would be lost for good."""
    assert understand(line.split()).becomes_server == becomes_server


def test_a_signal_to_another_command_ends_it(tmp_path: Path) -> None:
    done = run(container(tmp_path, "sh", "-c", "kill -TERM $$; echo still here"))

    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "")
