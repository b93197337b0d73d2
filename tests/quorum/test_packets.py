"""The packets of the learner protocol, against their declared form and against bytes captured from 3.9.5."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jute.client_records import Id
from jute.quorum_records import LearnerInfo, PacketType, QuorumPacket
from jute.record import DecodeError, Truncated, decode, encode
from quorum import packets
from quorum.packets import (
    ACK,
    ACKEPOCH,
    COMMIT,
    COMMITANDACTIVATE,
    DIFF,
    FOLLOWERINFO,
    INFORM,
    LEADERINFO,
    NEWLEADER,
    OBSERVERINFO,
    PING,
    PROPOSAL,
    PROTOCOL_VERSION,
    REQUEST,
    SNAP,
    SYNC,
    TRUNC,
    UPTODATE,
    AuthIds,
    IdsScan,
    Packet,
    int_data,
    learner_info,
    long_data,
    packet,
    packets_without_data,
    ping_answer,
    read_int,
    read_learner_info,
    read_long,
    read_packet,
    read_packets,
    read_request,
    read_revalidate,
    read_revalidated,
    read_sessions,
    request_packet,
    revalidate_packet,
    revalidated_packet,
)
from tests.strategies import bmp_text, signed

LIMIT = 64
SESSION = 0x01000010037B0000
EPOCH_1 = 0x1_0000_0000


def unhex(text: str) -> bytes:
    return bytes.fromhex(text)


CREATE_A = unhex(
    "00000002 2f61 00000005 68656c6c6f 00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00000000"
)
SESSION_TXN = unhex(
    "01000010037b0000 00000000 0000000100000001 000001a1e1830ce8 fffffff6 00007530 00000002 0000000051c6d660"
)

CAPTURED = {
    "follower 1 introduces itself": (
        packet(FOLLOWERINFO, 0, learner_info(1, 0)),
        "0000000b 0000000000000000 00000014 0000000000000001 00010000 0000000000000000 ffffffff",
    ),
    "observer 4 introduces itself": (
        packet(OBSERVERINFO, 0, learner_info(4, 0)),
        "00000010 0000000000000000 00000014 0000000000000004 00010000 0000000000000000 ffffffff",
    ),
    "the new epoch": (
        packet(LEADERINFO, EPOCH_1, int_data(PROTOCOL_VERSION)),
        "00000011 0000000100000000 00000004 00010000 ffffffff",
    ),
    "the epoch acknowledged": (
        packet(ACKEPOCH, 0, int_data(0)),
        "00000012 0000000000000000 00000004 00000000 ffffffff",
    ),
    "an empty DIFF": (packet(DIFF, 0), "0000000d 0000000000000000 ffffffff ffffffff"),
    "a TRUNC": (packet(TRUNC, 0x10000000C), "0000000e 000000010000000c ffffffff ffffffff"),
    "a SNAP": (packet(SNAP, EPOCH_1), "0000000f 0000000100000000 ffffffff ffffffff"),
    "NEWLEADER with a configuration": (
        packet(NEWLEADER, EPOCH_1, b"version=0"),
        "0000000a 0000000100000000 00000009 76657273696f6e3d30 ffffffff",
    ),
    "NEWLEADER acknowledged": (packet(ACK, EPOCH_1), "00000003 0000000100000000 ffffffff ffffffff"),
    "UPTODATE": (packet(UPTODATE, -1), "0000000c ffffffffffffffff ffffffff ffffffff"),
    "a leader's ping": (packet(PING, EPOCH_1), "00000005 0000000100000000 ffffffff ffffffff"),
    "its answer, empty and not null": (
        ping_answer(EPOCH_1, []),
        "00000005 0000000100000000 00000000 ffffffff",
    ),
    "its answer with a session": (
        ping_answer(0x10000000C, [(SESSION, 30000)]),
        "00000005 000000010000000c 0000000c 01000010037b0000 00007530 ffffffff",
    ),
    "a session to create": (
        request_packet(SESSION, 0, -10, unhex("00007530"), None),
        "00000001 ffffffffffffffff 00000014 01000010037b0000 00000000 fffffff6 00007530 ffffffff",
    ),
    "a create with its client's ids": (
        request_packet(SESSION, 1, 1, CREATE_A, (("ip", "127.0.0.1"),)),
        "00000001 ffffffffffffffff 0000003e 01000010037b0000 00000001 00000001"
        + CREATE_A.hex()
        + "00000001 00000002 6970 00000009 3132372e302e302e31",
    ),
    "a session to close": (
        request_packet(SESSION, 2, -11, b"", ()),
        "00000001 ffffffffffffffff 00000010 01000010037b0000 00000002 fffffff5 00000000",
    ),
    "a proposal": (
        packet(PROPOSAL, 0x100000001, SESSION_TXN),
        "00000002 0000000100000001 00000030" + SESSION_TXN.hex() + "ffffffff",
    ),
    "its ack": (packets_without_data(ACK, [0x100000001]), "00000003 0000000100000001 ffffffff ffffffff"),
    "its commit": (
        packets_without_data(COMMIT, range(0x100000001, 0x100000002)),
        "00000004 0000000100000001 ffffffff ffffffff",
    ),
    "a commit for an observer": (
        packet(INFORM, 0x100000005, SESSION_TXN),
        "00000008 0000000100000005 00000030" + SESSION_TXN.hex() + "ffffffff",
    ),
    "the answer to a sync": (packet(SYNC, 0), "00000007 0000000000000000 ffffffff ffffffff"),
    "a session that comes from elsewhere": (
        revalidate_packet(SESSION, 30000),
        "00000006 ffffffffffffffff 0000000c 01000010037b0000 00007530 ffffffff",
    ),
    "it may stay": (
        revalidated_packet(-1, SESSION, True),
        "00000006 ffffffffffffffff 00000009 01000010037b0000 01 ffffffff",
    ),
    "a reconfiguration": (
        packet(COMMITANDACTIVATE, 0x100000002, long_data(3)),
        "00000009 0000000100000002 00000008 0000000000000003 ffffffff",
    ),
}


@pytest.mark.parametrize("name", CAPTURED)
def test_packets_are_written_as_apache_writes_them(name: str) -> None:
    written, captured = CAPTURED[name]
    assert written.hex() == captured.replace(" ", "")


# --- Agreement with the declared form.

auth_ids = st.none() | st.lists(st.tuples(bmp_text(), bmp_text()), max_size=3).map(tuple)
packets_read = st.tuples(signed(32), signed(64), st.none() | st.binary(max_size=LIMIT), auth_ids)


def declared(read: Packet) -> QuorumPacket:
    type_, zxid, data, ids = read
    return QuorumPacket(type_, zxid, data, None if ids is None else tuple(Id(*id_) for id_ in ids))


@given(packets_read)
def test_a_packet_is_read_as_it_is_declared(expected: Packet) -> None:
    """The short way through structs and the record agree on every packet."""
    data = encode(declared(expected))
    assert read_packet(data, 0, LIMIT) == (expected, len(data))


@given(signed(32), signed(64), st.none() | st.binary(max_size=LIMIT))
def test_a_packet_is_written_as_it_is_declared(type_: int, zxid: int, data: bytes | None) -> None:
    assert packet(type_, zxid, data) == encode(QuorumPacket(type_, zxid, data, None))


@given(signed(64), signed(32), signed(32), st.binary(max_size=LIMIT), auth_ids)
def test_a_request_comes_back(session: int, cxid: int, op: int, body: bytes, ids: AuthIds | None) -> None:
    written = request_packet(session, cxid, op, body, ids)
    (type_, zxid, data, ids_read), used = read_packet(written, 0, 2 * LIMIT)
    assert (type_, zxid, used) == (REQUEST, -1, len(written))
    assert read_request(data) == (session, cxid, op, body)
    assert ids_read == ids
    assert decode(QuorumPacket, written)[0] == declared((type_, zxid, data, ids_read))


@given(st.lists(st.tuples(signed(64), signed(32)), max_size=5))
def test_touched_sessions_come_back(sessions: list[tuple[int, int]]) -> None:
    assert read_sessions(read_packet(ping_answer(7, sessions), 0, LIMIT)[0][2]) == sessions


@given(signed(64), signed(32), st.booleans())
def test_revalidation_comes_back(session: int, timeout_ms: int, is_valid: bool) -> None:
    """The question and the answer."""
    question = read_packet(revalidate_packet(session, timeout_ms), 0, LIMIT)[0]
    answer = read_packet(revalidated_packet(-1, session, is_valid), 0, LIMIT)[0]
    assert read_revalidate(question[2]) == (session, timeout_ms)
    assert read_revalidated(answer[2]) == (session, is_valid)


@given(signed(32), signed(64))
def test_numbers_come_back(small: int, large: int) -> None:
    assert read_int(int_data(small)) == small
    assert read_long(long_data(large)) == large


# --- A stream has no frames: packets end where they end.


@settings(max_examples=40)
@given(st.lists(packets_read, max_size=3))
def test_packets_are_found_wherever_the_stream_is_cut(expected: list[Packet]) -> None:
    """Of every beginning of the stream, exactly the whole packets are read, and the rest is left."""
    parts = [encode(declared(each)) for each in expected]
    stream = b"".join(parts)
    for cut in range(len(stream) + 1):
        found, used = read_packets(stream[:cut], LIMIT)
        assert found == expected[: len(found)]
        assert used == sum(map(len, parts[: len(found)]))
        if found != expected:
            assert cut - used < len(parts[len(found)])


@settings(max_examples=40)
@given(packets_read)
def test_a_packet_that_is_not_all_there_is_waited_for(expected: Packet) -> None:
    data = encode(declared(expected))
    for cut in range(len(data)):
        with pytest.raises(Truncated):
            read_packet(data[:cut], 0, LIMIT)


def test_the_longest_packet_is_read_and_a_longer_one_refused_at_once() -> None:
    """Before its data has arrived, let alone been kept."""
    longest = packet(PROPOSAL, 1, bytes(LIMIT))
    assert read_packet(longest, 0, LIMIT)[1] == len(longest)
    with pytest.raises(DecodeError, match="maxbuffer") as refusal:
        read_packet(packet(PROPOSAL, 1, bytes(LIMIT + 1))[:20], 0, LIMIT)
    assert type(refusal.value) is DecodeError


@pytest.mark.parametrize(
    "malformed",
    [
        "00000002 0000000100000001 fffffffe ffffffff",  # data of -2 bytes
        "00000002 0000000100000001 80000000 ffffffff",
        "00000002 0000000100000001 7fffffff ffffffff",
        "00000001 ffffffffffffffff ffffffff fffffffe",  # -2 ids
        "00000001 ffffffffffffffff ffffffff 7fffffff",
        "00000001 ffffffffffffffff ffffffff 00000001 fffffffe 00000000",  # a scheme of -2 bytes
        "00000001 ffffffffffffffff ffffffff 00000001 7fffffff 00000000",  # one that would never be all there
    ],
)
def test_what_is_no_packet_is_refused_and_not_waited_for(malformed: str) -> None:
    """What it ends with could not be found: the connection is of no use any more."""
    with pytest.raises(DecodeError) as refusal:
        read_packets(unhex(malformed), LIMIT)
    assert type(refusal.value) is DecodeError


@given(st.binary(max_size=80))
def test_hostile_bytes_raise_nothing_but_decode_error(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        read_packets(data, LIMIT)
    for read in (read_request, read_sessions, read_revalidate, read_revalidated, read_learner_info, read_int):
        with contextlib.suppress(DecodeError):
            read(data)


@pytest.mark.parametrize(
    "read",
    [read_request, read_sessions, read_revalidate, read_revalidated, read_learner_info, read_int, read_long],
)
@pytest.mark.parametrize("data", [None, b"abc"])
def test_data_that_is_missing_or_short_is_refused(read: object, data: bytes | None) -> None:
    """A null PING answer too, which Apache's leader stumbles over as well."""
    assert callable(read)
    with pytest.raises(DecodeError):
        read(data)


# --- Who the learner is.


def test_a_learner_of_today_says_all_of_it() -> None:
    assert read_learner_info(learner_info(3, 0x200000000)) == LearnerInfo(3, PROTOCOL_VERSION, 0x200000000)


def test_a_learner_before_3_5_does_not_know_of_configurations() -> None:
    """12 bytes: its configuration counts as the first."""
    assert read_learner_info(learner_info(3, 9)[:12]) == LearnerInfo(3, PROTOCOL_VERSION, 0)


def test_a_learner_before_3_4_is_refused() -> None:
    """It knows of no epochs."""
    for info in (learner_info(3, 0)[:8], unhex("0000000000000003 00000001 0000000000000000")):
        with pytest.raises(DecodeError, match="version"):
            read_learner_info(info)


def test_every_type_has_its_number() -> None:
    """The constants are those of the enum, which is the protocol's table."""
    for type_ in PacketType:
        assert getattr(packets, type_.name) == type_


def test_a_long_list_of_ids_is_read_once_however_slowly_it_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes at a time behind 80 KB of it were a whole scan each, and a second of the leader's time."""
    ids = tuple(("digest", f"user{n}") for n in range(5_000))
    written = request_packet(1, 2, 3, b"body", ids)
    reads = CountedReads()
    monkeypatch.setattr("quorum.packets._INT", reads)
    scan = IdsScan()
    for end in range(0, len(written), 7):
        assert read_packets(written[:end], LIMIT, scan) == ([], 0)
    [(_, _, _, read)], used = read_packets(written + written[:50], LIMIT, scan)
    assert (read, used) == (ids, len(written))
    assert reads.count < len(written)
    assert (scan.fields > 0, read_packets(written, LIMIT, IdsScan())[1]) == (True, len(written))


class CountedReads:
    """In place of the Struct of a number."""

    size = 4

    def __init__(self) -> None:
        self.count = 0

    def unpack_from(self, buffer: bytes, at: int) -> tuple[int]:
        self.count += 1
        return (int.from_bytes(buffer[at : at + 4], signed=True),)
