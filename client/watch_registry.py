"""The watches that a client holds, by the server's paths.

A server forgets watches with the connection; the client tells the next server (`set_watches`). What always
holds: an event is passed on only for a watch held here, and a standard watch is gone once it has fired.
"""

from collections.abc import Iterator

from client.paths import parent_of
from jute.client_records import SetWatches, SetWatches2
from jute.opcodes import EventType, WatcherType

# How many bytes of paths one request carries at most, as Java cuts them: well below any server's limit.
SET_WATCHES_BYTES_MAX = 128 * 1024


class WatchRegistry:
    """Sets of paths, one for each kind of watch."""

    def __init__(self) -> None:
        self.data: set[str] = set()
        self.exist: set[str] = set()
        self.children: set[str] = set()
        self.persistent: set[str] = set()
        self.recursive: set[str] = set()

    def fire(self, event: EventType, path: str) -> bool:
        """Whether a watch waits for this event. Standard watches that did are used up."""
        fired = _persistent_fires(self, event, path)
        for watches in self._standard(event):
            if path in watches:
                watches.discard(path)
                fired = True
        return fired

    def _standard(self, event: EventType) -> tuple[set[str], ...]:
        if event in (EventType.NODE_DATA_CHANGED, EventType.NODE_CREATED):
            return self.data, self.exist
        if event is EventType.NODE_CHILDREN_CHANGED:
            return (self.children,)
        return self.data, self.exist, self.children

    def holds(self, path: str, kind: WatcherType) -> bool:
        return any(path in watches for watches, _ in self._of_kind(kind))

    def remove(self, path: str, kind: WatcherType) -> list[EventType]:
        """Forget the watches of a kind on a path; return the event that tells of each sort that went."""
        removed: list[EventType] = []
        for watches, event in self._of_kind(kind):
            if path in watches:
                watches.discard(path)
                if event not in removed:
                    removed.append(event)
        return removed

    def _of_kind(self, kind: WatcherType) -> list[tuple[set[str], EventType]]:
        children = [(self.children, EventType.CHILD_WATCH_REMOVED)]
        data = [(self.data, EventType.DATA_WATCH_REMOVED), (self.exist, EventType.DATA_WATCH_REMOVED)]
        persistent = [(self.persistent, EventType.PERSISTENT_WATCH_REMOVED)]
        recursive = [(self.recursive, EventType.PERSISTENT_WATCH_REMOVED)]
        return {
            WatcherType.CHILDREN: children,
            WatcherType.DATA: data,
            WatcherType.PERSISTENT: persistent,
            WatcherType.PERSISTENT_RECURSIVE: recursive,
            WatcherType.ANY: children + data + persistent + recursive,
        }[kind]

    def set_watches(self, last_zxid: int) -> Iterator[SetWatches | SetWatches2]:
        """The requests that register all of them with another server."""
        for batch in self._batches():
            data, exist, children, persistent, recursive = (tuple(paths) for paths in batch)
            if persistent or recursive:
                yield SetWatches2(last_zxid, data, exist, children, persistent, recursive)
            else:  # which older servers understand too
                yield SetWatches(last_zxid, data, exist, children)

    def _batches(self) -> Iterator[list[list[str]]]:
        kinds = (self.data, self.exist, self.children, self.persistent, self.recursive)
        batch: list[list[str]] = [[] for _ in kinds]
        size = 0
        for index, watches in enumerate(kinds):
            for path in sorted(watches):
                if size >= SET_WATCHES_BYTES_MAX:
                    yield batch
                    batch, size = [[] for _ in kinds], 0
                batch[index].append(path)
                size += len(path.encode(errors="replace"))
        if size:
            yield batch


def _persistent_fires(registry: WatchRegistry, event: EventType, path: str) -> bool:
    if path in registry.persistent:
        return True
    # A recursive watch is promised no such events: they come for standard watches below it.
    if event is EventType.NODE_CHILDREN_CHANGED or not registry.recursive:
        return False
    while path not in registry.recursive:
        if path == "/":
            return False
        path = parent_of(path)
    return True
