"""ZkError: what a client is told when its request fails, one class for each code.

The code is registered beside the class and nowhere else. Codes marked "never sent" are known to clients or
mark the start of a range; they are here so that a code found in a foreign log has a name.
"""

from typing import ClassVar

_by_code: dict[int, "type[ZkError]"] = {}


class ZkError(Exception):
    """The request cannot be done, and the client is at fault or must at least know.

    An answer, not an accident: `code` becomes the err of the reply's header.
    """

    code: ClassVar[int]

    def __init_subclass__(cls, code: int) -> None:
        assert code not in _by_code
        cls.code = code
        _by_code[code] = cls


def error_for(code: int) -> type[ZkError]:
    """The class of a code; for one that ZooKeeper does not know, MarshallingError, as Java answers then."""
    if code == 0:
        raise ValueError("code 0 means OK: it has no error")
    return _by_code.get(code, MarshallingError)


class SystemError_(ZkError, code=-1):
    """Opens the range of server-side errors; never sent. The name avoids Python's own SystemError."""


class RuntimeInconsistency(ZkError, code=-2):
    """Inside a failed multi: an operation behind the one that failed, hence not tried."""


class DataInconsistency(ZkError, code=-3):
    """Never sent."""


class ConnectionLoss(ZkError, code=-4):
    """Never sent: a client tells itself so."""


class MarshallingError(ZkError, code=-5):
    """The request's body cannot be decoded, or broke the server in a way nobody foresaw."""


class Unimplemented(ZkError, code=-6):
    """An opcode the server does not know (the connection closes then) or has switched off."""


class OperationTimeout(ZkError, code=-7):
    """Never sent: a client tells itself so."""


class BadArguments(ZkError, code=-8):
    """An invalid path, create mode or ttl."""


class InvalidState(ZkError, code=-9):
    """Never sent: the C client's."""


class UnknownSession(ZkError, code=-12):
    """The session vanished while its request was under way."""


class NewConfigNoQuorum(ZkError, code=-13):
    """Too few servers of the proposed ensemble are connected and up to date."""


class ReconfigInProgress(ZkError, code=-14):
    """Another reconfiguration is still under way."""


class SslConnectionError(ZkError, code=-15):
    """Never sent: the C client's."""


class ApiError(ZkError, code=-100):
    """Opens the range of errors a client brings on itself; never sent."""


class NoNode(ZkError, code=-101):
    """The node, or on create its parent, does not exist."""


class NoAuth(ZkError, code=-102):
    """The ACL does not let this client do this."""


class BadVersion(ZkError, code=-103):
    """The version given is not the node's."""


class NoChildrenForEphemerals(ZkError, code=-108):
    """The parent is ephemeral."""


class NodeExists(ZkError, code=-110):
    """The node is already there."""


class NotEmpty(ZkError, code=-111):
    """The node to be deleted has children."""


class SessionExpired(ZkError, code=-112):
    """The session is gone; its client must open a new one."""


class InvalidCallback(ZkError, code=-113):
    """Never sent: a client tells itself so."""


class InvalidAcl(ZkError, code=-114):
    """The ACL is null, empty, or holds an entry its scheme does not accept."""


class AuthFailed(ZkError, code=-115):
    """The credentials were refused."""


class Closing(ZkError, code=-116):
    """Never sent: the C client's."""


class Nothing(ZkError, code=-117):
    """Never sent: the C client's."""


class SessionMoved(ZkError, code=-118):
    """The session has moved to another server. Never sent: the connection is closed instead."""


class NotReadOnly(ZkError, code=-119):
    """A write reached a read-only server."""


class EphemeralOnLocalSession(ZkError, code=-120):
    """A local session may not own an ephemeral."""


class NoWatcher(ZkError, code=-121):
    """There is no such watch to check or to remove."""


class RequestTimeout(ZkError, code=-122):
    """Never sent: a client tells itself so."""


class ReconfigDisabled(ZkError, code=-123):
    """Reconfiguration is switched off."""


class SessionClosedRequireAuth(ZkError, code=-124):
    """The server insists on authentication and this session has none; it is closed."""


class QuotaExceeded(ZkError, code=-125):
    """The write would break a hard quota."""


class ThrottledOp(ZkError, code=-127):
    """The request waited too long in an overloaded server and was dropped untried."""
