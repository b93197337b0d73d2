"""The keys of a zoo.cfg or a dynamic configuration file, read line by line.

The scripts need three or four keys and are run every few seconds, so this is not the server's own reader,
whose library takes longer to import than a status takes. ZooKeeper's scripts use `grep` and `sed`; this reads
what they read, and spaces around `=`, the separator `:` and backslashes as well. Pure.
"""

import re
from collections.abc import Mapping

_LINE = re.compile(r"[ \t\f]*(?![#!])((?:\\.|[^=:\s\\])+)[ \t\f]*[=:]?[ \t\f]*(.*)")
_ESCAPED = re.compile(r"\\(.)")


def read_lines(text: str) -> Mapping[str, str]:
    """Each key with its value; of equal keys the last one counts."""
    matches = (_LINE.match(line) for line in text.splitlines())
    return {_plain(match[1]): _plain(match[2]).strip() for match in matches if match is not None}


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)
