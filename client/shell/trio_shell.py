"""A shell that takes its time: its sessions live in tasks of their own.

So a command that is interrupted does not take them along. They are opened when first needed, and all are
closed when the shell ends.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import trio

from client.connect_string import ConnectString
from client.events import WatchedEvent
from client.session import Session, open_session
from client.shell.failures import EXIT_INTERRUPTED, EXIT_NOBODY_SERVING, CommandFailed
from client.shell.shell import Settings, Shell

Listener = Callable[[WatchedEvent], None]


class TrioShell(Shell):
    """The shell of people, scripts, and commands that wait for something."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._sessions: dict[ConnectString, Session] = {}
        self._listeners: dict[ConnectString, list[Listener]] = {}
        self._nursery: trio.Nursery | None = None
        self._is_ending = trio.Event()

    def run(self, command: Coroutine[Any, Any, int | None]) -> int:
        work = partial(self.attempt, command)
        # Ctrl-C then comes out where this task waits, never in the middle of another one.
        return trio.run(self._run, work, restrict_keyboard_interrupt_to_checkpoints=True)

    async def _run(self, work: Callable[[], Awaitable[int]]) -> int:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                return await work()
            except KeyboardInterrupt:
                return EXIT_INTERRUPTED
            finally:
                self._is_ending.set()

    # --- Sessions.

    async def session(self, servers: ConnectString | None = None) -> Session:
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
