"""What ought to have happened: the one history of transactions, and the tree it makes, at every zxid.

The model knows nothing of the servers' own code but the layout of a transaction. It keeps every version of
every node, so that an answer which claims to be of some zxid, however old, can be held against exactly that.
"""

from bisect import bisect_right
from collections.abc import Iterator

import attrs

from jute.client_records import Stat
from jute.opcodes import EventType, OpCode
from jute.txn_records import (
    CloseSessionTxn,
    CreateContainerTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetDataTxn,
    TxnHeader,
    TxnRecord,
    decode_txn,
    decode_txn_record,
)


@attrs.frozen
class Node:
    """A znode between two changes."""

    data: bytes
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    owner: int
    pzxid: int
    creates: int  # children ever created
    children: frozenset[str]

    def stat(self) -> Stat:
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            2 * self.creates - len(self.children),
            0,
            self.owner,
            len(self.data),
            len(self.children),
            self.pzxid,
        )


@attrs.define
class SessionRecord:
    id: int
    timeout_ms: int
    created_zxid: int
    closed_zxid: int | None = None
    ephemerals: dict[str, None] = attrs.field(factory=dict)


@attrs.frozen
class Entry:
    """One committed transaction."""

    zxid: int
    payload: bytes
    header: TxnHeader
    record: TxnRecord | None

    @property
    def error(self) -> int:
        """What the header of the reply says; of a multi that failed, its parts tell."""
        return self.record.err if isinstance(self.record, ErrorTxn) else 0

    @property
    def failure(self) -> int:
        """Why nothing was changed, or 0."""
        if isinstance(self.record, MultiTxn):
            parts = (part for _, part in parts_of(self.record))
            return next((part.err for part in parts if isinstance(part, ErrorTxn) and part.err), 0)
        return self.error


@attrs.define
class Versions:
    """All states of one path: from each zxid on, a node or none; and what its watchers were to be told."""

    zxids: list[int] = attrs.field(factory=list)
    nodes: list[Node | None] = attrs.field(factory=list)
    data_events: list[tuple[int, EventType]] = attrs.field(factory=list)  # for watches of the node
    child_events: list[tuple[int, EventType]] = attrs.field(factory=list)  # for watches of its children

    def at(self, zxid: int) -> Node | None:
        index = bisect_right(self.zxids, zxid)
        return self.nodes[index - 1] if index else None

    def put(self, zxid: int, node: Node | None) -> None:
        if self.zxids and self.zxids[-1] == zxid:
            self.nodes[-1] = node
        else:
            self.zxids.append(zxid)
            self.nodes.append(node)


ROOT = Node(b"", 0, 0, 0, 0, 0, 0, 0, 0, frozenset())


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def follows(previous: int, zxid: int) -> bool:
    """Can nothing lie between the two?"""
    return zxid == previous + 1 or (zxid >> 32 > previous >> 32 and zxid & 0xFFFFFFFF == 1)


def parts_of(multi: MultiTxn) -> Iterator[tuple[int, TxnRecord]]:
    for part in multi.txns or ():
        yield part.type, decode_txn_record(part.type, part.data or b"")


class History:
    """Grows at its end only."""

    def __init__(self) -> None:
        self.last_zxid = 0
        self.entries: dict[int, Entry] = {}  # by zxid, rising
        self.zxids: list[int] = []  # the same
        self.sessions: dict[int, SessionRecord] = {}
        self.open_sessions: dict[int, SessionRecord] = {}
        self.paths: dict[str, Versions] = {}
        self.events: list[tuple[int, str, EventType]] = []  # all that watchers for good were to be told
        self.containers: set[str] = set()  # that are there
        self.members_text: str | None = None  # of the last reconfiguration
        self._put("/", 0, ROOT)

    def append(self, payload: bytes) -> Entry:
        header, record, _ = decode_txn(payload)
        entry = Entry(header.zxid, payload, header, record)
        self.entries[header.zxid] = entry
        self.zxids.append(header.zxid)
        self._apply(header, record)
        self.last_zxid = header.zxid
        return entry

    def node(self, path: str, zxid: int) -> Node | None:
        versions = self.paths.get(path)
        return None if versions is None else versions.at(zxid)

    def existing(self, zxid: int) -> dict[str, Node]:
        """The whole tree as of a zxid."""
        nodes = {path: versions.at(zxid) for path, versions in self.paths.items()}
        return {path: node for path, node in nodes.items() if node is not None}

    def data_event_after(self, path: str, zxid: int) -> tuple[int, EventType] | None:
        return _first_after(self.paths[path].data_events if path in self.paths else [], zxid)

    def child_event_after(self, path: str, zxid: int) -> tuple[int, EventType] | None:
        return _first_after(self.paths[path].child_events if path in self.paths else [], zxid)

    def events_between(self, after: int, up_to: int) -> list[tuple[int, str, EventType]]:
        first = bisect_right(self.events, after, key=lambda event: event[0])
        return self.events[first : bisect_right(self.events, up_to, key=lambda event: event[0])]

    # -- changes

    def _apply(self, header: TxnHeader, record: TxnRecord | None) -> None:
        match record:
            case CreateSessionTxn(timeout_ms):
                opened = SessionRecord(header.client_id, timeout_ms, header.zxid)
                self.sessions[header.client_id] = self.open_sessions[header.client_id] = opened
            case None | CloseSessionTxn() if header.type == OpCode.CLOSE_SESSION:
                self._close_session(header)
            case MultiTxn():
                parts = list(parts_of(record))
                if not any(isinstance(part, ErrorTxn) for _, part in parts):
                    for _, part in parts:
                        self._apply_one(header, part)
            case _:
                self._apply_one(header, record)

    def _apply_one(self, header: TxnHeader, record: TxnRecord | None) -> None:
        match record:
            case CreateTxn(path, data, _, is_ephemeral, parent_cversion):
                assert path is not None
                self._create(header, path, data or b"", is_ephemeral, parent_cversion)
            case CreateContainerTxn(path, data, _, parent_cversion):
                assert path is not None
                self._create(header, path, data or b"", False, parent_cversion)
                self.containers.add(path)
            case DeleteTxn(path):
                assert path is not None
                self._delete(path, header.zxid)
            case SetDataTxn(path, data, version):
                assert path is not None
                node = self.node(path, header.zxid)
                if node is not None:
                    self._put(
                        path,
                        header.zxid,
                        attrs.evolve(
                            node, data=data or b"", version=version, mzxid=header.zxid, mtime=header.time
                        ),
                    )
                    self._tell_data(path, header.zxid, EventType.NODE_DATA_CHANGED)
                elif header.type == OpCode.RECONFIG:
                    self.members_text = (data or b"").decode()

    def _create(
        self, header: TxnHeader, path: str, data: bytes, is_ephemeral: bool, parent_cversion: int
    ) -> None:
        zxid, owner = header.zxid, header.client_id if is_ephemeral else 0
        parent = self.node(parent_of(path), zxid)
        if parent is None or self.node(path, zxid) is not None:
            return  # whoever checks transactions says so
        name = path.rpartition("/")[2]
        self._put(
            parent_of(path),
            zxid,
            attrs.evolve(
                parent,
                creates=max(parent.creates, parent_cversion),
                pzxid=zxid,
                children=parent.children | {name},
            ),
        )
        self._put(
            path, zxid, Node(data, zxid, zxid, header.time, header.time, 0, owner, zxid, 0, frozenset())
        )
        if owner and owner in self.sessions:
            self.sessions[owner].ephemerals[path] = None
        self._tell_data(path, zxid, EventType.NODE_CREATED)
        self._tell_children_changed(parent_of(path), zxid)

    def _delete(self, path: str, zxid: int) -> None:
        node = self.node(path, zxid)
        if node is None:
            return
        parent = self.node(parent_of(path), zxid)
        assert parent is not None
        name = path.rpartition("/")[2]
        self._put(parent_of(path), zxid, attrs.evolve(parent, pzxid=zxid, children=parent.children - {name}))
        self._put(path, zxid, None)
        self.containers.discard(path)
        if node.owner in self.sessions:
            self.sessions[node.owner].ephemerals.pop(path, None)
        self._tell_data(path, zxid, EventType.NODE_DELETED)
        self.paths[path].child_events.append((zxid, EventType.NODE_DELETED))
        self._tell_children_changed(parent_of(path), zxid)

    def _tell_data(self, path: str, zxid: int, event: EventType) -> None:
        self.paths[path].data_events.append((zxid, event))
        self.events.append((zxid, path, event))

    def _tell_children_changed(self, path: str, zxid: int) -> None:
        self.paths[path].child_events.append((zxid, EventType.NODE_CHILDREN_CHANGED))
        self.events.append((zxid, path, EventType.NODE_CHILDREN_CHANGED))

    def _close_session(self, header: TxnHeader) -> None:
        session = self.sessions.get(header.client_id)
        if session is None or session.closed_zxid is not None:
            return
        session.closed_zxid = header.zxid
        del self.open_sessions[header.client_id]
        for path in list(session.ephemerals):
            self._delete(path, header.zxid)

    def _put(self, path: str, zxid: int, node: Node | None) -> None:
        self.paths.setdefault(path, Versions()).put(zxid, node)


def _first_after(events: list[tuple[int, EventType]], zxid: int) -> tuple[int, EventType] | None:
    index = bisect_right(events, zxid, key=lambda event: event[0])
    return events[index] if index < len(events) else None
