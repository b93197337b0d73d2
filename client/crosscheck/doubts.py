"""Nodes that a server removes by itself, at a moment of its own: ephemerals of sessions without a client, and
containers and nodes with a time to live.

Until both servers have removed such a node, what is said about it, its parent and its children may differ.
"""

from collections.abc import Iterable

import attrs

from client.crosscheck.exchanges import Answered
from client.crosscheck.request_text import Part, parts_of
from client.replies import decode_reply
from jute.client_records import CreateResponse
from jute.opcodes import CreateMode, OpCode
from jute.record import DecodeError

_EPHEMERAL = (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL)
_CREATES = (OpCode.CREATE, OpCode.CREATE2)
_SEQUENCE_DIGITS = 10


@attrs.define
class Doubts:
    """Which nodes may go by themselves."""

    _ephemerals: dict[int, set[str]] = attrs.field(factory=dict)  # by session, of those without their digits
    _fleeting: set[str] = attrs.field(factory=set)

    def note(self, session: int, answered: Answered) -> None:
        """A write was done by this session."""
        for part in parts_of(answered.asked.op, answered.asked.body):
            if part.path is None:
                continue
            if part.op in _CREATES and getattr(part.record, "flags", 0) in _EPHEMERAL:
                self._ephemerals.setdefault(session, set()).add(self._made(part, answered))
            elif part.op in (OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL):
                self._fleeting.add(self._made(part, answered))

    def _made(self, part: Part, answered: Answered) -> str:
        assert part.path is not None
        if answered.asked.op in _CREATES:
            try:
                return decode_reply(CreateResponse, answered.body)[0].path or part.path
            except DecodeError:
                pass
        return part.path  # inside a multi, a sequential node is known by its prefix

    def forget(self, session: int) -> None:
        """The session has ended at both servers."""
        self._ephemerals.pop(session, None)

    def concern_fleeting(self, paths: Iterable[str]) -> bool:
        """Whether one of the paths is near a container or a node with a time to live."""
        return any(_is_near(path, other) for path in paths for other in self._fleeting)

    def sessions_near(self, paths: Iterable[str], sessions: Iterable[int]) -> list[int]:
        """Those of the sessions with an ephemeral near one of the paths."""
        asked = list(paths)
        return [
            session
            for session in sessions
            if any(_is_near(path, own) for own in self._ephemerals.get(session, ()) for path in asked)
        ]


def _is_near(path: str, node: str) -> bool:
    """Whether the path is the node, its parent or its child."""
    bare = path[:-_SEQUENCE_DIGITS] if path[-_SEQUENCE_DIGITS:].isdigit() else path
    parent, own_parent = node.rpartition("/")[0] or "/", path.rpartition("/")[0] or "/"
    return node in (path, bare) or path == parent or own_parent == node
