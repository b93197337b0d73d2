"""A snapshot loaded as a tree, for the tools that print, compare and sum up snapshots.

Loading is the server's own: the tree decides what a sound snapshot is, and counts quotas again as Apache's
does on loading. As with ZooKeeper's tools the checksum behind the tree is not looked at.
"""

import sys
from pathlib import Path

import attrs

from jute.client_records import StatPersisted
from jute.java_hash_order import hash_order, string_hash
from jute.record import decode
from persistence.errors import StorageError
from persistence.snapshot_format import FileDecoder
from server.data_tree import STAT_BYTES, DataTree, data_length_of, persisted_stat
from server.inspect_snapshot import unpacked_chunks
from server.paths import ROOT

EXIT_UNEXPECTED = 1

_CHILD_BUCKETS = 8


class NotLoaded(Exception):
    """The file is no snapshot that can be loaded; the message says why."""


@attrs.frozen
class SnapshotTree:
    """The nodes of a snapshot, by their paths as text, and its sessions with their timeouts in ms."""

    tree: DataTree
    sessions: dict[int, int]

    def __contains__(self, path: str) -> bool:
        return path.encode(errors="surrogateescape") in self.tree.bodies

    def data_length(self, path: str) -> int:
        return data_length_of(self._body(path))

    def data(self, path: str) -> bytes:
        return self._body(path)[4:-STAT_BYTES]

    def stat(self, path: str) -> StatPersisted:
        wire = path.encode(errors="surrogateescape")
        stat = persisted_stat(self._body(path), self.tree.creates.get(wire, 0), self.tree.owners.get(wire))
        return decode(StatPersisted, stat)[0]

    def children(self, path: str) -> list[str]:
        """The names of the children, in the order in which Java's set of them is walked through."""
        wire = path.encode(errors="surrogateescape")
        skip = 1 if wire == ROOT else len(wire) + 1
        kids = self.tree.children.get(wire, ())
        names = (kid[skip:].decode(errors="surrogateescape") for kid in kids)
        return hash_order(names, string_hash, _CHILD_BUCKETS)

    def ephemerals_of(self, session: int) -> int:
        return len(self.tree.ephemerals.get(session, ()))

    def _body(self, path: str) -> bytes:
        return self.tree.bodies[path.encode(errors="surrogateescape")]


def load(file: Path) -> SnapshotTree:
    """Read a whole snapshot; NotLoaded if that is not possible."""
    tree = DataTree()
    try:
        decoder = FileDecoder(unpacked_chunks(file))
        sessions = dict(decoder.sessions())
        tree.restore_acls(decoder.acls())
        tree.restore_nodes(decoder.nodes())
    except StorageError as problem:
        raise NotLoaded(f"{file}: {problem}") from None
    except OSError as problem:
        raise NotLoaded(f"{file} ({problem.strerror})") from None
    return SnapshotTree(tree, sessions)


def child_path(parent: str, name: str) -> str:
    return f"/{name}" if parent == "/" else f"{parent}/{name}"


def refuse(reason: object, exit_code: int = EXIT_UNEXPECTED) -> int:
    """Say on standard error why nothing comes; the exit code."""
    sys.stdout.flush()
    print(reason, file=sys.stderr)
    return exit_code
