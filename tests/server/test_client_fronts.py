"""Both fronts carry the same conversations over real sockets on loopback."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from struct import pack, unpack

import pytest
import trio
import trio.testing

from jute.client_records import Acl, ConnectRequest, CreateRequest, GetDataRequest, Id
from jute.opcodes import OpCode
from jute.record import encode
from server.client_fronts import LINGER_BYTES, LINGER_MS, FrontLimits, PlainFront, client_address
from server.client_protocol import OUT_PAUSE_BYTES, ClientConnection
from server.clock import SystemClock
from server.pipeline import Pipeline
from server.stream_front import StreamFront
from tests.server.one_server import OneServer

FRONTS = [PlainFront, StreamFront]
OPEN = (Acl(31, Id("world", "anyone")),)
Front = PlainFront | StreamFront


class PromptSink:
    """Makes transactions durable as soon as the event loop comes round."""

    def __init__(self) -> None:
        self._undurable = 0
        self._wake = trio.Event()

    def flush(self) -> None:
        """Nothing hangs on the end of a batch here."""

    def append(self, payload: bytes) -> None:
        self._undurable += 1
        self._wake.set()

    async def run(self, pipeline: Pipeline, front: Front) -> None:
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            count, self._undurable = self._undurable, 0
            pipeline.committed(count)
            front.flush()


class Served:
    """A front that serves a fresh pipeline on a free port."""

    def __init__(self, front: Front, port: int) -> None:
        self.front = front
        self.port = port
        self.streams: list[trio.SocketStream] = []

    async def connect(self) -> trio.SocketStream:
        self.streams.append(await trio.open_tcp_stream("127.0.0.1", self.port))
        return self.streams[-1]

    async def open_session(self) -> trio.SocketStream:
        stream = await self.connect()
        await send_frame(stream, encode(ConnectRequest(0, 0, 10_000, 0, bytes(16))) + b"\x00")
        assert len(await read_frame(stream)) == 37
        return stream


@asynccontextmanager
async def served(kind: type[Front], limits: FrontLimits | None = None) -> AsyncIterator[Served]:
    pipeline, sink = OneServer().pipeline, PromptSink()
    pipeline.sink = sink
    front = kind(pipeline, limits or FrontLimits(), SystemClock())
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    port = listener.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(front.run, listener)
        nursery.start_soon(sink.run, pipeline, front)
        server = Served(front, port)
        yield server
        for stream in server.streams:
            await trio.aclose_forcefully(stream)
        nursery.cancel_scope.cancel()


async def send_frame(stream: trio.SocketStream, body: bytes) -> None:
    await stream.send_all(pack(">i", len(body)) + body)


async def send_request(stream: trio.SocketStream, xid: int, op: int, request: object) -> None:
    await send_frame(stream, pack(">ii", xid, op) + encode(request))


async def read_exactly(stream: trio.SocketStream, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = await stream.receive_some(count - len(data))
        assert more, "the server hung up"
        data += more
    return data


async def read_frame(stream: trio.SocketStream) -> bytes:
    return await read_exactly(stream, unpack(">i", await read_exactly(stream, 4))[0])


@pytest.mark.parametrize("kind", FRONTS)
async def test_a_write_and_a_read_are_answered(kind: type[Front]) -> None:
    """What one connection writes, another reads."""
    async with served(kind) as server:
        writer, reader = await server.open_session(), await server.open_session()
        await send_request(writer, 1, OpCode.CREATE, CreateRequest("/a", b"hello", OPEN, 0))
        assert (await read_frame(writer))[16:] == b"\x00\x00\x00\x02/a"
        await send_request(reader, 1, OpCode.GET_DATA, GetDataRequest("/a", False))
        assert (await read_frame(reader))[16:25] == b"\x00\x00\x00\x05hello"


@pytest.mark.parametrize("kind", FRONTS)
async def test_one_address_may_have_so_many_connections(kind: type[Front]) -> None:
    """The connection beyond the limit is closed without a word; one that ends makes room."""
    async with served(kind, FrontLimits(per_address_max=1)) as server:
        first = await server.open_session()
        with pytest.raises((OSError, trio.BrokenResourceError, AssertionError)):
            await read_exactly(await server.connect(), 1)
        await first.aclose()
        while list(server.front.connections):
            await trio.lowlevel.checkpoint()
        await server.open_session()


@pytest.mark.parametrize("kind", FRONTS)
async def test_a_silent_connection_is_closed(kind: type[Front]) -> None:
    """Without a handshake the limit counts, rounded up to its next multiple."""
    async with served(kind, FrontLimits(idle_ms=10_000)) as server:
        stream = await server.connect()
        while not list(server.front.connections):
            await trio.lowlevel.checkpoint()
        pipeline = server.front.pipeline
        pipeline.begin_batch(pipeline.now_ms + 20_001, pipeline.wall_ms)
        server.front.close_idle()
        server.front.flush()
        assert await stream.receive_some() == b""


@pytest.mark.parametrize("kind", FRONTS)
async def test_a_client_that_does_not_read_is_not_read_from(kind: type[Front]) -> None:
    """Replies do not pile up, and all of them arrive once the client reads."""
    async with served(kind) as server:
        stream = await server.open_session()
        await send_request(stream, 1, OpCode.CREATE, CreateRequest("/big", bytes(900_000), OPEN, 0))
        await read_frame(stream)
        (connection,) = server.front.connections
        ask = pack(">ii", 2, OpCode.GET_DATA) + encode(GetDataRequest("/big", False))
        await stream.send_all((pack(">i", len(ask)) + ask) * 200)
        while not connection.is_paused:
            await trio.lowlevel.checkpoint()
        assert connection.out_bytes < OUT_PAUSE_BYTES + 1_000_000
        for _ in range(200):
            assert len(await read_frame(stream)) == 16 + 4 + 900_000 + 68


@pytest.mark.parametrize("kind", FRONTS)
async def test_a_word_is_answered_although_the_asker_has_stopped_sending(kind: type[Front]) -> None:
    """As `echo ruok | nc` does; then the server closes."""
    async with served(kind) as server:
        server.front.pipeline.answer_word = lambda connection, word: b"im" + word[1:3].encode()
        stream = await server.connect()
        await stream.send_all(b"ruok")
        await stream.send_eof()
        assert await read_exactly(stream, 4) == b"imuo"
        assert await stream.receive_some() == b""


@pytest.mark.parametrize("kind", FRONTS)
async def test_what_comes_after_a_word_does_not_cost_its_answer(kind: type[Front]) -> None:
    """A socket closed with unread input is reset, and the answer is lost: so input is discarded."""
    async with served(kind) as server:
        server.front.pipeline.answer_word = lambda connection, word: b"imok"
        stream = await server.connect()
        await stream.send_all(b"ruok")
        while not server.front.pipeline.stats.bytes_sent:
            await trio.lowlevel.checkpoint()
        for _ in range(3):
            await stream.send_all(b"\n" * 1000)
            await trio.lowlevel.checkpoint()
        assert await read_exactly(stream, 4) == b"imok"
        assert await stream.receive_some() == b""
        await stream.send_all(b"still no reset")
        await stream.send_eof()


@pytest.mark.parametrize("kind", FRONTS)
async def test_a_client_that_sends_on_and_on_after_its_word_is_closed(kind: type[Front]) -> None:
    async with served(kind) as server:
        server.front.pipeline.answer_word = lambda connection, word: b"imok"
        stream = await server.connect()
        await stream.send_all(b"ruok")
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(bytes(16 * LINGER_BYTES))  # more than the system's buffers hold, too


async def test_a_client_that_stays_after_its_word_is_closed_in_time() -> None:
    """It no longer counts as a connection that `cons` shows, but it does for the limit of its address."""
    async with served(PlainFront, FrontLimits(per_address_max=1)) as server:
        front = server.front
        assert isinstance(front, PlainFront)
        front.pipeline.answer_word = lambda connection, word: b"imok"
        stream = await server.connect()
        await stream.send_all(b"ruok")
        assert await read_exactly(stream, 4) == b"imok"
        assert await stream.receive_some() == b""
        assert not list(front.connections)
        (peer,) = front.lingering.values()
        with pytest.raises((OSError, trio.BrokenResourceError, AssertionError)):
            await read_exactly(await server.connect(), 1)
        front.pipeline.begin_batch(peer.lingers_since_ms + LINGER_MS, front.pipeline.wall_ms)
        front.close_idle()
        assert list(front.lingering.values()) == [peer]
        front.pipeline.begin_batch(peer.lingers_since_ms + LINGER_MS + 1, front.pipeline.wall_ms)
        front.close_idle()
        assert not front.lingering
        await server.open_session()


async def test_a_stream_whose_client_stays_after_its_word_is_closed_in_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    front = StreamFront(OneServer().pipeline, FrontLimits(), SystemClock())
    front.pipeline.answer_word = lambda connection, word: b"imok"
    client, server_end = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(front.serve, server_end, "127.0.0.1", 1)
        await client.send_all(b"ruok")
        assert await client.receive_some() == b"imok"
        assert await client.receive_some() == b""
        assert len(front.peers) == 1
    assert trio.current_time() == LINGER_MS / 1000


async def test_a_stream_that_was_not_read_from_is_closed_with_its_client(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """As one that waited for a leader's word about its session, which then was gone."""
    front = StreamFront(OneServer().pipeline, FrontLimits(), SystemClock())

    def paused(connection: ClientConnection, word: str) -> bytes:
        connection.pause()
        return b"imok"

    front.pipeline.answer_word = paused
    client, server_end = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(front.serve, server_end, "127.0.0.1", 1)
        await client.send_all(b"ruok")
        assert await client.receive_some() == b"imok"
        await client.aclose()
    assert trio.current_time() == 0


def test_addresses_are_written_as_java_writes_them() -> None:
    """IPv6 has eight groups, and a mapped IPv4 address is IPv4."""
    assert client_address(("127.0.0.1", 1)) == "127.0.0.1"
    assert client_address(("::1", 1, 0, 0)) == "0:0:0:0:0:0:0:1"
    assert client_address(("::ffff:10.1.2.3", 1, 0, 0)) == "10.1.2.3"
    assert client_address(("fe80::1%eth0", 1, 0, 2)) == "fe80:0:0:0:0:0:0:1%eth0"


async def test_a_plain_front_moves_to_another_port_and_keeps_its_connections() -> None:
    async with served(PlainFront) as server:
        assert isinstance(server.front, PlainFront)
        stream = await server.open_session()
        assert server.front.stop_listening() == ("127.0.0.1", server.port)
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        server.front.listen(listener)
        with pytest.raises(OSError, match="connect"):
            await server.connect()
        server.port = listener.getsockname()[1]
        await server.open_session()
        await send_request(stream, 1, OpCode.GET_DATA, GetDataRequest("/", False))
        assert (await read_frame(stream))[:4] == pack(">i", 1)
