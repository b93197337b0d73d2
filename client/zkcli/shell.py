"""One zkCli: its session, its history, and what becomes of a line.

`Shell` is Apache's ZooKeeperMain: what it prints, in which order, and which exit code it ends with are the
original's, oddities included: a `redo` succeeds even if what it does again fails, `quit` ends with the exit
code of the command before it, and only `quit`, `close` and `connect` close the session.
"""

from collections.abc import Sequence

import trio

from client.connect_string import ConnectString
from client.errors import ServerError
from client.events import WatchedEvent
from client.paths import InvalidPath
from client.session import Session, open_session
from client.zkcli.client_settings import check_settings
from client.zkcli.command_table import COMMANDS, SHELL_USAGES, usage_lines
from client.zkcli.command_words import Invocation, split_line
from client.zkcli.connect_text import parse_servers
from client.zkcli.console import Console
from client.zkcli.failures import EXIT_FAILED, EXIT_NO_SUCH_COMMAND, CommandFailed, JavaException, wording_of
from client.zkcli.java_values import decode_int, parse_int
from jute.opcodes import AddWatchMode

HISTORY_SHOWN = 10  # and the command itself

_CONNECTION_LOSS = (
    "org.apache.zookeeper.KeeperException$ConnectionLossException: KeeperErrorCode = ConnectionLoss"
)


class Quit(Exception):
    """`quit` was entered."""


class Shell:
    """Its sessions live in the nursery: cancelling that leaves them without closing them."""

    def __init__(self, invocation: Invocation, console: Console, nursery: trio.Nursery) -> None:
        self.console = console
        self.watch_mode = AddWatchMode.PERSISTENT_RECURSIVE
        self.is_one_shot = bool(invocation.words)
        self.exit_code = 0
        self._invocation = invocation
        self._server = invocation.server
        self._session: Session | None = None
        self._nursery = nursery
        self._prints_watches = True
        self._words: Sequence[str] | None = None  # of the command under way, or the last one
        self._history: dict[int, str] = {}
        self._count = 0

    @property
    def session(self) -> Session:
        assert self._session is not None, "connect comes first"
        return self._session

    @property
    def prompt(self) -> str:
        return f"[zk: {self._server}({self.session.state.word}) {self._count}] "

    async def connect(self, server: str | None = None) -> None:
        """Open a session with these servers, or those of before, in place of the one there is.

        Raises JavaException if the servers or the timeout make no sense, or if nobody was reached in time by
        a zkCli that waits for that.
        """
        if self._session is not None and not self._session.state.is_over:
            await self._session.close()
        self._server = self._server if server is None else server
        for note in check_settings(self._invocation.client_configuration):
            self.console.err(note)
        timeout_ms = max(0, parse_int(self._invocation.timeout_ms))  # less than none at all is none
        self._session = await self._nursery.start(self._hold_session, parse_servers(self._server), timeout_ms)
        if self._invocation.waits_for_connection:
            await self._wait_for_connection(timeout_ms)

    async def _hold_session(
        self, servers: ConnectString, timeout_ms: int, task_status: trio.TaskStatus[Session]
    ) -> None:
        async with open_session(
            servers,
            timeout_ms=timeout_ms,
            read_only=self._invocation.is_read_only_fine,
            on_event=self._tell,
            keep_session=True,
        ) as session:
            task_status.started(session)
            await trio.sleep_forever()

    async def _wait_for_connection(self, timeout_ms: int) -> None:
        try:
            await self.session.wait_connected(timeout_ms / 1000)
        except (TimeoutError, ServerError):
            await self.session.close()
            cause = f"{_CONNECTION_LOSS}\nCaused by: {_CONNECTION_LOSS}"
            raise JavaException("java.io.IOException", cause) from None

    def leave(self) -> None:
        """End without closing the session, and without a word about it."""
        self._prints_watches = False
        self._nursery.cancel_scope.cancel()

    def fail(self) -> None:
        """Count the command as failed, for the exit code."""
        self.exit_code = EXIT_FAILED
        self._count += 1

    def _tell(self, event: WatchedEvent) -> None:
        if self._prints_watches:
            self.console.out("\nWATCHER::")
            self.console.out(f"\n{event}")

    async def enter(self, line: str) -> None:
        """Do what a line says. Raises Quit, and JavaException where Apache's zkCli ends."""
        if not line:
            return
        self._words = split_line(line) or self._words  # without a word, as in `"`, the last command again
        self._history[self._count] = line
        if self._words is None:
            kind = "java.lang.NullPointerException"
            raise JavaException(
                kind, 'Cannot invoke "java.util.List.toArray(Object[])" because "this.cmdArgs" is null'
            )
        await self.run(self._words)
        self._count += 1

    async def run(self, words: Sequence[str]) -> None:
        """Do a command, print what goes wrong, and set the exit code."""
        try:
            await self._do(words)
        except CommandFailed as failure:
            self.console.err(str(failure))
            self.exit_code = failure.exit_code
        else:
            self.exit_code = 0

    async def _do(self, words: Sequence[str]) -> None:
        name = words[0]
        if name not in COMMANDS and name not in SHELL_USAGES:
            for line in usage_lines():
                self.console.err(line)
            raise CommandFailed(f"Command not found: Command not found {name}", EXIT_NO_SUCH_COMMAND)
        await self._do_as_shell(words)
        if self.session.state.is_over:
            self.console.out("Not connected")
        elif name in COMMANDS:
            await self._do_as_command(words)

    async def _do_as_command(self, words: Sequence[str]) -> None:
        try:
            await COMMANDS[words[0]].run(self, words)
        except InvalidPath as problem:
            raise CommandFailed(str(problem)) from None
        except ServerError as error:
            raise CommandFailed(wording_of(error)) from None

    async def _do_as_shell(self, words: Sequence[str]) -> None:
        """What a command does to the shell itself; most do nothing."""
        match words:
            case ["quit", *_]:
                await self.session.close()
                raise Quit
            case ["redo", number, *_]:
                await self._redo(decode_int(number))
            case ["history", *_]:
                self._show_history()
            case ["printwatches"]:
                self.console.out(f"printwatches is {'on' if self._prints_watches else 'off'}")
            case ["printwatches", wish, *_]:
                self._prints_watches = wish == "on"
            case ["connect", *rest]:
                await self.connect(rest[0] if rest else None)

    async def _redo(self, index: int) -> None:
        if not 0 <= index < self._count:
            raise CommandFailed("Command index out of range")
        line = self._history[index]
        self._words = split_line(line) or self._words
        assert self._words is not None, "a command has been entered"
        if self._words[0] == "redo":
            raise CommandFailed("No redoing redos")
        self._history[self._count] = line
        await self.run(self._words)

    def _show_history(self) -> None:
        for index in range(max(0, self._count - HISTORY_SHOWN), self._count + 1):
            self.console.out(f"{index} - {self._history.get(index, 'null')}")
