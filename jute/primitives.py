"""Jute's primitive types as annotations, and Java's rules for turning strings into bytes and back.

The metadata of each annotation *is* the wire format and all that `@record` looks at: the character that
the struct module knows a fixed-width type by, or one of the three words below.

Strings are where a naive codec goes wrong. The Java server does not write what it reads:

  reading   real UTF-8, malformed input replaced, never refused (`decode_ustring`)
  writing   each UTF-16 unit on its own, which is CESU-8 (`encode_ustring`)

So a character above U+FFFF arrives as four bytes and leaves as six, and those six read as two U+FFFD.
"""

from array import array
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

# Kinds of bytes: E leads encoded surrogates, an H behind it makes it one, and H or L follow in it.
_KINDS = bytes(
    ord("E" if byte == 0xED else "H" if 0xA0 <= byte < 0xC0 else "L" if 0x80 <= byte < 0xA0 else ".")
    for byte in range(256)
)
_MARKS = bytes({ord("S"): 0xF5, ord("D"): 0xFF}.get(byte, 0) for byte in range(256))
_WITHOUT_FF = bytes([*range(255), 0xFE])


def decode_ustring(data: bytes) -> str:
    """Read a string as Java does: malformed bytes become U+FFFD, as many of them as Java makes."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _surrogates_as_bytes(data).decode("utf-8", "replace")


def _surrogates_as_bytes(data: bytes) -> bytes:
    """Malformed text with one malformed byte for each encoded surrogate.

    Java and Python agree on where a malformed sequence ends, but for one kind: Python stops at the first byte
    that rules the character out, Java takes an encoded surrogate (ED A0..BF, 80..BF) or the first two bytes
    of one as a whole.

    Nothing here runs once for each sequence, because a frame full of them would take a second. All bytes are
    marked at once: the first of a surrogate becomes FD, as malformed as FF, which stands for those that go.
    """
    kinds = data.translate(_KINDS).replace(b"EHH", b"SDD").replace(b"EHL", b"SDD").replace(b"EH", b"SD")
    marks = int.from_bytes(kinds.translate(_MARKS), "big")
    marked = int.from_bytes(data.translate(_WITHOUT_FF), "big") | marks
    return marked.to_bytes(len(data), "big").translate(None, b"\xff")


def encode_ustring(text: str) -> bytes:
    """Write a string as Java does: every UTF-16 unit, surrogates too, on its own in one to three bytes."""
    if text.isascii():
        return text.encode("ascii")
    units = text.encode("utf-16", "surrogatepass")  # in the machine's order, after a mark of it
    if len(units) > 2 + 2 * len(text):
        text = "".join(map(chr, array("H", units)[1:]))
    return text.encode("utf-8", "surrogatepass")
