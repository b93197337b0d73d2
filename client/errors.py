"""What can go wrong with a request, under the server's codes and in the Java client's words.

    ServerError          the server said no, or nobody answered: `code`, `path`, and a text as Java prints it
      NoNode, BadVersion ...   the codes that callers tell apart
      ConnectionLost, SessionExpired, AuthFailed   what the client tells itself, with Java's codes for it
      MultiFailed        nothing of a multi was done; `codes` tells of each operation
    ProtocolError        the other end is no ZooKeeper server, or a broken one; the connection closes

One `except ServerError` serves for all that can become of a request.
"""

from typing import ClassVar

# KeeperException's wording, where it is not the name of the code.
_WORDING = {
    -1: "SystemError",
    -2: "RuntimeInconsistency",
    -3: "DataInconsistency",
    -4: "ConnectionLoss",
    -5: "MarshallingError",
    -6: "Unimplemented",
    -7: "OperationTimeout",
    -8: "BadArguments",
    -13: "NewConfigNoQuorum",
    -14: "ReconfigInProgress",
    -100: "APIError",
    -101: "NoNode",
    -102: "NoAuth",
    -103: "BadVersion",
    -108: "NoChildrenForEphemerals",
    -110: "NodeExists",
    -111: "Directory not empty",
    -112: "Session expired",
    -113: "Invalid callback",
    -114: "InvalidACL",
    -115: "AuthFailed",
    -118: "Session moved",
    -119: "Not a read-only call",
    -120: "Ephemeral node on local session",
    -121: "No such watcher",
    -123: "Reconfig is disabled",
    -124: "Session closed because client failed to authenticate",
    -125: "Quota has exceeded",
    -127: "Op throttled due to high load",
}

_by_code: dict[int, "type[ServerError]"] = {}


def code_wording(code: int) -> str:
    """What Java's KeeperException prints for a code."""
    return _WORDING.get(code, f"Unknown error {code}")


class ServerError(Exception):
    """A request failed; its text is that of Java's KeeperException."""

    own_code: ClassVar[int | None] = None

    def __init_subclass__(cls, code: int | None = None) -> None:
        cls.own_code = code
        if code is not None:
            assert code not in _by_code
            _by_code[code] = cls

    def __init__(self, code: int, path: str | None = None) -> None:
        super().__init__(code, path)
        self.code = code
        self.path = path

    @property
    def wording(self) -> str:
        return code_wording(self.code)

    def __str__(self) -> str:
        return f"KeeperErrorCode = {self.wording}" + (f" for {self.path}" if self.path else "")


def server_error(code: int, path: str | None = None) -> ServerError:
    """The error of a code, as an instance of the code's own class if it has one."""
    assert code != 0, "code 0 is success"
    return _by_code.get(code, ServerError)(code, path)


class ConnectionLost(ServerError, code=-4):
    """The connection ended before the answer came: a write may have been done or not."""


class NoNode(ServerError, code=-101):
    """The node, or the parent of one to be created, does not exist."""


class NoAuth(ServerError, code=-102):
    """The ACL does not allow it."""


class BadVersion(ServerError, code=-103):
    """The node has another version than the one given."""


class NodeExists(ServerError, code=-110):
    """The node to be created is there already."""


class NotEmpty(ServerError, code=-111):
    """The node to be deleted has children."""


class SessionExpired(ServerError, code=-112):
    """The session is over: expired, or closed by this client."""


class AuthFailed(ServerError, code=-115):
    """The server refused the credentials; the session is of no use any more."""


class NoWatcher(ServerError, code=-121):
    """There is no such watch."""


class MultiFailed(ServerError):
    """One operation of a multi failed, so none was done.

    `code` is that of the operation that failed, `index` its place. In `codes`, 0 stands before it and
    -2 (RuntimeInconsistency) behind it.
    """

    def __init__(self, codes: tuple[int, ...], path: str | None = None) -> None:
        self.codes = codes
        self.index = next(index for index, code in enumerate(codes) if code not in (0, -2))
        super().__init__(codes[self.index], path)


class ProtocolError(Exception):
    """The server sent what no ZooKeeper server sends."""
