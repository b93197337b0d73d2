"""Whatever is done in the smallest slices: each client sees whole transactions only, and hears of each once.

The model is the log. Replayed into an empty tree, it gives the state after each transaction; every reply
names its zxid, and has to show that state and no other. The rest is read off what a client received in order:
zxids never go back, one-shot watches fire once for a change since they were set, and never without one.
"""

from dataclasses import dataclass, field
from random import Random
from struct import pack, unpack_from

import pytest

from jute.client_records import ConnectRequest, CreateRequest, SyncRequest
from jute.errors import NoAuth, NoNode
from jute.opcodes import EventType, OpCode
from jute.record import encode
from server.acls import OPEN_ACL, encode_acl
from server.apply_txn import apply_txn
from server.client_protocol import OPEN
from server.data_tree import STAT_BYTES, DataTree, mzxid_of, pzxid_of
from server.txns import decode_txn
from tests.server.one_server import Client, OneServer, smallest_slices
from tests.server.test_fuzz_findings import MULTI_END, create
from tests.server.test_slices import named, of_type

_UNREADABLE = encode_acl([(30, "world", "anyone")])
_PATHS = (b"/a", b"/a/b", b"/a/c", b"/d", b"/d/e", b"/d/e/f", b"/g", b"/")
_READS = (
    OpCode.GET_DATA,
    OpCode.EXISTS,
    OpCode.GET_CHILDREN,
    OpCode.GET_CHILDREN2,
    OpCode.GET_ALL_CHILDREN_NUMBER,
    OpCode.GET_ACL,
)
_CHILD_READS = (OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2)
_WATCHED_READS = (OpCode.GET_DATA, OpCode.EXISTS, *_CHILD_READS)
_DATA_EVENTS = (EventType.NODE_CREATED, EventType.NODE_DELETED, EventType.NODE_DATA_CHANGED)
_CHILD_EVENTS = (EventType.NODE_DELETED, EventType.NODE_CHILDREN_CHANGED)


class State:
    """All that a tree shows at one moment."""

    def __init__(self, tree: DataTree) -> None:
        self._bodies, self._acls = dict(tree.bodies), dict(tree.acls)
        self._children = {path: tree.encoded_children(path) for path in tree.bodies}
        self._below = {path: tree.descendants_count(path) for path in tree.bodies}

    def answer(self, op: int, path: bytes) -> tuple[int, bytes]:
        """The error and the body of the reply to a read."""
        body = self._bodies.get(path)
        if body is None:
            return NoNode.code, b""
        if path in self._acls and op != OpCode.GET_ACL:
            return NoAuth.code, b""
        stat = body[-STAT_BYTES:]
        shown = {
            OpCode.GET_DATA: body,
            OpCode.EXISTS: stat,
            OpCode.GET_CHILDREN: self._children[path],
            OpCode.GET_CHILDREN2: self._children[path] + stat,
            OpCode.GET_ALL_CHILDREN_NUMBER: pack(">i", self._below[path]),
            OpCode.GET_ACL: self._acls.get(path, OPEN_ACL) + stat,
        }
        return 0, shown[OpCode(op)]

    def watched(self, path: bytes, is_of_children: bool) -> tuple[int, bool]:
        """What a watch on a path is about, and whether whoever set it may hear of it."""
        body = self._bodies.get(path)
        if body is None:
            return 0, True
        return pzxid_of(body) if is_of_children else mzxid_of(body), path not in self._acls


def states(payloads: list[bytes]) -> dict[int, State]:
    """The state after each transaction of a log."""
    tree = DataTree()
    found = {0: State(tree)}
    for payload in payloads:
        apply_txn(tree, decode_txn(payload))
        found[tree.last_zxid] = State(tree)
    return found


@dataclass
class Conversation:
    """One client's connections, one after the other: what it asked and what it was told."""

    server: OneServer
    client: Client
    asked: dict[int, tuple[int, bytes, bool]] = field(default_factory=dict)
    connections: list[tuple[list[int], list[bytes]]] = field(default_factory=list)
    xid: int = 0
    is_over: bool = False

    def __post_init__(self) -> None:
        self.connections.append(([], []))

    def ask(self, op: int, path: bytes, body: bytes, is_watched: bool = False) -> None:
        if self.is_over:
            return
        self.xid += 1
        self.asked[self.xid] = (op, path, is_watched)
        self.connections[-1][0].append(self.xid)
        self.client.send(self.xid, op, body)
        self.is_over = op == OpCode.CLOSE_SESSION

    def read(self, op: int, path: bytes, is_watched: bool) -> None:
        if op in _WATCHED_READS:
            self.ask(op, path, named(path) + pack("?", is_watched), is_watched)
        else:
            self.ask(op, path, named(path))

    def ping(self) -> None:
        if not self.is_over:
            self.connections[-1][0].append(-2)
            self.client.connection.received(pack(">iii", 8, -2, OpCode.PING))

    def come_back(self) -> None:
        """Take up the session with another connection, while the old one is still there."""
        if self.is_over or self.client.connection.state != OPEN:
            return
        self.listen()
        before, self.client = self.client, Client(self.server)
        self.client.session_id, self.client.password = before.session_id, before.password
        self.connections.append(([], []))
        request = ConnectRequest(0, 0, 10_000, before.session_id, before.password)
        self.client.send_raw(encode(request) + b"\x00")

    def listen(self) -> None:
        self.connections[-1][1].extend(self.client.frames())


class Listener:
    """Goes through what a client received, and says what is wrong with it."""

    def __init__(self, conversation: Conversation, after: dict[int, State]) -> None:
        self._of = conversation
        self._after = after
        self._zxid = 0
        self._watches: dict[tuple[bytes, bool], int] = {}  # of data or of children: set at which zxid

    def check(self) -> None:
        for at, (xids, frames) in enumerate(self._of.connections):
            is_last = at == len(self._of.connections) - 1
            received = frames[1:] if at else frames  # without the handshake
            answered = []
            self._watches = {}
            for frame in received:
                xid, zxid, err = unpack_from(">iqi", frame)
                if zxid != -1:
                    assert zxid >= self._zxid, "a zxid went back"
                    self._zxid = zxid
                if xid == -1:
                    self._hear(unpack_from(">i", frame, 16)[0], frame[28:])
                else:
                    answered.append(xid)
                    if xid != -2:
                        self._see(self._of.asked[xid], zxid, err, frame[16:])
            assert answered == (xids if is_last else xids[: len(answered)])
        if self._of.is_over:
            return
        for (path, is_of_children), zxid in self._watches.items():
            assert not self._has_changed(path, is_of_children, zxid), f"nobody told of {path!r}"

    def _see(self, asked: tuple[int, bytes, bool], zxid: int, err: int, body: bytes) -> None:
        op, path, is_watched = asked
        if op not in _READS:
            return
        assert (err, body) == self._after[zxid].answer(op, path), (op, path, zxid)
        if is_watched and (not err or (op == OpCode.EXISTS and err == NoNode.code)):
            self._watches.setdefault((path, op in _CHILD_READS), zxid)

    def _hear(self, event: int, path: bytes) -> None:
        keys = []
        if event in _DATA_EVENTS:
            keys.append((path, False))
        if event in _CHILD_EVENTS:
            keys.append((path, True))
        set_at = [self._watches.pop(key) for key in keys if key in self._watches]
        assert set_at, f"told of {path!r} without a watch"

    def _has_changed(self, path: bytes, is_of_children: bool, since: int) -> bool:
        """Leaving aside what cannot be heard of by all."""
        at_first = self._after[since].watched(path, is_of_children)
        later = [state.watched(path, is_of_children) for zxid, state in self._after.items() if zxid > since]
        return all(may for _, may in later) and any(found != at_first for found in later)


def operation(chance: Random) -> tuple[int, bytes, bytes]:
    """An operation of a multi, or a write by itself: opcode, path and body."""
    path = chance.choice(_PATHS[:-1])
    op = chance.choice((OpCode.CREATE, OpCode.CREATE, OpCode.SET_DATA, OpCode.DELETE, OpCode.SET_ACL))
    if op == OpCode.CREATE:
        return op, path, named(path) + bytes(4) + OPEN_ACL + pack(">i", chance.choice((0, 0, 1, 2)))
    if op == OpCode.SET_DATA:
        return op, path, named(path) + named(b"%d" % chance.randrange(100)) + pack(">i", -1)
    if op == OpCode.DELETE:
        return op, path, named(path) + pack(">i", -1)
    acl = chance.choice((OPEN_ACL, OPEN_ACL, _UNREADABLE))
    return op, path, named(path) + acl + pack(">i", -1)


def multi(chance: Random) -> bytes:
    """Most often one that succeeds: of nodes that are always there, and of those created in it."""
    operations = []
    for n in range(chance.randint(2, 5)):
        if chance.random() < 0.5:
            path = b"/s%d" % chance.randrange(10**6)
            body = named(path) + bytes(4) + OPEN_ACL + pack(">i", chance.choice((0, 1)))
            operations.append(of_type(OpCode.CREATE, body))
            if chance.random() < 0.3:
                operations.append(of_type(OpCode.DELETE, named(path) + pack(">i", -1)))
        elif chance.random() < 0.7:
            path = chance.choice((b"/a", b"/d", b"/"))
            operations.append(of_type(OpCode.SET_DATA, named(path) + named(b"m%d" % n) + pack(">i", -1)))
        else:
            op, _, body = operation(chance)
            operations.append(of_type(op, body))
    return b"".join(operations) + MULTI_END


def take_step(chance: Random, server: OneServer, everyone: list[Conversation]) -> None:
    each = chance.choice(everyone)
    what = chance.random()
    if what < 0.35:
        each.read(chance.choice(_READS), chance.choice(_PATHS), chance.random() < 0.5)
    elif what < 0.5:
        op, path, body = operation(chance)
        each.ask(op, path, body)
    elif what < 0.62:
        each.ask(OpCode.MULTI, b"", multi(chance))
    elif what < 0.67:
        each.ask(OpCode.SYNC, b"", encode(SyncRequest("/a")))
    elif what < 0.72:
        each.ping()
    elif what < 0.74:
        each.come_back()
    elif what < 0.75 and each is not everyone[0]:
        each.ask(OpCode.CLOSE_SESSION, b"", b"")
    elif what < 0.85:
        server.release(chance.randint(0, server.sink.undurable))
    elif what < 0.97:
        for _ in range(chance.randint(1, 12)):
            server.begin_batch()
            server.pipeline.go_on()
    else:
        each.listen()


@pytest.mark.parametrize("seed", range(100))
def test_clients_see_whole_transactions_and_hear_of_each_change_once(seed: int) -> None:
    with smallest_slices():
        live_through(Random(seed))


@pytest.mark.parametrize("seed", range(100, 160))
def test_so_they_do_whatever_the_sizes_of_slices_are(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some things are done at once then, while others take several turns."""
    chance = Random(seed)
    monkeypatch.setattr("server.slices.STEPS_PER_SLICE", chance.choice((1, 4, 16, 40, 100)))
    monkeypatch.setattr("server.ordering.LONG_MULTI_BYTES", chance.choice((0, 60, 200)))
    monkeypatch.setattr("server.txns._LONG_BYTES", chance.choice((0, 100)))
    monkeypatch.setattr("server.watches.TOLD_AT_ONCE_MAX", chance.choice((0, 1, 2, 3)))
    monkeypatch.setattr("server.prepare_txn._FORGOTTEN_AT_ONCE", chance.choice((0, 2, 1000)))
    monkeypatch.setattr("server.read_requests.LISTED_PER_STEP", 1)
    live_through(chance)


def live_through(chance: Random) -> None:
    """Let clients do something, one after the other, and look at what all of them have seen."""
    server = OneServer()
    everyone = [Conversation(server, server.connect()) for _ in range(4)]
    for path in ("/a", "/d"):
        create(everyone[0].client, path)
    everyone[0].client.ask(OpCode.CREATE, CreateRequest("/d/e", b"", (), 0))
    for _ in range(120):
        take_step(chance, server, everyone)
    server.settle()
    for each in everyone:
        each.listen()
    server.settle()
    for each in everyone:
        each.listen()
    after = states(server.sink.payloads)
    for each in everyone:
        Listener(each, after).check()
    assert server.tree.digest == server.tree.compute_digest()
    assert not server.pipeline.preparer.pending
    assert_watches_agree(server, everyone)


def assert_watches_agree(server: OneServer, everyone: list[Conversation]) -> None:
    """What connections know of their watches is what the tables say, and nobody is there who has left."""
    watches = server.pipeline.watches
    for table, name in ((watches.data_once, "data_once"), (watches.child_once, "child_once")):
        in_table = {(path, watcher) for path, watchers in table.items() for watcher in watchers}
        connections = [each.client.connection for each in everyone]
        assert in_table == {(path, one) for one in connections for path in getattr(one.watched, name)}
    assert not watches.untold
    assert not watches.dropped
