"""Numbers and base64, with Java's exceptions for what is none."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.zkcli.failures import JavaException
from client.zkcli.java_values import decode_base64, decode_int, parse_int, parse_long


def test_numbers_within_their_bounds() -> None:
    assert parse_int("-2147483648") == -(2**31)
    assert parse_int("+7") == 7
    assert parse_long("9223372036854775807") == 2**63 - 1
    assert parse_long("1f", 16) == 31


@pytest.mark.parametrize("text", ["", "-", "+", "x", "1.5", " 1", "2147483648", "1_0", "\u0661x"])
def test_what_is_no_int(text: str) -> None:
    with pytest.raises(JavaException, match=r"java.lang.NumberFormatException: For input string: ") as raised:
        parse_int(text)
    assert raised.value.message == f'For input string: "{text}"'


@pytest.mark.parametrize(
    ("text", "number"), [("10", 10), ("0x1F", 31), ("#1f", 31), ("010", 8), ("0", 0), ("-0x2", -2), ("+3", 3)]
)
def test_decode(text: str, number: int) -> None:
    assert decode_int(text) == number


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Zero length string"),
        ("0x-1", "Sign character in wrong position"),
        ("09", 'For input string: "9" under radix 8'),
        ("-x", 'For input string: "-x"'),
    ],
)
def test_what_decode_refuses(text: str, message: str) -> None:
    with pytest.raises(JavaException) as raised:
        decode_int(text)
    assert raised.value.message == message


@given(st.binary())
def test_base64_with_and_without_padding(data: bytes) -> None:
    text = base64.b64encode(data).decode()
    assert decode_base64(text) == data
    assert decode_base64(text.rstrip("=")) == data


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "Input byte[] should at least have 2 bytes for base64 bytes"),
        ("ab-d", "Illegal base64 character 2d"),
        ("ab\xe9d", "Illegal base64 character -17"),
        ("abcde", "Last unit does not have enough valid bits"),
        ("ab=d", "Input byte array has wrong 4-byte ending unit"),
        ("abc==", "Input byte array has incorrect ending byte at 4"),
        ("abc=d", "Input byte array has incorrect ending byte at 4"),
    ],
)
def test_what_is_no_base64(text: str, message: str) -> None:
    with pytest.raises(JavaException) as raised:
        decode_base64(text)
    assert raised.value.message == message
