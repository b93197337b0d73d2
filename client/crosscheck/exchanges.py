"""One client's connection as the proxy sees it: bytes of both directions in, requests with replies out."""

from collections import deque
from typing import TypeAlias

import attrs

from client.replies import REPLY_LENGTH_MAX, decode_reply
from jute.client_records import ConnectRequest, ConnectResponse, ReplyHeader, RequestHeader, WatcherEvent
from jute.framing import FrameBuffer, FrameError
from jute.opcodes import NOTIFICATION_XID
from jute.record import DecodeError, decode

WORD_LENGTH = 4  # of ruok, srvr and the like, which are sent without a frame


class Unreadable(Exception):
    """The connection does not carry the client protocol, so there is nothing to compare."""


@attrs.frozen
class Asked:
    """A request."""

    xid: int
    op: int
    body: bytes


@attrs.frozen
class Answered:
    """A request and its reply."""

    asked: Asked
    zxid: int
    err: int
    body: bytes


@attrs.frozen
class Told:
    """A watch event."""

    zxid: int  # of the transaction that fired the watch, if the server says
    event: WatcherEvent


@attrs.frozen
class Welcomed:
    """A handshake. A response whose timeout is 0 refuses the session."""

    request: ConnectRequest
    response: ConnectResponse


Heard: TypeAlias = Answered | Told | Welcomed


class Exchanges:
    """Pairs what a client says with what its server answers."""

    def __init__(self) -> None:
        self._from_client = FrameBuffer(REPLY_LENGTH_MAX)
        self._from_server = FrameBuffer(REPLY_LENGTH_MAX)
        self._hello: ConnectRequest | None = None
        self._is_welcomed = False
        self._pending: deque[Asked] = deque()

    def client_said(self, data: bytes) -> None:
        """Take in the client's bytes. Raises Unreadable."""
        if self._hello is None and data[:WORD_LENGTH].isalpha():
            raise Unreadable(f"a four-letter word: {data[:WORD_LENGTH].decode()}")
        self._from_client.feed(data)
        try:
            while (payload := self._from_client.next_frame()) is not None:
                if self._hello is None:
                    self._hello = decode(ConnectRequest, payload)[0]
                else:
                    header, at = decode(RequestHeader, payload)
                    self._pending.append(Asked(header.xid, header.type, payload[at:]))
        except (FrameError, DecodeError) as problem:
            raise Unreadable(f"what the client says is no ZooKeeper: {problem}") from problem

    def server_said(self, data: bytes) -> list[Heard]:
        """Take in the server's bytes, and return what they complete. Raises Unreadable."""
        self._from_server.feed(data)
        heard: list[Heard] = []
        try:
            while (payload := self._from_server.next_frame()) is not None:
                heard.append(self._reply(payload) if self._is_welcomed else self._welcome(payload))
        except (FrameError, DecodeError) as problem:
            raise Unreadable(f"what the server says is no ZooKeeper: {problem}") from problem
        return heard

    def _welcome(self, payload: bytes) -> Welcomed:
        if self._hello is None:
            raise Unreadable("the server spoke first")
        self._is_welcomed = True
        return Welcomed(self._hello, decode_reply(ConnectResponse, payload)[0])

    def _reply(self, payload: bytes) -> Heard:
        header, at = decode_reply(ReplyHeader, payload)
        if header.xid == NOTIFICATION_XID:
            return Told(header.zxid, decode_reply(WatcherEvent, payload, at)[0])
        # Replies come in the order of the requests, but the answer to an auth may overtake others.
        for index, asked in enumerate(self._pending):
            if asked.xid == header.xid:
                del self._pending[index]
                return Answered(asked, header.zxid, header.err, payload[at:])
        raise Unreadable(f"an answer to xid {header.xid}, which was not asked")
