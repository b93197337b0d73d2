"""`triokeeper dev`: its configuration files, its commands, and that no process is left behind."""

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from server.config_loading import load_config
from server.dev_ensemble import (
    HELP,
    DevEnsemble,
    DevError,
    connect_string,
    data_folder,
    plan_members,
    prepare_folders,
    refuse_taken_ports,
    server_command,
    zoo_cfg_of,
)

CHECKOUT = Path(__file__).resolve().parents[2]
WAIT_SECONDS_MAX = 20.0


def free_base_port(members: int) -> int:
    """Below the range that outgoing connections get their ports from."""
    while True:
        base = secrets.choice(range(10_000, 28_000))
        try:
            refuse_taken_ports(plan_members(members, 0, base, Path()))
        except DevError:
            continue
        return base


# -- configuration


@pytest.mark.parametrize("folder", ["data", "Données 動物"])
def test_the_configuration_of_each_member_is_one_that_a_server_reads(tmp_path: Path, folder: str) -> None:
    members = plan_members(3, 1, 2181, tmp_path / folder)
    prepare_folders(members)

    for member in members:
        config = load_config(member.folder / "zoo.cfg", {}).config
        assert config.my_id == member.server_id
        assert config.client_port == 2180 + member.server_id
        assert config.data_dir == member.folder / "data"
        assert sorted(config.ensemble.members) == [1, 2, 3, 4]


def test_ports_of_members_follow_each_other(tmp_path: Path) -> None:
    members = plan_members(2, 1, 2181, tmp_path)

    lines = [line for line in zoo_cfg_of(members[0], members).splitlines() if line.startswith("server.")]
    assert lines == [
        "server.1=127.0.0.1:2881:3881",
        "server.2=127.0.0.1:2882:3882",
        "server.3=127.0.0.1:2883:3883:observer",
    ]
    assert connect_string(members) == "127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183"


def test_a_taken_port_is_named_before_anything_is_started(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DevError, match=f"port {port} cannot be used"):
            refuse_taken_ports(plan_members(1, 0, port, tmp_path))


# -- commands, of members that do not run


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("", []),
        ("  # a remark", []),
        ("leader", ["nobody leads"]),
        ("status", [f"server {n}  127.0.0.1:{2180 + n}  not started" for n in (1, 2)]),
        ("kill 2", ["server 2 does not run"]),
        ("kill 3", ["there is no server 3; there are 1, 2"]),
        ("kill x", ["there is no server x; there are 1, 2"]),
        ("help", HELP.splitlines()),
        ("kill", ["not understood: kill", *HELP.splitlines()]),
        ('kill "', ['there is no server "; there are 1, 2']),
    ],
)
async def test_a_command_is_answered(line: str, answer: list[str], tmp_path: Path) -> None:
    ensemble = DevEnsemble.of(plan_members(2, 0, 2181, tmp_path))

    assert await ensemble.execute(line) == answer


# -- the whole program


@attrs.define
class Dev:
    """`triokeeper dev` as a process."""

    process: subprocess.Popen[str]
    folder: Path

    def say(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def hear(self, pattern: str) -> re.Match[str]:
        """The next line that is like this; those before it are passed over."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"it ended without saying {pattern}")


@contextmanager
def started(folder: Path, servers: int = 1, observers: int = 0) -> Iterator[Dev]:
    program = "from server.cli import main; main()"
    numbers = {"servers": servers, "observers": observers, "base-port": free_base_port(servers + observers)}
    options = [f"--data={folder}", *(f"--{name}={number}" for name, number in numbers.items())]
    process = subprocess.Popen(
        [sys.executable, "-c", program, "dev", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )
    with process:
        try:
            yield Dev(process, folder)
        finally:
            process.kill()


def is_alive(pid: int) -> bool:
    """Running, that is: not even a zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while is_alive(pid):
        assert time.monotonic() < deadline, "a server was left behind"
        time.sleep(0.01)


def test_members_are_killed_and_started_on_request(tmp_path: Path) -> None:
    with started(tmp_path) as dev:
        first = int(dev.hear(r"^server 1 .* standalone +pid (\d+) ")[1])
        dev.hear(r"^connect to: 127\.0\.0\.1:\d+$")
        dev.say("kill 1")
        dev.hear(r"^server 1 .* killed$")
        assert not is_alive(first)
        dev.say("start 1")
        second = int(dev.hear(r"^server 1 .* standalone +pid (\d+) ")[1])
        dev.say("restart 1")
        third = int(dev.hear(r"^server 1 .* standalone +pid (\d+) ")[1])
        assert not is_alive(second)
        os.kill(third, signal.SIGKILL)
        dev.hear(r"^server 1 ended by itself with exit code -9, see .*server\.1/server\.log$")
        dev.say("start 1")
        last = int(dev.hear(r"^server 1 .* standalone +pid (\d+) ")[1])
        dev.say("quit")
        assert dev.process.wait(WAIT_SECONDS_MAX) == 0
        assert not is_alive(last)
    assert (tmp_path / "server.1" / "data" / "version-2").is_dir()


def test_an_ensemble_goes_on_without_its_leader(tmp_path: Path) -> None:
    with started(tmp_path, servers=3, observers=1) as dev:
        leader = int(dev.hear(r"^server (\d) .* leader ")[1])
        dev.hear(r"^server 4 .* observer ")
        dev.hear(r"^connect to: (127\.0\.0\.1:\d+,){3}127\.0\.0\.1:\d+$")
        dev.say(f"kill {leader}")
        dev.say(f"start {leader}")
        dev.hear(rf"^server {leader} .* follower ")
        dev.say("leader")
        assert int(dev.hear(r"^server (\d) .* leader ")[1]) != leader
        dev.say("quit")
        assert dev.process.wait(WAIT_SECONDS_MAX) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_all_members(number: signal.Signals, tmp_path: Path) -> None:
    with started(tmp_path) as dev:
        pid = int(dev.hear(r"^server 1 .* pid (\d+) ")[1])
        dev.hear("^connect to")
        dev.process.send_signal(number)
        assert dev.process.wait(WAIT_SECONDS_MAX) == 0
        assert not is_alive(pid)


def test_no_member_survives_when_the_program_is_killed(tmp_path: Path) -> None:
    with started(tmp_path) as dev:
        pid = int(dev.hear(r"^server 1 .* pid (\d+) ")[1])
        dev.process.kill()
        wait_until_gone(pid)


def test_a_member_whose_program_was_killed_before_it_could_notice_does_not_start(tmp_path: Path) -> None:
    """It then belongs to another process; the kernel would not tell it of an end that has been."""
    [member] = plan_members(1, 0, free_base_port(1), tmp_path)
    prepare_folders([member])
    command = server_command(member)
    command[command.index(str(os.getpid()))] = str(os.getppid())

    ended = subprocess.run(command, timeout=WAIT_SECONDS_MAX, stderr=subprocess.PIPE, text=True)

    assert (ended.returncode, ended.stderr) == (1, "triokeeper dev has ended\n")
    assert not (member.folder / "data" / "version-2").exists()


def test_a_folder_in_use_is_not_touched(tmp_path: Path) -> None:
    """Its members would find other ports in their configuration when they are started again."""
    with (
        data_folder(tmp_path),
        pytest.raises(DevError, match=f"another triokeeper dev uses {tmp_path}"),
        data_folder(tmp_path),
    ):
        pass


def test_a_member_that_ends_while_the_others_start_is_told_of_at_once(tmp_path: Path) -> None:
    data = tmp_path / "server.2" / "data"
    data.mkdir(parents=True)
    (data / "version-2").write_text("not a directory")
    with started(tmp_path, servers=2) as dev:
        dev.hear(r"^server 2 ended by itself with exit code 1, see .*server\.2/server\.log$")


def test_one_voter_may_have_observers(tmp_path: Path) -> None:
    members = plan_members(1, 1, 2181, tmp_path)
    prepare_folders(members)

    assert load_config(members[1].folder / "zoo.cfg", {}).config.is_distributed
