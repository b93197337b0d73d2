"""The tree itself: what is restored, what is counted, what is remembered."""

import pytest

from jute.client_records import StatPersisted
from jute.errors import NodeExists, NoNode
from jute.record import encode
from persistence.errors import CorruptSnapshot
from server.acls import CLOSED_ACL, OPEN_ACL, READ_ACL
from server.data_tree import CREATES_MAX, DataTree, node_digest, wrap32
from server.txns import CONTAINER_OWNER, TTL_OWNER
from tests.server.tree_checks import assert_same, assert_sound, stat_of

EMPTY = b"\0\0\0\0"
SESSION = 0x100000000000007

Node = tuple[bytes, bytes, int, bytes]


def saved(path: bytes, *, cversion: int = 0, owner: int = 0, acl: int = -1, data: bytes = EMPTY) -> Node:
    """A node as a snapshot holds it."""
    return path, data, acl, encode(StatPersisted(1, 2, 3, 4, 5, cversion, 6, owner, 7))


def restored(*nodes: Node, acls: dict[int, bytes] | None = None, extended_types: bool = False) -> DataTree:
    tree = DataTree(extended_types=extended_types)
    tree.restore_sessions([])
    tree.restore_acls((acls or {}).items())
    tree.restore_nodes(nodes)
    return tree


def test_a_tree_begins_with_what_always_exists() -> None:
    """Four nodes, and the root once more for those who count as the original does."""
    tree = DataTree()
    assert list(tree.bodies) == [b"/", b"/zookeeper", b"/zookeeper/quota", b"/zookeeper/config"]
    assert tree.node_count == 5
    assert tree.approximate_data_bytes == 44
    assert_sound(tree)


def test_the_size_counts_characters_of_paths_as_java_does() -> None:
    """Not bytes; one beyond the first 65536 counts twice. And a deleted node counts no more."""
    tree = DataTree()
    before = tree.approximate_data_bytes
    for path in ("/ascii", "/\u00e4\u20ac", "/\U0001f418"):
        tree.create(path.encode(), b"\0\0\0\3abc", OPEN_ACL, 0, -1, 1, 1)
    assert tree.approximate_data_bytes - before == (6 + 3) + (3 + 3) + (3 + 3)
    assert_sound(tree)
    tree.delete("/\u00e4\u20ac".encode(), 2)
    assert tree.approximate_data_bytes - before == (6 + 3) + (3 + 3)


def test_restored_nodes_are_as_they_were_saved() -> None:
    """Counters of children come back with the children; unknown ACLs let nobody in."""
    tree = restored(
        saved(b"/", cversion=3),
        saved(b"/a", cversion=9, acl=5, data=b"\0\0\0\2xy"),
        saved(b"/a/e", owner=SESSION),
        saved(b"/c", owner=CONTAINER_OWNER),
        saved(b"/n", acl=99, data=b"\xff" * 4),
        acls={5: READ_ACL},
    )
    assert_sound(tree)
    assert (stat_of(tree, b"/").cversion, stat_of(tree, b"/").num_children) == (3, 3)
    assert (stat_of(tree, b"/a").cversion, stat_of(tree, b"/a").data_length) == (17, 2)
    assert tree.acls == {b"/a": READ_ACL, b"/n": CLOSED_ACL}
    assert tree.ephemerals == {SESSION: {b"/a/e": None}}
    assert tree.owners == {b"/c": CONTAINER_OWNER}
    stat = stat_of(tree, b"/a")
    assert (stat.czxid, stat.mzxid, stat.ctime, stat.mtime, stat.version) == (1, 2, 3, 4, 5)
    assert (stat.aversion, stat.pzxid) == (6, 7)


def test_what_was_saved_is_saved_again() -> None:
    """Node by node, in an order that a restore accepts."""
    nodes = [saved(b"/", cversion=2), saved(b"/a", cversion=1), saved(b"/a/b", owner=SESSION), saved(b"/c")]
    tree = restored(*nodes)
    assert list(tree.snapshot_nodes(tree.snapshot_acls(), zxid=1)) == nodes
    assert tree.snapshot_digest() == (0, tree.digest)


@pytest.mark.parametrize(
    "nodes",
    [
        [saved(b"/"), saved(b"/a/b"), saved(b"/a")],
        [saved(b"/"), saved(b"/a/b")],
        [saved(b"/a"), saved(b"/")],
        [saved(b"/"), saved(b"a")],
        [],
    ],
)
def test_a_node_without_its_parent_in_front_is_a_corrupt_snapshot(nodes: list[Node]) -> None:
    """So an older snapshot is tried, rather than a tree with a hole served."""
    with pytest.raises(CorruptSnapshot):
        restored(*nodes)


def test_restoring_forgets_everything_before() -> None:
    """Also what was only remembered, such as lists of children."""
    tree = DataTree()
    tree.create(b"/old", EMPTY, READ_ACL, SESSION, 1, 1, 1)
    tree.create(b"/kept", EMPTY, OPEN_ACL, 0, 2, 2, 1)
    tree.create(b"/kept/child", EMPTY, OPEN_ACL, 0, 1, 3, 1)
    tree.create(b"/zookeeper/quota/kept", EMPTY, OPEN_ACL, 0, 1, 4, 1)
    tree.create(b"/zookeeper/quota/kept/zookeeper_limits", EMPTY, OPEN_ACL, 0, 1, 5, 1)
    tree.encoded_children(b"/kept")
    tree.session_timeouts_ms[SESSION] = 5
    nodes = [saved(b"/"), saved(b"/kept")]
    tree.restore_sessions([(1, 2)])
    tree.restore_acls([])
    tree.restore_nodes(nodes)
    assert_sound(tree)
    fresh = restored(*nodes)
    fresh.session_timeouts_ms[1] = 2
    fresh.last_zxid = tree.last_zxid
    assert_same(tree, fresh)


def test_quotas_are_found_again() -> None:
    """And their usage is counted anew, whatever the snapshot says of it."""
    tree = restored(
        saved(b"/"),
        saved(b"/q", data=b"\0\0\0\2xy"),
        saved(b"/q/a", data=b"\0\0\0\3abc"),
        saved(b"/zookeeper"),
        saved(b"/zookeeper/quota"),
        saved(b"/zookeeper/quota/zookeeper_limits"),
        saved(b"/zookeeper/quota/q"),
        saved(b"/zookeeper/quota/q/zookeeper_limits", data=b"\0\0\0\7count=9"),
        saved(b"/zookeeper/quota/q/zookeeper_stats", data=b"\0\0\0\4junk"),
    )
    assert tree.quotas.paths == {b"/q"}
    assert tree.bodies[b"/zookeeper/quota/q/zookeeper_stats"][4:-68] == b"count=2,bytes=5"
    assert_sound(tree)


def test_a_delete_over_a_later_state_takes_what_is_below() -> None:
    """Only a replay meets that: the log will create it again."""
    tree = DataTree()
    for number, path in enumerate([b"/a", b"/a/b", b"/a/b/c", b"/a/d", b"/e"], 1):
        tree.create(path, EMPTY, READ_ACL, 0, -1, number, 1)
    tree.delete(b"/a", 9)
    assert set(tree.bodies) == {*DataTree().bodies, b"/e"}
    assert_sound(tree)
    assert tree.digest == tree.compute_digest()


def test_deleting_what_is_gone_still_raises_the_parents_pzxid() -> None:
    """The snapshot may have been taken in between."""
    tree = DataTree()
    tree.create(b"/a", EMPTY, OPEN_ACL, 0, 1, 1, 1)
    with pytest.raises(NoNode):
        tree.delete(b"/a/b", 8)
    assert stat_of(tree, b"/a").pzxid == 8
    with pytest.raises(NoNode):
        tree.delete(b"/a/b", 5)
    assert stat_of(tree, b"/a").pzxid == 8
    with pytest.raises(NoNode):
        tree.delete(b"/missing/b", 9)
    assert tree.digest == tree.compute_digest()


def test_creating_what_is_there_renews_its_acl_alone() -> None:
    """A later ACL comes with its own transaction."""
    tree = DataTree()
    tree.create(b"/a", b"\0\0\0\1x", OPEN_ACL, 0, 1, 1, 1)
    body = tree.bodies[b"/a"]
    with pytest.raises(NodeExists):
        tree.create(b"/a", EMPTY, READ_ACL, 0, 1, 1, 1)
    assert tree.bodies[b"/a"] == body
    assert tree.acls[b"/a"] == READ_ACL
    with pytest.raises(NodeExists):
        tree.create(b"/a", EMPTY, OPEN_ACL, 0, 1, 1, 1)
    assert b"/a" not in tree.acls


@pytest.mark.parametrize(
    ("stored", "parent_cversion", "then"),
    [
        (5, 6, 6),
        (5, 5, 5),
        (5, 4, 5),
        (5, -1, 6),
        (-3, -2, -2),
        (CREATES_MAX, -(1 << 31), CREATES_MAX),
        (-2, -1, -1),
    ],
)
def test_the_count_of_creates_only_grows(stored: int, parent_cversion: int, then: int) -> None:
    """And pzxid with it: a replayed create that was counted before changes neither."""
    tree = restored(saved(b"/"), saved(b"/a", cversion=stored))
    tree.create(b"/a/b", EMPTY, OPEN_ACL, 0, parent_cversion, 50, 1)
    assert tree.creates[b"/a"] == then
    assert stat_of(tree, b"/a").cversion == wrap32(2 * then - 1)
    assert stat_of(tree, b"/a").pzxid == (50 if then != stored else 7)
    assert tree.digest == tree.compute_digest()


def test_a_stuck_count_stays_stuck_for_logs_of_the_oldest_layout() -> None:
    """They ask for one more than there was, which is none."""
    tree = restored(saved(b"/"), saved(b"/a", cversion=CREATES_MAX))
    tree.create(b"/a/b", EMPTY, OPEN_ACL, 0, -1, 50, 1)
    assert tree.creates[b"/a"] == CREATES_MAX
    assert tree.digest == tree.compute_digest()


@pytest.mark.parametrize(
    ("owner", "extended", "emulated", "is_session", "ttl_ms"),
    [
        (0, True, False, False, None),
        (SESSION, True, False, True, None),
        (CONTAINER_OWNER, False, False, False, None),
        (CONTAINER_OWNER, True, True, False, None),
        (TTL_OWNER | 1000, True, False, False, 1000),
        (TTL_OWNER | 1000, False, False, True, None),
        (-(1 << 63) | 1000, True, False, True, None),
        (-(1 << 63) | 1000, True, True, False, 1000),
        (-(1 << 63) | 1000, False, True, True, None),
    ],
)
def test_what_an_owner_stands_for(
    owner: int, extended: bool, emulated: bool, is_session: bool, ttl_ms: int | None
) -> None:
    """A session, a container or a time to live, which depends on what is switched on."""
    tree = DataTree(extended_types=extended, emulate_353_ttl=emulated)
    assert tree.is_ephemeral_owner(owner) == is_session
    assert tree.ttl_of(owner) == ttl_ms


def test_the_digest_covers_a_node_and_its_name_but_not_its_acl() -> None:
    """Of the root the name is empty; below /zookeeper nothing counts."""
    tree = DataTree()
    tree.create(b"/a", EMPTY, OPEN_ACL, 0, 1, 1, 1)
    before = tree.digest
    tree.acls[b"/a"] = READ_ACL
    assert tree.compute_digest() == before
    body = tree.bodies[b"/a"]
    assert node_digest(b"/a", body, 0) != node_digest(b"/b", body, 0)
    assert node_digest(b"/", body, 0) == node_digest(b"", body, 0)
    assert node_digest(b"/a", body, 0) != node_digest(b"/a", body, 1)
    assert node_digest(b"/a", body, 0) != node_digest(b"/a", body, 0, CONTAINER_OWNER)
    assert node_digest(b"/zookeeper/x", body, 0) == 0
    assert node_digest(b"/zookeeperx", body, 0) != 0


def test_children_are_remembered_within_bounds() -> None:
    """A new list pushes out the others once together they are too large; leaves take no room at all."""
    tree, long_name = DataTree(), b"x" * (1 << 20)
    for number in range(20):
        tree.create(b"/%d" % number, EMPTY, OPEN_ACL, 0, -1, number + 1, 1)
        tree.create(b"/%d/%b" % (number, long_name), EMPTY, OPEN_ACL, 0, -1, number + 1, 1)
        tree.encoded_children(b"/%d" % number)
        tree.encoded_children(b"/%d/%b" % (number, long_name))
    assert 1 <= len(tree._child_lists) < 16
    assert_sound(tree)
