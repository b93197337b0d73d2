"""Bytes for the fuzz: valid requests of every kind, and the ways to spoil them.

Pure: chance comes in as a random.Random, bytes go out, so a seed gives the same bytes again. Three kinds:

    lasting    whatever its body is, a server answers it and keeps the connection
    fatal      a server is expected to hang up
    hello      what a connection begins with
"""

from collections.abc import Callable, Sequence
from random import Random
from struct import Struct
from typing import Final

import attrs

from support.opcodes import Op
from support.raw_client import (
    wire_buffer,
    wire_byte,
    wire_frame,
    wire_int,
    wire_long,
    wire_string,
    wire_vector,
)

ROOT: Final = b"/fuzz"
BIG: Final = ROOT + b"/big"  # a node with as much data as a frame can carry
WIDE: Final = ROOT + b"/wide"  # a node with many children
AUTH_XID: Final = -4
FRAME_BYTES_MAX: Final = 0xFFFFF

_PATHS: Final = tuple(ROOT + name for name in (b"", b"/a", b"/b", b"/a/c", b"/a/c/d", b"/e", b"/t"))
_ODD_PATHS: Final = (
    b"",
    b"/",
    b"x",
    b"//",
    ROOT + b"/",
    ROOT + b"/\x00",
    ROOT + b"/\xff",
    b"/zookeeper",
    b"/" * 99,
)
_QUOTAS: Final = (
    b"/zookeeper/quota/fuzz",
    b"/zookeeper/quota/fuzz/zookeeper_limits",
    b"/zookeeper/quota/fuzz/zookeeper_stats",
)
_EXTREMES: Final = tuple(
    wire_int(number)
    for number in (
        0,
        1,
        -1,
        -2,
        -7,
        2**31 - 1,
        -(2**31),
        2**16,
        0xFFFFF,
        0x100000,
        2 * 0xFFFFF,
        2**30,
        0x2F667573,
    )
)
_OPEN: Final = wire_vector([wire_int(31) + wire_string(b"world") + wire_string(b"anyone")])
_ACLS: Final = (
    _OPEN,
    wire_vector([]),
    wire_vector([wire_int(31) + wire_string(b"auth") + wire_string(b"")]),
    wire_vector(
        [
            wire_int(1) + wire_string(b"ip") + wire_string(b"127.0.0.0/8"),
            wire_int(31) + wire_string(b"digest") + wire_string(b"u:x"),
        ]
    ),
)
_MULTI_END: Final = wire_int(-1) + b"\x01" + wire_int(-1)
_HEADER = Struct(">iii")


@attrs.frozen
class Shape:
    """A valid request; `fields` is where in its body a field starts that has four bytes or more."""

    op: int
    body: bytes
    fields: tuple[int, ...]


def _shape(op: int, *fields: bytes) -> Shape:
    starts, at = [], 0
    for field in fields:
        if len(field) >= 4:
            starts.append(at)
        at += len(field)
    return Shape(op, b"".join(fields), tuple(starts) or (0,))


def _operation(op: int, *fields: bytes) -> bytes:
    return wire_int(op) + b"\x00" + wire_int(-1) + b"".join(fields)


def frame(xid: int, op: int, body: bytes) -> bytes:
    return _HEADER.pack(8 + len(body), xid, op) + body


def hello(
    *, session: int = 0, password: bytes | None = bytes(16), timeout_ms: int = 3000, last_zxid: int = 0
) -> bytes:
    """A connect request as it should be."""
    return wire_frame(
        wire_int(0)
        + wire_long(last_zxid)
        + wire_int(timeout_ms)
        + wire_long(session)
        + wire_buffer(password)
        + b"\x00"
    )


def shapes() -> list[Shape]:
    """Valid requests of every opcode that a server answers without hanging up."""
    found: list[Shape] = []
    for path in (*_PATHS, *_ODD_PATHS, *_QUOTAS):
        named = wire_string(path)
        found += _reads(named) + _writes(named)
    found += [_shape(Op.PING), _shape(Op.WHO_AM_I), _shape(Op.CREATE_SESSION, wire_int(3000))] * 3
    found += [_shape(Op.RECONFIG, wire_string(b"x"), wire_string(None), wire_string(b""), wire_long(-1))] * 3
    found += _several()
    return found


def _reads(named: bytes) -> list[Shape]:
    watched = [
        _shape(op, named, wire_byte(watch))
        for op in (Op.EXISTS, Op.GET_DATA, Op.GET_CHILDREN, Op.GET_CHILDREN2)
        for watch in (0, 1)
    ]
    bare = [_shape(op, named) for op in (Op.GET_ACL, Op.SYNC, Op.GET_ALL_CHILDREN_NUMBER, Op.GET_EPHEMERALS)]
    numbered = [
        _shape(op, named, wire_int(number))
        for op, number in (
            (Op.ADD_WATCH, 0),
            (Op.ADD_WATCH, 1),
            (Op.CHECK_WATCHES, 3),
            (Op.REMOVE_WATCHES, 2),
        )
    ]
    return watched + bare + numbered


def _writes(named: bytes) -> list[Shape]:
    made = [
        _shape(op, named, wire_buffer(b"data"), acl, wire_int(flags))
        for op, flags in ((Op.CREATE, 0), (Op.CREATE, 3), (Op.CREATE2, 1), (Op.CREATE_CONTAINER, 4))
        for acl in (_OPEN, _OPEN, _ACLS[2])
    ]
    made += [_shape(Op.CREATE_TTL, named, wire_buffer(None), _OPEN, wire_int(5), wire_long(100))]
    changed = [
        _shape(Op.SET_DATA, named, wire_buffer(b"more data"), wire_int(-1)),
        _shape(Op.DELETE, named, wire_int(-1)),
        _shape(Op.DELETE, named, wire_int(0)),
        _shape(Op.DELETE_CONTAINER, named),
    ]
    if len(named) > 5 + len(ROOT):  # never the root, where others come by
        changed += [_shape(Op.SET_ACL, named, acl, wire_int(-1)) for acl in _ACLS]
    return made + changed


def _several() -> list[Shape]:
    """Requests made of others, or of lists."""
    named = wire_string(ROOT + b"/a")
    create = _operation(Op.CREATE, named, wire_buffer(b""), _OPEN, wire_int(2))
    change = _operation(Op.SET_DATA, named, wire_buffer(b"m"), wire_int(-1))
    check = _operation(Op.CHECK, named, wire_int(0))
    delete = _operation(Op.DELETE, named, wire_int(-1))
    look = _operation(Op.GET_DATA, named, b"\x01")
    children = _operation(Op.GET_CHILDREN, named, b"\x01")
    nested = _operation(Op.MULTI, create, _MULTI_END)
    writes = [
        _shape(Op.MULTI, *operations, _MULTI_END)
        for operations in (
            (),
            (create,),
            (create, change, check),
            (check,) * 20,
            (change, delete),
            (nested,),
            (look, create),
        )
    ]
    reads = [
        _shape(Op.MULTI_READ, *each, _MULTI_END)
        for each in ((), (look, children), (look,) * 20, (change,), (nested, look))
    ]
    paths = wire_vector([wire_string(path) for path in (*_PATHS, *_ODD_PATHS)])
    none = wire_vector([])
    lists = [
        _shape(Op.SET_WATCHES, wire_long(0), paths, paths, paths),
        _shape(Op.SET_WATCHES, wire_long(2**40), paths, none, paths),
        _shape(Op.SET_WATCHES2, wire_long(2**40), none, none, paths, paths, none),
        _shape(Op.SET_WATCHES2, wire_long(0), paths, none, wire_vector(None), none, paths),
    ]
    return (writes + reads + lists) * 4


# -- spoiling: a body in, a body out


def _flip(rng: Random, body: bytes, _: Shape) -> bytes:
    if not body:
        return b"\x80"
    spoilt = bytearray(body)
    for _bit in range(rng.choice((1, 1, 2, 5))):
        at = int(rng.random() * len(body))
        spoilt[at] ^= 1 << int(rng.random() * 8)
    return bytes(spoilt)


def _cut(rng: Random, body: bytes, _: Shape) -> bytes:
    return body[: int(rng.random() * len(body))]


def _lengthen(rng: Random, body: bytes, _: Shape) -> bytes:
    return body + rng.randbytes(1 + int(rng.random() * 40))


def _number(rng: Random, body: bytes, shape: Shape) -> bytes:
    """Another length, count or number, where one stands."""
    at = rng.choice(shape.fields)
    return body[:at] + rng.choice(_EXTREMES) + body[at + 4 :]


def _number_anywhere(rng: Random, body: bytes, _: Shape) -> bytes:
    at = int(rng.random() * (len(body) + 1))
    return body[:at] + rng.choice(_EXTREMES) + body[at + 4 :]


def _splice(rng: Random, body: bytes, other: Shape) -> bytes:
    """The beginning of one request and the end of another."""
    return (
        body[: int(rng.random() * (len(body) + 1))] + other.body[int(rng.random() * (len(other.body) + 1)) :]
    )


def _repeat(rng: Random, body: bytes, _: Shape) -> bytes:
    at = int(rng.random() * (len(body) + 1))
    return body[:at] * 2 + body[at:]


def _zeros(rng: Random, body: bytes, _: Shape) -> bytes:
    return bytes(int(rng.random() * 64))


def _noise(rng: Random, body: bytes, _: Shape) -> bytes:
    return rng.randbytes(int(rng.random() * 80))


_SPOILERS: Final[Sequence[Callable[[Random, bytes, Shape], bytes]]] = (
    *(_flip,) * 4,
    *(_number,) * 4,
    *(_cut,) * 2,
    _number_anywhere,
    _number_anywhere,
    _lengthen,
    _splice,
    _repeat,
    _zeros,
    _noise,
)
_LASTING_AUTHS: Final = tuple(
    (op, body)
    for op, body in (
        (Op.AUTH, wire_int(0) + wire_string(b"digest") + wire_buffer(b"fuzz:fuzz")),
        (Op.AUTH, wire_int(-7) + wire_string(b"ip") + wire_buffer(None)),
        (Op.SASL, wire_buffer(b"token")),
    )
)
_WORDS: Final = (
    b"conf cons crst dirs dump envi gtmk ruok stmk srst srvr stat wchc wchp wchs mntr isro hash".split()
)
_UNLISTED: Final = (0, -1, 10, 13, 23, 99, 108, -2, -9, -12, 2**31 - 1, -(2**31))


@attrs.define
class Frames:
    """Draws spoilt bytes from one source of chance."""

    rng: Random
    _shapes: list[Shape] = attrs.field(factory=shapes)

    def lasting(self, xid: int) -> tuple[bytes, int]:
        """A frame that is answered by one reply, and the xid of that reply (AUTH_XID: it may overtake)."""
        rng = self.rng
        roll = rng.random()
        if roll < 0.01:
            return frame(AUTH_XID, *rng.choice(_LASTING_AUTHS)), AUTH_XID
        shape = rng.choice(self._shapes)
        op, body = shape.op, shape.body
        if roll > 0.25:
            body = self._spoilt(shape)
            if roll > 0.97:
                op = rng.choice(self._shapes).op
        return frame(xid, op, body), -2 if op == Op.PING else xid

    def _spoilt(self, shape: Shape) -> bytes:
        rng, body = self.rng, shape.body
        for _ in range(rng.choice((1, 1, 1, 1, 1, 2, 3))):
            spoil = rng.choice(_SPOILERS)
            other = rng.choice(self._shapes) if spoil is _splice else shape
            body = spoil(rng, body, other)
        return body

    def loose(self) -> bytes:
        """A whole frame with any xid and any opcode; mostly it is answered."""
        rng = self.rng
        shape = rng.choice(self._shapes)
        op = shape.op if rng.random() < 0.98 else rng.randint(-20, 130)
        return frame(rng.randint(-(2**31), 2**31 - 1), op, self._spoilt(shape))

    def fatal(self) -> bytes:
        """The end of a conversation, from the first byte or soon."""
        rng = self.rng
        makers: tuple[Callable[[], bytes], ...] = (
            lambda: rng.choice(_EXTREMES) + rng.randbytes(rng.randint(0, 40)),
            lambda: bytes(4 * rng.randint(1, 50)),
            lambda: wire_frame(rng.randbytes(rng.randint(0, 7))) + self.stream(3),
            lambda: frame(1, rng.choice(_UNLISTED), rng.randbytes(rng.randint(0, 40))),
            lambda: frame(1, rng.randint(-(2**31), 2**31 - 1), b""),
            self._bad_auth,
            lambda: frame(1, Op.SASL, rng.choice((b"", wire_buffer(None), rng.choice(_EXTREMES)))),
            lambda: frame(1, Op.CLOSE_SESSION, rng.randbytes(rng.randint(0, 9))) + self.stream(20),
            lambda: rng.choice(
                (b"ruok", b"mntr\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00")
            ),
            lambda: self.noisy_stream(20),
        )
        return rng.choice(makers)()

    def _bad_auth(self) -> bytes:
        rng = self.rng
        body = wire_int(0) + wire_string(b"digest") + wire_buffer(b"u:p")
        choices = (
            body[: rng.randrange(len(body))],
            _number_anywhere(rng, body, Shape(0, body, (0,))),
            wire_int(0)
            + wire_string(rng.choice((b"sasl", b"world", b"\xff" * 300, None)))
            + wire_buffer(b"u:p"),
            wire_int(0) + wire_string(b"digest") + wire_buffer(None),
        )
        return frame(AUTH_XID, Op.AUTH, rng.choice(choices))

    def stream(self, count: int) -> bytes:
        return b"".join(self.loose() for _ in range(count))

    def noisy_stream(self, count: int) -> bytes:
        """Many frames of which any byte may be spoilt, lengths too."""
        data = bytearray(self.stream(count))
        for _ in range(self.rng.choice((1, 3, 20))):
            data[self.rng.randrange(len(data))] = self.rng.randrange(256)
        return bytes(data)

    def spoilt_hello(self, session: int = 0, password: bytes | None = bytes(16)) -> bytes:
        """A connect request with anything wrong with it, or nothing."""
        rng = self.rng
        longs = (0, 1, -1, 2**63 - 1, -(2**63), session, session + 1, rng.getrandbits(63))
        body = (
            wire_int(rng.choice((0, 0, 1, -1, 2**31 - 1)))
            + wire_long(rng.choice((0, 0, 0, -1, 1, 2**62, -(2**63))))
            + wire_int(rng.choice((3000, 0, -1, 1, 2**31 - 1, -(2**31))))
            + wire_long(rng.choice(longs) if rng.random() < 0.5 else session)
            + wire_buffer(rng.choice((password, None, b"", rng.randbytes(16), bytes(17), bytes(3000))))
            + rng.choice((b"\x00", b"\x01", b"", b"\x02\x03", rng.randbytes(9)))
        )
        roll = rng.random()
        if roll < 0.3:
            body = rng.choice(_SPOILERS)(rng, body, Shape(0, body, (0, 4, 12, 16, 24)))
        if roll < 0.4:
            return rng.choice(_EXTREMES) + body
        return wire_frame(body)

    def words(self) -> bytes:
        """A four-letter word, more or less."""
        rng = self.rng
        word = rng.choice(
            (*_WORDS, b"\xff\xf4\xff\xfd", b"kill", b"RUOK", b"ruo", b"\x00\x00\x00", b"stmk\x00\x01")
        )
        return word + rng.choice(
            (b"", b"\n", b"\r\n", rng.randbytes(8), rng.randbytes(200), b"ruok" * 50, self.loose())
        )
