"""What a session tells its owner: how it is, and which watches fired. Java's words throughout."""

import enum

import attrs

from jute.opcodes import EventType, KeeperState

# Java's names: those of its enumerations, as WatchedEvent prints them.
EVENT_WORDS = {
    EventType.NONE: "None",
    EventType.NODE_CREATED: "NodeCreated",
    EventType.NODE_DELETED: "NodeDeleted",
    EventType.NODE_DATA_CHANGED: "NodeDataChanged",
    EventType.NODE_CHILDREN_CHANGED: "NodeChildrenChanged",
    EventType.DATA_WATCH_REMOVED: "DataWatchRemoved",
    EventType.CHILD_WATCH_REMOVED: "ChildWatchRemoved",
    EventType.PERSISTENT_WATCH_REMOVED: "PersistentWatchRemoved",
}
STATE_WORDS = {
    KeeperState.DISCONNECTED: "Disconnected",
    KeeperState.SYNC_CONNECTED: "SyncConnected",
    KeeperState.AUTH_FAILED: "AuthFailed",
    KeeperState.CONNECTED_READ_ONLY: "ConnectedReadOnly",
    KeeperState.SASL_AUTHENTICATED: "SaslAuthenticated",
    KeeperState.CLOSED: "Closed",
    KeeperState.EXPIRED: "Expired",
}
NO_ZXID = -1


class State(enum.Enum):
    """How a session is; `word` is what zkCli's prompt prints."""

    CONNECTING = "CONNECTING"
    CONNECTED = "CONNECTED"
    CONNECTED_READ_ONLY = "CONNECTEDREADONLY"
    CLOSED = "CLOSED"
    AUTH_FAILED = "AUTH_FAILED"
    EXPIRED = "EXPIRED"  # Java does not tell it from CLOSED

    @property
    def word(self) -> str:
        return "CLOSED" if self is State.EXPIRED else self.value

    @property
    def is_connected(self) -> bool:
        return self in (State.CONNECTED, State.CONNECTED_READ_ONLY)

    @property
    def is_over(self) -> bool:
        return self in (State.CLOSED, State.AUTH_FAILED, State.EXPIRED)


@attrs.frozen
class WatchedEvent:
    """A change of the session's state (type NONE, no path), or a watch that fired or was removed."""

    state: KeeperState
    type: EventType = EventType.NONE
    path: str | None = None
    zxid: int = NO_ZXID  # of the transaction that fired the watch, if the server says

    def __str__(self) -> str:
        path = "null" if self.path is None else self.path
        return (
            f"WatchedEvent state:{STATE_WORDS[self.state]} type:{EVENT_WORDS[self.type]} path:{path}"
            f" zxid: {self.zxid}"
        )
