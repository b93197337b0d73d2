"""The shell as a process: what it imports, pipes, signals, locks, watches, and a person at a terminal."""

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from client.shell.completion import candidates
from support.servers import CHECKOUT, start_server
from tests.client.shell.cli_runner import Cli

COMMAND = [sys.executable, "-c", "from server.command import main; main()", "cli"]
SECONDS_MAX = 30.0


Process: TypeAlias = "subprocess.Popen[bytes]"
Start: TypeAlias = Callable[..., Process]


@pytest.fixture
def start(cli: Cli) -> Iterator[Start]:
    """Starts shells with arguments, and ends those that a test left running."""
    with ExitStack() as running:

        def begin(*words: str, **options: Any) -> Process:
            settings: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": CHECKOUT}
            process = subprocess.Popen([*COMMAND, "-s", cli.hosts, *words], **(settings | options))
            running.enter_context(process)
            running.callback(process.kill)
            return process

        yield begin


def test_a_single_command_imports_no_more_than_it_needs(cli: Cli) -> None:
    """Above all not Trio, which takes longer than all the rest."""
    program = (
        "import atexit, sys; from server.command import main\n"
        "heavy = {'trio', 'rich', 'prompt_toolkit', 'ssl', 'asyncio', 'subprocess', 'client.shell.walk'}\n"
        "atexit.register(lambda: print(sorted(heavy & set(sys.modules))))\n"
        "main()"
    )
    words = [sys.executable, "-c", program, "cli", "-s", cli.hosts, "ls", "/"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=CHECKOUT, check=True)
    assert done.stdout == "[]\n"


def test_a_reader_that_has_seen_enough(cli: Cli, start: Start) -> None:
    cli.ok("create", "/a")
    process = start("ls", "/")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(SECONDS_MAX) == 141
    assert process.stderr is not None
    assert process.stderr.read() == b""


def read_line(process: Process) -> bytes:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], SECONDS_MAX)[0]
    return process.stdout.readline()


def test_changes_as_json_lines(cli: Cli, start: Start, tmp_path: Path) -> None:
    """Each is told once, with the data, and runs the command; then nothing is left behind."""
    cli.ok("create", "/w")
    log = tmp_path / "log"
    words = ["watch", "/w", "-n", "3", "--data", "--exec", f"echo $ZK_TYPE $ZK_PATH >> {log}"]
    process = start(*words)
    wait_for_watch(cli)
    cli.ok("create", "/w/x", "1")
    first = json.loads(read_line(process))
    assert (first["type"], first["path"], first["data"], first["version"]) == ("NodeCreated", "/w/x", "1", 0)
    cli.ok("set", "/w/x", "2")
    cli.ok("rm", "/w/x")
    assert json.loads(read_line(process))["type"] == "NodeDataChanged"
    assert json.loads(read_line(process))["type"] == "NodeDeleted"
    assert process.wait(SECONDS_MAX) == 0
    assert log.read_text() == "NodeCreated /w/x\nNodeDataChanged /w/x\nNodeDeleted /w/x\n"


def test_a_watch_with_data_outlives_a_lost_connection(tmp_path: Path) -> None:
    """A change whose data nobody can read any more is told without it, and the next ones are told as ever."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with start_server("triokeeper") as server:
        cli = Cli(server.host_port)
        words = [*COMMAND, "-s", cli.hosts, "watch", "/", "-n", "3", "--data", "--exec", f"cat {gate}"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=CHECKOUT) as process, ExitStack() as ending:
            ending.callback(process.kill)
            wait_for_watch(cli)
            cli.ok("create", "/x", "1")
            assert json.loads(read_line(process))["data"] == "1"
            cli.ok("set", "/x", "2")  # queued: the command for the first change still runs
            cli.ok("ls", "/")  # answered after that change was sent to the watch
            server.kill9()
            gate.write_text("")
            change = json.loads(read_line(process))
            gate.write_text("")
            lost = json.loads(read_line(process))
            server.start()
            back = json.loads(read_line(process))
            cli.ok("set", "/x", "3")
            last = json.loads(read_line(process))
            gate.write_text("")
            assert process.wait(SECONDS_MAX) == 0

    assert (change["type"], change["path"], "data" in change) == ("NodeDataChanged", "/x", False)
    assert (lost["state"], back["state"]) == ("Disconnected", "SyncConnected")
    assert (last["type"], last["data"]) == ("NodeDataChanged", "3")


def wait_for_watch(cli: Cli) -> None:
    """Return once the server knows a watch."""
    deadline = time.monotonic() + SECONDS_MAX
    while "Total watches:0" in ask_word(cli, b"wchs"):
        assert time.monotonic() < deadline, "nobody watches"


def test_a_slow_script_keeps_its_session(cli: Cli, start: Start) -> None:
    """While it waits for its next line the session is pinged."""
    process = start("--session-timeout", "4", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"create -e /e\n")
    process.stdin.flush()
    assert read_line(process) == b"/e\n"
    owner = cli.json("stat", "/e")["ephemeral_owner"]
    before = requests_of(cli, owner)
    deadline = time.monotonic() + SECONDS_MAX
    while requests_of(cli, owner) == before:
        assert time.monotonic() < deadline
    process.stdin.close()
    assert process.wait(SECONDS_MAX) == 0


def requests_of(cli: Cli, session: str) -> str:
    """How many requests of a session the server has counted."""
    (line,) = [line for line in ask_word(cli, b"cons").splitlines() if f"sid={session}," in line]
    return line.partition("recved=")[2].partition(",")[0]


def ask_word(cli: Cli, word: bytes) -> str:
    host, _, port = cli.hosts.partition("/")[0].partition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(word)
        return connection.makefile("rb").read().decode()


def test_ctrl_c_ends_a_watch_with_its_session(cli: Cli, start: Start) -> None:
    process = start("watch", "/")
    wait_for_watch(cli)
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS_MAX) == 130
    assert process.stderr is not None
    assert process.stderr.read() == b""


def test_a_lock_is_held_by_one_at_a_time(cli: Cli, start: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    holder = start("lock", "/l", "--", "sh", "-c", f"echo in; cat {gate}; exit 5")
    assert read_line(holder) == b"in\n"
    said = cli.fails(1, "lock", "/l", "--timeout", "0.2", "--", "echo", "never")
    assert said == "/l: somebody else held the lock for 0.2 s"
    waiter = start("lock", "/l", "--", "echo", "next")
    while cli.ok("ls", "/l").count("\n") < 2:
        pass
    assert waiter.stdout is not None
    assert not select.select([waiter.stdout], [], [], 0)[0]
    gate.write_text("")
    assert holder.wait(SECONDS_MAX) == 5
    assert read_line(waiter) == b"next\n"
    assert waiter.wait(SECONDS_MAX) == 0


def test_a_signal_reaches_the_command_that_holds_the_lock(cli: Cli, start: Start) -> None:
    program = "trap 'echo ending; exit 3' TERM; echo in; while :; do sleep 0.05; done"
    holder = start("lock", "/l", "--", "sh", "-c", program)
    assert read_line(holder) == b"in\n"
    holder.send_signal(signal.SIGTERM)
    assert read_line(holder) == b"ending\n"
    assert holder.wait(SECONDS_MAX) == 3
    assert cli.ok("ls", "/l") == ""


# --- A person.


HIDES_PROMPT_TOOLKIT = """
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "prompt_toolkit" else found(name, *rest)
"""


class Person:
    """Somebody at a terminal."""

    def __init__(self, start: Start, environment: dict[str, str]) -> None:
        self._terminal, other = pty.openpty()
        settings = os.environ | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"} | environment
        self.process = start(stdin=other, stdout=other, stderr=other, env=settings, start_new_session=True)
        os.close(other)
        self.seen = ""

    def types(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def sees(self, text: str) -> None:
        """Wait until a text appears behind what was waited for before."""
        deadline = time.monotonic() + SECONDS_MAX
        while text not in self.seen:
            assert select.select([self._terminal], [], [], deadline - time.monotonic())[0], self.seen
            self.seen += os.read(self._terminal, 65536).decode(errors="replace")
        self.seen = self.seen.partition(text)[2]

    def leaves(self) -> int:
        code = self.process.wait(SECONDS_MAX)
        os.close(self._terminal)
        return code


@pytest.mark.parametrize("has_prompt_toolkit", [True, False])
def test_a_person(cli: Cli, start: Start, tmp_path: Path, has_prompt_toolkit: bool) -> None:
    """Commands, mistakes, Ctrl-C while typing and during a command; the session survives all of it."""
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    if not has_prompt_toolkit:
        (tmp_path / "sitecustomize.py").write_text(HIDES_PROMPT_TOOLKIT)
        environment["PYTHONPATH"] = str(tmp_path)
    person = Person(start, environment)
    if not has_prompt_toolkit:
        person.sees("pip install 'triokeeper[shell]'")
    person.sees(">")
    person.types("create -e /mine\r" if has_prompt_toolkit else "create -e /mine\n")
    person.sees("/mine")
    person.sees(">")
    enter = "\r" if has_prompt_toolkit else "\n"
    person.types(f"bogus{enter}")
    person.sees("there is no command bogus")
    person.types(f"watch /{enter}")
    wait_for_watch(cli)
    interrupt(person)
    person.sees(">")
    person.types(f"ephemerals{enter}")
    person.sees("/mine")
    person.types(f"exit{enter}")
    assert person.leaves() == 0
    assert cli.ok("ls") == ""


def interrupt(person: Person) -> None:
    person.process.send_signal(signal.SIGINT)


def test_completion() -> None:
    children = {"/": ["app", "api", "zoo"], "/app": ["db"]}
    assert candidates("mir", lambda path: []) == ["mirror"]
    assert candidates("ls /a", lambda path: children[path]) == ["/api", "/app"]
    assert candidates("ls /app/", lambda path: children[path]) == ["/app/db"]
    assert candidates("ls -", lambda path: children[path]) == []


def test_a_lost_session_ends_the_command() -> None:
    """The lock went with the session: nobody may go on as if it were held."""
    with start_server("triokeeper", {"tickTime": 100}) as server:
        cli = Cli(server.host_port)
        words = [*COMMAND, "-s", cli.hosts, "--session-timeout", "2", "lock", "/l", "--"]
        words += ["sh", "-c", "echo in; exec sleep 1000"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=CHECKOUT) as holder:
            assert read_line(holder) == b"in\n"
            holder.send_signal(signal.SIGSTOP)
            while cli.ok("ls", "/l"):
                pass
            holder.send_signal(signal.SIGCONT)
            assert holder.wait(SECONDS_MAX) == 3
            assert holder.stderr is not None
            assert b"was lost: the command was ended" in holder.stderr.read()


def test_a_lock_ends_with_the_last_server() -> None:
    """A server that does not come back in time may have been replaced by others, who gave the lock away."""
    with start_server("triokeeper", {"tickTime": 100}) as server:
        words = [*COMMAND, "-s", server.host_port, "--session-timeout", "0.6", "lock", "/l", "--"]
        words += ["sh", "-c", "echo in; exec sleep 1000"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=CHECKOUT) as holder:
            assert read_line(holder) == b"in\n"
            server.kill9()
            assert holder.wait(SECONDS_MAX) == 3
            assert holder.stderr is not None
            assert b"was lost: the command was ended" in holder.stderr.read()


@pytest.mark.parametrize("words", [["get", "/x"], ["grep", "red", "/"]])
def test_data_cannot_command_a_terminal(cli: Cli, start: Start, words: list[str]) -> None:
    """A pipe gets every byte; a terminal is shown what it would have obeyed."""
    cli.ok("create", "/x", "\x1b[31mred\udcff")
    ours, theirs = pty.openpty()
    process = start(*words, stdout=theirs)
    os.close(theirs)
    assert process.wait(SECONDS_MAX) == 0
    seen = os.read(ours, 65536)
    os.close(ours)
    assert b"\\x1b[31mred" in seen
    assert b"\x1b" not in seen
    assert b"\x1b[31mred" in cli.run(*words).stdout_bytes
