"""What killing servers, and exchanging their data directories with Apache's, has brought to light."""

from server.acls import CLOSED_ACL, encode_acl
from server.data_tree import DataTree
from server.paths import ROOT
from server.stored_tree import StoredTree

EMPTY = b"\x00\x00\x00\x00"
NEW_ACL = encode_acl([(31, "digest", "someone:hash")])


def test_a_snapshot_never_refers_to_an_acl_that_is_not_in_its_table() -> None:
    """Apache refuses to start from one that does, so what comes too late for the table has a stand-in."""
    tree = DataTree()
    tree.create(b"/a", EMPTY, CLOSED_ACL, 0, 1, zxid=1, time_ms=0)
    tree.create(b"/b", EMPTY, CLOSED_ACL, 0, 2, zxid=2, time_ms=0)
    tree.last_zxid = 2
    view = StoredTree(tree).view()
    told = dict(view.snapshot_acls())
    nodes = view.snapshot_nodes()
    assert next(nodes)[0] == ROOT
    tree.set_acl(b"/a", NEW_ACL, 1)
    tree.set_acl(b"/b", encode_acl([(1, "world", "anyone"), (31, "digest", "other:hash")]), 1)
    acls = {path: told.get(acl_id) for path, _, acl_id, _ in nodes if acl_id != -1}
    assert acls[b"/a"] == CLOSED_ACL
    assert acls[b"/b"] == CLOSED_ACL
    assert None not in acls.values()
