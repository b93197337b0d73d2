"""Numbers and dates as Java writes them: scripts parse what the original prints."""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MASK64: Final = (1 << 64) - 1
_INT: Final = re.compile("[+-]?[0-9]+")


def java_hex(number: int) -> str:
    """Long.toHexString: a negative number as its 64 bits."""
    return f"{number & _MASK64:x}"


def java_double(number: float) -> str:
    """Double.toString: always a decimal point, and an exponent outside of 0.001 to 10,000,000."""
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(float(number))
    if number - number != 0:
        return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(float(number))).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *rest = map(str, digits)
    return f"{'-' * sign}{first}.{''.join(rest) or '0'}E{exponent + len(rest)}"


def java_date(wall_ms: int, zone: tzinfo | None) -> str:
    """Date.toString: `Sun Nov 15 23:21:41 UTC 2026`, in the machine's time zone if none is given."""
    moment = (_EPOCH + timedelta(milliseconds=wall_ms)).astimezone(zone)
    return moment.strftime("%a %b %d %H:%M:%S %Z %Y")


def java_short_date(wall_ms: int, zone: tzinfo | None) -> str:
    """DateFormat with a short date and a long time: `11/15/26, 11:20:08 PM UTC`."""
    moment = (_EPOCH + timedelta(milliseconds=wall_ms)).astimezone(zone)
    return f"{moment.month}/{moment.day}/{moment:%y}, {_clock(moment)} {moment:%Z}"


def java_medium_date(wall_ms: int, zone: tzinfo | None) -> str:
    """DateFormat as it is by default: `Nov 15, 2026, 11:26:02 PM`."""
    moment = (_EPOCH + timedelta(milliseconds=wall_ms)).astimezone(zone)
    return f"{moment:%b} {moment.day}, {moment.year}, {_clock(moment)}"


def _clock(moment: datetime) -> str:
    return f"{moment.hour % 12 or 12}:{moment:%M:%S %p}"


def parse_java_int(text: str) -> int | None:
    """Integer.parseInt: None if the text is no number or one of more than 32 bits."""
    number = int(text) if _INT.fullmatch(text) else None
    return number if number is not None and -(1 << 31) <= number < 1 << 31 else None
