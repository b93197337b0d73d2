"""The bodies of write requests, cut into operations that can be prepared.

An operation is (type, args); paths are bytes in canonical form, None where the client sent null, data and
ACLs in wire form:
    CREATE, CREATE2, CREATE_CONTAINER, CREATE_TTL   (path, data, acl, flags, ttl)
    DELETE, CHECK                                   (path, version)
    DELETE_CONTAINER                                (path,)
    SET_DATA, SET_ACL                               (path, data or acl, version)
    RECONFIG                                        (joining, leaving, new_members, config_id)
    MULTI                                           a list of operations

A body that cannot be decoded raises DecodeError, which costs no zxid, except for a multi: MarshallingError is
a failure like any other and consumes one.
"""

from typing import Any, Final

from librt.strings import read_i32_be

from jute.errors import MarshallingError
from jute.opcodes import CreateMode, OpCode
from jute.record import DecodeError
from server.acls import ASKED_ENTRIES_MAX, OPEN_ACL
from server.paths import canonical
from server.slices import CODEC_STEPS, ENTRY_STEPS
from server.txns import (
    CHECK,
    CREATE,
    CREATE2,
    CREATE_CONTAINER,
    CREATE_TTL,
    DELETE,
    DELETE_CONTAINER,
    MULTI,
    RECONFIG,
    SET_ACL,
    SET_DATA,
)
from server.wire_reader import WireReader

Operation = tuple[int, Any]

_UNLIMITED: Final = 1 << 62
_NULL_ACL: Final = b"\xff\xff\xff\xff"
_FLAGS: Final = frozenset(mode.value for mode in CreateMode)
_TTL_FLAGS: Final = frozenset(mode.value for mode in CreateMode if mode.is_ttl)
_HOT_CREATES: Final = frozenset({CREATE, CREATE2})
_PLAIN_CREATES: Final = frozenset({CREATE, CREATE2, CREATE_CONTAINER})
_VERSIONED: Final = frozenset({DELETE, CHECK})
MULTI_READS: Final = frozenset({int(OpCode.GET_DATA), int(OpCode.GET_CHILDREN)})


def parse_write(op: int, body: bytes) -> Any:
    """The args of the operation that a request of this type asks for."""
    if op == SET_DATA:
        return _parse_set_data(body)
    if op in _HOT_CREATES:
        return _parse_create(op, body)
    if op == MULTI:
        return _parse_multi(body)
    return _parse_args(op, WireReader(body))


def _parse_set_data(body: bytes) -> Any:
    """As _parse_args does, but in a third of the time."""
    if len(body) < 12:
        raise DecodeError("a setData request is too short")
    path_length: int = read_i32_be(body, 0)
    data_at = 4 + path_length
    if path_length < 0 or data_at + 8 > len(body):
        return _parse_args(SET_DATA, WireReader(body))
    data_length: int = read_i32_be(body, data_at)
    data_end = data_at + 4 + data_length
    if data_length < 0 or data_end + 4 > len(body):
        return _parse_args(SET_DATA, WireReader(body))
    path, version = body[4:data_at], int(read_i32_be(body, data_end))
    return (path if path.isascii() else canonical(path), body[data_at:data_end], version)


def _parse_create(op: int, body: bytes) -> Any:
    """As _parse_args does, but in a quarter of the time where the node is to be open to everyone."""
    size = len(body)
    if size >= 8:
        path_length: int = read_i32_be(body, 0)
        data_at = 4 + path_length
        if 4 <= data_at <= size - 4:
            data_length: int = read_i32_be(body, data_at)
            acl_at = data_at + 4 + data_length
            flags_at = acl_at + len(OPEN_ACL)
            if data_at + 4 <= acl_at and flags_at + 4 <= size and body.startswith(OPEN_ACL, acl_at):
                path, flags = body[4:data_at], int(read_i32_be(body, flags_at))
                path = path if path.isascii() else canonical(path)
                return (path, body[data_at:acl_at], OPEN_ACL, flags, -1)
    return _parse_args(op, WireReader(body))


def _parse_args(op: int, reader: WireReader) -> Any:
    if op in _PLAIN_CREATES:
        return (
            _path(reader),
            reader.read_buffer(),
            reader.read_acl(ASKED_ENTRIES_MAX),
            reader.read_int(),
            -1,
        )
    if op in _VERSIONED:
        return (_path(reader), reader.read_int())
    if op == SET_DATA:
        return (_path(reader), reader.read_buffer(), reader.read_int())
    if op == CREATE_TTL:
        created = (_path(reader), reader.read_buffer(), reader.read_acl(ASKED_ENTRIES_MAX), reader.read_int())
        return (*created, reader.read_long())
    if op == SET_ACL:
        return (_path(reader), reader.read_acl(ASKED_ENTRIES_MAX), reader.read_int())
    if op == DELETE_CONTAINER:
        path = _path(reader)
        if path is None:  # it is a buffer here, which only text can become
            raise DecodeError("the path is missing")
        return (path,)
    assert op == RECONFIG, op
    return (reader.read_string(), reader.read_string(), reader.read_string(), reader.read_long())


def _path(reader: WireReader) -> bytes | None:
    path = reader.read_string()
    return None if path is None else canonical(path)


def _parse_multi(body: bytes) -> list[Operation]:
    parser = MultiParser(body)
    while not parser.is_done:
        parser.go_on(_UNLIMITED)
    return parser.operations


class MultiParser:
    """Takes a multi apart, in slices if it is long."""

    __slots__ = ("_lacks_path", "_reader", "is_done", "operations")

    def __init__(self, body: bytes) -> None:
        self._reader = WireReader(body)
        self._lacks_path = False
        self.is_done = False
        self.operations: list[Operation] = []

    def go_on(self, steps_max: int) -> int:
        """Do some of it; returns the steps it took. Raises what the top of this file says."""
        reader, operations, steps = self._reader, self.operations, 0
        entries_before = reader.acl_entries
        try:
            while steps < steps_max:
                type_ = _next_type(reader)
                if type_ is None:
                    self.is_done = True
                    break
                operation = _parse_operation(type_, reader)
                _check_kind(operations, operation)
                operations.append(operation)
                steps += CODEC_STEPS + ENTRY_STEPS * (reader.acl_entries - entries_before)
                entries_before = reader.acl_entries
                if operation[1][0] is None:
                    self._lacks_path = True
        except NullAclInMulti:
            raise
        except DecodeError as failure:
            raise MarshallingError(str(failure)) from None
        if self.is_done:
            if operations and operations[0][0] in MULTI_READS:  # and so all of them are
                raise MarshallingError("a multi does not read")
            if self._lacks_path:
                raise MarshallingError("an operation of the multi names no path")
        return steps


class TooManyOperations(Exception):
    """There are more of them than anybody may ask for at once."""


def parse_operations(reader: WireReader, count_max: int = _UNLIMITED) -> list[Operation]:
    """The operations of a multi or multiRead: all writes, or all reads, whose args are (path, watch).

    Raises TooManyOperations as soon as there are more than `count_max`.
    """
    operations: list[Operation] = []
    while (type_ := _next_type(reader)) is not None:
        if len(operations) >= count_max:
            raise TooManyOperations
        operation = _parse_operation(type_, reader)
        _check_kind(operations, operation)
        operations.append(operation)
    return operations


def _check_kind(before: list[Operation], operation: Operation) -> None:
    if before and (operation[0] in MULTI_READS) != (before[0][0] in MULTI_READS):
        raise DecodeError("reads and writes cannot be mixed")


def _next_type(reader: WireReader) -> int | None:
    """The type of the next operation, or None behind the last; only `done` tells."""
    type_ = reader.read_int()
    is_done = reader.read_bool()
    reader.read_int()
    return None if is_done else type_


def _parse_operation(type_: int, reader: WireReader) -> Operation:
    if type_ == CREATE_TTL:
        return _create_ttl_operation(_parse_args(type_, reader))
    if type_ in _PLAIN_CREATES:
        return _create_operation(type_, _parse_args(type_, reader))
    if type_ in _VERSIONED or type_ == SET_DATA:
        return type_, _parse_args(type_, reader)
    if type_ in MULTI_READS:
        return type_, (_path(reader), reader.read_bool())
    raise DecodeError(f"operation {type_} cannot be part of a multi")


def _create_operation(type_: int, args: Any) -> Operation:
    """A create inside a multi: there, unlike outside, the container flag counts."""
    _, _, acl, flags, _ = args
    if flags not in _FLAGS:
        raise DecodeError(f"flags {flags} make no create mode")
    if acl == _NULL_ACL:
        raise NullAclInMulti("a create of the multi has no ACL")
    if flags in _TTL_FLAGS:
        raise DecodeError(f"flags {flags} need a time to live")
    return CREATE_CONTAINER if flags == CreateMode.CONTAINER else type_, args


class NullAclInMulti(DecodeError):
    """The one way to spoil a multi that costs no zxid."""


def _create_ttl_operation(args: Any) -> Operation:
    """createTTL inside a multi: with flags that mean no time to live it is an ordinary create."""
    path, data, acl, flags, _ = args
    if flags in _TTL_FLAGS:
        return CREATE_TTL, args
    return CREATE_CONTAINER if flags == CreateMode.CONTAINER else CREATE, (path, data, acl, flags, -1)
