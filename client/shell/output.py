"""Values as text and as JSON. Data that is no UTF-8 is base64 in JSON, under another key."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

from jute.client_records import Stat

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HEX = frozenset({"czxid", "mzxid", "pzxid", "ephemeral_owner"})
_STAT_FIELDS = tuple(Stat.__annotations__)
_TIMES = frozenset({"ctime", "mtime"})


def stat_values(stat: Stat) -> dict[str, Any]:
    """A Stat for JSON: zxids and sessions in hexadecimal, times as ISO 8601."""
    return {name: _stat_value(name, getattr(stat, name)) for name in _STAT_FIELDS}


def _stat_value(name: str, value: int) -> str | int:
    if name in _HEX:
        return f"0x{value & 0xFFFF_FFFF_FFFF_FFFF:x}"
    return time_text(value) if name in _TIMES else value


def stat_lines(stat: Stat) -> list[str]:
    """A Stat for people."""
    return [f"{name} = {value}" for name, value in stat_values(stat).items()]


def time_text(ms: int) -> str:
    """Milliseconds since 1970 as ISO 8601; the number itself if there is no such date."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return str(ms)


def data_values(data: bytes | None) -> dict[str, str | None]:
    """Data for JSON: `data` if it is text or null, else `base64`."""
    if data is None:
        return {"data": None}
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def data_of(values: dict[str, Any]) -> bytes | None:
    """Data out of JSON; raises ValueError if it is none."""
    if "base64" in values:
        return base64.b64decode(_text(values["base64"]), validate=True)
    text = values.get("data")
    return None if text is None else _text(text).encode()


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value
