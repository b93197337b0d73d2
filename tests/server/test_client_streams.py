"""A client's bytes, however they are cut, delayed or spoilt."""

from struct import pack, unpack_from

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jute.client_records import ConnectRequest
from jute.opcodes import OpCode
from jute.record import encode
from server.client_protocol import OPEN
from server.pipeline import Limits
from tests.server.busy_server import PLANTED, BusyServer
from tests.server.one_server import Client, OneServer
from tests.server.request_strategies import OPEN as OPEN_ACL
from tests.server.request_strategies import Ask, Close, Request, Step, mixed_steps, requests
from tests.server.tree_checks import assert_sound

CONNECT = encode(ConnectRequest(0, 0, 10_000, 0, bytes(16))) + b"\x00"


def frame(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


def conversation(asked: list[Request]) -> bytes:
    """A whole stream: the handshake, some nodes to speak of, and the requests, numbered from 1."""
    planted = [
        (int(OpCode.CREATE), frame(path.encode()) + bytes(4) + OPEN_ACL + bytes(4)) for path in PLANTED
    ]
    all_asked = planted + asked
    return frame(CONNECT) + b"".join(
        frame(pack(">ii", xid, op) + body) for xid, (op, body) in enumerate(all_asked, 1)
    )


def answers(stream: bytes, cuts: list[int]) -> bytes:
    """What a new server says to a stream that arrives in pieces."""
    server = OneServer()
    client = Client(server)
    heard = b""
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        client.connection.received(stream[start:end])
        server.settle()
        heard += client.receive()
        server.settle()
    return heard + client.receive()


@settings(max_examples=30)
@given(requests(200), st.lists(st.integers(0, 10_000), max_size=8))
def test_a_stream_may_be_cut_anywhere(asked: list[Request], cuts: list[int]) -> None:
    """The answers are those to the whole, byte for byte."""
    stream = conversation(asked)
    cuts = sorted(cut % len(stream) for cut in cuts)
    assert answers(stream, cuts) == answers(stream, [])


def test_a_stream_may_come_byte_by_byte() -> None:
    """The same, cut everywhere at once."""
    asked = [(int(OpCode.GET_DATA), frame(b"/a") + b"\x01"), (int(OpCode.PING), b"")] * 3
    stream = conversation(asked)
    assert answers(stream, list(range(1, len(stream)))) == answers(stream, [])


@settings(max_examples=40)
@given(mixed_steps())
def test_answers_come_in_the_order_of_the_questions(done: list[Step]) -> None:
    """Whatever is held and released, each client hears its xids in order, and zxids that never go back."""
    server = BusyServer()
    heard = Listener(server)
    for number, step in enumerate(done, 1):
        if isinstance(step, Ask | Close):
            op, body = step.request if isinstance(step, Ask) else (OpCode.CLOSE_SESSION, b"")
            client = server.present(step.client)
            heard.expect(client, -2 if op == OpCode.PING else number)
            client.send(number, op, body)
        else:
            server.take(step, receive=False)
        heard.listen()
    server.settle()
    heard.listen()
    assert heard.is_complete()
    assert_sound(server.tree)


class Listener:
    """Checks what the clients of a server hear, as they hear it."""

    def __init__(self, server: BusyServer) -> None:
        self._server = server
        self._expected: dict[Client, list[int]] = {}
        self._zxids: dict[Client, int] = {}

    def expect(self, client: Client, xid: int) -> None:
        self._expected.setdefault(client, []).append(xid)

    def listen(self) -> None:
        for client in self._server.everyone:
            for reply in client.frames():
                self._hear(client, *unpack_from(">iq", reply))

    def _hear(self, client: Client, xid: int, zxid: int) -> None:
        if xid == -1 and zxid == -1:
            return  # an event of setWatches
        assert zxid >= self._zxids.get(client, 0)
        self._zxids[client] = zxid
        if xid > 0 or xid == -2:
            assert self._expected[client].pop(0) == xid

    def is_complete(self) -> bool:
        return not any(left for client, left in self._expected.items() if client.connection.state == OPEN)


@settings(max_examples=60)
@given(
    requests(150),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6),
    st.sampled_from([Limits(), Limits(outstanding_max=1), Limits(enforced_schemes=frozenset({"digest"}))]),
)
@example([], [(0, 255)], Limits())
def test_spoilt_bytes_hurt_nobody_else(
    asked: list[Request], spoilt: list[tuple[int, int]], limits: Limits
) -> None:
    """Whatever arrives, nothing is raised, the tree is sound, and another client is served."""
    server = OneServer(limits=limits)
    stream = bytearray(conversation(asked))
    for at, byte in spoilt:
        stream[at % len(stream)] = byte
    client = Client(server)
    client.connection.received(bytes(stream))
    server.settle()
    client.receive()
    server.settle()
    assert_sound(server.tree)
    assert server.tree.digest == server.tree.compute_digest()
    other = server.connect()
    assert other.ask(OpCode.PING)[1] in (0, -124)


OPCODES = [int(op) for op in OpCode] + [0, 10, 99, 1000, -12]


@settings(max_examples=80)
@given(st.lists(st.tuples(st.sampled_from(OPCODES), st.binary(max_size=40)), max_size=10))
def test_random_bodies_hurt_nobody_else(asked: list[Request]) -> None:
    """The same for bytes that never were a request, under every opcode."""
    server = OneServer()
    client = Client(server)
    client.connection.received(conversation(asked))
    server.settle()
    client.receive()
    assert_sound(server.tree)
    assert server.connect().ask(OpCode.PING)[1] == 0
