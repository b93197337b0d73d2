"""The znodes of one server, in memory, and the changes a transaction makes to them.

Pure: no clock, no files, no clients. Watches are told through `triggers`.

A znode is not an object. The tree is a handful of dictionaries keyed by path (bytes); a plain leaf has an
entry in `bodies` and in its parent's `children`, and nowhere else:

    bodies      path -> what getData answers: data as a jute buffer, then the 68 bytes of its Stat
    children    path -> {child's full path: None}, in order of creation; only for nodes that have children
    creates     path -> how many children were ever created (the stored cversion); absent: none
    owners      path -> the stored ephemeralOwner of container and TTL nodes; their Stat shows 0
    acls        path -> its ACL in wire form; absent: open to everyone
    _nodes_below, _bytes_below
                path -> how many nodes lie below it, and bytes of data in them; absent: none
    _above      path -> its parent, for long paths only: to cut off name after name and hash what is left
                would take as long as the path is, for each of its names

So answering a read is concatenation, and because dictionaries of bytes and ints are invisible to the garbage
collector, a million znodes do not lengthen a collection. In a prototype, against one slotted object for a
znode: 412 instead of 650 bytes for 100 bytes of data, 1.7 instead of 90 ms for a full collection of 100,000.

Invariants:
  1. A node's parent exists, and was inserted into `bodies` before it: iteration meets parents first.
  2. What a walk over the nodes below a node would count is kept: nobody walks to answer a request.
  3. Stat.cversion = 2 * creates - numChildren, Stat.numChildren = len(children): kept in step by `_restat`.
  4. Applying a transaction twice leaves the tree as applying it once does (see apply_txn.py).

A transaction of many operations mostly changes children of few nodes. Between `begin_batch` and `end_batch`
the Stat of such a node, its digest and the counts above it are left stale, and brought in step once.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be

from jute.errors import NodeExists, NoNode
from jute.opcodes import EventType
from persistence.errors import CorruptSnapshot
from server.acls import CLOSED_ACL, OPEN_ACL, READ_ACL
from server.changes import Change
from server.paths import CONFIG, QUOTA, ROOT, ZOOKEEPER, parent_of
from server.quotas import Quotas
from server.txns import CONTAINER_OWNER, TTL_MASK

if TYPE_CHECKING:
    from server.client_protocol import ClientConnection
    from server.watches import Watches

STAT_BYTES: Final = 68
EMPTY_DATA: Final = b"\x00\x00\x00\x00"

_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")

NODE_CREATED: Final = int(EventType.NODE_CREATED)
NODE_DELETED: Final = int(EventType.NODE_DELETED)
NODE_DATA_CHANGED: Final = int(EventType.NODE_DATA_CHANGED)
NODE_CHILDREN_CHANGED: Final = int(EventType.NODE_CHILDREN_CHANGED)

CREATES_MAX: Final = 0x7FFFFFFF  # where the count of created children sticks

_LARGE_BODY_BYTES: Final = 16 << 10
_DEEP_BYTES: Final = 512  # of a path; there may be as many nodes above it
_MASK64: Final = (1 << 64) - 1
_NO_CHILDREN: Final = _INT.pack(0)
_NO_VERSIONS: Final = bytes(12)  # version, cversion, aversion
_CHILD_LISTS_BYTES_MAX: Final = 16 << 20
_CHILD_LIST_OVERHEAD_BYTES: Final = 150  # of an object and its place in a dictionary


def wrap32(value: int) -> int:
    """Java's int: overflow wraps."""
    return (value + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def signed64(value: int) -> int:
    """Java's long."""
    return (value + (1 << 63) & _MASK64) - (1 << 63)


def new_body(data: bytes, zxid: int, time_ms: int, shown_owner: int) -> bytes:
    """The body of a node that was just created."""
    stat = BytesWriter()
    write_i64_be(stat, zxid)
    write_i64_be(stat, zxid)
    write_i64_be(stat, time_ms)
    write_i64_be(stat, time_ms)
    stat.write(_NO_VERSIONS)
    write_i64_be(stat, shown_owner)
    write_i32_be(stat, len(data) - 4)
    write_i32_be(stat, 0)
    write_i64_be(stat, zxid)
    return data + stat.getvalue()


def with_data(body: bytes, data: bytes, version: int, zxid: int, time_ms: int) -> bytes:
    """The body after setData: mzxid, mtime, version and dataLength change with the data."""
    stat = BytesWriter()
    stat.write(body[-68:-60])
    write_i64_be(stat, zxid)
    stat.write(body[-52:-44])
    write_i64_be(stat, time_ms)
    write_i32_be(stat, version)
    stat.write(body[-32:-16])
    write_i32_be(stat, len(data) - 4)
    stat.write(body[-12:])
    return data + stat.getvalue()


def with_children(body: bytes, creates: int, count: int, pzxid: int) -> bytes:
    """The body of a parent whose children changed."""
    cversion = 2 * creates - count
    if not -0x80000000 <= cversion <= 0x7FFFFFFF:
        cversion = wrap32(cversion)
    changed = BytesWriter()
    write_i32_be(changed, cversion)
    changed.write(body[-28:-12])
    write_i32_be(changed, count)
    write_i64_be(changed, pzxid)
    if len(body) > _LARGE_BODY_BYTES:
        return b"".join((memoryview(body)[:-32], changed.getvalue()))  # one copy instead of two
    return body[:-32] + changed.getvalue()


def with_acl_version(body: bytes, version: int) -> bytes:
    return b"%b%b%b" % (body[:-28], _INT.pack(version), body[-24:])


def version_of(body: bytes) -> int:
    return read_i32_be(body, len(body) - 36)


def acl_version_of(body: bytes) -> int:
    return read_i32_be(body, len(body) - 28)


def shown_owner_of(body: bytes) -> int:
    return read_i64_be(body, len(body) - 24)


def czxid_of(body: bytes) -> int:
    return read_i64_be(body, len(body) - 68)


def mzxid_of(body: bytes) -> int:
    return read_i64_be(body, len(body) - 60)


def mtime_of(body: bytes) -> int:
    return read_i64_be(body, len(body) - 44)


def pzxid_of(body: bytes) -> int:
    return read_i64_be(body, len(body) - 8)


def data_length_of(body: bytes) -> int:
    return len(body) - STAT_BYTES - 4


def node_digest(path: bytes, body: bytes, creates: int, hidden_owner: int = 0) -> int:
    """What one node adds to the digest of the tree: its name, data and persisted stat, but not its ACL.

    The bytes are those of the body in another order: data, czxid, mzxid, pzxid, ctime, mtime, version, then
    the stored (not the shown) cversion, aversion and owner; `hidden_owner` is the stored owner where the Stat
    shows none. Nodes below /zookeeper differ between servers and count 0.
    """
    if path.startswith(b"/zookeeper/"):
        return 0
    counted, beginning = BytesWriter(), 0
    if path != ROOT:
        counted.write(path)
    if len(body) > _LARGE_BODY_BYTES:  # where two copies cost more than two calls
        beginning = crc32(memoryview(body)[4:-52], crc32(counted.getvalue()))
        counted = BytesWriter()
    else:
        counted.write(body[4:-52])
    counted.write(body[-8:])
    counted.write(body[-52:-32])
    write_i32_be(counted, creates)
    counted.write(body[-28:-16])
    if hidden_owner:
        counted.truncate(len(counted) - 8)
        write_i64_be(counted, hidden_owner)
    return crc32(counted.getvalue(), beginning)


class Before:
    """The nodes that a transaction has changed so far, as they were before it, for readers meanwhile.

    `late_watches` are those that readers set on nodes whose watches have fired for it: by connection and
    path, whether the node was there.
    """

    __slots__ = ("acls", "bodies", "late_watches", "zxid")

    def __init__(self, zxid: int) -> None:
        self.zxid = zxid
        self.bodies: dict[bytes, bytes | None] = {}
        self.acls: dict[bytes, bytes] = {}
        self.late_watches: dict[tuple[ClientConnection, bytes], bool] = {}


class DataTree:
    """The state that transactions change; see the top of this file."""

    def __init__(self, *, extended_types: bool = False, emulate_353_ttl: bool = False) -> None:
        self._extended_types = extended_types
        self._emulate_353_ttl = emulate_353_ttl
        self.triggers: Watches | None = None  # nobody watches while the log is replayed
        self.bodies: dict[bytes, bytes] = {}
        self.children: dict[bytes, dict[bytes, None]] = {}
        self.creates: dict[bytes, int] = {}
        self.owners: dict[bytes, int] = {}
        self.acls: dict[bytes, bytes] = {}
        self._nodes_below: dict[bytes, int] = {}
        self._bytes_below: dict[bytes, int] = {}
        self._above: dict[bytes, bytes] = {}
        self.ephemerals: dict[int, dict[bytes, None]] = {}
        self.session_timeouts_ms: dict[int, int] = {}
        self.quotas = Quotas()
        self._digest_before: int | None = None  # a transaction that is half applied
        self.before: Before | None = None  # the same: what it has changed so far
        self._is_batch = False
        self._stale: dict[bytes, int] = {}  # nodes whose children have changed, and their pzxid
        self._more_below: dict[bytes, tuple[int, int]] = {}  # nodes and bytes not counted above yet
        self.tracks_digest = True  # False where whoever prepares the transactions knows it already
        self.reset()

    def reset(self) -> None:
        """Forget everything and start with the nodes that always exist."""
        self._clear_nodes()
        self.end_long_change()
        self.session_timeouts_ms.clear()
        self.last_zxid = 0
        for path in (ROOT, ZOOKEEPER, QUOTA, CONFIG):
            self._insert(path, new_body(EMPTY_DATA, 0, 0, 0), OPEN_ACL)
        for path in (ZOOKEEPER, QUOTA, CONFIG):
            self._restat(parent_of(path), 0)
            self._count_above(path, 1, 0)
        self._set_acl(CONFIG, READ_ACL)
        self.bodies[CONFIG] = with_acl_version(self.bodies[CONFIG], -1)
        self.digest = self.compute_digest()

    def ensure_config_node(self) -> None:
        """A tree of an old server may come without it."""
        if CONFIG not in self.bodies:
            self._insert(CONFIG, with_acl_version(new_body(EMPTY_DATA, 0, 0, 0), -1), READ_ACL)
            self._count_above(CONFIG, 1, 0)
            self._restat(ZOOKEEPER, pzxid_of(self.bodies[ZOOKEEPER]))

    def _clear_nodes(self) -> None:
        for table in (self.bodies, self.children, self.creates, self.owners, self.acls, self.ephemerals):
            table.clear()
        self._child_lists: dict[bytes, bytes] = {}
        self._child_lists_bytes = 0
        self._is_batch = False
        self._stale.clear()
        self._more_below.clear()
        self._nodes_below.clear()
        self._bytes_below.clear()
        self._above.clear()
        self._acl_names: dict[bytes, bytes] = {}
        self._acl_uses: dict[bytes, int] = {}  # by how many nodes
        self.acl_bytes = 0  # of these, each once
        self.data_bytes = 0
        self.quotas.clear()

    # -- reading

    def acl_of(self, path: bytes) -> bytes:
        return self.acls.get(path, OPEN_ACL)

    def mtime_ms(self, path: bytes) -> int:
        return mtime_of(self.bodies[path])

    def children_count(self, path: bytes) -> int:
        kids = self.children.get(path)
        return len(kids) if kids else 0

    def encoded_children(self, path: bytes) -> bytes:
        """The names of a node's children as a jute vector of strings, kept until they change."""
        encoded = self.kept_children(path)
        return encoded if encoded is not None else self._encode_children(path)

    def kept_children(self, path: bytes) -> bytes | None:
        """The same where it costs nothing."""
        encoded = self._child_lists.get(path)
        if encoded is None and path not in self.children:
            return _NO_CHILDREN  # not kept: most nodes are leaves
        return encoded

    def _encode_children(self, path: bytes) -> bytes:
        kids = self.children[path]
        skip = 1 if path == ROOT else len(path) + 1
        pack = _INT.pack
        parts = [pack(len(kids))]
        for child in kids:
            parts += (pack(len(child) - skip), child[skip:])
        encoded = b"".join(parts)
        self.keep_children(path, encoded)
        return encoded

    def keep_children(self, path: bytes, encoded: bytes) -> None:
        cost_bytes = len(encoded) + _CHILD_LIST_OVERHEAD_BYTES
        self._child_lists_bytes += cost_bytes
        if self._child_lists_bytes > _CHILD_LISTS_BYTES_MAX:
            self._child_lists.clear()
            self._child_lists_bytes = cost_bytes
        self._child_lists[path] = encoded

    def descendants_count(self, path: bytes) -> int:
        """How many nodes lie below this one."""
        return self._nodes_below.get(path, 0)

    def _below(self, path: bytes) -> list[bytes]:
        """Every node below this one, parents first."""
        below, at = list(self.children.get(path, ())), 0
        while at < len(below):
            below += self.children.get(below[at], ())
            at += 1
        return below

    def usage_of(self, path: bytes) -> tuple[int, int]:
        """How many nodes there are at or below a path, and how many bytes of data they hold."""
        body = self.bodies.get(path)
        if body is None:
            return 0, 0
        if self._more_below:
            self._count_more_below()
        return self._nodes_below.get(path, 0) + 1, self._bytes_below.get(path, 0) + data_length_of(body)

    @property
    def node_count(self) -> int:
        """As the original counts: the root is there twice, once without its slash."""
        return len(self.bodies) + 1

    @property
    def approximate_data_bytes(self) -> int:
        """Characters of all paths, as Java counts them, and bytes of all data."""
        return self.data_bytes + len(ROOT)

    def is_ephemeral_owner(self, owner: int) -> bool:
        """Whether a stored owner names a session, rather than marking a container or a time to live."""
        return owner != 0 and owner != CONTAINER_OWNER and self.ttl_of(owner) is None

    def ttl_of(self, owner: int) -> int | None:
        """The time to live a stored owner stands for, in ms, or None."""
        if not self._extended_types or owner >= 0 or owner == CONTAINER_OWNER:
            return None
        if self._emulate_353_ttl or owner >> 56 == -1:
            return owner & TTL_MASK
        return None

    # -- digest

    def compute_digest(self) -> int:
        """The digest of the whole tree, from nothing."""
        return (
            sum(
                node_digest(path, body, self.creates.get(path, 0), self.owners.get(path, 0))
                for path, body in self.bodies.items()
            )
            & _MASK64
        )

    def digest_of(self, path: bytes) -> int:
        return node_digest(path, self.bodies[path], self.creates.get(path, 0), self.owners.get(path, 0))

    def _leave_digest(self, path: bytes) -> None:
        """A node is about to change; the digest of one that is stale has been taken out already."""
        if path not in self._stale:
            self.digest -= self.digest_of(path)

    def _join_digest(self, path: bytes) -> None:
        if path not in self._stale:
            self.digest = self.digest + self.digest_of(path) & _MASK64

    def begin_long_change(self) -> None:
        """A transaction is applied in slices: until its end, the digest of the tree is that before it, and
        what it changes is kept for readers."""
        self._digest_before = self.digest
        self.before = Before(self.last_zxid)

    def end_long_change(self) -> None:
        self._digest_before = None
        self.before = None

    def _keep_before(self, before: Before, path: bytes) -> None:
        if path not in before.bodies:
            before.bodies[path] = self.bodies.get(path)
            acl = self.acls.get(path)
            if acl is not None:
                before.acls[path] = acl

    def begin_batch(self) -> None:
        """Many changes follow, between which nobody asks."""
        self._is_batch = True

    def end_batch(self) -> None:
        """Bring in step what was left stale."""
        self._is_batch = False
        if self._stale:
            for path in list(self._stale):
                self._freshen(path)
        if self._more_below:
            self._count_more_below()

    def _freshen(self, path: bytes) -> None:
        """Bring the Stat of a node in step whose children have changed."""
        pzxid = self._stale.pop(path)
        self.bodies[path] = with_children(
            self.bodies[path], self.creates.get(path, 0), self.children_count(path), pzxid
        )
        if self.tracks_digest:
            self._join_digest(path)

    def _count_more_below(self) -> None:
        more_below, self._more_below = self._more_below, {}
        for parent, (nodes_more, bytes_more) in more_below.items():
            self._count_from(parent, nodes_more, bytes_more)

    # -- changing

    def create(
        self, path: bytes, data: bytes, acl: bytes, owner: int, parent_cversion: int, zxid: int, time_ms: int
    ) -> bytes:
        """Add a node and return its body; NoNode without parent, NodeExists (ACL renewed) if it is there."""
        parent = parent_of(path)
        if parent not in self.bodies:
            raise NoNode
        if path in self.bodies:
            self._set_acl(path, acl)
            raise NodeExists
        if self.tracks_digest:
            self._leave_digest(parent)
        is_session = self.is_ephemeral_owner(owner)
        body = new_body(data, zxid, time_ms, owner if is_session else 0)
        self._insert(path, body, acl, parent)
        if owner:
            self._own(path, owner, is_session)
        self._count_create(parent, parent_cversion, zxid)
        if self.tracks_digest:
            self._join_digest(parent)
            self._join_digest(path)
        self._created(path, body, acl, parent, zxid)
        return body

    def install_node(self, node: Change, parent: Change) -> None:
        """Do what `create` would: these are the node and its parent as they were prepared."""
        assert self.before is None
        path, body = node.path, node.body
        assert body is not None
        kids = self.children.get(parent.path)
        if kids is None:
            self.children[parent.path] = {path: None}
        else:
            kids[path] = None
        self.data_bytes += _characters(path) + data_length_of(body)
        self.bodies[path] = body
        if len(path) > _DEEP_BYTES:
            self._above[path] = parent.path
        if node.acl is not OPEN_ACL:
            self._set_acl(path, node.acl)
        self.creates[parent.path] = parent.creates
        self._install_parent(parent)
        if node.owner:
            self._own(path, node.owner, self.is_ephemeral_owner(node.owner))
        self._created(path, body, node.acl, parent.path, node.zxid)

    def _install_parent(self, parent: Change) -> None:
        assert parent.body is not None
        self._child_lists.pop(parent.path, None)
        self.bodies[parent.path] = parent.body

    def _created(self, path: bytes, body: bytes, acl: bytes, parent: bytes, zxid: int) -> None:
        """A node is in its place: count it, and tell who watches."""
        data_bytes = data_length_of(body)
        self._count_below(parent, 1, data_bytes)
        self._count_for_quota(path, data_bytes, 1)
        watches = self.triggers
        if watches is not None:
            watches.trigger_data(path, NODE_CREATED, zxid, acl)
            watches.trigger_child(parent, NODE_CHILDREN_CHANGED, zxid, self.acls.get(parent, OPEN_ACL))

    def note_create(self, parent: bytes, parent_cversion: int, zxid: int) -> None:
        """Replayed: a child that is already there was created by this transaction."""
        if self.tracks_digest:
            self._leave_digest(parent)
        self._count_create(parent, parent_cversion, zxid)
        if self.tracks_digest:
            self._join_digest(parent)

    def _count_create(self, parent: bytes, parent_cversion: int, zxid: int) -> None:
        """Count a created child, unless a later state of the parent already has."""
        creates = self.creates.get(parent, 0)
        if parent_cversion == -1:
            parent_cversion = wrap32(creates + 1)
        pzxid = self._pzxid_of(parent)
        if parent_cversion > creates:
            self.creates[parent] = parent_cversion
            pzxid = zxid
        self._restat(parent, pzxid)

    def delete(self, path: bytes, zxid: int) -> None:
        """Remove a node; NoNode if it or its parent is not there (the parent's pzxid rises all the same).

        Children mean that a log is replayed over a later state, of which they are: it will create them again.
        """
        if path in self.children:
            for below in reversed(self._below(path)):
                self.delete(below, zxid)
        parent = parent_of(path)
        if parent not in self.bodies:
            raise NoNode
        if self.tracks_digest:
            self._leave_digest(parent)
            if path in self.bodies:
                self._leave_digest(path)
        if self.before is not None:
            self._keep_before(self.before, path)
        self._stale.pop(path, None)
        body = self.bodies.pop(path, None)
        kids = self.children.get(parent)
        if kids is not None:
            kids.pop(path, None)
            if not kids:
                del self.children[parent]
        self._restat(parent, max(zxid, self._pzxid_of(parent)))
        if self.tracks_digest:
            self._join_digest(parent)
        if body is None:
            raise NoNode
        self._deleted(path, body, parent, zxid)

    def install_deletion(self, node: Change, parent: Change) -> None:
        """Do what `delete` would: this is the parent as it was prepared."""
        assert self.before is None
        path = node.path
        body = self.bodies.pop(path)
        kids = self.children[parent.path]
        del kids[path]
        if not kids:
            del self.children[parent.path]
        self._install_parent(parent)
        self._deleted(path, body, parent.path, node.zxid)

    def _deleted(self, path: bytes, body: bytes, parent: bytes, zxid: int) -> None:
        """A node is gone from its place: forget what else is known of it, and tell who watches."""
        acl = self._forget(path, parent, body)
        watches = self.triggers
        if watches is not None:
            told = watches.trigger_data(path, NODE_DELETED, zxid, acl)
            watches.trigger_child(path, NODE_DELETED, zxid, acl, told)
            watches.trigger_child(parent, NODE_CHILDREN_CHANGED, zxid, self.acls.get(parent, OPEN_ACL))

    def set_data(self, path: bytes, data: bytes, version: int, zxid: int, time_ms: int) -> bytes:
        """Replace a node's data and return its body."""
        body = self._body_to_change(path)
        if self.tracks_digest:
            self._leave_digest(path)
        changed = with_data(body, data, version, zxid, time_ms)
        self._put_data(path, body, changed, zxid)
        if self.tracks_digest:
            self._join_digest(path)
        return changed

    def install_data(self, node: Change) -> bytes:
        """Do what `set_data` would: this is the node as it was prepared."""
        assert self.before is None
        changed = node.body
        assert changed is not None
        self._put_data(node.path, self.bodies[node.path], changed, node.zxid)
        return changed

    def _put_data(self, path: bytes, body: bytes, changed: bytes, zxid: int) -> None:
        self.bodies[path] = changed
        if len(changed) != len(body):
            self.data_bytes += len(changed) - len(body)
            self._count_above(path, 0, len(changed) - len(body))
        if self.quotas.paths:
            self._count_for_quota(path, len(changed) - len(body), 0)
        if self.triggers is not None:
            self.triggers.trigger_data(path, NODE_DATA_CHANGED, zxid, self.acls.get(path, OPEN_ACL))

    def set_acl(self, path: bytes, acl: bytes, version: int) -> bytes:
        """Replace a node's ACL and return its body. Nobody is told: no watch covers ACLs."""
        body = self._body_to_change(path)
        if self.tracks_digest:
            self._leave_digest(path)
        self.bodies[path] = body = with_acl_version(body, version)
        if self.tracks_digest:
            self._join_digest(path)
        self._set_acl(path, acl)
        return body

    def _body_to_change(self, path: bytes) -> bytes:
        """The body of a node that is about to be replaced; NoNode."""
        if self._stale and path in self._stale:
            self._freshen(path)
        if self.before is not None:
            self._keep_before(self.before, path)
        body = self.bodies.get(path)
        if body is None:
            raise NoNode
        return body

    def replace_unversioned(self, path: bytes, data: bytes) -> None:
        """Write a quota statistic: no version, no time, no watch, only the data and its length."""
        body = self._body_to_change(path)
        self.bodies[path] = data + body[-68:-16] + _INT.pack(len(data) - 4) + body[-12:]
        if len(data) + STAT_BYTES != len(body):
            self.data_bytes += len(data) + STAT_BYTES - len(body)
            self._count_above(path, 0, len(data) + STAT_BYTES - len(body))

    def _insert(self, path: bytes, body: bytes, acl: bytes, parent: bytes = b"") -> None:
        """Put a node below its parent, which need not be told; NoNode if there is none."""
        if self.before is not None:
            self._keep_before(self.before, path)
        if path == ROOT:
            self.data_bytes += data_length_of(body)
        else:
            parent = parent or parent_of(path)
            kids = self.children.get(parent)
            if kids is not None:
                kids[path] = None
            elif parent in self.bodies:
                self.children[parent] = {path: None}
            else:
                raise NoNode
            self.data_bytes += _characters(path) + data_length_of(body)
            if len(path) > _DEEP_BYTES:
                self._above[path] = parent
        self.bodies[path] = body
        if acl != OPEN_ACL:
            self._set_acl(path, acl)

    def _count_above(self, path: bytes, nodes_more: int, bytes_more: int) -> None:
        """Let all nodes above one know what was added below them."""
        if path != ROOT:
            self._count_below(parent_of(path), nodes_more, bytes_more)

    def _count_below(self, parent: bytes, nodes_more: int, bytes_more: int) -> None:
        """The same, from the parent on; in a batch, later."""
        if self._is_batch:
            more = self._more_below.get(parent)
            if more is not None:
                nodes_more += more[0]
                bytes_more += more[1]
            self._more_below[parent] = (nodes_more, bytes_more)
        else:
            self._count_from(parent, nodes_more, bytes_more)

    def _count_from(self, path: bytes, nodes_more: int, bytes_more: int) -> None:
        """Let a node and all above it know what was added below them."""
        while True:
            nodes = self._nodes_below.get(path, 0) + nodes_more
            data_bytes = self._bytes_below.get(path, 0) + bytes_more
            if nodes:
                self._nodes_below[path] = nodes
            else:
                self._nodes_below.pop(path, None)
            if data_bytes:
                self._bytes_below[path] = data_bytes
            else:
                self._bytes_below.pop(path, None)
            if path == ROOT:
                return
            path = self._above.get(path) or parent_of(path) if len(path) > _DEEP_BYTES else parent_of(path)

    def _count_all(self) -> None:
        """Count what is below each node, from the last to the first: a node comes before those below it."""
        nodes_below, bytes_below = self._nodes_below, self._bytes_below
        for path in reversed(self.bodies):
            if path != ROOT:
                parent = parent_of(path)
                nodes_below[parent] = nodes_below.get(parent, 0) + nodes_below.get(path, 0) + 1
                data_bytes = bytes_below.get(path, 0) + data_length_of(self.bodies[path])
                if data_bytes:
                    bytes_below[parent] = bytes_below.get(parent, 0) + data_bytes

    def _own(self, path: bytes, owner: int, is_session: bool) -> None:
        if is_session:
            self.ephemerals.setdefault(owner, {})[path] = None
        else:
            self.owners[path] = owner

    def _forget(self, path: bytes, parent: bytes, body: bytes) -> bytes:
        """Drop what is kept about a deleted node besides its body; returns the ACL it had."""
        self.data_bytes -= _characters(path) + data_length_of(body)
        self._count_below(parent, -1, -data_length_of(body))
        self.creates.pop(path, None)
        self._child_lists.pop(path, None)
        if len(path) > _DEEP_BYTES:
            self._above.pop(path, None)
        owner = (self.owners.pop(path, 0) if self.owners else 0) or shown_owner_of(body)
        mine = self.ephemerals.get(owner)
        if mine is not None:
            mine.pop(path, None)
            if not mine:
                del self.ephemerals[owner]
        acl = self._pop_acl(path)
        self._count_for_quota(path, -data_length_of(body), -1)
        return acl

    def _restat(self, parent: bytes, pzxid: int) -> None:
        """Bring a parent's Stat in step with its children, now or at the end of the batch."""
        if parent in self._stale:  # not for the first time in this batch
            self._stale[parent] = pzxid
            return
        self._child_lists.pop(parent, None)
        if self.before is not None:
            self._keep_before(self.before, parent)
        if self._is_batch:
            self._stale[parent] = pzxid
            return
        self.bodies[parent] = with_children(
            self.bodies[parent], self.creates.get(parent, 0), self.children_count(parent), pzxid
        )

    def _pzxid_of(self, path: bytes) -> int:
        pzxid = self._stale.get(path)
        return pzxid_of(self.bodies[path]) if pzxid is None else pzxid

    def _set_acl(self, path: bytes, acl: bytes) -> None:
        self._pop_acl(path)
        if acl != OPEN_ACL:
            name = self._acl_names.setdefault(acl, acl)  # one object for one ACL, however many nodes carry it
            self.acls[path] = name
            uses = self._acl_uses.get(name, 0)
            self._acl_uses[name] = uses + 1
            if not uses:
                self.acl_bytes += len(name)

    def _pop_acl(self, path: bytes) -> bytes:
        """Let a node be open to everyone; returns the ACL it had."""
        acl = self.acls.pop(path, None)
        if acl is None:
            return OPEN_ACL
        uses = self._acl_uses[acl] - 1
        if uses:
            self._acl_uses[acl] = uses
        else:
            del self._acl_uses[acl], self._acl_names[acl]
            self.acl_bytes -= len(acl)
        return acl

    def _count_for_quota(self, path: bytes, bytes_more: int, nodes_more: int) -> None:
        if self.quotas.paths or path.startswith(QUOTA):
            self.quotas.changed(self, path, bytes_more, nodes_more)

    # -- snapshot and restore (persistence.snapshots.SnapshotSource, persistence.recovery.Restorable)

    def snapshot_sessions(self) -> list[tuple[int, int]]:
        return list(self.session_timeouts_ms.items())

    def snapshot_acls(self) -> list[tuple[int, bytes]]:
        """The ACLs in use, numbered from 1, and one that stands in for those that come too late."""
        stand_in = () if CLOSED_ACL in self._acl_uses else (CLOSED_ACL,)
        return list(enumerate((*stand_in, *self._acl_uses), start=1))

    def snapshot_nodes(
        self, numbered_acls: Iterable[tuple[int, bytes]], zxid: int
    ) -> Iterator[tuple[bytes, bytes, int, bytes]]:
        """Every node that existed at `zxid` and does when its turn comes, while the tree goes on changing.

        `numbered_acls` are those that snapshot_acls gave for the same snapshot.

        A node created since is left out with everything below it: the log, replayed over the snapshot,
        creates it. If it were in, and the log deleted an earlier node of its name first, Apache would keep
        its children without a parent that knows them, and lose them. Only the children of one node are listed
        at once: to list a million paths would hold up all clients. A node whose ACL appeared after
        snapshot_acls is closed to everyone until the log brings that ACL: Apache does not start from a
        snapshot that names an ACL it does not hold.
        """
        ids = {acl: number for number, acl in numbered_acls}
        bodies, creates, owners, acls = self.bodies, self.creates, self.owners, self.acls
        stand_in = ids[CLOSED_ACL]
        waiting = [ROOT]
        while waiting:
            path = waiting.pop()
            body = bodies.get(path)
            if body is None or czxid_of(body) > zxid:
                continue
            kids = self.children.get(path)
            if kids:
                waiting.extend(reversed(kids))  # so that the oldest is next
            acl = acls.get(path)
            yield (
                path,
                body[:-STAT_BYTES],
                -1 if acl is None else ids.get(acl, stand_in),
                persisted_stat(body, creates.get(path, 0), owners.get(path)),
            )

    def snapshot_digest(self) -> tuple[int, int]:
        digest = self.digest if self._digest_before is None else self._digest_before
        return self.last_zxid, signed64(digest)

    def restore_sessions(self, sessions: Iterable[tuple[int, int]]) -> None:
        self.session_timeouts_ms.clear()
        self.session_timeouts_ms.update(sessions)

    def restore_acls(self, acls: Iterable[tuple[int, bytes]]) -> None:
        self._acls_by_id = dict(acls)

    def restore_nodes(self, nodes: Iterable[tuple[bytes, bytes, int, bytes]]) -> None:
        """Fill the tree from a snapshot; CorruptSnapshot if a node comes before its parent, or no root."""
        self.begin_nodes()
        self.restore_more_nodes(nodes)
        self.end_nodes()

    def begin_nodes(self) -> None:
        """Empty the tree: its nodes come in pieces, and nothing may be asked before `end_nodes`."""
        self._clear_nodes()

    def restore_more_nodes(self, nodes: Iterable[tuple[bytes, bytes, int, bytes]]) -> None:
        for path, data, acl_id, stat in nodes:
            try:
                self._restore_node(path, data, acl_id, stat)
            except (NoNode, ValueError):  # ValueError: there is not even a slash in it
                raise CorruptSnapshot(f"node {path!r} has no parent in front of it") from None

    def end_nodes(self) -> None:
        if ROOT not in self.bodies:
            raise CorruptSnapshot("there is no root node")
        for path in self.children:
            self._restat(path, pzxid_of(self.bodies[path]))
        for path in self.creates.keys() - self.children.keys():
            self._restat(path, pzxid_of(self.bodies[path]))
        self.digest = self.compute_digest()
        self._count_all()
        self.quotas.rebuild(self)

    def _restore_node(self, path: bytes, data: bytes, acl_id: int, stat: bytes) -> None:
        creates = _INT.unpack_from(stat, 36)[0]
        owner = _LONG.unpack_from(stat, 44)[0]
        shown = b"\x00" * 8
        if owner:
            is_session = self.is_ephemeral_owner(owner)
            shown = stat[44:52] if is_session else shown
            self._own(path, owner, is_session)
        if creates:
            self.creates[path] = creates
        zero, length = b"\x00" * 4, _INT.pack(len(data) - 4)  # what follows from children comes in later
        body = b"".join((data, stat[:36], zero, stat[40:44], shown, length, zero, stat[52:60]))
        acl = OPEN_ACL if acl_id == -1 else self._acls_by_id.get(acl_id, CLOSED_ACL)
        self._insert(path, body, acl)


def persisted_stat(body: bytes, creates: int, owner: int | None) -> bytes:
    """The Stat of a body as snapshots store it: the stored cversion and owner, no derived fields."""
    stat = BytesWriter()
    stat.write(body[-68:-32])
    write_i32_be(stat, creates)
    if owner is None:
        stat.write(body[-28:-16])
    else:
        stat.write(body[-28:-24])
        write_i64_be(stat, owner)
    stat.write(body[-8:])
    return stat.getvalue()


def _characters(path: bytes) -> int:
    """In a path, of 16 bits each."""
    return len(path) if path.isascii() else len(path.decode("utf-8", "replace").encode("utf-16-le")) // 2
