"""What clients do not take is bounded: for each of them, and for all of them together.

The worst case is stated in docs/OPERATING.md ("What clients can make the server hold").
"""

import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack
from struct import unpack_from

import pytest

from jute.client_records import GetDataRequest, SetDataRequest
from jute.errors import MarshallingError
from jute.opcodes import OpCode
from server.client_protocol import CLOSED
from server.pipeline import Limits
from tests.captured_logs import capture_logs
from tests.server.one_server import OneServer
from tests.server.test_fuzz_findings import MULTI_END, Stage, create, frames_of, operation, request

_LARGE_BYTES = 1_000_000
_READS_AT_ONCE = 60


def reads_of(path: str, count: int) -> bytes:
    return operation(OpCode.GET_DATA, GetDataRequest(path, False)) * count + MULTI_END


def multi_read_frame(xid: int, path: str, count: int) -> bytes:
    ping = request(xid, OpCode.MULTI_READ)
    body = ping[4:] + reads_of(path, count)
    return len(body).to_bytes(4, "big") + body


@pytest.fixture
def stage() -> Iterator[Stage]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        stage = Stage(listener)
        create(stage.writer, "/large", bytes(_LARGE_BYTES))
        yield stage
        stage.front.close()


def test_a_multi_read_holds_no_copy_of_what_its_client_does_not_take(stage: Stage) -> None:
    """A frame of a kilobyte asks for 60 MB: what waits is the tree's own data."""
    tracemalloc.start()
    try:
        client, peer = stage.connect(multi_read_frame(1, "/large", _READS_AT_ONCE))
        held_bytes, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    with client:
        assert peer.waiting_bytes > 40 * _LARGE_BYTES
        assert peer.connection.is_paused
        assert held_bytes < _LARGE_BYTES
        assert peak_bytes < 2 * _LARGE_BYTES


def test_a_multi_read_is_answered_as_its_client_takes_it(stage: Stage) -> None:
    """Byte for byte what it would be in one piece; and the next request is answered behind it."""
    create(stage.writer, "/small", b"small")
    frame = multi_read_frame(1, "/large", 3) + multi_read_frame(2, "/small", 3)
    client, peer = stage.connect(frame)
    with client:
        client.setblocking(False)
        received = bytearray()
        for _ in range(200):
            stage.turn()
            try:
                received += client.recv(1 << 20)
            except BlockingIOError:
                if not peer.waiting:
                    break
        handshake, large, small = frames_of(bytes(received))
    tree = stage.server.tree
    assert large[16:] == (b"\x00\x00\x00\x04\x00" + bytes(4) + tree.bodies[b"/large"]) * 3 + MULTI_END
    assert small[16:] == (b"\x00\x00\x00\x04\x00" + bytes(4) + tree.bodies[b"/small"]) * 3 + MULTI_END
    assert len(handshake) == 37
    assert peer.connection.sent_count == 3
    assert stage.server.pipeline.state.unsent_bytes == 0


def test_when_all_clients_together_hold_too_much_the_one_with_most_is_closed(stage: Stage) -> None:
    """With its reason in the log; those that read go on."""
    state = stage.server.pipeline.state
    state.limits = stage.server.pipeline.limits = Limits(unsent_bytes_max=100 << 20)
    with ExitStack() as clients, capture_logs() as lines:
        peers = []
        for count in (30, _READS_AT_ONCE, 30, 30):
            client, peer = stage.connect(multi_read_frame(1, "/large", count))
            clients.enter_context(client)
            peers.append(peer)
            assert state.unsent_bytes <= 100 << 20
        assert [peer.connection.state == CLOSED for peer in peers] == [False, True, False, False]
        assert state.unsent_bytes == sum(peer.waiting_bytes for peer in peers)
        (line,) = [line for line in lines if line["event"] == "client_does_not_read"]
        assert "triokeeper.unsentMaxBytes=104857600" in line["reason"]
        assert not peers[1].waiting
    stage.turn()
    assert state.unsent_bytes == 0
    assert not state.unread


def test_an_old_value_that_nobody_takes_counts_too(stage: Stage) -> None:
    """Replies hold values that the tree has no more: their number is bounded by the same budget."""
    state = stage.server.pipeline.state
    state.limits = stage.server.pipeline.limits = Limits(unsent_bytes_max=50 << 20)
    with ExitStack() as clients:
        for turn in range(10):
            client, _ = stage.connect(multi_read_frame(1, "/large", 20))
            clients.enter_context(client)
            changed = SetDataRequest("/large", bytes([turn]) * _LARGE_BYTES, -1)
            stage.writer.ask(OpCode.SET_DATA, changed)
            assert state.unsent_bytes <= 50 << 20


@pytest.mark.parametrize(
    ("limits", "setting"),
    [
        (Limits(multi_read_operations_max=9), "triokeeper.multiReadMaxOperations=9"),
        (Limits(multi_read_bytes_max=9_999), "triokeeper.multiReadMaxBytes=9999"),
    ],
)
def test_a_multi_read_beyond_a_limit_is_refused_and_the_log_names_it(limits: Limits, setting: str) -> None:
    """Once in ten seconds, however many are refused."""
    client = OneServer(limits=limits).connect()
    create(client, "/a", bytes(1000))
    assert client.ask(OpCode.MULTI_READ, reads_of("/a", 9))[1] == 0
    with capture_logs() as lines:
        for _ in range(3):
            assert client.ask(OpCode.MULTI_READ, reads_of("/a", 10))[1:] == (MarshallingError.code, b"")
    (line,) = [line for line in lines if line["event"] == "request_refused"]
    assert setting in line["reason"]
    assert unpack_from(">i", client.ask(OpCode.GET_DATA, GetDataRequest("/a", False))[2])[0] == 1000
