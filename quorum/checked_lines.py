"""Lists of members that a server wrote, with a check of themselves.

The check is a comment in front of them, so that Apache's server and other tools read what they always read.
Operators write lists without one, and remove it from those they edit.
"""

from zlib import crc32

_CHECK = b"#crc32 "


def checked(lines: bytes) -> bytes:
    return _check_of(lines) + b"\n" + lines


def is_damaged(content: bytes) -> bool:
    """Has it a check, and is that of other lines?"""
    check, _, lines = content.partition(b"\n")
    return check.startswith(_CHECK) and check.rstrip(b"\r") != _check_of(lines)


def _check_of(lines: bytes) -> bytes:
    return _CHECK + b"%08x" % crc32(lines)
