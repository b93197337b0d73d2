"""Transactions: what the log stores and the quorum carries, byte for byte the same in both.

A payload is a TxnHeader, the record its type calls for, and a TxnDigest that may be missing. A transaction
holds results (the version reached, the name chosen), never an instruction, so that applying it twice does no
harm.
"""

from jute.client_records import Acl
from jute.opcodes import OpCode
from jute.primitives import Boolean, Buffer, Int, Long, UString, Vector
from jute.record import INNER_LENGTH_MAX, DecodeError, Truncated, decode, encode, record


@record
class TxnDigest:
    """A hash of the whole tree after the transaction, by which servers notice that they differ."""

    version: Int  # 2
    tree_digest: Long


@record
class TxnHeader:
    """Opens every transaction: who asked, where it stands in the one order, and what it is."""

    client_id: Long  # the session
    cxid: Int  # the xid of the request, 0 if no client sent one
    zxid: Long
    time: Long  # ms since 1970, by the leader's clock
    type: Int  # an OpCode


@record
class CreateTxnV0:
    """CreateTxn as servers before 3.4 logged it."""

    path: UString
    data: Buffer
    acl: Vector[Acl]
    ephemeral: Boolean


@record
class CreateTxn:
    """Of create and create2. `path` is final: a sequence number is already in it."""

    path: UString
    data: Buffer
    acl: Vector[Acl]
    ephemeral: Boolean
    parent_cversion: Int  # the parent's stored cversion after this; -1 means one more than it has


@record
class CreateTtlTxn:
    """A node that goes once it has been childless and unchanged for `ttl`."""

    path: UString
    data: Buffer
    acl: Vector[Acl]
    parent_cversion: Int
    ttl: Long  # ms


@record
class CreateContainerTxn:
    """A node that goes some time after its last child."""

    path: UString
    data: Buffer
    acl: Vector[Acl]
    parent_cversion: Int


@record
class DeleteTxn:
    """Of delete and deleteContainer."""

    path: UString


@record
class SetDataTxn:
    """Of setData and reconfig."""

    path: UString
    data: Buffer
    version: Int  # the new one; of reconfig always -1


@record
class CheckVersionTxn:
    """A condition inside a multi that held. Applying it does nothing."""

    path: UString
    version: Int  # one *more* than the node has: the request was prepared like a change


@record
class SetAclTxn:
    """Of setACL."""

    path: UString
    acl: Vector[Acl]
    version: Int  # the new aversion


@record
class CreateSessionTxn:
    """A session begins; its id is the header's client_id."""

    timeout_ms: Int


@record
class CloseSessionTxn:
    """A session ends, and with it these ephemerals."""

    paths_to_delete: Vector[UString]


@record
class ErrorTxn:
    """A write that was refused: it changes nothing, but it takes its zxid."""

    err: Int


@record
class Txn:
    """One part of a multi: an OpCode and the encoded record that `decode_txn_record` reads."""

    type: Int
    data: Buffer


@record
class MultiTxn:
    """All or nothing: if one part is an ErrorTxn, none is applied."""

    txns: Vector[Txn]


TxnRecord = (
    CreateTxn
    | CreateTtlTxn
    | CreateContainerTxn
    | DeleteTxn
    | SetDataTxn
    | CheckVersionTxn
    | SetAclTxn
    | CreateSessionTxn
    | CloseSessionTxn
    | ErrorTxn
    | MultiTxn
)

_RECORD_OF_TYPE: dict[int, type[TxnRecord]] = {
    OpCode.CREATE_SESSION: CreateSessionTxn,
    OpCode.CLOSE_SESSION: CloseSessionTxn,
    OpCode.CREATE: CreateTxn,
    OpCode.CREATE2: CreateTxn,
    OpCode.CREATE_TTL: CreateTtlTxn,
    OpCode.CREATE_CONTAINER: CreateContainerTxn,
    OpCode.DELETE: DeleteTxn,
    OpCode.DELETE_CONTAINER: DeleteTxn,
    OpCode.SET_DATA: SetDataTxn,
    OpCode.RECONFIG: SetDataTxn,
    OpCode.SET_ACL: SetAclTxn,
    OpCode.CHECK: CheckVersionTxn,
    OpCode.ERROR: ErrorTxn,
    OpCode.MULTI: MultiTxn,
}

_DIGEST_VERSION = 2
_DIGEST_SIZE = 12


def encode_txn(header: TxnHeader, record: TxnRecord | None, digest: TxnDigest | None) -> bytes:
    """The payload of a log entry or a proposal."""
    return b"".join(encode(part) for part in (header, record, digest) if part is not None)


def decode_txn(
    payload: bytes, limit: int = INNER_LENGTH_MAX
) -> tuple[TxnHeader, TxnRecord | None, TxnDigest | None]:
    """Read the payload of a log entry or a proposal; DecodeError if its type is no transaction's.

    The record is None for a closeSession logged without one: by an older server, or with
    zookeeper.closeSessionTxn.enabled=false. A create of the oldest layout comes back as a CreateTxn.
    """
    header, at = decode(TxnHeader, payload, limit=limit)
    if header.type == OpCode.CLOSE_SESSION and _is_bare(payload, at):
        return header, None, _decode_digest(payload, at)
    record, at = _decode_record(header.type, payload, at, limit)
    return header, record, _decode_digest(payload, at)


def decode_txn_record(type_: int, data: bytes, limit: int = INNER_LENGTH_MAX) -> TxnRecord:
    """Read one record by its type, as of a part of a multi."""
    return _decode_record(type_, data, 0, limit)[0]


def _decode_record(type_: int, data: bytes, at: int, limit: int) -> tuple[TxnRecord, int]:
    cls = _RECORD_OF_TYPE.get(type_)
    if cls is None:
        raise DecodeError(f"no transaction has type {type_}")
    try:
        return decode(cls, data, at, limit=limit)
    except Truncated:
        if type_ != OpCode.CREATE:
            raise
    old, at = decode(CreateTxnV0, data, at, limit=limit)
    return CreateTxn(old.path, old.data, old.acl, old.ephemeral, parent_cversion=-1), at


def _is_bare(payload: bytes, at: int) -> bool:
    """Whether a closeSession has no record: it ends here, or a digest is all that is left.

    The digest's version would read as a count of two paths, for which twelve bytes are too few.
    """
    rest = payload[at:]
    return not rest or (len(rest) == _DIGEST_SIZE and rest[:4] == _DIGEST_VERSION.to_bytes(4, "big"))


def _decode_digest(payload: bytes, at: int) -> TxnDigest | None:
    try:
        return decode(TxnDigest, payload, at)[0]
    except Truncated:
        return None  # a server with digests off, or before 3.6, wrote it
