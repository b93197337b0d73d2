"""What must hold of every tree, whatever was done to it, and when two trees are the same."""

from jute.client_records import Stat
from jute.record import decode
from server.acl_index import entries_of
from server.acls import OPEN_ACL
from server.data_tree import STAT_BYTES, DataTree, data_length_of, wrap32
from server.paths import QUOTA, ROOT, parent_of
from server.quotas import LIMITS, STATS


def stat_of(tree: DataTree, path: bytes) -> Stat:
    return decode(Stat, tree.bodies[path][-STAT_BYTES:])[0]


def assert_sound(tree: DataTree) -> None:
    """The invariants of data_tree.py, each recounted from nothing."""
    _assert_parents_come_first(tree)
    _assert_stats_agree_with_tables(tree)
    _assert_tables_hold_nothing_dead(tree)
    _assert_children_are_listed(tree)
    _assert_kept_counts_are_what_a_walk_finds(tree)
    root_data = stat_of(tree, ROOT).data_length
    others = sum(characters(path) + stat_of(tree, path).data_length for path in tree.bodies if path != ROOT)
    assert tree.data_bytes == root_data + others
    limits = {path for path in tree.bodies if path.startswith(QUOTA) and path.endswith(b"/" + LIMITS)}
    assert tree.quotas.paths == {path[len(QUOTA) : -len(LIMITS) - 1] for path in limits} - {b""}


def characters(path: bytes) -> int:
    """As Java counts them."""
    return sum(1 + (ord(character) > 0xFFFF) for character in path.decode("utf-8", "replace"))


def _assert_parents_come_first(tree: DataTree) -> None:
    seen = set()
    for path in tree.bodies:
        if path != ROOT:
            assert parent_of(path) in seen
            assert path in tree.children[parent_of(path)]
        seen.add(path)


def _assert_stats_agree_with_tables(tree: DataTree) -> None:
    owned: dict[int, set[bytes]] = {}
    for path, body in tree.bodies.items():
        stat = stat_of(tree, path)
        length = int.from_bytes(body[:4], "big", signed=True)
        assert len(body) == 4 + max(length, 0) + STAT_BYTES
        assert stat.data_length == max(length, 0)
        assert stat.num_children == len(tree.children.get(path, ()))
        assert stat.cversion == wrap32(2 * tree.creates.get(path, 0) - stat.num_children)
        if stat.ephemeral_owner:
            owned.setdefault(stat.ephemeral_owner, set()).add(path)
            assert not stat.num_children
            assert path not in tree.owners
    assert {session: set(paths) for session, paths in tree.ephemerals.items()} == owned


def _assert_tables_hold_nothing_dead(tree: DataTree) -> None:
    tables = (tree.children, tree.creates, tree.owners, tree.acls)
    assert all(path in tree.bodies for table in tables for path in table)
    assert all(tree.children.values())
    for acl in tree.acls.values():
        assert acl != OPEN_ACL
        assert entries_of(acl) is not None


def _assert_kept_counts_are_what_a_walk_finds(tree: DataTree) -> None:
    for path in tree.bodies:
        prefix = path if path == ROOT else path + b"/"
        below = [each for each in tree.bodies if each != path and each.startswith(prefix)]
        assert tree.descendants_count(path) == len(below)
        data_bytes = sum(data_length_of(tree.bodies[each]) for each in [path, *below])
        assert tree.usage_of(path) == (len(below) + 1, data_bytes)
    assert all(tree._nodes_below.values())
    assert all(tree._bytes_below.values())
    assert tree._nodes_below.keys() == tree.children.keys()
    assert tree._bytes_below.keys() <= tree.children.keys()


def _assert_children_are_listed(tree: DataTree) -> None:
    """What getChildren answers, remembered or not, is what is there."""
    for path in tree.bodies:
        names = [child[len(path.rstrip(b"/")) + 1 :] for child in tree.children.get(path, ())]
        encoded = len(names).to_bytes(4, "big") + b"".join(
            len(name).to_bytes(4, "big") + name for name in names
        )
        assert tree.encoded_children(path) == encoded


def assert_same(tree: DataTree, other: DataTree) -> None:
    """Two servers with these trees answer alike, but for the order of children and the usage of quotas."""
    assert _without_usage(tree) == _without_usage(other)
    assert _as_sets(tree.children) == _as_sets(other.children)
    assert tree.creates == other.creates
    assert tree.owners == other.owners
    assert tree.acls == other.acls
    assert tree.session_timeouts_ms == other.session_timeouts_ms
    assert tree.quotas.paths == other.quotas.paths
    assert tree.last_zxid == other.last_zxid
    assert tree.compute_digest() == other.compute_digest()


def _without_usage(tree: DataTree) -> dict[bytes, bytes]:
    return {path: body for path, body in tree.bodies.items() if not path.endswith(b"/" + STATS)}


def _as_sets(children: dict[bytes, dict[bytes, None]]) -> dict[bytes, set[bytes]]:
    return {path: set(kids) for path, kids in children.items()}
