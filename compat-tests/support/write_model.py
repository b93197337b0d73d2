"""What one client's part of the tree must look like: a server too simple to be wrong.

A client writes below a node of its own, and to one shared directory of sequential nodes, where its nodes are
told by what they contain. So nobody else's writes matter to what it must find. Since a server takes a
client's writes in order, a crash can only cut them off somewhere: what is found afterwards must be the
acknowledged writes and the first so many of those in flight, each once and whole.

The zxid of a write in flight is not known, and stands here as a negative number: -1 for the first one. It
gets its value from what was found (`unify`).
"""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

import attrs

OK: Final = 0
NO_NODE: Final = -101
BAD_VERSION: Final = -103
NODE_EXISTS: Final = -110
NOT_EMPTY: Final = -111
RUNTIME_INCONSISTENCY: Final = -2

ANY_VERSION: Final = -1
SEQUENCE_DIGITS: Final = 10


@attrs.frozen
class Create:
    path: str  # of a sequential node: without its number
    data: bytes
    ephemeral: bool = False
    sequential: bool = False


@attrs.frozen
class SetData:
    path: str
    data: bytes
    version: int = ANY_VERSION


@attrs.frozen
class Delete:
    path: str
    version: int = ANY_VERSION


@attrs.frozen
class Multi:
    parts: tuple["Create | SetData | Delete", ...]


@attrs.frozen
class Enqueue:
    """A sequential node in the shared directory, with data that nobody ever used before."""

    data: bytes


@attrs.frozen
class Dequeue:
    """Delete it again; its path is known by then."""

    data: bytes


@attrs.frozen
class CloseSession:
    """The session's ephemeral nodes go with it."""


Part: TypeAlias = Create | SetData | Delete
Write: TypeAlias = Part | Multi | Enqueue | Dequeue | CloseSession
Fields: TypeAlias = Literal["czxid", "mzxid", "pzxid"]
ZXIDS: Final[tuple[Fields, ...]] = ("czxid", "mzxid", "pzxid")


@attrs.define
class Node:
    """A node, expected or found. `creates` is how many children were ever created."""

    data: bytes
    czxid: int
    mzxid: int
    pzxid: int
    version: int = 0
    creates: int = 0
    owner: int = 0


@attrs.define
class Queued:
    """A node in the shared directory; `path` is None until it was seen."""

    path: str | None
    czxid: int


class _Fails(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


@attrs.define
class Model:
    """One client's nodes, those it has in the shared directory, and whether its session is open."""

    root: str
    nodes: dict[str, Node] = attrs.field(factory=dict)
    queued: dict[bytes, Queued] = attrs.field(factory=dict)
    session_id: int = 0  # 0: closed

    def copy(self) -> "Model":
        queued = {data: attrs.evolve(entry) for data, entry in self.queued.items()}
        return attrs.evolve(self, nodes=self._copied_nodes(), queued=queued)

    def _copied_nodes(self) -> dict[str, Node]:
        return {path: attrs.evolve(node) for path, node in self.nodes.items()}

    def children(self, path: str) -> list[str]:
        return [other for other in self.nodes if _parent(other) == path]

    def apply(self, write: Write, zxid: int) -> list[int]:
        """Do it, and return the errors it is answered with: one, or one for each part of a multi."""
        if isinstance(write, Multi):
            return self._apply_multi(write, zxid)
        if isinstance(write, Enqueue):
            self.queued[write.data] = Queued(None, zxid)
        elif isinstance(write, Dequeue):
            del self.queued[write.data]
        elif isinstance(write, CloseSession):
            self._close_session(zxid)
        else:
            try:
                self._apply_part(write, zxid)
            except _Fails as failure:
                return [failure.code]
        return [OK]

    def _apply_multi(self, write: Multi, zxid: int) -> list[int]:
        before = self._copied_nodes()
        for index, part in enumerate(write.parts):
            try:
                self._apply_part(part, zxid)
            except _Fails as failure:
                self.nodes = before
                later = len(write.parts) - index - 1
                return [OK] * index + [failure.code] + [RUNTIME_INCONSISTENCY] * later
        return [OK] * len(write.parts)

    def _apply_part(self, write: Part, zxid: int) -> None:
        if isinstance(write, Create):
            self._create(write, zxid)
        elif isinstance(write, SetData):
            node = self._checked(write.path, write.version)
            node.data, node.mzxid, node.version = write.data, zxid, node.version + 1
        else:
            self._checked(write.path, write.version)
            if self.children(write.path):
                raise _Fails(NOT_EMPTY)
            self._delete(write.path, zxid)

    def _create(self, write: Create, zxid: int) -> None:
        parent = self.nodes.get(_parent(write.path))
        if parent is None:
            raise _Fails(NO_NODE)
        path = self.created_path(write)
        if path in self.nodes:
            raise _Fails(NODE_EXISTS)
        owner = self.session_id if write.ephemeral else 0
        self.nodes[path] = Node(write.data, zxid, zxid, zxid, owner=owner)
        parent.creates += 1
        parent.pzxid = zxid

    def created_path(self, write: Create) -> str:
        if not write.sequential:
            return write.path
        return f"{write.path}{self.nodes[_parent(write.path)].creates:0{SEQUENCE_DIGITS}}"

    def _checked(self, path: str, version: int) -> Node:
        node = self.nodes.get(path)
        if node is None:
            raise _Fails(NO_NODE)
        if version not in (ANY_VERSION, node.version):
            raise _Fails(BAD_VERSION)
        return node

    def _delete(self, path: str, zxid: int) -> None:
        del self.nodes[path]
        if path != self.root:
            self.nodes[_parent(path)].pzxid = zxid

    def _close_session(self, zxid: int) -> None:
        for path in [path for path, node in self.nodes.items() if node.owner == self.session_id]:
            self._delete(path, zxid)
        self.session_id = 0


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


# -- after a crash


class Violation(Exception):
    """The server broke a promise; the message says which."""


@attrs.frozen
class Outcome:
    """How many of the writes in flight happened, and the client's part of the tree, all of it known."""

    happened: int
    model: Model


def settle(acked: Model, in_flight: Sequence[Write], found: Model, *, after: int) -> Outcome:
    """Find out which writes in flight happened; Violation if no number of them explains what was found.

    `after` is the zxid of the last acknowledged write.
    """
    expected = acked.copy()
    complaints: list[list[str]] = []
    for happened in range(len(in_flight) + 1):
        if happened:
            expected.apply(in_flight[happened - 1], -happened)
        zxids: dict[int, int] = {}
        complaints.append(list(_differences(expected, found, zxids)) or list(_disorder(zxids, after)))
        if not complaints[-1]:
            return Outcome(happened, found)
    happened, nearest = min(enumerate(complaints), key=lambda each: (len(each[1]), -each[0]))
    raise Violation(
        f"{acked.root}: no number of the {len(in_flight)} writes in flight explains what was found; "
        f"had {happened} of them happened:\n  " + "\n  ".join(nearest[:20])
    )


def _differences(expected: Model, found: Model, zxids: dict[int, int]) -> Iterable[str]:
    """What was found otherwise than expected; fills in the zxids that were not known."""
    if expected.session_id != found.session_id:
        yield f"session 0x{expected.session_id:x} expected, 0x{found.session_id:x} found (0: closed)"
    for path in sorted(expected.nodes.keys() | found.nodes.keys()):
        here, there = expected.nodes.get(path), found.nodes.get(path)
        if here is None or there is None or not _same_node(here, there, zxids):
            yield f"{path}: {here} expected, {there} found"
    for data in sorted(expected.queued.keys() | found.queued.keys()):
        wanted, seen = expected.queued.get(data), found.queued.get(data)
        if wanted is None or seen is None or not _same_queued(wanted, seen, zxids):
            yield f"queued {data!r}: {wanted} expected, {seen} found"


def _same_node(expected: Node, found: Node, zxids: dict[int, int]) -> bool:
    same_zxids = all(unify(getattr(expected, name), getattr(found, name), zxids) for name in ZXIDS)
    known = (expected.data, expected.version, expected.creates, expected.owner)
    return same_zxids and known == (found.data, found.version, found.creates, found.owner)


def _same_queued(expected: Queued, found: Queued, zxids: dict[int, int]) -> bool:
    return expected.path in (None, found.path) and unify(expected.czxid, found.czxid, zxids)


def unify(expected: int, found: int, zxids: dict[int, int]) -> bool:
    """Whether the zxids may be the same; one that was not known before is from now on."""
    return found == (expected if expected >= 0 else zxids.setdefault(expected, found))


def _disorder(zxids: dict[int, int], after: int) -> Iterable[str]:
    """Writes happen in the order they were sent, and behind what was acknowledged before."""
    for unknown in sorted(zxids, reverse=True):
        if zxids[unknown] <= after:
            yield f"write {-unknown} in flight has zxid 0x{zxids[unknown]:x}, not after 0x{after:x}"
        after = max(after, zxids[unknown])
