"""Transactions in the form the server works with: numbers, paths as bytes, data and ACLs in wire form.

`Txn.payload` is what the log stores and what a proposal carries: TxnHeader, record, and TxnDigest if there is
one. `Txn.args` holds the same record taken apart, so that a transaction prepared here is applied without
being decoded again. Both always say the same thing (tests/server/test_txns.py holds them together, and holds
them against the declared records of jute/txn_records.py).

args by type:
    CREATE, CREATE2, CREATE_CONTAINER, CREATE_TTL   (path, data, acl, owner, parent_cversion)
    DELETE, DELETE_CONTAINER                        (path,)
    SET_DATA, RECONFIG                              (path, data, version)
    SET_ACL                                         (path, acl, version)
    CHECK                                           (path, version)
    CREATE_SESSION                                  (timeout_ms,)
    CLOSE_SESSION                                   (paths,) or (None,) if the log is older than the record
    ERROR                                           (code,)
    MULTI                                           a list of (type, args), one for each operation
`data` is a jute buffer with its length in front, `acl` a jute vector<ACL>, `owner` what the node stores as
its ephemeralOwner: 0, a session, CONTAINER_OWNER, or a time to live marked by TTL_OWNER.
"""

from struct import Struct
from typing import Any, Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be

from jute.opcodes import OpCode
from jute.record import DecodeError
from server.changes import Change
from server.slices import CODEC_STEPS
from server.wire_reader import WireReader

CREATE: Final = int(OpCode.CREATE)
DELETE: Final = int(OpCode.DELETE)
SET_DATA: Final = int(OpCode.SET_DATA)
SET_ACL: Final = int(OpCode.SET_ACL)
CHECK: Final = int(OpCode.CHECK)
MULTI: Final = int(OpCode.MULTI)
CREATE2: Final = int(OpCode.CREATE2)
RECONFIG: Final = int(OpCode.RECONFIG)
CREATE_CONTAINER: Final = int(OpCode.CREATE_CONTAINER)
DELETE_CONTAINER: Final = int(OpCode.DELETE_CONTAINER)
CREATE_TTL: Final = int(OpCode.CREATE_TTL)
CREATE_SESSION: Final = int(OpCode.CREATE_SESSION)
CLOSE_SESSION: Final = int(OpCode.CLOSE_SESSION)
ERROR: Final = int(OpCode.ERROR)

CREATES: Final = frozenset({CREATE, CREATE2, CREATE_CONTAINER, CREATE_TTL})
DELETES: Final = frozenset({DELETE, DELETE_CONTAINER})
DATA_CHANGES: Final = frozenset({SET_DATA, RECONFIG})
_NUMBERS: Final = frozenset({CREATE_SESSION, ERROR})
_LISTS: Final = frozenset({MULTI, CLOSE_SESSION})

CONTAINER_OWNER: Final = -(1 << 63)
TTL_OWNER: Final = -(1 << 56)  # 0xff in the top byte
TTL_MASK: Final = (1 << 40) - 1

DIGEST_VERSION: Final = 2

_LONG_BYTES: Final = 8 << 10  # where a list in a transaction may take long to be taken apart

Args = Any  # the tuple or list described above, by type

_HEADER: Final = Struct(">qiqqi")
_DIGEST: Final = Struct(">iq")
_DIGEST_BEGINNING: Final = Struct(">i").pack(DIGEST_VERSION)


_NO_CHANGES: Final[list[Change]] = []


class Txn:
    """One transaction: who asked for it, when, and what it changes."""

    __slots__ = ("args", "changes", "cxid", "digest", "payload", "session", "time_ms", "type", "zxid")

    def __init__(
        self, session: int, cxid: int, zxid: int, time_ms: int, type_: int, args: Args, digest: int | None
    ) -> None:
        self.session = session
        self.cxid = cxid
        self.zxid = zxid
        self.time_ms = time_ms
        self.type = type_
        self.args = args
        self.digest = digest  # of the whole tree once this is applied, as a signed long; None: not known
        self.payload = b""
        self.changes: list[Change] = _NO_CHANGES  # that it was prepared with, in their order

    def __repr__(self) -> str:
        return f"Txn(0x{self.zxid:x}, session=0x{self.session:x}, type={self.type}, args={self.args!r})"


def seal(txn: Txn) -> Txn:
    """Fill in the payload of a transaction that was prepared here."""
    payload = BytesWriter()
    write_i64_be(payload, txn.session)
    write_i32_be(payload, txn.cxid)
    write_i64_be(payload, txn.zxid)
    write_i64_be(payload, txn.time_ms)
    write_i32_be(payload, txn.type)
    _write_args(payload, txn.type, txn.args)
    if txn.digest is not None:
        write_i32_be(payload, DIGEST_VERSION)
        write_i64_be(payload, txn.digest)
    txn.payload = payload.getvalue()
    return txn


class LongPayload:
    """The payload of a multi of many operations, put together in slices."""

    __slots__ = ("_at", "_pieces", "is_whole", "txn")

    def __init__(self, txn: Txn) -> None:
        self.txn = txn
        self.is_whole = False
        self._at = 0
        self._pieces = [
            _HEADER.pack(txn.session, txn.cxid, txn.zxid, txn.time_ms, txn.type),
            len(txn.args).to_bytes(4, "big"),
        ]

    def go_on(self, steps_max: int) -> int:
        """Do some of it; returns the steps it took."""
        piece, steps, operations = BytesWriter(), 0, self.txn.args
        while steps < steps_max and self._at < len(operations):
            type_, args = operations[self._at]
            write_i32_be(piece, type_)
            _write_string(piece, encode_args(type_, args))
            self._at += 1
            steps += CODEC_STEPS
        self._pieces.append(piece.getvalue())
        if self._at == len(operations):
            if self.txn.digest is not None:
                self._pieces.append(_DIGEST.pack(DIGEST_VERSION, self.txn.digest))
            self.txn.payload = b"".join(self._pieces)
            self.is_whole = True
        return steps


def encode_args(type_: int, args: Args) -> bytes:
    """The record of a transaction."""
    record = BytesWriter()
    _write_args(record, type_, args)
    return record.getvalue()


def _write_args(out: BytesWriter, type_: int, args: Args) -> None:
    if type_ in DATA_CHANGES or type_ == SET_ACL:
        _write_string(out, args[0])
        out.write(args[1])
        write_i32_be(out, args[2])
    elif type_ in CREATES:
        _write_create(out, type_, args)
    elif type_ in DELETES:
        _write_string(out, args[0])
    elif type_ == MULTI:
        write_i32_be(out, len(args))
        for sub_type, sub_args in args:
            write_i32_be(out, sub_type)
            _write_string(out, encode_args(sub_type, sub_args))
    elif type_ == CHECK:
        _write_string(out, args[0])
        write_i32_be(out, args[1])
    elif type_ == CLOSE_SESSION:
        _write_paths(out, args[0])
    else:
        assert type_ in _NUMBERS, type_
        write_i32_be(out, args[0])


def _write_string(out: BytesWriter, value: bytes) -> None:
    write_i32_be(out, len(value))
    out.write(value)


def _write_paths(out: BytesWriter, paths: list[bytes] | None) -> None:
    if paths is not None:
        write_i32_be(out, len(paths))
        for path in paths:
            _write_string(out, path)


def _write_create(out: BytesWriter, type_: int, args: Args) -> None:
    path, data, acl, owner, parent_cversion = args
    _write_string(out, path)
    out.write(data)
    out.write(acl)
    if type_ in (CREATE, CREATE2):
        out.append(owner != 0)
    write_i32_be(out, parent_cversion)
    if type_ == CREATE_TTL:
        write_i64_be(out, owner & TTL_MASK)


def decode_txn(payload: bytes, *, is_long_left: bool = False) -> Txn:
    """Take a logged or proposed transaction apart; DecodeError if it is none.

    With `is_long_left`, the args of one that would take long are left to `TxnReader.go_on`.
    """
    if len(payload) < _HEADER.size:
        raise DecodeError("a transaction is shorter than its header")
    session, cxid, zxid, time_ms, type_ = _HEADER.unpack_from(payload)
    txn = Txn(session, cxid, zxid, time_ms, type_, None, None)
    txn.payload = payload
    if is_long_left and len(payload) > _LONG_BYTES and type_ in _LISTS:
        return txn
    reader = TxnReader(payload, _HEADER.size)
    txn.args = reader.args(type_, session, is_last=True)
    txn.digest = reader.digest(type_)
    return txn


class TxnReader(WireReader):
    """Cuts a transaction's record into its args."""

    __slots__ = ()

    @classmethod
    def of(cls, txn: Txn) -> "TxnReader":
        """Of the args that decode_txn has left."""
        return cls(txn.payload, _HEADER.size)

    def begin_list(self, type_: int) -> int:
        """How many members the args of a multi or closeSession have: -1 if there are no args at all."""
        if type_ == CLOSE_SESSION and self._is_bare():
            return -1
        return self.read_int()

    def next_member(self, type_: int, session: int) -> Args:
        return self._operation(session) if type_ == MULTI else self._path()

    def digest(self, type_: int) -> int | None:
        """What stands behind the args."""
        if len(self.data) - self.offset < _DIGEST.size or type_ == ERROR:
            return None
        version, digest = _DIGEST.unpack_from(self.data, self.offset)
        return digest if version == DIGEST_VERSION else None

    def args(self, type_: int, session: int, is_last: bool = False) -> Args:
        if type_ in CREATES:
            return self._create(type_, session)
        if type_ in DATA_CHANGES:
            return (self._path(), self.read_buffer(), self.read_int())
        if type_ in DELETES:
            return (self._path(),)
        if type_ == SET_ACL:
            return (self._path(), self.read_acl(), self.read_int())
        if type_ in _NUMBERS:
            return (self.read_int(),)
        if type_ == CHECK:
            return (self._path(), self.read_int())
        if type_ == MULTI and is_last:
            return [self._operation(session) for _ in range(self.read_int())]
        if type_ == CLOSE_SESSION and is_last:
            return (None if self._is_bare() else [self._path() for _ in range(self.read_int())],)
        raise DecodeError(f"transaction type {type_} is unknown")

    def _is_bare(self) -> bool:
        """Whether a closeSession has no record: nothing follows, or only a digest does.

        The twelve bytes of a digest could also be a list of two empty paths, which nobody can own.
        """
        left = len(self.data) - self.offset
        return left == 0 or (left == _DIGEST.size and self.data.startswith(_DIGEST_BEGINNING, self.offset))

    def _path(self) -> bytes:
        path = self.read_string()
        if path is None:
            raise DecodeError("a transaction names no path")
        return path

    def _create(self, type_: int, session: int) -> Args:
        path, data, acl = self._path(), self.read_buffer(), self.read_acl()
        if type_ == CREATE_CONTAINER:
            return (path, data, acl, CONTAINER_OWNER, self.read_int())
        if type_ == CREATE_TTL:
            parent_cversion = self.read_int()
            return (path, data, acl, TTL_OWNER | self.read_long() & TTL_MASK, parent_cversion)
        owner = session if self.read_bool() else 0
        # Logs of 3.3 and older have no parentCVersion: -1 stands for "one more than it was".
        is_oldest = type_ == CREATE and self.offset + 4 > len(self.data)
        return (path, data, acl, owner, -1 if is_oldest else self.read_int())

    def _operation(self, session: int) -> tuple[int, Args]:
        type_ = self.read_int()
        record = self.read_buffer()[4:]
        return type_, TxnReader(record).args(type_, session)
