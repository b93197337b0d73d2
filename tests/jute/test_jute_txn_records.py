"""Transactions as 3.9.5 servers log and propose them, and in the shapes older ones left behind.

The multis keep some parts of captured ones, with the count in front made to fit.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jute.client_records import Acl, Id
from jute.errors import NodeExists, NoNode, RuntimeInconsistency
from jute.opcodes import OpCode
from jute.record import DecodeError, Truncated, encode
from jute.txn_records import (
    CheckVersionTxn,
    CloseSessionTxn,
    CreateContainerTxn,
    CreateSessionTxn,
    CreateTtlTxn,
    CreateTxn,
    CreateTxnV0,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetAclTxn,
    SetDataTxn,
    Txn,
    TxnDigest,
    TxnHeader,
    TxnRecord,
    decode_txn,
    decode_txn_record,
    encode_txn,
)
from tests.strategies import records

SESSION = 0x01000010037B0000
WORLD_ALL = Acl(31, Id("world", "anyone"))

PROPOSALS: list[tuple[str, TxnHeader, TxnRecord, TxnDigest | None]] = [
    (
        "01000010037b0000 00000000 0000000100000001 000001a1e1830ce8 fffffff6 00007530 "
        "00000002 0000000051c6d660",
        TxnHeader(SESSION, 0, 0x100000001, 0x1A1E1830CE8, OpCode.CREATE_SESSION),
        CreateSessionTxn(30_000),
        TxnDigest(2, 0x51C6D660),
    ),
    (
        "01000010037b0000 00000001 0000000100000002 000001a1e1830d48 00000001 00000002 2f61 "
        "00000005 68656c6c6f 00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00 00000001 "
        "00000002 000000017c5a2303",
        TxnHeader(SESSION, 1, 0x100000002, 0x1A1E1830D48, OpCode.CREATE),
        CreateTxn("/a", b"hello", (WORLD_ALL,), ephemeral=False, parent_cversion=1),
        TxnDigest(2, 0x17C5A2303),
    ),
    (
        "01000010037b0000 00000002 0000000100000003 000001a1e1830da8 ffffffff ffffff92",
        TxnHeader(SESSION, 2, 0x100000003, 0x1A1E1830DA8, OpCode.ERROR),
        ErrorTxn(NodeExists.code),
        None,
    ),
]

RECORD_OF_TYPE: list[tuple[int, type[TxnRecord]]] = [
    (-11, CloseSessionTxn),
    (-10, CreateSessionTxn),
    (-1, ErrorTxn),
    (1, CreateTxn),
    (15, CreateTxn),
    (2, DeleteTxn),
    (20, DeleteTxn),
    (5, SetDataTxn),
    (16, SetDataTxn),
    (7, SetAclTxn),
    (13, CheckVersionTxn),
    (14, MultiTxn),
    (19, CreateContainerTxn),
    (21, CreateTtlTxn),
]


def header(type_: int) -> TxnHeader:
    return TxnHeader(SESSION, 7, 0x100000009, 1_700_000_000_000, type_)


@pytest.mark.parametrize(("payload", "head", "rec", "digest"), PROPOSALS, ids=["session", "create", "error"])
def test_captured_proposals(payload: str, head: TxnHeader, rec: TxnRecord, digest: TxnDigest | None) -> None:
    """Read to these values and written to the same bytes."""
    data = bytes.fromhex(payload)
    assert decode_txn(data) == (head, rec, digest)
    assert encode_txn(head, rec, digest) == data


@pytest.mark.parametrize(("type_", "cls"), RECORD_OF_TYPE)
@settings(max_examples=15)
@given(data=st.data())
def test_each_type_has_its_record(type_: int, cls: type[TxnRecord], data: st.DataObject) -> None:
    """With a digest or without, alone or as a part of a multi, it comes back as it was."""
    rec = data.draw(records(cls))
    digest = data.draw(records(TxnDigest))
    assert decode_txn(encode_txn(header(type_), rec, digest)) == (header(type_), rec, digest)
    assert decode_txn_record(type_, encode(rec)) == rec


@pytest.mark.parametrize("type_", [0, 3, 4, 8, 9, 11, 12, 17, 22, 100, -2, 2**31 - 1])
def test_other_types_are_refused(type_: int) -> None:
    """A read is no transaction, nor is a number nobody knows."""
    with pytest.raises(DecodeError, match=str(type_)):
        decode_txn(encode(header(type_)) + bytes(64))


def test_parts_of_a_captured_multi() -> None:
    """Its parts are opaque until each is read by its own type; a check holds one more than the version."""
    data = bytes.fromhex(
        "00000002 0000000d 0000000a 00000002 2f61 00000002 00000002 00000008 00000004 2f612f6d"
    )
    multi = decode_txn_record(OpCode.MULTI, data)
    assert isinstance(multi, MultiTxn)
    assert encode(multi) == data
    assert multi.txns is not None
    parts = [decode_txn_record(part.type, part.data or b"") for part in multi.txns]
    assert parts == [CheckVersionTxn("/a", 2), DeleteTxn("/a/m")]


def test_parts_of_a_captured_multi_that_failed() -> None:
    """The part that failed holds its code, those behind it -2."""
    data = bytes.fromhex("00000002 ffffffff 00000004 ffffff9b ffffffff 00000004 fffffffe")
    errors = (ErrorTxn(NoNode.code), ErrorTxn(RuntimeInconsistency.code))
    assert decode_txn_record(OpCode.MULTI, data) == MultiTxn(
        tuple(Txn(OpCode.ERROR, encode(error)) for error in errors)
    )


def test_a_create_of_the_oldest_layout() -> None:
    """It names no parent_cversion: -1 stands for one more than the parent has."""
    old = CreateTxnV0("/a", b"x", (WORLD_ALL,), ephemeral=True)
    new = CreateTxn("/a", b"x", (WORLD_ALL,), ephemeral=True, parent_cversion=-1)
    assert decode_txn(encode(header(OpCode.CREATE)) + encode(old)) == (header(OpCode.CREATE), new, None)
    with pytest.raises(Truncated):
        decode_txn(encode(header(OpCode.CREATE2)) + encode(old))


@pytest.mark.parametrize("digest", [None, TxnDigest(2, 0), TxnDigest(2, -1), TxnDigest(2, 0x51C6D660)])
def test_a_close_session_without_its_record(digest: TxnDigest | None) -> None:
    """Nothing stands there, or the digest alone."""
    payload = encode_txn(header(OpCode.CLOSE_SESSION), None, digest)
    assert decode_txn(payload) == (header(OpCode.CLOSE_SESSION), None, digest)


@pytest.mark.parametrize("paths", [(), ("/a/b",), ("/a", "/b"), ("/a/e-0000000000",)])
@pytest.mark.parametrize("digest", [None, TxnDigest(2, 0x51C6D660)])
def test_a_close_session_with_its_record(paths: tuple[str, ...], digest: TxnDigest | None) -> None:
    """No list of paths is mistaken for a digest: one of four letters is as long as one."""
    rec = CloseSessionTxn(paths)
    payload = encode_txn(header(OpCode.CLOSE_SESSION), rec, digest)
    assert decode_txn(payload) == (header(OpCode.CLOSE_SESSION), rec, digest)


def test_bytes_too_few_for_a_digest_are_ignored() -> None:
    """As are bytes behind one."""
    rec = DeleteTxn("/a")
    assert decode_txn(encode_txn(header(2), rec, None) + bytes(11))[2] is None
    assert decode_txn(encode_txn(header(2), rec, TxnDigest(2, 5)) + bytes(3))[2] == TxnDigest(2, 5)


@given(st.sampled_from(RECORD_OF_TYPE), st.binary(max_size=40))
def test_hostile_payloads_raise_decode_error(type_and_cls: tuple[int, type], junk: bytes) -> None:
    """Whatever follows the header, nothing but DecodeError is raised."""
    type_, cls = type_and_cls
    try:
        _, rec, _ = decode_txn(encode(header(type_)) + junk)
    except DecodeError:
        return
    assert rec is None or isinstance(rec, cls)


def test_the_limit_reaches_the_record() -> None:
    """A log written with a larger jute.maxbuffer needs a reader with one."""
    payload = encode_txn(header(2), DeleteTxn("/" + "x" * 20), None)
    with pytest.raises(DecodeError):
        decode_txn(payload, limit=20)
    assert decode_txn(payload, limit=21)[1] == DeleteTxn("/" + "x" * 20)
