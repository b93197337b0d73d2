"""zoo.cfg as text: a Java properties file, with the line on which each key stands.

The bytes are Latin-1, and of equal keys the last one counts. `jute/properties_text.py` knows the rest; here
are the trimming that ZooKeeper adds, and counting lines.
"""

import re

from jute.properties_text import MalformedEscape, pieces
from quorum.setting_text import BadValue, trimmed
from server.config_sources import Entry

LINE_END = re.compile(r"\r\n|\n|\r")


def read_properties(content: bytes) -> dict[str, Entry]:
    """All keys with their values, both trimmed; `BadValue` if an escape is malformed."""
    entries: dict[str, Entry] = {}
    line = 1
    try:
        for piece in pieces(content.decode("latin-1")):
            if piece.key is not None:
                entries[trimmed(piece.key)] = Entry(trimmed(piece.value), line)
            line += len(LINE_END.findall(piece.source))
    except MalformedEscape as error:
        wording = f"line {line}: Malformed \\uxxxx encoding: {error.escape}"
        raise BadValue(
            wording, "write four hexadecimal digits after \\u, or two backslashes for one"
        ) from error
    return entries
