"""A shell for one command that asks and goes: it needs no event loop, so it starts at once."""

from collections.abc import Coroutine
from typing import Any

from client.blocking_session import BlockingSession, run_to_end
from client.connect_string import ConnectString
from client.shell.failures import EXIT_INTERRUPTED, EXIT_NOBODY_SERVING, CommandFailed
from client.shell.shell import Settings, Shell


class BlockingShell(Shell):
    """The shell of most single commands."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._session: BlockingSession | None = None

    def run(self, command: Coroutine[Any, Any, int | None]) -> int:
        try:
            return run_to_end(self.attempt(command))
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED
        finally:
            if self._session is not None:
                self._session.close()

    async def session(self, servers: ConnectString | None = None) -> BlockingSession:
        assert servers is None, "who means two ensembles needs a TrioShell"
        if self._session is None:
            self._session = BlockingSession(
                self.servers, self.settings.session_timeout_ms, self.settings.is_read_only_fine
            )
            for scheme, auth in self._auths:
                self._session.show_auth(scheme, auth)
            try:
                self._session.connect(self.settings.wait_s)
            except TimeoutError as problem:
                raise CommandFailed(str(problem), EXIT_NOBODY_SERVING) from None
        return self._session
