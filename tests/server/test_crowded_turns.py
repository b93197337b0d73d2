"""However many there are, and however much they ask for: no turn of the loop does too much, and nothing that
is done in slices is kept from its next one.

Work is counted as in test_slices.py.
"""

import socket
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from struct import pack, unpack_from

import pytest

import server.watches
from jute.client_records import CreateRequest, ExistsRequest, GetDataRequest, SetDataRequest
from jute.errors import EphemeralOnLocalSession
from jute.opcodes import CreateMode, EventType, OpCode
from jute.record import encode
from server import slices
from server.acls import OPEN_ACL
from server.client_fronts import FrontLimits, PlainFront
from server.client_protocol import OPEN as OPEN_STATE
from server.client_protocol import ClientConnection
from server.client_sessions import Sessions
from server.clock import SystemClock
from server.pipeline import Limits, ServerState
from tests.captured_logs import capture_logs
from tests.server.one_server import TICK_MS, Client, OneServer
from tests.server.test_fuzz_findings import MULTI_END, OPEN, create
from tests.server.test_reads_meanwhile import set_data
from tests.server.test_slices import (
    CALLS_PER_TURN_MAX,
    Turns,
    counted_calls,
    creates,
    named,
    of_type,
    repeated,
)
from tests.server.toy_ensemble import ToyEnsemble, ToyLearner

_ADD_PERSISTENT = pack(">i", 0)
_ADD_RECURSIVE = pack(">i", 1)
_EXISTS = pack(">iii", 8 + 5 + 1, 1, OpCode.EXISTS) + named(b"/") + b"\0"


def set_data_frame(path: bytes, xid: int = 1) -> bytes:
    body = named(path) + bytes(4) + pack(">i", -1)
    return pack(">iii", len(body) + 8, xid, OpCode.SET_DATA) + body


# -- events


def watched_by_many(mode: bytes, count: int = 190) -> tuple[OneServer, Client, list[Client]]:
    """A node with almost as many watchers as are told at once, and a client that writes it."""
    server = OneServer()
    writer = server.connect()
    create(writer, "/w")
    crowd = [server.connect() for _ in range(count)]
    for client in crowd:
        client.ask(OpCode.ADD_WATCH, named(b"/w") + mode)
    return server, writer, crowd


@pytest.mark.parametrize("mode", [_ADD_PERSISTENT, _ADD_RECURSIVE])
def test_many_writes_of_a_node_that_some_watch(mode: bytes) -> None:
    """Each event is told at once; all of them are not."""
    server, writer, crowd = watched_by_many(mode)
    turns = Turns(server)
    with turns.turn():
        writer.connection.received(b"".join(set_data_frame(b"/w") for _ in range(900)))
    turns.settle()
    turns.check()
    assert all(len(client.frames()) == 900 for client in crowd)
    assert len(writer.frames()) == 900


def test_a_multi_of_many_writes_of_a_node_that_some_watch() -> None:
    server, writer, crowd = watched_by_many(_ADD_PERSISTENT)
    turns = Turns(server)
    with turns.turn():
        writer.send(1, OpCode.MULTI, set_data(b"/w") * 2000 + MULTI_END)
    turns.settle()
    turns.check()
    assert turns.longest_calls < 50_000
    assert all(len(client.frames()) == 2000 for client in crowd)


def test_many_watch_all_that_is_above_a_node() -> None:
    """To find out who is to be told takes longer than to tell them."""
    server = OneServer()
    writer = server.connect()
    paths = [b"/d" * depth for depth in range(1, 101)]
    for path in paths:
        create(writer, path.decode())
    crowd = [ClientConnection(server.pipeline, writer, "127.0.0.1", 1) for _ in range(1000)]
    for connection in crowd:
        connection.state = OPEN_STATE
        for path in paths:
            server.pipeline.watches.add_recursive(path, connection)
    writer.frames()
    server.begin_batch()
    writer.send(1, OpCode.SET_DATA, encode(SetDataRequest(paths[-1].decode(), b"", -1)))
    server.begin_batch()
    server.release(1)
    assert server.pipeline.steps > 1000 * 99 // 16


@pytest.mark.parametrize("count", [40_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_very_many_who_watch_the_children_of_a_node_are_told_in_slices(count: int) -> None:
    server = OneServer()
    writer = server.connect()
    create(writer, "/w")
    crowd = [ClientConnection(server.pipeline, writer, "127.0.0.1", 1) for _ in range(count)]
    for connection in crowd:
        connection.state = OPEN_STATE
        server.pipeline.watches.watch_children(b"/w", connection)
    turns = Turns(server)
    turns.send(writer, OpCode.CREATE, encode(CreateRequest("/w/c", b"", OPEN, 0)))
    turns.check()
    assert turns.longest_calls < 20_000 * slices.STEPS_PER_SLICE // 4000
    assert all(len(connection.out) == 1 and not connection.watched for connection in crowd)
    assert not server.pipeline.watches


def test_who_watches_a_node_and_its_children_hears_once_of_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether all are told at once or in slices; then there is nothing left of either watch."""
    for at_once_max in (0, 1, 200):
        monkeypatch.setattr(server.watches, "TOLD_AT_ONCE_MAX", at_once_max)
        one = OneServer()
        writer, both, of_children = one.connect(), one.connect(), one.connect()
        create(writer, "/w")
        both.ask(OpCode.GET_DATA, GetDataRequest("/w", True))
        for client in (both, of_children):
            client.ask(OpCode.GET_CHILDREN, named(b"/w") + b"\1")
        writer.ask(OpCode.DELETE, named(b"/w") + pack(">i", -1))
        for client in (both, of_children):
            (event,) = client.frames()
            assert unpack_from(">i", event, 16)[0] == EventType.NODE_DELETED
            assert not client.connection.watched
        assert not one.pipeline.watches


# -- what is kept from its turn by nobody


@pytest.fixture
def flooded() -> tuple[OneServer, Callable[[], None]]:
    """A server with clients that always have more requests there than fit into a slice, and a turn of it."""
    one = OneServer()
    crowd = [one.connect() for _ in range(20)]

    def turn() -> None:
        for client in crowd:
            client.connection.out.clear()
            if len(client.connection._tail) < 20_000 * len(_EXISTS):
                client.connection.received(_EXISTS * slices.STEPS_PER_SLICE)
        one.begin_batch()
        one.pipeline.go_on()
        assert one.pipeline.steps < 2 * slices.STEPS_PER_SLICE

    return one, turn


def turns_until(is_done: Callable[[], object], turn: Callable[[], None], turns_max: int) -> None:
    for _ in range(turns_max):
        turn()
        if is_done():
            return
    raise AssertionError(f"not done after {turns_max} turns")


Flooded = tuple[OneServer, Callable[[], None]]


def test_a_flood_of_requests_keeps_no_long_read_from_its_next_slice(
    flooded: Flooded, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, turn = flooded
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 2000)
    client = one.connect()
    create(client, "/p")
    client.ask(OpCode.MULTI, repeated(creates(b"/p/")))
    one.tree._child_lists.clear()
    turn()
    client.send(1, OpCode.GET_CHILDREN, named(b"/p") + b"\0")
    assert client.connection.long_read is not None
    turns_until(client.frames, turn, 20)


def test_a_long_read_that_holds_up_what_is_committed_has_the_next_turns(
    flooded: Flooded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own client's write is to be applied behind it, and those of others behind that."""
    one, turn = flooded
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 2000)
    client, other = one.connect(), one.connect()
    create(client, "/p")
    client.ask(OpCode.MULTI, repeated(creates(b"/p/")))
    client.send(1, OpCode.SET_DATA, named(b"/p") + bytes(4) + pack(">i", -1))
    client.send(2, OpCode.GET_CHILDREN, named(b"/p") + b"\0")
    client.send(3, OpCode.SET_DATA, named(b"/p") + bytes(4) + pack(">i", -1))
    other.send(1, OpCode.CREATE, encode(CreateRequest("/q", b"", OPEN, 0)))
    one.tree._child_lists.clear()
    one.begin_batch()
    one.pipeline.steps = slices.STEPS_PER_SLICE - 10
    one.pipeline.committed(one.sink.undurable)
    one.sink.undurable = 0
    assert client.connection.long_read is not None
    assert one.pipeline.due == 2
    turns_until(lambda: not one.pipeline.due, turn, 3)


def test_a_flood_of_requests_keeps_no_watches_of_those_who_left(flooded: Flooded) -> None:
    one, turn = flooded
    leaving = [one.connect() for _ in range(10)]
    for connection in (client.connection for client in leaving):
        for n in range(1000):
            one.pipeline.watches.watch_data(b"/%d" % n, connection)
    one.pipeline.steps = slices.STEPS_PER_SLICE
    for client in leaving:
        client.connection.lost()
    assert len(one.pipeline.watches.dropped) == 10
    turns_until(lambda: not one.pipeline.watches.dropped, turn, 40)
    assert not one.pipeline.watches


def test_a_flood_of_requests_keeps_nothing_of_a_long_transaction(flooded: Flooded) -> None:
    """Neither what was prepared for it nor what readers saw meanwhile."""
    one, turn = flooded
    client = one.connect()
    create(client, "/p")
    client.send(1, OpCode.MULTI, repeated(creates(b"/p/")))
    one.work_off()
    one.release(1)
    while one.pipeline.applying is not None:
        one.begin_batch()
        one.pipeline.go_on()
    preparer = one.pipeline.preparer
    assert len(preparer.pending) > 10_000
    assert one.pipeline._shown
    turns_until(lambda: not preparer.pending and not one.pipeline._shown, turn, 60)


def test_a_flood_of_requests_keeps_no_session_alive(flooded: Flooded) -> None:
    one, turn = flooded
    crowd = [one.connect(timeout_ms=4000) for _ in range(1000)]
    one.pipeline.steps = slices.STEPS_PER_SLICE
    one.pipeline.now_ms += 10_000
    for connection in one.pipeline.connections.values():
        if connection not in {client.connection for client in crowd}:
            connection.touch()
    one.pipeline.expire_sessions()
    assert one.sink.undurable < 500
    turns_until(lambda: one.sink.undurable == 1000, turn, 100)


def test_a_flood_of_requests_keeps_no_answer_to_a_word(flooded: Flooded) -> None:
    one, turn = flooded
    one.pipeline.answer_word = lambda connection, word: iter(["line\n"] * 10_000)
    client = Client(one)
    client.connection.received(b"cons")

    def is_answered() -> bool:
        client.connection.flushed(0)
        return client.connection.closes_after_flush

    turns_until(is_answered, turn, 60)


# -- crowds


def test_local_sessions_that_expire_together_do_so_in_slices() -> None:
    """Who ends its session, or is heard, before its turn comes does not expire."""
    ensemble = ToyEnsemble(1, local_sessions=True)
    [learner] = ensemble.learners
    crowd = [learner.connect(timeout_ms=4000) for _ in range(1000)]
    pipeline = learner.pipeline
    pipeline.begin_batch(pipeline.now_ms + 10_000, pipeline.wall_ms + 10_000)
    with capture_logs() as lines:
        pipeline.expire_sessions()
        at_first = sum(client.is_closed for client in crowd)
        assert pipeline.steps < 2 * slices.STEPS_PER_SLICE
        heard, closing = crowd[-1], crowd[-2]
        heard.connection.received(pack(">iii", 8, -2, OpCode.PING))
        closing.send(1, OpCode.CLOSE_SESSION)
        learner.settle()
    assert 0 < at_first < 998
    assert [client.is_closed for client in crowd] == [True] * 999 + [False]
    assert sum("Expiring session" in line["event"] for line in lines) == 998
    assert list(pipeline.local.by_id) == [heard.session_id]
    pipeline.begin_batch(pipeline.now_ms + 30_000, pipeline.wall_ms + 30_000)
    assert [session.id for session in pipeline.local.expire(pipeline.now_ms)] == [heard.session_id]


def test_a_session_that_ended_while_its_bucket_was_emptied_does_not_come_back() -> None:
    """It was heard, and would have been put into another bucket."""
    sessions = Sessions(TICK_MS, 1)
    for number in (1, 2):
        sessions.open(number, 4000, 0)
    expiring = iter(sessions.expire(10_000))
    assert next(expiring).id == 1
    sessions.by_id[2].heard_ms = 9000
    sessions.forget(2)
    assert not list(expiring)
    assert not list(sessions.expire(100_000))


def test_a_crowd_that_creates_ephemerals_and_leaves_at_once() -> None:
    """What is on its way is looked at for each of them."""
    one = OneServer(limits=Limits(outstanding_max=100_000))
    crowd = [one.connect() for _ in range(400)]
    one.begin_batch()
    for number, client in enumerate(crowd):
        for n in range(10):
            body = encode(CreateRequest(f"/{number}-{n}", b"", OPEN, CreateMode.EPHEMERAL))
            client.send(1, OpCode.CREATE, body)
    one.work_off()
    before = len(one.sink.payloads)
    assert len(one.pipeline.preparer.pending) == 4001
    one.begin_batch()
    crowd[0].send(2, OpCode.CLOSE_SESSION)
    assert one.pipeline.steps > 4000 // 8
    for client in crowd[1:]:
        client.send(2, OpCode.CLOSE_SESSION)
    steps = []
    while one.pipeline.has_work_left:
        one.begin_batch()
        one.pipeline.go_on()
        steps.append(one.pipeline.steps)
    assert len(one.sink.payloads) == before + 400
    assert max(steps) < 2 * slices.STEPS_PER_SLICE
    assert len(steps) > 400 * 4000 // 8 // (2 * slices.STEPS_PER_SLICE)
    one.settle()
    assert not one.tree.ephemerals


def test_very_many_requests_of_one_learner_behind_a_long_one() -> None:
    """Whose turn it is is found out once, not once for each of them."""
    ensemble = ToyEnsemble(2)
    first, second = ensemble.learners
    one, two = first.connect(), second.connect()
    one.ask(OpCode.CREATE, CreateRequest("/p", b"", OPEN, 0))
    leading = ensemble.leading
    leading.begin_batch(leading.now_ms, leading.wall_ms)

    def forward(origin: ToyLearner, client: Client, cxid: int) -> None:
        leading.forwarded(origin, client.session_id, cxid, OpCode.SET_DATA, set_data_frame(b"/p")[12:], ())

    looked_at = [0]

    class Counted(deque[object]):
        def __iter__(self) -> Iterator[object]:
            for each in super().__iter__():
                looked_at[0] += 1
                yield each

    leading._forwarded = Counted()  # type: ignore[assignment]
    before = len(ensemble.payloads)
    leading.forwarded(first, one.session_id, 1, OpCode.MULTI, repeated(creates(b"/p/")), ())
    assert leading.preparing is not None
    for cxid in range(2, 3002):
        forward(first, one, cxid)
    for cxid in range(2, 12):
        forward(second, two, cxid)
    while leading.has_work_left:
        leading.begin_batch(leading.now_ms, leading.wall_ms)
        leading.go_on()
        assert leading.steps < 2 * slices.STEPS_PER_SLICE
    assert looked_at[0] < 10_000
    asked_by = [unpack_from(">qi", payload) for payload in ensemble.payloads[before + 1 :]]
    assert sorted(asked_by) == sorted(
        [(one.session_id, n) for n in range(2, 3002)] + [(two.session_id, n) for n in range(2, 12)]
    )
    at = asked_by.index((two.session_id, 2))
    assert asked_by[at : at + 10] == [(two.session_id, n) for n in range(2, 12)]
    assert [cxid for session, cxid in asked_by if session == one.session_id] == list(range(2, 3002))


def test_who_leaves_most_unread_is_looked_for_once_for_many_replies() -> None:
    """By then there is room for others."""
    state = ServerState(OneServer().tree, OneServer().pipeline.rules, Limits(unsent_bytes_max=100_000))
    one = OneServer()
    crowd = [one.connect() for _ in range(2000)]
    for client in crowd:
        client.connection.pipeline.state = state
        client.connection.flushed(50)
    assert state.unsent_bytes == 100_000
    one.begin_batch()
    with counted_calls() as calls:
        for client in crowd[:500]:
            client.connection.flushed(150)
    closed = [client for client in crowd if client.is_closed]
    assert 300 < len(closed) < 500
    assert one.pipeline.steps >= slices.ACCEPT_STEPS * len(closed)
    assert 90_000 <= state.unsent_bytes <= 100_000
    assert calls[0] < 100_000


def test_very_many_who_have_something_to_hear_are_sent_to_in_several_turns() -> None:
    one = OneServer()
    front = PlainFront(one.pipeline, FrontLimits(), SystemClock())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        front._admit(*listener.accept())
    (peer,) = front.peers.values()
    try:
        front.to_flush.extend([peer] * 3000)
        one.begin_batch()
        front.flush()
        assert 0 < len(front.to_flush) < 3000
        assert one.pipeline.steps <= slices.STEPS_PER_SLICE + slices.FLUSH_STEPS
        for _ in range(20):
            one.begin_batch()
            front.flush()
        assert not front.to_flush
    finally:
        peer.sock.close()
        theirs.close()
        front.poll.close()


# -- reads


def test_a_multi_read_of_all_that_it_may_read() -> None:
    """Children and nodes together; what has to be listed for it was not listed before."""
    one = OneServer()
    client = one.connect()
    for path in (b"/p", b"/q", b"/r", b"/s"):
        create(client, path.decode())
        client.ask(OpCode.MULTI, repeated(islice(creates(path + b"/"), 15_000)))
    for nodes in range(4000, 0, -100):
        lists = (4000 - nodes) * 16 // 15_001
        read = b"".join(
            of_type(OpCode.GET_CHILDREN, named(b"/%c" % b"pqrs"[n]) + b"\0") for n in range(lists)
        )
        read += of_type(OpCode.GET_DATA, named(b"/p") + b"\0") * (nodes - lists)
        one.tree._child_lists.clear()
        turns = Turns(one)
        turns.send(client, OpCode.MULTI_READ, read + MULTI_END)
        (reply,) = client.frames()
        assert unpack_from(">iqi", reply)[2] == 0
        assert turns.longest_calls < 1.5 * CALLS_PER_TURN_MAX


def test_reads_behind_a_write_that_are_too_much_for_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are answered in their order, before the next write is applied; so is a sync among them."""
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 40)
    one = OneServer()
    client = one.connect()
    create(client, "/p")
    write = named(b"/p") + bytes(4) + pack(">i", -1)
    read = named(b"/p") + b"\0"
    requests = [(OpCode.SET_DATA, write), *[(OpCode.EXISTS, read)] * 50, (OpCode.SYNC, read[:-1])]
    requests += [(OpCode.EXISTS, read), (OpCode.SET_DATA, write), (OpCode.EXISTS, read)]
    for xid, (op, body) in enumerate(requests):
        one.begin_batch()
        client.send(xid, op, body)
    assert len(client.connection.fifo) == len(requests)
    one.release(1)
    assert client.connection.has_reads_due
    assert one.pipeline.steps < 2 * 40
    client.connection.flushed(0)
    one.begin_batch()
    one.pipeline.committed(1)
    one.sink.undurable = 0
    assert one.pipeline.is_behind
    while one.pipeline.has_work_left:
        one.begin_batch()
        one.pipeline.go_on()
        assert one.pipeline.steps < 2 * 40
    replies = [unpack_from(">iqi", frame) for frame in client.frames()]
    assert [xid for xid, _, _ in replies] == list(range(len(requests)))
    first = replies[0][1]
    assert [zxid - first for _, zxid, _ in replies] == [0] * 53 + [1, 1]
    assert not client.connection.fifo
    assert not client.connection.is_paused


def test_long_multi_reads_behind_a_write() -> None:
    """Each is more than a slice."""
    one = OneServer()
    client = one.connect()
    create(client, "/p")
    read = of_type(OpCode.GET_DATA, named(b"/p") + b"\0") * 4000 + MULTI_END
    turns = Turns(one)
    with turns.turn():
        client.send(1, OpCode.SET_DATA, named(b"/p") + bytes(4) + pack(">i", -1))
        for xid in (2, 3, 4, 5):
            client.send(xid, OpCode.MULTI_READ, read)
    turns.settle()
    assert turns.longest_calls < 1.5 * CALLS_PER_TURN_MAX
    while len(client.connection.out) < 5:
        client.connection.flushed(0)
        with turns.turn():
            one.pipeline.resume_paused()
        turns.settle()
    assert turns.longest_calls < 1.5 * CALLS_PER_TURN_MAX


# -- paths


def test_one_long_name_below_very_many_quotas_and_recursive_watches() -> None:
    """It has few nodes above it: these are looked at, not the others."""
    one = OneServer()
    client = one.connect()
    path = b"/" + b"x" * 100_000
    client.ask(OpCode.CREATE, named(path) + bytes(4) + OPEN_ACL + bytes(4))
    for n in range(50_000):
        one.pipeline.watches.add_recursive(b"/%d" % n, client.connection)
        one.tree.quotas.paths.add(b"/%d" % n)
    client.send(1, OpCode.SET_DATA, named(path) + bytes(4) + pack(">i", -1))
    one.begin_batch()
    with counted_calls() as calls:
        one.pipeline.committed(1)
    one.sink.undurable = 0
    assert calls[0] < 1000


# -- a multi of a local session


def test_a_long_multi_of_a_local_session_is_looked_at_in_slices() -> None:
    """Before it is prepared: one of its operations may make the session known to all."""
    ensemble = ToyEnsemble(1, local_sessions=True, upgrades_sessions=True)
    client = ensemble.leader.connect()
    client.ask(OpCode.CREATE, CreateRequest("/p", b"", OPEN, 0))
    plain = [of_type(OpCode.SET_DATA, named(b"/p") + bytes(4) + pack(">i", -1))] * 20_000
    ephemeral = of_type(OpCode.CREATE, named(b"/e") + bytes(4) + OPEN_ACL + pack(">i", CreateMode.EPHEMERAL))
    leading = ensemble.leading
    leading.begin_batch(leading.now_ms, leading.wall_ms)
    with counted_calls() as calls:
        client.send(7, OpCode.MULTI, b"".join(plain) + ephemeral + MULTI_END)
    assert calls[0] < 50_000
    assert leading.preparing is not None
    client.server.settle()
    assert unpack_from(">iqi", client.frames().pop())[2] == 0
    assert ensemble.leader.tree.ephemerals == {client.session_id: {b"/e": None}}
    assert ensemble.learners[0].tree.session_timeouts_ms == {client.session_id: 10_000}


def test_a_local_session_whose_client_left_during_its_long_multi_stays_local(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("server.ordering.LONG_MULTI_BYTES", 0)
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 1)
    ensemble = ToyEnsemble(1, local_sessions=True, upgrades_sessions=True)
    client = ensemble.leader.connect()
    ephemeral = of_type(OpCode.CREATE, named(b"/e") + bytes(4) + OPEN_ACL + pack(">i", CreateMode.EPHEMERAL))
    leading = ensemble.leading
    leading.begin_batch(leading.now_ms, leading.wall_ms)
    client.send(7, OpCode.MULTI, ephemeral + MULTI_END)
    assert leading.preparing is not None
    client.connection.lost()
    ensemble.settle()
    assert not leading.connections
    assert not ensemble.leader.tree.session_timeouts_ms
    assert not ensemble.leader.tree.ephemerals
    assert EphemeralOnLocalSession.code.to_bytes(4, "big", signed=True) in ensemble.payloads[-1]


# -- what was prepared and taken back


def test_what_a_failed_multi_brings_back_is_forgotten_too() -> None:
    """Changes of an earlier long transaction, which are due to be forgotten while it is prepared."""
    one = OneServer()
    client = one.connect()
    for n in range(3):
        create(client, f"/n{n}")
    preparer = one.pipeline.preparer
    for path in (b"/n0", b"/n1", b"/n2"):
        preparer._to_forget.append(preparer._change(path, preparer._get(path), one.tree.bodies[path]))
    body = set_data(b"/n0") + set_data(b"/n1") + of_type(OpCode.DELETE, named(b"/none") + pack(">i", -1))
    ids, wall_ms = client.connection.ids, one.pipeline.wall_ms
    long = preparer.begin_multi(client.session_id, 1, body + MULTI_END, ids, wall_ms)
    while b"/n0" not in (preparer._undo or {}):
        long.go_on(1)
    assert preparer.forget(100) == 0
    while long.txn is None:
        long.go_on(1)
    assert preparer.forget(100) == 3
    assert not preparer.pending


def test_nothing_is_applied_while_a_transaction_is_prepared() -> None:
    """If it fails, what it has changed again is as the one that is committed meanwhile has left it."""
    one = OneServer()
    writer, other = one.connect(), one.connect()
    create(writer, "/n")
    before = one.tree.last_zxid
    other.send(1, OpCode.SET_DATA, named(b"/n") + named(b"x") + pack(">i", -1))
    fails = of_type(OpCode.DELETE, named(b"/none") + pack(">i", -1))
    one.begin_batch()
    writer.send(1, OpCode.MULTI, set_data(b"/n") * 20_000 + fails + MULTI_END)
    while not one.pipeline.preparer._undo:
        one.begin_batch()
        one.pipeline.go_on()
    one.release(1)
    assert one.pipeline.preparing is not None
    assert one.tree.last_zxid == before
    one.settle()
    assert one.tree.bodies[b"/n"][4:-68] == b"x"
    assert not one.pipeline.preparer.pending


def test_late_watches_are_no_more_than_fit_into_a_turn() -> None:
    """Who would set another one waits for the rest of the transaction."""
    one = OneServer()
    writer, reader, other = one.connect(), one.connect(), one.connect()
    create(writer, "/p")
    writer.ask(OpCode.MULTI, repeated(creates(b"/p/")))
    sets = (set_data(b"/p/%05d" % n) for n in range(12_000))
    writer.send(1, OpCode.MULTI, repeated(sets))
    one.work_off()
    one.release(1)
    while one.tree.before is None or len(one.tree.before.bodies) < 11_000:
        one.begin_batch()
        one.pipeline.go_on()
    limit = slices.long_slice_steps()
    for n in range(limit + 1):
        one.begin_batch()
        reader.send(n, OpCode.GET_DATA, encode(GetDataRequest(f"/p/{n:05}", True)))
    assert len(reader.connection.out) == limit
    other.send(1, OpCode.GET_DATA, encode(GetDataRequest("/p/00000", False)))
    other.send(2, OpCode.EXISTS, encode(ExistsRequest("/none", True)))
    assert len(other.connection.out) == 2
    turns = Turns(one)
    turns.settle()
    turns.check()
    assert len(reader.frames()) == 2 * limit + 1


def test_the_parent_of_a_long_path_is_kept_at_hand_however_it_was_created() -> None:
    """Else it is cut off anew, name after name, with each change below."""
    one = OneServer()
    client = one.connect()
    parent = b"/" + b"p" * 600
    create(client, parent.decode())
    client.ask(OpCode.CREATE, named(parent + b"/c") + bytes(4) + OPEN_ACL + bytes(4))
    assert one.tree._above == {parent: b"/", parent + b"/c": parent}


def test_nothing_keeps_a_connection_that_is_closed_but_its_socket_does() -> None:
    """The two would be a circle, for the collector to find."""
    one = OneServer()
    front = PlainFront(one.pipeline, FrontLimits(), SystemClock())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, address = listener.accept()
    try:
        front._admit(ours, address)
        (peer,) = front.peers.values()
        front.drop(peer)
        assert peer.connection.handle is not peer
    finally:
        theirs.close()
        front.poll.close()
