"""Numbers and dates as Java writes them; the expected texts are Java's."""

from datetime import UTC, timedelta, timezone

import pytest

from jute.java_text import (
    java_date,
    java_double,
    java_hex,
    java_medium_date,
    java_short_date,
    parse_java_int,
)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (26.0, "26.0"),
        (1.5032, "1.5032"),
        (0.001, "0.001"),
        (0.0005, "5.0E-4"),
        (0.0001, "1.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (-0.00025, "-2.5E-4"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_a_double_has_a_point_and_beyond_its_range_an_exponent(number: float, text: str) -> None:
    assert java_double(number) == text


def test_a_negative_long_is_shown_by_its_bits() -> None:
    assert java_hex(-1) == "ffffffffffffffff"
    assert java_hex(0x100000FC563001D) == "100000fc563001d"


def test_a_date_is_shown_to_the_second_with_its_zone() -> None:
    wall_ms = 1_794_784_901_999
    assert java_date(wall_ms, UTC) == "Sun Nov 15 23:21:41 UTC 2026"
    assert java_date(wall_ms, timezone(timedelta(hours=1), "CET")) == "Mon Nov 16 00:21:41 CET 2026"


@pytest.mark.parametrize(
    ("wall_ms", "short", "medium"),
    [
        (1_794_784_808_000, "11/15/26, 11:20:08 PM UTC", "Nov 15, 2026, 11:20:08 PM"),
        (0, "1/1/70, 12:00:00 AM UTC", "Jan 1, 1970, 12:00:00 AM"),
        (43_200_000, "1/1/70, 12:00:00 PM UTC", "Jan 1, 1970, 12:00:00 PM"),
        (946_684_800_000 + 3_661_000, "1/1/00, 1:01:01 AM UTC", "Jan 1, 2000, 1:01:01 AM"),
    ],
)
def test_dates_as_the_toolkits_show_them(wall_ms: int, short: str, medium: str) -> None:
    assert java_short_date(wall_ms, UTC) == short
    assert java_medium_date(wall_ms, UTC) == medium


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-3", -3), ("+3", 3), ("2147483647", 2**31 - 1), ("2147483648", None)]
    + [(text, None) for text in ("", " 3", "3 ", "1_0", "0x1", "x", "-2147483649")],
)
def test_an_int_is_digits_that_fit_into_32_bits(text: str, number: int | None) -> None:
    assert parse_java_int(text) == number
