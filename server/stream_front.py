"""Client conversations over Trio streams, a task for each: for systems without epoll, and for tests.

What is common to all fronts, and the faster one, is in client_fronts.py.
"""

import socket
from collections.abc import Iterable
from typing import Final

import trio

from server.client_fronts import (
    LINGER_BYTES,
    LINGER_MS,
    RECEIVE_BYTES,
    FrontLimits,
    admits,
    client_address,
    is_idle,
)
from server.client_protocol import ClientConnection
from server.clock import Clock
from server.loop_meter import REQUEST
from server.pipeline import Pipeline

_SEND_BYTES: Final = 256 * 1024  # a client that takes so many is alive


class StreamPeer:
    """One Trio stream and the conversation it carries; the handle of that conversation."""

    def __init__(self, front: "StreamFront", stream: trio.abc.Stream, address: str, port: int) -> None:
        self._front = front
        self._stream = stream
        self._has_output = trio.Event()
        self._may_read = trio.Event()
        self._conversation = trio.CancelScope()
        self._lingers = False
        self._discarded_bytes = 0
        self.connection = ClientConnection(front.pipeline, self, address, port)

    def wants_flush(self) -> None:
        self._has_output.set()
        if self.connection.is_cut_off:  # it may be stuck in a send that never ends
            self._conversation.cancel()

    def resume_reading(self) -> None:
        self._may_read.set()

    async def run(self) -> None:
        """Receive and send until one of the two ends the conversation."""
        try:
            with self._conversation:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._send_all)
                    await self._receive_all()
                    self._conversation.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client is gone

    async def _receive_all(self) -> None:
        connection = self.connection
        while True:
            while connection.is_paused and not self._lingers:
                self._may_read = trio.Event()
                await self._may_read.wait()
            data = await self._stream.receive_some(RECEIVE_BYTES)
            if not data:
                return
            if connection.closes_after_flush:
                self._discarded_bytes += len(data)
                if self._discarded_bytes > LINGER_BYTES:
                    return
            else:
                self._front.received(connection, bytes(data))

    async def _send_all(self) -> None:
        connection, pipeline = self.connection, self._front.pipeline
        while True:
            await self._has_output.wait()
            self._has_output = trio.Event()
            connection.is_flush_wanted = False
            sent_frames = len(connection.out) - connection.pieces_in_out
            connection.pieces_in_out = 0
            pipeline.stats.packets_sent += sent_frames
            connection.sent_count += sent_frames
            data = b"".join(connection.out)
            connection.out.clear()
            for start in range(0, len(data), _SEND_BYTES):
                await self._stream.send_all(data[start : start + _SEND_BYTES])
                connection.flushed(len(data) - min(start + _SEND_BYTES, len(data)))
            pipeline.stats.bytes_sent += len(data)
            if connection.closes_after_flush and not connection.out:
                await self._linger()
                return
            self._front.begin_batch()
            connection.flushed(0)
            self._front.end_batch()

    async def _linger(self) -> None:
        """All is said: stop sending, and close when the client has done so too (see client_fronts.py)."""
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            self._lingers = True
            self._may_read.set()
            await self._stream.send_eof()
            await trio.sleep(LINGER_MS / 1000)
        self._conversation.cancel()


class StreamFront:
    """All connections of one listener, or any streams handed to `serve`."""

    def __init__(self, pipeline: Pipeline, limits: FrontLimits, clock: Clock) -> None:
        self.pipeline = pipeline
        self.limits = limits
        self._clock = clock
        self.peers: set[StreamPeer] = set()

    @property
    def connections(self) -> Iterable[ClientConnection]:
        return (peer.connection for peer in self.peers)

    async def run(self, listener: socket.socket) -> None:
        """Serve a listening socket until cancelled."""
        listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(listener))]
        await trio.serve_listeners(self._serve_socket, listeners)

    async def _serve_socket(self, stream: trio.SocketStream) -> None:
        try:
            address = stream.socket.getpeername()
        except OSError:
            return  # gone before we looked
        await self.serve(stream, client_address(address), address[1])

    async def serve(self, stream: trio.abc.Stream, address: str, port: int) -> None:
        """Carry on one conversation, to its end."""
        self.begin_batch()
        same = sum(peer.connection.address == address for peer in self.peers)
        if not admits(self.limits, self.pipeline, address, same, len(self.peers)):
            await trio.aclose_forcefully(stream)
            return
        peer = StreamPeer(self, stream, address, port)
        self.peers.add(peer)
        try:
            await peer.run()
        finally:
            self.peers.discard(peer)
            peer.connection.lost()
            self.pipeline.stats.connections_dropped += 1
            await trio.aclose_forcefully(stream)

    def received(self, connection: ClientConnection, data: bytes) -> None:
        """A batch of its own: there is no telling which other streams are ready."""
        self.begin_batch()
        self.pipeline.stats.bytes_received += len(data)
        connection.received(data)
        self.pipeline.meter.noted(REQUEST, connection.session_id, connection.last_op)
        self.end_batch()

    def begin_batch(self) -> None:
        self.pipeline.begin_batch(self._clock.now_ms(), self._clock.wall_ms())

    def end_batch(self) -> None:
        self.pipeline.resume_paused()
        self.pipeline.end_batch(self._clock.now_ms())

    def flush(self) -> None:
        """Every connection's own task sends; one that cannot, because its client does not read, is noticed
        here."""
        for peer in list(self.peers):
            peer.connection.cut_off_if_overrun()

    def close_idle(self) -> None:
        for peer in list(self.peers):
            if is_idle(peer.connection, self.limits, self.pipeline.now_ms):
                self.pipeline.stats.connections_idle += 1
                peer.connection.close()
