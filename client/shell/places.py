"""Where a copy comes from or goes to. `parse_place` tells by how the text begins:

    /app                     a node of the ensemble that the shell is connected to
    zk://host:2181/app       a node of another one; several hosts with commas
    file:/tmp/app.json       a file with a tree as JSON
    app.json, -              the same, where the name does not begin with a slash; - is stdin or stdout

So a file is never taken for a node, nor a node for a file.
"""

import attrs

from client.connect_string import ConnectString, parse_connect_string
from client.paths import InvalidPath, validate_path

_SCHEME = "zk://"
_FILE = "file:"


@attrs.frozen
class NodePlace:
    """A node; without servers, of the shell's own ensemble."""

    path: str
    servers: ConnectString | None = None

    def __str__(self) -> str:
        return self.path if self.servers is None else f"{_SCHEME}{self.servers}{self.path}"


@attrs.frozen
class FilePlace:
    """A file; a dash is standard input or output."""

    name: str

    def __str__(self) -> str:
        return self.name


def parse_place(text: str) -> NodePlace | FilePlace:
    """Raises InvalidPath or InvalidConnectString."""
    if text.startswith("/"):
        validate_path(text)
        return NodePlace(text)
    if text.startswith(_SCHEME):
        hosts, slash, path = text.removeprefix(_SCHEME).partition("/")
        path = slash + path or "/"
        validate_path(path)
        return NodePlace(path, parse_connect_string(hosts))
    name = text.removeprefix(_FILE)
    if not name:
        raise InvalidPath(f'"{text}" names neither a node nor a file')
    return FilePlace(name)
