"""Jute's primitive types as annotations, and Java's rules for turning strings into bytes and back.

The metadata of each annotation *is* the wire format and all that `@record` looks at: the character that
the struct module knows a fixed-width type by, or one of the three words below.

Strings are where a naive codec goes wrong. The Java server does not write what it reads:

  reading   real UTF-8, malformed input replaced, never refused (`decode_ustring`)
  writing   each UTF-16 unit on its own, which is CESU-8 (`encode_ustring`)

So a character above U+FFFF arrives as four bytes and leaves as six, and those six read as two U+FFFD.
"""

import codecs
import re
from typing import Annotated, TypeVar

USTRING = "ustring"
BUFFER = "buffer"
VECTOR = "vector"

_T = TypeVar("_T")

Byte = Annotated[int, "b"]
Boolean = Annotated[bool, "?"]  # any non-zero byte reads as true
Int = Annotated[int, "i"]
Long = Annotated[int, "q"]
UString = Annotated[str | None, USTRING]  # null and "" are different things and both survive
Buffer = Annotated[bytes | None, BUFFER]  # null and b"" likewise
Vector = Annotated[tuple[_T, ...] | None, VECTOR]

_ABOVE_BMP = re.compile("[\U00010000-\U0010ffff]")
_SURROGATE_LEAD = 0xED


def decode_ustring(data: bytes) -> str:
    """Read a string as Java does: malformed bytes become U+FFFD, as many of them as Java makes."""
    return data.decode("utf-8", "java-replace")


def encode_ustring(text: str) -> bytes:
    """Write a string as Java does: every UTF-16 unit, surrogates too, on its own in one to three bytes."""
    if text.isascii():
        return text.encode("ascii")
    return _ABOVE_BMP.sub(_as_surrogates, text).encode("utf-8", "surrogatepass")


def _as_surrogates(match: re.Match[str]) -> str:
    above = ord(match[0]) - 0x10000
    return chr(0xD800 + (above >> 10)) + chr(0xDC00 + (above & 0x3FF))


def _java_replace(error: UnicodeError) -> tuple[str, int]:
    """Replace one malformed sequence by one U+FFFD.

    Java and Python agree on where such a sequence ends, but for one kind: Python stops at the first byte
    that rules the character out, Java takes an encoded surrogate (ED A0..BF, 80..BF) or the first two
    bytes of one as a whole.
    """
    assert isinstance(error, UnicodeDecodeError)
    data, start = error.object, error.start
    if data[start] != _SURROGATE_LEAD or not _is_continuation(data, start + 1):
        return "\ufffd", error.end
    return "\ufffd", start + (3 if _is_continuation(data, start + 2) else 2)


def _is_continuation(data: bytes, at: int) -> bool:
    return at < len(data) and data[at] & 0xC0 == 0x80


codecs.register_error("java-replace", _java_replace)
