"""Clients that misbehave by what they do, rather than by the bytes they send.

Each attack is a method of Hostile that connects, does its worst within a few seconds, and leaves without
cleaning up. None of them expects an answer, except where the answer itself is the point.
"""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

import attrs

from faults.fuzz.frames import AUTH_XID, BIG, ROOT, WIDE, Frames, frame, hello
from faults.fuzz.storm import Tally, Wrong, open_socket, reset
from support.opcodes import Op
from support.raw_client import wire_buffer, wire_byte, wire_int, wire_long, wire_string, wire_vector

_OPEN: Final = wire_vector([wire_int(31) + wire_string(b"world") + wire_string(b"anyone")])
_MULTI_END: Final = wire_int(-1) + b"\x01" + wire_int(-1)


def _operation(op: int, *fields: bytes) -> bytes:
    return wire_int(op) + b"\x00" + wire_int(-1) + b"".join(fields)


def _create(path: bytes, flags: int = 0, data: bytes = b"") -> bytes:
    return wire_string(path) + wire_buffer(data) + _OPEN + wire_int(flags)


@attrs.define
class Hostile:
    """All attacks against one server; `scale` makes them smaller for a short run."""

    port: int
    frames: Frames
    sources: list[str]
    scale: float = 1.0
    tally: Tally = attrs.field(factory=Tally)

    def attacks(self) -> list[Callable[[], None]]:
        return [
            self.spoilt_hellos,
            self.words,
            self.dripping_bytes,
            self.cut_anywhere,
            self.idle_crowd,
            self.large_replies_unread,
            self.reads_behind_writes_unread,
            self.events_unread,
            self.hoarded_watches,
            self.one_session_many_connections,
            self.guessed_sessions,
            self.requests_while_closing,
            self.ephemerals_left_behind,
            self.endless_multis,
            self.endless_lists,
            self.endless_acls,
            self.endless_auths,
            self.long_paths,
            self.long_reads,
        ]

    # -- the means

    def _count(self, number: int) -> int:
        return max(1, round(number * self.scale))

    @contextmanager
    def _connections(self, count: int) -> Iterator[list[socket.socket]]:
        """Connections without a session; what is left of them in the end gets a RST."""
        with ExitStack() as opened:
            made = []
            for _ in range(count):
                sock = open_socket(self.port, self.frames.rng.choice(self.sources))
                opened.callback(_reset_quietly, sock)
                made.append(sock)
            self.tally.connects += count
            yield made

    @contextmanager
    def _sessions(self, count: int) -> Iterator[list[socket.socket]]:
        with self._connections(count) as opened:
            for sock in opened:
                sock.sendall(hello(timeout_ms=2000))
            for sock in opened:
                self._receive_frame(sock)
            yield opened

    @contextmanager
    def _session(self) -> Iterator[socket.socket]:
        with self._sessions(1) as opened:
            yield opened[0]

    def _send(self, sock: socket.socket, data: bytes, frames: int = 1) -> bool:
        """False if the server takes no more: it hung up, or stopped reading from a client that does not."""
        self.tally.frames += frames
        sock.settimeout(0.2)
        try:
            sock.sendall(data)
        except OSError:
            return False
        finally:
            sock.settimeout(60)
        return True

    def _receive_frame(self, sock: socket.socket) -> bytes:
        """One frame; empty if the server hung up."""
        head = _receive_exactly(sock, 4)
        return _receive_exactly(sock, int.from_bytes(head, "big")) if head else b""

    def _answer(self, sock: socket.socket, op: int, body: bytes) -> tuple[int, int]:
        """The error of the reply to one request and the size of the reply; events before it are skipped."""
        self.tally.frames += 1
        with suppress(OSError):
            sock.sendall(frame(1, op, body))
        while reply := self._receive_frame(sock):
            if reply[:4] != b"\xff\xff\xff\xff":
                self.tally.replies += 1
                return int.from_bytes(reply[12:16], "big", signed=True), len(reply)
        return -4, 0

    # -- before there is a session

    def spoilt_hellos(self) -> None:
        """Connect requests with anything wrong, and sometimes garbage behind; some wait for the answer."""
        rng = self.frames.rng
        for _ in range(self._count(1500)):
            with self._connections(1) as (sock,):
                data = self.frames.spoilt_hello()
                if rng.random() < 0.3:
                    data += self.frames.stream(3)
                self._send(sock, data)
                if rng.random() < 0.1:
                    sock.settimeout(0.05)
                    with suppress(OSError):
                        sock.recv(1000)

    def words(self) -> None:
        for _ in range(self._count(300)):
            with self._connections(1) as (sock,):
                self._send(sock, self.frames.words())
                sock.shutdown(socket.SHUT_WR)
                with suppress(OSError):
                    while sock.recv(1 << 16):
                        pass

    def dripping_bytes(self) -> None:
        """Every byte a packet of its own, on many connections side by side."""
        plain = hello() + self.frames.stream(2)
        large = wire_int(0xFFFFF) + bytes(1000)
        with self._connections(20) as opened:
            for n in range(self._count(150)):
                for index, sock in enumerate(opened):
                    data = large if index % 4 == 3 else plain
                    with suppress(OSError):
                        sock.send(data[n : n + 1])
                time.sleep(0.002)
            self.tally.frames += 3 * len(opened)

    def cut_anywhere(self) -> None:
        """The connection ends after so many bytes, by FIN, by RST, or by half."""
        data = hello() + self.frames.lasting(1)[0]
        for size in range(0, len(data), max(1, round(2 / self.scale))):
            for end in (_reset_quietly, socket.socket.close, _half_close):
                with self._connections(1) as (sock,):
                    self._send(sock, data[:size])
                    end(sock)

    def idle_crowd(self) -> None:
        """More connections than one address may have, most of them silent, some with half a large frame."""
        with ExitStack() as opened:
            for n in range(self._count(150)):
                self.tally.connects += 1
                try:
                    sock = open_socket(self.port, self.sources[0])
                except ConnectionResetError:
                    continue  # one too many
                opened.callback(_reset_quietly, sock)
                if n % 3 == 0:
                    self._send(sock, wire_int(0xFFFFF) + bytes(200_000))
            time.sleep(0.1)

    # -- output that nobody reads

    def large_replies_unread(self) -> None:
        with self._sessions(self._count(12)) as opened:
            for sock in opened:
                for op, path in ((Op.GET_DATA, BIG), (Op.GET_CHILDREN2, WIDE), (Op.GET_ACL, BIG)):
                    self._send(sock, frame(1, op, wire_string(path) + wire_byte(1)) * 500, 500)
            time.sleep(0.3)

    def reads_behind_writes_unread(self) -> None:
        """Reads that wait for a write: all of their replies come at once, and nobody takes them."""
        write = frame(1, Op.SET_DATA, wire_string(ROOT) + wire_buffer(b"w") + wire_int(-1))
        read = frame(2, Op.GET_DATA, wire_string(BIG) + wire_byte(0))
        with self._sessions(self._count(8)) as opened:
            for sock in opened:
                self._send(sock, (write + read * 200) * 4, 804)
            time.sleep(0.3)

    def events_unread(self) -> None:
        """Watches on everything, many changes, and no reading."""
        watch = frame(1, Op.ADD_WATCH, wire_string(b"/") + wire_int(1))
        path = ROOT + b"/" + b"long" * 5000
        with self._sessions(self._count(8)) as opened, self._session() as writer:
            for sock in opened:
                self._send(sock, watch)
            self._answer(writer, Op.CREATE, _create(path))
            for _ in range(self._count(1200)):
                self._answer(writer, Op.SET_DATA, wire_string(path) + wire_buffer(b"") + wire_int(-1))

    # -- watches and sessions

    def hoarded_watches(self) -> None:
        """Thousands of watches of every kind on each of some connections, which then are gone."""
        kinds = (
            (Op.EXISTS, wire_byte(1)),
            (Op.GET_DATA, wire_byte(1)),
            (Op.GET_CHILDREN, wire_byte(1)),
            (Op.ADD_WATCH, wire_int(0)),
            (Op.ADD_WATCH, wire_int(1)),
        )
        count = self._count(2000)
        with self._sessions(4) as opened:
            for sock in opened:
                for op, tail in kinds:
                    batch = b"".join(
                        frame(1, op, wire_string(WIDE + b"/%d" % n) + tail) for n in range(count)
                    )
                    self._send(sock, batch, count)
                    _drain(sock)
            with self._session() as writer:
                for n in range(self._count(100)):
                    body = wire_string(WIDE + b"/%d" % n) + wire_buffer(b"") + wire_int(-1)
                    self._answer(writer, Op.SET_DATA, body)

    def one_session_many_connections(self) -> None:
        """Everyone wants the same session, with the right password or not, at the same moment."""
        with self._connections(1) as (first,):
            first.sendall(hello(timeout_ms=2000))
            response = self._receive_frame(first)
            session, password = int.from_bytes(response[8:16], "big", signed=True), response[20:36]
            for _ in range(self._count(20)):
                with self._connections(15) as opened:
                    for index, sock in enumerate(opened):
                        secret = password if index % 3 else self.frames.rng.randbytes(16)
                        again = hello(session=session, password=secret, timeout_ms=2000)
                        self._send(sock, again + self.frames.stream(5), 6)

    def guessed_sessions(self) -> None:
        """Ids near one that exists, with any password: none may be let in."""
        with self._connections(1) as (first,):
            first.sendall(hello(timeout_ms=2000))
            session = int.from_bytes(self._receive_frame(first)[8:16], "big", signed=True)
            for n in range(self._count(300)):
                with self._connections(1) as (sock,):
                    guess = hello(session=session - 50 + n % 100, password=self.frames.rng.randbytes(16))
                    self._send(sock, guess)
                    response = self._receive_frame(sock)
                    if response[8:16] != bytes(8):
                        raise Wrong(f"a guessed session was let in: {response.hex()}")

    def requests_while_closing(self) -> None:
        """closeSession with requests all around it, and a second connection that wants the session."""
        close = frame(9, Op.CLOSE_SESSION, b"")
        for _ in range(self._count(60)):
            with self._connections(2) as (first, second):
                first.sendall(hello(timeout_ms=2000))
                response = self._receive_frame(first)
                session, password = int.from_bytes(response[8:16], "big", signed=True), response[20:36]
                ephemeral = frame(1, Op.CREATE, _create(ROOT + b"/e-", 3)) * 5
                revived = frame(2, Op.CREATE_SESSION, wire_int(2**31 - 1))
                self._send(
                    first, ephemeral + close + ephemeral + revived + close + self.frames.stream(20), 33
                )
                again = hello(session=session, password=password)
                self._send(second, again + ephemeral + revived + close, 8)

    def ephemerals_left_behind(self) -> None:
        """Many sessions with ephemerals, all lost at once; their nodes must go when their time is up."""
        with self._sessions(self._count(50)) as opened:
            for sock in opened:
                self._send(sock, frame(1, Op.CREATE, _create(ROOT + b"/left-", 3)) * 20, 20)
            for sock in opened:
                for _ in range(20):
                    self._receive_frame(sock)

    # -- requests as large as they can be

    def endless_multis(self) -> None:
        rng = self.frames.rng
        path = wire_string(ROOT)
        pieces = (
            (5000, _operation(Op.CHECK, path, wire_int(-1))),
            (5000, _operation(Op.CREATE, _create(ROOT + b"/", 2))),
            (500, _operation(Op.CREATE, _create(BIG + b"/", 2))),
            (5000, _operation(Op.SET_DATA, path, wire_buffer(b""), wire_int(-1))),
            (5000, _operation(Op.DELETE, wire_string(b"/none"), wire_int(-1))),
        )
        with self._session() as sock:
            for count, piece in pieces:
                many = piece * self._count(count)
                failing = many + _operation(Op.DELETE, wire_string(b"/none"), wire_int(7))
                self._answer(sock, Op.MULTI, failing + _MULTI_END)
                self._answer(sock, Op.MULTI, many)
            reads = _operation(Op.GET_DATA, wire_string(BIG), b"\x00") * 4000
            err, size = self._answer(sock, Op.MULTI_READ, reads + _MULTI_END)
            if err == 0 and size > 1 << 30:
                raise Wrong(f"a multiRead was answered by {size} bytes")
            nested = _MULTI_END
            for _ in range(2000):
                nested = wire_int(Op.MULTI) + b"\x00" + wire_int(rng.randint(-2, 2)) + nested
            for op in (Op.MULTI, Op.MULTI_READ):
                self._answer(sock, op, nested)

    def endless_lists(self) -> None:
        none, count = wire_vector([]), self._count(100_000)
        empty = wire_vector([wire_string(b"")] * count)
        distinct = wire_vector([wire_string(b"%x" % n) for n in range(count)])
        huge = wire_int(2**31 - 1) + bytes(1000)
        with self._session() as sock:
            for since in (0, 2**40):
                for lists in (
                    (empty, none, none),
                    (none, distinct, none),
                    (none, none, empty),
                    (none, huge, none),
                ):
                    self._answer(sock, Op.SET_WATCHES, wire_long(since) + b"".join(lists))
            self._answer(sock, Op.SET_WATCHES2, wire_long(0) + none * 3 + distinct + empty)
            self._send(sock, frame(1, Op.SET_WATCHES2, wire_long(0) + none * 3 + distinct + distinct))

    def endless_acls(self) -> None:
        entries = [
            wire_int(n) + wire_string(b"world") + wire_string(b"anyone") for n in range(self._count(40_000))
        ]
        acls = (
            wire_vector(entries),
            wire_int(2**31 - 1) + b"".join(entries),
            wire_vector([wire_int(n) + wire_string(b"auth") + wire_string(b"") for n in range(len(entries))]),
            wire_vector(
                [wire_int(1) + wire_string(b"ip") + wire_string(b"1.2.3.4/" + b"0" * 900_000 + b"8")]
            ),
        )
        path = wire_string(ROOT + b"/acl")
        with self._session() as sock:
            for acl in acls:
                self._answer(sock, Op.CREATE, path + wire_buffer(b"") + acl + wire_int(0))
                self._answer(sock, Op.SET_ACL, path + acl + wire_int(-1))
                self._send(sock, frame(1, Op.EXISTS, path + wire_byte(0)) * 200, 200)
                _drain(sock)

    def endless_auths(self) -> None:
        """A client that proves ever more ids, long ones too, until it is told to stop."""
        for user in (b"u%d", b"u%d" + b"x" * 50_000):
            with self._session() as sock:
                for n in range(self._count(2000)):
                    body = wire_int(0) + wire_string(b"digest") + wire_buffer(user % n + b":p")
                    if not self._send(sock, frame(AUTH_XID, Op.AUTH, body)):
                        break

    def long_paths(self) -> None:
        """Paths as long as a frame: made, watched, listed, and left behind."""
        path = wire_string(ROOT + b"/" + b"x" * 900_000)
        slashes = wire_string(b"/" * 900_000)
        with self._session() as sock:
            self._answer(sock, Op.CREATE, path + wire_buffer(b"") + _OPEN + wire_int(1))
            for text in (path, slashes):
                for op in (Op.EXISTS, Op.GET_DATA, Op.GET_CHILDREN):
                    self._answer(sock, op, text + wire_byte(1))
                self._answer(sock, Op.ADD_WATCH, text + wire_int(1))
                self._answer(sock, Op.SYNC, text)
                self._answer(sock, Op.SET_DATA, text + wire_buffer(b"x") + wire_int(-1))
                self._answer(sock, Op.GET_EPHEMERALS, text)
            self._answer(sock, Op.GET_CHILDREN, wire_string(ROOT) + wire_byte(0))

    def long_reads(self) -> None:
        """Short requests with short replies that take the server long, thousands of them in one packet."""
        count = self._count(5000)
        with self._session() as sock:
            self._send(sock, frame(1, Op.CREATE, _create(ROOT + b"/mine-", 3)) * count, count)
            _drain(sock)
            for op, text in ((Op.GET_EPHEMERALS, b"/none"), (Op.GET_ALL_CHILDREN_NUMBER, ROOT)):
                self._send(sock, frame(1, op, wire_string(text)) * 500, 500)
                _drain(sock)


def _reset_quietly(sock: socket.socket) -> None:
    with suppress(OSError):
        reset(sock)


def _half_close(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
        sock.settimeout(0.05)
        sock.recv(1000)


def _drain(sock: socket.socket) -> None:
    """Read until nothing has come for a moment."""
    sock.settimeout(0.2)
    with suppress(OSError):
        while sock.recv(1 << 18):
            pass
    sock.settimeout(60)


def _receive_exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        try:
            more = sock.recv(min(1 << 20, size - len(data)))
        except TimeoutError:
            raise Wrong("the server says nothing") from None
        except OSError:
            more = b""
        if not more:
            return b""
        data += more
    return bytes(data)
