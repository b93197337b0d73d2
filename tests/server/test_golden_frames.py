"""Frames captured from a ZooKeeper 3.9.5 server, byte for byte, and numbers that only the original knows."""

from struct import pack

import pytest

from jute.client_records import Acl, CreateRequest, GetDataRequest, Id, SetDataRequest
from jute.opcodes import OpCode
from jute.record import encode
from server.acls import digest_id
from server.client_sessions import Sessions, first_session_id, password_of
from server.data_tree import DataTree
from server.txns import decode_txn
from tests.server.one_server import Client, OneServer

OPEN = (Acl(31, Id("world", "anyone")),)
CONNECT = "0000002d 00000000 0000000000000000 00002710 0000000000000000 00000010" + "00" * 16 + "00"
REFUSAL = "00000025 00000000 00000000 0000000000000000 00000010" + "00" * 16 + "00"
CREATE_A = (
    "00000031 00000001 00000001 00000002 2f61 00000000 00000001 0000001f 00000005 776f726c64"
    "00000006 616e796f6e65 00000000"
)


def at_zxid(zxid: int) -> Client:
    """A client whose server has done this many transactions, all but the first without effect."""
    server = OneServer()
    client = server.connect()
    for _ in range(zxid - 1):
        client.ask(OpCode.DELETE, b"\0\0\0\1/\xff\xff\xff\xff")
    assert server.tree.last_zxid == zxid
    return client


def said(client: Client, hexadecimal: str) -> bytes:
    """What the server says to these bytes."""
    client.connection.received(bytes.fromhex(hexadecimal))
    client.server.settle()
    return client.receive()


def test_connect() -> None:
    """The first frames of every conversation; the password follows from the session's id."""
    server = OneServer()
    server.pipeline.sessions = Sessions(2000, 0x010000102E410000)
    response = "00000025 00000000 00002710 010000102e410000 00000010 c5fd1bb06e3c1bb6ab5a4cc367853e36 00"
    assert said(Client(server), CONNECT) == bytes.fromhex(response)


def test_a_refused_session() -> None:
    """Zeros, then the end."""
    client = Client(OneServer())
    unknown = CONNECT.replace("00002710 0000000000000000", "00002710 0100001670170000")
    assert said(client, unknown) == bytes.fromhex(REFUSAL)
    assert client.is_closed


def test_ping() -> None:
    """At zxid 5."""
    assert said(at_zxid(5), "00000008 fffffffe 0000000b") == bytes.fromhex(
        "00000010 fffffffe 0000000000000005 00000000"
    )


def test_create_and_create_again() -> None:
    """At zxid 4, and at 5."""
    client = at_zxid(3)
    assert said(client, CREATE_A) == bytes.fromhex(
        "00000016 00000001 0000000000000004 00000000 00000002 2f61"
    )
    again = CREATE_A.replace("00000031 00000001", "00000031 00000002", 1)
    assert said(client, again) == bytes.fromhex("00000010 00000002 0000000000000005 ffffff92")


def test_an_event() -> None:
    """NodeDataChanged at zxid 6, before the reply to the change."""
    client = at_zxid(4)
    said(client, CREATE_A)
    client.ask(OpCode.GET_DATA, GetDataRequest("/a", True))
    client.send(7, OpCode.SET_DATA, encode(SetDataRequest("/a", b"", -1)))
    client.server.settle()
    event = bytes.fromhex("0000001e ffffffff 0000000000000006 00000000 00000003 00000003 00000002 2f61")
    assert client.receive().startswith(event)


def test_a_multi_that_failed() -> None:
    """Three operations, of which the second has the wrong version."""
    client = at_zxid(2)
    said(client, CREATE_A)
    operation = pack(">i?i", OpCode.CHECK, False, -1) + b"\0\0\0\2/a"
    body = b"".join(operation + pack(">i", version) for version in (0, 7, 0)) + pack(">i?i", -1, True, -1)
    _, err, results = client.ask(OpCode.MULTI, body)
    assert err == 0
    assert results == bytes.fromhex(
        "ffffffff 00 00000000 00000000 ffffffff 00 ffffff99 ffffff99 ffffffff 00 fffffffe fffffffe"
        "ffffffff 01 ffffffff"
    )


def test_an_unknown_opcode() -> None:
    """The one reply whose zxid is -1."""
    client = at_zxid(2)
    assert said(client, "00000008 00000001 00001234") == bytes.fromhex(
        "00000010 00000001 ffffffffffffffff fffffffa"
    )
    assert client.is_closed


def test_credentials_that_are_refused() -> None:
    """The reply to auth has zxid 0."""
    client = at_zxid(2)
    assert said(client, "00000014 fffffffc 00000064 00000000 00000000 00000000") == bytes.fromhex(
        "00000010 fffffffc 0000000000000000 ffffff8d"
    )
    assert client.is_closed


def test_close() -> None:
    """A header in each direction."""
    client = at_zxid(2)
    assert said(client, "00000008 00000009 fffffff5") == bytes.fromhex(
        "00000010 00000009 0000000000000003 00000000"
    )
    assert client.is_closed


@pytest.mark.parametrize(
    ("session_id", "password"),
    [
        (0x010000102E410000, "c5fd1bb06e3c1bb6ab5a4cc367853e36"),
        (0x0100001670170000, "7bcec82eec9dfb24511195b4156e559b"),
    ],
)
def test_passwords(session_id: int, password: str) -> None:
    """As every server of an ensemble computes them."""
    assert password_of(session_id).hex() == password


@pytest.mark.parametrize(
    ("server_id", "now_ms", "first"),
    [
        (1, 0x102E41, 0x010000102E410000),
        (1, 0xFF_FFFF_FFFF, 0x01FFFFFFFFFF0000),
        (1, 0x1_FF_FFFF_FFFF, 0x01FFFFFFFFFF0000),
        (128, 0, -0x8000000000000000 + 1),
        (200, 5, 0xC800000000050000 - (1 << 64)),
    ],
)
def test_where_session_ids_begin(server_id: int, now_ms: int, first: int) -> None:
    """The server's id, forty bits of the clock, sixteen to count; never the number that marks containers."""
    assert first_session_id(server_id, now_ms) == first


@pytest.mark.parametrize(
    ("credentials", "name"),
    [(b"u:p", "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="), (b"u2", "u2:ucaeVIj/iLkglvETc4Lmf+EXL6Y=")],
)
def test_digest_ids(credentials: bytes, name: str) -> None:
    """The hash covers the user's name, too."""
    assert digest_id(credentials) == name


def test_the_digest_of_a_tree_nobody_has_touched() -> None:
    """The root and /zookeeper; what is below that differs between servers and does not count."""
    assert DataTree().digest == 0x51C6D660


def test_the_largest_node_makes_a_reply_larger_than_any_request() -> None:
    """jute.maxbuffer bounds what is read, not what is sent."""
    client = at_zxid(1)
    room = 0xFFFFF - len(encode(CreateRequest("/big", b"", OPEN, 0))) - 8
    assert client.ask(OpCode.CREATE, CreateRequest("/big", bytes(room), OPEN, 0))[1] == 0
    _, err, body = client.ask(OpCode.GET_DATA, GetDataRequest("/big", False))
    assert err == 0
    assert len(body) == 4 + room + 68
    client.send(1, OpCode.CREATE, encode(CreateRequest("/bigger", bytes(room), OPEN, 0)))
    assert client.is_closed


def test_every_part_of_a_multi_has_the_time_of_the_whole() -> None:
    """Wall time, when it was prepared."""
    client = at_zxid(1)
    client.server.pass_time(5)
    create = pack(">i?i", OpCode.CREATE2, False, -1)
    bodies = [create + encode(CreateRequest(path, b"", OPEN, 0)) for path in ("/x", "/y")]
    client.ask(OpCode.MULTI, b"".join(bodies) + pack(">i?i", -1, True, -1))
    tree = client.server.tree
    assert tree.mtime_ms(b"/x") == tree.mtime_ms(b"/y") == client.server.pipeline.wall_ms
    assert decode_txn(client.server.sink.payloads[-1]).time_ms == client.server.pipeline.wall_ms
