"""One client's session at the second server: connects, asks one thing at a time, and collects events.

A connection that is lost is made again with the same session, for as long as it takes; its credentials are
shown again, but its watches are gone (`lost_watches`) until the client sets them again.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import attrs
import trio

from client.replies import REPLY_LENGTH_MAX, decode_reply
from client.words import Connector
from jute.client_records import ConnectRequest, ConnectResponse, ReplyHeader, RequestHeader, WatcherEvent
from jute.framing import FrameBuffer, FrameError, frame
from jute.opcodes import AUTH_XID, NOTIFICATION_XID, PING_XID, OpCode
from jute.record import DecodeError, encode

RECEIVE_BYTES_MAX: Final = 65536
RETRY_SECONDS_MAX: Final = 2.0
CLOSE_SECONDS_MAX: Final = 2.0
SILENCE_SECONDS_MAX: Final = 5.0  # then people are told that it does not answer
Reply = tuple[ReplyHeader, bytes]


class SecondLost(Exception):
    """The connection ended before the answer came: the request may have been done, or not."""


BROKEN: Final = (
    OSError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    FrameError,
    DecodeError,
    SecondLost,
)


@attrs.define(eq=False)
class SecondSession:
    """A session at the second server."""

    address: tuple[str, int]
    connect: Connector
    timeout_ms: int
    on_event: Callable[[WatcherEvent], None]
    on_trouble: Callable[[str], None]
    session_id: int = 0
    password: bytes = bytes(16)
    granted_ms: int = 0
    lost_watches: bool = False
    was_ended: bool = False  # the server no longer knew the session, and gave us another one
    _auths: list[bytes] = attrs.field(factory=list)
    _stream: trio.abc.Stream | None = None
    _frames: FrameBuffer = attrs.field(factory=lambda: FrameBuffer(REPLY_LENGTH_MAX))
    _sent_s: float = -math.inf

    async def open(self) -> None:
        """Connect, with the session there is, until it works."""
        pause_s = 0.1
        while True:
            try:
                await self._connect_once()
            except BROKEN as problem:
                await self.hang_up()
                self.on_trouble(str(problem) or type(problem).__name__)
                await trio.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_SECONDS_MAX)
            else:
                return

    async def _connect_once(self) -> None:
        self._stream = await self.connect(*self.address)
        self._frames = FrameBuffer(REPLY_LENGTH_MAX)
        hello = ConnectRequest(0, 0, self.timeout_ms, self.session_id, self.password)
        await self._send(encode(hello) + b"\0")
        response = decode_reply(ConnectResponse, await self._receive())[0]
        if response.timeout_ms <= 0:
            self.was_ended, self.session_id, self.password = True, 0, bytes(16)
            raise SecondLost("the session is not known there any more")
        self.granted_ms = response.timeout_ms
        self.session_id, self.password = response.session_id, response.passwd or bytes(16)
        for body in self._auths:
            await self._send(encode(RequestHeader(AUTH_XID, OpCode.AUTH)) + body)
            await self._answer(AUTH_XID)

    async def reconnect(self) -> None:
        """Begin again with nothing but the session, as a client does that comes back."""
        self._auths.clear()
        self.lost_watches = False
        await self.hang_up()
        await self.open()

    async def ask(self, xid: int, op: int, body: bytes) -> Reply:
        """The answer to a request. Raises SecondLost; the next request then finds a new connection."""
        if self._stream is None:
            await self.open()
        try:
            await self._send(encode(RequestHeader(xid, op)) + body)
            answer = await self._answer(xid)
        except BROKEN as problem:
            self.lost_watches = True
            await self.hang_up()
            self.on_trouble(str(problem) or type(problem).__name__)
            raise SecondLost(str(problem)) from problem
        if op == OpCode.AUTH:
            self._auths.append(body)
        return answer

    async def ping(self) -> None:
        """Every event that was sent before the answer has been taken in when this returns."""
        await self.ask(PING_XID, OpCode.PING, b"")

    @property
    def ping_due_s(self) -> float:
        return self._sent_s + self.granted_ms / 3000

    async def close(self) -> None:
        """End the session at the server, if it can be reached."""
        if self._stream is not None:
            with trio.move_on_after(CLOSE_SECONDS_MAX), suppress(SecondLost):
                await self.ask(1, OpCode.CLOSE_SESSION, b"")
        await self.hang_up()

    async def _answer(self, xid: int) -> Reply:
        while True:
            payload = await self._receive()
            header, at = decode_reply(ReplyHeader, payload)
            if header.xid == NOTIFICATION_XID:
                self.on_event(decode_reply(WatcherEvent, payload, at)[0])
            elif header.xid == xid:
                return header, payload[at:]
            else:
                raise DecodeError(f"an answer to xid {header.xid}, but {xid} was asked")

    async def _send(self, payload: bytes) -> None:
        assert self._stream is not None
        self._sent_s = trio.current_time()
        await self._stream.send_all(frame(payload))

    async def _receive(self) -> bytes:
        assert self._stream is not None
        while (payload := self._frames.next_frame()) is None:
            data = None
            with trio.move_on_after(SILENCE_SECONDS_MAX):
                data = await self._stream.receive_some(RECEIVE_BYTES_MAX)
            if data is None:
                self.on_trouble(f"nothing was heard for {SILENCE_SECONDS_MAX:.0f} s")
                data = await self._stream.receive_some(RECEIVE_BYTES_MAX)
            if not data:
                raise SecondLost("the connection was closed")
            self._frames.feed(bytes(data))
        return payload

    async def hang_up(self) -> None:
        """End the connection; the session lives on until it expires."""
        stream, self._stream = self._stream, None
        if stream is not None:
            await trio.aclose_forcefully(stream)
