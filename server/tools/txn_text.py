"""A transaction as zkTxnLogToolkit.sh writes it. Pure.

Creates and changes of data are written field by field, with the data as text; all other records in jute's own
text form: `'` before a string, `s{...}` around a structure, `v{...}` around a vector, a newline at the end.
"""

from collections.abc import Iterable
from datetime import tzinfo

from jute.client_records import Acl
from jute.java_text import java_hex, java_short_date
from jute.opcodes import OpCode
from jute.txn_records import (
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
    TxnRecord,
    decode_txn,
)
from persistence.log_format import PAYLOAD_BYTES_MAX
from server.dump_values import name_of

_ESCAPES = str.maketrans({"\0": "%00", "\n": "%0A", "\r": "%0D", ",": "%2C", "}": "%7D", "%": "%25"})


def txn_line(payload: bytes, zone: tzinfo | None) -> str:
    """One transaction, newline included; DecodeError if the payload is none."""
    header, record, _ = decode_txn(payload, PAYLOAD_BYTES_MAX)
    try:
        time = java_short_date(header.time, zone)
    except OverflowError:  # a file may hold any number
        time = f"{header.time}ms"
    line = (
        f"{time} session 0x{java_hex(header.client_id)} cxid 0x{java_hex(header.cxid)}"
        f" zxid 0x{java_hex(header.zxid)} {operation_name(header.type)} {record_text(record)}"
    )
    return line if line.endswith("\n") else f"{line}\n"


def operation_name(type_: int) -> str:
    """ZooKeeper's spelling; a part of a multi may carry any number."""
    try:
        return name_of(OpCode(type_))
    except ValueError:
        return f"unknown {type_}"


def record_text(record: TxnRecord | None) -> str:
    """The fields of a record, without its type."""
    match record:
        case CreateTxn(path, data, acl, is_ephemeral, cversion):
            return f"{_plain(path)},{_text(data)},{_acl_list(acl)},{str(is_ephemeral).lower()},{cversion}"
        case CreateContainerTxn(path, data, acl, cversion):
            return f"{_plain(path)},{_text(data)},{_acl_list(acl)},{cversion}"
        case CreateTtlTxn(path, data, acl, cversion, ttl):
            return f"{_plain(path)},{_text(data)},{_acl_list(acl)},{cversion},{ttl}"
        case SetDataTxn(path, data, version):
            return f"{_plain(path)},{_text(data)},{version}"
        case MultiTxn(txns):
            return ";".join(f"{operation_name(txn.type)}:{_text(txn.data)}" for txn in txns or ())
        case DeleteTxn(path):
            return f"{_jute(path)}\n"
        case SetAclTxn(path, acl, version):
            entries = ",".join(f"s{{{_jute_acl(entry)}}}" for entry in acl or ())
            return f"{_jute(path)},v{{{entries}}},{version}\n"
        case CloseSessionTxn(paths):
            return f"v{{{','.join(map(_jute, paths or ()))}}}\n"
        case CreateSessionTxn(number) | ErrorTxn(number):
            return f"{number}\n"
    return ""


def _plain(path: str | None) -> str:
    return "null" if path is None else path


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")


def _acl_list(acl: Iterable[Acl] | None) -> str:
    if acl is None:
        return "null"
    return f"[{', '.join(_jute_acl(entry) + chr(10) for entry in acl)}]"


def _jute_acl(entry: Acl) -> str:
    return f"{entry.perms},s{{{_jute(entry.id.scheme)},{_jute(entry.id.id)}}}"


def _jute(text: str | None) -> str:
    return "" if text is None else "'" + text.translate(_ESCAPES)
