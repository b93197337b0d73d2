"""Which texts are paths, and how paths inside a chroot become the server's and back.

A path is checked before it is sent, as Java's client does and in its words: many reads and deletes
would otherwise only be told that there is no such node.
"""

import re

import attrs

# Java looks at UTF-16 units: a character beyond the basic plane is two surrogates, both invalid.
_INVALID = re.compile("[\x01-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
_SUPPLEMENTARY = re.compile("[\U00010000-\U0010ffff]")


class InvalidPath(ValueError):
    """A text that cannot be a path; the wording is Java's."""


def validate_path(path: str, *, is_sequential: bool = False) -> None:
    """Raise InvalidPath unless a node may have this path. A sequential one gets digits at its end."""
    if is_sequential:
        path += "1"
    if not path:
        raise InvalidPath("Path length must be > 0")
    if path[0] != "/":
        raise InvalidPath("Path must start with / character")
    if path == "/":
        return
    if path[-1] == "/":
        raise InvalidPath("Path must not end with / character")
    found = min((problem for problem in _problems(path) if problem), default=None)
    if found:
        at = found[0] + len(_SUPPLEMENTARY.findall(path[: found[0]]))
        raise InvalidPath(f'Invalid path string "{path}" caused by {found[1]} @{at}')


def _problems(path: str) -> list[tuple[int, str] | None]:
    """The first problem of each kind, with its place."""
    return [
        _first("null character not allowed", path.find("\0")),
        _first("empty node name specified", path.find("//"), 1),
        _first("relative paths not allowed", _find(r"/\.(?=/|\Z)", path), 1),
        _first("relative paths not allowed", _find(r"/\.\.(?=/|\Z)", path), 2),
        _first("invalid character", _find(_INVALID, path)),
    ]


def _find(pattern: str | re.Pattern[str], path: str) -> int:
    match = re.search(pattern, path)
    return match.start() if match else -1


def _first(wording: str, at: int, offset: int = 0) -> tuple[int, str] | None:
    return (at + offset, wording) if at >= 0 else None


def join(parent: str, name: str) -> str:
    """The path of a child."""
    return f"{parent.rstrip('/')}/{name}"


def parent_of(path: str) -> str:
    """The parent's path; the root's is the root."""
    return path[: path.rindex("/")] or "/"


@attrs.frozen
class Chroot:
    """The part of the tree that a session sees as the whole: "" for all of it, else a path."""

    prefix: str = ""

    def to_server(self, path: str) -> str:
        """The server's name for one of our paths."""
        if not self.prefix:
            return path
        return self.prefix if path == "/" else self.prefix + path

    def to_client(self, path: str) -> str:
        """Our name for one of the server's paths. What lies outside (the configuration) keeps its name."""
        if path == self.prefix:
            return "/"
        if self.prefix and path.startswith(self.prefix + "/"):
            return path[len(self.prefix) :]
        return path
