"""The learner protocol's packets, to and from bytes, without an object for each.

Nearly all traffic is PROPOSAL, ACK and COMMIT: those are a struct and a payload. The declared form is
jute.quorum_records.QuorumPacket; tests/quorum/test_packets.py holds the two together.

    type i32 | zxid i64 | data: length i32 and bytes, -1 for none | authinfo: count i32 and ids, -1 for none

No length stands in front of a packet, so one that is not understood cannot be skipped.
"""

from functools import lru_cache
from struct import Struct, error
from typing import Final

from jute.client_records import Id
from jute.quorum_records import LearnerInfo, PacketType
from jute.record import DecodeError, Truncated, decode, encode

ACK: Final = int(PacketType.ACK)
ACKEPOCH: Final = int(PacketType.ACKEPOCH)
COMMIT: Final = int(PacketType.COMMIT)
COMMITANDACTIVATE: Final = int(PacketType.COMMITANDACTIVATE)
DIFF: Final = int(PacketType.DIFF)
FOLLOWERINFO: Final = int(PacketType.FOLLOWERINFO)
INFORM: Final = int(PacketType.INFORM)
INFORMANDACTIVATE: Final = int(PacketType.INFORMANDACTIVATE)
LEADERINFO: Final = int(PacketType.LEADERINFO)
NEWLEADER: Final = int(PacketType.NEWLEADER)
OBSERVERINFO: Final = int(PacketType.OBSERVERINFO)
PING: Final = int(PacketType.PING)
PROPOSAL: Final = int(PacketType.PROPOSAL)
REQUEST: Final = int(PacketType.REQUEST)
REVALIDATE: Final = int(PacketType.REVALIDATE)
SNAP: Final = int(PacketType.SNAP)
SYNC: Final = int(PacketType.SYNC)
TRUNC: Final = int(PacketType.TRUNC)
UPTODATE: Final = int(PacketType.UPTODATE)

AuthIds = tuple[tuple[str, str], ...]
Packet = tuple[int, int, bytes | None, AuthIds | None]  # type, zxid, data, authinfo

PROTOCOL_VERSION: Final = 0x10000

_HEAD = Struct(">iqi")  # type, zxid, length of data
_BARE = Struct(">iqii")
_INT = Struct(">i")
_LONG = Struct(">q")
_REQUEST_HEAD = Struct(">qii")
_SESSION = Struct(">qi")
_VALIDITY = Struct(">q?")
_NONE = _INT.pack(-1)
_IDS_MAX: Final = 10_000
_IDS_BYTES_MAX: Final = 1 << 20
_REMEMBERED_BYTES_MAX: Final = 4096


def packet(type_: int, zxid: int, data: bytes | None = None) -> bytes:
    """Any packet without authinfo."""
    if data is None:
        return _BARE.pack(type_, zxid, -1, -1)
    return b"%b%b%b" % (_HEAD.pack(type_, zxid, len(data)), data, _NONE)


def packets_without_data(type_: int, zxids: list[int] | range) -> bytes:
    """One after the other, for acks and commits that leave together."""
    pack = _BARE.pack
    return b"".join([pack(type_, zxid, -1, -1) for zxid in zxids])


def request_packet(session: int, cxid: int, op: int, body: bytes, ids: AuthIds | None) -> bytes:
    head = _HEAD.pack(REQUEST, -1, _REQUEST_HEAD.size + len(body))
    return b"%b%b%b%b" % (head, _REQUEST_HEAD.pack(session, cxid, op), body, _encode_ids(ids))


def read_request(data: bytes | None) -> tuple[int, int, int, bytes]:
    """Session, cxid, opcode and body."""
    if data is None:
        raise DecodeError("a REQUEST carries no request")
    try:
        session, cxid, op = _REQUEST_HEAD.unpack_from(data)
    except error as failure:
        raise DecodeError("a REQUEST is too short") from failure
    return session, cxid, op, data[_REQUEST_HEAD.size :]


@lru_cache(maxsize=1024)
def _encode_ids(ids: AuthIds | None) -> bytes:
    """Every request of a client carries the same."""
    if ids is None:
        return _NONE
    return _INT.pack(len(ids)) + b"".join([encode(Id(scheme, id_)) for scheme, id_ in ids])


def ping_answer(zxid: int, sessions: list[tuple[int, int]]) -> bytes:
    """With the sessions heard of; the data is never null, which would end the connection."""
    return packet(PING, zxid, b"".join([_SESSION.pack(*session) for session in sessions]))


def read_sessions(data: bytes | None) -> list[tuple[int, int]]:
    """The sessions and timeouts in an answer to a ping."""
    if data is None or len(data) % _SESSION.size:
        raise DecodeError("a PING does not list sessions")
    return list(_SESSION.iter_unpack(data))


def revalidate_packet(session: int, timeout_ms: int) -> bytes:
    return packet(REVALIDATE, -1, _SESSION.pack(session, timeout_ms))


def read_revalidate(data: bytes | None) -> tuple[int, int]:
    if data is None or len(data) != _SESSION.size:
        raise DecodeError("a REVALIDATE names no session")
    session, timeout_ms = _SESSION.unpack(data)
    return session, timeout_ms


def revalidated_packet(zxid: int, session: int, is_valid: bool) -> bytes:
    return packet(REVALIDATE, zxid, _VALIDITY.pack(session, is_valid))


def read_revalidated(data: bytes | None) -> tuple[int, bool]:
    if data is None or len(data) != _VALIDITY.size:
        raise DecodeError("an answer to REVALIDATE names no session")
    session, is_valid = _VALIDITY.unpack(data)
    return session, is_valid


def learner_info(server_id: int, config_version: int) -> bytes:
    return encode(LearnerInfo(server_id, PROTOCOL_VERSION, config_version))


def read_learner_info(data: bytes | None) -> LearnerInfo:
    """Old learners leave out the end of it. None of those before 3.4, which have no epochs, is understood."""
    if data is None or len(data) < _LONG.size + _INT.size:
        raise DecodeError("the learner does not say which version of the protocol it speaks")
    info = decode(LearnerInfo, data.ljust(20, b"\0"))[0]
    if info.protocol_version < PROTOCOL_VERSION:
        raise DecodeError(f"the learner's protocol version {info.protocol_version:#x} is too old")
    return info


def int_data(value: int) -> bytes:
    return _INT.pack(value)


def read_int(data: bytes | None) -> int:
    if data is None or len(data) < _INT.size:
        raise DecodeError("a number is missing")
    value: int = _INT.unpack_from(data)[0]
    return value


def long_data(value: int) -> bytes:
    return _LONG.pack(value)


def read_long(data: bytes | None) -> int:
    if data is None or len(data) < _LONG.size:
        raise DecodeError("a number is missing")
    value: int = _LONG.unpack_from(data)[0]
    return value


class IdsScan:
    """How far the list of ids at the end of an unfinished packet was read, so that none is read again each
    time a few more bytes arrive."""

    def __init__(self) -> None:
        self.fields = 0  # read so far: a scheme and an id each
        self.size = 0  # of these, in bytes


def read_packet(
    buffer: bytes, at: int, data_bytes_max: int, scan: IdsScan | None = None
) -> tuple[Packet, int]:
    """The packet at `at` and the offset behind it. Raises Truncated if it is not all there yet; `scan` is for
    the next try with the same packet."""
    size = len(buffer)
    if size - at < _BARE.size:
        raise Truncated("a packet has at least 20 bytes")
    type_, zxid, length = _HEAD.unpack_from(buffer, at)
    at += _HEAD.size
    start = at
    if length >= 0:
        if length > data_bytes_max:
            raise DecodeError(f"a packet of {length} bytes is larger than jute.maxbuffer allows")
        at += length
        if at + _INT.size > size:
            raise Truncated("the data of a packet")
    elif length != -1:
        raise DecodeError(f"a packet of {length} bytes makes no sense")
    end = at
    (count,) = _INT.unpack_from(buffer, at)
    at += _INT.size
    ids: AuthIds | None = None
    if count != -1:
        ids, at = _read_ids(buffer, at, count, scan or IdsScan())
    data = buffer[start:end] if length >= 0 else None
    return (type_, zxid, data, ids), at


def _read_ids(buffer: bytes, start: int, count: int, scan: IdsScan) -> tuple[AuthIds, int]:
    """Every request of a client carries the same: what is new is only where they end."""
    if not 0 <= count <= _IDS_MAX:
        raise DecodeError(f"a packet lists {count} ids")
    size = len(buffer)
    at = start + scan.size
    for field in range(scan.fields, 2 * count):
        if at + _INT.size > size:
            raise Truncated("an id")
        (length,) = _INT.unpack_from(buffer, at)
        at += _INT.size + max(length, 0)
        if at - start > _IDS_BYTES_MAX:
            raise DecodeError(f"a packet lists ids of {at - start} bytes")
        scan.fields, scan.size = field + 1, at - start
    if at > size:
        raise Truncated("an id")
    scan.fields = scan.size = 0
    decode_ids = _decode_ids_once if at - start <= _REMEMBERED_BYTES_MAX else _decode_ids
    return decode_ids(buffer[start:at], count), at


def _decode_ids(data: bytes, count: int) -> AuthIds:
    ids: list[tuple[str, str]] = []
    at = 0
    for _ in range(count):
        id_, at = decode(Id, data, at)
        ids.append((id_.scheme or "", id_.id or ""))
    return tuple(ids)


_decode_ids_once = lru_cache(maxsize=1024)(_decode_ids)


def read_packets(buffer: bytes, data_bytes_max: int, scan: IdsScan | None = None) -> tuple[list[Packet], int]:
    """All complete packets at the start of the buffer, and the offset behind them. `scan` is what the last
    call left, if the buffer begins with the packet that was unfinished then."""
    packets: list[Packet] = []
    at = 0
    try:
        while True:
            found, at = read_packet(buffer, at, data_bytes_max, scan)
            packets.append(found)
    except Truncated:
        return packets, at
