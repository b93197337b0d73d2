"""Requests in words, the paths they are about, and how they are repeated at another server."""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import attrs

from jute.client_records import (
    AddWatchRequest,
    CheckVersionRequest,
    CheckWatchesRequest,
    CreateRequest,
    CreateTtlRequest,
    DeleteContainerRequest,
    DeleteRequest,
    ExistsRequest,
    GetAclRequest,
    GetAllChildrenNumberRequest,
    GetChildren2Request,
    GetChildrenRequest,
    GetDataRequest,
    GetEphemeralsRequest,
    MultiHeader,
    RemoveWatchesRequest,
    SetAclRequest,
    SetDataRequest,
    SyncRequest,
)
from jute.opcodes import OpCode
from jute.record import DecodeError, decode

RECORDS: Final[dict[int, type[Any]]] = {
    OpCode.CREATE: CreateRequest,
    OpCode.CREATE2: CreateRequest,
    OpCode.CREATE_CONTAINER: CreateRequest,
    OpCode.CREATE_TTL: CreateTtlRequest,
    OpCode.DELETE: DeleteRequest,
    OpCode.DELETE_CONTAINER: DeleteContainerRequest,
    OpCode.EXISTS: ExistsRequest,
    OpCode.GET_DATA: GetDataRequest,
    OpCode.SET_DATA: SetDataRequest,
    OpCode.GET_ACL: GetAclRequest,
    OpCode.SET_ACL: SetAclRequest,
    OpCode.GET_CHILDREN: GetChildrenRequest,
    OpCode.GET_CHILDREN2: GetChildren2Request,
    OpCode.GET_ALL_CHILDREN_NUMBER: GetAllChildrenNumberRequest,
    OpCode.GET_EPHEMERALS: GetEphemeralsRequest,
    OpCode.SYNC: SyncRequest,
    OpCode.CHECK: CheckVersionRequest,
    OpCode.CHECK_WATCHES: CheckWatchesRequest,
    OpCode.REMOVE_WATCHES: RemoveWatchesRequest,
    OpCode.ADD_WATCH: AddWatchRequest,
}
WRITES: Final = frozenset(
    {
        OpCode.CREATE,
        OpCode.CREATE2,
        OpCode.CREATE_CONTAINER,
        OpCode.CREATE_TTL,
        OpCode.DELETE,
        OpCode.DELETE_CONTAINER,
        OpCode.SET_DATA,
        OpCode.SET_ACL,
        OpCode.MULTI,
        OpCode.CLOSE_SESSION,
    }
)
NAMES: Final[dict[int, str]] = {
    op: word[0].lower() + word[1:]
    for op in OpCode
    for word in ["".join(part.capitalize() for part in op.name.split("_"))]
}
PARTS_SHOWN_MAX: Final = 5
ZXID_LENGTH: Final = 8
_SHOWN: Final = ("version", "flags", "mode", "type", "ttl")


@attrs.frozen
class Part:
    """An operation: a request of its own, or one of a multi."""

    op: int
    record: object

    @property
    def path(self) -> str | None:
        path = getattr(self.record, "path", None)
        return path.decode(errors="replace") if isinstance(path, bytes) else path

    def __str__(self) -> str:
        words = [_word(self.op)]
        if self.path is not None:
            words.append(self.path)
        shown = {name: getattr(self.record, name, None) for name in _SHOWN}
        words += [f"{name}={value}" for name, value in shown.items() if value is not None]
        if getattr(self.record, "watch", False):
            words.append("watch")
        return " ".join(words)


def parts_of(op: int, body: bytes) -> list[Part]:
    """What a request asks for; no parts if it cannot be read."""
    try:
        if op in (OpCode.MULTI, OpCode.MULTI_READ):
            return list(_multi_parts(body))
        if op in RECORDS:
            return [Part(op, decode(RECORDS[op], body)[0])]
    except DecodeError:
        return []
    return [Part(op, None)]


def _multi_parts(body: bytes) -> Iterator[Part]:
    header, at = decode(MultiHeader, body)
    while not header.done:
        if header.type not in RECORDS:
            raise DecodeError(f"a part of type {header.type}")
        record, at = decode(RECORDS[header.type], body, at)
        yield Part(header.type, record)
        header, at = decode(MultiHeader, body, at)


def describe(op: int, body: bytes) -> str:
    """A request in words, without its data."""
    parts = parts_of(op, body)
    if op not in (OpCode.MULTI, OpCode.MULTI_READ):
        return str(parts[0]) if parts else f"{_word(op)} that cannot be read"
    shown = "; ".join(map(str, parts[:PARTS_SHOWN_MAX])) + ("; ..." if len(parts) > PARTS_SHOWN_MAX else "")
    return f"{_word(op)} [{shown}]"


def _word(op: int) -> str:
    return NAMES.get(op, f"request {op}")


ZxidOf: TypeAlias = Callable[[int], int]


def translate(op: int, body: bytes, zxid_of: ZxidOf) -> bytes:
    """The body for another server: a zxid in it is replaced by the one that means the same there."""
    if op not in (OpCode.SET_WATCHES, OpCode.SET_WATCHES2) or len(body) < ZXID_LENGTH:
        return body
    seen = int.from_bytes(body[:ZXID_LENGTH], "big", signed=True)  # both requests begin with it
    return zxid_of(seen).to_bytes(ZXID_LENGTH, "big", signed=True) + body[ZXID_LENGTH:]
