"""Sessions that one server of an ensemble keeps to itself: they cost the others nothing.

They own no ephemeral nodes, because those must end with their session on every server. A local session that
asks for one is first made known to all (upgraded), if that is allowed.
"""

from collections import OrderedDict
from typing import Any

from jute.errors import EphemeralOnLocalSession, MarshallingError, SessionExpired
from jute.opcodes import CreateMode
from jute.record import DecodeError
from server.client_sessions import Sessions
from server.txns import CREATE, CREATE2, MULTI
from server.write_requests import parse_write

_EPHEMERAL = frozenset(mode.value for mode in CreateMode if mode.is_ephemeral)
_UPGRADING = frozenset({CREATE, CREATE2})
_ENDED_MAX = 100_000  # many more than end while a learner that is cut off is still waited for


def asks_for_ephemeral(op: int, body: bytes) -> bool:
    """Whether a write, even by one operation of many, would make an ephemeral node."""
    if op not in _UPGRADING and op != MULTI:
        return False
    try:
        args = parse_write(op, body)
    except (DecodeError, MarshallingError):
        return False
    return makes_ephemeral(op, args)


def makes_ephemeral(op: int, args: Any) -> bool:
    """The same of a write taken apart by `parse_write`."""
    if op == MULTI:
        return any(type_ in _UPGRADING and each[3] in _EPHEMERAL for type_, each in args)
    return op in _UPGRADING and args[3] in _EPHEMERAL


class LeaderSessions(Sessions):
    """The sessions that all servers know, as the leader decides about them.

    A session it does not know may be another server's local one, if there are such: whether that lives is the
    other server's business. One with our own id in it would be known to us, and so would one that all knew
    until it ended: what its server forwarded before it heard of that may still be on its way.
    """

    def __init__(self, tick_ms: int, next_id: int, local: Sessions, *, others_are_local: bool) -> None:
        super().__init__(tick_ms, next_id)
        self._local = local
        self._others_are_local = others_are_local
        self._our_ids = next_id >> 56
        self._ended: OrderedDict[int, None] = OrderedDict()  # the last ones, oldest first

    def check(self, session_id: int) -> None:
        session = self.by_id.get(session_id)
        if session is not None:
            if session.is_closing:
                raise SessionExpired
        elif session_id not in self._local.by_id and (
            not self._others_are_local or session_id >> 56 == self._our_ids or session_id in self._ended
        ):
            raise SessionExpired

    def forget(self, session_id: int) -> None:
        if self._others_are_local and session_id in self.by_id:
            self._ended[session_id] = None
            if len(self._ended) > _ENDED_MAX:
                self._ended.popitem(last=False)
        super().forget(session_id)

    def check_global(self, session_id: int) -> None:
        if session_id not in self.by_id and session_id in self._local.by_id:
            raise EphemeralOnLocalSession
        super().check_global(session_id)
