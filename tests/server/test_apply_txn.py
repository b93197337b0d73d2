"""Transactions applied to a tree: live, replayed over a snapshot, and replayed twice."""

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from server.apply_txn import apply_txn
from server.data_tree import DataTree
from server.txns import Txn, decode_txn
from tests.server.busy_server import BusyServer
from tests.server.request_strategies import Step, write_steps
from tests.server.tree_checks import assert_same, assert_sound

Node = tuple[bytes, bytes, int, bytes]


class FuzzySnapshot:
    """A snapshot taken node by node, while the tree goes on changing."""

    def __init__(self, tree: DataTree) -> None:
        self.zxid = tree.last_zxid
        self._sessions = tree.snapshot_sessions()
        self._acls = tree.snapshot_acls()
        self._source: Iterator[Node] = tree.snapshot_nodes()
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
