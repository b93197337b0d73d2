"""Servers at the other end of memory streams: a real one, and ones that do as a test says."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio
from trio.testing import memory_stream_pair

from tests.server.one_server import Client, OneServer

Serve = Callable[[trio.abc.Stream], Awaitable[None]]


class Network:
    """A `connect` for sessions: each host has a program, or refuses."""

    def __init__(self, nursery: trio.Nursery, **hosts: Serve) -> None:
        self._nursery = nursery
        self.hosts: dict[str, Serve] = hosts
        self.tried: list[tuple[str, float]] = []

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        self.tried.append((host, trio.current_time()))
        if host not in self.hosts:
            raise ConnectionRefusedError(f"{host} refuses")
        ours, theirs = memory_stream_pair()
        self._nursery.start_soon(self._serve, self.hosts[host], theirs)
        return ours

    async def _serve(self, serve: Serve, stream: trio.abc.Stream) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError):  # the client has gone
                await serve(stream)


class Served:
    """A whole server, without a disk; connections can be cut, and it can fall silent."""

    def __init__(self, server: OneServer | None = None) -> None:
        self.server = server or OneServer()
        self.connections: list[trio.CancelScope] = []
        self._peers: dict[Client, trio.abc.Stream] = {}

    async def serve(self, stream: trio.abc.Stream, data: bytes = b"") -> None:
        """Serve one connection, of which some bytes may have been read already."""
        client = Client(self.server)
        self._peers[client] = stream
        with trio.CancelScope() as connection:
            self.connections.append(connection)
            while not client.is_closed:
                data = data or bytes(await stream.receive_some())
                if not data:
                    break
                client.connection.received(data)
                data = b""
                self.server.settle()
                await self._flush()
        del self._peers[client]
        client.connection.lost()

    async def _flush(self) -> None:
        """Each client is told what concerns it: watches fire on other connections too."""
        for client, stream in list(self._peers.items()):
            if data := client.receive():
                await stream.send_all(data)

    def cut_connections(self) -> None:
        for connection in self.connections:
            connection.cancel()


async def be_silent(stream: trio.abc.Stream) -> None:
    """Accept, and never say anything."""
    await trio.sleep_forever()


async def hang_up(stream: trio.abc.Stream) -> None:
    """Accept, and close at once."""
    await trio.lowlevel.checkpoint()


def saying(*answers: bytes) -> Serve:
    """Answer each thing that is said by the next of these, then hang up."""

    async def serve(stream: trio.abc.Stream) -> None:
        for answer in answers:
            await stream.receive_some()
            await stream.send_all(answer)
        await stream.receive_some()

    return serve
