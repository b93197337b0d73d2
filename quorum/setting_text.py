"""How the text of a setting becomes a number: Java's reading of it.

Pure. A reader raises `BadValue` with Apache's words and a remedy; whoever called it knows the key and the
line.
"""

import re

import attrs

INT_BITS = 32
LONG_BITS = 64

# No number has a hundred digits, and of thousands Python makes an error of its own instead of a number.
_DECIMAL = re.compile(r"[+-]?[0-9]{1,99}")
_DECODABLE = re.compile(
    r"(?P<sign>[+-]?)(?:(?:0[xX]|#)(?P<hex>[0-9a-fA-F]+)|0(?P<octal>[0-7]+)|(?P<decimal>[0-9]{1,99}))"
)


@attrs.frozen(slots=False)
class BadValue(Exception):
    """The text cannot be read as what the setting needs; `key` is known where several are read at once."""

    wording: str
    remedy: str
    key: str | None = None


def trimmed(text: str) -> str:
    """The text without the characters up to U+0020 at either end, which is what Java trims."""
    return text.strip("".join(map(chr, range(0x21))))


def parse_integer(text: str, bits: int = INT_BITS) -> int:
    """A decimal number as `Integer.parseInt` (or with 64 bits `Long.parseLong`) takes it."""
    if not _DECIMAL.fullmatch(text):
        raise _not_a_number(text, bits)
    return _bounded(int(text), text, bits)


def decode_integer(text: str, bits: int = INT_BITS) -> int:
    """A number as `Integer.getInteger` takes it: decimal, 0x or # for hexadecimal, a leading 0 for octal."""
    match = _DECODABLE.fullmatch(text)
    if match is None:
        raise _not_a_number(text, bits)
    sign, hexadecimal, octal, decimal = match.group("sign", "hex", "octal", "decimal")
    magnitude = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else int(decimal)
    return _bounded(-magnitude if sign == "-" else magnitude, text, bits)


def _bounded(value: int, text: str, bits: int) -> int:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise _not_a_number(text, bits)
    return value


def _not_a_number(text: str, bits: int) -> BadValue:
    limit = (1 << bits - 1) - 1
    return BadValue(
        f'For input string: "{text}"', f"write a whole number, at most {limit}, and nothing after it"
    )


def port_number(text: str) -> int:
    return port_in_range(parse_integer(text))


def port_in_range(number: int) -> int:
    if not 0 <= number <= 0xFFFF:
        raise BadValue(f"port out of range:{number}", "choose a port from 1 to 65535")
    return number
