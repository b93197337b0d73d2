"""The short cuts from bytes to arguments against the declared records: the same, or both refuse."""

from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jute.client_records import (
    CheckVersionRequest,
    CreateRequest,
    CreateTtlRequest,
    DeleteContainerRequest,
    DeleteRequest,
    GetDataRequest,
    SetAclRequest,
    SetDataRequest,
    StatPersisted,
)
from jute.errors import MarshallingError
from jute.opcodes import OpCode
from jute.primitives import Buffer, UString, decode_ustring, encode_ustring
from jute.record import DecodeError, decode, encode, record
from server.acls import OPEN_ACL
from server.read_requests import path_and_watch
from server.wire_reader import WireReader
from server.write_requests import MULTI_READS, NullAclInMulti, parse_operations, parse_write
from tests.server.acl_vectors import AclVector
from tests.server.request_strategies import Request, multi_body, requests
from tests.strategies import records

WRITE_RECORDS: dict[OpCode, type] = {
    OpCode.CREATE: CreateRequest,
    OpCode.CREATE2: CreateRequest,
    OpCode.CREATE_CONTAINER: CreateRequest,
    OpCode.CREATE_TTL: CreateTtlRequest,
    OpCode.DELETE: DeleteRequest,
    OpCode.SET_DATA: SetDataRequest,
    OpCode.SET_ACL: SetAclRequest,
    OpCode.CHECK: CheckVersionRequest,
    OpCode.DELETE_CONTAINER: DeleteContainerRequest,
}


@record
class OneBuffer:
    """A buffer on its own."""

    data: Buffer


@record
class OneString:
    """A string on its own."""

    text: UString


def spoil(body: bytes, at: int, with_: int, keep: int) -> bytes:
    """One byte changed, the end cut off; numbers beyond the body do nothing."""
    if at < len(body):
        body = body[:at] + bytes([with_]) + body[at + 1 :]
    return body[:keep]


SPOILING = st.tuples(
    st.integers(0, 200),
    st.sampled_from([0, 1, 2, 5, 0x7F, 0x80, 0xFF]),
    st.integers(0, 120) | st.just(10_000),
)


def args_by_records(op: OpCode, body: bytes) -> Any:
    """What parse_write must give, by way of the records."""
    rec: Any = decode(WRITE_RECORDS[op], body)[0]
    if isinstance(rec, DeleteContainerRequest):
        if rec.path is None:
            raise DecodeError
        return (encode_ustring(decode_ustring(rec.path)),)
    path = None if rec.path is None else encode_ustring(rec.path)
    if isinstance(rec, DeleteRequest | CheckVersionRequest):
        return (path, rec.version)
    if isinstance(rec, SetDataRequest):
        return (path, encode(OneBuffer(rec.data)), rec.version)
    if isinstance(rec, SetAclRequest):
        return (path, rec.acl, rec.version)
    ttl = rec.ttl if isinstance(rec, CreateTtlRequest) else -1
    return (path, encode(OneBuffer(rec.data)), rec.acl, rec.flags, ttl)


@pytest.mark.parametrize("op", list(WRITE_RECORDS))
@settings(max_examples=30)
@given(data=st.data(), spoiling=st.one_of(st.none(), SPOILING), behind=st.binary(max_size=3))
def test_write_requests_parse_as_their_records_do(
    op: OpCode, data: st.DataObject, spoiling: tuple[int, int, int] | None, behind: bytes
) -> None:
    """Whole, cut short, with a wrong byte or with bytes behind: equal arguments, or DecodeError from both."""
    body = encode(data.draw(records(WRITE_RECORDS[op]))) + behind
    if spoiling is not None:
        body = spoil(body, *spoiling)
    try:
        expected = args_by_records(op, body)
    except DecodeError:
        with pytest.raises(DecodeError):
            parse_write(op, body)
        return
    found = parse_write(op, body)
    if op in (OpCode.SET_ACL, OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL):
        at = 1 if op == OpCode.SET_ACL else 2
        found = (*found[:at], decode(AclVector, found[at])[0].acl, *found[at + 1 :])
    assert found == expected


@pytest.mark.parametrize("op", list(WRITE_RECORDS))
@settings(max_examples=10)
@given(data=st.data())
def test_write_requests_may_end_anywhere(op: OpCode, data: st.DataObject) -> None:
    """Every beginning of a request is refused, as by its record."""
    whole = encode(data.draw(records(WRITE_RECORDS[op])))
    for length in range(len(whole)):
        with pytest.raises(DecodeError):
            args_by_records(op, whole[:length])
        with pytest.raises(DecodeError):
            parse_write(op, whole[:length])


@settings(max_examples=40)
@given(st.binary(max_size=6), st.binary(max_size=6), st.integers(-2, 8), SPOILING)
def test_a_create_open_to_everyone_takes_the_short_cut_to_the_same_place(
    path: bytes, data: bytes, flags: int, spoiling: tuple[int, int, int]
) -> None:
    """The short cut for the commonest ACL against the long way that opcode 19 takes, wherever it ends."""
    whole = pack(">i", len(path)) + path + pack(">i", len(data)) + data + OPEN_ACL + pack(">i", flags)
    for body in (whole, spoil(whole, *spoiling), *(whole[:length] for length in range(len(whole)))):
        results = []
        for op in (OpCode.CREATE, OpCode.CREATE_CONTAINER):
            try:
                results.append(parse_write(op, body))
            except DecodeError:
                results.append(None)
        assert results[0] == results[1]


@settings(max_examples=100)
@given(records(GetDataRequest), st.one_of(st.none(), SPOILING), st.binary(max_size=4), st.binary(max_size=4))
def test_paths_of_reads_parse_as_their_record_does(
    asked: GetDataRequest, spoiling: tuple[int, int, int] | None, before: bytes, behind: bytes
) -> None:
    """Wherever the body stands in the buffer; a null path is refused at once."""
    body = encode(asked)
    if spoiling is not None:
        body = spoil(body, *spoiling)
    start, end = len(before), len(before) + len(body)
    try:
        expected = decode(GetDataRequest, body)[0]
    except DecodeError:
        expected = None
    if expected is None or expected.path is None:
        with pytest.raises(DecodeError):
            path_and_watch(before + body + behind, start, end)
    else:
        path, watch = path_and_watch(before + body + behind, start, end)
        assert decode_ustring(path) == expected.path
        assert watch == expected.watch


@settings(max_examples=80)
@given(st.binary(max_size=40))
def test_the_wire_reader_reads_what_the_records_read(data: bytes) -> None:
    """Each kind of field, from the start of any bytes: the same value and the same end, or DecodeError."""
    for read, cls in (
        (WireReader.read_string, OneString),
        (WireReader.read_buffer, OneBuffer),
        (WireReader.read_acl, AclVector),
    ):
        reader = WireReader(data)
        try:
            expected, end = decode(cls, data)
        except DecodeError:
            with pytest.raises(DecodeError):
                read(reader)
            continue
        found = read(reader)
        assert reader.offset == end
        if cls is OneString:
            assert isinstance(expected, OneString)
            assert (None if found is None else decode_ustring(found)) == expected.text
        else:
            assert found == data[:end]


@given(st.binary(min_size=60, max_size=60))
def test_the_wire_reader_reads_numbers(data: bytes) -> None:
    """Field by field as struct does, and not beyond the end."""
    stat, reader = decode(StatPersisted, data)[0], WireReader(data)
    longs = [reader.read_long() for _ in range(4)]
    ints = [reader.read_int() for _ in range(3)]
    assert (*longs, *ints) == (
        stat.czxid,
        stat.mzxid,
        stat.ctime,
        stat.mtime,
        stat.version,
        stat.cversion,
        stat.aversion,
    )
    assert (reader.read_long(), reader.read_long()) == (stat.ephemeral_owner, stat.pzxid)
    for read in (reader.read_bool, reader.read_int, reader.read_long, reader.read_buffer, reader.read_acl):
        with pytest.raises(DecodeError):
            read()


def test_any_byte_but_zero_is_true() -> None:
    """A client may write true as it likes."""
    assert [WireReader(bytes([byte])).read_bool() for byte in (0, 1, 2, 255)] == [False, True, True, True]


@settings(max_examples=80)
@given(requests(), SPOILING)
def test_a_spoilt_multi_raises_nothing_unforeseen(
    asked: list[Request], spoiling: tuple[int, int, int]
) -> None:
    """MarshallingError, which takes a zxid, or NullAclInMulti, which does not; else DecodeError."""
    body = spoil(multi_body(asked), *spoiling)
    try:
        for type_, args in parse_write(OpCode.MULTI, body):
            assert args[0] is not None
            assert type_ not in MULTI_READS
    except (MarshallingError, NullAclInMulti):
        pass
    try:
        kinds = {
            type_ in (OpCode.GET_DATA, OpCode.GET_CHILDREN) for type_, _ in parse_operations(WireReader(body))
        }
        assert len(kinds) <= 1
    except DecodeError:
        pass
