"""zoo.cfg as text: a Java properties file, with the line on which each key stands.

Latin-1, `\\uXXXX` escapes, three separators, continued lines, the last of equal keys wins: the javaproperties
library knows all that. Ours is the trimming that ZooKeeper adds, and counting lines.
"""

import io
import re

import javaproperties

from quorum.setting_text import BadValue, trimmed
from server.config_sources import Entry

LINE_END = re.compile(r"\r\n|\n|\r")


def read_properties(content: bytes) -> dict[str, Entry]:
    """All keys with their values, both trimmed; `BadValue` if an escape is malformed."""
    entries: dict[str, Entry] = {}
    line = 1
    try:
        for element in javaproperties.parse(io.BytesIO(content)):
            if isinstance(element, javaproperties.KeyValue):
                entries[trimmed(element.key)] = Entry(trimmed(element.value), line)
            line += len(LINE_END.findall(element.source))
    except javaproperties.InvalidUEscapeError as error:
        wording = f"line {line}: Malformed \\uxxxx encoding: {error.escape}"
        raise BadValue(
            wording, "write four hexadecimal digits after \\u, or two backslashes for one"
        ) from error
    return entries
