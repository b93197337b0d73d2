"""A person at a terminal: with prompt_toolkit and without, a pseudo-terminal stands in for the real one."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from io import StringIO
from typing import Self

import pytest
import trio
import trio.testing

from client.zkcli.command_words import parse_invocation
from client.zkcli.console import Console
from client.zkcli.main import run
from client.zkcli.prompting import candidates
from client.zkcli.shell import Shell
from client.zkcli.terminal import _enter
from support.servers import CHECKOUT
from tools.zkcli.worlds import World

ANSWER_SECONDS_MAX = 60.0
FANCY = "import sys; from client.zkcli.main import main; sys.exit(main(sys.argv[1:]))"
PLAIN = f"import client.zkcli.terminal as terminal; terminal.find_spec = lambda name: None; {FANCY}"


class Terminal:
    """A program on a pseudo-terminal; `expect` returns what it wrote up to a text."""

    def __init__(self, program: str, arguments: Sequence[str]) -> None:
        self._master, slave = pty.openpty()
        environment = {"PYTHONPATH": str(CHECKOUT), "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            env=os.environ | environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._read = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, text: str) -> str:
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while text.encode() not in self._read:
            assert time.monotonic() < deadline, f"no {text!r} in {self._read!r}"
            if select.select([self._master], [], [], 1)[0]:
                self._read += os.read(self._master, 65536)
        before, found, self._read = self._read.partition(text.encode())
        return (before + found).decode()

    def interrupt(self) -> None:
        self.type("\x03")

    def exit_code(self) -> int:
        return self._process.wait(ANSWER_SECONDS_MAX)


def test_with_prompt_toolkit(one_server: World) -> None:
    with Terminal(FANCY, ["-server", one_server.hosts]) as terminal:
        terminal.expect(") 0]")
        terminal.type("crea\t")
        terminal.expect("te")
        terminal.type(" /terminal\r")
        assert "Created /terminal" in terminal.expect(") 1]")

        terminal.type("half a li")
        terminal.expect("half a li")
        terminal.interrupt()
        terminal.expect(") 1]")  # the session is still there

        terminal.type("get -w /term\t")
        terminal.expect("inal")
        terminal.type("\r")
        assert "null" in terminal.expect(") 2]")
        subprocess.run(
            [sys.executable, "-c", FANCY, "-server", one_server.hosts, "delete", "/terminal"],
            env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
            check=True,
            capture_output=True,
        )
        terminal.expect("type:NodeDeleted path:/terminal")

        terminal.type("\x1b[A\r")  # the line before again
        assert "Node does not exist: /terminal" in terminal.expect(") 3]")
        terminal.type("quit\r")
        assert terminal.exit_code() == 1


def test_without_prompt_toolkit(one_server: World) -> None:
    with Terminal(PLAIN, ["-server", one_server.hosts]) as terminal:
        terminal.expect(") 0]")
        terminal.type("ls /\n")
        assert "[zookeeper]" in terminal.expect(") 1]")
        terminal.type("\x04")
        assert terminal.exit_code() == 0


@pytest.mark.parametrize("program", [FANCY, PLAIN], ids=["fancy", "plain"])
def test_what_ends_apaches_costs_only_the_command(program: str, one_server: World) -> None:
    with Terminal(program, ["-server", one_server.hosts]) as terminal:
        terminal.expect(") 0]")
        terminal.type("set -v x /zookeeper data\r")
        assert 'java.lang.NumberFormatException: For input string: "x"' in terminal.expect(") 1]")
        terminal.type("quit\r")
        assert terminal.exit_code() == 1


async def test_ctrl_c_ends_a_command_but_not_the_session() -> None:
    """Nobody accepts the connection, so the command would wait for long."""
    listener, *_ = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    console = Console(StringIO(), StringIO())
    async with listener, trio.open_nursery() as nursery:
        shell = Shell(parse_invocation(["-server", f"127.0.0.1:{port}"]), console, nursery)
        await shell.connect()
        await _enter(shell, "ls /", interrupted_when_idle())

        assert not shell.session.state.is_over
        shell.leave()


async def interrupted_when_idle() -> AsyncIterator[int]:
    await trio.testing.wait_all_tasks_blocked()
    yield 2
    await trio.sleep_forever()


def test_candidates() -> None:
    children = {"/": ["app", "apple", "zoo"], "/app": ["a b", "c"]}

    assert candidates("/ap", children.__getitem__) == ["/app", "/apple"]
    assert candidates("/app/", children.__getitem__) == ["/app/a b", "/app/c"]
    assert candidates("getA", children.__getitem__) == ["getAcl", "getAllChildrenNumber"]
    assert candidates("nothing", children.__getitem__) == []


async def test_a_shell_for_a_server_with_tls_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIENT_JVMFLAGS", "-Dzookeeper.client.secure=true")
    out, err = StringIO(), StringIO()

    assert await run(["ls", "/"], Console(out, err)) == 2
    assert "TLS is not supported yet" in err.getvalue()


def test_a_reader_that_is_gone_is_no_problem(one_server: World) -> None:
    """As in `zkCli.sh ls -R / | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-c", FANCY, "-server", one_server.hosts, "ls", "-R", "/"],
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        check=False,
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)

    assert (ended.returncode, ended.stderr) == (0, b"")
