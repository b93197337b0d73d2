"""What servers say to each other, against bytes captured in an ensemble of 3.9.5 servers.

The REQUEST with authinfo is put together from two captures: the data of a sync, the authinfo of a create.
"""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jute.client_records import Id
from jute.quorum_records import (
    Initiation,
    LearnerInfo,
    Notification,
    PacketType,
    QuorumPacket,
    ServerState,
    decode_initiation,
    decode_notification,
    encode_initiation,
    encode_notification,
)
from jute.record import DecodeError, Truncated, decode, encode
from tests.strategies import bmp_text, signed

CONFIG = (
    "server.1=127.0.0.1:42881:43881:participant;127.0.0.1:41181\n"
    "server.2=127.0.0.1:42882:43882:participant;127.0.0.1:41182\n"
    "server.3=127.0.0.1:42883:43883:participant;127.0.0.1:41183\n"
    "version=0"
)

PACKETS: list[tuple[str, QuorumPacket]] = [
    (
        "0000000b 0000000000000000 00000014 0000000000000001 00010000 0000000000000000 ffffffff",
        QuorumPacket(PacketType.FOLLOWERINFO, 0, encode(LearnerInfo(1, 0x10000, 0)), None),
    ),
    (
        "00000011 0000000100000000 00000004 00010000 ffffffff",
        QuorumPacket(PacketType.LEADERINFO, 1 << 32, b"\x00\x01\x00\x00", None),
    ),
    (
        "0000000c ffffffffffffffff ffffffff ffffffff",
        QuorumPacket(PacketType.UPTODATE, -1, None, None),
    ),
    ("00000005 0000000100000000 ffffffff ffffffff", QuorumPacket(PacketType.PING, 1 << 32, None, None)),
    ("00000005 0000000100000000 00000000 ffffffff", QuorumPacket(PacketType.PING, 1 << 32, b"", None)),
    (
        "00000001 ffffffffffffffff 00000014 01000010037b0000 00000000 fffffff6 00007530 ffffffff",
        QuorumPacket(
            PacketType.REQUEST, -1, bytes.fromhex("01000010037b0000 00000000 fffffff6 00007530"), None
        ),
    ),
    (
        "00000001 ffffffffffffffff 00000016 01000010037b0000 00000006 00000009 00000002 2f61 "
        "00000001 00000002 6970 00000009 3132372e302e302e31",
        QuorumPacket(
            PacketType.REQUEST,
            -1,
            bytes.fromhex("01000010037b0000 00000006 00000009 00000002 2f61"),
            (Id("ip", "127.0.0.1"),),
        ),
    ),
]


@pytest.mark.parametrize(("captured", "packet"), PACKETS)
def test_captured_packets(captured: str, packet: QuorumPacket) -> None:
    """Read to these values and written to the same bytes."""
    data = bytes.fromhex(captured)
    assert decode(QuorumPacket, data) == (packet, len(data))
    assert encode(packet) == data


# --- Initiation.

INITIATION_OF_1 = "ffffffffffff0000 0000000000000001 0000000f 3132372e302e302e313a3433383831"


def test_captured_initiation() -> None:
    """One address goes out in the version every server knows."""
    data = bytes.fromhex(INITIATION_OF_1)
    initiation = Initiation(1, ("127.0.0.1:43881",))
    assert encode_initiation(initiation) == data
    assert decode_initiation(data + b"more of the stream") == (initiation, len(data))


@pytest.mark.parametrize("version", ["ffffffffffff0000", "ffffffffffff0001"])
def test_several_addresses_are_read_in_either_version(version: str) -> None:
    """A receiver splits them in the first version too; a sender uses the second."""
    data = bytes.fromhex(version + "0000000000000003 0000000b") + b"a:1|[::1]:2"
    initiation = Initiation(3, ("a:1", "[::1]:2"))
    assert decode_initiation(data) == (initiation, len(data))
    assert encode_initiation(initiation)[:8] == bytes.fromhex("ffffffffffff0001")


def test_before_3_5_the_version_is_the_sid() -> None:
    """Eight bytes are the whole message then."""
    assert decode_initiation(bytes.fromhex("0000000000000005 00000028")) == (Initiation(5, ()), 8)


def test_an_initiation_cut_short_anywhere_waits_for_more() -> None:
    """It may arrive in pieces."""
    data = bytes.fromhex(INITIATION_OF_1)
    for end in range(len(data)):
        with pytest.raises(Truncated):
            decode_initiation(data[:end])


@pytest.mark.parametrize(
    "data",
    [
        "fffffffffffeffff 0000000000000001 00000001 61",
        "ffffffffffffffff 0000000000000001 00000001 61",
        "ffffffffffff0000 0000000000000001 00000000",
        "ffffffffffff0000 0000000000000001 ffffffff",
        "ffffffffffff0000 0000000000000001 00000801",
        "ffffffffffff0000 0000000000000001 7fffffff",
    ],
)
def test_a_bad_version_or_length_is_refused_for_good(data: str) -> None:
    """No more bytes are waited for."""
    with pytest.raises(DecodeError) as caught:
        decode_initiation(bytes.fromhex(data))
    assert type(caught.value) is DecodeError


@given(
    signed(64), st.lists(bmp_text(min_size=1).filter(lambda text: "|" not in text), min_size=1, max_size=3)
)
def test_initiations_survive(sid: int, addresses: list[str]) -> None:
    """Any sid, negative ones too, and any addresses."""
    initiation = Initiation(sid, tuple(addresses))
    data = encode_initiation(initiation)
    assert decode_initiation(data) == (initiation, len(data))


# --- Notifications.

VOTE_FOR_2 = Notification(
    ServerState.LOOKING, leader=2, zxid=0, election_epoch=1, peer_epoch=0, config=CONFIG
)


def test_captured_notification() -> None:
    """The first vote of server 2 in a fresh ensemble."""
    head = bytes.fromhex(
        "00000000 0000000000000002 0000000000000000 0000000000000001 0000000000000000 00000002 000000ba"
    )
    assert encode_notification(VOTE_FOR_2) == head + CONFIG.encode()
    assert decode_notification(head + CONFIG.encode()) == VOTE_FOR_2


@given(st.sampled_from(ServerState), signed(64), signed(64), signed(64), signed(64), bmp_text())
def test_notifications_survive(
    state: ServerState, leader: int, zxid: int, election_epoch: int, peer_epoch: int, config: str
) -> None:
    """An observer's vote, all of it the least i64, included."""
    notification = Notification(state, leader, zxid, election_epoch, peer_epoch, config)
    assert decode_notification(encode_notification(notification)) == notification


def test_older_notifications_are_told_by_their_length() -> None:
    """28 bytes: the epoch is the zxid's. 40: what stands in the version's place counts as 0."""
    data = encode_notification(Notification(ServerState.LEADING, 3, 0x500000007, 9, 6, CONFIG))
    oldest = Notification(ServerState.LEADING, 3, 0x500000007, 9, peer_epoch=5, config=None, version=0)
    older = Notification(ServerState.LEADING, 3, 0x500000007, 9, peer_epoch=6, config=None, version=0)
    assert decode_notification(data[:28]) == oldest
    assert decode_notification(data[:40]) == older


def test_version_1_may_have_bytes_behind_it() -> None:
    """It has no config, whatever follows."""
    data = encode_notification(VOTE_FOR_2)[:36] + bytes.fromhex("00000001 000000ba")
    assert decode_notification(data).version == 1
    assert decode_notification(data).config is None


@pytest.mark.parametrize("size", [0, 4, 27, 29, 35, 36, 39, 41, 43, 44, 229])
def test_notifications_of_other_lengths_are_refused(size: int) -> None:
    """They are to be ignored: a server says nothing by them."""
    with pytest.raises(DecodeError):
        decode_notification(encode_notification(VOTE_FOR_2)[:size])


@pytest.mark.parametrize("length", [-1, -(2**31), 187, 2**31 - 1])
def test_a_config_length_out_of_range_is_refused(length: int) -> None:
    """Nothing is allocated for it."""
    data = bytearray(encode_notification(VOTE_FOR_2))
    data[40:44] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(DecodeError):
        decode_notification(bytes(data))


def test_an_unknown_state_is_refused() -> None:
    """There are four."""
    data = b"\x00\x00\x00\x04" + encode_notification(VOTE_FOR_2)[4:]
    with pytest.raises(DecodeError, match="state 4"):
        decode_notification(data)


@given(st.binary(max_size=60))
def test_hostile_messages_raise_decode_error(data: bytes) -> None:
    """Whatever arrives on the election port."""
    for read in (decode_initiation, decode_notification):
        with contextlib.suppress(DecodeError):
            read(data)
