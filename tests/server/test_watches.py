"""Watches against a model that keeps them as the original does: two tables, with a set of modes in each."""

from collections.abc import Callable
from struct import unpack_from

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jute.errors import MarshallingError, NoWatcher
from server.acls import OPEN_ACL
from server.data_tree import NODE_CHILDREN_CHANGED, NODE_CREATED, NODE_DATA_CHANGED, NODE_DELETED
from server.paths import parent_of
from server.watches import WatchedPaths, Watches

STANDARD, PERSISTENT, RECURSIVE = 1, 2, 4
PATHS = [b"/", b"/a", b"/a/b", b"/a/b/c", b"/d"]

Told = tuple[int, bytes]  # event and path


class Ear:
    """A connection that remembers what it is told."""

    def __init__(self, name: str = "", *, reads: bool = True) -> None:
        self.name = name
        self.watched = WatchedPaths()
        self.heard: list[Told] = []
        self._reads = reads

    def may_read(self, acl: bytes) -> bool:
        return self._reads

    def notify(self, frame: bytes) -> None:
        length, xid, zxid, err, event, state, path_length = unpack_from(">iiqiiii", frame)
        assert (length, xid, zxid, err, state) == (len(frame) - 4, -1, 5, 0, 3)
        assert path_length == len(frame) - 32
        self.heard.append((event, frame[32:]))


class Model:
    """The original's two tables: path -> connection -> modes."""

    def __init__(self) -> None:
        self.data: dict[bytes, dict[Ear, int]] = {}
        self.child: dict[bytes, dict[Ear, int]] = {}

    def add(self, path: bytes, ear: Ear, mode: int, *, data: bool, child: bool) -> None:
        for table, is_meant in ((self.data, data), (self.child, child)):
            if is_meant:
                modes = table.setdefault(path, {})
                modes[ear] = modes.get(ear, 0) | mode

    def trigger(
        self, table: dict[bytes, dict[Ear, int]], path: bytes, event: int, suppressed: set[Ear]
    ) -> tuple[set[Ear], dict[Ear, Told]]:
        """Whom a look-up matches, and who of them is told."""
        matched = set()
        at: bytes | None = path
        while at is not None:
            for ear, modes in list(table.get(at, {}).items()):
                if at == path:
                    matched.add(ear)
                    table[at][ear] = modes & ~STANDARD
                    if not table[at][ear]:
                        del table[at][ear]
                elif modes & RECURSIVE:
                    matched.add(ear)
            at = None if at == b"/" else parent_of(at)
        return matched, dict.fromkeys(matched - suppressed, (event, path))

    def remove(self, path: bytes, kind: int, ear: Ear) -> bool:
        masks = {
            1: (0, STANDARD),
            2: (STANDARD, 0),
            3: (7, 7),
            4: (PERSISTENT, PERSISTENT),
            5: (RECURSIVE, 0),
        }
        removed = False
        for table, mask in zip((self.data, self.child), masks[kind], strict=True):
            modes = table.get(path, {}).get(ear, 0)
            if modes & mask:
                removed = True
                table[path][ear] = modes & ~mask
                if not table[path][ear]:
                    del table[path][ear]
        return removed

    def contains(self, path: bytes, kind: int, ear: Ear) -> bool:
        data, child = self.data.get(path, {}).get(ear, 0), self.child.get(path, {}).get(ear, 0)
        return bool(
            {
                1: child & STANDARD,
                2: data & STANDARD,
                3: data | child,
                4: data & PERSISTENT,
                5: data & RECURSIVE,
            }[kind]
        )

    def forget(self, ear: Ear) -> None:
        for table in (self.data, self.child):
            for modes in table.values():
                modes.pop(ear, None)


ACTIONS = [
    "data",
    "child",
    "persistent",
    "recursive",
    "created",
    "changed",
    "deleted",
    "remove",
    "check",
    "drop",
]
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.sampled_from(PATHS), st.integers(0, 2), st.integers(1, 5)),
    max_size=60,
)


@settings(max_examples=200)
@given(STEPS)
def test_watches_are_told_what_the_original_tells(steps: list[tuple[str, bytes, int, int]]) -> None:
    """Every mode on every path, set, fired, removed and checked in any order."""
    watches, model = Watches(), Model()
    ears = [Ear("A"), Ear("B"), Ear("C")]
    for action, path, who, kind in steps:
        expected = _step(watches, model, action, path, ears[who], kind)
        for ear in ears:
            told = [each[ear] for each in expected if ear in each]
            assert ear.heard == told
            ear.heard.clear()
    for table in (watches.data_once, watches.child_once, watches.persistent, watches.recursive):
        assert all(table.values())
    assert sum(ear.watched.count() for ear in ears) == sum(
        len(modes) for table in (model.data, model.child) for modes in table.values()
    )


def _step(
    watches: Watches, model: Model, action: str, path: bytes, ear: Ear, kind: int
) -> list[dict[Ear, Told]]:
    """Do the same to both; returns who is told what, look-up by look-up."""
    if action == "data":
        watches.watch_data(path, ear)
        model.add(path, ear, STANDARD, data=True, child=False)
    elif action == "child":
        watches.watch_children(path, ear)
        model.add(path, ear, STANDARD, data=False, child=True)
    elif action == "persistent":
        watches.add_persistent(path, ear)
        model.add(path, ear, PERSISTENT, data=True, child=True)
    elif action == "recursive":
        watches.add_recursive(path, ear)
        model.add(path, ear, RECURSIVE, data=True, child=False)
    elif action == "remove":
        assert _succeeds(watches.remove, path, kind, ear) == model.remove(path, kind, ear)
    elif action == "check":
        assert _succeeds(watches.check, path, kind, ear) == model.contains(path, kind, ear)
    elif action == "drop":
        watches.drop_watcher(ear, 100)
        model.forget(ear)
        assert len(ear.watched) == 0
    else:
        return _fire(watches, model, action, path)
    return []


def _succeeds(ask: Callable[[bytes, int, Ear], None], path: bytes, kind: int, ear: Ear) -> bool:
    try:
        ask(path, kind, ear)
    except NoWatcher:
        return False
    return True


def _fire(watches: Watches, model: Model, action: str, path: bytes) -> list[dict[Ear, Told]]:
    parent = parent_of(path)
    if action == "changed":
        watches.trigger_data(path, NODE_DATA_CHANGED, 5, OPEN_ACL)
        return [model.trigger(model.data, path, NODE_DATA_CHANGED, set())[1]]
    if action == "created":
        watches.trigger_data(path, NODE_CREATED, 5, OPEN_ACL)
        watches.trigger_child(parent, NODE_CHILDREN_CHANGED, 5, OPEN_ACL)
        return [
            model.trigger(model.data, path, NODE_CREATED, set())[1],
            model.trigger(model.child, parent, NODE_CHILDREN_CHANGED, set())[1],
        ]
    told = watches.trigger_data(path, NODE_DELETED, 5, OPEN_ACL)
    watches.trigger_child(path, NODE_DELETED, 5, OPEN_ACL, told)
    watches.trigger_child(parent, NODE_CHILDREN_CHANGED, 5, OPEN_ACL)
    matched, deleted = model.trigger(model.data, path, NODE_DELETED, set())
    return [
        deleted,
        model.trigger(model.child, path, NODE_DELETED, matched)[1],
        model.trigger(model.child, parent, NODE_CHILDREN_CHANGED, set())[1],
    ]


def test_watchers_are_told_in_the_order_they_asked() -> None:
    """Otherwise no run of a whole server could be repeated."""
    watches, order = Watches(), list[str]()

    class Named(Ear):
        def notify(self, frame: bytes) -> None:
            order.append(self.name)

    ears = [Named(str(number)) for number in range(50)]
    for ear in ears:
        watches.watch_data(b"/a", ear)
    for ear in reversed(ears):
        watches.add_persistent(b"/a", ear)
    watches.trigger_data(b"/a", NODE_DATA_CHANGED, 5, OPEN_ACL)
    assert order == [str(number) for number in range(50)]


def test_who_may_not_read_is_not_told_and_its_watch_is_spent() -> None:
    """Nor is it told of the end of the children then: it counts as told."""
    watches, blind = Watches(), Ear(reads=False)
    watches.watch_data(b"/a", blind)
    watches.watch_children(b"/a", blind)
    secret = b"\0\0\0\0"
    told = watches.trigger_data(b"/a", NODE_DELETED, 5, secret)
    watches.trigger_child(b"/a", NODE_DELETED, 5, secret, told)
    assert blind.heard == []
    assert not watches


def test_a_watcher_may_go_while_it_is_told() -> None:
    """A connection that does not read is cut off by the event that is too much for it."""
    watches = Watches()

    class Fainting(Ear):
        def notify(self, frame: bytes) -> None:
            super().notify(frame)
            watches.drop_watcher(self, 100)

    ears = [Fainting(), Fainting(), Fainting()]
    for ear in ears:
        watches.watch_data(b"/a", ear)
        watches.add_persistent(b"/a", ear)
        watches.add_recursive(b"/", ear)
    told = watches.trigger_data(b"/a", NODE_DELETED, 5, OPEN_ACL)
    watches.trigger_child(b"/a", NODE_DELETED, 5, OPEN_ACL, told)
    assert [ear.heard for ear in ears] == [[(NODE_DELETED, b"/a")]] * 3
    assert not watches


@pytest.mark.parametrize("kind", [0, 6, -1])
def test_unknown_kinds_of_watches(kind: int) -> None:
    """Neither checked nor removed: the request is broken."""
    watches, ear = Watches(), Ear()
    with pytest.raises(MarshallingError):
        watches.check(b"/a", kind, ear)
    with pytest.raises(MarshallingError):
        watches.remove(b"/a", kind, ear)


def test_watches_by_path_leave_out_those_of_children() -> None:
    """That is what the words show."""
    watches, ear, other = Watches(), Ear(), Ear()
    watches.watch_data(b"/a", ear)
    watches.add_recursive(b"/a", other)
    watches.add_persistent(b"/b", ear)
    watches.watch_children(b"/c", ear)
    assert {path: list(watches.watchers_of(path)) for path in watches.paths()} == {
        b"/a": [ear, other],
        b"/b": [ear],
    }
    assert watches.count_paths() == 2
    assert (
        ear.watched.count() + other.watched.count() == 5
    )  # a persistent one counts in both of the original's tables
