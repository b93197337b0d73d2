"""What the generator of requests knows about the servers it tests, learnt from the reference's answers.

It need not be exact: it only makes requests likely to hit something. Nothing that is compared depends on it.
"""

from typing import Any

import attrs

from protocol.differential.answers import Answer, Frame, Welcome
from protocol.differential.sides import Observation, Seen
from protocol.differential.steps import Connect, Request, Step, requests_of
from support.opcodes import Op

_NO_NODE, _NODE_EXISTS = -101, -110
_OWN_SESSION_LOST = (Op.CLOSE_SESSION,)


_AT_FIRST = (b"/", b"/zookeeper", b"/zookeeper/quota", b"/zookeeper/config")


@attrs.define
class World:
    """Nodes believed to exist, sessions opened, and which slot holds which."""

    versions: dict[bytes, int] = attrs.field(factory=lambda: dict.fromkeys(_AT_FIRST, 0))
    acl_versions: dict[bytes, int] = attrs.field(factory=dict)
    sessions_count: int = 0
    sessions_closed: set[int] = attrs.field(factory=set)
    session_of_slot: dict[int, int] = attrs.field(factory=dict)
    zxid: int = 0
    replies_ok: int = 0
    replies: int = 0

    @property
    def sessions_alive(self) -> list[int]:
        return [index for index in range(self.sessions_count) if index not in self.sessions_closed]

    def learn(self, step: Step, observed: Observation) -> None:
        for slot, seen in observed.slots.items():
            if isinstance(step, Connect) and slot == step.slot:
                self._learn_welcome(slot, seen)
            if isinstance(seen.pong, Answer):
                self.zxid = seen.pong.zxid
        requests = {request.xid: request for request in requests_of(step)}
        for seen in observed.slots.values():
            for frame in seen.frames:
                self._learn_frame(frame, requests)
        self._learn_closed(step, observed)

    def _learn_closed(self, step: Step, observed: Observation) -> None:
        for slot, seen in observed.slots.items():
            session = self.session_of_slot.get(slot)
            if session is not None and seen.is_closed:
                if any(request.op in _OWN_SESSION_LOST for request in requests_of(step)):
                    self.sessions_closed.add(session)
                del self.session_of_slot[slot]

    def _learn_welcome(self, slot: int, seen: Seen) -> None:
        self.session_of_slot.pop(slot, None)
        welcome = seen.frames[0] if seen.frames else None
        if isinstance(welcome, Welcome) and isinstance(welcome.session, int):
            self.session_of_slot[slot] = welcome.session
            self.sessions_count = max(self.sessions_count, welcome.session + 1)

    def _learn_frame(self, frame: Frame, requests: dict[int, Request]) -> None:
        if not isinstance(frame, Answer) or frame.xid not in requests:
            return
        self.replies += 1
        self.replies_ok += frame.err == 0 and all(result[1] == 0 for result in frame.body.get("results", ()))
        request = requests[frame.xid]
        if request.subject is None:
            return
        if frame.err == _NODE_EXISTS:
            self.versions.setdefault(request.subject, 0)
        elif frame.err == _NO_NODE or (request.op == Op.DELETE and frame.err == 0):
            self._forget(request.subject)
        elif frame.err == 0:
            self._learn_node(request.subject, frame.body)

    def _learn_node(self, path: bytes, body: dict[str, Any]) -> None:
        path = body.get("path") or path
        self.versions.setdefault(path, 0)
        if "stat" in body:
            self.versions[path] = body["stat"]["version"]
            self.acl_versions[path] = body["stat"]["aversion"]

    def _forget(self, path: bytes) -> None:
        if path not in _AT_FIRST:
            self.versions.pop(path, None)
