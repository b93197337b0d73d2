"""What the differential test does: values that can be kept, printed, left out and done again.

A step names connections by slot and sessions by the order in which they were opened, never by the ids a
server gave them, so the same steps can be taken with both servers. A step whose slot has no connection has
no effect.
"""

from typing import Final, Literal, TypeAlias

import attrs

from support.raw_client import wire_frame, wire_int

UNKNOWN_SESSION: Final = -1


@attrs.frozen
class Request:
    """One request: `body` is what is sent, `text` what it means, `subject` the node it is about, if one."""

    xid: int
    op: int
    body: bytes = attrs.field(repr=False)
    text: str
    subject: bytes | None = attrs.field(default=None, repr=False)

    @property
    def frame(self) -> bytes:
        return wire_frame(wire_int(self.xid) + wire_int(self.op) + self.body)

    def __str__(self) -> str:
        return f"xid {self.xid}: {self.text}"


Password = Literal["right", "wrong", "short", "null"]


@attrs.frozen
class Hello:
    """A connect request. `session` counts sessions from 0; None asks for a new one."""

    session: int | None = None
    password: Password = "right"
    timeout_ms: int = 300_000
    last_zxid: int = 0
    protocol_version: int = 0
    tail: bytes = b"\x00"  # the readOnly byte, absent in old clients, and whatever follows it


@attrs.frozen
class Connect:
    """A new connection in a slot, and requests sent right behind the connect request."""

    slot: int
    hello: Hello
    behind: tuple[Request, ...] = ()


@attrs.frozen
class Send:
    """Requests in one write, or cut into two writes somewhere."""

    slot: int
    requests: tuple[Request, ...]
    cut_at: int | None = None


@attrs.frozen
class SendRaw:
    """Bytes that are no frame: the server is expected to hang up."""

    slot: int
    data: bytes


@attrs.frozen
class Drop:
    """The client hangs up; its session lives on."""

    slot: int


@attrs.frozen
class Probe:
    """Bytes on a connection of their own, and everything that comes back: four-letter words, garbage."""

    data: bytes


Step: TypeAlias = Connect | Send | SendRaw | Drop | Probe


def requests_of(step: Step) -> tuple[Request, ...]:
    if isinstance(step, Send):
        return step.requests
    return step.behind if isinstance(step, Connect) else ()


def weight_of(step: Step) -> int:
    """How many operations a step counts for."""
    return len(requests_of(step)) + (not isinstance(step, Send))
