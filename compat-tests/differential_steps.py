"""What the differential test does: values that can be kept, printed, left out and done again.

A step names connections by slot and sessions by the order in which they were opened, never by the ids a
server gave them, so the same steps can be taken with both servers. A step whose slot has no connection has
no effect.
"""

from enum import IntEnum
from typing import Final, Literal, TypeAlias

import attrs
from raw_client import wire_frame, wire_int

UNKNOWN_SESSION: Final = -1
PING_XID: Final = -2


class Op(IntEnum):
    """The requests of the protocol."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CREATE_SESSION = -10
    CLOSE_SESSION = -11


READS: Final = frozenset(
    {
        Op.EXISTS,
        Op.GET_DATA,
        Op.GET_ACL,
        Op.GET_CHILDREN,
        Op.GET_CHILDREN2,
        Op.SYNC,
        Op.PING,
        Op.CHECK_WATCHES,
        Op.REMOVE_WATCHES,
        Op.MULTI_READ,
        Op.SET_WATCHES,
        Op.SET_WATCHES2,
        Op.ADD_WATCH,
        Op.GET_EPHEMERALS,
        Op.GET_ALL_CHILDREN_NUMBER,
        Op.WHO_AM_I,
        Op.AUTH,
    }
)


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
