"""The watches of one client, and whether they are kept: told of what happens first, once, in time."""

from collections.abc import Callable
from functools import partial

from jute.opcodes import EventType
from tests.sim.checkers import Checker
from tests.sim.model import parent_of

CONFIG = "/zookeeper/config"
UNKNOWN_ZXID = -1  # of an event that a setWatches brings about

NextEvent = Callable[[str, int], tuple[int, EventType] | None]


class WatchBook:
    """By path: up to which zxid nothing had happened that the client was not told."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._data: dict[str, int] = {}
        self._missing: dict[str, int] = {}  # set by an exists that found nothing
        self._children: dict[str, int] = {}
        self._persistent: dict[str, int] = {}  # these two since when: they stay
        self._recursive: dict[str, int] = {}
        self._told_lasting: list[tuple[int, str, EventType]] = []
        self._lasting_checked_zxid = 0
        self._renewing: dict[str, tuple[str, int]] | None = None
        self._told_again: list[tuple[str, EventType]] = []
        self._last_event_zxid = 0

    def __bool__(self) -> bool:
        return bool(self._data or self._missing or self._children or self.is_lasting)

    @property
    def is_lasting(self) -> bool:
        return bool(self._persistent or self._recursive)

    def watch_data(self, path: str, zxid: int) -> None:
        self._data[path] = zxid

    def watch_missing(self, path: str, zxid: int) -> None:
        self._missing[path] = zxid

    def watch_children(self, path: str, zxid: int) -> None:
        self._children[path] = zxid

    def watch_for_good(self, path: str, zxid: int, *, is_recursive: bool) -> None:
        (self._recursive if is_recursive else self._persistent).setdefault(path, zxid)

    def _is_lasting_due(self, zxid: int, path: str, event: EventType) -> bool:
        """Does a watch that stays wait for this?"""
        if self._persistent.get(path, zxid) < zxid:
            return True
        if not self._recursive or event == EventType.NODE_CHILDREN_CHANGED:
            return False
        while self._recursive.get(path, zxid) >= zxid:
            if path == "/":
                return False
            path = parent_of(path)
        return True

    def _tables(self) -> list[tuple[dict[str, int], NextEvent]]:
        history = self._checker.history
        return [
            (self._data, history.data_event_after),
            (self._missing, history.data_event_after),
            (self._children, history.child_event_after),
        ]

    def told(self, client: str, event: EventType, path: str, zxid: int) -> None:
        if zxid == UNKNOWN_ZXID and self._renewing is not None:
            self._told_again.append((path, event))
            return
        if path == CONFIG and "/" in self._recursive:
            return  # each server also writes this node by itself and tells its watchers, as the original's do
        if zxid < self._last_event_zxid:
            self._checker.fail(f"{client} is told of 0x{zxid:x} after 0x{self._last_event_zxid:x}")
        self._last_event_zxid = zxid
        kept = self._is_lasting_due(zxid, path, event)
        if kept:
            self._told_lasting.append((zxid, path, event))
        for watched, next_event in self._tables():
            if path in watched and next_event(path, watched[path]) == (zxid, event):
                del watched[path]
                kept = True
        if not kept:
            self._checker.fail(
                f"{client} is told {event.name} of {path} at 0x{zxid:x}, which it does not wait for: {self}"
            )

    def check_none_missed(self, client: str, zxid: int) -> None:
        """An answer of this zxid arrived: whatever happened up to it must have been told before."""
        if self._renewing is None:
            self._check_lasting(client, zxid)
        for watched, next_event in self._tables():
            for path, since in watched.items():
                due = next_event(path, since)
                if due is not None and due[0] <= zxid and self._renewing is None:
                    self._checker.fail(
                        f"{client} sees 0x{zxid:x} without having been told {due[1].name} of {path} at "
                        f"0x{due[0]:x}; watched since 0x{since:x}"
                    )

    def _check_lasting(self, client: str, zxid: int) -> None:
        """Watches that stay are told everything, and nothing twice; of one transaction in any order."""
        if self.is_lasting:
            happened = self._checker.history.events_between(self._lasting_checked_zxid, zxid)
            due = [each for each in happened if self._is_lasting_due(*each)]
            if sorted(due) != sorted(self._told_lasting):
                self._checker.fail(f"{client} sees 0x{zxid:x}, was told {self._told_lasting}, due was {due}")
        self._told_lasting.clear()
        self._lasting_checked_zxid = zxid

    # -- after a reconnection

    def lasting(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return tuple(self._persistent), tuple(self._recursive)

    def renew(self, since: int) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        self._renewing = {}
        self._told_again = []
        self._last_event_zxid = 0
        return tuple(self._data), tuple(self._missing), tuple(self._children)

    def set_again(self, client: str, zxid: int) -> None:
        """The setWatches was answered: the server told at once what had changed, and watches the rest."""
        self._renewing = None
        for watched in (self._persistent, self._recursive):  # nobody tells them what they missed
            watched.update(dict.fromkeys(watched, zxid))
        self._told_lasting.clear()
        self._lasting_checked_zxid = zxid
        expected = [
            *self._due(self._data, zxid, partial(_data_news, is_missing_watched=False)),
            *self._due(self._missing, zxid, partial(_data_news, is_missing_watched=True)),
            *self._due(self._children, zxid, _child_news),
        ]
        if sorted(expected) != sorted(self._told_again):
            self._checker.fail(
                f"{client} set its watches again at 0x{zxid:x} and was told {self._told_again}, expected was "
                f"{expected}"
            )

    def _due(
        self,
        watched: dict[str, int],
        zxid: int,
        news: Callable[[Checker, str, int, int], EventType | None],
    ) -> list[tuple[str, EventType]]:
        due = []
        for path, since in list(watched.items()):
            event = news(self._checker, path, since, zxid)
            if event is None:
                watched[path] = zxid
            else:
                del watched[path]
                due.append((path, event))
        return due

    def __repr__(self) -> str:
        once = f"data {self._data}, missing {self._missing}, children {self._children}"
        return f"{once}, persistent {self._persistent}, recursive {self._recursive}"


def _data_news(
    checker: Checker, path: str, since: int, zxid: int, *, is_missing_watched: bool
) -> EventType | None:
    node = checker.history.node(path, zxid)
    if is_missing_watched:
        return None if node is None else EventType.NODE_CREATED
    if node is None:
        return EventType.NODE_DELETED
    return EventType.NODE_DATA_CHANGED if node.mzxid > since else None


def _child_news(checker: Checker, path: str, since: int, zxid: int) -> EventType | None:
    node = checker.history.node(path, zxid)
    if node is None:
        return EventType.NODE_DELETED
    return EventType.NODE_CHILDREN_CHANGED if node.pzxid > since else None
