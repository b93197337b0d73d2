"""Requests that only read: each has one function from the bytes of the request to the body of the reply.

A function gets the connection, the buffer its request stands in and where the body starts and ends; it
returns the body of the reply, or raises a ZkError (the reply is an error) or DecodeError (the error is -5).
Nothing here waits or changes the tree.

The hot ones (exists, getData, getChildren, getChildren2) go straight from the buffer to the tree: a path is a
slice of the request, the reply a concatenation. A path is normalised only when the straight look-up misses,
because a text that needs normalising cannot be the name of a node.
"""

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol

from librt.strings import read_i32_be

from jute.client_records import (
    AddWatchRequest,
    CheckWatchesRequest,
    GetAllChildrenNumberResponse,
    GetEphemeralsRequest,
    RemoveWatchesRequest,
    WhoAmIResponse,
)
from jute.errors import BadArguments, MarshallingError, NoAuth, NoNode
from jute.opcodes import AddWatchMode, OpCode, Perms
from jute.primitives import encode_ustring
from jute.record import DecodeError, decode, encode
from server.acls import OPEN_ACL, AuthIds
from server.data_tree import STAT_BYTES, DataTree
from server.paths import ROOT, canonical
from server.slices import (
    ENTRY_STEPS,
    FRAME_STEPS,
    LISTED_PER_STEP,
    long_slice_steps,
    names_per_slice,
    share_steps,
)
from server.wire_reader import WireReader
from server.write_requests import MULTI_READS, Operation, TooManyOperations, parse_operations

if TYPE_CHECKING:
    from server.client_protocol import ClientConnection

ReadFunction = Callable[["ClientConnection", bytes, int, int], bytes]

_INT: Final = Struct(">i")
_MULTI_HEADER: Final = Struct(">i?i")
_MULTI_ERROR: Final = Struct(">i?ii")
_MULTI_END: Final = _MULTI_HEADER.pack(-1, True, -1)
_READ: Final = int(Perms.READ)
UNLIMITED: Final = 1 << 30
NAMES_PER_OPERATION: Final = 16  # of children: so many count as an operation of a multiRead
_PIECE_BYTES: Final = 64 << 10  # of a long reply: what is larger is sent as it is, what is smaller together
_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))  # what String.trim takes off
_NULL_PATH: Final = b"null"  # may be watched, though nothing ever happens there; this is how Java shows it


def path_and_watch(data: bytes, at: int, end: int) -> tuple[bytes, bool]:
    """The body of exists, getData and getChildren."""
    if at + 5 > end:
        raise DecodeError("the request is too short")
    length: int = read_i32_be(data, at)
    path_end = at + 4 + length
    if not at + 4 <= path_end < end:
        raise DecodeError("the path is missing or longer than the request")
    return data[at + 4 : path_end], data[path_end] != 0


def _readable(conn: "ClientConnection", path: bytes) -> tuple[bytes, bytes]:
    """The path as the tree knows it and the node's body; NoNode or NoAuth."""
    tree = conn.pipeline.tree
    body = tree.bodies.get(path)
    if body is None:
        if path:  # the empty path is the root's other name, for reads
            raise NoNode
        path, body = ROOT, tree.bodies[ROOT]
    if path in tree.acls:
        judge_read(conn, tree.acls[path])
    return path, body


def judge_read(conn: "ClientConnection", acl: bytes) -> None:
    """NoAuth, or nothing."""
    _judge(conn, acl, _READ)


def _judge(conn: "ClientConnection", acl: bytes, wanted: int) -> None:
    """NoAuth, or nothing."""
    pipeline = conn.pipeline
    entries_before = pipeline.rules.entries_read
    try:
        pipeline.rules.check(acl, wanted, conn.ids)
    finally:
        pipeline.steps += ENTRY_STEPS * (pipeline.rules.entries_read - entries_before)


def get_data(conn: "ClientConnection", data: bytes, at: int, end: int) -> bytes:
    asked, watch = path_and_watch(data, at, end)
    _, body = _readable(conn, asked)
    if watch:
        conn.pipeline.watches.watch_data(asked, conn)
    return body


def exists(conn: "ClientConnection", data: bytes, at: int, end: int) -> bytes:
    """The one read whose watch is set although the node is missing."""
    asked, watch = path_and_watch(data, at, end)
    try:
        _, body = _readable(conn, asked)
    except NoNode:
        if b"\x00" in asked:
            raise BadArguments("a path has no NUL character") from None
        if watch:
            conn.pipeline.watches.watch_data(canonical(asked), conn)
        raise
    if watch:
        conn.pipeline.watches.watch_data(asked, conn)
    return body[-STAT_BYTES:]


def get_children(conn: "ClientConnection", data: bytes, at: int, end: int) -> bytes:
    asked, watch = path_and_watch(data, at, end)
    path, _ = _readable(conn, asked)
    if watch:
        conn.pipeline.watches.watch_children(asked, conn)
    return _children_of(conn, path, b"")


def get_children2(conn: "ClientConnection", data: bytes, at: int, end: int) -> bytes:
    asked, watch = path_and_watch(data, at, end)
    path, body = _readable(conn, asked)
    if watch:
        conn.pipeline.watches.watch_children(asked, conn)
    return _children_of(conn, path, body[-STAT_BYTES:])


def _children_of(conn: "ClientConnection", path: bytes, stat: bytes) -> bytes:
    """The reply that lists a node's children; TakesLong if they are many."""
    tree = conn.pipeline.tree
    encoded = tree.kept_children(path)
    if encoded is None:
        kids = tree.children[path]
        if len(kids) > names_per_slice():
            raise TakesLong(ChildList(tree, path, stat))
        encoded = tree.encoded_children(path)
        conn.pipeline.steps += len(kids) // LISTED_PER_STEP
    return encoded + stat


def get_all_children_number(conn: "ClientConnection", data: bytes, at: int, end: int) -> bytes:
    """Under its empty name the root is counted too, as in the original."""
    asked = _path_only(data, at, end)
    path, _ = _readable(conn, asked)
    count = conn.pipeline.tree.descendants_count(path)
    return encode(GetAllChildrenNumberResponse(count if asked else count + 1))


def get_acl(conn: "ClientConnection", data: bytes, at: int, end: int) -> bytes:
    """Needs READ or ADMIN; without ADMIN the hashes of digest ids are hidden."""
    tree, rules = conn.pipeline.tree, conn.pipeline.rules
    path = _path_only(data, at, end) or ROOT
    body = tree.bodies.get(path)
    if body is None:
        raise NoNode
    acl = tree.acls.get(path, OPEN_ACL)
    _judge(conn, acl, Perms.READ | Perms.ADMIN)
    entries_before = rules.entries_read
    shown = rules.redact(acl, conn.ids)
    conn.pipeline.steps += ENTRY_STEPS * (rules.entries_read - entries_before)
    return shown + body[-STAT_BYTES:]


def _path_only(data: bytes, at: int, end: int) -> bytes:
    path = WireReader(data[at:end]).read_string()
    if path is None:
        raise DecodeError("the path is missing")
    return path


def get_ephemerals(conn: "ClientConnection", data: bytes, at: int, end: int) -> bytes:
    """The session's own ephemerals whose path starts with a text, which need not be a path."""
    asked, _ = decode(GetEphemeralsRequest, data, at, end)
    text = asked.prefix_path or ""
    tree = conn.pipeline.tree
    prefix = encode_ustring(text) if text.strip(_JAVA_BLANKS) not in ("", "/") else b""
    owned = PathList(tree.last_zxid, list(tree.ephemerals.get(conn.session_id, ())), 0, prefix)
    if len(owned) > names_per_slice():
        raise TakesLong(owned)
    conn.pipeline.steps += owned.go_on(conn, UNLIMITED)
    return owned.pieces[0]


def who_am_i(conn: "ClientConnection", data: bytes, at: int, end: int) -> bytes:
    conn.pipeline.steps += ENTRY_STEPS * len(conn.ids)
    return encode(WhoAmIResponse(conn.pipeline.rules.client_infos(conn.ids)))


def add_watch(conn: "ClientConnection", data: bytes, at: int, end: int) -> bytes:
    """Any path will do, even one that can never exist."""
    asked, _ = decode(AddWatchRequest, data, at, end)
    path = _watchable(asked.path)
    if asked.mode == AddWatchMode.PERSISTENT:
        conn.pipeline.watches.add_persistent(path, conn)
    elif asked.mode == AddWatchMode.PERSISTENT_RECURSIVE:
        conn.pipeline.watches.add_recursive(path, conn)
    else:
        raise MarshallingError(f"watch mode {asked.mode} is unknown")
    return _INT.pack(0)


def check_watches(conn: "ClientConnection", data: bytes, at: int, end: int) -> bytes:
    asked, _ = decode(CheckWatchesRequest, data, at, end)
    conn.pipeline.watches.check(_watchable(asked.path), asked.type, conn)
    return b""


def remove_watches(conn: "ClientConnection", data: bytes, at: int, end: int) -> bytes:
    asked, _ = decode(RemoveWatchesRequest, data, at, end)
    conn.pipeline.watches.remove(_watchable(asked.path), asked.type, conn)
    return b""


class LongRead(Protocol):
    """A read that is answered in slices; nothing else is read from its connection meanwhile.

    `zxid` is of the state that the reply shows, or 0 for that at its end.
    """

    zxid: int
    is_done: bool
    pieces: list[bytes]  # of the reply's body, in the end

    def go_on(self, conn: "ClientConnection", steps_max: int) -> int:
        """Do some of it; returns the steps it took."""
        ...


class TakesLong(Exception):
    """What was asked for is not a reply yet."""

    def __init__(self, read: LongRead) -> None:
        super().__init__("the reply takes several slices")
        self.read = read


class PathList:
    """Paths as a jute vector of strings, each without its first bytes: those that start with a prefix."""

    def __init__(self, zxid: int, paths: list[bytes], skip: int, prefix: bytes) -> None:
        self.zxid = zxid
        self.is_done = False
        self.pieces: list[bytes] = []
        self._paths = paths
        self._skip = skip
        self._prefix = prefix
        self._at = 0
        self._parts: list[bytes] = [b""]

    def __len__(self) -> int:
        return len(self._paths)

    def go_on(self, conn: "ClientConnection", steps_max: int) -> int:
        end = min(self._at + steps_max * LISTED_PER_STEP, len(self._paths))
        pack, skip, prefix, parts = _INT.pack, self._skip, self._prefix, self._parts
        for path in self._paths[self._at : end]:
            if path.startswith(prefix):
                parts += (pack(len(path) - skip), path[skip:])
        steps = (end - self._at) // LISTED_PER_STEP + 1
        self._at = end
        if end == len(self._paths):
            parts[0] = pack(len(parts) // 2)
            self._finish(conn, b"".join(parts))
        return steps

    def _finish(self, conn: "ClientConnection", encoded: bytes) -> None:
        self.pieces = [encoded]
        self.is_done = True


class ChildList(PathList):
    """The children that a node had when they were asked for; kept for others if it still has the same."""

    def __init__(self, tree: DataTree, path: bytes, stat: bytes) -> None:
        skip = 1 if path == ROOT else len(path) + 1
        super().__init__(tree.last_zxid, list(tree.children[path]), skip, b"")
        self._path = path
        self._node_stat = tree.bodies[path][-STAT_BYTES:]
        self._stat = stat

    def _finish(self, conn: "ClientConnection", encoded: bytes) -> None:
        tree = conn.pipeline.tree
        if tree.bodies.get(self._path, b"")[-STAT_BYTES:] == self._node_stat:
            tree.keep_children(self._path, encoded)
        super()._finish(conn, encoded + self._stat)


class Rewatching:
    """The watches that a client had before it came back (setWatches, setWatches2), set in slices.

    What changed since the client last looked is told at once, the rest is watched again. In the end it is the
    same whether something changes before or after a path has had its turn. A list or a path that is missing
    breaks the request there: what stands before it is done.
    """

    def __init__(self, body: bytes, has_persistent: bool) -> None:
        self.zxid = 0
        self.is_done = False
        self.pieces: list[bytes] = []
        self._reader = WireReader(body)
        self._lists_max = 5 if has_persistent else 3
        self._since_zxid = 0
        self._lists: list[_WatchList] = []
        self._list = 0
        self._at = 0

    def go_on(self, conn: "ClientConnection", steps_max: int) -> int:
        steps = 0
        if self._reader.offset == 0:
            self._since_zxid = self._reader.read_long()
        while steps < steps_max and not self._is_read:
            steps += self._read(steps_max - steps)
        while steps < steps_max and self._is_read and not self.is_done:
            steps += self._set(conn, steps_max - steps)
        return steps

    @property
    def _is_read(self) -> bool:
        return len(self._lists) == self._lists_max and self._lists[-1].is_whole

    def _read(self, steps_max: int) -> int:
        """All of the request is taken apart before anything is done: if it makes no sense nothing is."""
        if not self._lists or self._lists[-1].is_whole:
            self._lists.append(_WatchList(self._reader.read_int()))
        return self._lists[-1].read(self._reader, steps_max)

    def _set(self, conn: "ClientConnection", steps_max: int) -> int:
        kind, paths = self._list, self._lists[self._list].paths
        if paths is None:
            raise MarshallingError("a list of watches is missing")
        steps = 0
        while steps < steps_max and self._at < len(paths):
            self._set_one(conn, kind, paths[self._at])
            self._at += 1
            steps += 1
        if self._at == len(paths):
            self._list, self._at = self._list + 1, 0
            self.is_done = self._list == self._lists_max
        return steps

    def _set_one(self, conn: "ClientConnection", kind: int, path: bytes | None) -> None:
        watches, tree = conn.pipeline.watches, conn.pipeline.tree
        if kind >= 3:
            path = _NULL_PATH if path is None else canonical(path)
            (watches.add_persistent if kind == 3 else watches.add_recursive)(path, conn)
            return
        if path is None:
            raise MarshallingError("a path to be watched is missing")
        path = canonical(path)
        if kind == 0:
            watches.renew_data(tree, path, self._since_zxid, conn)
        elif kind == 1:
            watches.renew_exists(tree, path, conn)
        else:
            watches.renew_children(tree, path, self._since_zxid, conn)


class _WatchList:
    """One of the lists of paths in a setWatches, while it is being taken apart. None: it is not there."""

    __slots__ = ("_count", "is_whole", "paths")

    def __init__(self, count: int) -> None:
        self._count = max(count, 0)  # negative ones are empty; -1 alone stands for a list that is not there
        self.paths: list[bytes | None] | None = None if count == -1 else []
        self.is_whole = count <= 0

    def read(self, reader: WireReader, steps_max: int) -> int:
        paths = self.paths
        if paths is None:
            return 1
        before = len(paths)
        while len(paths) < self._count and len(paths) - before < steps_max:
            paths.append(reader.read_string())
        self.is_whole = len(paths) == self._count
        return max(1, len(paths) - before)


REWATCHES: Final = frozenset({int(OpCode.SET_WATCHES), int(OpCode.SET_WATCHES2)})


def _watchable(path: str | None) -> bytes:
    """The name under which addWatch's kinds of watches are kept: any text will do, and even none."""
    return _NULL_PATH if path is None else encode_ustring(path)


def multi_read(conn: "ClientConnection", data: bytes, at: int, end: int) -> "MultiRead":
    """Several reads in one: each has its own result or error. Their watch flags are ignored.

    The body comes in pieces. A znode's data is one of them, the same object as in the tree: one frame can
    ask for tens of megabytes, and they take no memory, nor time to be copied, until the client takes them.

    An operation that is no read, or names no path, spoils the whole, and the error comes with the results so
    far.
    """
    limits = conn.pipeline.limits
    try:
        operations = parse_operations(WireReader(data[at:end]), limits.multi_read_operations_max)
    except TooManyOperations:
        most = limits.multi_read_operations_max
        raise _too_much(conn, "triokeeper.multiReadMaxOperations", most) from None
    return MultiRead(operations, conn.ids)


def _read_all(
    conn: "ClientConnection", operations: list[Operation], judged: dict[bytes, bool]
) -> list[bytes]:
    """What the operations read, from one state of the tree; `judged` says which ACLs let the client read."""
    limits = conn.pipeline.limits
    body, names = _Body(), 0
    for type_, args in operations:
        if type_ not in MULTI_READS or args[0] is None:
            body.add(_MULTI_END)
            raise MultiReadSpoilt(body.pieces())
        if type_ == OpCode.GET_CHILDREN:
            names += conn.pipeline.tree.children_count(args[0])
            if len(operations) + names // NAMES_PER_OPERATION > limits.multi_read_operations_max:
                most = limits.multi_read_operations_max
                raise _too_much(conn, "triokeeper.multiReadMaxOperations", most)
        _add_result(body, conn, type_, args[0], judged)
        if body.size_bytes > limits.multi_read_bytes_max:
            raise _too_much(conn, "triokeeper.multiReadMaxBytes", limits.multi_read_bytes_max)
    body.add(_MULTI_END)
    conn.pipeline.steps += FRAME_STEPS * len(operations) + names // LISTED_PER_STEP
    return body.pieces()


class MultiRead:
    """A multiRead. Of nodes that are not open to everyone, each ACL may take long to be judged: that comes
    first, in slices. Once nothing is left to be judged, also not of what has changed since, all is read at
    once.
    """

    def __init__(self, operations: list[Operation], ids: AuthIds) -> None:
        self.zxid = 0
        self.is_done = False
        self.pieces: list[bytes] = []
        self._operations = operations
        self._ids = ids
        self._judged: dict[bytes, bool] = {}

    def go_on(self, conn: "ClientConnection", steps_max: int) -> int:
        rules, acls, judged, steps = conn.pipeline.rules, conn.pipeline.tree.acls, self._judged, 0
        for _, args in self._operations:
            acl = acls.get(args[0] or ROOT)
            if acl is None or acl in judged:
                continue
            if steps >= min(steps_max, long_slice_steps()):
                return steps
            entries_before = rules.entries_read
            judged[acl] = rules.permits(acl, _READ, self._ids)
            steps += 1 + ENTRY_STEPS * (rules.entries_read - entries_before)
        if steps > share_steps():
            return steps
        self.pieces = _read_all(conn, self._operations, judged)
        self.is_done = True
        return steps


class MultiReadSpoilt(Exception):
    """Answered by a marshalling error that, unlike any other error, has a body."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__("a multiRead only reads")
        self.pieces = pieces


class _Body:
    """The body of a reply that may be long, in pieces that are worth a place of their own."""

    __slots__ = ("_pieces", "_small", "_small_bytes", "size_bytes")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._small: list[bytes] = []
        self._small_bytes = 0
        self.size_bytes = 0

    def add(self, data: bytes) -> None:
        size = len(data)
        self.size_bytes += size
        if size < _PIECE_BYTES:
            self._small.append(data)
            self._small_bytes += size
            if self._small_bytes < _PIECE_BYTES:
                return
            self._join_small()
        else:
            self._join_small()
            self._pieces.append(data)

    def _join_small(self) -> None:
        if self._small:
            self._pieces.append(b"".join(self._small))
            self._small.clear()
            self._small_bytes = 0

    def pieces(self) -> list[bytes]:
        self._join_small()
        return self._pieces


def _add_result(
    body: _Body, conn: "ClientConnection", type_: int, asked: bytes, judged: dict[bytes, bool]
) -> None:
    tree, path = conn.pipeline.tree, asked or ROOT
    node, acl = tree.bodies.get(path), tree.acls.get(path)
    if node is None or (acl is not None and not judged[acl]):
        code = NoNode.code if node is None else NoAuth.code
        body.add(_MULTI_ERROR.pack(-1, False, code, code))
        return
    body.add(_MULTI_HEADER.pack(type_, False, 0))
    body.add(tree.encoded_children(path) if type_ == OpCode.GET_CHILDREN else node)


def _too_much(conn: "ClientConnection", setting: str, most: int) -> MarshallingError:
    """The error for a multiRead beyond a limit; the log says which."""
    conn.pipeline.report_refusal(conn, OpCode.MULTI_READ, setting, most)
    return MarshallingError("a multiRead asks for too much at once")


READS: Final[dict[int, ReadFunction]] = {
    int(OpCode.GET_DATA): get_data,
    int(OpCode.EXISTS): exists,
    int(OpCode.GET_CHILDREN2): get_children2,
    int(OpCode.GET_CHILDREN): get_children,
    int(OpCode.GET_ACL): get_acl,
    int(OpCode.CHECK_WATCHES): check_watches,
    int(OpCode.REMOVE_WATCHES): remove_watches,
    int(OpCode.ADD_WATCH): add_watch,
    int(OpCode.GET_EPHEMERALS): get_ephemerals,
    int(OpCode.GET_ALL_CHILDREN_NUMBER): get_all_children_number,
    int(OpCode.WHO_AM_I): who_am_i,
}
