"""What takes long is done in slices, between which others are heard; the outcome is that of doing it at once.

Work is counted twice: by the server's own steps, and by the calls that Python makes. Neither depends on how
fast the machine is. A call takes about 0.2 us, so the bound below is 20 ms in pure Python.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from cProfile import Profile
from itertools import islice
from random import Random
from struct import pack, unpack_from

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jute.client_records import (
    ConnectRequest,
    CreateRequest,
    DeleteRequest,
    ExistsRequest,
    GetDataRequest,
    SetDataRequest,
    SetWatches,
    SyncRequest,
)
from jute.errors import MarshallingError, NoNode
from jute.opcodes import CreateMode, EventType, OpCode, Perms
from jute.record import encode
from server import acl_index, acls, slices
from server.acls import OPEN_ACL, encode_acl
from server.client_fronts import RECEIVE_BYTES, FrontLimits, PlainFront
from server.client_protocol import OPEN as OPEN_STATE
from server.client_protocol import ClientConnection
from server.clock import SystemClock
from server.pipeline import Limits
from server.txns import CONTAINER_OWNER
from tests.captured_logs import capture_logs
from tests.server.one_server import Client, OneServer, smallest_slices
from tests.server.test_fuzz_findings import MULTI_END, OPEN, create

FRAME_BYTES_MAX = Limits().frame_bytes_max - 100
CALLS_PER_TURN_MAX = 100_000
_PING = pack(">iii", 8, -2, OpCode.PING)


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """How many calls Python makes meanwhile, of Python and of C."""
    count, profile = [0], Profile()
    profile.enable()
    try:
        yield count
    finally:
        profile.disable()
        count[0] = sum(entry.callcount for entry in profile.getstats())


class Turns:
    """A server that is driven a turn of the loop at a time; no turn may do too much."""

    def __init__(self, server: OneServer) -> None:
        self.server = server
        self.longest_calls = 0
        self.longest_steps = 0
        self.count = 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        self.server.begin_batch()
        with counted_calls() as calls:
            yield
        self.count += 1
        self.longest_calls = max(self.longest_calls, calls[0])
        self.longest_steps = max(self.longest_steps, self.server.pipeline.steps)

    def send(self, client: Client, op: int, body: bytes, xid: int = 1) -> None:
        with self.turn():
            client.send(xid, op, body)
        self.settle()

    def settle(self) -> None:
        """Until there is nothing left to do, a slice or a commit in each turn."""
        server = self.server
        while server.sink.undurable or server.pipeline.has_work_left:
            with self.turn():
                if server.pipeline.has_work_left:
                    server.pipeline.go_on()
                else:
                    server.release(server.sink.undurable)

    def check(self) -> None:
        assert self.longest_calls < CALLS_PER_TURN_MAX
        assert self.longest_steps < 2 * slices.STEPS_PER_SLICE


def named(path: bytes) -> bytes:
    return pack(">i", len(path)) + path


def repeated(operations: Iterator[bytes]) -> bytes:
    """As many operations as fit into a frame, and the end of a multi."""
    body = bytearray()
    for each in operations:
        if len(body) + len(each) + len(MULTI_END) > FRAME_BYTES_MAX:
            break
        body += each
    return bytes(body + MULTI_END)


def of_type(op: int, body: bytes) -> bytes:
    return pack(">i?i", op, False, -1) + body


def creates(prefix: bytes, flags: int = 0) -> Iterator[bytes]:
    for n in range(1 << 20):
        yield of_type(
            OpCode.CREATE, named(prefix + b"%05d" % n) + bytes(4) + encode_acl(_OPEN) + pack(">i", flags)
        )


_OPEN = [(31, "world", "anyone")]
_LONG_ACL = encode_acl(
    [(31, "ip", f"10.{n // 250}.{n % 250}.1") for n in range(999)] + [(31, "world", "anyone")]
)


def multi_of(operation_: bytes) -> bytes:
    return repeated(operation_ for _ in range(1 << 20))


# -- everything a frame can ask for

DEAREST: dict[str, tuple[int, bytes]] = {
    "checks of a node with a long ACL": (
        OpCode.MULTI,
        multi_of(of_type(OpCode.CHECK, named(b"/l") + pack(">i", -1))),
    ),
    "creates": (OpCode.MULTI, repeated(creates(b"/p/"))),
    "creates that fail at the first": (OpCode.MULTI, repeated(creates(b"/none/"))),
    "sets of data": (
        OpCode.MULTI,
        multi_of(of_type(OpCode.SET_DATA, named(b"/p") + bytes(4) + pack(">i", -1))),
    ),
    "a broken end": (OpCode.MULTI, repeated(creates(b"/p/"))[:-3]),
    "reads of a node with a long ACL": (
        OpCode.MULTI_READ,
        multi_of(of_type(OpCode.GET_DATA, named(b"/l") + b"\0")),
    ),
    "reads of a large node": (
        OpCode.MULTI_READ,
        of_type(OpCode.GET_DATA, named(b"/large") + b"\0") * 60 + MULTI_END,
    ),
    "watches of paths that are gone": (
        OpCode.SET_WATCHES,
        pack(">qi", 0, 100_000) + b"".join(named(b"/%05d" % n) for n in range(100_000)) + bytes(8),
    ),
    "watches of one path": (
        OpCode.SET_WATCHES2,
        pack(">qiiii", 0, 0, 0, 0, 170_000) + named(b"/p") * 170_000 + bytes(4),
    ),
    "creates with long ACLs": (
        OpCode.MULTI,
        repeated(
            of_type(OpCode.CREATE, named(b"/p/a%05d" % n) + bytes(4) + _LONG_ACL + bytes(4))
            for n in range(1 << 20)
        ),
    ),
    "a longest ACL": (
        OpCode.CREATE,
        named(b"/p/acl")
        + bytes(4)
        + pack(">i", 60_000)
        + (pack(">i", 31) + named(b"ip") + named(b"1.1.1.1")) * 45_000
        + bytes(4),
    ),
    "a path of very many names": (
        OpCode.CREATE,
        named(b"/p" + b"/x" * 500_000) + bytes(4) + encode_acl(_OPEN) + bytes(4),
    ),
    "a path that is no text": (OpCode.EXISTS, named(b"/" + b"\xff" * 1_000_000) + b"\1"),
    "counting all nodes": (OpCode.GET_ALL_CHILDREN_NUMBER, named(b"/")),
}


@pytest.fixture(scope="module")
def furnished() -> OneServer:
    server = OneServer()
    client = server.connect()
    for path in ("/p", "/q"):
        create(client, path)
    create(client, "/large", bytes(1_000_000))
    client.ask(OpCode.CREATE, named(b"/l") + bytes(4) + _LONG_ACL + bytes(4))
    return server


@pytest.mark.parametrize("what", DEAREST)
def test_no_frame_takes_more_than_a_slice_at_a_time(furnished: OneServer, what: str) -> None:
    """However much fits into it."""
    op, body = DEAREST[what]
    client = furnished.connect()
    turns = Turns(furnished)
    turns.send(client, op, body)
    assert client.receive()
    turns.check()


def test_many_short_multis_in_one_read_of_the_socket(furnished: OneServer) -> None:
    """None of them takes long, all of them together do."""
    client = furnished.connect()
    multi = of_type(OpCode.CHECK, named(b"/l") + pack(">i", -1)) * 50 + MULTI_END
    frame = pack(">ii", 1, OpCode.MULTI) + multi
    turns = Turns(furnished)
    with turns.turn():
        client.connection.received((pack(">i", len(frame)) + frame) * 60)
    turns.settle()
    turns.check()
    assert len(client.frames()) == 60


_HIDDEN_ACL = encode_acl(
    [(31, "digest", f"user{n}:hash") for n in range(999)] + [(int(Perms.READ), "world", "anyone")]
)
_PASSWORD = pack(">i", 0) + named(b"digest") + named(b"me:secret")
SHORT: dict[str, tuple[int, bytes]] = {
    "reads": (OpCode.EXISTS, named(b"/p") + b"\0"),
    "reads of what is not there": (OpCode.GET_DATA, named(b"/none") + b"\0"),
    "reads that are cut short": (OpCode.GET_CHILDREN2, b"\0"),
    "writes that are refused": (OpCode.CREATE, named(b"/p/") + bytes(4) + encode_acl(_OPEN) + bytes(4)),
    "writes": (OpCode.SET_DATA, named(b"/p") + bytes(4) + pack(">i", -1)),
    "reads of a hidden ACL": (OpCode.GET_ACL, named(b"/hidden")),
    "reads of nodes with long ACLs": (OpCode.EXISTS, named(b"/hidden") + b"\0"),
    "pings": (OpCode.PING, b""),
    "syncs": (OpCode.SYNC, named(b"/")),
    "proofs of who one is": (OpCode.AUTH, _PASSWORD),
}


@pytest.mark.parametrize(
    ("what", "is_write_before"),
    [(what, is_write_before) for what in SHORT for is_write_before in (False, True)],
)
def test_many_short_frames_in_one_read_of_the_socket(
    monkeypatch: pytest.MonkeyPatch, what: str, is_write_before: bool
) -> None:
    """Whatever they ask for, also where a write before them makes them wait for their turn."""
    monkeypatch.setattr(acl_index, "_KEPT_BYTES_MAX", 0)
    monkeypatch.setattr(acls, "_REDACTED_BYTES_MAX", 0)
    server = OneServer()
    client = server.connect()
    create(client, "/p")
    client.ask(OpCode.CREATE, named(b"/hidden") + bytes(4) + _HIDDEN_ACL + bytes(4))
    op, body = SHORT[what]
    frame = pack(">iii", len(body) + 8, 1, op) + body
    write = named(b"/p") + bytes(4) + pack(">i", -1)
    before = pack(">iii", len(write) + 8, 1, OpCode.SET_DATA) + write if is_write_before else b""
    count = RECEIVE_BYTES // len(frame) if op != OpCode.GET_ACL else 100
    turns = Turns(server)
    with turns.turn():
        client.connection.received(before + frame * count)
    turns.settle()
    answered = 0
    while answered < count + is_write_before:  # a client that takes long replies one by one
        with turns.turn():
            taken = len(client.frames())
        turns.settle()
        assert taken
        answered += taken
    turns.check()


_KINDS = st.sampled_from(["create", "set", "check", "delete", "deep"])


@settings(max_examples=10, deadline=None)
@given(
    kinds=st.lists(_KINDS, min_size=1, max_size=5), seed=st.integers(0, 1 << 30), size=st.integers(1, 1 << 20)
)
def test_no_multi_that_can_be_drawn_takes_more_than_a_slice_at_a_time(
    kinds: list[str], seed: int, size: int
) -> None:
    """Of any mixture, up to the limit of a frame, whether it succeeds or not."""
    chance = Random(seed)
    server = OneServer()
    client = server.connect()
    create(client, "/p")

    def drawn() -> Iterator[bytes]:
        made = 0
        for _ in range(size):
            kind = chance.choice(kinds)
            if kind == "create":
                made += 1
                yield of_type(OpCode.CREATE, _create_body(b"/p/%05d" % made))
            elif kind == "set":
                yield of_type(
                    OpCode.SET_DATA, named(b"/p") + named(bytes(chance.randrange(50))) + pack(">i", -1)
                )
            elif kind == "check":
                yield of_type(OpCode.CHECK, named(b"/p") + pack(">i", -1))
            elif kind == "delete" and made:
                made -= 1
                yield of_type(OpCode.DELETE, named(b"/p/%05d" % (made + 1)) + pack(">i", -1))
            elif kind == "deep":
                yield of_type(OpCode.CHECK, named(b"/p" + b"/x" * chance.randrange(200)) + pack(">i", -1))

    turns = Turns(server)
    turns.send(client, OpCode.MULTI, repeated(drawn()))
    assert len(client.frames()) == 1
    assert server.tree.digest == server.tree.compute_digest()
    turns.check()


def _create_body(path: bytes) -> bytes:
    return named(path) + bytes(4) + encode_acl(_OPEN) + bytes(4)


# -- many sockets at once


def test_many_sockets_that_speak_at_once_are_served_in_several_turns() -> None:
    """In one turn of the task that serves them no more is done than fits into a slice."""
    server = OneServer()
    create(server.connect(), "/p")
    front = PlainFront(server.pipeline, FrontLimits(per_address_max=0), SystemClock())
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    listener.setblocking(False)
    clients = [socket.create_connection(listener.getsockname()) for _ in range(40)]
    hello = encode(ConnectRequest(0, 0, 10_000, 0, bytes(16)))
    body = named(b"/none") + b"\0"
    request = pack(">iii", len(body) + 8, 1, OpCode.EXISTS) + body
    turns = Turns(server)
    try:
        front.listen(listener)
        for client in clients:
            client.sendall(pack(">i", len(hello)) + hello + request * 500)
            client.setblocking(False)
        unheard = dict.fromkeys(clients, 40 + 500 * 20)
        while unheard:
            with turns.turn():
                front.serve()
            turns.settle()
            for client in list(unheard):
                with suppress(BlockingIOError):
                    unheard[client] -= len(client.recv(1 << 20))
                if unheard[client] <= 0:
                    del unheard[client]
    finally:
        front.close()
        for client in clients:
            client.close()
    turns.check()
    assert turns.count > 40 * 500 * slices.FRAME_STEPS // slices.STEPS_PER_SLICE


def test_who_speaks_after_a_crowd_does_not_wait_until_all_of_it_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither does the crowd wait for ever where others go on speaking."""
    server = OneServer()
    front = PlainFront(server.pipeline, FrontLimits(per_address_max=0), SystemClock())
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    listener.setblocking(False)
    crowd = [socket.create_connection(listener.getsockname()) for _ in range(40)]
    neighbour = crowd.pop()
    ping = pack(">iii", 8, -2, OpCode.PING)
    hello = encode(ConnectRequest(0, 0, 10_000, 0, bytes(16)))
    try:
        front.listen(listener)
        for client in (*crowd, neighbour):
            client.sendall(pack(">i", len(hello)) + hello)
            client.setblocking(False)
        while len(server.pipeline.connections) < 40:
            server.begin_batch()
            front.serve()
            server.settle()
        server.begin_batch()
        front.flush()
        for client in (*crowd, neighbour):
            client.recv(1000)
        pings = slices.FLUSH_STEPS  # of each in the crowd: to send is not what takes the time
        monkeypatch.setattr(slices, "STEPS_PER_SLICE", 4 * pings * slices.FRAME_STEPS)

        def turn() -> int:
            """Let the server work; returns how many pings of the crowd were answered."""
            server.begin_batch()
            front.serve()
            answered = 0
            for client in crowd:
                with suppress(BlockingIOError):
                    answered += len(client.recv(10_000)) // 20
            return answered

        for client in crowd:
            client.sendall(ping * pings)
        answered = turn()
        for _ in range(20):
            neighbour.sendall(ping)
            answered += turn()
            assert len(neighbour.recv(1000)) == 20
        assert answered == len(crowd) * pings
    finally:
        front.close()
        for client in (*crowd, neighbour):
            client.close()


def test_a_crowd_that_comes_at_once_is_let_in_in_several_turns() -> None:
    """Accepted, given its sessions and answered, each in slices; and again when it leaves."""
    server = OneServer()
    front = PlainFront(server.pipeline, FrontLimits(per_address_max=0), SystemClock())
    listener = socket.create_server(("127.0.0.1", 0), backlog=300)
    listener.setblocking(False)
    hello = encode(ConnectRequest(0, 0, 10_000, 0, bytes(16)))
    turns = Turns(server)
    crowd: list[socket.socket] = []
    try:
        front.listen(listener)
        for _ in range(300):
            crowd.append(socket.create_connection(listener.getsockname()))
            crowd[-1].sendall(pack(">i", len(hello)) + hello)
        while len(server.pipeline.connections) < len(crowd):
            with turns.turn():
                front.serve()
            turns.settle()
        coming = turns.count
        while crowd:
            crowd.pop().close()
        while server.pipeline.connections:
            with turns.turn():
                front.serve()
            turns.settle()
    finally:
        front.close()
        for client in crowd:
            client.close()
    turns.check()
    each = slices.ACCEPT_STEPS + slices.CONNECT_STEPS + slices.FLUSH_STEPS
    assert coming > 300 * each // slices.STEPS_PER_SLICE
    assert turns.count - coming > 300 * slices.ACCEPT_STEPS // slices.STEPS_PER_SLICE


# -- events


def test_the_end_of_a_session_with_many_ephemerals() -> None:
    """Never refused, whatever it owns."""
    server = OneServer()
    owner, other = server.connect(), server.connect()
    create(owner, "/e")
    owner.send(1, OpCode.MULTI, repeated(creates(b"/e/", CreateMode.EPHEMERAL)))
    server.settle()
    assert len(server.tree.ephemerals[owner.session_id]) > 15_000
    turns = Turns(server)
    turns.send(owner, OpCode.CLOSE_SESSION, b"")
    turns.check()
    assert turns.count > 20
    assert not server.tree.ephemerals
    assert server.tree.digest == server.tree.compute_digest()
    assert other.ask(OpCode.EXISTS, ExistsRequest("/e/00000", False))[1] == NoNode.code


def test_very_many_changes_are_forgotten_in_slices_and_tell_the_same_until_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is prepared against them meanwhile is as right as against the tree."""
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 500)
    server = OneServer()
    client = server.connect()
    create(client, "/e")
    client.send(1, OpCode.MULTI, repeated(islice(creates(b"/e/"), 5000)))
    while not server.sink.undurable:
        server.begin_batch()
        server.pipeline.go_on()
    server.begin_batch()
    server.pipeline.committed(1)
    server.sink.undurable = 0
    while server.pipeline.applying is not None:
        server.begin_batch()
        server.pipeline.go_on()
    preparer = server.pipeline.preparer
    assert len(preparer.pending) > 3000
    client.frames()
    for path in (b"/e/04999", b"/e/00001"):
        client.send(2, OpCode.DELETE, named(path) + pack(">i", 0))
    client.send(3, OpCode.CREATE, _create_body(b"/e/04999"))
    server.settle()
    assert [unpack_from(">iqi", frame)[2] for frame in client.frames()] == [0, 0, 0]
    assert not preparer.pending
    assert not preparer.has_to_forget
    assert server.tree.digest == server.tree.compute_digest()


def test_a_crowd_that_watches_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is told of the change, and nobody is answered before all are."""
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 4000)
    server = OneServer()
    writer = server.connect()
    create(writer, "/w")
    crowd = [server.connect() for _ in range(10_000)]
    for client in crowd:
        client.ask(OpCode.GET_DATA, GetDataRequest("/w", True))
    turns = Turns(server)
    with turns.turn():
        writer.send(1, OpCode.SET_DATA, encode(SetDataRequest("/w", b"new", -1)))
        server.release(1)
    assert server.pipeline.applying is not None
    crowd[-1].send(2, OpCode.GET_DATA, encode(GetDataRequest("/w", False)))
    assert not crowd[-1].connection.out
    turns.settle()
    turns.check()
    assert turns.count > 2
    assert not server.pipeline.watches.data_once
    event, reply = crowd[-1].frames()
    assert unpack_from(">ii", event, 16)[0] == EventType.NODE_DATA_CHANGED
    assert reply[16:23] == named(b"new")
    assert all(len(client.frames()) == 1 for client in crowd[:-1])


def test_a_crowd_that_leaves_at_once() -> None:
    """With everything it watches."""
    server = OneServer()
    crowd = [server.connect() for _ in range(100)]
    for client in crowd:
        paths = tuple(f"/{n}" for n in range(800))
        client.ask(OpCode.SET_WATCHES, SetWatches(0, (), paths, ()))
    turns = Turns(server)
    with turns.turn():
        for client in crowd:
            client.connection.lost()
    assert len(server.pipeline.watches.data_once) == 800
    turns.settle()
    turns.check()
    assert not server.pipeline.watches.data_once
    assert not server.pipeline.watches.dropped


def test_a_watch_of_a_connection_that_is_gone_tells_nobody() -> None:
    """Though it may take a while until all of its watches are dropped."""
    server = OneServer()
    writer, watcher = server.connect(), server.connect()
    create(writer, "/w")
    watcher.ask(OpCode.GET_DATA, GetDataRequest("/w", True))
    server.pipeline.steps = slices.STEPS_PER_SLICE
    watcher.connection.lost()
    assert server.pipeline.watches.data_once
    writer.ask(OpCode.SET_DATA, SetDataRequest("/w", b"", -1))
    assert not watcher.connection.out
    assert not server.pipeline.watches.data_once


def test_a_crowd_that_expires_at_once() -> None:
    """In slices; who is heard before its turn comes lives on."""
    server = OneServer()
    crowd = [server.connect(timeout_ms=4000) for _ in range(3000)]
    for client in crowd[:1000]:
        client.send(
            1, OpCode.CREATE, encode(CreateRequest(f"/{client.session_id}", b"", OPEN, CreateMode.EPHEMERAL))
        )
    server.settle()
    turns = Turns(server)
    with turns.turn():
        server.pass_time(10_000)
    assert 0 < sum(client.is_closed for client in crowd) + server.sink.undurable < 3000
    crowd[-1].connection.received(_PING)
    turns.settle()
    turns.check()
    assert [client.is_closed for client in crowd] == [True] * 2999 + [False]
    assert list(server.tree.session_timeouts_ms) == [crowd[-1].session_id]
    assert not server.tree.ephemerals


def test_very_many_sessions_that_were_heard_are_looked_at_in_slices() -> None:
    """Their time is up as far as the last look goes; a crowd that lives is no crowd that expires."""
    server = OneServer()
    sessions = server.pipeline.sessions
    for n in range(100_000):
        sessions.open(1000 + n, 10_000, server.pipeline.now_ms)
    for session in sessions.by_id.values():
        session.heard_ms += 9000
    turns = Turns(server)
    server.pipeline.begin_batch(server.pipeline.now_ms + 13_000, server.pipeline.wall_ms + 13_000)
    with turns.turn():
        server.pipeline.expire_sessions()
    turns.settle()
    turns.check()
    assert turns.count > 5  # compiled, a slice is three times as long
    assert len(sessions.by_id) == 100_000
    assert not server.sink.payloads


def test_the_reaper_looks_at_very_many_nodes_in_slices() -> None:
    server = OneServer(ttl_nodes=True)
    client = server.connect()
    client.ask(OpCode.MULTI, b"".join(islice(creates(b"/c", CreateMode.CONTAINER), 5)) + MULTI_END)
    tree = server.tree
    for n in range(100_000):
        tree.bodies[b"/d%d" % n], tree.owners[b"/d%d" % n] = tree.bodies[b"/c00000"], CONTAINER_OWNER
    tree.creates[b"/d70000"] = 1  # had children once
    looks = server.pipeline.expired_containers(0)
    turns = Turns(server)
    found = []
    for _ in range(1000):
        with turns.turn():
            path = next(looks, b"")
        if path == b"":
            break
        found += [path] if path else []
    turns.check()
    assert found == [b"/d70000"]
    assert turns.count > 10


def with_used_containers(server: OneServer, client: Client, *paths: str) -> None:
    """They had a child, and have none any more."""
    for path in paths:
        client.ask(OpCode.CREATE_CONTAINER, CreateRequest(path, b"", OPEN, CreateMode.CONTAINER))
        create(client, f"{path}/child")
        client.ask(OpCode.DELETE, DeleteRequest(f"{path}/child", -1))
    server.begin_batch()


def test_the_reaper_leaves_nodes_that_are_about_to_change() -> None:
    """A container that its clients delete and make again is a new one, which has not had children yet."""
    server = OneServer(ttl_nodes=True)
    client = server.connect()
    with_used_containers(server, client, "/c", "/e")
    assert list(server.pipeline.expired_containers(0)) == [b"/c", b"/e"]
    client.send(1, OpCode.DELETE, encode(DeleteRequest("/c", -1)))
    container = CreateRequest("/c", b"", OPEN, CreateMode.CONTAINER)
    client.send(2, OpCode.CREATE_CONTAINER, encode(container))
    assert list(server.pipeline.expired_containers(0)) == [b"/e"]
    server.settle()
    assert list(server.pipeline.expired_containers(0)) == [b"/e"]


def test_the_reaper_waits_for_what_is_being_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that takes. What it changes is known only then."""
    server = OneServer(ttl_nodes=True)
    client = server.connect()
    with_used_containers(server, client, "/c", "/e")
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 1)
    change = of_type(OpCode.SET_DATA, named(b"/c") + pack(">ii", 0, -1))
    client.send(1, OpCode.MULTI, b"".join(islice(creates(b"/d"), 2000)) + change + MULTI_END)
    looks = server.pipeline.expired_containers(0)
    assert [next(looks) for _ in range(100)] == [None] * 100
    server.work_off()
    assert server.sink.undurable
    assert list(filter(None, looks)) == [b"/e"]


@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_very_many_watchers_of_one_node_are_told_in_slices(count: int) -> None:
    server = OneServer()
    writer = server.connect()
    create(writer, "/w")
    crowd = [ClientConnection(server.pipeline, writer, "127.0.0.1", 1) for _ in range(count)]
    for connection in crowd:
        connection.state = OPEN_STATE
        server.pipeline.watches.watch_data(b"/w", connection)
    turns = Turns(server)
    turns.send(writer, OpCode.SET_DATA, encode(SetDataRequest("/w", b"x", -1)))
    turns.check()
    assert turns.count > 4 * count // slices.STEPS_PER_SLICE
    assert all(len(connection.out) == 1 and not connection.watched for connection in crowd)
    assert writer.frames()
    assert not server.pipeline.watches


def test_many_writes_far_below_the_root_are_applied_in_several_turns() -> None:
    """Each of the nodes above counts what lies below it. None of them is found by hashing all of its name."""
    server = OneServer()
    client = server.connect()
    paths = [b"/x" * depth for depth in range(1, 901)]
    multi = b"".join(of_type(OpCode.CREATE, named(path) + bytes(4) + OPEN_ACL + bytes(4)) for path in paths)
    client.ask(OpCode.MULTI, multi + MULTI_END)
    assert server.tree.descendants_count(b"/x") == 899
    client.ask(OpCode.ADD_WATCH, named(paths[1]) + pack(">i", 1))
    frames = b"".join(
        pack(">iii", len(body) + 8, 1, OpCode.SET_DATA) + body
        for body in (named(paths[-1]) + named(b"x" * (n % 7)) + pack(">i", -1) for n in range(100))
    )
    turns = Turns(server)
    with turns.turn():
        client.connection.received(frames)
    turns.settle()
    turns.check()
    assert turns.count > 10  # the same
    assert server.tree.usage_of(b"/x") == (900, 99 % 7)
    assert len(client.frames()) == 200
    client.ask(OpCode.DELETE, named(paths[-1]) + pack(">i", -1))
    assert server.tree.usage_of(b"/x") == (899, 0)
    assert paths[-1] not in server.tree._above


# -- who waits, and who does not


def begin_long_multi(server: OneServer, client: Client) -> None:
    """Of creates below /p, prepared to a part."""
    server.begin_batch()
    client.send(7, OpCode.MULTI, repeated(creates(b"/p/")))
    assert server.pipeline.preparing is not None


def test_while_a_transaction_is_prepared_reads_and_pings_go_on_and_writes_wait() -> None:
    server = OneServer()
    writer, reader, other = server.connect(), server.connect(), server.connect()
    create(writer, "/p")
    begin_long_multi(server, writer)
    reader.send(1, OpCode.EXISTS, encode(ExistsRequest("/p", False)))
    reader.connection.received(_PING)
    assert [unpack_from(">i", frame)[0] for frame in reader.frames()] == [1, -2]
    other.send(1, OpCode.CREATE, encode(CreateRequest("/p/00000", b"late", OPEN, 0)))
    other.send(2, OpCode.EXISTS, encode(ExistsRequest("/p/00000", False)))
    newcomer = Client(server)
    newcomer.send_raw(encode(ConnectRequest(0, 0, 4000, 0, bytes(16))) + b"\x00")
    assert len(server.sink.payloads) == 4
    server.settle()
    refused, seen = other.frames()
    assert unpack_from(">iqi", refused)[2] == -110
    assert unpack_from(">iqi", seen)[2] == 0
    newcomer.read_handshake()
    assert newcomer.session_id


def test_long_transactions_one_after_the_other_leave_others_their_turn() -> None:
    """A client that has sent several at once is behind those who wait for the first of them."""
    server = OneServer()
    writer, other = server.connect(), server.connect()
    create(writer, "/p")
    zxid = server.tree.last_zxid
    begin_long_multi(server, writer)
    for n in range(3):
        writer.send(8 + n, OpCode.MULTI, repeated(creates(b"/p/%d-" % n)))
    other.send(1, OpCode.SET_DATA, encode(SetDataRequest("/p", b"x", -1)))
    server.settle()
    assert [(xid, zxid) for xid, zxid, _ in answers(other)] == [(1, zxid + 2)]
    assert [(xid, zxid) for xid, zxid, _ in answers(writer)] == [
        (7, zxid + 1),
        *((8 + n, zxid + 3 + n) for n in range(3)),
    ]


def begin_applying(server: OneServer, writer: Client) -> None:
    """The same, prepared altogether and applied to a part."""
    begin_long_multi(server, writer)
    server.work_off()
    server.release(1)
    assert server.pipeline.applying is not None
    assert b"/p/00000" in server.tree.bodies
    assert b"/p/10000" not in server.tree.bodies


def answers(client: Client) -> list[tuple[int, int, int]]:
    """xid, zxid and error of each reply or event."""
    return [unpack_from(">iqi", frame) for frame in client.frames()]


def exists(client: Client, xid: int, path: str, watch: bool = False) -> None:
    client.send(xid, OpCode.EXISTS, encode(ExistsRequest(path, watch)))


def test_while_a_transaction_is_applied_reads_show_the_state_before() -> None:
    """Of nodes that it has changed already, and of those that it has not."""
    server = OneServer()
    writer, reader = server.connect(), server.connect()
    create(writer, "/p", b"before")
    create(writer, "/other", b"another")
    stat_before, zxid = server.tree.bodies[b"/p"][-68:], server.tree.last_zxid
    begin_applying(server, writer)
    reader.connection.received(_PING)
    exists(reader, 1, "/p/00000")
    exists(reader, 2, "/p/10000")
    reader.send(3, OpCode.GET_DATA, encode(GetDataRequest("/p", False)))
    reader.send(4, OpCode.GET_DATA, encode(GetDataRequest("/other", False)))
    reader.send(5, OpCode.GET_CHILDREN, encode(GetDataRequest("/other", False)))
    frames = list(reader.frames())
    assert [unpack_from(">iqi", frame) for frame in frames] == [
        (-2, zxid, 0),
        (1, zxid, NoNode.code),
        (2, zxid, NoNode.code),
        (3, zxid, 0),
        (4, zxid, 0),
        (5, zxid, 0),
    ]
    assert frames[3][16:] == named(b"before") + stat_before
    assert server.pipeline.applying is not None
    server.settle()
    exists(reader, 6, "/p/00000")
    assert answers(reader) == [(6, zxid + 1, 0)]


def test_while_a_transaction_is_applied_what_cannot_show_the_state_before_waits() -> None:
    """In its order: with it wait the requests behind it, but no pings."""
    server = OneServer()
    writer, *others = (server.connect() for _ in range(4))
    create(writer, "/p")
    zxid = server.tree.last_zxid
    begin_applying(server, writer)
    for other, (op, body) in zip(
        others,
        (
            (OpCode.GET_CHILDREN, encode(GetDataRequest("/p", False))),
            (OpCode.SYNC, encode(SyncRequest("/p"))),
            (OpCode.GET_ALL_CHILDREN_NUMBER, named(b"/p")),
        ),
        strict=True,
    ):
        other.send(1, op, body)
        exists(other, 2, "/p/00000")
        assert not other.frames()
        assert other.connection.is_held_up
    server.settle()
    for other in others:
        assert answers(other) == [(1, zxid + 1, 0), (2, zxid + 1, 0)]


def test_while_a_transaction_is_applied_writes_are_ordered_behind_it() -> None:
    server = OneServer()
    writer, other = server.connect(), server.connect()
    create(writer, "/p")
    zxid = server.tree.last_zxid
    begin_applying(server, writer)
    other.send(1, OpCode.CREATE, encode(CreateRequest("/p/10000", b"late", OPEN, 0)))
    other.send(2, OpCode.SET_DATA, encode(SetDataRequest("/p/10001", b"x", 0)))
    exists(other, 3, "/p/00000")
    assert server.sink.undurable == 2
    server.release(2)
    assert not other.frames()
    server.settle()
    assert answers(other) == [(1, zxid + 2, -110), (2, zxid + 3, 0), (3, zxid + 3, 0)]
    assert server.tree.bodies[b"/p/10001"].startswith(named(b"x"))
    assert server.tree.digest == server.tree.compute_digest()


def test_who_has_heard_of_a_part_of_a_transaction_waits_for_the_rest() -> None:
    """It must not see the state before any more."""
    server = OneServer()
    writer, watcher = server.connect(), server.connect()
    create(writer, "/p")
    exists(watcher, 1, "/p/00000", watch=True)
    watcher.frames()
    zxid = server.tree.last_zxid
    begin_applying(server, writer)
    exists(watcher, 2, "/p/00000")
    assert answers(watcher) == [(-1, zxid + 1, 0)]
    server.settle()
    assert answers(watcher) == [(2, zxid + 1, 0)]


@pytest.mark.parametrize("path", ["/p/00000", "/p/10000"])
def test_a_watch_set_while_a_transaction_is_applied_fires_for_it(path: str) -> None:
    """Be the node changed already or not: the reader has seen the state before."""
    server = OneServer()
    writer, reader, gone = server.connect(), server.connect(), server.connect()
    create(writer, "/p")
    begin_applying(server, writer)
    for client in (reader, gone):
        exists(client, 1, path, watch=True)
        client.send(2, OpCode.GET_DATA, encode(GetDataRequest("/p", True)))
    gone.connection.lost()
    reader.frames()
    server.settle()
    (event,) = reader.frames()
    assert unpack_from(">i", event)[0] == -1
    assert unpack_from(">i", event, 16)[0] == EventType.NODE_CREATED
    assert event.endswith(path.encode())
    assert not gone.connection.watched
    writer.ask(OpCode.SET_DATA, encode(SetDataRequest("/p", b"x", -1)))
    (event,) = reader.frames()
    assert unpack_from(">i", event, 16)[0] == EventType.NODE_DATA_CHANGED


def test_a_part_of_a_transaction_shows_no_node_that_it_changes_or_deletes() -> None:
    server = OneServer()
    writer, reader = server.connect(), server.connect()
    create(writer, "/p")
    paths = [b"/p/%05d" % n for n in range(10_000)]
    writer.ask(OpCode.MULTI, b"".join(islice(creates(b"/p/"), len(paths))) + MULTI_END)
    at_first = dict(server.tree.bodies)
    changes = [
        of_type(OpCode.DELETE, named(path) + pack(">i", -1))
        if n % 2
        else of_type(OpCode.SET_DATA, named(path) + named(b"new") + pack(">i", -1))
        for n, path in enumerate(paths)
    ]
    server.begin_batch()
    writer.send(9, OpCode.MULTI, b"".join(changes) + MULTI_END)
    while server.pipeline.preparing is not None:
        server.begin_batch()
        server.pipeline.go_on()
    server.release(1)
    turns = 0
    while server.pipeline.applying is not None:
        for path in (b"/p", *paths[:: len(paths) // 7]):
            reader.send(1, OpCode.GET_DATA, named(path) + b"\0")
        assert all(frame[16:] in at_first.values() for frame in reader.frames())
        server.begin_batch()
        server.pipeline.go_on()
        turns += 1
    assert turns > 10
    assert server.tree.before is None
    assert len(server.tree.children[b"/p"]) == len(paths) // 2
    assert server.tree.digest == server.tree.compute_digest()


def test_a_sync_behind_a_long_transaction_is_answered_behind_it() -> None:
    server = OneServer()
    writer, other = server.connect(), server.connect()
    create(writer, "/p")
    begin_long_multi(server, writer)
    server.work_off()
    other.send(1, OpCode.SYNC, encode(SyncRequest("/p")))
    server.release(1)
    assert not other.frames()
    server.settle()
    assert unpack_from(">iq", other.frames().popleft()) == (1, server.tree.last_zxid)


def test_what_follows_a_long_set_watches_on_its_connection_is_answered_behind_it() -> None:
    """Also writes that are committed meanwhile, and what was behind a write to begin with."""
    server = OneServer()
    client = server.connect()
    create(client, "/p")
    lists = SetWatches(0, (), tuple(f"/{n}" for n in range(20_000)), ())
    client.send(1, OpCode.SET_DATA, encode(SetDataRequest("/p", b"1", -1)))
    client.send(2, OpCode.SET_WATCHES, encode(lists))
    client.send(3, OpCode.SET_DATA, encode(SetDataRequest("/p", b"2", -1)))
    client.send(4, OpCode.EXISTS, encode(ExistsRequest("/p", False)))
    server.release(1)
    assert client.connection.long_read is not None
    server.release(1)
    client.send(5, OpCode.SET_DATA, encode(SetDataRequest("/p", b"3", -1)))
    assert [unpack_from(">i", frame)[0] for frame in client.frames()] == [1]
    server.settle()
    assert [unpack_from(">i", frame)[0] for frame in client.frames()] == [2, 3, 4, 5]
    assert len(server.pipeline.watches.data_once) == 20_000


def test_reads_behind_a_long_one_are_answered_before_the_next_write_is_applied() -> None:
    """Of the same client: else they show its effect, or that of a later one, and the zxid of its reply is
    before theirs."""
    server = OneServer()
    client, other = server.connect(), server.connect()
    create(client, "/p")
    lists = SetWatches(0, (), tuple(f"/{n}" for n in range(20_000)), ())
    client.send(1, OpCode.SET_DATA, encode(SetDataRequest("/p", b"1", -1)))
    client.send(2, OpCode.SET_WATCHES, encode(lists))
    client.send(3, OpCode.GET_DATA, encode(GetDataRequest("/p", False)))
    client.send(4, OpCode.SET_DATA, encode(SetDataRequest("/p", b"2", -1)))
    other.send(1, OpCode.SET_DATA, encode(SetDataRequest("/p", b"3", -1)))
    server.release(3)
    assert not other.frames()
    assert other.ask(OpCode.EXISTS, ExistsRequest("/p", False), xid=2)[1] == 0
    server.settle()
    replies = [(unpack_from(">iq", frame), frame) for frame in client.frames()]
    zxid = replies[0][0][1]
    assert [each for each, _ in replies] == [(1, zxid), (2, zxid), (3, zxid), (4, zxid + 1)]
    assert replies[2][1][16:21] == pack(">i", 1) + b"1"


def test_a_sync_behind_a_long_read_tells_the_zxid_of_its_answer() -> None:
    """Reads in front of it may be answered long after all that it waits for was applied."""
    server = OneServer()
    client, other = server.connect(), server.connect()
    create(client, "/p")
    lists = SetWatches(0, (), tuple(f"/{n}" for n in range(20_000)), ())
    client.send(1, OpCode.SET_DATA, encode(SetDataRequest("/p", b"1", -1)))
    client.send(2, OpCode.SET_WATCHES, encode(lists))
    client.send(3, OpCode.GET_DATA, encode(GetDataRequest("/p", False)))
    client.send(4, OpCode.SYNC, encode(SyncRequest("/p")))
    other.send(1, OpCode.SET_DATA, encode(SetDataRequest("/p", b"2", -1)))
    server.release(1)
    server.settle()
    zxids = [unpack_from(">iq", frame)[1] for frame in client.frames()]
    assert zxids == sorted(zxids)


_REQUESTS: dict[OpCode, bytes] = {
    OpCode.SET_WATCHES: encode(SetWatches(0, (), ("/p", "/x", "/y", "/z"), ("/p",))),
    OpCode.GET_CHILDREN: named(b"/p") + b"\1",
    OpCode.GET_DATA: named(b"/p") + b"\0",
    OpCode.SYNC: encode(SyncRequest("/p")),
}
_STEPS: tuple[OpCode | str, ...] = (*_REQUESTS, "write", "write", "another", "commit", "slice")


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False))
def test_replies_come_in_order_whatever_takes_long(chance: Random) -> None:
    """Zxids never go back, and a read shows what its client wrote before it, not behind it."""
    with smallest_slices():
        server = OneServer()
        client, other = server.connect(), server.connect()
        for path in ("/p", "/p/a", "/p/b", "/p/c"):
            create(client, path)
        client.frames()
        frames: list[bytes] = []
        expected: list[tuple[int, bytes]] = []  # xid, and what a getData shows
        written = b""
        for step in range(80):
            what: OpCode | str = chance.choice(_STEPS)
            if what == "another":
                other.send(1, OpCode.SET_DATA, encode(SetDataRequest("/p/a", b"", -1)))
            elif what == "commit":
                server.release(chance.randint(0, server.sink.undurable))
            elif what == "slice":
                server.begin_batch()
                server.pipeline.go_on()
                frames += client.frames()
            elif not isinstance(what, OpCode):
                written = b"%02d" % step
                client.send(step, OpCode.SET_DATA, encode(SetDataRequest("/p", written, -1)))
                expected.append((step, b""))
            else:
                client.send(step, what, _REQUESTS[what])
                expected.append((step, written if what == OpCode.GET_DATA else b""))
        server.settle()
        frames += client.frames()

    replies = [frame for frame in frames if unpack_from(">i", frame)[0] != -1]
    assert [unpack_from(">i", frame)[0] for frame in replies] == [xid for xid, _ in expected]
    zxids = [unpack_from(">q", frame, 4)[0] for frame in replies]
    assert zxids == sorted(zxids)
    for frame, (_, shown) in zip(replies, expected, strict=True):
        assert not shown or frame[20:22] == shown


def _names(count: int) -> list[bytes]:
    return [b"%05d" % n for n in range(count)]


def _with_children(count: int, limits: Limits | None = None) -> tuple[OneServer, Client]:
    server = OneServer(limits=limits)
    client = server.connect()
    create(client, "/p")
    client.ask(OpCode.MULTI, repeated(islice(creates(b"/p/"), count)))
    return server, client


LISTS = pytest.mark.parametrize("op", [OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2])


@LISTS
def test_very_many_children_are_listed_in_slices(monkeypatch: pytest.MonkeyPatch, op: OpCode) -> None:
    """The reply shows the moment at which they were asked for, and what changed since is told behind it."""
    server, client = _with_children(300)
    other = server.connect()
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 10)
    zxid = server.tree.last_zxid
    stat = server.tree.bodies[b"/p"][-68:]
    client.send(5, op, named(b"/p") + b"\1")
    client.send(6, OpCode.EXISTS, named(b"/p/new") + b"\0")
    assert client.connection.long_read is not None
    other.send(1, OpCode.CREATE, _create_body(b"/p/new"))
    server.release(1)
    assert client.connection.long_read is not None
    assert other.receive()

    server.settle()
    listed, event, behind = client.frames()
    body = pack(">i", 300) + b"".join(map(named, _names(300))) + (stat if op == OpCode.GET_CHILDREN2 else b"")
    assert listed == pack(">iqi", 5, zxid, 0) + body
    assert unpack_from(">iqii", event)[0] == -1
    assert unpack_from(">iqii", event)[3] == EventType.NODE_CHILDREN_CHANGED
    assert unpack_from(">iqi", behind) == (6, zxid + 1, 0)


def test_a_list_that_took_long_is_kept_unless_it_is_out_of_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks next is answered at once."""
    server, client = _with_children(300)
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 10)
    client.send(1, OpCode.GET_CHILDREN, named(b"/p") + b"\0")
    server.settle()
    client.send(2, OpCode.GET_CHILDREN, named(b"/p") + b"\0")
    first, second = client.frames()
    assert first[16:] == second[16:]

    create(client, "/p/new")
    client.send(3, OpCode.GET_CHILDREN, named(b"/p") + b"\0")
    assert client.connection.long_read is not None
    client.connection.resume()  # nothing that happens meanwhile makes it go on
    other = server.connect()
    other.ask(OpCode.DELETE, named(b"/p/new") + pack(">i", -1))
    server.settle()
    assert server.tree.kept_children(b"/p") is None
    assert len(client.frames()[-1]) == len(first) + 4 + len("new")


def test_ephemerals_are_listed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without a prefix."""
    server, client = _with_children(0)
    client.ask(OpCode.MULTI, repeated(islice(creates(b"/p/", flags=1), 300)))
    paths = [b"/p/" + name for name in _names(300)]
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 10)
    for prefix, expected in ((b"/", paths), (b"/p/0001", paths[10:20]), (b"/q", [])):
        client.send(1, OpCode.GET_EPHEMERALS, named(prefix))
        assert client.connection.long_read is not None
        server.settle()
        assert client.receive()[20:] == pack(">i", len(expected)) + b"".join(map(named, expected))


def test_a_multi_read_of_very_many_children_is_refused() -> None:
    """It is answered from one state, so it cannot wait for slices; the log names the setting."""
    _, client = _with_children(300, Limits(multi_read_operations_max=20))
    read = of_type(OpCode.GET_CHILDREN, named(b"/p") + b"\0")
    assert client.ask(OpCode.MULTI_READ, read + MULTI_END)[1] == 0
    with capture_logs() as lines:
        assert client.ask(OpCode.MULTI_READ, read * 2 + MULTI_END)[1:] == (MarshallingError.code, b"")
    (line,) = [line for line in lines if line["event"] == "request_refused"]
    assert "triokeeper.multiReadMaxOperations=20" in line["reason"]


def test_a_multi_without_an_acl_far_behind_costs_no_zxid() -> None:
    """The one way to spoil a multi that makes no transaction is found in a later slice."""
    server = OneServer()
    client = server.connect()
    create(client, "/p")
    null_acl = of_type(OpCode.CREATE, named(b"/x") + bytes(4) + pack(">ii", -1, 0))
    body = b"".join(islice(creates(b"/p/"), 9000))
    before = server.tree.last_zxid
    server.begin_batch()
    client.send(1, OpCode.MULTI, body + null_acl + MULTI_END)
    assert server.pipeline.preparing is not None
    client.send(2, OpCode.EXISTS, encode(ExistsRequest("/p", False)))
    server.settle()
    first, second = client.frames()
    assert unpack_from(">iqi", first) == (1, before, MarshallingError.code)
    assert unpack_from(">iqi", second) == (2, before, 0)
    assert create(client, "/q") == 0
    assert server.tree.last_zxid == before + 1


def test_a_connection_that_ends_during_its_long_multi_changes_nothing_about_it() -> None:
    server = OneServer()
    client, other = server.connect(), server.connect()
    create(client, "/p")
    begin_long_multi(server, client)
    client.connection.lost()
    server.settle()
    assert len(server.tree.children[b"/p"]) > 10_000
    assert create(other, "/q") == 0


def test_a_snapshot_taken_in_the_middle_has_the_digest_of_before() -> None:
    """A learner's tree changes its digest with every operation, a snapshot's is of a whole transaction."""
    server = OneServer()
    client = server.connect()
    create(client, "/p")
    begin_long_multi(server, client)
    server.work_off()
    server.tree.tracks_digest = True
    before = server.tree.snapshot_digest()
    server.release(1)
    assert server.pipeline.applying is not None
    assert server.tree.snapshot_digest() == before
    server.settle()
    assert server.tree.snapshot_digest() != before
