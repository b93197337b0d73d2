"""The text of Java's properties files: zoo.cfg, dynamic configurations, the value of /zookeeper/config.

The rules are those of `java.util.Properties.load`. A line that ends in a backslash goes on in the next one,
without the blanks at its beginning. Key and value are separated by `=`, `:` or blanks; a backslash takes any
character as it is, or begins `\\n`, `\\r`, `\\t`, `\\f` or `\\uXXXX`. A line that begins with `#` or `!` is a
comment. A line with a backslash alone is nothing, except at the end: there it is a setting without a name,
unless it ends in CR LF.
What always holds: the sources of all pieces, joined, are the text.
"""

import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

_BLANKS = " \t\f"
_NATURAL_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_KEY_AND_VALUE = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u.{0,4}|.)", re.DOTALL)
_CODE_UNIT = re.compile(r"u[0-9A-Fa-f]{4}")
_SHORT = {"t": "\t", "n": "\n", "f": "\f", "r": "\r"}
_SHORT_ESCAPES = {character: f"\\{letter}" for letter, character in _SHORT.items()}
_NEEDS_ESCAPE = re.compile(r"[^!-~]|[\\#!=:]")


class MalformedEscape(ValueError):
    """`\\u` is not followed by four hexadecimal digits; `escape` is what stands there."""

    def __init__(self, escape: str) -> None:
        super().__init__(f"Malformed \\uxxxx encoding: {escape}")
        self.escape = escape


class Piece(NamedTuple):
    """One or more whole lines of the text: a setting if there is a key, else a comment or nothing."""

    source: str
    key: str | None = None
    value: str = ""


def read_properties(text: str) -> dict[str, str]:
    """All settings; of equal keys the last one counts. Raises MalformedEscape."""
    return {piece.key: piece.value for piece in pieces(text) if piece.key is not None}


def pieces(text: str) -> Iterator[Piece]:
    """The text from beginning to end, cut where settings begin and end. Raises MalformedEscape."""
    lines = deque(_NATURAL_LINE.findall(text))
    while lines:
        source = lines.popleft()
        line = _content(source)
        if not line or line[0] in "#!" or (line == "\\" and (lines or source.endswith("\r\n"))):
            yield Piece(source)
            continue
        while _is_continued(line):
            following = lines.popleft() if lines else ""
            source += following
            line = line[:-1] + _content(following)
        match = _KEY_AND_VALUE.fullmatch(line)
        assert match is not None, "a backslash at the end would continue the line"
        key, value = match.groups()
        yield Piece(source, _unescaped(key), _unescaped(value))


def _content(line: str) -> str:
    return line.lstrip(_BLANKS).rstrip("\r\n")


def _is_continued(line: str) -> bool:
    """Whether it ends in a backslash that is not itself behind a backslash."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    units = _ESCAPE.sub(_unescape, text)
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] != "u":
        return _SHORT.get(escape, escape)
    if not _CODE_UNIT.fullmatch(escape):
        raise MalformedEscape(match[0])
    return chr(int(escape[1:], 16))


def escaped(text: str) -> str:
    """ASCII that is read as `text`, whether it stands as a key or as a value."""
    return _NEEDS_ESCAPE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if " " <= character <= "~":
        return f"\\{character}"
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
