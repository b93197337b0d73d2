"""Transactions in the server's own form against the declared records of jute/txn_records.py."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jute import txn_records
from jute.client_records import Acl, Id
from jute.opcodes import OpCode
from jute.record import DecodeError, encode
from jute.txn_records import (
    CheckVersionTxn,
    CloseSessionTxn,
    CreateContainerTxn,
    CreateSessionTxn,
    CreateTtlTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetAclTxn,
    SetDataTxn,
    TxnDigest,
    TxnHeader,
    TxnRecord,
)
from server import txns
from server.txns import CONTAINER_OWNER, TTL_MASK, TTL_OWNER, Txn, decode_txn, seal
from tests.server.acl_vectors import AclVector
from tests.strategies import records, signed

SESSION = 0x100000000000007


def named(cls: type[TxnRecord]) -> st.SearchStrategy[TxnRecord]:
    """Records whose path is there: without one, the server does not take them apart."""
    return records(cls).filter(lambda record: getattr(record, "path", "") is not None)


CREATES = named(CreateTxn)
RECORDS: dict[OpCode, st.SearchStrategy[TxnRecord]] = {
    OpCode.CREATE: CREATES,
    OpCode.CREATE2: CREATES,
    OpCode.CREATE_CONTAINER: named(CreateContainerTxn),
    OpCode.CREATE_TTL: st.builds(
        CreateTtlTxn, st.just("/t"), st.binary(), st.just(()), signed(32), st.integers(1, TTL_MASK)
    ),
    OpCode.DELETE: named(DeleteTxn),
    OpCode.DELETE_CONTAINER: named(DeleteTxn),
    OpCode.SET_DATA: named(SetDataTxn),
    OpCode.RECONFIG: named(SetDataTxn),
    OpCode.SET_ACL: named(SetAclTxn),
    OpCode.CREATE_SESSION: records(CreateSessionTxn),
    OpCode.CLOSE_SESSION: st.lists(st.sampled_from(["/a", "/b/c"])).map(
        lambda paths: CloseSessionTxn(tuple(paths))
    ),
    OpCode.ERROR: records(ErrorTxn),
}
NOT_IN_MULTI = frozenset({OpCode.CLOSE_SESSION, OpCode.CREATE_SESSION, OpCode.RECONFIG, OpCode.SET_ACL})
PARTS = {op: RECORDS[op] for op in RECORDS.keys() - NOT_IN_MULTI} | {OpCode.CHECK: named(CheckVersionTxn)}


def parts(op: OpCode) -> st.SearchStrategy[txn_records.Txn]:
    return PARTS[op].map(lambda record: txn_records.Txn(op, encode(record)))


MULTIS = st.lists(st.sampled_from(sorted(PARTS)).flatmap(parts), max_size=4).map(
    lambda each: MultiTxn(tuple(each))
)


def typed(op: OpCode) -> st.SearchStrategy[tuple[OpCode, TxnRecord]]:
    return st.tuples(st.just(op), RECORDS[op])


TYPED = st.one_of(st.sampled_from(list(RECORDS)).flatmap(typed), st.tuples(st.just(OpCode.MULTI), MULTIS))


@settings(max_examples=120)
@given(TYPED, st.integers(1, 99), st.one_of(st.none(), signed(64)))
def test_both_forms_have_the_same_bytes(
    typed: tuple[OpCode, TxnRecord], zxid: int, digest: int | None
) -> None:
    """What the records encode, the server takes apart and puts together again unchanged."""
    op, record = typed
    header = TxnHeader(SESSION, 5, zxid, 1234, op)
    shown = TxnDigest(2, digest) if digest is not None and op != OpCode.ERROR else None
    payload = txn_records.encode_txn(header, record, shown)

    txn = decode_txn(payload)

    assert (txn.session, txn.cxid, txn.zxid, txn.time_ms, txn.type) == (SESSION, 5, zxid, 1234, op)
    assert txn.payload == payload
    assert txn.digest == (None if shown is None else digest)
    again = Txn(txn.session, txn.cxid, txn.zxid, txn.time_ms, txn.type, txn.args, txn.digest)
    assert seal(again).payload == payload


@settings(max_examples=120)
@given(TYPED, st.data())
def test_spoilt_bytes_are_refused_or_read_alike(typed: tuple[OpCode, TxnRecord], data: st.DataObject) -> None:
    """Neither form raises anything but DecodeError, and where both can read, both read the same."""
    op, record = typed
    payload = bytearray(txn_records.encode_txn(TxnHeader(SESSION, 5, 6, 7, op), record, TxnDigest(2, 8)))
    for _ in range(data.draw(st.integers(0, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.sampled_from([0, 1, 0x7F, 0xFF]))
    spoilt = bytes(payload[: data.draw(st.integers(0, len(payload)))])
    try:
        header, declared, _ = txn_records.decode_txn(spoilt)
    except DecodeError:
        header, declared = None, None
    try:
        txn = decode_txn(spoilt)
    except DecodeError:
        return
    assert header is not None
    assert (header.client_id, header.zxid, header.type) == (txn.session, txn.zxid, txn.type)
    if isinstance(declared, SetDataTxn):
        assert txn.args[1:] == (encode(txn_records.Txn(0, declared.data))[4:], declared.version)


ARGS: list[tuple[TxnRecord, OpCode, Any]] = [
    (
        CreateTxn("/e", b"x", (Acl(31, Id("world", "anyone")),), True, 3),
        OpCode.CREATE,
        (b"/e", b"\0\0\0\1x", encode(AclVector((Acl(31, Id("world", "anyone")),))), SESSION, 3),
    ),
    (CreateTxn("/p", None, (), False, 3), OpCode.CREATE2, (b"/p", b"\xff" * 4, b"\0\0\0\0", 0, 3)),
    (
        CreateContainerTxn("/c", b"", (), -1),
        OpCode.CREATE_CONTAINER,
        (b"/c", b"\0\0\0\0", b"\0\0\0\0", CONTAINER_OWNER, -1),
    ),
    (
        CreateTtlTxn("/t", b"", (), 1, 60_000),
        OpCode.CREATE_TTL,
        (b"/t", b"\0\0\0\0", b"\0\0\0\0", TTL_OWNER | 60_000, 1),
    ),
    (CheckVersionTxn("/k", 4), OpCode.CHECK, (b"/k", 4)),
    (CloseSessionTxn(("/a", "/b")), OpCode.CLOSE_SESSION, ([b"/a", b"/b"],)),
    (CloseSessionTxn(()), OpCode.CLOSE_SESSION, ([],)),
]


@pytest.mark.parametrize(("record", "op", "args"), ARGS)
def test_args_are_the_record_taken_apart(record: TxnRecord, op: OpCode, args: Any) -> None:
    """Owners are what the node stores; data and ACLs stay in wire form."""
    if op == OpCode.CHECK:  # it exists inside a multi only
        record = MultiTxn((txn_records.Txn(op, encode(record)),))
        op, args = OpCode.MULTI, [(int(op), args)]
    assert decode_txn(txn_records.encode_txn(TxnHeader(SESSION, 1, 2, 3, op), record, None)).args == args


def test_a_close_without_its_record_is_known_by_what_is_missing() -> None:
    """Old logs, and servers told to, leave it out; a digest may follow all the same."""
    header = TxnHeader(SESSION, 1, 2, 3, OpCode.CLOSE_SESSION)
    bare = decode_txn(txn_records.encode_txn(header, None, None))
    assert bare.args == (None,)
    with_digest = decode_txn(txn_records.encode_txn(header, None, TxnDigest(2, 77)))
    assert with_digest.args == (None,)
    assert with_digest.digest == 77
    assert seal(Txn(SESSION, 1, 2, 3, txns.CLOSE_SESSION, (None,), 77)).payload == with_digest.payload


def test_a_create_of_the_oldest_layout_counts_one_more_than_there_was() -> None:
    """Logs of 3.3 have no parentCVersion, but only creates of that time: others are cut short."""
    record = txn_records.CreateTxnV0("/a", b"", (), False)
    header = TxnHeader(SESSION, 1, 2, 3, OpCode.CREATE)
    assert decode_txn(encode(header) + encode(record)).args == (b"/a", b"\0\0\0\0", b"\0\0\0\0", 0, -1)
    with pytest.raises(DecodeError):
        decode_txn(encode(TxnHeader(SESSION, 1, 2, 3, OpCode.CREATE2)) + encode(record))


def test_a_digest_of_another_version_is_none() -> None:
    """It was computed in another way: comparing it would cry wolf."""
    header = TxnHeader(SESSION, 1, 2, 3, OpCode.DELETE)
    assert decode_txn(txn_records.encode_txn(header, DeleteTxn("/a"), TxnDigest(1, 77))).digest is None


@pytest.mark.parametrize("type_", [0, 3, 4, 9, 100, -2])
def test_what_is_no_transaction_is_refused(type_: int) -> None:
    """Reads are not logged."""
    with pytest.raises(DecodeError):
        decode_txn(encode(TxnHeader(SESSION, 1, 2, 3, type_)))


@pytest.mark.parametrize("inner", [OpCode.MULTI, OpCode.CLOSE_SESSION])
def test_a_multi_holds_neither_multis_nor_sessions(inner: OpCode) -> None:
    """Their records cannot be told apart from what follows."""
    multi = MultiTxn((txn_records.Txn(inner, b""),))
    with pytest.raises(DecodeError):
        decode_txn(txn_records.encode_txn(TxnHeader(SESSION, 1, 2, 3, OpCode.MULTI), multi, None))
