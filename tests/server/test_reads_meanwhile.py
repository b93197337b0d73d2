"""What clients hear while a transaction is applied in slices, beyond the plain cases of test_slices.py."""

from struct import pack, unpack_from

import pytest

from jute.client_records import ExistsRequest, GetDataRequest
from jute.errors import NoAuth
from jute.opcodes import OpCode
from jute.record import encode
from server.acls import OPEN_ACL, encode_acl
from tests.server.one_server import Client, OneServer, smallest_slices
from tests.server.test_fuzz_findings import MULTI_END, create
from tests.server.test_slices import named, of_type

PING = pack(">iii", 8, -2, OpCode.PING)


def set_data(path: bytes) -> bytes:
    return of_type(OpCode.SET_DATA, named(path) + named(b"new") + pack(">i", -1))


def create_in(path: bytes) -> bytes:
    return of_type(OpCode.CREATE, named(path) + bytes(4) + OPEN_ACL + bytes(4))


def delete(path: bytes) -> bytes:
    return of_type(OpCode.DELETE, named(path) + pack(">i", -1))


def begin(server: OneServer, writer: Client, *operations: bytes, until: bytes) -> None:
    """Apply a multi up to the operation that changes a node."""
    before = server.tree.bodies.get(until)
    writer.send(9, OpCode.MULTI, b"".join(operations) + MULTI_END)
    server.work_off()
    server.release(server.sink.undurable)
    while server.tree.bodies.get(until) == before:
        server.begin_batch()
        server.pipeline.go_on()
    assert server.pipeline.applying is not None


def events(client: Client) -> list[bytes]:
    return [frame for frame in client.frames() if unpack_from(">i", frame)[0] == -1]


def test_a_ping_behind_an_event_of_a_part_does_not_go_back() -> None:
    with smallest_slices():
        server = OneServer()
        writer, watcher = server.connect(), server.connect()
        create(writer, "/a")
        create(writer, "/b")
        watcher.ask(OpCode.GET_DATA, encode(GetDataRequest("/a", True)))
        begin(server, writer, set_data(b"/a"), set_data(b"/b"), until=b"/a")
        while not watcher.connection.out:
            server.begin_batch()
            server.pipeline.go_on()
        watcher.connection.received(PING)
        zxids = [unpack_from(">q", frame, 4)[0] for frame in watcher.frames()]
        server.settle()
    assert zxids == [server.tree.last_zxid] * 2


def test_a_watch_asked_for_twice_fires_once() -> None:
    """Both reads have seen the state before: there is one change for them to hear of."""
    with smallest_slices():
        server = OneServer()
        writer, reader = server.connect(), server.connect()
        create(writer, "/a")
        create(writer, "/b")
        begin(server, writer, set_data(b"/a"), set_data(b"/b"), until=b"/a")
        reader.send(1, OpCode.GET_DATA, encode(GetDataRequest("/a", True)))
        reader.send(2, OpCode.EXISTS, encode(ExistsRequest("/a", True)))
        server.settle()
    assert len(events(reader)) == 1


def test_a_watch_that_was_there_and_is_asked_for_again_fires_once() -> None:
    """The node is a parent first, and gets other data then."""
    with smallest_slices():
        server = OneServer()
        writer, reader = server.connect(), server.connect()
        create(writer, "/a")
        reader.ask(OpCode.GET_DATA, encode(GetDataRequest("/a", True)))
        begin(server, writer, create_in(b"/a/b"), create_in(b"/a/c"), set_data(b"/a"), until=b"/a")
        reader.send(1, OpCode.GET_DATA, encode(GetDataRequest("/a", True)))
        server.settle()
    assert len(events(reader)) == 1


def test_a_watch_that_is_about_to_fire_and_is_asked_for_again_fires_once() -> None:
    """Very many watch the node: some are told later than others. Who would watch it again waits, hears of
    the change, and watches what has become of it."""
    with smallest_slices():
        server = OneServer()
        writer, first, second = server.connect(), server.connect(), server.connect()
        create(writer, "/a")
        create(writer, "/b")
        for client in (first, second):
            client.ask(OpCode.GET_DATA, encode(GetDataRequest("/a", True)))
        begin(server, writer, set_data(b"/a"), set_data(b"/b"), until=b"/a")
        assert not second.connection.out
        second.send(1, OpCode.GET_DATA, encode(GetDataRequest("/a", True)))
        assert not second.connection.out
        server.settle()
        event, reply = second.frames()
        assert unpack_from(">i", event)[0] == -1
        assert reply[16:23] == named(b"new")
        assert list(server.pipeline.watches.data_once) == [b"/a"]
        assert list(server.pipeline.watches.data_once[b"/a"]) == [second.connection]


@pytest.mark.parametrize("path", ["/a", "/c"])
def test_a_watch_on_what_is_only_a_parent_so_far_fires_in_its_turn(path: str) -> None:
    with smallest_slices():
        server = OneServer()
        writer, reader = server.connect(), server.connect()
        create(writer, "/a")
        create(writer, "/c")
        begin(server, writer, create_in(b"/a/b"), set_data(b"/c"), set_data(b"/a"), until=b"/a")
        reader.send(1, OpCode.GET_DATA, encode(GetDataRequest(path, True)))
        assert [unpack_from(">i", frame)[0] for frame in reader.frames()] == [1]
        server.settle()
    (event,) = events(reader)
    assert unpack_from(">q", event, 4)[0] == server.tree.last_zxid


def test_an_event_behind_one_for_many_tells_once_of_a_node_that_is_read_again() -> None:
    """Few watch its children and many itself: the few have to wait for their event all the same."""
    with smallest_slices(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("server.watches.TOLD_AT_ONCE_MAX", 2)
        server = OneServer()
        writer, reader = server.connect(), server.connect()
        crowd = [server.connect() for _ in range(5)]
        for path in ("/a", "/b"):
            create(writer, path)
        for client in crowd:
            client.ask(OpCode.GET_DATA, encode(GetDataRequest("/a", True)))
        reader.ask(OpCode.GET_CHILDREN, named(b"/a") + b"\1")
        begin(server, writer, delete(b"/a"), set_data(b"/b"), until=b"/a")
        reader.send(1, OpCode.GET_DATA, encode(GetDataRequest("/a", True)))
        assert not reader.connection.out
        server.settle()
    assert len(events(reader)) == 1
    assert not reader.connection.watched


def test_who_may_read_is_what_the_acl_before_said() -> None:
    """It is kept of nodes that are changed or gone."""
    with smallest_slices():
        server = OneServer()
        writer, reader = server.connect(), server.connect()
        for path in ("/a", "/b", "/c"):
            create(writer, path)
        unreadable = encode_acl([(30, "world", "anyone")])
        for node in (b"/a", b"/b"):
            writer.ask(OpCode.SET_ACL, named(node) + unreadable + pack(">i", -1))
        begin(server, writer, set_data(b"/a"), delete(b"/b"), set_data(b"/c"), until=b"/b")
        for node in (b"/a", b"/b"):
            reader.send(1, OpCode.GET_DATA, named(node) + b"\0")
        assert [unpack_from(">i", frame, 12)[0] for frame in reader.frames()] == [NoAuth.code] * 2


def test_a_watch_that_comes_late_is_not_set_for_who_has_left() -> None:
    with smallest_slices():
        server = OneServer()
        writer, reader = server.connect(), server.connect()
        for path in ("/a", "/b"):
            create(writer, path)
        begin(server, writer, create_in(b"/c"), delete(b"/c"), set_data(b"/a"), set_data(b"/b"), until=b"/a")
        reader.send(1, OpCode.GET_DATA, named(b"/a") + b"\1")
        assert server.tree.before is not None
        assert list(server.tree.before.late_watches) == [(reader.connection, b"/a")]
        reader.connection.lost()
        server.tree.before.late_watches = {(reader.connection, b"/none"): False}
        server.settle()
    assert not reader.connection.out
    assert not server.pipeline.watches
