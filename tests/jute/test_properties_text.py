"""Properties files, as java.util.Properties reads them."""

import re

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jute.properties_text import MalformedEscape, escaped, pieces, read_properties

TOKENS = [
    *("a", "key", "=", ":", " ", "\t", "\f", "\\", "\\\\", "\n", "\r", "\r\n", "\\\n", "\\\r\n", "#", "!"),
    *("\\u0041", "\\u00e4", "\\ud83d\\ude00", "\\n", "\\q", "\\u12", "ä", "\x85", "\x1c", "\0"),
]
texts = st.lists(st.sampled_from(TOKENS), max_size=14).map("".join)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("a=1\nb: 2\nc 3\nd\n", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("  a \t= \f 1 \r\n", {"a": "1 "}),
        ("a==1\nb = : 2", {"a": "=1", "b": ": 2"}),
        ("a=1\na=2", {"a": "2"}),
        ("# a=1\n  ! b=2\n\n \t\n", {}),
        ("a=1 # no comment", {"a": "1 # no comment"}),
        ("a=1, \\\n   2, \\\r\n\t3\nb=4", {"a": "1, 2, 3", "b": "4"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=1\\\n# 2\nb=3", {"a": "1# 2", "b": "3"}),
        ("\\\n# a comment, as nothing stands before it\nb=3", {"b": "3"}),
        ("\\\n\\\n a=1\n\\", {"a": "1", "": ""}),
        ("a=1\n \\\r", {"a": "1", "": ""}),
        ("a=1\n \\\r\n", {"a": "1"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        ("a=\\t\\n\\f\\r\\q\\\\", {"a": "\t\n\f\rq\\"}),
        ("a=\\u00e4\\ud83d\\ude00", {"a": "ä\U0001f600"}),
        ("=1", {"": "1"}),
        ("a=\x85\x1c\u2028", {"a": "\x85\x1c\u2028"}),
    ],
)
def test_settings(text: str, settings: dict[str, str]) -> None:
    assert read_properties(text) == settings


@pytest.mark.parametrize("escape", ["\\u", "\\u12", "\\u12g4", "\\u 123", "\\u-123", "\\u\u06611\u06611"])
def test_malformed_escapes_are_refused(escape: str) -> None:
    with pytest.raises(MalformedEscape) as refusal:
        read_properties(f"a=1\nb={escape}")

    assert refusal.value.escape == escape


@given(texts)
def test_the_pieces_make_up_the_text(text: str) -> None:
    try:
        found = list(pieces(text))
    except MalformedEscape:
        return
    assert "".join(piece.source for piece in found) == text


@given(texts.filter(lambda text: not any(line.strip(" \t\f") == "\\" for line in text.splitlines())))
def test_another_reader_agrees(text: str) -> None:
    """Except about lines that hold a backslash alone, where it does not follow Java."""
    try:
        expected = javaproperties.loads(text)
    except javaproperties.InvalidUEscapeError as error:
        with pytest.raises(MalformedEscape, match=re.escape(error.escape)):
            read_properties(text)
    else:
        assert read_properties(text) == expected


@given(texts | st.text(st.characters(codec="utf-8")))
def test_what_is_escaped_is_read_back(text: str) -> None:
    line = f"{escaped(text)}={escaped(text)}"

    assert line.isascii()
    assert read_properties(line) == {text: text}
