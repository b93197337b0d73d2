"""What takes long although it looks short, and what is held although nobody asks for it any more.

Work is counted as in test_slices.py.
"""

import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from struct import pack, unpack_from

import pytest

from jute.errors import MarshallingError, NoAuth
from jute.opcodes import OpCode
from persistence.snapshot_format import SLICE_BYTES_MAX, SLICE_NODES_MAX, acl_chunks
from server import slices
from server.acls import CLOSED_ACL, OPEN_ACL, READ_ACL, AccessRules, encode_acl
from server.client_fronts import LINGER_MS, Peer
from server.client_protocol import CLOSED, OUT_PAUSE_BYTES
from server.data_tree import DataTree
from tests.server.one_server import Client, OneServer, smallest_slices
from tests.server.test_fuzz_findings import MULTI_END, Stage, create
from tests.server.test_slices import Turns, named, of_type
from tests.server.toy_ensemble import ToyEnsemble

_ADD_RECURSIVE = pack(">i", 1)
_PING = pack(">iii", 8, -2, OpCode.PING)


def frame(op: int, body: bytes = b"", xid: int = 1) -> bytes:
    return pack(">iii", len(body) + 8, xid, op) + body


def set_data_body(path: bytes) -> bytes:
    return named(path) + bytes(4) + pack(">i", -1)


def long_acl(number: int, grants: int = 31) -> bytes:
    """Of 900 networks, and nobody else has the same."""
    networks = [f"10.{number}.{n % 250}.0/{32 - n // 250}" for n in range(900)]
    return encode_acl([(31, "ip", each) for each in networks] + [(grants, "world", "anyone")])


def create_with(client: Client, path: bytes, acl: bytes) -> None:
    assert client.ask(OpCode.CREATE, named(path) + bytes(4) + acl + bytes(4))[1] == 0


def prove_ids(client: Client, count: int) -> None:
    for n in range(count):
        client.send(-4, OpCode.AUTH, bytes(4) + named(b"digest") + named(b":%d" % n))
    client.frames()
    assert len(client.connection.ids) == count + 1


def reads_of_all(count: int) -> bytes:
    reads = (of_type(OpCode.GET_DATA, named(b"/n%d" % n) + b"\0") for n in range(count))
    return b"".join(reads) + MULTI_END


# -- ACLs


def test_a_multi_read_judges_many_long_acls_in_slices() -> None:
    """What is not for the client is refused to it, one by one."""
    server = OneServer()
    client, reader = server.connect(), server.connect()
    for n in range(60):
        create_with(client, b"/n%d" % n, long_acl(n, 31 if n % 2 else 2))
    turns = Turns(server)
    turns.send(reader, OpCode.MULTI_READ, reads_of_all(60))
    turns.check()
    assert turns.count > 10
    assert turns.longest_steps < slices.STEPS_PER_SLICE
    body = reader.receive()[20:]
    found = pack(">i?i", OpCode.GET_DATA, False, 0) + server.tree.bodies[b"/n1"]
    assert body.startswith(pack(">i?ii", -1, False, NoAuth.code, NoAuth.code) + found)
    assert body.count(pack(">i?ii", -1, False, NoAuth.code, NoAuth.code)) == 30


def test_a_multi_read_is_answered_in_another_turn_than_a_long_acl_is_judged_in() -> None:
    server = OneServer()
    client = server.connect()
    create_with(client, b"/n0", long_acl(0))
    server.begin_batch()
    client.send(1, OpCode.MULTI_READ, reads_of_all(1))
    assert not client.frames()
    server.settle()
    assert len(client.frames()) == 1


def test_a_multi_read_judges_what_has_changed_meanwhile() -> None:
    server = OneServer()
    client, reader = server.connect(), server.connect()
    create_with(client, b"/n0", long_acl(0))
    create_with(client, b"/n1", long_acl(1))
    server.begin_batch()
    reader.send(7, OpCode.MULTI_READ, reads_of_all(2))
    assert reader.connection.long_read is not None
    assert client.ask(OpCode.SET_ACL, named(b"/n0") + encode_acl([(30, "world", "anyone")]) + pack(">i", -1))
    server.settle()
    reply = reader.receive()
    assert unpack_from(">iqi", reply, 4) == (7, server.tree.last_zxid, 0)
    assert reply[20:].startswith(pack(">i?ii", -1, False, NoAuth.code, NoAuth.code))


def test_a_multi_read_that_is_judged_in_slices_is_spoilt_as_any_other() -> None:
    server = OneServer()
    client = server.connect()
    for n in range(3):
        create_with(client, b"/n%d" % n, long_acl(n))
    server.begin_batch()
    body = reads_of_all(3).removesuffix(MULTI_END) + of_type(OpCode.GET_DATA, pack(">i", -1) + b"\0")
    client.send(1, OpCode.MULTI_READ, body + MULTI_END)
    assert client.connection.long_read is not None
    server.settle()
    reply = client.receive()
    assert unpack_from(">i", reply, 16)[0] == MarshallingError.code
    assert reply[20:].startswith(pack(">i?i", OpCode.GET_DATA, False, 0))
    assert reply.endswith(MULTI_END)


def test_a_multi_read_that_waits_is_judged_by_the_ids_it_was_sent_with() -> None:
    server = OneServer()
    client, reader = server.connect(), server.connect()
    create_with(client, b"/n1", encode_acl([(31, "digest", "u:x")]))
    for n in (0, 2, 3, 4):
        create_with(client, b"/n%d" % n, long_acl(n))
    server.begin_batch()
    reader.connection.ids += (("digest", "u:x"),)
    reads = b"".join(of_type(OpCode.GET_DATA, named(b"/n%d" % n) + b"\0") for n in (0, 2, 3, 4, 1))
    reader.send(1, OpCode.MULTI_READ, reads + MULTI_END)
    assert reader.connection.long_read is not None
    reader.connection.ids = reader.connection.ids[:-1]
    server.settle()
    assert server.tree.bodies[b"/n1"] in reader.receive()


def test_full_multi_reads_count_although_others_are_judged_first() -> None:
    """Steps that a read adds itself are not lost."""
    server = OneServer()
    client = server.connect()
    create_with(client, b"/n0", encode_acl([(31, "ip", "127.0.0.1")]))
    read = of_type(OpCode.GET_DATA, named(b"/n0") + b"\0") * 4000 + MULTI_END
    server.begin_batch()
    client.connection.received(frame(OpCode.MULTI_READ, read) * 2)
    assert server.pipeline.steps >= 4000 * slices.FRAME_STEPS
    server.settle()
    assert len(client.frames()) == 2


@pytest.mark.parametrize("in_multi", [False, True])
def test_events_of_nodes_with_long_acls(in_multi: bool) -> None:
    """Whether somebody may hear of a change takes longer than to tell them."""
    server = OneServer()
    client, watcher = server.connect(), server.connect()
    paths = [b"/n%d" % n for n in range(250)]
    for n, path in enumerate(paths):
        create_with(client, path, long_acl(n))
        watcher.ask(OpCode.EXISTS, named(path) + b"\1")
    watcher.frames()
    turns = Turns(server)
    if in_multi:
        with turns.turn():
            body = b"".join(of_type(OpCode.SET_DATA, set_data_body(path)) for path in paths)
            client.send(1, OpCode.MULTI, body + MULTI_END)
    else:
        for path in paths:
            with turns.turn():
                client.send(1, OpCode.SET_DATA, set_data_body(path))
    turns.settle()
    turns.check()
    assert len(watcher.frames()) == len(paths)


def test_one_event_with_a_long_acl_for_many_with_ids_of_their_own() -> None:
    server = OneServer()
    client = server.connect()
    create_with(client, b"/n", encode_acl([(31, "ip", "127.0.0.1"), (0, "world", "anyone")]))
    crowd = [server.connect() for _ in range(500)]
    for n, each in enumerate(crowd):
        each.connection.ids = tuple(("digest", f"{n}.{m}") for m in range(99)) + each.connection.ids
        each.ask(OpCode.EXISTS, named(b"/n") + b"\1")
        each.frames()
    turns = Turns(server)
    turns.send(client, OpCode.SET_DATA, set_data_body(b"/n"))
    turns.check()
    assert all(len(each.frames()) == 1 for each in crowd)


def test_long_events_that_are_told_later_count_by_their_length() -> None:
    server = OneServer()
    client = server.connect()
    path = b"/" + b"x" * 100_000
    create(client, path.decode())
    for _ in range(300):
        server.connect().ask(OpCode.EXISTS, named(path) + b"\1")
    server.begin_batch()
    client.send(1, OpCode.SET_DATA, set_data_body(path))
    server.release(1)
    assert server.pipeline.steps >= 300 * (1 + len(path) // slices.BYTES_PER_STEP)


def test_very_many_ask_who_they_are_and_are_many() -> None:
    server = OneServer()
    client = server.connect()
    prove_ids(client, 99)
    turns = Turns(server)
    with turns.turn():
        client.connection.received(frame(OpCode.WHO_AM_I) * 1000)
    turns.settle()
    turns.check()


def test_reads_of_very_many_acls_by_somebody_with_many_ids() -> None:
    """Each id is asked for each ACL that is not remembered."""
    server = OneServer()
    client, reader = server.connect(), server.connect()
    for n in range(1100):
        create_with(client, b"/n%d" % n, encode_acl([(31, "digest", f"u{n}:x"), (31, "ip", "127.0.0.1")]))
    reader.connection.ids = tuple(("digest", f":{n}") for n in range(99)) + reader.connection.ids
    turns = Turns(server)
    with turns.turn():
        reads = (frame(OpCode.GET_DATA, named(b"/n%d" % n) + b"\0") for n in range(1100))
        reader.connection.received(b"".join(reads))
    turns.settle()
    turns.check()
    assert len(reader.frames()) == 1100


def test_what_was_judged_about_large_acls_is_forgotten() -> None:
    """They may be in use nowhere any more."""
    rules = AccessRules()
    ids = (("ip", "127.0.0.1"),)
    tracemalloc.start()
    try:
        for n in range(40):
            rules.permits(encode_acl([(31, "digest", f"u{n}:" + "x" * 500_000)]), 1, ids)
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 12 << 20
    for n in range(5):
        assert not rules.permits(encode_acl([(31, "digest", f"u{n}:x")]), 1, ids)
    assert len(rules._judged.permitted) > 5  # small ones are remembered as ever


def test_an_acl_is_held_as_long_as_a_node_has_it() -> None:
    tree = DataTree()
    tracemalloc.start()
    try:
        tree.create(b"/a", bytes(4), OPEN_ACL, 0, 1, 1, 1)
        for n in range(40):
            tree.set_acl(b"/a", encode_acl([(31, "digest", f"u{n}:" + "x" * 500_000)]), n)
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 1 << 20
    small = encode_acl([(31, "ip", "127.0.0.1")])
    tree.create(b"/b", bytes(4), bytes(small), 0, 2, 2, 2)
    tree.create(b"/c", bytes(4), bytes(bytearray(small)), 0, 3, 3, 3)
    assert tree.acls[b"/b"] is tree.acls[b"/c"]
    tree.delete(b"/b", 4)
    assert small in [acl for _, acl in tree.snapshot_acls()]
    tree.set_acl(b"/c", OPEN_ACL, 1)
    tree.delete(b"/a", 5)
    assert [acl for _, acl in tree.snapshot_acls()] == [CLOSED_ACL, READ_ACL]
    tree.set_acl(b"/c", CLOSED_ACL, 2)
    assert [acl for _, acl in tree.snapshot_acls()] == [READ_ACL, CLOSED_ACL]
    assert tree.acl_bytes == len(READ_ACL) + len(CLOSED_ACL)


def test_the_acls_of_a_snapshot_come_in_small_pieces() -> None:
    small = [(n, b"\0\0\0\0") for n in range(2 * SLICE_NODES_MAX + 1)]
    assert [len(chunk) // 12 for chunk in acl_chunks(small)] == [SLICE_NODES_MAX, SLICE_NODES_MAX, 1]
    large = [(n, bytes(SLICE_BYTES_MAX // 2)) for n in range(5)]
    assert [len(chunk) // len(large[0][1]) for chunk in acl_chunks(large)] == [2, 2, 1]
    assert not list(acl_chunks([]))


# -- paths


@pytest.mark.parametrize("depth", [10, 32, 149])
def test_very_many_writes_of_a_deep_node(depth: int) -> None:
    """Each node above it counts what is below, and may have a quota or somebody who watches."""
    server = OneServer()
    client, watcher = server.connect(), server.connect()
    path = b""
    for _ in range(depth):
        path += b"/d"
        create(client, path.decode())
    watcher.ask(OpCode.ADD_WATCH, named(b"/elsewhere") + _ADD_RECURSIVE)
    create(client, "/zookeeper/quota/q")
    create(client, "/zookeeper/quota/q/zookeeper_limits")
    for n in range(900):
        server.begin_batch()
        client.send(1, OpCode.CREATE, named(path + b"/%d" % n) + bytes(4) + OPEN_ACL + bytes(4))
    turns = Turns(server)
    turns.settle()
    turns.check()


def test_long_lines_of_an_answer_to_a_word() -> None:
    """Any text may be watched, and wchp tells all of it."""
    server = OneServer()
    client = server.connect()
    lines = iter(["x" * 500_000 for _ in range(100)])
    connection = client.connection
    server.begin_batch()
    connection._word = lines
    connection._say_more(lines)
    assert sum(map(len, connection.out)) < 16 << 20
    assert len(list(lines)) > 60


# -- sockets


@pytest.fixture
def stage() -> Iterator[Stage]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        stage = Stage(listener)
        yield stage
        stage.front.close()


def test_a_client_that_takes_no_replies_is_not_read_from_however_small_they_are(stage: Stage) -> None:
    client, peer = stage.connect()
    with client:
        client.settimeout(0.0)
        pings, unsent = _PING * 5000, b""
        for _ in range(2000):
            unsent = unsent or pings
            try:
                unsent = unsent[client.send(unsent) :]
            except BlockingIOError:
                if peer.connection.is_paused and peer.waiting:
                    break
            stage.turn()
        assert peer.connection.is_paused
        assert OUT_PAUSE_BYTES < peer.waiting_bytes < 2 * OUT_PAUSE_BYTES
        assert len(peer.waiting) < 100  # each would take more memory than what it says
        assert take_all(client, peer, stage)


def take_all(client: socket.socket, peer: Peer, stage: Stage) -> bool:
    """Whether the client is read from again when it has taken what waited."""
    for _ in range(2000):
        if not peer.connection.is_paused:
            return True
        with suppress(BlockingIOError):
            client.recv(1 << 20)
        stage.turn()
    return False


def test_to_send_what_has_waited_is_work(stage: Stage) -> None:
    client, peer = stage.connect()
    with client:
        peer.waiting.append(bytes(slices.BYTES_PER_STEP * 3))
        peer.waiting_bytes = slices.BYTES_PER_STEP * 3
        stage.server.begin_batch()
        peer.send_waiting()
        assert not peer.waiting
        assert stage.server.pipeline.steps == slices.FLUSH_STEPS + 3


def test_a_crowd_that_is_silent_is_closed_in_slices(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> None:
    """Whoever has spoken by the time of his turn stays."""
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 10 * slices.ACCEPT_STEPS)
    address = stage.front._listener.getsockname()
    crowd = [socket.create_connection(address) for _ in range(50)]
    for _ in range(10):
        stage.turn()
    front, pipeline = stage.front, stage.server.pipeline
    peers = list(front.peers.values())
    assert len(peers) == 50
    lingering, speaker = peers[0], peers[-1]
    front.linger(lingering)
    pipeline.begin_batch(pipeline.now_ms + 60_000 + LINGER_MS, pipeline.wall_ms)
    front.close_idle()
    assert 35 < len(front.peers) < 45
    speaker.connection.heard_ms = pipeline.now_ms
    closed_before, left_before = len(front.peers), len(front._silent)
    pipeline.begin_batch(pipeline.now_ms, pipeline.wall_ms)
    front.close_idle()  # the next tick comes before all are closed
    assert len(front.peers) < closed_before
    assert len(front._silent) < left_before
    front.flush()
    for _ in range(20):
        pipeline.begin_batch(pipeline.now_ms, pipeline.wall_ms)
        assert front._serve_batch()  # it wakes itself up
        if not front._silent:
            break
    assert list(front.peers.values()) == [speaker]
    assert not front.lingering
    assert pipeline.stats.connections_idle == 48
    assert peers[1].connection.state == CLOSED
    for each in crowd:
        each.close()


# -- sessions


def test_sessions_with_many_ephemerals_that_expire_together_close_one_after_the_other() -> None:
    """None of them is forgotten while another is being prepared."""
    with smallest_slices():
        server = OneServer()
        create(server.connect(timeout_ms=40_000), "/p")
        for n in range(3):
            client = server.connect()
            for m in range(3):
                assert create(client, f"/p/{n}{m}", mode=1) == 0
        server.pass_time(20_000)
        assert server.pipeline.preparing is not None
        server.pass_time(1)
        server.settle()
        assert not server.tree.ephemerals
        assert b"/p" in server.tree.bodies
        assert not server.tree.children.get(b"/p")


# -- learners


@pytest.mark.parametrize(
    ("body", "steps"),
    [
        (named(b"/p") + named(bytes(500_000)) + pack(">i", -1), slices.length_steps(500_000)),
        (named(b"/p") + pack(">i", 500_000) + bytes(400_000), slices.undecodable_steps(400_000)),
    ],
)
def test_what_a_learner_forwards_is_counted_by_its_length(body: bytes, steps: int) -> None:
    ensemble = ToyEnsemble(1)
    (learner,) = ensemble.learners
    client = learner.connect()
    leading = ensemble.leading
    leading.begin_batch(leading.now_ms, leading.wall_ms)
    leading.forwarded(learner, client.session_id, 1, OpCode.SET_DATA, body, ())
    assert leading.steps >= steps
