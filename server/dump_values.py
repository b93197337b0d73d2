"""How values of the protocol are shown to people and to programs that read JSON. Pure."""

import base64
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from jute.client_records import Acl
from jute.opcodes import OpCode, Perms

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LETTERS = (
    (Perms.CREATE, "c"),
    (Perms.DELETE, "d"),
    (Perms.READ, "r"),
    (Perms.WRITE, "w"),
    (Perms.ADMIN, "a"),
)


def name_of(type_: int) -> str:
    """`create` for CREATE, `setData` for SET_DATA: ZooKeeper's spelling."""
    first, *others = OpCode(type_).name.lower().split("_")
    return first + "".join(word.upper() if word in ("acl", "ttl") else word.capitalize() for word in others)


def utc_time(time_ms: int) -> str:
    """A time of day if the number can be one; files may hold any number."""
    try:
        moment = EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms}ms"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}Z"


def as_text(data: bytes | None) -> str | None:
    """The data as text, if it is nothing but printable UTF-8."""
    try:
        text = (data or b"").decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


def shown_data(data: bytes | None) -> str:
    """Data on one line: quoted text, or hexadecimal if it is none."""
    if data is None:
        return "null"
    text = as_text(data)
    return f"0x{data.hex()}" if text is None else repr(text)


def json_data(data: bytes | None) -> dict[str, str | None]:
    """Data as a member of a JSON object: text under `data`, other bytes under `data_base64`."""
    if data is None:
        return {"data": None}
    text = as_text(data)
    return {"data_base64": base64.b64encode(data).decode()} if text is None else {"data": text}


def shown_acl(acl: Iterable[Acl] | None) -> str:
    """An ACL as zkCli writes it: `world:anyone:cdrwa`, several joined by commas."""
    if acl is None:
        return "null"
    return ",".join(f"{entry.id.scheme}:{entry.id.id}:{_letters(entry.perms)}" for entry in acl)


def _letters(perms: int) -> str:
    return "".join(letter for permission, letter in LETTERS if perms & permission)
