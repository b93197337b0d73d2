"""Replies and events in a form that can be compared between two servers.

Only what must differ is replaced: session ids by the order in which they were opened, passwords by whether
they are right, times by whether they are set. What the protocol leaves open is sorted: children, ephemerals,
a client's own ids, digests that came from one `auth` entry. Everything else is kept, down to bytes nobody
asked for.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import attrs

from support.opcodes import Op
from support.raw_client import Malformed, Reader

_REFUSED_PASSWORD: Final = bytes(16)
_LONG_MASK: Final = (1 << 64) - 1


@attrs.frozen
class Answer:
    """A reply to a request of type `op`; `body` is what it says by name."""

    op: int
    xid: int
    zxid: int
    err: int
    body: dict[str, Any]


@attrs.frozen(order=True)
class Event:
    """A watch event."""

    zxid: int
    err: int
    type: int
    state: int
    path: bytes | None


@attrs.frozen
class Welcome:
    """A connect response. `session` is its place in the order of opening, or what the server said instead."""

    protocol_version: int
    timeout_ms: int
    session: int | str
    password: str
    tail: bytes


Frame = Answer | Event | Welcome | str

_UNIMPLEMENTED, _AUTH_FAILED, _SESSION_CLOSED_REQUIRE_AUTH = -6, -115, -124


def announces_end(frame: Frame | None) -> bool:
    """Whether the server hangs up after saying this."""
    if isinstance(frame, Welcome):
        return frame.session == "none"
    if not isinstance(frame, Answer):
        return False
    is_refusal = frame.err in (_AUTH_FAILED, _SESSION_CLOSED_REQUIRE_AUTH)
    return is_refusal or frame.op == Op.CLOSE_SESSION or (frame.err == _UNIMPLEMENTED and frame.zxid == -1)


@attrs.define
class SessionNames:
    """The sessions of one server, in the order in which they were opened."""

    ids: list[int] = attrs.field(factory=list)

    def name_of(self, session_id: int) -> int | str:
        if session_id in self.ids:
            return self.ids.index(session_id)
        return "none" if session_id == 0 else f"unknown {session_id:x}"

    def password_of(self, index: int) -> bytes:
        return password_of(self.ids[index])


def password_of(session_id: int) -> bytes:
    """Java's Random, seeded with the id: the same on every server."""
    state = (session_id ^ 0xB3415C00 ^ 0x5DEECE66D) & ((1 << 48) - 1)
    password = b""
    for _ in range(4):
        state = (state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        password += (state >> 16 & 0xFFFFFFFF).to_bytes(4, "little")
    return password


def read_welcome(frame: bytes, names: SessionNames) -> Welcome:
    """A connect response; a session not seen before gets its name here."""
    reader = Reader(frame)
    version, timeout_ms, session_id, password = (
        reader.read_int(),
        reader.read_int(),
        reader.read_long(),
        reader.read_buffer(),
    )
    if session_id and session_id not in names.ids:
        names.ids.append(session_id)
    if session_id and password == password_of(session_id & _LONG_MASK):
        verdict = "right"
    else:
        verdict = "refused" if password == _REFUSED_PASSWORD else f"wrong: {password!r}"
    return Welcome(version, timeout_ms, names.name_of(session_id), verdict, reader.rest)


def read_event(frame: bytes) -> Event:
    reader = Reader(frame)
    reader.read_int()
    event = Event(
        reader.read_long(), reader.read_int(), reader.read_int(), reader.read_int(), reader.read_buffer()
    )
    if reader.rest:
        raise Malformed("bytes behind an event")
    return event


def read_answer(frame: bytes, op: int, names: SessionNames) -> Answer:
    """A reply to a request of type `op`."""
    reader = Reader(frame)
    xid, zxid, err = reader.read_int(), reader.read_long(), reader.read_int()
    read = _BODIES.get(op)
    if not reader.rest or read is None:
        return Answer(op, xid, zxid, err, {"rest": reader.rest} if reader.rest else {})
    try:
        body = read(reader, names)
    except Malformed as failure:
        return Answer(op, xid, zxid, err, {"malformed": str(failure), "bytes": frame})
    return Answer(op, xid, zxid, err, body | ({"rest": reader.rest} if reader.rest else {}))


Body = dict[str, Any]


def _stat(reader: Reader, names: SessionNames) -> Body:
    stat: Body = {"czxid": reader.read_long(), "mzxid": reader.read_long()}
    stat["ctime"], stat["mtime"] = ("set" if reader.read_long() else 0 for _ in range(2))
    stat |= {"version": reader.read_int(), "cversion": reader.read_int(), "aversion": reader.read_int()}
    stat["owner"] = names.name_of(reader.read_long())
    return stat | {"length": reader.read_int(), "children": reader.read_int(), "pzxid": reader.read_long()}


def _only_stat(reader: Reader, names: SessionNames) -> Body:
    return {"stat": _stat(reader, names)}


def _path(reader: Reader, _names: SessionNames) -> Body:
    return {"path": reader.read_buffer()}


def _path_and_stat(reader: Reader, names: SessionNames) -> Body:
    return {"path": reader.read_buffer(), "stat": _stat(reader, names)}


def _data_and_stat(reader: Reader, names: SessionNames) -> Body:
    return {"data": _without_ports(reader.read_buffer()), "stat": _stat(reader, names)}


def _without_ports(data: bytes | None) -> bytes | None:
    """In the list of an ensemble's members every ensemble has its own ports, all of five digits."""
    if data is None or not data.startswith(b"server.1="):
        return data
    return re.sub(rb":\d{5}\b", b":PORT", data)


def _names(reader: Reader) -> list[bytes | None]:
    return sorted((reader.read_buffer() for _ in range(reader.read_int())), key=lambda name: name or b"")


def _children(reader: Reader, _sessions: SessionNames) -> Body:
    return {"children": _names(reader)}


def _children_and_stat(reader: Reader, names: SessionNames) -> Body:
    return {"children": _names(reader), "stat": _stat(reader, names)}


def _acl_and_stat(reader: Reader, names: SessionNames) -> Body:
    entries = [
        (reader.read_int(), reader.read_buffer(), reader.read_buffer()) for _ in range(reader.read_int())
    ]
    return {"acl": _with_sorted_digests(entries), "stat": _stat(reader, names)}


def _with_sorted_digests(entries: list[tuple[int, bytes | None, bytes | None]]) -> list[Any]:
    """Neighbouring digests of equal permissions may come from one `auth`: their order is the server's."""
    kept: list[Any] = []
    for entry in entries:
        at = len(kept)
        while at and entry[1] == b"digest" and kept[at - 1][:2] == entry[:2] and kept[at - 1] > entry:
            at -= 1
        kept.insert(at, entry)
    return kept


def _number(reader: Reader, _names: SessionNames) -> Body:
    return {"number": reader.read_int()}


def _token(reader: Reader, _names: SessionNames) -> Body:
    return {"token": reader.read_buffer()}


def _client_infos(reader: Reader, _names: SessionNames) -> Body:
    return {"ids": sorted((reader.read_buffer(), reader.read_buffer()) for _ in range(reader.read_int()))}


def _multi(reader: Reader, names: SessionNames) -> Body:
    results: list[Any] = []
    while True:
        type_, is_done, err = reader.read_int(), reader.read_bool(), reader.read_int()
        if is_done:
            return {"results": results, "end": (type_, err)}
        body = (
            _number(reader, names)
            if type_ == -1
            else _RESULTS[type_](reader, names)
            if type_ in _RESULTS
            else {}
        )
        results.append((type_, err, body))


def _nothing(_reader: Reader, _names: SessionNames) -> Body:
    return {}


_Read = Callable[[Reader, SessionNames], Body]

_RESULTS: dict[int, _Read] = {
    Op.CREATE: _path,
    Op.CREATE2: _path_and_stat,
    Op.SET_DATA: _only_stat,
    Op.GET_DATA: _data_and_stat,
    Op.GET_CHILDREN: _children,
    Op.DELETE: _nothing,
    Op.CHECK: _nothing,
}
_BODIES: dict[int, _Read] = {
    Op.CREATE: _path,
    Op.CREATE2: _path_and_stat,
    Op.CREATE_CONTAINER: _path_and_stat,
    Op.CREATE_TTL: _path_and_stat,
    Op.EXISTS: _only_stat,
    Op.GET_DATA: _data_and_stat,
    Op.SET_DATA: _only_stat,
    Op.GET_ACL: _acl_and_stat,
    Op.SET_ACL: _only_stat,
    Op.GET_CHILDREN: _children,
    Op.GET_CHILDREN2: _children_and_stat,
    Op.SYNC: _path,
    Op.MULTI: _multi,
    Op.MULTI_READ: _multi,
    Op.SASL: _token,
    Op.GET_EPHEMERALS: _children,
    Op.GET_ALL_CHILDREN_NUMBER: _number,
    Op.ADD_WATCH: _number,
    Op.WHO_AM_I: _client_infos,
}
