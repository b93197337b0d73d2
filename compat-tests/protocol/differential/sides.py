"""One server under test and our connections to it: takes a step, and tells everything that came of it.

Lock-step: a step is over when every reply is in and every connection has answered a ping. The server queues
events before the reply of the write that caused them, so whatever a ping reply follows is all there is.

The first ping is sent only after the replies: a server that hangs up with our bytes unread resets the
connection, and a reset may take the reply with it. After a reply that announces the end no ping is sent at
all: the reference may still answer it.
"""

from typing import Any

import attrs

from protocol.differential.answers import (
    Event,
    Frame,
    SessionNames,
    announces_end,
    read_answer,
    read_event,
    read_welcome,
)
from protocol.differential.steps import (
    UNKNOWN_SESSION,
    Connect,
    Drop,
    Hello,
    Probe,
    Request,
    Send,
    SendRaw,
    Step,
    requests_of,
)
from support.opcodes import PING_XID, Op
from support.raw_client import (
    Malformed,
    RawConnection,
    wire_buffer,
    wire_frame,
    wire_int,
    wire_long,
)

_PING = wire_frame(wire_int(PING_XID) + wire_int(Op.PING))
_EVENT_XID = wire_int(-1)
_PONG_XID = wire_int(PING_XID)
_NO_SESSION_ID = 0x0123456789ABCDEF
_AT_READ_TIME = (Op.AUTH, Op.SASL)  # answered when read: their replies may overtake others


@attrs.define
class Seen:
    """What one connection brought during a step."""

    frames: list[Frame] = attrs.field(factory=list)
    overtaking: list[Frame] = attrs.field(factory=list)  # replies that have no fixed place among the others
    pong: Frame | None = None
    is_closed: bool = False
    is_silent: bool = False  # neither an answer nor an end

    @property
    def is_last_word(self) -> bool:
        """Whether a frame announced that the server will hang up."""
        return any(announces_end(frame) for frame in (*self.frames, *self.overtaking, self.pong))

    def __str__(self) -> str:
        lines = [str(frame) for frame in [*self.frames, *self.overtaking]]
        end = "hung up" if self.is_closed else "SILENT" if self.is_silent else f"pong {self.pong}"
        return "\n    ".join([*lines, end])


@attrs.define
class Observation:
    """What a step brought: by slot, and from a probe."""

    slots: dict[int, Seen] = attrs.field(factory=dict)
    probe: Any = None


@attrs.define
class Side:
    """A server and our connections to it."""

    host: str
    port: int
    slots: list[RawConnection | None]
    names: SessionNames = attrs.field(factory=SessionNames)
    _observed: Observation = attrs.field(factory=Observation, init=False)
    _probe: RawConnection | None = attrs.field(default=None, init=False)

    def begin(self, step: Step) -> None:
        """Say what the step says."""
        self._observed = Observation()
        if isinstance(step, Probe):
            self._probe = RawConnection(self.host, self.port)
            self._probe.send(step.data)
        elif isinstance(step, Connect):
            self._hang_up(step.slot)
            connection = self.slots[step.slot] = RawConnection(self.host, self.port)
            connection.send(self._hello(step.hello) + b"".join(request.frame for request in step.behind))
        elif isinstance(step, Drop):
            self._hang_up(step.slot)
        elif (open_connection := self.slots[step.slot]) is not None:
            _send(open_connection, step)

    def hear(self, step: Step) -> None:
        """Take in the replies."""
        if isinstance(step, Probe):
            assert self._probe is not None
            self._observed.probe = self._probe.receive_all()
            self._probe.hang_up()
            return
        connection = self.slots[step.slot]
        if connection is None:
            return
        seen = self._observed.slots[step.slot] = Seen()
        try:
            if isinstance(step, Connect):
                self._hear_welcome(connection, seen)
            self._hear_replies(connection, seen, requests_of(step))
        except TimeoutError:
            seen.is_silent = True
            self._hang_up(step.slot)

    def ping(self) -> None:
        for slot, connection in enumerate(self.slots):
            if connection is not None and not self._observed.slots.get(slot, Seen()).is_last_word:
                connection.send(_PING)

    def settle(self, step: Step) -> Observation:
        """Take in everything up to the replies of the pings."""
        for slot, connection in enumerate(self.slots):
            if connection is not None:
                self._settle(slot, connection)
        if any(request.op == Op.CLOSE_SESSION for request in requests_of(step)):
            for seen in self._observed.slots.values():
                _sort_events(seen)  # in which order ephemerals are deleted is the server's to choose
        return self._observed

    def close(self) -> None:
        for slot in range(len(self.slots)):
            self._hang_up(slot)

    def _settle(self, slot: int, connection: RawConnection) -> None:
        seen = self._observed.slots.setdefault(slot, Seen())
        try:
            while not connection.is_closed and (seen.pong is None or seen.is_last_word):
                self._hear_one(connection, seen, ())
        except TimeoutError:
            seen.is_silent = True
        seen.is_closed = connection.is_closed
        if seen.is_closed or seen.is_silent:
            self._hang_up(slot)

    def _hang_up(self, slot: int) -> None:
        """The server must know before the next step: its session may come back in another connection, which
        the reference could then forget along with the old one.
        """
        connection = self.slots[slot]
        if connection is not None:
            connection.hang_up()
        self.slots[slot] = None

    def _hello(self, hello: Hello) -> bytes:
        session_id, password = 0, bytes(16)
        if hello.session is not None:
            is_known = UNKNOWN_SESSION < hello.session < len(self.names.ids)
            session_id = self.names.ids[hello.session] if is_known else _NO_SESSION_ID
            password = self.names.password_of(hello.session) if is_known else bytes(16)
        variants = {"right": password, "wrong": password[::-1], "short": password[:7], "null": None}
        return wire_frame(
            wire_int(hello.protocol_version)
            + wire_long(hello.last_zxid)
            + wire_int(hello.timeout_ms)
            + wire_long(session_id)
            + wire_buffer(variants[hello.password])
            + hello.tail
        )

    def _hear_welcome(self, connection: RawConnection, seen: Seen) -> None:
        frame = connection.receive_frame()
        if frame is not None:
            seen.frames.append(_or_hex(frame, lambda: read_welcome(frame, self.names)))

    def _hear_replies(self, connection: RawConnection, seen: Seen, requests: tuple[Request, ...]) -> None:
        replies = 0
        while replies < len(requests) and not connection.is_closed:
            replies += self._hear_one(connection, seen, requests)

    def _hear_one(self, connection: RawConnection, seen: Seen, requests: tuple[Request, ...]) -> bool:
        """Take in one frame; returns whether it was a reply."""
        frame = connection.receive_frame()
        if frame is None:
            return False
        if frame.startswith(_EVENT_XID):
            seen.frames.append(_or_hex(frame, lambda: read_event(frame)))
            return False
        if frame.startswith(_PONG_XID) and not requests:
            seen.pong = _or_hex(frame, lambda: read_answer(frame, Op.PING, self.names))
            return False
        self._hear_reply(frame, seen, requests)
        return True

    def _hear_reply(self, frame: bytes, seen: Seen, requests: tuple[Request, ...]) -> None:
        op = _op_answered(frame, requests)
        if op == Op.CREATE_SESSION and len(frame) > 16:
            seen.frames.append(_or_hex(frame, lambda: read_welcome(frame, self.names)))
            return
        answer = _or_hex(frame, lambda: read_answer(frame, op, self.names))
        (seen.overtaking if op in _AT_READ_TIME else seen.frames).append(answer)


def _send(connection: RawConnection, step: Send | SendRaw) -> None:
    if isinstance(step, SendRaw):
        connection.send(step.data)
        return
    data = b"".join(request.frame for request in step.requests)
    if step.cut_at is None:
        connection.send(data)
    else:
        connection.send(data[: step.cut_at])
        connection.send(data[step.cut_at :])


def _op_answered(frame: bytes, requests: tuple[Request, ...]) -> int:
    """The type of the request that a reply belongs to: the xid tells, and a lone request is always meant."""
    if len(requests) == 1:
        return requests[0].op
    return next((request.op for request in requests if frame.startswith(wire_int(request.xid))), 0)


def _sort_events(seen: Seen) -> None:
    events = sorted((each for each in seen.frames if isinstance(each, Event)), key=repr)
    seen.frames = [*events, *(each for each in seen.frames if not isinstance(each, Event))]


def _or_hex(frame: bytes, read: Any) -> Frame:
    try:
        result: Frame = read()
    except Malformed:
        return f"malformed frame {frame.hex()}"
    return result
