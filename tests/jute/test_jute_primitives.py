"""Strings as Java reads and writes them. Both tables were produced by Java 17 and BinaryOutputArchive."""

import codecs
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jute.primitives import decode_ustring, encode_ustring
from tests.strategies import bmp_text

READ_BY_JAVA = [  # bytes, and the UTF-16 units that `new String(bytes, UTF_8)` makes of them
    # well-formed
    ("", ""),
    ("61c3a9", "0061 00e9"),
    ("e18080", "1000"),
    ("efbfbe", "fffe"),
    ("f09f9880", "d83d de00"),
    ("f0908080", "d800 dc00"),
    ("f48fbfbf", "dbff dfff"),
    # bytes that can start nothing
    ("8080", "fffd fffd"),
    ("fe", "fffd"),
    ("ff80", "fffd fffd"),
    ("41c080", "0041 fffd fffd"),
    ("c1bf", "fffd fffd"),
    ("f5808080", "fffd fffd fffd fffd"),
    ("f888808080", "fffd fffd fffd fffd fffd"),
    # longer than need be, or beyond U+10FFFF
    ("e08080", "fffd fffd fffd"),
    ("f0808080", "fffd fffd fffd fffd"),
    ("f4908080", "fffd fffd fffd fffd"),
    # cut short, by the end or by another character
    ("c3", "fffd"),
    ("c241", "fffd 0041"),
    ("e180", "fffd"),
    ("e0a0", "fffd"),
    ("e0a041", "fffd 0041"),
    ("f09f", "fffd"),
    ("f09f98", "fffd"),
    ("f09f9841", "fffd 0041"),
    # surrogates, where Java and Python differ
    ("eda080", "fffd"),
    ("edbfbf", "fffd"),
    ("eda080edb080", "fffd fffd"),
    ("ed80", "fffd"),
    ("eda0", "fffd"),
    ("eda041", "fffd 0041"),
    ("eda0c3a9", "fffd 00e9"),
]

WRITTEN_BY_JAVA = [
    ("", ""),
    ("a\0b", "610062"),
    ("\x7f\x80", "7fc280"),
    ("\u07ff\u0800", "dfbfe0a080"),
    ("\ud7ff\ue000\uffff", "ed9fbfee8080efbfbf"),
    ("\U0001f600", "eda0bdedb880"),
    ("\U00010000\U0010ffff", "eda080edb080edafbfedbfbf"),
    ("\ud800", "eda080"),
    ("\udfffx", "edbfbf78"),
]


@pytest.mark.parametrize(("data", "units"), READ_BY_JAVA)
def test_reads_as_java_does(data: str, units: str) -> None:
    """Malformed input gives as many U+FFFD as Java's decoder gives."""
    assert decode_ustring(bytes.fromhex(data)).encode("utf-16-be") == bytes.fromhex(units)


@pytest.mark.parametrize(("text", "data"), WRITTEN_BY_JAVA)
def test_writes_as_java_does(text: str, data: str) -> None:
    """Each UTF-16 unit leaves on its own, a surrogate too."""
    assert encode_ustring(text) == bytes.fromhex(data)


@given(bmp_text())
def test_text_of_the_basic_plane_survives(text: str) -> None:
    """Below U+10000 writing is plain UTF-8, and reading undoes it."""
    assert encode_ustring(text) == text.encode()
    assert decode_ustring(encode_ustring(text)) == text


@given(st.text())
def test_any_text_can_be_written_and_read_back_somehow(text: str) -> None:
    """A character above U+FFFF comes back as two U+FFFD, every other as itself."""
    expected = "".join(char if char <= "\uffff" else "\ufffd\ufffd" for char in text)
    assert decode_ustring(encode_ustring(text)) == expected


@given(st.binary())
def test_no_bytes_are_refused(data: bytes) -> None:
    """Reading never fails, and what was well-formed is read as it stands."""
    text = decode_ustring(data)
    try:
        assert text == data.decode()
    except UnicodeDecodeError:
        assert "\ufffd" in text


def java_replace(error: UnicodeError) -> tuple[str, int]:
    """Java's rule, one malformed sequence at a time."""
    assert isinstance(error, UnicodeDecodeError)
    data, start = error.object, error.start
    is_continuation = [byte & 0xC0 == 0x80 for byte in data[start + 1 : start + 3]] + [False, False]
    if data[start] != 0xED or not is_continuation[0]:
        return "\ufffd", error.end
    return "\ufffd", start + (3 if is_continuation[1] else 2)


codecs.register_error("test-java-replace", java_replace)


@given(st.lists(st.sampled_from(bytes.fromhex("41c3ede0a080bf9ff09ffdfeff")), max_size=12).map(bytes))
def test_malformed_text_is_read_by_javas_rule(data: bytes) -> None:
    assert decode_ustring(data) == data.decode("utf-8", "test-java-replace")


@pytest.mark.parametrize("piece", [b"\xff", b"\xed\xa0\x80", b"\xe1\x80", "\U00010000".encode()])
def test_no_python_runs_for_each_character_of_a_long_text(piece: bytes) -> None:
    """A frame of malformed text, or of text above the basic plane, costs as few calls as any other."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        text = decode_ustring(piece * 10_000)
        encode_ustring(text)
    finally:
        sys.setprofile(None)
    assert len(text) == 10_000
    assert calls < 100
