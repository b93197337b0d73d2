"""The compiled codecs: right for every record, and unmoved by hostile bytes."""

import struct
import tracemalloc
from typing import Annotated, get_args, get_origin

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jute.client_records import (
    Acl,
    CreateRequest,
    GetChildrenResponse,
    GetDataRequest,
    Id,
    Stat,
    SyncRequest,
    SyncResponse,
)
from jute.primitives import BUFFER, USTRING, VECTOR, Buffer, Byte, Int, UString, Vector, encode_ustring
from jute.quorum_records import QuorumPacket
from jute.record import INNER_LENGTH_MAX, DecodeError, Truncated, decode, encode, record
from jute.txn_records import MultiTxn, Txn
from tests.jute.all_records import RECORDS
from tests.strategies import records

each_record = pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)


def encode_by_hand(value: object, annotation: object) -> bytes:
    """One field at a time, straight from the rules: too simple to be wrong, too slow to be used."""
    if get_origin(annotation) is not Annotated:
        assert isinstance(annotation, type)
        fields = attrs.fields(annotation)
        return b"".join(encode_by_hand(getattr(value, field.name), field.type) for field in fields)
    annotated, wire = get_args(annotation)
    if value is None:
        return b"\xff\xff\xff\xff"
    if wire == VECTOR:
        assert isinstance(value, tuple)
        element = get_args(get_args(annotated)[0])[0]
        return struct.pack(">i", len(value)) + b"".join(encode_by_hand(item, element) for item in value)
    if wire == USTRING:
        assert isinstance(value, str)
        value = encode_ustring(value)
    if wire in (USTRING, BUFFER):
        assert isinstance(value, bytes)
        return struct.pack(">i", len(value)) + value
    return struct.pack(">" + wire, value)


@each_record
@settings(max_examples=15)
@given(data=st.data())
def test_encodes_by_the_rules_and_decodes_to_itself(cls: type[object], data: st.DataObject) -> None:
    """The compiled encoder agrees with one done by hand, and the decoder undoes it wherever it starts."""
    rec = data.draw(records(cls))
    encoded = encode(rec)
    assert encoded == encode_by_hand(rec, cls)
    assert decode(cls, encoded) == (rec, len(encoded))
    assert decode(cls, b"??" + encoded + b"???", 2) == (rec, 2 + len(encoded))


@each_record
@settings(max_examples=8)
@given(data=st.data())
def test_cut_short_anywhere_it_says_so(cls: type[object], data: st.DataObject) -> None:
    """No byte of a record can be missing, and none is read at or past `end`, though it be there."""
    encoded = encode(data.draw(records(cls)))
    for end in range(len(encoded)):
        with pytest.raises(Truncated):
            decode(cls, encoded[:end])
        with pytest.raises(Truncated):
            decode(cls, encoded, 0, end)


@each_record
@settings(max_examples=15)
@given(data=st.data())
def test_hostile_bytes_decode_or_raise_decode_error(cls: type[object], data: st.DataObject) -> None:
    """Whatever is written over a record, decoding raises nothing but DecodeError."""
    encoded = bytearray(encode(data.draw(records(cls))))
    junk = data.draw(st.binary(max_size=8) | st.sampled_from([b"\xff\xff\xff\xfe", b"\x7f\xff\xff\xff"]))
    at = data.draw(st.integers(0, len(encoded)))
    encoded[at : at + len(junk)] = junk
    try:
        rec, end = decode(cls, bytes(encoded))
    except DecodeError:
        return
    assert type(rec) is cls
    assert 0 <= end <= len(encoded)


def test_null_and_empty_differ() -> None:
    """Of a string, a buffer and a vector, null is -1 and empty is 0."""
    null = CreateRequest(path=None, data=None, acl=None, flags=0)
    empty = CreateRequest(path="", data=b"", acl=(), flags=0)
    assert encode(null) == b"\xff\xff\xff\xff" * 3 + bytes(4)
    assert encode(empty) == bytes(16)
    assert decode(CreateRequest, encode(null))[0] == null
    assert decode(CreateRequest, encode(empty))[0] == empty


def test_any_non_zero_byte_is_true() -> None:
    """As DataInput.readBoolean has it; on the way out it is 1."""
    rec, _ = decode(GetDataRequest, b"\x00\x00\x00\x01/\x80")
    assert rec == GetDataRequest("/", watch=True)
    assert encode(rec) == b"\x00\x00\x00\x01/\x01"


def test_other_negative_counts_are_empty_vectors() -> None:
    """Only -1 is null: the Java loop ends at once for the others."""
    assert decode(GetChildrenResponse, struct.pack(">i", -1)) == (GetChildrenResponse(None), 4)
    assert decode(GetChildrenResponse, struct.pack(">i", -2)) == (GetChildrenResponse(()), 4)
    assert decode(GetChildrenResponse, struct.pack(">i", -(2**31))) == (GetChildrenResponse(()), 4)


@pytest.mark.parametrize("length", [-2, -(2**31), INNER_LENGTH_MAX + 1, 2**31 - 1])
def test_a_length_out_of_range_is_refused_for_good(length: int) -> None:
    """It is not Truncated: no further bytes could make it right."""
    with pytest.raises(DecodeError) as caught:
        decode(SyncRequest, struct.pack(">i", length) + bytes(8))
    assert type(caught.value) is DecodeError


def test_the_limit_is_on_each_length_and_inclusive() -> None:
    """A string of exactly the limit passes, and the limit is the caller's to set."""
    rec = SyncRequest("x" * 10)
    assert decode(SyncRequest, encode(rec), limit=10)[0] == rec
    with pytest.raises(DecodeError):
        decode(SyncRequest, encode(rec), limit=9)
    assert INNER_LENGTH_MAX == 2097150


@pytest.mark.parametrize("cls", [GetChildrenResponse, MultiTxn])
@pytest.mark.parametrize("padding", [0, 100_000])
def test_a_hostile_count_allocates_nothing(cls: type, padding: int) -> None:
    """Two thousand million elements are promised, few or none are there: refused before any is made."""
    data = struct.pack(">i", 2**31 - 1) + bytes(padding)
    tracemalloc.start()
    try:
        with pytest.raises(Truncated):
            decode(cls, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000


def test_a_packet_from_a_stream_is_told_from_a_broken_one() -> None:
    """Quorum packets have no length in front: Truncated means wait, DecodeError means hang up."""
    packet = QuorumPacket(1, -1, b"data", (Id("ip", "127.0.0.1"),))
    stream = encode(packet) + encode(packet)[:7]
    first, at = decode(QuorumPacket, stream)
    assert first == packet
    with pytest.raises(Truncated):
        decode(QuorumPacket, stream, at)


def test_records_are_values() -> None:
    """Frozen, without a dict, equal by content and fit to be keys."""
    assert {Id("world", "anyone"): 1}[Id("world", "anyone")] == 1
    assert Id("world", "anyone") != Id("world", "nobody")
    assert len({SyncRequest("/a"), SyncResponse("/a")}) == 2
    assert hash(SyncRequest("/a")) != hash(SyncResponse("/a"))
    assert repr(Acl(31, Id("world", None))) == "Acl(perms=31, id=Id(scheme='world', id=None))"
    assert not hasattr(Id("world", "anyone"), "__dict__")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Id("world", "anyone").scheme = "ip"  # type: ignore[misc]


def test_fixed_sizes_are_the_documented_ones() -> None:
    """A Stat takes 68 bytes, and the shortest quorum packet 20."""
    assert len(encode(Stat(*range(11)))) == 68
    assert len(encode(QuorumPacket(5, 0, None, None))) == 20


def test_runs_of_fixed_fields_cross_record_borders() -> None:
    """A record within a record leaves no trace on the wire, nor does a byte before a vector."""

    @record
    class Mixed:
        kind: Byte
        acl: Acl
        more: Vector[Buffer]
        last: Int

    rec = Mixed(-1, Acl(31, Id("a", None)), (b"x", None), 7)
    assert encode(rec).hex(" ", 4) == "ff0000 001f0000 000161ff ffffff00 00000200 00000178 ffffffff 00000007"
    assert decode(Mixed, encode(rec))[0] == rec


def test_a_field_without_a_wire_format_is_refused_when_declared() -> None:
    """The mistake shows at import, not at the first packet."""

    class Wrong:
        path: UString
        size: int

    with pytest.raises(TypeError, match=r"Wrong\.size"):
        record(Wrong)


def test_a_part_of_a_multi_keeps_its_bytes() -> None:
    """The record inside a Txn is opaque to the codec."""
    multi = MultiTxn((Txn(2, b"\x00\x00\x00\x02/a"),))
    assert encode(multi).hex() == "00000001_00000002_00000006_000000022f61".replace("_", "")
