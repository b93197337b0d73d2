"""Numbers and base64 as Java reads them, with the exceptions of its own that zkCli shows."""

import base64
import re
from typing import Final

from client.zkcli.failures import ILLEGAL_ARGUMENT, NUMBER_FORMAT, JavaException

_INT_BITS: Final = 32
_LONG_BITS: Final = 64
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_RADIXES: Final = {"": 10, "0x": 16, "#": 16, "0": 8}
_PREFIXED: Final = re.compile(r"([+-]?)(0[xX]|#|0(?=.)|)(.*)", re.DOTALL)
_BASE64_LETTER: Final = re.compile(r"[A-Za-z0-9+/]*")


def parse_int(text: str) -> int:
    """Integer.parseInt; raises JavaException."""
    return _parse(text, 10, _INT_BITS)


def parse_long(text: str, radix: int = 10) -> int:
    """Long.parseLong; raises JavaException."""
    return _parse(text, radix, _LONG_BITS)


def decode_int(text: str) -> int:
    """Integer.decode: decimal, 0x or # hexadecimal, 0 octal."""
    if not text:
        raise JavaException(NUMBER_FORMAT, "Zero length string")
    found = _PREFIXED.match(text)
    assert found, "matches every text"
    sign, prefix, digits = found.groups()
    if digits.startswith(("+", "-")):
        raise JavaException(NUMBER_FORMAT, "Sign character in wrong position")
    return _parse(("-" if sign == "-" else "") + digits, _RADIXES[prefix.lower()], _INT_BITS)


def _parse(text: str, radix: int, bits: int) -> int:
    digits = text[1:] if text[:1] in ("+", "-") and text else text
    is_number = bool(digits) and all(digit in _DIGITS[:radix] for digit in digits.lower())
    number = int(text, radix) if is_number else 0
    if not is_number or not -(1 << bits - 1) <= number < 1 << bits - 1:
        under = f" under radix {radix}" if radix != 10 else ""
        raise JavaException(NUMBER_FORMAT, f'For input string: "{text}"{under}')
    return number


def decode_base64(text: str) -> bytes:
    """Base64.getDecoder().decode: padding may be left out, nothing else may; raises JavaException."""
    source = text.encode("latin-1", "replace")  # characters beyond become "?", as in Java
    if not source:
        return b""
    if len(source) < 2:
        raise _not_base64("Input byte[] should at least have 2 bytes for base64 bytes")
    found = _BASE64_LETTER.match(source.decode("latin-1"))
    assert found, "matches the empty text too"
    letters, rest = found[0], source[found.end() :]
    if rest and rest[0] != ord("="):
        raise _not_base64(f"Illegal base64 character {_signed_hex(rest[0])}")
    left_over = len(letters) % 4
    if rest and (left_over < 2 or (left_over == 2 and rest[1:2] != b"=")):
        raise _not_base64("Input byte array has wrong 4-byte ending unit")
    if left_over == 1:
        raise _not_base64("Last unit does not have enough valid bits")
    padding = b"" if not rest else b"==" if left_over == 2 else b"="
    if rest[len(padding) :]:
        raise _not_base64(f"Input byte array has incorrect ending byte at {len(letters) + len(padding)}")
    return base64.b64decode(letters + "=" * (-len(letters) % 4))


def _signed_hex(byte: int) -> str:
    """Integer.toString(b, 16) of a byte, which is signed in Java."""
    return f"{byte:x}" if byte < 0x80 else f"-{0x100 - byte:x}"


def _not_base64(message: str) -> JavaException:
    return JavaException(ILLEGAL_ARGUMENT, message)
