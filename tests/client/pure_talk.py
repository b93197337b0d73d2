"""A conversation and a whole server without a socket between them: a test cuts the bytes as it likes."""

from collections.abc import Iterable
from struct import pack
from typing import Any

from client.conversation import Conversation, Output
from client.events import WatchedEvent
from client.paths import Chroot
from client.requests import AnyRequest
from jute.client_records import ConnectResponse, ReplyHeader
from jute.record import encode
from tests.server.one_server import Client, OneServer

SESSION_ID = 0x1000
PASSWORD = bytes(range(16))


class PureTalk:
    """One session with one server; `cuts` says how many bytes at a time the client is given."""

    def __init__(
        self,
        *,
        chroot: str = "",
        server: OneServer | None = None,
        cuts: Iterable[int] = (),
        ttl_nodes: bool = False,
    ) -> None:
        self.server = server or OneServer(ttl_nodes=ttl_nodes)
        self.conversation = Conversation(Chroot(chroot), timeout_ms=10_000)
        self.now_s = 0.0
        self.outputs: list[Output] = []
        self._cuts = list(cuts) or [1_000_000]
        self._cut = 0
        self._peer: Client | None = None
        self.connect()

    def connect(self) -> None:
        self._peer = Client(self.server)
        self.conversation.connection_made(self.now_s)
        self.exchange()

    def lose_connection(self) -> None:
        assert self._peer is not None
        self._peer.connection.lost()
        self._peer = None
        self.conversation.connection_lost()
        self.outputs += self.conversation.take_outputs()

    def exchange(self) -> None:
        """Carry bytes both ways until nobody has anything to say."""
        assert self._peer is not None
        while True:
            data = self.conversation.bytes_to_send(self.now_s)
            if data:
                self._peer.connection.received(data)
            self.server.settle()
            heard = self._peer.receive()
            if not data and not heard:
                break
            for piece in self._pieces(heard):
                if self.conversation.state.is_over:
                    break
                self.conversation.received(piece, self.now_s)
        self.outputs += self.conversation.take_outputs()

    def _pieces(self, data: bytes) -> Iterable[bytes]:
        at = 0
        while at < len(data):
            size = self._cuts[self._cut % len(self._cuts)]
            self._cut += 1
            yield data[at : at + size]
            at += size

    def ask(self, request: AnyRequest) -> Any:
        """Submit a request and return its result, or raise its error."""
        self.conversation.submit(request)
        self.exchange()
        return request.result()

    def take_events(self) -> list[WatchedEvent]:
        """The events since the last look."""
        events = [output for output in self.outputs if isinstance(output, WatchedEvent)]
        self.outputs.clear()
        return events


def framed(payload: bytes) -> bytes:
    return pack(">i", len(payload)) + payload


def accepted(*, timeout_ms: int = 9000, read_only: bool = False, session_id: int = SESSION_ID) -> bytes:
    """A server's answer to the handshake."""
    return framed(encode(ConnectResponse(0, timeout_ms, session_id, PASSWORD)) + bytes([read_only]))


def answer(xid: int, body: bytes = b"", *, zxid: int = 5, err: int = 0) -> bytes:
    return framed(encode(ReplyHeader(xid, zxid, err)) + body)
