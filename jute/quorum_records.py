"""What servers say to each other: the learner protocol's records, and the election port's raw layouts.

The election port does not speak Jute. Its two messages are described with construct, which nothing hot
goes through, and wrapped here once in typed functions.
"""

import enum

import attrs
from construct import (  # type: ignore[import-untyped]
    Bytes,
    Check,
    Computed,
    ConstructError,
    Container,
    GreedyBytes,
    If,
    IfThenElse,
    Int32sb,
    Int64sb,
    Prefixed,
    Rebuild,
    StreamError,
    Struct,
    Tell,
    len_,
    this,
)

from jute.client_records import Id
from jute.primitives import Buffer, Int, Long, Vector, decode_ustring
from jute.record import DecodeError, Truncated, record
from jute.zxid import epoch_of

# --- The learner protocol.


class PacketType(enum.IntEnum):
    """The type of a QuorumPacket. M: leader or observer master; L: any learner; F: follower; O: observer."""

    REQUEST = 1  # L to M: session, cxid and opcode, then the body of a client's request
    PROPOSAL = 2  # M to L: a transaction
    ACK = 3  # L to M: the transaction, or the new epoch, is on disk
    COMMIT = 4  # M to F
    PING = 5  # both ways; a learner's lists the sessions it heard of, in a buffer never null
    REVALIDATE = 6  # both ways: may this session go on here?
    SYNC = 7  # M to L: answers the oldest sync this learner forwarded
    INFORM = 8  # M to O: a committed transaction
    COMMITANDACTIVATE = 9  # M to F: commits a reconfiguration
    NEWLEADER = 10  # M to L: the end of synchronisation
    FOLLOWERINFO = 11  # F to M: opens the conversation
    UPTODATE = 12  # M to L: serve clients
    DIFF = 13  # M to L: proposals and commits that the learner missed follow
    TRUNC = 14  # M to L: cut the log back to this zxid
    SNAP = 15  # M to L: a snapshot follows, raw
    OBSERVERINFO = 16  # O to M: opens the conversation
    LEADERINFO = 17  # M to L: the new epoch
    ACKEPOCH = 18  # L to M: how far the learner's log reaches
    INFORMANDACTIVATE = 19  # M to O: a committed reconfiguration


@record
class LearnerInfo:
    """The data of FOLLOWERINFO and OBSERVERINFO. An old learner may send only the first or the first two."""

    server_id: Long
    protocol_version: Int  # 0x10000
    config_version: Long  # of the committed configuration; 0 where reconfiguration is off


@record
class QuorumPacket:
    """All that is said on the learner port. No length stands in front: reading it is the way to its end.

    On bytes that are not all there yet `decode` raises Truncated.
    """

    type: Int  # a PacketType
    zxid: Long
    data: Buffer  # null and empty are not the same: a learner's PING is empty, a master's null
    authinfo: Vector[Id]  # of REQUEST, the client's; else null


# --- The election port.

_V1 = -65536  # one address
_V2 = -65535  # several, with bars between them
_ADDRESSES_LENGTH_MAX = 2048

_INITIATION = Struct(
    "version" / Int64sb,
    "sid" / Int64sb,
    "length" / Rebuild(Int32sb, len_(this.addresses)),
    Check(lambda ctx: 0 < ctx.length <= _ADDRESSES_LENGTH_MAX),
    "addresses" / Bytes(this.length),
    "end" / Tell,
)


@attrs.frozen
class Initiation:
    """The first thing a server says when it dials another's election port. Nothing is answered.

    Send it in one piece: the Java server gives up if its one read of the addresses comes back short.
    """

    sid: int
    addresses: tuple[str, ...]  # host:port, as configured; none from a server before 3.5


def encode_initiation(initiation: Initiation) -> bytes:
    """The version that carries several addresses is used only for several: not every server knows it."""
    version = _V1 if len(initiation.addresses) == 1 else _V2
    addresses = "|".join(initiation.addresses).encode()
    data: bytes = _INITIATION.build({"version": version, "sid": initiation.sid, "addresses": addresses})
    return data


def decode_initiation(data: bytes) -> tuple[Initiation, int]:
    """Read it from the start of a stream; return it and the offset behind it.

    Raises Truncated while more of the stream is needed, DecodeError if no more would help.
    """
    version = _parse(Struct("version" / Int64sb), data).version
    if version >= 0:  # the protocol before 3.5: this is the sid, and all there is
        return Initiation(version, ()), Int64sb.sizeof()
    if version not in (_V1, _V2):
        raise DecodeError(f"election protocol version {version} is unknown")
    read = _parse(_INITIATION, data)
    return Initiation(read.sid, tuple(decode_ustring(read.addresses).split("|"))), read.end


class ServerState(enum.IntEnum):
    """What a server is doing, as its notifications say."""

    LOOKING = 0
    FOLLOWING = 1
    LEADING = 2
    OBSERVING = 3


_NOTIFICATION_VERSION = 2

# Older servers are told apart by the length of what they send, not by its version.
_SIZE_WITHOUT_PEER_EPOCH = 28
_SIZE_WITHOUT_CONFIG = 40  # its version is not looked at, and counts as 0

_NOTIFICATION = Struct(
    "state" / Int32sb,
    "leader" / Int64sb,
    "zxid" / Int64sb,
    "election_epoch" / Int64sb,
    "peer_epoch" / If(this._params.size != _SIZE_WITHOUT_PEER_EPOCH, Int64sb),
    "version"
    / IfThenElse(
        lambda ctx: ctx._params.size in (_SIZE_WITHOUT_PEER_EPOCH, _SIZE_WITHOUT_CONFIG), Computed(0), Int32sb
    ),
    "config" / If(this.version > 1, Prefixed(Int32sb, GreedyBytes)),
)


@attrs.frozen
class Notification:
    """A server's current vote, the payload of one frame on the election port."""

    state: ServerState  # of the sender
    leader: int  # sid of the server voted for
    zxid: int  # its last one, at the time of the vote
    election_epoch: int  # the round of this election: unrelated to the epoch of any zxid
    peer_epoch: int  # the currentEpoch of the server voted for
    config: str | None  # the ensemble as the sender knows it; None from a server before 3.5
    version: int = _NOTIFICATION_VERSION  # of the format


def encode_notification(notification: Notification) -> bytes:
    """Only the current version is ever sent."""
    assert notification.version == _NOTIFICATION_VERSION
    assert notification.config is not None
    fields = attrs.asdict(notification) | {"config": notification.config.encode()}
    data: bytes = _NOTIFICATION.build(fields, size=None)
    return data


def decode_notification(data: bytes) -> Notification:
    """Read one of any version. Raises DecodeError for what a server must ignore: it says nothing."""
    read = _parse(_NOTIFICATION, data, size=len(data))
    try:
        state = ServerState(read.state)
    except ValueError as error:
        raise DecodeError(f"no server has state {read.state}") from error
    return Notification(
        state=state,
        leader=read.leader,
        zxid=read.zxid,
        election_epoch=read.election_epoch,
        peer_epoch=epoch_of(read.zxid) if read.peer_epoch is None else read.peer_epoch,
        config=None if read.config is None else decode_ustring(read.config),
        version=read.version,
    )


def _parse(layout: Struct, data: bytes, **params: int) -> Container:
    """Parse with construct, whose errors become ours."""
    try:
        return layout.parse(data, **params)
    except StreamError as error:
        raise Truncated(str(error)) from error
    except ConstructError as error:
        raise DecodeError(str(error)) from error
