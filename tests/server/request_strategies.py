"""Requests that clients may send, mostly sensible, to few enough paths that they meet each other.

A whole history is drawn as one string of bytes and read off it, choice by choice: that is many times faster
than to compose it of strategies, and shrinks as well.
"""

from collections.abc import Sequence
from struct import pack
from typing import TypeVar

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from jute.opcodes import OpCode

_T = TypeVar("_T")

Request = tuple[int, bytes]  # opcode and body

CLIENTS = 3


@attrs.frozen
class Ask:
    """One of the clients sends a request."""

    client: int
    request: Request


@attrs.frozen
class Release:
    """So many of the transactions in flight become durable, or as many as there are."""

    count: int


@attrs.frozen
class Close:
    """One of the clients closes its session."""

    client: int


@attrs.frozen
class PassTime:
    """Time goes by; sessions may expire."""

    ms: int


Step = Ask | Release | Close | PassTime


def write_steps(size: int = 500) -> SearchStrategy[list[Step]]:
    """Some writes by several clients, while transactions become durable now and then."""
    return _histories(size).map(lambda history: _read_steps(history, writes_only=True))


def mixed_steps(size: int = 500) -> SearchStrategy[list[Step]]:
    """The same with reads of every kind."""
    return _histories(size).map(lambda history: _read_steps(history, writes_only=False))


def requests(size: int = 150) -> SearchStrategy[list[Request]]:
    """What one client may send in a row: reads and writes of every kind."""
    return _histories(size).map(_read_requests)


def _histories(size: int) -> SearchStrategy[bytes]:
    return st.binary(min_size=size // 2, max_size=size)


def _read_steps(history: bytes, *, writes_only: bool) -> list[Step]:
    choices, steps = Choices(history), list[Step]()
    while choices.left:
        steps.append(_read_step(choices, writes_only))
    return steps


def _read_step(choices: "Choices", writes_only: bool) -> Step:
    kind = choices.pick(["ask"] * 15 + ["release"] * 3 + ["close", "pass"])
    if kind == "release":
        return Release(choices.pick(range(1, 5)))
    if kind == "close":
        return Close(choices.pick(range(CLIENTS)))
    if kind == "pass":
        return PassTime(choices.pick([1, 2000, 9000]))
    client: int = choices.pick(range(CLIENTS))
    return Ask(client, write(choices) if writes_only else any_request(choices))


def _read_requests(history: bytes) -> list[Request]:
    choices, found = Choices(history), list[Request]()
    while choices.left:
        found.append(any_request(choices))
    return found


class Choices:
    """Decisions read off a string of bytes; the first is taken for ever once it is used up."""

    def __init__(self, history: bytes) -> None:
        self._history = history
        self._at = 0

    @property
    def left(self) -> bool:
        return self._at < len(self._history)

    def pick(self, among: Sequence[_T]) -> _T:
        byte = self._history[self._at] if self.left else 0
        self._at += 1
        return among[byte * len(among) >> 8]


# Repetition is weight: most requests should succeed, or nothing ever happens.
_GOOD_PATHS = ["/a/b", "/a/b/c", "/a/b/s", "/a/e", "/d", "/d/e", "/d/f", "/d/f/g", "/zookeeper/x"]
_ODD_PATHS = [
    "/",
    "",
    "a",
    "/a/",
    "/a//b",
    "/..",
    "/\u0001",
    "/zookeeper",
    "/caf\u00e9",
    "/zookeeper/quota/a",
    "/zookeeper/quota/a/zookeeper_limits",
    "/zookeeper/quota/a/zookeeper_stats",
    None,
]
_PATHS: list[str | None] = [*_GOOD_PATHS * 12, *_ODD_PATHS]
_DATA = [b"", b"x", b"count=3,bytes=5", None, b"0123456789"]
_VERSIONS = [-1] * 12 + [0, 1, 2]
_FLAGS = [0] * 8 + [1] * 6 + [2, 3, 4, 5, 7]


def _string(text: str | None) -> bytes:
    return _buffer(None if text is None else text.encode())


def _buffer(data: bytes | None) -> bytes:
    return pack(">i", -1) if data is None else pack(">i", len(data)) + data


def _acl(*entries: tuple[int, str, str]) -> bytes:
    each = (pack(">i", perms) + _string(scheme) + _string(name) for perms, scheme, name in entries)
    return pack(">i", len(entries)) + b"".join(each)


OPEN = _acl((31, "world", "anyone"))
_ACLS = [
    *[OPEN] * 20,
    _acl((1, "world", "anyone")),
    _acl((31, "ip", "127.0.0.1")),
    _acl((31, "world", "anyone"), (1, "digest", "a:b")),
    _acl((3, "auth", "")),
    _acl(),
    pack(">i", -1),
]


def write(choices: Choices) -> Request:
    op = choices.pick([*_PLAIN_WRITES * 2, *[OpCode.MULTI] * 6, OpCode.SET_ACL, OpCode.DELETE_CONTAINER])
    if op == OpCode.MULTI:
        operations = [_plain_write(choices) for _ in range(choices.pick([0, 1, 2, 2, 3, 3, 4]))]
        return op, multi_body(operations)
    if op == OpCode.SET_ACL:
        return op, _string(choices.pick(_PATHS)) + choices.pick(_ACLS) + pack(">i", choices.pick(_VERSIONS))
    if op == OpCode.DELETE_CONTAINER:
        return op, _string(choices.pick(_PATHS))
    return _of_type(op, choices)


_PLAIN_WRITES = [
    *[OpCode.CREATE] * 6,
    *[OpCode.CREATE2] * 3,
    OpCode.CREATE_CONTAINER,
    OpCode.CREATE_TTL,
    *[OpCode.DELETE] * 4,
    *[OpCode.SET_DATA] * 3,
]


def _plain_write(choices: Choices) -> Request:
    return _of_type(choices.pick([*_PLAIN_WRITES, OpCode.CHECK]), choices)


def _of_type(op: OpCode, choices: Choices) -> Request:
    path = _string(choices.pick(_PATHS))
    if op in (OpCode.DELETE, OpCode.CHECK):
        return op, path + pack(">i", choices.pick(_VERSIONS))
    data = _buffer(choices.pick(_DATA))
    if op == OpCode.SET_DATA:
        return op, path + data + pack(">i", choices.pick(_VERSIONS))
    acl = choices.pick(_ACLS)
    if op == OpCode.CREATE_TTL:
        return op, path + data + acl + pack(
            ">iq", choices.pick([5, 5, 5, 6, 0]), choices.pick([1000, 1000, 0])
        )
    return op, path + data + acl + pack(">i", choices.pick(_FLAGS))


def multi_body(operations: list[Request]) -> bytes:
    parts = [pack(">i?i", op, False, -1) + body for op, body in operations]
    return b"".join(parts) + pack(">i?i", -1, True, -1)


_READS = [
    *[OpCode.GET_DATA, OpCode.EXISTS, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2] * 2,
    OpCode.GET_ACL,
    OpCode.SYNC,
    OpCode.GET_EPHEMERALS,
    OpCode.GET_ALL_CHILDREN_NUMBER,
    OpCode.ADD_WATCH,
    OpCode.CHECK_WATCHES,
    OpCode.REMOVE_WATCHES,
    OpCode.SET_WATCHES,
    OpCode.SET_WATCHES2,
    OpCode.MULTI_READ,
    OpCode.WHO_AM_I,
    OpCode.PING,
]


def any_request(choices: Choices) -> Request:
    return write(choices) if choices.pick([True, False]) else read(choices)


def read(choices: Choices) -> Request:
    op = choices.pick(_READS)
    if op in (OpCode.WHO_AM_I, OpCode.PING):
        return op, b""
    if op in (OpCode.SET_WATCHES, OpCode.SET_WATCHES2):
        lists = [_path_list(choices) for _ in range(3 if op == OpCode.SET_WATCHES else 5)]
        return op, pack(">q", choices.pick(range(20))) + b"".join(lists)
    if op == OpCode.MULTI_READ:
        kinds = [OpCode.GET_DATA, OpCode.GET_CHILDREN]
        return op, multi_body(
            [(choices.pick(kinds), _watching(choices)) for _ in range(choices.pick(range(3)))]
        )
    if op in (OpCode.ADD_WATCH, OpCode.CHECK_WATCHES, OpCode.REMOVE_WATCHES):
        return op, _string(choices.pick(_PATHS)) + pack(">i", choices.pick(range(6)))
    if op in (OpCode.GET_DATA, OpCode.EXISTS, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2):
        return op, _watching(choices)
    return op, _string(choices.pick(_PATHS))


def _watching(choices: Choices) -> bytes:
    return _string(choices.pick(_PATHS)) + choices.pick([b"\x00", b"\x01"])


def _path_list(choices: Choices) -> bytes:
    paths = [_string(choices.pick(_PATHS)) for _ in range(choices.pick(range(3)))]
    return pack(">i", len(paths)) + b"".join(paths)
