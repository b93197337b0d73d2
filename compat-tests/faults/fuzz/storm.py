"""Spoilt requests by the hundred thousand, over many connections at once, and a check of every reply.

All connections are driven by one selector. A connection sends batches; a batch ends with a marker, a valid
request, and is over when the marker is answered or the server hangs up. Then comes another batch, or the end
of the connection in one of many ways.

In a strict batch only bodies are spoilt, so the server owes one reply to each frame, in order, and no hanging
up. In a loose one anything may be wrong; owed are whole frames with errors that exist.
"""

import selectors
import socket
import time
from collections import Counter, deque
from collections.abc import Sequence
from struct import Struct
from typing import Final

import attrs

from faults.fuzz.frames import AUTH_XID, Frames, frame, hello
from support.opcodes import Op
from support.raw_client import wire_string

MARKER_XID: Final = 0x7EADBEEF
SILENCE_SECONDS_MAX: Final = 60.0
REPLY_BYTES_MAX: Final = 80 << 20
_MARKER: Final = frame(MARKER_XID, Op.SYNC, wire_string(b"marker"))
_REPLY = Struct(">iqi")
_EVENT_XID: Final = -1
_ERRORS: Final = frozenset(
    (0, -2, -5, -6, -8, -12, -13, -14, -101, -102, -103, -108, -110, -111, -112, -114, -115, -119, -120, -121)
) | {-123, -124, -125, -127}
_CONNECT_RESPONSE_BYTES: Final = (36, 37)
_RECEIVE_BYTES: Final = 1 << 18
_NO_LINGER: Final = b"\x01\x00\x00\x00\x00\x00\x00\x00"


class Wrong(Exception):
    """The server said something it must not, or did not say what it must."""


def open_socket(port: int, source: str = "127.0.0.1") -> socket.socket:
    """A connection from one of the many addresses of loopback; the limit of connections is one for each."""
    opened = socket.socket()
    opened.settimeout(SILENCE_SECONDS_MAX)
    opened.bind((source, 0))
    opened.connect(("127.0.0.1", port))
    return opened


def reset(sock: socket.socket) -> None:
    """Close so that the other side gets a RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    sock.close()


@attrs.define
class Tally:
    """What was sent, and what came of it."""

    frames: int = 0
    replies: int = 0
    events: int = 0
    connects: int = 0
    hung_up: int = 0
    by_error: Counter[int] = attrs.field(factory=Counter)


class Conversation:
    """One connection of the storm."""

    def __init__(self, storm: "Storm", source: str) -> None:
        self._storm = storm
        self.sock = open_socket(storm.port, source)
        self.sock.setblocking(False)
        self.session = 0
        self.heard_at = time.monotonic()
        self.is_over = False
        self._outgoing = memoryview(hello(timeout_ms=storm.session_ms))
        self._incoming = bytearray()
        self._batches_left = storm.frames.rng.randint(1, 6)
        self._has_session = self._is_ending = self._is_strict = False
        self._expected: deque[int] = deque()
        self._begin_batch()

    def _begin_batch(self) -> None:
        frames = self._storm.frames
        rng = frames.rng
        count = min(rng.choice((1, 20, 100, 300, 600)), max(1, self._storm.frames_left))
        self._batches_left -= 1
        self._is_strict = rng.random() < 0.8
        self._expected.clear()
        if self._is_strict:
            drawn = [frames.lasting(xid) for xid in range(1, count + 1)]
            self._expected.extend(xid for _, xid in drawn if xid != AUTH_XID)
            parts = [data for data, _ in drawn]
        else:
            parts = [frames.loose() for _ in range(count)]
        self._storm.sent(count)
        self._outgoing = memoryview(b"".join([self._outgoing, *parts, _MARKER]))

    # -- what the selector tells

    @property
    def events(self) -> int:
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)

    def writable(self) -> None:
        try:
            sent = self.sock.send(self._outgoing[:65536])
        except BlockingIOError:
            return
        except OSError:
            return  # found out by reading
        self._outgoing = self._outgoing[sent:]

    def readable(self) -> None:
        try:
            data = self.sock.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.heard_at = time.monotonic()
        if not data:
            self._hung_up()
            return
        self._incoming += data
        self._take_frames()

    def _take_frames(self) -> None:
        data, at, size = bytes(self._incoming), 0, len(self._incoming)
        while size - at >= 4 and not self.is_over:
            length = int.from_bytes(data[at : at + 4], "big", signed=True)
            if not 16 <= length <= REPLY_BYTES_MAX:
                raise Wrong(f"a frame of {length} bytes: {data[at : at + 40].hex()}")
            if size - at - 4 < length:
                break
            self._hear(data, at + 4, length)
            at += 4 + length
        del self._incoming[:at]

    def _hear(self, data: bytes, at: int, length: int) -> None:
        if not self._has_session:
            self._hear_session(data, at, length)
            return
        xid, _, err = _REPLY.unpack_from(data, at)
        if xid == MARKER_XID:
            self._batch_over()
        elif xid == _EVENT_XID and length > 24 and self._is_event(data, at, length):
            self._storm.tally.events += 1
        elif self._is_ending:
            pass
        elif self._is_strict:
            self._hear_reply(xid, err, length)
        else:
            self._storm.replied(err if length not in _CONNECT_RESPONSE_BYTES else 0)

    def _hear_session(self, data: bytes, at: int, length: int) -> None:
        self.session = int.from_bytes(data[at + 8 : at + 16], "big")
        if length != 37 or not self.session:
            raise Wrong(f"no session: {data[at : at + length].hex()}")
        self._has_session = True

    def _is_event(self, data: bytes, at: int, length: int) -> bool:
        kind, state, path_bytes = (int.from_bytes(data[at + i : at + i + 4], "big") for i in (16, 20, 24))
        return 1 <= kind <= 4 and state == 3 and path_bytes == length - 28

    def _hear_reply(self, xid: int, err: int, length: int) -> None:
        if xid == AUTH_XID:
            return
        expected = self._expected.popleft() if self._expected else None
        if xid == 0 and length in _CONNECT_RESPONSE_BYTES:
            err = 0  # createSession is answered by a connect response
        elif xid != expected:
            raise Wrong(f"xid {xid} instead of {expected}")
        self._storm.replied(err)

    # -- the ends

    def _batch_over(self) -> None:
        if self._is_strict and self._expected:
            raise Wrong(f"no reply to {len(self._expected)} requests, xid {self._expected[0]} the first")
        if self._is_ending:
            return
        if self._batches_left and self._storm.frames_left > 0:
            self._begin_batch()
        else:
            self._end()

    def _end(self) -> None:
        rng = self._storm.frames.rng
        how = rng.choice(("close", "reset", "half", "cut", "fatal", "fatal", "fatal", "bye"))
        self._is_ending = True
        if how in ("close", "cut"):
            if how == "cut":
                self._last_words(self._storm.frames.stream(5)[: -rng.randint(1, 30)])
            self.close()
        elif how == "reset":
            self._last_words(self._storm.frames.stream(2))
            reset(self.sock)
            self.is_over = True
        elif how == "half":
            self.sock.shutdown(socket.SHUT_WR)
        else:
            last = frame(1, Op.CLOSE_SESSION, b"") if how == "bye" else self._storm.frames.fatal() + bytes(4)
            self._storm.sent(1)
            self._outgoing = memoryview(last)

    def _last_words(self, data: bytes) -> None:
        try:
            self.sock.send(data)
        except OSError:
            return  # it hung up first, which is its right by now

    def _hung_up(self) -> None:
        self._storm.tally.hung_up += 1
        if self._is_strict and not self._is_ending:
            self._storm.cut_short.append(self.session)
        self.close()

    def close(self) -> None:
        self.sock.close()
        self.is_over = True


@attrs.define
class Storm:
    """Many conversations at a time, until so many frames are sent; they come from the addresses `sources`."""

    port: int
    frames: Frames
    sources: Sequence[str]
    conversations_max: int = 24
    session_ms: int = 3000
    tally: Tally = attrs.field(factory=Tally)
    cut_short: list[int] = attrs.field(factory=list)  # sessions whose connection ended for no reason we know
    frames_left: int = 0

    def run(self, count: int, deadline: float) -> None:
        self.frames_left = count
        with selectors.DefaultSelector() as selector:
            live: set[Conversation] = set()
            try:
                while (self.frames_left > 0 or live) and time.monotonic() < deadline:
                    if self.frames_left > 0 and len(live) < self.conversations_max:
                        live.add(self._begin(selector))
                    self._turn(selector, live)
            finally:
                for conversation in live:
                    conversation.close()

    def _begin(self, selector: selectors.BaseSelector) -> Conversation:
        self.tally.connects += 1
        conversation = Conversation(self, self.frames.rng.choice(self.sources))
        selector.register(conversation.sock, conversation.events, conversation)
        return conversation

    def _turn(self, selector: selectors.BaseSelector, live: set[Conversation]) -> None:
        for key, ready in selector.select(0.2):
            conversation: Conversation = key.data
            if ready & selectors.EVENT_READ:
                conversation.readable()
            if ready & selectors.EVENT_WRITE and not conversation.is_over:
                conversation.writable()
            if conversation.is_over:
                selector.unregister(key.fileobj)
                live.discard(conversation)
            elif conversation.events != key.events:
                selector.modify(conversation.sock, conversation.events, conversation)
        now = time.monotonic()
        for conversation in live:
            if now - conversation.heard_at > SILENCE_SECONDS_MAX:
                raise Wrong(f"session 0x{conversation.session:x} heard nothing for {SILENCE_SECONDS_MAX} s")

    def sent(self, count: int) -> None:
        self.tally.frames += count
        self.frames_left -= count

    def replied(self, err: int) -> None:
        self.tally.replies += 1
        self.tally.by_error[err] += 1
        if err not in _ERRORS:
            raise Wrong(f"error {err} does not exist")
