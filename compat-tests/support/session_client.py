"""A session with a server over the bare wire: it outlives connections and servers, and hides no zxid.

A session's time never goes back: a reply whose zxid is less than one before it is refused as Malformed.

Requests are pairs of a type and a body, made by the functions below. They may be sent ahead of their replies;
replies come in order. Watches are never set, so whatever arrives is a reply.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Self, TypeAlias

import attrs

from support.opcodes import Op
from support.raw_client import (
    Malformed,
    RawConnection,
    Reader,
    wire_buffer,
    wire_byte,
    wire_frame,
    wire_int,
    wire_long,
    wire_string,
    wire_vector,
)

HOST: Final = "127.0.0.1"
PIPELINED_MAX: Final = 500  # requests sent ahead by `call_all`

EPHEMERAL: Final = 1
SEQUENTIAL: Final = 2
CONTAINER: Final = 4
TTL: Final = 5

ALL_PERMISSIONS: Final = 31

Request: TypeAlias = tuple[int, bytes]
Ace: TypeAlias = tuple[int, str, str]  # permissions, scheme, id
Acl: TypeAlias = tuple[Ace, ...]

OPEN_ACL: Final[Acl] = ((ALL_PERMISSIONS, "world", "anyone"),)

_MULTI_END: Final = wire_int(-1) + wire_byte(1) + wire_int(-1)
_NEW_PASSWORD: Final = bytes(16)


class Lost(Exception):
    """The connection ended; whether the requests without a reply happened is unknown."""


class Refused(Exception):
    """The server does not know the session, or not any more."""


@attrs.frozen
class Stat:
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    owner: int
    data_length: int
    children: int
    pzxid: int


@attrs.frozen
class Reply:
    """A reply; what `body` holds follows from the request."""

    xid: int
    zxid: int
    err: int
    body: bytes = attrs.field(repr=False)


# -- requests


def wire_acl(acl: Acl) -> bytes:
    return wire_vector(wire_int(mask) + wire_string(scheme) + wire_string(name) for mask, scheme, name in acl)


def create(path: str, data: bytes | None, *, flags: int = 0, acl: Acl = OPEN_ACL) -> Request:
    return Op.CREATE, wire_string(path) + wire_buffer(data) + wire_acl(acl) + wire_int(flags)


def create2(path: str, data: bytes | None, *, flags: int = 0, acl: Acl = OPEN_ACL) -> Request:
    return Op.CREATE2, create(path, data, flags=flags, acl=acl)[1]


def create_container(path: str, data: bytes | None, *, acl: Acl = OPEN_ACL) -> Request:
    return Op.CREATE_CONTAINER, create(path, data, flags=CONTAINER, acl=acl)[1]


def create_ttl(path: str, data: bytes | None, ttl_ms: int, *, flags: int = TTL) -> Request:
    return Op.CREATE_TTL, create(path, data, flags=flags)[1] + wire_long(ttl_ms)


def delete(path: str, version: int = -1) -> Request:
    return Op.DELETE, wire_string(path) + wire_int(version)


def set_data(path: str, data: bytes | None, version: int = -1) -> Request:
    return Op.SET_DATA, wire_string(path) + wire_buffer(data) + wire_int(version)


def set_acl(path: str, acl: Acl, version: int = -1) -> Request:
    return Op.SET_ACL, wire_string(path) + wire_acl(acl) + wire_int(version)


def check(path: str, version: int) -> Request:
    return Op.CHECK, wire_string(path) + wire_int(version)


def multi(parts: Iterable[Request]) -> Request:
    headed = (wire_int(op) + wire_byte(0) + wire_int(-1) + body for op, body in parts)
    return Op.MULTI, b"".join(headed) + _MULTI_END


def get_data(path: str) -> Request:
    return Op.GET_DATA, wire_string(path) + wire_byte(0)


def get_children(path: str) -> Request:
    """Names and Stat."""
    return Op.GET_CHILDREN2, wire_string(path) + wire_byte(0)


def get_acl(path: str) -> Request:
    return Op.GET_ACL, wire_string(path)


def get_all_children_number(path: str) -> Request:
    return Op.GET_ALL_CHILDREN_NUMBER, wire_string(path)


def get_ephemerals(prefix: str) -> Request:
    """The session's own."""
    return Op.GET_EPHEMERALS, wire_string(prefix)


def sync(path: str) -> Request:
    """Answered once this server knows all that was committed before."""
    return Op.SYNC, wire_string(path)


def add_digest_auth(user_and_password: str) -> Request:
    return Op.AUTH, wire_int(0) + wire_string("digest") + wire_buffer(user_and_password.encode())


# -- replies


def read_stat(reader: Reader) -> Stat:
    return Stat(
        czxid=reader.read_long(),
        mzxid=reader.read_long(),
        ctime_ms=reader.read_long(),
        mtime_ms=reader.read_long(),
        version=reader.read_int(),
        cversion=reader.read_int(),
        aversion=reader.read_int(),
        owner=reader.read_long(),
        data_length=reader.read_int(),
        children=reader.read_int(),
        pzxid=reader.read_long(),
    )


def read_text(reader: Reader) -> str:
    text = reader.read_buffer()
    if text is None:
        raise Malformed("a string is missing")
    return text.decode()


def read_names(reader: Reader) -> list[str]:
    return [read_text(reader) for _ in range(reader.read_int())]


def read_acl(reader: Reader) -> Acl:
    return tuple((reader.read_int(), read_text(reader), read_text(reader)) for _ in range(reader.read_int()))


def read_multi_errors(reader: Reader) -> list[int]:
    """The error of each operation, all of them 0 if the multi succeeded."""
    errors: list[int] = []
    while True:
        op, is_end, err = reader.read_int(), reader.read_bool(), reader.read_int()
        if is_end:
            return errors
        errors.append(err)
        if op == -1:
            reader.read_int()
        if op in (Op.CREATE, Op.CREATE2):
            read_text(reader)
        if op in (Op.CREATE2, Op.SET_DATA):
            read_stat(reader)


# -- the session


@attrs.define(eq=False)
class SessionClient:
    """A session and, unless `drop` was called or it was lost, the connection that carries it."""

    port: int
    timeout_ms: int
    id: int = 0
    password: bytes = _NEW_PASSWORD
    last_zxid: int = 0
    _connection: RawConnection | None = None
    _xid: int = 0

    @classmethod
    def open(cls, port: int, timeout_ms: int, last_zxid: int = 0) -> Self:
        """A new session; `last_zxid` is what the client has already seen, with another session perhaps."""
        client = cls(port, timeout_ms, last_zxid=last_zxid)
        client.attach()
        return client

    def attach(self, port: int | None = None) -> None:
        """Connect, with the same session if there is one; Refused if the server will not have it."""
        self.drop()
        self.port = port or self.port
        try:
            self._connection = RawConnection(HOST, self.port)
        except OSError as failure:
            raise Lost("nobody listens") from failure
        hello = wire_int(0) + wire_long(self.last_zxid) + wire_int(self.timeout_ms) + wire_long(self.id)
        self._connection.send(wire_frame(hello + wire_buffer(self.password) + wire_byte(0)))
        self._read_welcome(Reader(self._frame()))

    def _read_welcome(self, reader: Reader) -> None:
        _version, timeout_ms, session_id = reader.read_int(), reader.read_int(), reader.read_long()
        password = reader.read_buffer()
        if session_id == 0 or timeout_ms == 0:
            self.drop()
            raise Refused(f"session 0x{self.id:x}")
        if self.id and (session_id, password) != (self.id, self.password):
            raise Malformed(f"attached to 0x{self.id:x}, the server says 0x{session_id:x}")
        self.id, self.password, self.timeout_ms = session_id, password or b"", timeout_ms

    def send(self, requests: Sequence[Request]) -> None:
        """Send without waiting; each will be answered, in this order."""
        frames = []
        for op, body in requests:
            self._xid += 1
            xid = -4 if op == Op.AUTH else self._xid
            frames.append(wire_frame(wire_int(xid) + wire_int(op) + body))
        if self._connection is None:
            raise Lost("not connected")
        self._connection.send(b"".join(frames))

    def receive(self) -> Reply:
        frame = self._frame()
        reader = Reader(frame)
        reply = Reply(reader.read_int(), reader.read_long(), reader.read_int(), reader.rest)
        if reply.xid > 0 and reply.zxid < self.last_zxid:
            raise Malformed(f"time went back from 0x{self.last_zxid:x}: {reply}")
        self.last_zxid = max(self.last_zxid, reply.zxid)
        return reply

    def call(self, request: Request) -> Reply:
        self.send([request])
        return self.receive()

    def call_all(self, requests: Sequence[Request]) -> Iterator[Reply]:
        """The replies, in order, a bounded number of requests ahead of them."""
        for start in range(0, len(requests), PIPELINED_MAX):
            part = requests[start : start + PIPELINED_MAX]
            self.send(part)
            for _ in part:
                yield self.receive()

    def close(self) -> Reply:
        """End the session, and with it its ephemeral nodes."""
        reply = self.call((Op.CLOSE_SESSION, b""))
        self.drop()
        return reply

    def drop(self) -> None:
        """End the connection alone."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.hang_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def _frame(self) -> bytes:
        frame = None if self._connection is None else self._connection.receive_frame()
        if frame is None:
            self.drop()
            raise Lost("the server hung up")
        return frame
