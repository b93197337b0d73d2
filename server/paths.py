"""Znode paths: which texts are paths, and how one path relates to another.

Inside the server a path is `bytes`, exactly as it came over the wire, so that a read goes from frame to
dictionary without decoding. The root is b"/". Characters only matter when a node is about to be named, and
for the few texts that are not plain ASCII; both happen here.
"""

import re
from collections.abc import Iterator
from typing import Final

from jute.errors import BadArguments
from jute.primitives import decode_ustring, encode_ustring

ROOT: Final = b"/"
ZOOKEEPER: Final = b"/zookeeper"
QUOTA: Final = b"/zookeeper/quota"
CONFIG: Final = b"/zookeeper/config"
UNDELETABLE: Final = frozenset({ROOT, ZOOKEEPER, QUOTA, CONFIG})

# Control characters, surrogates and private use, specials; everything beyond the basic plane would need
# surrogates in Java and is therefore invalid too.
_BAD_CHARACTER: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
# As numbers: CPython takes five times as long to look for the bytes b"/" with `in`.
_SLASH: Final = 0x2F
_NUL: Final = 0
_CONTROLS: Final = bytes([*range(0x20), 0x7F])
_BAD_COMPONENT: Final = re.compile(rb"//|/\.\.?(/|\Z)")


def canonical(path: bytes) -> bytes:
    """The path as Java would hold it: malformed UTF-8 becomes U+FFFD, so two spellings are one text."""
    return path if path.isascii() else encode_ustring(decode_ustring(path))


def validate(path: bytes) -> None:
    """Raise BadArguments unless a node may carry this name."""
    if path[:1] != b"/":
        raise BadArguments("a path starts with /")
    if path == ROOT:
        return
    if path[-1:] == b"/":
        raise BadArguments("a path does not end with /")
    if (path.find(b"//") >= 0 or path.find(b"/.") >= 0) and _BAD_COMPONENT.search(path):
        raise BadArguments("a path has no empty, '.' or '..' component")
    if path.isascii():
        has_bad = len(path.translate(None, _CONTROLS)) != len(path)
    else:
        has_bad = _BAD_CHARACTER.search(decode_ustring(path)) is not None
    if has_bad:
        raise BadArguments("a path has no control, private-use or supplementary characters")


def parent_of(path: bytes) -> bytes:
    """The parent of a path that contains a slash; the root's parent is the root."""
    return path[: path.rindex(b"/")] or ROOT


def split_for_write(path: bytes) -> bytes:
    """The parent of a path named in a write, before it is known to be valid."""
    if _SLASH not in path or _NUL in path:
        raise BadArguments("a path needs a / and no NUL character")
    return parent_of(path)


def is_at_or_above(above: bytes, path: bytes) -> bool:
    if not path.startswith(above):
        return False
    return above == ROOT or len(above) == len(path) or path[len(above)] == _SLASH


def ancestors_or_self(path: bytes) -> Iterator[bytes]:
    """The path and everything above it, nearest first, ending with the root."""
    yield path
    while path != ROOT and _SLASH in path:
        path = parent_of(path)
        yield path
