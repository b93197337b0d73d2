"""Digests, met or missed, while a tree is restored from a snapshot and its log."""

import pytest

from server.acls import OPEN_ACL
from server.apply_txn import apply_txn
from server.data_tree import DataTree
from server.stored_tree import StoredTree
from server.txns import CREATE, Txn
from tests.captured_logs import capture_logs

CREATED = [
    Txn(7, 1, zxid, 1, CREATE, (path, b"\0\0\0\0", OPEN_ACL, 0, 1 + zxid), None)
    for zxid, path in enumerate([b"/a", b"/b", b"/c"], 1)
]


def digest_after(zxid: int) -> int:
    return tree_after(zxid).digest


def tree_after(zxid: int) -> DataTree:
    tree = DataTree()
    for txn in CREATED[:zxid]:
        apply_txn(tree, txn)
    return tree


def missed(*, snapshot_holds: int, snapshot_digest: int, log_digests: list[int]) -> int:
    """How many digests are missed, restoring a snapshot of zxid 0 that has its digest at zxid 1."""
    tree = tree_after(snapshot_holds)
    tree.tracks_digest = True
    stored = StoredTree(tree)
    stored.restore_digest(1, snapshot_digest)
    stored.restored(0)
    for txn, digest in zip(CREATED, log_digests, strict=False):
        apply_txn(tree, txn)
        txn.digest = digest
        stored.check_digest(txn)
    stored.caught_up()
    return stored.digest_mismatches


def right(count: int) -> list[int]:
    return [digest_after(zxid) for zxid in range(1, count + 1)]


@pytest.mark.parametrize("holds", [0, 1])
def test_a_snapshot_leads_to_its_digest(holds: int) -> None:
    assert missed(snapshot_holds=holds, snapshot_digest=digest_after(1), log_digests=right(3)) == 0


def test_a_snapshot_that_holds_the_transaction_behind_its_digest_is_sound() -> None:
    """Apache's server was half-way through it when the digest was taken."""
    assert missed(snapshot_holds=2, snapshot_digest=digest_after(1), log_digests=right(3)) == 0


def test_a_digest_that_nothing_behind_it_explains_is_missed() -> None:
    """Because the next transaction misses its own, or because there is none."""
    wrong = digest_after(1) ^ 1
    assert missed(snapshot_holds=0, snapshot_digest=wrong, log_digests=right(1)) == 1
    assert missed(snapshot_holds=0, snapshot_digest=wrong, log_digests=[right(1)[0], 5]) == 2


def met_after_stream(*, is_settled: bool, digests: list[int]) -> StoredTree:
    """A tree that a leader sent, which lacks /a; then the digests of the transactions behind it."""
    stored = StoredTree(DataTree())
    stored.reset()
    stored.end_stream(1)
    if is_settled:
        stored.settled()
    for txn, digest in zip(CREATED[1:], digests, strict=True):
        apply_txn(stored.tree, txn)
        txn.digest = digest
        stored.check_digest(txn)
    return stored


def test_a_damaged_tree_that_a_leader_sent_is_noticed_with_the_next_transaction() -> None:
    """Once all that got into the stream while it was sent is applied; before, no digest describes it."""
    assert met_after_stream(is_settled=False, digests=right(3)[1:]).digest_mismatches == 0
    assert met_after_stream(is_settled=True, digests=right(3)[1:]).digest_mismatches == 2


def test_mismatches_are_logged_again_and_again_but_ever_more_rarely() -> None:
    stored = StoredTree(DataTree())
    stored.tree.tracks_digest = True
    with capture_logs() as lines:
        for _ in range(100):
            stored.check_digest(Txn(7, 1, 9, 1, CREATE, (), 5))
    assert stored.digest_mismatches == 100
    assert [line["count"] for line in lines] == [1, 2, 4, 8, 16, 32, 64]
