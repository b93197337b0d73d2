"""Reading what a server sent: bounded, and never trusted."""

from typing import TypeVar

from jute.record import DecodeError, decode

T = TypeVar("T")

# A list of a million children fits. Java's client stops at a megabyte, which a large node can exceed.
REPLY_LENGTH_MAX = 128 * 1024 * 1024


def decode_reply(record: type[T], body: bytes, at: int = 0) -> tuple[T, int]:
    """The record at an offset, and the offset behind it; raises DecodeError."""
    return decode(record, body, at, limit=REPLY_LENGTH_MAX)


def not_null(text: str | None) -> str:
    """A string that a sound server never leaves out."""
    if text is None:
        raise DecodeError("a null string where a path or name must be")
    return text
