"""One function for each request of the protocol: what is sent, and what its answer means.

A `Request` is a value that the conversation numbers, sends and, when its answer comes, completes. Paths in a
request are the caller's; in its `body` they are the server's. Nothing here knows of connections.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import attrs

from client.errors import ServerError, server_error
from client.multi import (
    Create,
    Delete,
    Read,
    ReadResult,
    SetData,
    Write,
    WriteResult,
    decode_reads,
    decode_writes,
    encode_multi,
)
from client.paths import Chroot, validate_path
from client.replies import decode_reply, not_null
from client.watch_registry import WatchRegistry
from jute.client_records import (
    Acl,
    AddWatchRequest,
    CheckWatchesRequest,
    ClientInfo,
    Create2Response,
    ErrorResponse,
    ExistsRequest,
    ExistsResponse,
    GetAclRequest,
    GetAclResponse,
    GetAllChildrenNumberRequest,
    GetAllChildrenNumberResponse,
    GetChildren2Request,
    GetChildren2Response,
    GetDataRequest,
    GetDataResponse,
    GetEphemeralsRequest,
    GetEphemeralsResponse,
    ReconfigRequest,
    RemoveWatchesRequest,
    SetAclRequest,
    SetAclResponse,
    SetDataResponse,
    Stat,
    SyncRequest,
    SyncResponse,
    WhoAmIResponse,
)
from jute.opcodes import AddWatchMode, OpCode, WatcherType
from jute.record import encode

T = TypeVar("T")
R = TypeVar("R")

OK = 0
NO_NODE = -101
CONFIG_NODE = "/zookeeper/config"  # outside every chroot


@attrs.define(eq=False)
class Request(Generic[T]):
    """One request on its way: complete once `error` or `result` is set."""

    op: OpCode
    body: bytes
    path: str | None  # for the error
    decode: Callable[[bytes], T]
    watch_path: str | None = None  # the server's path of the watch it sets or removes
    register: Callable[[WatchRegistry, int], None] | None = None  # given the answer's code
    removes: WatcherType | None = None
    is_local: bool = False  # of a removal: done here even if the server cannot be asked
    error: ServerError | None = None
    is_done: bool = False
    _result: T | None = None

    def succeed(self, result: T) -> None:
        self._result = result
        self.is_done = True

    def fail(self, error: ServerError) -> None:
        self.error = error
        self.is_done = True

    def fail_with(self, code: int) -> None:
        self.fail(server_error(code, self.path))

    def result(self) -> T:
        """What was asked for; raises what went wrong."""
        assert self.is_done
        if self.error is not None:
            raise self.error
        return self._result  # type: ignore[return-value]  # set, as it succeeded


def _decoder(record: type[R], take: Callable[[R], T]) -> Callable[[bytes], T]:
    def read(body: bytes) -> T:
        return take(decode_reply(record, body)[0])

    return read


def _nothing(body: bytes) -> None:
    """Answers without a body."""


def _adds(kind: Callable[[WatchRegistry], set[str]], path: str) -> Callable[[WatchRegistry, int], None]:
    """What a request that sets a watch does once it has succeeded."""

    def register(watches: WatchRegistry, code: int) -> None:
        if code == OK:
            kind(watches).add(path)

    return register


def create(chroot: Chroot, op: Create) -> Request[tuple[str, Stat]]:
    code, body = op.encode(chroot)
    read = _decoder(Create2Response, lambda r: (chroot.to_client(not_null(r.path)), r.stat))
    return Request(code, body, op.path, read)


def delete(chroot: Chroot, op: Delete) -> Request[None]:
    return Request(*op.encode(chroot), op.path, _nothing)


def set_data(chroot: Chroot, op: SetData) -> Request[Stat]:
    return Request(*op.encode(chroot), op.path, _decoder(SetDataResponse, lambda r: r.stat))


def exists(chroot: Chroot, path: str, watch: bool) -> Request[Stat]:
    validate_path(path)
    server_path = chroot.to_server(path)

    def register(watches: WatchRegistry, code: int) -> None:
        if code == OK:
            watches.data.add(server_path)
        elif code == NO_NODE:
            watches.exist.add(server_path)

    return Request(
        OpCode.EXISTS,
        encode(ExistsRequest(server_path, watch)),
        path,
        _decoder(ExistsResponse, lambda r: r.stat),
        register=register if watch else None,
    )


def get_data(chroot: Chroot, path: str, watch: bool) -> Request[tuple[bytes | None, Stat]]:
    validate_path(path)
    server_path = chroot.to_server(path)

    return Request(
        OpCode.GET_DATA,
        encode(GetDataRequest(server_path, watch)),
        path,
        _decoder(GetDataResponse, lambda r: (r.data, r.stat)),
        register=_adds(lambda watches: watches.data, server_path) if watch else None,
    )


def get_config(watch: bool) -> Request[tuple[bytes | None, Stat]]:
    return get_data(Chroot(), CONFIG_NODE, watch)


def get_children(chroot: Chroot, path: str, watch: bool) -> Request[tuple[list[str], Stat]]:
    validate_path(path)
    server_path = chroot.to_server(path)

    return Request(
        OpCode.GET_CHILDREN2,
        encode(GetChildren2Request(server_path, watch)),
        path,
        _decoder(GetChildren2Response, lambda r: ([not_null(name) for name in r.children or ()], r.stat)),
        register=_adds(lambda watches: watches.children, server_path) if watch else None,
    )


def get_acl(chroot: Chroot, path: str) -> Request[tuple[list[Acl], Stat]]:
    validate_path(path)
    read = _decoder(GetAclResponse, lambda r: (list(r.acl or ()), r.stat))
    return Request(OpCode.GET_ACL, encode(GetAclRequest(chroot.to_server(path))), path, read)


def set_acl(chroot: Chroot, path: str, acl: Sequence[Acl], version: int) -> Request[Stat]:
    validate_path(path)
    body = encode(SetAclRequest(chroot.to_server(path), tuple(acl), version))
    return Request(OpCode.SET_ACL, body, path, _decoder(SetAclResponse, lambda r: r.stat))


def sync(chroot: Chroot, path: str) -> Request[None]:
    validate_path(path)
    read = _decoder(SyncResponse, lambda r: None)
    return Request(OpCode.SYNC, encode(SyncRequest(chroot.to_server(path))), path, read)


def get_ephemerals(chroot: Chroot, prefix: str) -> Request[list[str]]:
    validate_path(prefix)
    server_prefix = prefix if not chroot.prefix else chroot.prefix + prefix
    read = _decoder(
        GetEphemeralsResponse, lambda r: [chroot.to_client(not_null(path)) for path in r.ephemerals or ()]
    )
    return Request(OpCode.GET_EPHEMERALS, encode(GetEphemeralsRequest(server_prefix)), None, read)


def get_all_children_number(chroot: Chroot, path: str) -> Request[int]:
    validate_path(path)
    read = _decoder(GetAllChildrenNumberResponse, lambda r: r.total_number)
    body = encode(GetAllChildrenNumberRequest(chroot.to_server(path)))
    return Request(OpCode.GET_ALL_CHILDREN_NUMBER, body, path, read)


def add_watch(chroot: Chroot, path: str, mode: AddWatchMode) -> Request[None]:
    validate_path(path)
    server_path = chroot.to_server(path)

    def kind(watches: WatchRegistry) -> set[str]:
        return watches.persistent if mode is AddWatchMode.PERSISTENT else watches.recursive

    return Request(
        OpCode.ADD_WATCH,
        encode(AddWatchRequest(server_path, mode)),
        path,
        _decoder(ErrorResponse, lambda r: None),
        register=_adds(kind, server_path),
    )


def remove_watches(chroot: Chroot, path: str, kind: WatcherType, *, is_local: bool) -> Request[None]:
    validate_path(path)
    server_path = chroot.to_server(path)
    body = encode(RemoveWatchesRequest(server_path, kind))
    return Request(
        OpCode.REMOVE_WATCHES, body, path, _nothing, watch_path=server_path, removes=kind, is_local=is_local
    )


def check_watches(chroot: Chroot, path: str, kind: WatcherType) -> Request[None]:
    validate_path(path)
    body = encode(CheckWatchesRequest(chroot.to_server(path), kind))
    return Request(OpCode.CHECK_WATCHES, body, path, _nothing)


def reconfig(
    joining: str | None, leaving: str | None, new_members: str | None, from_config: int
) -> Request[tuple[bytes | None, Stat]]:
    body = encode(ReconfigRequest(joining, leaving, new_members, from_config))
    return Request(OpCode.RECONFIG, body, None, _decoder(GetDataResponse, lambda r: (r.data, r.stat)))


def who_am_i() -> Request[list[ClientInfo]]:
    return Request(OpCode.WHO_AM_I, b"", None, _decoder(WhoAmIResponse, lambda r: list(r.client_info or ())))


def multi(chroot: Chroot, ops: Sequence[Write]) -> Request[list[WriteResult]]:
    body = encode_multi(ops, chroot)
    return Request(OpCode.MULTI, body, None, lambda answer: decode_writes(ops, answer, chroot))


def multi_read(chroot: Chroot, ops: Sequence[Read]) -> Request[list[ReadResult]]:
    body = encode_multi(ops, chroot)
    return Request(OpCode.MULTI_READ, body, None, lambda answer: decode_reads(ops, answer, chroot))


def close_session() -> Request[None]:
    return Request(OpCode.CLOSE_SESSION, b"", None, _nothing)


AnyRequest = Request[Any]
