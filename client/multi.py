"""The operations of a multi and of a multiRead, and how their answers are read.

session.multi([Check("/a", 3), Create("/a/b", b""), Delete("/c")])
session.multi_read([GetData("/a"), GetChildren("/a")])
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs

from client.acls import OPEN_ACL_UNSAFE
from client.errors import MultiFailed, ProtocolError, ServerError, server_error
from client.paths import Chroot, validate_path
from client.replies import decode_reply, not_null
from jute.client_records import (
    Acl,
    CheckVersionRequest,
    Create2Response,
    CreateRequest,
    CreateResponse,
    CreateTtlRequest,
    DeleteRequest,
    ErrorResponse,
    GetChildrenRequest,
    GetChildrenResponse,
    GetDataRequest,
    GetDataResponse,
    MultiHeader,
    SetDataRequest,
    SetDataResponse,
    Stat,
)
from jute.opcodes import CreateMode, OpCode
from jute.record import encode

ANY_VERSION = -1


@attrs.frozen
class Create:
    """Create a node. Its result is its path, and its Stat."""

    path: str
    data: bytes | None = b""
    acl: tuple[Acl, ...] = OPEN_ACL_UNSAFE
    mode: CreateMode = CreateMode.PERSISTENT
    ttl_ms: int | None = None

    def encode(self, chroot: Chroot) -> tuple[OpCode, bytes]:
        """The opcode and the body of the request."""
        validate_path(self.path, is_sequential=self.mode.is_sequential)
        path = chroot.to_server(self.path)
        if not self.mode.is_ttl:
            if self.ttl_ms is not None:
                raise ValueError(
                    f"{self.path}: a time to live needs a mode that has one, not {self.mode.name}"
                )
            op = OpCode.CREATE_CONTAINER if self.mode.is_container else OpCode.CREATE2
            return op, encode(CreateRequest(path, self.data, self.acl, self.mode))
        if self.ttl_ms is None:
            raise ValueError(f"{self.path}: mode {self.mode.name} needs a time to live")
        return OpCode.CREATE_TTL, encode(CreateTtlRequest(path, self.data, self.acl, self.mode, self.ttl_ms))


@attrs.frozen
class Delete:
    """Delete a node without children. Its result is None."""

    path: str
    version: int = ANY_VERSION

    def encode(self, chroot: Chroot) -> tuple[OpCode, bytes]:
        validate_path(self.path)
        return OpCode.DELETE, encode(DeleteRequest(chroot.to_server(self.path), self.version))


@attrs.frozen
class SetData:
    """Replace a node's data. Its result is the new Stat."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION

    def encode(self, chroot: Chroot) -> tuple[OpCode, bytes]:
        validate_path(self.path)
        return OpCode.SET_DATA, encode(SetDataRequest(chroot.to_server(self.path), self.data, self.version))


@attrs.frozen
class Check:
    """Go on only if the node has this version, or with -1 if it exists. Its result is None."""

    path: str
    version: int = ANY_VERSION

    def encode(self, chroot: Chroot) -> tuple[OpCode, bytes]:
        validate_path(self.path)
        return OpCode.CHECK, encode(CheckVersionRequest(chroot.to_server(self.path), self.version))


@attrs.frozen
class GetData:
    """Read a node. Its result is the data and the Stat."""

    path: str

    def encode(self, chroot: Chroot) -> tuple[OpCode, bytes]:
        validate_path(self.path)
        return OpCode.GET_DATA, encode(GetDataRequest(chroot.to_server(self.path), False))


@attrs.frozen
class GetChildren:
    """List a node's children. Its result is their names."""

    path: str

    def encode(self, chroot: Chroot) -> tuple[OpCode, bytes]:
        validate_path(self.path)
        return OpCode.GET_CHILDREN, encode(GetChildrenRequest(chroot.to_server(self.path), False))


Write: TypeAlias = Create | Delete | SetData | Check
Read: TypeAlias = GetData | GetChildren
WriteResult: TypeAlias = tuple[str, Stat | None] | Stat | None
ReadResult: TypeAlias = tuple[bytes | None, Stat] | list[str] | ServerError
_Part: TypeAlias = WriteResult | list[str] | tuple[bytes | None, Stat]


def encode_multi(ops: Sequence[Write | Read], chroot: Chroot) -> bytes:
    """The body of a multi or multiRead."""
    parts = []
    for op in ops:
        code, body = op.encode(chroot)
        parts.append(encode(MultiHeader(code, False, -1)) + body)
    return b"".join(parts) + encode(MultiHeader(-1, True, -1))


def decode_writes(ops: Sequence[Write], body: bytes, chroot: Chroot) -> list[WriteResult]:
    """The results of a multi; raises MultiFailed if nothing was done."""
    results = _decode_parts(len(ops), body, chroot)
    codes = tuple(result if isinstance(result, int) else 0 for result in results)
    failed = [index for index, code in enumerate(codes) if code not in (0, -2)]
    if failed:
        raise MultiFailed(codes, ops[failed[0]].path)
    if any(isinstance(result, int) for result in results):
        raise ProtocolError("a multi failed, but no operation of it says why")
    return results  # type: ignore[return-value]  # what is left are results of writes


def decode_reads(ops: Sequence[Read], body: bytes, chroot: Chroot) -> list[ReadResult]:
    """The results of a multiRead, each with its own error."""
    results = _decode_parts(len(ops), body, chroot)
    return [
        server_error(result, op.path) if isinstance(result, int) else result  # type: ignore[misc]
        for op, result in zip(ops, results, strict=True)
    ]


def _decode_parts(count: int, body: bytes, chroot: Chroot) -> list[_Part | int]:
    """One result for each operation, an error's as its code."""
    results: list[_Part | int] = []
    header, at = decode_reply(MultiHeader, body)
    while not header.done:
        if len(results) == count:
            raise ProtocolError(f"the answer to {count} operations has more results")
        result, at = _decode_part(header.type, body, at, chroot)
        results.append(result)
        header, at = decode_reply(MultiHeader, body, at)
    if len(results) != count:
        raise ProtocolError(f"the answer to {count} operations has {len(results)} results")
    return results


def _decode_part(op: int, body: bytes, at: int, chroot: Chroot) -> tuple[_Part | int, int]:
    reader = _READERS.get(op)
    if reader is None:
        raise ProtocolError(f"the answer to a multi has a result of type {op}")
    return reader(body, at, chroot)


def _read_error(body: bytes, at: int, chroot: Chroot) -> tuple[int, int]:
    response, at = decode_reply(ErrorResponse, body, at)
    return response.err, at


def _read_nothing(body: bytes, at: int, chroot: Chroot) -> tuple[None, int]:
    return None, at


def _read_created(body: bytes, at: int, chroot: Chroot) -> tuple[tuple[str, None], int]:
    response, at = decode_reply(CreateResponse, body, at)
    return (chroot.to_client(not_null(response.path)), None), at


def _read_created2(body: bytes, at: int, chroot: Chroot) -> tuple[tuple[str, Stat], int]:
    response, at = decode_reply(Create2Response, body, at)
    return (chroot.to_client(not_null(response.path)), response.stat), at


def _read_stat(body: bytes, at: int, chroot: Chroot) -> tuple[Stat, int]:
    response, at = decode_reply(SetDataResponse, body, at)
    return response.stat, at


def _read_data(body: bytes, at: int, chroot: Chroot) -> tuple[tuple[bytes | None, Stat], int]:
    response, at = decode_reply(GetDataResponse, body, at)
    return (response.data, response.stat), at


def _read_children(body: bytes, at: int, chroot: Chroot) -> tuple[list[str], int]:
    response, at = decode_reply(GetChildrenResponse, body, at)
    return [not_null(name) for name in response.children or ()], at


_Reader: TypeAlias = Callable[[bytes, int, Chroot], tuple[_Part | int, int]]
_READERS: dict[int, _Reader] = {
    OpCode.ERROR: _read_error,
    OpCode.CREATE: _read_created,
    OpCode.CREATE2: _read_created2,
    OpCode.DELETE: _read_nothing,
    OpCode.CHECK: _read_nothing,
    OpCode.SET_DATA: _read_stat,
    OpCode.GET_DATA: _read_data,
    OpCode.GET_CHILDREN: _read_children,
}
