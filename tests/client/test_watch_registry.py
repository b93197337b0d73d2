"""Which events a client's watches wait for, and how they are told to another server."""

from client.watch_registry import SET_WATCHES_BYTES_MAX, WatchRegistry
from jute.client_records import SetWatches, SetWatches2
from jute.opcodes import EventType, WatcherType


def test_a_standard_watch_fires_once() -> None:
    watches = WatchRegistry()
    watches.data.add("/a")
    assert watches.fire(EventType.NODE_DATA_CHANGED, "/a")
    assert not watches.fire(EventType.NODE_DATA_CHANGED, "/a")


def test_an_event_without_its_watch_fires_nothing() -> None:
    watches = WatchRegistry()
    watches.children.add("/a")
    watches.exist.add("/b")
    assert not watches.fire(EventType.NODE_DATA_CHANGED, "/a")
    assert not watches.fire(EventType.NODE_CREATED, "/a")
    assert watches.fire(EventType.NODE_CHILDREN_CHANGED, "/a")
    assert watches.fire(EventType.NODE_CREATED, "/b")


def test_a_deletion_uses_up_every_standard_watch() -> None:
    watches = WatchRegistry()
    watches.data.add("/a")
    watches.children.add("/a")
    assert watches.fire(EventType.NODE_DELETED, "/a")
    assert not watches.holds("/a", WatcherType.ANY)


def test_persistent_watches_stay() -> None:
    watches = WatchRegistry()
    watches.persistent.add("/a")
    for event in (EventType.NODE_DELETED, EventType.NODE_CREATED, EventType.NODE_CHILDREN_CHANGED):
        assert watches.fire(event, "/a")
    assert not watches.fire(EventType.NODE_CREATED, "/a/b")


def test_a_recursive_watch_hears_of_everything_below_but_not_of_children() -> None:
    watches = WatchRegistry()
    watches.recursive.add("/a")
    assert watches.fire(EventType.NODE_CREATED, "/a/b/c")
    assert watches.fire(EventType.NODE_DATA_CHANGED, "/a")
    assert not watches.fire(EventType.NODE_CREATED, "/ab")
    assert not watches.fire(EventType.NODE_CHILDREN_CHANGED, "/a")
    watches.recursive.add("/")
    assert watches.fire(EventType.NODE_CREATED, "/ab")


def test_removing_tells_what_went() -> None:
    watches = WatchRegistry()
    for kind in (watches.data, watches.exist, watches.children, watches.persistent, watches.recursive):
        kind.add("/a")
    assert watches.remove("/a", WatcherType.CHILDREN) == [EventType.CHILD_WATCH_REMOVED]
    assert watches.remove("/a", WatcherType.DATA) == [EventType.DATA_WATCH_REMOVED]
    assert watches.remove("/a", WatcherType.PERSISTENT) == [EventType.PERSISTENT_WATCH_REMOVED]
    assert watches.holds("/a", WatcherType.PERSISTENT_RECURSIVE)
    assert watches.remove("/a", WatcherType.ANY) == [EventType.PERSISTENT_WATCH_REMOVED]
    assert watches.remove("/a", WatcherType.ANY) == []


def test_standard_watches_alone_are_told_in_the_way_old_servers_know() -> None:
    watches = WatchRegistry()
    assert list(watches.set_watches(7)) == []
    watches.data.add("/a")
    assert list(watches.set_watches(7)) == [SetWatches(7, ("/a",), (), ())]
    watches.recursive.add("/b")
    assert list(watches.set_watches(7)) == [SetWatches2(7, ("/a",), (), (), (), ("/b",))]


def test_many_watches_are_told_in_several_requests() -> None:
    watches = WatchRegistry()
    watches.data |= {f"/{number:0100}" for number in range(3000)}
    told = list(watches.set_watches(7))
    assert len(told) == 3
    assert {path for part in told for path in part.data_watches or ()} == watches.data
    for part in told:
        assert sum(len(path or "") for path in part.data_watches or ()) <= SET_WATCHES_BYTES_MAX + 200
