"""The keys of a zoo.cfg or a dynamic configuration file, read line by line.

The scripts need three or four keys and are run every few seconds, so this is not the server's own reader,
whose library takes longer to import than a status takes. ZooKeeper's scripts use `grep` and `sed`; this reads
what they read, and spaces around `=`, the separator `:` and backslashes as well, by which a container's
entrypoint writes what is not ASCII. Pure.
"""

import re
from collections.abc import Mapping

_LINE = re.compile(r"[ \t\f]*(?![#!])((?:\\.|[^=:\s\\])+)[ \t\f]*[=:]?[ \t\f]*(.*)")
_LINE_END = re.compile(r"\r\n?|\n")  # and no others: as bytes, many letters hold what ends a line elsewhere
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_BLANKS = "".join(map(chr, range(ord(" ") + 1)))  # what Java trims
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_lines(text: str) -> Mapping[str, str]:
    """Each key with its value; of equal keys the last one counts."""
    matches = (_LINE.match(line) for line in _LINE_END.split(text))
    return {_plain(match[1]): _plain(match[2]).strip(_BLANKS) for match in matches if match is not None}


def _plain(text: str) -> str:
    unescaped = _ESCAPED.sub(_character, text)
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _character(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else _CONTROLS.get(match[2], match[2])
