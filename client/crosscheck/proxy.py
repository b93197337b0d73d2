"""Clients at our port, each with a connection of its own to the first server: bytes go on as they come.

Every piece is sent on before it is looked at, and looking at it never waits, so a client is served as the
first server serves it. What cannot be read as the client protocol is handed on all the same.
"""

from collections.abc import Callable
from typing import Final

import attrs
import trio

from client.connect_string import host_port
from client.crosscheck.exchanges import Exchanges, Unreadable, Welcomed
from client.crosscheck.mirror import Gone, Mirror
from client.words import Connector

RECEIVE_BYTES_MAX: Final = 65536
ACCEPT_SECONDS_MAX: Final = 10.0


@attrs.define(eq=False)
class Proxy:
    """Hands clients on to the first server, and tells the mirror what it saw."""

    servers: tuple[tuple[str, int], ...]
    mirror: Mirror
    connect: Connector
    _next: int = 0

    async def serve(self, client: trio.SocketStream) -> None:
        """One client, from its first byte to its last."""
        async with client:
            try:
                peer = host_port(*client.socket.getpeername()[:2])
            except OSError:  # it has gone already
                return
            try:
                server = await self._open_server()
            except OSError as problem:
                self.mirror.findings.note(f"{peer} was turned away: {problem}")
                return
            async with server:
                await Passage(peer, client, server, self.mirror).carry()

    async def _open_server(self) -> trio.abc.Stream:
        """The next server that can be reached. Raises OSError."""
        problem: OSError = ConnectionError("no server was given")
        for _ in self.servers:
            address = self.servers[self._next % len(self.servers)]
            try:
                with trio.fail_after(ACCEPT_SECONDS_MAX):
                    return await self.connect(*address)
            except trio.TooSlowError:
                problem = TimeoutError(f"{host_port(*address)}: does not accept connections")
            except OSError as refused:
                problem = refused
            self._next += 1
        raise problem


@attrs.define(eq=False)
class Passage:
    """The two connections of one client."""

    peer: str
    client: trio.abc.Stream
    server: trio.abc.Stream
    mirror: Mirror
    _exchanges: Exchanges | None = attrs.field(factory=Exchanges)
    _session: int = 0

    async def carry(self) -> None:
        """Carry bytes both ways until either side ends."""
        try:
            async with trio.open_nursery() as nursery:
                whole = nursery.cancel_scope
                nursery.start_soon(self._pump, self.client, self.server, self._client_said, whole)
                nursery.start_soon(self._pump, self.server, self.client, self._server_said, whole)
        finally:
            if self._session:
                self.mirror.saw(self._session, self.peer, Gone())

    async def _pump(
        self,
        source: trio.abc.Stream,
        sink: trio.abc.Stream,
        look_at: Callable[[bytes], None],
        whole: trio.CancelScope,
    ) -> None:
        try:
            while data := await source.receive_some(RECEIVE_BYTES_MAX):
                if source is self.client:  # or the answer could be there before the question was looked at
                    look_at(bytes(data))
                    await sink.send_all(data)
                else:
                    await sink.send_all(data)
                    look_at(bytes(data))
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        whole.cancel()

    def _client_said(self, data: bytes) -> None:
        if self._exchanges is not None:
            try:
                self._exchanges.client_said(data)
            except Unreadable as reason:
                self._stop_looking(reason)

    def _server_said(self, data: bytes) -> None:
        if self._exchanges is None:
            return
        try:
            heard = self._exchanges.server_said(data)
        except Unreadable as reason:
            self._stop_looking(reason)
            return
        for each in heard:
            if isinstance(each, Welcomed) and each.response.timeout_ms > 0:
                self._session = each.response.session_id
            self.mirror.saw(self._session, self.peer, each)

    def _stop_looking(self, reason: Unreadable) -> None:
        self._exchanges = None
        if self._session:
            self.mirror.findings.note(f"{self.peer} is not compared any more: {reason}")
