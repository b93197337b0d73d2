"""The shell that commands run in: its sessions, what is printed where, and exit codes.

Sessions are opened when first needed and held by tasks of their own, so that a command that is interrupted
does not take them along; all are closed when the shell ends.
"""

import json
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import click
import trio

from client.connect_string import ConnectString, InvalidConnectString
from client.errors import ServerError
from client.events import WatchedEvent
from client.paths import InvalidPath
from client.session import Session, open_session
from client.shell.acl_text import InvalidAclText
from client.shell.failures import (
    EXIT_BROKEN_PIPE,
    EXIT_INTERRUPTED,
    EXIT_NOBODY_SERVING,
    EXIT_REFUSED,
    EXIT_USAGE,
    CommandFailed,
    failure_of,
)

Listener = Callable[[WatchedEvent], None]


@attrs.frozen
class Settings:
    """What the command line says about the shell itself."""

    servers: ConnectString
    wait_s: float
    session_timeout_ms: int
    is_read_only_fine: bool = False
    auths: tuple[tuple[str, bytes], ...] = ()
    as_json: bool = False


class Shell:
    """One run of `triokeeper cli`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.servers = settings.servers  # of the session that commands mean unless they say otherwise
        self.wants_json = settings.as_json
        self._auths = list(settings.auths)
        self._sessions: dict[ConnectString, Session] = {}
        self._listeners: dict[ConnectString, list[Listener]] = {}
        self._nursery: trio.Nursery | None = None
        self._is_ending = trio.Event()

    # --- Running.

    async def run(self, work: Callable[[], Awaitable[int]]) -> int:
        """Do the work, then close all sessions; return the exit code."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                return await work()
            except KeyboardInterrupt:
                return EXIT_INTERRUPTED
            finally:
                self._is_ending.set()

    async def attempt(self, command: Coroutine[Any, Any, int | None]) -> int:
        """Do one command; say what went wrong, and return the exit code."""
        try:
            return await command or 0
        except CommandFailed as failure:
            return self.complain(failure)
        except ServerError as error:
            return self.complain(failure_of(error))
        except (InvalidPath, InvalidConnectString, InvalidAclText) as problem:
            return self.complain(CommandFailed(str(problem), EXIT_USAGE))
        except click.ClickException as problem:
            problem.show()
            return problem.exit_code
        except BrokenPipeError:  # whoever read our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_BROKEN_PIPE
        except OSError as problem:
            return self.complain(CommandFailed(str(problem), EXIT_REFUSED))

    def complain(self, failure: CommandFailed) -> int:
        if str(failure):
            click.echo(str(failure), err=True)
        return failure.exit_code

    # --- Sessions.

    async def session(self, servers: ConnectString | None = None) -> Session:
        """A session that is connected: the shell's own, or one with other servers.

        Raises CommandFailed if nobody serves in time.
        """
        servers = servers or self.servers
        session = self._sessions.get(servers)
        if session is None or session.state.is_over:
            assert self._nursery is not None
            session = self._sessions[servers] = await self._nursery.start(self._hold, servers)
            for scheme, auth in self._auths:
                session.show_auth(scheme, auth)
        try:
            await session.wait_connected(self.settings.wait_s)
        except TimeoutError as problem:
            raise CommandFailed(str(problem), EXIT_NOBODY_SERVING) from None
        return session

    @property
    def current_session(self) -> Session | None:
        """The shell's own session, if it was ever opened."""
        return self._sessions.get(self.servers)

    async def _hold(self, servers: ConnectString, task_status: trio.TaskStatus[Session]) -> None:
        def tell(event: WatchedEvent) -> None:
            for listener in self._listeners.get(servers, []):
                listener(event)

        async with open_session(
            servers,
            timeout_ms=self.settings.session_timeout_ms,
            read_only=self.settings.is_read_only_fine,
            on_event=tell,
        ) as session:
            task_status.started(session)
            await self._is_ending.wait()

    @contextmanager
    def listening(self, listener: Listener) -> Iterator[None]:
        """Hear every event of the shell's own session during the block."""
        listeners = self._listeners.setdefault(self.servers, [])
        listeners.append(listener)
        try:
            yield
        finally:
            listeners.remove(listener)

    async def add_auth(self, scheme: str, auth: bytes) -> None:
        """Show credentials in this session and in all that are opened later."""
        await (await self.session()).add_auth(scheme, auth)
        self._auths.append((scheme, auth))

    async def connect(self, servers: ConnectString) -> None:
        """Mean other servers from now on, if they can be reached."""
        await self.session(servers)
        self.servers = servers

    # --- Output.

    def out(self, text: str = "") -> None:
        click.echo(text)

    def out_json(self, value: object) -> None:
        """One line, for the next program; over several for a person."""
        click.echo(json.dumps(value, indent=2 if sys.stdout.isatty() else None))

    def out_data(self, data: bytes) -> None:
        """Bytes as they are; on a terminal, the prompt begins on a line of its own."""
        click.echo(data, nl=sys.stdout.isatty() and not data.endswith(b"\n"))

    def note(self, text: str) -> None:
        """Something to know that is no result."""
        click.echo(text, err=True)
