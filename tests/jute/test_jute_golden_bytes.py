"""Frames captured between a ZooKeeper 3.9.5 server and its clients, as records.

Of the failed multi the body alone was captured; its header is ours.
"""

import pytest

from jute.client_records import (
    Acl,
    ConnectRequest,
    ConnectResponse,
    CreateRequest,
    CreateResponse,
    ErrorResponse,
    Id,
    MultiHeader,
    ReplyHeader,
    RequestHeader,
    WatcherEvent,
)
from jute.errors import AuthFailed, BadVersion, NodeExists, RuntimeInconsistency, Unimplemented
from jute.framing import FrameBuffer, frame
from jute.opcodes import (
    AUTH_XID,
    NOTIFICATION_XID,
    PING_XID,
    CreateMode,
    EventType,
    KeeperState,
    OpCode,
    Perms,
)
from jute.record import decode, encode

NO_PASSWORD = bytes(16)
READ_ONLY_FALSE = b"\x00"
WORLD_ALL = Acl(Perms.ALL, Id("world", "anyone"))

FRAMES: list[tuple[str, str, list[object], bytes]] = [
    (
        "connect, new session, 10 s",
        f"0000002d 00000000 0000000000000000 00002710 0000000000000000 00000010 {'00' * 16} 00",
        [ConnectRequest(0, 0, 10_000, 0, NO_PASSWORD)],
        READ_ONLY_FALSE,
    ),
    (
        "connected",
        "00000025 00000000 00002710 010000102e410000 00000010 c5fd1bb06e3c1bb6ab5a4cc367853e36 00",
        [ConnectResponse(0, 10_000, 0x010000102E410000, bytes.fromhex("c5fd1bb06e3c1bb6ab5a4cc367853e36"))],
        READ_ONLY_FALSE,
    ),
    (
        "session refused",
        f"00000025 00000000 00000000 0000000000000000 00000010 {'00' * 16} 00",
        [ConnectResponse(0, 0, 0, NO_PASSWORD)],
        READ_ONLY_FALSE,
    ),
    ("ping", "00000008 fffffffe 0000000b", [RequestHeader(PING_XID, OpCode.PING)], b""),
    ("pong at zxid 5", "00000010 fffffffe 0000000000000005 00000000", [ReplyHeader(PING_XID, 5, 0)], b""),
    (
        "create /a",
        "00000031 00000001 00000001 00000002 2f61 00000000 00000001 0000001f 00000005 776f726c64 "
        "00000006 616e796f6e65 00000000",
        [RequestHeader(1, OpCode.CREATE), CreateRequest("/a", b"", (WORLD_ALL,), CreateMode.PERSISTENT)],
        b"",
    ),
    (
        "created",
        "00000016 00000001 0000000000000004 00000000 00000002 2f61",
        [ReplyHeader(1, 4, 0), CreateResponse("/a")],
        b"",
    ),
    (
        "exists already",
        "00000010 00000002 0000000000000005 ffffff92",
        [ReplyHeader(2, 5, NodeExists.code)],
        b"",
    ),
    (
        "data of /a changed",
        "0000001e ffffffff 0000000000000006 00000000 00000003 00000003 00000002 2f61",
        [
            ReplyHeader(NOTIFICATION_XID, 6, 0),
            WatcherEvent(EventType.NODE_DATA_CHANGED, KeeperState.SYNC_CONNECTED, "/a"),
        ],
        b"",
    ),
    (
        "multi whose second part failed",
        "00000040 00000003 0000000000000007 00000000 ffffffff 00 00000000 00000000 "
        "ffffffff 00 ffffff99 ffffff99 ffffffff 00 fffffffe fffffffe ffffffff 01 ffffffff",
        [
            ReplyHeader(3, 7, 0),
            MultiHeader(OpCode.ERROR, False, 0),
            ErrorResponse(0),
            MultiHeader(OpCode.ERROR, False, BadVersion.code),
            ErrorResponse(BadVersion.code),
            MultiHeader(OpCode.ERROR, False, RuntimeInconsistency.code),
            ErrorResponse(RuntimeInconsistency.code),
            MultiHeader(-1, True, -1),
        ],
        b"",
    ),
    (
        "unknown opcode",
        "00000010 00000001 ffffffffffffffff fffffffa",
        [ReplyHeader(1, -1, Unimplemented.code)],
        b"",
    ),
    (
        "addauth failed",
        "00000010 fffffffc 0000000000000000 ffffff8d",
        [ReplyHeader(AUTH_XID, 0, AuthFailed.code)],
        b"",
    ),
    ("close", "00000008 00000009 fffffff5", [RequestHeader(9, OpCode.CLOSE_SESSION)], b""),
]


@pytest.mark.parametrize(("what", "frame_hex", "parts", "rest"), FRAMES, ids=[entry[0] for entry in FRAMES])
def test_captured_frames(what: str, frame_hex: str, parts: list[object], rest: bytes) -> None:
    """The frame is these records one after another, read or written."""
    captured = bytes.fromhex(frame_hex)
    buffer = FrameBuffer(frame_length_max=0xFFFFF)
    buffer.feed(captured)
    payload = buffer.next_frame()
    assert payload is not None, what

    at = 0
    for part in parts:
        read, at = decode(type(part), payload, at)
        assert read == part
    assert payload[at:] == rest
    assert frame(b"".join(map(encode, parts)) + rest) == captured
