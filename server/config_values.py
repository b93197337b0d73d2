"""How the text of one setting becomes a value: Java's reading of numbers and booleans, nothing else.

Pure. A reader raises `BadValue` with Apache's words and a remedy; whoever called it knows the key and the
line. Apache reads its own keys strictly (a bad number stops the server) and everything else as Java system
properties, leniently (a bad number means the default); the caller decides which of the two a `BadValue`
means.
"""

import re
from collections.abc import Callable
from pathlib import Path

import attrs

INT_BITS = 32
LONG_BITS = 64

_DECIMAL = re.compile(r"[+-]?[0-9]+")
_DECODABLE = re.compile(
    r"(?P<sign>[+-]?)(?:(?:0[xX]|#)(?P<hex>[0-9a-fA-F]+)|0(?P<octal>[0-7]+)|(?P<decimal>[0-9]+))"
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


def strict_int(text: str) -> int:
    return parse_integer(text)


def strict_long(text: str) -> int:
    return parse_integer(text, LONG_BITS)


def strict_int_or_unset(text: str) -> int | None:
    """Like `strict_int`, but -1 means that the default applies."""
    number = parse_integer(text)
    return None if number == -1 else number


def strict_bool(key: str) -> Callable[[str], bool]:
    """A reader for the keys that Apache itself parses: true or false in any case, and nothing else."""

    def read(text: str) -> bool:
        if text.lower() not in ("true", "false"):
            wording = f"Invalid option {text} for {key}. Choose 'true' or 'false.'"
            raise BadValue(wording, f"write {key}=true or {key}=false")
        return text.lower() == "true"

    return read


def file_path(text: str) -> Path:
    if not text or "\0" in text:
        raise BadValue("Invalid file path", "write the path of a file or directory")
    return Path(text)


def port_number(text: str) -> int:
    return port_in_range(parse_integer(text))


def port_in_range(number: int) -> int:
    if not 0 <= number <= 0xFFFF:
        raise BadValue(f"port out of range:{number}", "choose a port from 1 to 65535")
    return number


def lenient_int(text: str) -> int:
    return decode_integer(text)


def lenient_long(text: str) -> int:
    return decode_integer(text, LONG_BITS)


def lenient_float(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise BadValue(f'For input string: "{text}"', "write a number such as 0.02") from error


def kilobytes_in_bytes(text: str) -> int:
    """A size written in KB; zero and below mean that the limit is off, which is 0 here."""
    return max(0, decode_integer(text, LONG_BITS)) * 1024


def true_only(text: str) -> bool:
    """Java's `Boolean.parseBoolean`: everything but the word true is false."""
    return text.lower() == "true"


def exactly(word: str) -> Callable[[str], bool]:
    return lambda text: text == word


def anything_but(word: str) -> Callable[[str], bool]:
    return lambda text: text != word


def comma_list(text: str) -> tuple[str, ...]:
    return tuple(part for part in map(trimmed, text.split(",")) if part)
