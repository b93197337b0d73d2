"""How the text of one setting becomes a value: Java's reading of numbers and booleans, nothing else.

Pure. A reader raises `BadValue` (quorum/setting_text.py). Apache reads its own keys strictly (a bad number
stops the server) and everything else as Java system properties, leniently (a bad number means the default);
the caller decides which of the two a `BadValue` means.
"""

from collections.abc import Callable
from pathlib import Path

from quorum.setting_text import LONG_BITS, BadValue, decode_integer, parse_integer, trimmed


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


def lenient_int(text: str) -> int:
    return decode_integer(text)


def lenient_natural(text: str) -> int:
    number = decode_integer(text)
    if number < 0:
        raise BadValue(f"{number} is below zero", "write 0 or more")
    return number


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
