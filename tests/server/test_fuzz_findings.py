"""What hostile clients could do to the server, each finding as a test of its own.

The long way to look for more is `make fuzz`, the short one test_protocol_fuzz.py beside this.
"""

import errno
import gc
import math
import select
import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from struct import pack, unpack_from
from zlib import crc32

import pytest
import trio
from trio.testing import MockClock, lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from jute.client_records import (
    Acl,
    AddWatchRequest,
    AuthPacket,
    ConnectRequest,
    CreateRequest,
    DeleteRequest,
    ExistsRequest,
    GetDataRequest,
    Id,
    SetDataRequest,
    SetWatches,
)
from jute.errors import AuthFailed, InvalidAcl, MarshallingError
from jute.opcodes import AddWatchMode, CreateMode, OpCode, Perms
from jute.record import encode
from server.acls import ENTRIES_MAX, IDS_MAX, AccessRules
from server.client_fronts import FrontLimits, Peer, PlainFront
from server.client_protocol import CLOSED, EVENTS_MAX_BYTES
from server.clock import SystemClock
from server.data_tree import node_digest
from server.pipeline import Limits
from server.stream_front import StreamFront
from tests.captured_logs import capture_logs
from tests.persistence.memory_disk import MemoryDisk
from tests.server.acl_vectors import AclVector
from tests.server.one_server import Client, OneServer
from tests.server.test_standalone import Talk, running

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
    assert not server.pipeline.preparer.has_to_forget


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


def test_a_multi_of_any_size_keeps_acls_that_do_not_grow() -> None:
    client = OneServer(limits=Limits(frame_bytes_max=10 << 20)).connect()
    closed = (Acl(1, Id("digest", "u:" + "x" * 1000)),)
    sequential = CreateRequest("/", b"", closed, CreateMode.PERSISTENT_SEQUENTIAL)
    _, err, _ = client.ask(OpCode.MULTI, operation(OpCode.CREATE, sequential) * 2000 + MULTI_END)
    assert err == 0


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
    entries = tuple(Acl(n, Id("world", "anyone")) for n in range(20_000))
    rules = AccessRules()
    with pytest.raises(InvalidAcl):
        rules.fix_up(encode(AclVector(entries)), ())
    largest = encode(AclVector(entries[:ENTRIES_MAX]))
    assert rules.fix_up(largest, ()) == largest
    assert rules.fix_up(encode(AclVector(entries[:ENTRIES_MAX] * 2)), ()) == largest


def test_an_address_has_a_bounded_length() -> None:
    """One of a megabyte, most of it zeros, would be read with every access."""
    address = Acl(1, Id("ip", "1.2.3.4/" + "0" * 100_000 + "8"))
    with pytest.raises(InvalidAcl):
        AccessRules().fix_up(encode(AclVector((address,))), ())


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


# -- output that nobody reads


def handshake() -> bytes:
    body = encode(ConnectRequest(0, 0, 10_000, 0, bytes(16))) + b"\x00"
    return pack(">i", len(body)) + body


def request(xid: int, op: OpCode, record: object | None = None) -> bytes:
    body = pack(">ii", xid, op) + (b"" if record is None else encode(record))
    return pack(">i", len(body)) + body


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


class Stage:
    """A PlainFront that is driven by hand, and its clients' ends of the sockets."""

    def __init__(self, listener: socket.socket) -> None:
        self.server = OneServer()
        self.front = PlainFront(self.server.pipeline, FrontLimits(), SystemClock())
        self.front._listener, self.front._listener_fd = listener, listener.fileno()
        self.front.poll.register(listener, select.EPOLLIN)
        self.writer = self.server.connect()
        create(self.writer, "/w")

    def connect(self, *requests: bytes) -> tuple[socket.socket, Peer]:
        """A client that has its session and has asked for something; it has read nothing."""
        client = socket.create_connection(self.front._listener.getsockname())
        self.turn()
        client.sendall(handshake() + b"".join(requests))
        self.turn()
        (peer,) = [
            peer for peer in self.front.peers.values() if peer.sock.getpeername() == client.getsockname()
        ]
        return client, peer

    def turn(self) -> None:
        """Serve whatever is ready, as the front's own loop does."""
        for _ in range(3):
            self.server.begin_batch()
            self.front._serve_ready()
            self.server.settle()
            self.server.pipeline.resume_paused()
            self.front.flush()

    def fire(self, path: str, count: int) -> None:
        for _ in range(count):
            self.writer.ask(OpCode.SET_DATA, SetDataRequest(path, b"", -1))
            self.front.flush()


@pytest.fixture
def stage(listener: socket.socket) -> Iterator[Stage]:
    stage = Stage(listener)
    yield stage
    stage.front.close()


def test_a_connection_that_is_over_leaves_no_circle_behind(stage: Stage) -> None:
    """Garbage in circles is looked for rarely (garbage.py)."""
    client, peer = stage.connect()
    client.close()
    stage.turn()
    assert peer.connection.state == CLOSED
    assert peer not in gc.get_referents(peer.connection)


def test_a_client_that_takes_no_events_is_cut_off_and_gone_at_once(stage: Stage) -> None:
    """What it has not taken does not keep it: nobody will ever take it."""
    path = "/" + "x" * 50_000
    create(stage.writer, path)
    watch = AddWatchRequest(path, AddWatchMode.PERSISTENT)
    client, peer = stage.connect(request(1, OpCode.ADD_WATCH, watch))
    with client:
        stage.fire(path, EVENTS_MAX_BYTES // 50_000 + 200)  # beyond what the two sockets take
        assert peer.connection.state == CLOSED
        assert peer not in stage.front.peers.values()
    assert not stage.server.pipeline.watches
    assert not peer.waiting


def test_an_event_for_a_client_that_does_not_read_copies_none_of_those_before(stage: Stage) -> None:
    path = "/" + "x" * 50_000
    create(stage.writer, path)
    watch = AddWatchRequest(path, AddWatchMode.PERSISTENT)
    client, peer = stage.connect(request(1, OpCode.ADD_WATCH, watch))
    with client:
        stage.fire(path, 200)
        unsent, waiting = peer.waiting[0], len(peer.waiting)
        stage.fire(path, 2)
        assert peer.waiting[0] is unsent
        assert len(peer.waiting) == waiting + 2
        assert peer.connection.out_bytes == peer.waiting_bytes == sum(map(len, peer.waiting))


def test_a_client_that_reads_again_gets_everything_in_order(stage: Stage) -> None:
    path = "/" + "x" * 50_000
    create(stage.writer, path)
    watch = AddWatchRequest(path, AddWatchMode.PERSISTENT)
    client, peer = stage.connect(request(1, OpCode.ADD_WATCH, watch))
    with client:
        stage.fire(path, 200)
        assert peer.waiting
        client.sendall(request(2, OpCode.PING))
        client.setblocking(False)
        received = bytearray()
        while not received.endswith(pack(">iqi", -2, stage.server.tree.last_zxid, 0)):
            with suppress(BlockingIOError):
                received += client.recv(1 << 20)
            stage.turn()
    zxids = [unpack_from(">q", frame, 4)[0] for frame in frames_of(bytes(received))[2:]]
    assert len(zxids) == 201
    assert zxids == sorted(zxids)


def frames_of(data: bytes) -> list[bytes]:
    frames = []
    while data:
        length = unpack_from(">i", data)[0]
        frames.append(data[4 : 4 + length])
        data = data[4 + length :]
    return frames


async def test_a_stream_that_takes_nothing_is_let_go(autojump_clock: MockClock) -> None:
    """Its task is stuck in a send: to close the conversation has to end that too."""
    server = OneServer()
    front = StreamFront(server.pipeline, FrontLimits(), SystemClock())
    client, server_end = lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(front.serve, server_end, "127.0.0.1", 1)
        await client.send_all(handshake())
        await wait_all_tasks_blocked()
        server.settle()
        await wait_all_tasks_blocked()
        (peer,) = front.peers
        peer.connection.close()
    assert not front.peers
    assert not server.pipeline.connections


async def test_a_stream_that_breaks_ends_its_own_conversation_alone() -> None:
    server = OneServer()
    front = StreamFront(server.pipeline, FrontLimits(), SystemClock())
    _, server_end = memory_stream_pair()

    async def broken(max_bytes: int | None = None) -> bytes:
        raise trio.BrokenResourceError

    server_end.receive_some = broken  # type: ignore[method-assign]
    await front.serve(server_end, "127.0.0.1", 1)
    assert not front.peers


def test_reads_behind_a_write_are_taken_no_further_than_their_replies_may_pile_up() -> None:
    """All of them are answered in the moment the write is done, and the client may not be reading."""
    server = OneServer()
    client = server.connect()
    create(client, "/big")
    client.send(1, OpCode.SET_DATA, encode(SetDataRequest("/big", bytes(500_000), -1)))
    for xid in range(2, 100):
        client.send(xid, OpCode.GET_DATA, encode(GetDataRequest("/big", False)))
    assert client.connection.is_paused
    assert server.pipeline.queued_reads == 3
    server.settle()
    heard = [unpack_from(">i", frame)[0] for frame in client.frames()]
    while client.connection.out:
        heard += [unpack_from(">i", frame)[0] for frame in client.frames()]
    assert heard == list(range(1, 100))
    assert not client.connection.is_paused


def test_many_small_reads_behind_a_write_do_not_stop_a_client() -> None:
    server = OneServer()
    client = server.connect()
    client.send(1, OpCode.SET_DATA, encode(SetDataRequest("/", b"x", -1)))
    for xid in range(2, 500):
        client.send(xid, OpCode.GET_DATA, encode(GetDataRequest("/", False)))
    assert not client.connection.is_paused
    server.settle()
    assert len(client.frames()) == 499


def test_watches_set_by_the_request_that_overruns_its_client_go_with_it() -> None:
    """setWatches first tells of a great many changes, then sets a watch; only then is the client cut off."""
    server = OneServer()
    client = server.connect()
    create(client, "/w")
    many = ("",) * (EVENTS_MAX_BYTES // 32 + 1)
    client.send(1, OpCode.SET_WATCHES, encode(SetWatches(server.tree.last_zxid, (), many, ("/w",))))
    client.connection.flushed(EVENTS_MAX_BYTES + 1)
    assert client.is_closed
    assert not server.pipeline.watches


def test_a_slow_client_is_not_cut_off_for_events_it_has_taken() -> None:
    """As long as little of them waits, any number may have gone by."""
    server = OneServer()
    client = server.connect()
    create(client, "/w")
    client.ask(OpCode.ADD_WATCH, AddWatchRequest("/w", AddWatchMode.PERSISTENT))
    client.connection.event_bytes = 10 * EVENTS_MAX_BYTES
    client.connection.flushed(1000)
    assert not client.is_closed


def test_a_client_that_is_slow_to_read_lives_as_long_as_it_reads() -> None:
    """Its pings wait in the socket, which nobody reads as long as so much is still to be sent."""
    server = OneServer()
    client = server.connect(timeout_ms=4000)
    create(client, "/big", bytes(1_000_000))
    for _ in range(3):
        client.send(1, OpCode.GET_DATA, encode(GetDataRequest("/big", False)))
    assert client.connection.is_paused
    client.connection.out.clear()
    for unsent in range(1_900_000, 1_100_000, -100_000):
        server.pass_time(3000)
        client.connection.flushed(unsent)
    assert server.pipeline.sessions.is_alive(client.session_id)
    for _ in range(4):
        server.pass_time(3000)
        client.connection.flushed(1_100_000)
    assert not server.pipeline.sessions.is_alive(client.session_id)


def test_a_client_that_waits_for_the_disk_does_not_expire_meanwhile() -> None:
    """It is the server that does not listen."""
    server = OneServer(limits=Limits(outstanding_max=1))
    client = server.connect(timeout_ms=4000)
    for xid in range(3):
        client.send(xid, OpCode.SET_DATA, encode(SetDataRequest("/", b"", -1)))
    assert client.connection.is_paused
    for _ in range(10):
        server.pass_time(3000)
    assert server.pipeline.sessions.is_alive(client.session_id)
    server.settle()
    assert len(client.frames()) == 3
    for _ in range(4):
        server.pass_time(3000)
    assert not server.pipeline.sessions.is_alive(client.session_id)


def test_the_kernels_word_about_a_connection_nobody_accepted_is_no_reason_to_stop(stage: Stage) -> None:
    stage.front._accept_failed(OSError(errno.EPROTO, "Protocol error"))
    with pytest.raises(OSError, match="Bad file"):
        stage.front._accept_failed(OSError(errno.EBADF, "Bad file descriptor"))


def test_clients_never_take_the_last_files(stage: Stage) -> None:
    """Without one for the next log the server would have to stop; it goes on with whom it has instead."""
    client, peer = stage.connect()
    with client, socket.create_connection(stage.front._listener.getsockname()) as late:
        stage.front._files_max = 0
        stage.turn()
        assert list(stage.front.peers.values()) == [peer]
        with pytest.raises(ConnectionResetError):
            late.recv(1)
        with socket.create_connection(stage.front._listener.getsockname()) as later:
            stage.turn()
            assert list(stage.front.peers.values()) == [peer]
            stage.front._files_max = math.inf
            stage.front.drop(peer)
            stage.turn()
            (accepted,) = stage.front.peers.values()
            assert accepted.sock.getpeername() == later.getsockname()


async def test_who_spoke_while_nobody_listened_is_heard_before_being_judged(
    autojump_clock: MockClock,
) -> None:
    """Something took longer than the session's timeout; meanwhile its client's ping came."""
    async with running(MemoryDisk()) as server:
        client = Talk(server)
        session_id = await client.connect(4000)
        await trio.sleep(1)
        autojump_clock.jump(20)
        await wait_all_tasks_blocked()
        assert server.pipeline.sessions.is_alive(session_id)
        await client.ask(OpCode.EXISTS, ExistsRequest("/", False))
        await trio.sleep(3)
        assert server.pipeline.sessions.is_alive(session_id)
        await trio.sleep(4)
        assert not server.pipeline.sessions.is_alive(session_id)


# -- sessions


def test_a_session_that_is_closing_is_not_created_again() -> None:
    """Nobody would close it a second time: it would outlive every restart."""
    server = OneServer()
    client = server.connect()
    server.pass_time(60_000)
    client.send(1, OpCode.CREATE_SESSION, pack(">i", 2**31 - 1))
    server.settle()
    assert not server.tree.session_timeouts_ms
    assert not server.pipeline.sessions.by_id


def test_a_session_created_again_lives_no_longer_than_others() -> None:
    """Within the bounds of session timeouts: after a restart it would have lived for 25 days."""
    server = OneServer()
    client = server.connect()
    for asked_ms, given_ms in ((2**31 - 1, 40_000), (1, 4_000), (5_000, 5_000)):
        client.send(1, OpCode.CREATE_SESSION, pack(">i", asked_ms))
        server.settle()
        assert list(server.tree.session_timeouts_ms.values()) == [given_ms]


def test_what_a_client_chose_is_logged_in_part() -> None:
    client = OneServer().connect()
    with capture_logs() as logged:
        client.send(-4, OpCode.AUTH, encode(AuthPacket(0, "s" * 1_000_000, b"")))
    assert len(str(logged)) < 500


# -- large nodes and trees


def test_a_large_node_has_the_digest_that_its_bytes_give() -> None:
    """It is computed without copying the node, in three steps."""
    server = OneServer()
    client = server.connect()
    create(client, "/p", bytes(range(250)) * 4000)
    for n in range(3):
        create(client, f"/p/{n}")
    client.ask(OpCode.SET_DATA, SetDataRequest("/p", bytes(17_000), -1))
    client.ask(OpCode.DELETE, DeleteRequest("/p/1", -1))
    body = server.tree.bodies[b"/p"]
    fields = (b"/p", body[4:-52], body[-8:], body[-52:-32], pack(">i", 3), body[-28:-16])
    assert node_digest(b"/p", body, 3) == crc32(b"".join(fields))
    assert server.tree.digest == server.tree.compute_digest()
    assert unpack_from(">i", body, len(body) - 12)[0] == 2


def test_a_subtree_is_counted_anew_after_every_change_and_only_then() -> None:
    server = OneServer()
    client = server.connect()
    for path in ("/p", "/p/a", "/p/a/b"):
        create(client, path)

    def count() -> int:
        (number,) = unpack_from(">i", client.ask(OpCode.GET_ALL_CHILDREN_NUMBER, pack(">i", 2) + b"/p")[2])
        return int(number)

    assert count() == 2
    server.tree.children[b"/p/a"][b"/p/a/c"] = None  # behind its back
    assert count() == 2
    del server.tree.children[b"/p/a"][b"/p/a/c"]
    create(client, "/p/c")
    assert count() == 3


# -- counting
