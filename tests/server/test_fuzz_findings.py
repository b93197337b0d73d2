"""What hostile clients could do to the server, each finding as a test of its own.

The long way to look for more is compat-tests/fuzz.py, the short one test_protocol_fuzz.py beside this.
"""

import tracemalloc
from struct import pack

import pytest

from jute.client_records import (
    Acl,
    AuthPacket,
    CreateRequest,
    DeleteRequest,
    ExistsRequest,
    GetDataRequest,
    Id,
    SetDataRequest,
)
from jute.errors import AuthFailed, InvalidAcl, MarshallingError
from jute.opcodes import CreateMode, OpCode, Perms
from jute.record import encode
from server.acls import ENTRIES_MAX, IDS_MAX, AccessRules, AclVector
from server.server_stats import NamespaceSummaries
from tests.server.one_server import Client, OneServer

OPEN = (Acl(int(Perms.ALL), Id("world", "anyone")),)
MULTI_END = pack(">i?i", -1, True, -1)


def create(client: Client, path: str, data: bytes = b"", mode: int = 0) -> int:
    return client.ask(OpCode.CREATE, CreateRequest(path, data, OPEN, mode))[1]


def operation(op: OpCode, request: object) -> bytes:
    return pack(">i?i", op, False, -1) + encode(request)


# -- transactions


def test_a_multi_keeps_one_earlier_state_of_a_node_however_often_it_changes_it() -> None:
    """Else a few thousand creates below a node with a megabyte of data take gigabytes."""
    client = OneServer().connect()
    create(client, "/p", bytes(1_000_000))
    sequential = operation(OpCode.CREATE, CreateRequest("/p/", b"", OPEN, CreateMode.PERSISTENT_SEQUENTIAL))
    tracemalloc.start()
    try:
        _, err, _ = client.ask(OpCode.MULTI, sequential * 100 + MULTI_END)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert err == 0
    assert peak_bytes < 20_000_000


def test_a_failed_multi_leaves_what_was_in_flight_before_it() -> None:
    server = OneServer()
    client = server.connect()
    create(client, "/p")
    client.send(1, OpCode.SET_DATA, encode(SetDataRequest("/p", b"in flight", -1)))
    failing = operation(OpCode.SET_DATA, SetDataRequest("/p", b"1", -1)) * 3
    failing += operation(OpCode.DELETE, DeleteRequest("/none", -1))
    client.send(2, OpCode.MULTI, failing + MULTI_END)
    client.send(3, OpCode.SET_DATA, encode(SetDataRequest("/p", b"last", 1)))
    server.settle()
    assert client.frames()[-1][12:16] == bytes(4)
    assert not server.pipeline.preparer.pending
    assert not server.pipeline.preparer._order


def test_closing_a_session_leaves_a_node_that_is_somebody_elses_by_then() -> None:
    """Its ephemeral was deleted and made anew by another session while all of that was in flight."""
    server = OneServer()
    first, second = server.connect(), server.connect()
    create(first, "/e", mode=CreateMode.EPHEMERAL)
    second.send(1, OpCode.DELETE, encode(DeleteRequest("/e", -1)))
    second.send(2, OpCode.CREATE, encode(CreateRequest("/e", b"second", OPEN, CreateMode.EPHEMERAL)))
    first.send(3, OpCode.CLOSE_SESSION)
    server.settle()
    assert server.tree.ephemerals == {second.session_id: {b"/e": None}}


def test_closing_a_session_deletes_what_it_was_about_to_create() -> None:
    server = OneServer()
    client, other = server.connect(), server.connect()
    client.send(1, OpCode.CREATE, encode(CreateRequest("/e", b"", OPEN, CreateMode.EPHEMERAL)))
    other.send(1, OpCode.SET_DATA, encode(SetDataRequest("/e", b"in flight too", -1)))
    client.send(2, OpCode.CLOSE_SESSION)
    server.settle()
    assert b"/e" not in server.tree.bodies
    assert not server.tree.ephemerals


def test_a_session_with_megabytes_of_ephemerals_is_closed_by_a_small_transaction() -> None:
    """One that lists them could be larger than any entry of the log is allowed to be."""
    server = OneServer()
    client = server.connect()
    for n in range(3):
        create(client, f"/{n}" + "e" * 250_000, mode=CreateMode.EPHEMERAL)
    client.ask(OpCode.CLOSE_SESSION)
    assert len(server.sink.payloads[-1]) < 100
    assert not server.tree.ephemerals
    assert server.tree.digest == server.tree.compute_digest()


def test_a_multi_cannot_grow_without_bound_by_expanding_auth() -> None:
    server = OneServer()
    client = server.connect()
    for n in range(IDS_MAX - 1):
        credentials = AuthPacket(0, "digest", b"user-with-a-long-name-%d" % n + b"x" * 500 + b":p")
        assert client.ask(OpCode.AUTH, credentials)[1] == 0
    mine = (Acl(int(Perms.ALL), Id("auth", "")),)
    sequential = CreateRequest("/", b"", mine, CreateMode.PERSISTENT_SEQUENTIAL)
    nodes = len(server.tree.bodies)
    _, err, _ = client.ask(OpCode.MULTI, operation(OpCode.CREATE, sequential) * 1000 + MULTI_END)
    assert err == MarshallingError.code
    assert len(server.tree.bodies) == nodes
    assert len(server.sink.payloads[-1]) < 100


# -- access control


def test_an_acl_has_a_bounded_number_of_entries() -> None:
    """Told apart in no more than a moment, though a frame can hold tens of thousands."""
    entries = tuple(Acl(n, Id("world", "anyone")) for n in range(50_000))
    rules = AccessRules()
    with pytest.raises(InvalidAcl):
        rules.fix_up(encode(AclVector(entries)), ())
    largest = encode(AclVector(entries[:ENTRIES_MAX]))
    assert rules.fix_up(largest, ()) == largest
    assert rules.fix_up(encode(AclVector(entries[:ENTRIES_MAX] * 2)), ()) == largest


def test_a_client_proves_a_bounded_number_of_ids() -> None:
    client = OneServer().connect()
    answers = [
        client.ask(OpCode.AUTH, AuthPacket(0, "digest", b"u%d:p" % n), xid=-4)[1] for n in range(IDS_MAX)
    ]
    assert answers == [0] * (IDS_MAX - 1) + [AuthFailed.code]
    assert client.is_closed


def test_a_client_proves_ids_of_bounded_length() -> None:
    client = OneServer().connect()
    assert client.ask(OpCode.AUTH, AuthPacket(0, "digest", b"u" * 100_000), xid=-4)[1] == AuthFailed.code


# -- reads


def test_a_multi_read_of_more_than_any_reply_can_hold_is_refused() -> None:
    server = OneServer()
    client = server.connect()
    create(client, "/big", bytes(1_000_000))
    reads = operation(OpCode.GET_DATA, GetDataRequest("/big", False)) * 3000
    _, err, body = client.ask(OpCode.MULTI_READ, reads + MULTI_END)
    assert (err, body) == (MarshallingError.code, b"")
    assert client.ask(OpCode.EXISTS, ExistsRequest("/big", False))[1] == 0


# -- counting


def test_namespaces_are_counted_up_to_a_number_of_them() -> None:
    summaries = NamespaceSummaries()
    summaries.add(b"/" + b"n" * 1_000_000, 1)
    for n in range(5000):
        summaries.add(b"/n%d/x" % n, 1)
    assert len(summaries) == 1000
    assert all(len(name) < 300 for name in summaries)
