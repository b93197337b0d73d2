"""Transactions applied to a tree: live, replayed over a snapshot, and replayed twice."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jute.errors import NodeExists, NoNode
from server.acls import OPEN_ACL
from server.apply_txn import apply_txn
from server.data_tree import DataTree
from server.txns import (
    CLOSE_SESSION,
    CREATE,
    CREATE2,
    CREATE_SESSION,
    DELETE,
    ERROR,
    MULTI,
    SET_ACL,
    SET_DATA,
    Txn,
    decode_txn,
)
from server.watches import WatchedPaths, Watches
from tests.server.busy_server import BusyServer
from tests.server.request_strategies import Step, write_steps
from tests.server.tree_checks import assert_same, assert_sound, stat_of

SESSION = 7

Node = tuple[bytes, bytes, int, bytes]


class FuzzySnapshot:
    """A snapshot taken node by node, while the tree goes on changing."""

    def __init__(self, tree: DataTree) -> None:
        self.zxid = tree.last_zxid
        self._sessions = tree.snapshot_sessions()
        self._acls = tree.snapshot_acls()
        self._source: Iterator[Node] = tree.snapshot_nodes(self._acls, self.zxid)
        self._nodes: list[Node] = []

    def take(self, count: int) -> None:
        self._nodes += [node for _, node in zip(range(count), self._source, strict=False)]

    def restored(self) -> DataTree:
        self._nodes += self._source
        tree = DataTree(extended_types=True)
        tree.restore_sessions(self._sessions)
        tree.restore_acls(self._acls)
        tree.restore_nodes(self._nodes)
        tree.last_zxid = self.zxid
        return tree


Meanwhile = list[tuple[int, list[Step]]]  # by turns: so many nodes are saved, then something is done
MEANWHILE = st.lists(st.tuples(st.integers(0, 5), write_steps(150)), min_size=1, max_size=5)


@settings(max_examples=100)
@given(write_steps(), MEANWHILE)
def test_replaying_a_suffix_twice_changes_nothing(before: list[Step], meanwhile: Meanwhile) -> None:
    """A snapshot saved while the tree changed, and the log since its zxid, give the tree, however often."""
    live, restored, suffix = saved_under_load(BusyServer(), before, meanwhile)
    for _ in range(2):
        for txn in suffix:
            apply_txn(restored, txn)
        assert_same(restored, live)
        assert_sound(restored)
        assert restored.digest == restored.compute_digest()


@settings(max_examples=40)
@given(write_steps(), MEANWHILE)
def test_logs_that_do_not_list_ephemerals_give_the_same_nodes(
    before: list[Step], meanwhile: Meanwhile
) -> None:
    """Of an ephemeral that was gone when its turn to be saved came, an old closeSession does not tell: then
    its parent's pzxid lags, or its successor gets its data. But no node is lost, left over or orphaned."""
    live, restored, suffix = saved_under_load(BusyServer(lists_ephemerals=False), before, meanwhile)
    for txn in suffix:
        apply_txn(restored, txn)
    assert_sound(restored)
    assert restored.bodies.keys() == live.bodies.keys()
    assert restored.creates == live.creates
    assert restored.owners == live.owners
    assert restored.ephemerals.keys() == live.ephemerals.keys()


def saved_under_load(
    server: BusyServer, before: list[Step], meanwhile: Meanwhile
) -> tuple[DataTree, DataTree, list[Txn]]:
    """The tree as it is in the end, as its snapshot gives it, and the transactions to replay over that."""
    for step in before:
        server.take(step)
    snapshot = FuzzySnapshot(server.tree)
    for nodes, done in meanwhile:
        snapshot.take(nodes)
        for step in done:
            server.take(step)
    server.settle()
    txns = map(decode_txn, server.sink.payloads)
    return server.tree, snapshot.restored(), [txn for txn in txns if txn.zxid > snapshot.zxid]


def created(path: bytes, zxid: int, *, type_: int = CREATE, parent_cversion: int = -1) -> Txn:
    return Txn(SESSION, 1, zxid, 1, type_, (path, b"\0\0\0\0", OPEN_ACL, 0, parent_cversion), None)


def deleted(path: bytes, zxid: int) -> Txn:
    return Txn(SESSION, 1, zxid, 1, DELETE, (path,), None)


def test_a_node_that_came_back_is_not_saved_without_its_parent() -> None:
    """Its parent was gone at its own turn: the log brings both."""
    live = DataTree()
    for zxid, path in enumerate([b"/p", b"/between", b"/p/c"], 1):
        apply_txn(live, created(path, zxid))
    snapshot = FuzzySnapshot(live)
    snapshot.take(4)  # what always exists
    meanwhile = [deleted(b"/p/c", 4), deleted(b"/p", 5)]
    for txn in meanwhile:
        apply_txn(live, txn)
    snapshot.take(1)
    meanwhile += [created(b"/p", 6), created(b"/p/c", 7)]
    for txn in meanwhile[2:]:
        apply_txn(live, txn)
    restored = snapshot.restored()
    assert b"/between" in restored.bodies
    assert b"/p/c" not in restored.bodies
    for txn in meanwhile:
        apply_txn(restored, txn)
    assert_same(restored, live)


def test_what_was_created_since_is_left_to_the_log() -> None:
    """Apache's replay of the delete in between would take the new node for the old one, and then not tell it
    of the child that is there already: the child would be lost."""
    live = DataTree()
    apply_txn(live, created(b"/p", 1))
    snapshot = FuzzySnapshot(live)
    meanwhile = [
        deleted(b"/p", 2),
        created(b"/p", 3, parent_cversion=3),
        created(b"/p/c", 4, parent_cversion=1),
        created(b"/q", 5, parent_cversion=4),
    ]
    for txn in meanwhile:
        apply_txn(live, txn)
    restored = snapshot.restored()
    assert restored.bodies.keys() == DataTree().bodies.keys()
    for txn in meanwhile:
        apply_txn(restored, txn)
    assert_same(restored, live)


@pytest.mark.parametrize("type_", [CREATE, CREATE2])
def test_a_replayed_create_counts_where_the_parent_was_saved_before_it(type_: int) -> None:
    """The child is there, in a later state of the tree than its parent."""
    tree = DataTree()
    apply_txn(tree, created(b"/p", 1))
    apply_txn(tree, created(b"/p/c", 2, parent_cversion=1))
    err, _ = apply_txn(tree, created(b"/p/c", 9, type_=type_, parent_cversion=3))
    assert err == NodeExists.code
    assert tree.creates[b"/p"] == 3
    assert stat_of(tree, b"/p").pzxid == 9
    assert tree.digest == tree.compute_digest()
    apply_txn(tree, created(b"/p/c", 8, type_=type_, parent_cversion=2))
    assert tree.creates[b"/p"] == 3
    assert stat_of(tree, b"/p").pzxid == 9


def test_a_multi_is_applied_whole_before_its_zxid_is_the_last() -> None:
    """A snapshot named by a zxid must hold all up to it; and an error among the parts voids them all."""
    tree = DataTree()
    seen = []

    class Watching:
        watched = WatchedPaths()

        def may_read(self, acl: bytes) -> bool:
            return True

        def notify(self, frame: bytes) -> None:
            seen.append((frame[32:], tree.last_zxid))

    tree.triggers = Watches()
    tree.triggers.add_recursive(b"/", Watching())
    parts = [(CREATE, (path, b"\0\0\0\0", OPEN_ACL, 0, -1)) for path in (b"/a", b"/a/b")]
    apply_txn(tree, Txn(SESSION, 1, 5, 1, MULTI, parts, None))
    assert seen == [(b"/a", 0), (b"/a/b", 0)]
    assert tree.last_zxid == 5

    apply_txn(tree, Txn(SESSION, 1, 6, 1, MULTI, [(DELETE, (b"/a/b",)), (ERROR, (-101,))], None))
    assert b"/a/b" in tree.bodies
    assert tree.last_zxid == 6


def test_the_last_zxid_never_goes_back() -> None:
    """Replaying older transactions over a newer snapshot leaves its zxid."""
    tree = DataTree()
    apply_txn(tree, created(b"/a", 9))
    apply_txn(tree, created(b"/b", 3))
    assert tree.last_zxid == 9


@pytest.mark.parametrize("type_", [SET_DATA, DELETE, SET_ACL])
def test_changing_what_is_gone_is_an_answer_not_an_accident(type_: int) -> None:
    """In a replay it is expected; nothing but the parent's pzxid changes."""
    tree = DataTree()
    before = dict(tree.bodies)
    args = (b"/gone",) if type_ == DELETE else (b"/gone", b"\0\0\0\0", 1)
    err, body = apply_txn(tree, Txn(SESSION, 1, 4, 1, type_, args, None))
    assert (err, body) == (NoNode.code, b"")
    assert before.keys() == tree.bodies.keys()
    assert tree.digest == tree.compute_digest()


def test_a_closed_session_takes_what_its_transaction_names_and_what_it_owns() -> None:
    """Named ones first; what is already gone does not stop it."""
    tree = DataTree()
    apply_txn(tree, Txn(SESSION, 1, 1, 1, CREATE_SESSION, (4000,), None))
    for zxid, path in enumerate([b"/a", b"/b", b"/c"], 2):
        apply_txn(tree, Txn(SESSION, 1, zxid, 1, CREATE, (path, b"\0\0\0\0", OPEN_ACL, SESSION, -1), None))
    apply_txn(tree, Txn(SESSION, 1, 9, 1, CLOSE_SESSION, ([b"/gone", b"/b", b"/missing/x"],), None))
    assert tree.bodies.keys() == DataTree().bodies.keys()
    assert tree.ephemerals == {}
    assert tree.session_timeouts_ms == {}
    assert stat_of(tree, b"/").pzxid == 9
    assert_sound(tree)
