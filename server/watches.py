"""Who is told what about which path.

Four tables, by the way a watch was set. The modes are independent: the same connection may hold all of them
on one path, and firing a one-shot watch leaves the others alone.

    data_once    getData, exists                 fires once, about the node
    child_once   getChildren                     fires once, about its children (or its end)
    persistent   addWatch mode 0                 stays, about both
    recursive    addWatch mode 1                 stays, about every node at or below the path

A watch belongs to a connection and dies with it. One look-up tells a connection at most once, however many of
its watches match. An event is encoded once, however many connections get it, and they get it in the order in
which they asked: a set would make that a matter of chance, and no run of the server could be repeated.

An event for very many is told in slices (`untold`), and so is the end of a connection that watches very much
forgotten (`dropped`). Until everybody is told, no client may be answered: one of them could see the change
before it hears of it. Whoever applies transactions sees to that (pipeline.py).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Set
from struct import Struct
from typing import Final, Protocol

from jute.errors import MarshallingError, NoWatcher
from jute.opcodes import NOTIFICATION_XID, KeeperState, WatcherType
from server.acls import OPEN_ACL
from server.data_tree import (
    NODE_CHILDREN_CHANGED,
    NODE_CREATED,
    NODE_DATA_CHANGED,
    NODE_DELETED,
    DataTree,
    mzxid_of,
    pzxid_of,
)
from server.paths import ROOT, ancestors_or_self, is_at_or_above

_EVENT: Final = Struct(">iiqiiii")
_UNKNOWN_ZXID: Final = -1
_ACL_STEPS: Final = 4  # to judge whether a client may hear of a node that is not open to everyone
_LONG_PATH_BYTES: Final = 512
_JOINED_PER_STEP: Final = 16  # watchers of a node and of those above it
TOLD_AT_ONCE_MAX = 200  # for all that happens in one go


class Watcher(Protocol):
    """A connection, as far as watches are concerned."""

    watched: "WatchedPaths"

    def may_read(self, acl: bytes) -> bool:
        """Whether the events of a node with this ACL may be shown."""

    def notify(self, frame: bytes) -> None:
        """Send an event."""


class WatchedPaths:
    """What one connection watches, so that its end can be cleaned up."""

    __slots__ = ("child_once", "data_once", "persistent", "recursive")

    def __init__(self) -> None:
        self.data_once: set[bytes] = set()
        self.child_once: set[bytes] = set()
        self.persistent: set[bytes] = set()
        self.recursive: set[bytes] = set()

    def of_data(self) -> Iterator[bytes]:
        """All but the children that are watched, as the original counts."""
        once, persistent = self.data_once, self.persistent
        yield from list(once)
        yield from (path for path in list(persistent) if path not in once)
        yield from (path for path in list(self.recursive) if path not in once and path not in persistent)

    def count(self) -> int:
        """As the original counts: nodes that are watched, and nodes whose children are."""
        once, persistent = self.child_once, self.persistent
        return self.count_of_data() + len(once) + len(persistent) - len(persistent & once)

    def count_of_data(self) -> int:
        return _count_of_any(self.data_once, self.persistent, self.recursive)

    def __len__(self) -> int:
        return len(self.data_once) + len(self.child_once) + len(self.persistent) + len(self.recursive)


Watchers = dict[Watcher, None]  # a set that keeps its order
Table = dict[bytes, Watchers]


def encode_event(event: int, path: bytes, zxid: int) -> bytes:
    """A whole notification frame."""
    state = int(KeeperState.SYNC_CONNECTED)
    return _EVENT.pack(28 + len(path), NOTIFICATION_XID, zxid, 0, event, state, len(path)) + path


class Untold:
    """An event, and those who have not been told of it yet.

    If there were `once` watches, of the node or of its children, they are gone; each watcher forgets its own
    when it is told.
    """

    __slots__ = ("acl", "frame", "is_of_children", "once", "path", "watchers")

    def __init__(
        self,
        watchers: Iterator[Watcher],
        path: bytes,
        frame: bytes,
        acl: bytes,
        once: Watchers | None,
        is_of_children: bool,
    ) -> None:
        self.watchers = watchers
        self.path = path
        self.frame = frame
        self.acl = acl
        self.once = once
        self.is_of_children = is_of_children


class Watches:
    """All watches of one server; the tree's Triggers."""

    def __init__(self) -> None:
        self.count_told: Callable[[int, int], object] = _count_nothing  # an event and how many watched for it
        self.data_once: Table = {}
        self.child_once: Table = {}
        self.persistent: Table = {}
        self.recursive: Table = {}
        self.untold: deque[Untold] = deque()
        self._steps = 0
        self.dropped: deque[Watcher] = deque()  # connections that are gone, some of whose watches are not

    # -- firing

    def trigger_data(self, path: bytes, event: int, zxid: int, acl: bytes) -> Watchers | None:
        once = self.data_once.pop(path, None) if self.data_once else None
        told = once
        if self.persistent and path in self.persistent:
            told = self._joined(told, self.persistent[path])
        if self.recursive:
            for above in self._recursive_above(path):
                if above in self.recursive:
                    told = self._joined(told, self.recursive[above])
        if told:
            self._tell(told, event, path, zxid, acl, once, is_of_children=False)
        return told

    def _recursive_above(self, path: bytes) -> Iterable[bytes]:
        """Where a recursive watch may see a change, nearest first. Above a long path there may be very many
        nodes: then it is those that are watched which are looked at, if they are fewer."""
        if len(path) <= _LONG_PATH_BYTES or len(self.recursive) > path.count(b"/"):
            return ancestors_or_self(path)
        return sorted((each for each in self.recursive if is_at_or_above(each, path)), key=len, reverse=True)

    def trigger_child(
        self, path: bytes, event: int, zxid: int, acl: bytes, told: Watchers | None = None
    ) -> None:
        once = self.child_once.pop(path, None) if self.child_once else None
        watchers = once
        if self.persistent and path in self.persistent:
            watchers = self._joined(watchers, self.persistent[path])
        if watchers and told:
            if once:
                self._forget_once(once.keys() & told.keys(), path, is_of_children=True)
            watchers = {watcher: None for watcher in watchers if watcher not in told}
        if watchers:
            self._tell(watchers, event, path, zxid, acl, once, is_of_children=True)

    def _joined(self, some: Watchers | None, others: Watchers) -> Watchers:
        joined = some | others if some else others.copy()
        self._steps += len(joined) // _JOINED_PER_STEP
        return joined

    def _tell(
        self,
        watchers: Watchers,
        event: int,
        path: bytes,
        zxid: int,
        acl: bytes,
        once: Watchers | None,
        *,
        is_of_children: bool,
    ) -> None:
        self.count_told(event, len(watchers))
        frame = encode_event(event, path, zxid)
        if self.untold or self._steps + len(watchers) > TOLD_AT_ONCE_MAX:
            self.untold.append(Untold(iter(watchers), path, frame, acl, once, is_of_children))
            return
        if once:
            self._forget_once(once, path, is_of_children=is_of_children)
        is_open = acl == OPEN_ACL
        self._steps += len(watchers) * (1 if is_open else _ACL_STEPS)
        for watcher in watchers:
            if is_open or watcher.may_read(acl):
                watcher.notify(frame)

    def _forget_once(self, watchers: Iterable[Watcher], path: bytes, *, is_of_children: bool) -> None:
        for watcher in watchers:
            mine = watcher.watched
            (mine.child_once if is_of_children else mine.data_once).discard(path)

    def add_steps(self, steps: int) -> None:
        """To judge whether somebody may be told has taken so many more."""
        self._steps += steps

    def take_steps(self) -> int:
        """What it took to tell at once, since the last time that somebody asked."""
        steps, self._steps = self._steps, 0
        return steps

    def go_on_telling(self, steps_max: int) -> int:
        """Tell some of those who have not been told, oldest events first; returns the steps it took."""
        steps = 0
        while self.untold and steps < steps_max:
            event = self.untold[0]
            acl, frame, is_open = event.acl, event.frame, event.acl == OPEN_ACL
            once, path, is_of_children = event.once, event.path, event.is_of_children
            for watcher in event.watchers:
                if once and watcher in once:
                    mine = watcher.watched
                    (mine.child_once if is_of_children else mine.data_once).discard(path)
                if is_open or watcher.may_read(acl):
                    watcher.notify(frame)
                steps += 1 if is_open else _ACL_STEPS + self.take_steps()
                if steps >= steps_max:
                    break
            else:
                self.untold.popleft()
        return steps

    def is_telling_of(self, path: bytes) -> bool:
        """Whether some may still hear of an event of this node."""
        return any(event.path == path for event in self.untold)

    # -- setting and removing

    def watch_data(self, path: bytes, watcher: Watcher) -> None:
        watcher.watched.data_once.add(path)
        _add(self.data_once, path, watcher)

    def watch_children(self, path: bytes, watcher: Watcher) -> None:
        watcher.watched.child_once.add(path)
        _add(self.child_once, path, watcher)

    def add_persistent(self, path: bytes, watcher: Watcher) -> None:
        watcher.watched.persistent.add(path)
        _add(self.persistent, path, watcher)

    def add_recursive(self, path: bytes, watcher: Watcher) -> None:
        watcher.watched.recursive.add(path)
        _add(self.recursive, path, watcher)

    def remove(self, path: bytes, kind: int, watcher: Watcher) -> None:
        """removeWatches: NoWatcher unless at least one watch of this kind was there."""
        removed = False
        for table, mine in self._of_kind(kind, watcher):
            if path in mine:
                mine.discard(path)
                _discard(table, path, watcher)
                removed = True
        if not removed:
            raise NoWatcher

    def check(self, path: bytes, kind: int, watcher: Watcher) -> None:
        """checkWatches."""
        if not any(path in mine for _, mine in self._of_kind(kind, watcher)):
            raise NoWatcher

    def _of_kind(self, kind: int, watcher: Watcher) -> list[tuple[Table, set[bytes]]]:
        mine = watcher.watched
        every = {
            WatcherType.DATA: [(self.data_once, mine.data_once)],
            WatcherType.CHILDREN: [(self.child_once, mine.child_once)],
            WatcherType.PERSISTENT: [(self.persistent, mine.persistent)],
            WatcherType.PERSISTENT_RECURSIVE: [(self.recursive, mine.recursive)],
        }
        if kind == WatcherType.ANY:
            return [pair for pairs in every.values() for pair in pairs]
        try:
            return every[WatcherType(kind)]
        except ValueError:
            raise MarshallingError(f"watcher type {kind} is unknown") from None

    def drop_watcher(self, watcher: Watcher, steps_max: int) -> int:
        """Forget a connection, unless that takes more steps: then the rest is done by `go_on_dropping`.

        Returns the steps it took.
        """
        if not watcher.watched:
            return 0
        if self.dropped or len(watcher.watched) > steps_max:
            self.dropped.append(watcher)
            return 0
        return self._drop_some(watcher, steps_max)

    def go_on_dropping(self, steps_max: int) -> int:
        """Forget some of what the connections that are gone watched; returns the steps it took."""
        steps = 0
        while self.dropped and steps < steps_max:
            watcher = self.dropped[0]
            steps += self._drop_some(watcher, steps_max - steps)
            if not watcher.watched:
                self.dropped.popleft()
        return steps

    def _drop_some(self, watcher: Watcher, steps_max: int) -> int:
        mine = watcher.watched
        steps = _drop_from(self.data_once, mine.data_once, watcher, steps_max)
        steps += _drop_from(self.child_once, mine.child_once, watcher, steps_max - steps)
        steps += _drop_from(self.persistent, mine.persistent, watcher, steps_max - steps)
        return steps + _drop_from(self.recursive, mine.recursive, watcher, steps_max - steps)

    # -- a client that comes back (setWatches, setWatches2); the empty path is the root, as in reads

    def renew_data(self, tree: DataTree, path: bytes, since_zxid: int, watcher: Watcher) -> None:
        body = tree.bodies.get(path or ROOT)
        if body is None:
            watcher.notify(encode_event(NODE_DELETED, path, _UNKNOWN_ZXID))
        elif mzxid_of(body) > since_zxid:
            watcher.notify(encode_event(NODE_DATA_CHANGED, path, _UNKNOWN_ZXID))
        else:
            self.watch_data(path, watcher)

    def renew_exists(self, tree: DataTree, path: bytes, watcher: Watcher) -> None:
        if (path or ROOT) in tree.bodies:
            watcher.notify(encode_event(NODE_CREATED, path, _UNKNOWN_ZXID))
        else:
            self.watch_data(path, watcher)

    def renew_children(self, tree: DataTree, path: bytes, since_zxid: int, watcher: Watcher) -> None:
        body = tree.bodies.get(path or ROOT)
        if body is None:
            watcher.notify(encode_event(NODE_DELETED, path, _UNKNOWN_ZXID))
        elif pzxid_of(body) > since_zxid:
            watcher.notify(encode_event(NODE_CHILDREN_CHANGED, path, _UNKNOWN_ZXID))
        else:
            self.watch_children(path, watcher)

    def renew(self, tree: DataTree, path: bytes, existed: bool, since_zxid: int, watcher: Watcher) -> None:
        """Watch for what happens since a reader looked, which may have happened already."""
        if existed:
            self.renew_data(tree, path, since_zxid, watcher)
        else:
            self.renew_exists(tree, path, watcher)

    # -- counting, for wchs, wchc, wchp and mntr; child watches are not counted, as in the original

    def paths(self) -> Iterator[bytes]:
        """What is watched now, each path once; what is watched later may be there too."""
        for table, *before in (
            (self.data_once,),
            (self.persistent, self.data_once),
            (self.recursive, self.persistent, self.data_once),
        ):
            for path in list(table):
                if not any(path in other for other in before):
                    yield path

    def watchers_of(self, path: bytes) -> Watchers:
        once, persistent = self.data_once.get(path, {}), self.persistent.get(path, {})
        return once | persistent | self.recursive.get(path, {})

    def count_paths(self) -> int:
        return _count_of_any(self.data_once.keys(), self.persistent.keys(), self.recursive.keys())

    def __bool__(self) -> bool:
        """Whether anything is watched."""
        return bool(self.data_once or self.child_once or self.persistent or self.recursive)


def _count_of_any(one: Set[bytes], two: Set[bytes], three: Set[bytes]) -> int:
    """How many there are in any of the three; what is looked at are the smaller ones."""
    count = len(one) + len(two) + len(three)
    if two or three:
        both = two & three
        count += len(both & one) - len(one & two) - len(one & three) - len(both)
    return count


def _count_nothing(event: int, watchers: int) -> None:
    """Until the server's statistics are there."""


def _add(table: Table, path: bytes, watcher: Watcher) -> None:
    watchers = table.get(path)
    if watchers is None:
        table[path] = {watcher: None}
    else:
        watchers[watcher] = None


def _drop_from(table: Table, mine: set[bytes], watcher: Watcher, steps_max: int) -> int:
    steps = 0
    while mine and steps < steps_max:
        _discard(table, mine.pop(), watcher)
        steps += 1
    return steps


def _discard(table: Table, path: bytes, watcher: Watcher) -> None:
    watchers = table.get(path)
    if watchers is not None:
        watchers.pop(watcher, None)
        if not watchers:
            del table[path]
