"""Nodes that a server removes by itself, at a moment of its own: ephemerals of sessions without a client, and
containers and nodes with a time to live.

Until both servers have removed such a node, one finds it where the other does not, and its parent's list of
children is another. That alone is explained by timing. Everything else that is said about such a node, its
parent and its children must be alike, until one server is seen to have it where the other has not: the node
is then `apart`, with versions and watches of its own at either, until it is made or deleted at both.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from client.crosscheck.exchanges import Answered
from client.crosscheck.likeness import Difference
from client.crosscheck.request_text import Part, parts_of
from client.replies import decode_reply
from jute.client_records import CreateResponse, WatcherEvent
from jute.errors import NodeExists, NoNode, NotEmpty
from jute.opcodes import CreateMode, EventType, OpCode
from jute.record import DecodeError

_EPHEMERAL = (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL)
_CREATES = (OpCode.CREATE, OpCode.CREATE2)
_FLEETING = (OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL)
_SEQUENCE_DIGITS = 10
_ERRORS_OF_REMOVAL: Final = (NoNode.code, NodeExists.code, NotEmpty.code)
_COUNTS_OF_CHILDREN: Final = ("cversion", "pzxid", "num_children", "total_number")


@attrs.define
class Doubts:
    """Which nodes may go by themselves."""

    _ephemerals: dict[int, set[str]] = attrs.field(factory=dict)  # by session, of those without their digits
    _fleeting: set[str] = attrs.field(factory=set)
    _apart: set[str] = attrs.field(factory=set)  # those of them that are not the same node at both servers

    def note(self, session: int, answered: Answered) -> None:
        """A write was done by this session."""
        for part in parts_of(answered.asked.op, answered.asked.body):
            if part.path is None:
                continue
            if part.op in _CREATES and getattr(part.record, "flags", 0) in _EPHEMERAL:
                self._ephemerals.setdefault(session, set()).add(self._made(part, answered))
            elif part.op in _FLEETING:
                self._fleeting.add(self._made(part, answered))

    def agree(self, answered: Answered) -> None:
        """A write was done at both servers alike: what it has created or deleted is the same node again."""
        for part in parts_of(answered.asked.op, answered.asked.body):
            if part.path is None:
                continue
            if part.op in (*_CREATES, *_FLEETING):
                self._apart.discard(self._made(part, answered))
            elif part.op in (OpCode.DELETE, OpCode.DELETE_CONTAINER):
                self._apart.discard(part.path)
                self._fleeting.discard(part.path)

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

    def explain(self, paths: Sequence[str], differences: Sequence[Difference]) -> bool:
        """Whether it may be that one server alone has removed a fleeting node near the paths, and no more."""
        near = {node for node in self._fleeting for path in paths if _is_near(path, node)}
        if near & self._apart:
            return True
        found = {each.field.rpartition(".")[2]: each for each in differences}
        if "error" in found:
            codes = (found["error"].first, found["error"].second)
            is_removal = sum(code in _ERRORS_OF_REMOVAL for code in codes) == 1
            if is_removal:
                self._apart |= near
            return is_removal and bool(near)
        if found.keys() & {"type", "err"}:  # of a part of a multi, which is done at one server only
            self._apart |= near
            return bool(near)
        children = {node.rpartition("/")[2] for node in near if _parent(node) in paths}
        return bool(children) and all(
            name in _COUNTS_OF_CHILDREN or (name == "children" and _differ_in(each, children))
            for name, each in found.items()
        )

    def explain_event(self, event: WatcherEvent) -> bool:
        """Whether it may tell of a fleeting node that one server alone has removed, or not made again."""
        path = event.path or ""
        if event.type == EventType.NODE_DELETED and self._fleeting & {path, _bare(path)}:
            return True
        if event.type == EventType.NODE_CHILDREN_CHANGED and path in map(_parent, self._fleeting):
            return True
        return any(_is_near(path, node) for node in self._apart)

    def sessions_near(self, paths: Iterable[str], sessions: Iterable[int]) -> list[int]:
        """Those of the sessions with an ephemeral near one of the paths."""
        asked = list(paths)
        return [
            session
            for session in sessions
            if any(_is_near(path, own) for own in self._ephemerals.get(session, ()) for path in asked)
        ]


def _differ_in(lists: Difference, children: set[str]) -> bool:
    """Whether two lists of names differ in these alone; a sequential one is known without its digits."""
    first, second = lists.first, lists.second
    if not isinstance(first, tuple) or not isinstance(second, tuple):
        return False
    return all(name in children or _bare(name) in children for name in set(first) ^ set(second))


def _is_near(path: str, node: str) -> bool:
    """Whether the path is the node, its parent or its child."""
    return node in (path, _bare(path)) or path == _parent(node) or _parent(path) == node


def _bare(path: str) -> str:
    """Without the digits of a sequence."""
    return path[:-_SEQUENCE_DIGITS] if path[-_SEQUENCE_DIGITS:].isdigit() else path


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
