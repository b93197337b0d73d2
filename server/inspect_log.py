"""A transaction log, written out one line for each transaction.

Whatever can be read is shown before an error is raised, so that a damaged file still tells what it holds.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import attrs

from jute.record import DecodeError
from jute.txn_records import MultiTxn, TxnHeader, TxnRecord, decode_txn, decode_txn_record
from jute.zxid import format_zxid
from persistence.disk import RealDisk
from persistence.errors import CorruptLog
from persistence.file_names import LogFile
from persistence.log_format import FILE_HEADER, PAYLOAD_BYTES_MAX, End, EntryScanner, zxid_of
from persistence.log_reader import scan
from server.dump_values import json_data, name_of, shown_acl, shown_data, utc_time

HEADER = "ZooKeeper Transactional Log File with dbid {} txnlog format version 2"
PROBLEMS = {
    End.TORN: "an entry is cut off or its length is impossible",
    End.BAD_CHECKSUM: "the checksum of an entry does not fit its bytes",
}
REMEDY = "At the end of the newest log this is what a crash leaves, and the next start cuts it off"


def inspect_log(path: Path, *, as_json: bool = False) -> Iterator[str]:
    """The lines of the dump; CorruptLog behind the last sound entry, OSError if the file cannot be read."""
    scanner = EntryScanner()
    count = undecoded = 0
    for line, is_decoded in _lines(path, scanner, as_json=as_json):
        count += 1
        undecoded += not is_decoded
        if count == 1 and not as_json:
            yield HEADER.format(_database_of(path))
        yield line
    if scanner.end in PROBLEMS:
        problem = f"{PROBLEMS[scanner.end]}, behind {count} sound ones"
        raise CorruptLog(problem, file=path, offset=scanner.offset, remedy=REMEDY)
    if undecoded:
        raise CorruptLog(f"{undecoded} of {count} transactions are sound but of no known form", file=path)
    if not as_json:
        yield f"EOF reached after {count} txns."


def _database_of(path: Path) -> int:
    with path.open("rb") as file:
        return int.from_bytes(file.read(len(FILE_HEADER))[8:], "big", signed=True)


def _lines(path: Path, scanner: EntryScanner, *, as_json: bool) -> Iterator[tuple[str, bool]]:
    """A line for each sound entry, and whether its transaction could be decoded."""
    for _, payloads in scan(RealDisk(), LogFile(0, path), scanner):
        for payload in payloads:
            try:
                yield _json_line(payload) if as_json else _text_line(payload), True
            except DecodeError as problem:
                yield _undecoded_line(payload, str(problem), as_json=as_json), False


def _text_line(payload: bytes) -> str:
    header, record, digest = decode_txn(payload, PAYLOAD_BYTES_MAX)
    head = f"{utc_time(header.time)} session {format_zxid(header.client_id)} cxid {header.cxid:#x}"
    line = f"{head} zxid {format_zxid(header.zxid)} {_operation(header.type, record)}"
    return line if digest is None else f"{line} digest={digest.tree_digest}"


def _operation(type_: int, record: TxnRecord | None) -> str:
    if isinstance(record, MultiTxn):
        parts = (_operation(txn.type, _part(txn.type, txn.data)) for txn in record.txns or [])
        return f"multi [{'; '.join(parts)}]"
    fields = (f"{name}={_shown(name, value)}" for name, value in _fields(record))
    return " ".join([name_of(type_), *fields])


def _fields(record: TxnRecord | None) -> Iterable[tuple[str, Any]]:
    return () if record is None else attrs.asdict(cast(attrs.AttrsInstance, record), recurse=False).items()


def _part(type_: int, data: bytes | None) -> TxnRecord:
    return decode_txn_record(type_, data or b"", PAYLOAD_BYTES_MAX)


def _shown(name: str, value: Any) -> str:
    if name == "acl":
        return shown_acl(value)
    if isinstance(value, bytes):
        return shown_data(value)
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    return str(value) if str(value).isprintable() else repr(value)


def _json_line(payload: bytes) -> str:
    header, record, digest = decode_txn(payload, PAYLOAD_BYTES_MAX)
    line = _json_header(header) | _json_operation(header.type, record)
    if digest is not None:
        line["digest"] = digest.tree_digest
    return json.dumps(line)


def _json_header(header: TxnHeader) -> dict[str, Any]:
    return {
        "zxid": format_zxid(header.zxid),
        "session": format_zxid(header.client_id),
        "cxid": header.cxid,
        "time_ms": header.time,
    }


def _json_operation(type_: int, record: TxnRecord | None) -> dict[str, Any]:
    operation: dict[str, Any] = {"type": name_of(type_)}
    if isinstance(record, MultiTxn):
        parts = [_json_operation(txn.type, _part(txn.type, txn.data)) for txn in record.txns or []]
        return operation | {"operations": parts}
    for name, value in _fields(record):
        operation |= json_data(value) if name == "data" else {name: _json_value(name, value)}
    return operation


def _json_value(name: str, value: Any) -> Any:
    return shown_acl(value) if name == "acl" else value


def _undecoded_line(payload: bytes, problem: str, *, as_json: bool) -> str:
    zxid = format_zxid(zxid_of(payload))
    if as_json:
        return json.dumps({"zxid": zxid, "problem": problem, "payload": payload.hex()})
    return f"zxid {zxid} cannot be decoded ({problem}): {payload.hex()}"
