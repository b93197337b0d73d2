"""Spoilt conversations by the thousand with one server in memory, from a seed.

Bytes arrive in any pieces, transactions become durable when chance will have it, clients read or do not, and
go as they please. Nothing may be raised, nothing but whole frames may come out, and in the end nothing may
be left: the live server is fuzzed by `make fuzz`, where leaks of this kind would take hours to show.
"""

from random import Random
from struct import unpack_from

import pytest

from faults.fuzz.frames import Frames, hello
from server.client_protocol import CLOSED, OUT_PAUSE_BYTES, ClientConnection
from server.pipeline import Limits
from tests.server.one_server import OneServer
from tests.server.tree_checks import assert_sound

CLIENTS_MAX = 8
LIMITS = (
    Limits(),
    Limits(outstanding_max=2),
    Limits(frame_bytes_max=200),
    Limits(throttled_op_wait_ms=50),
    Limits(large_request_threshold_bytes=60, large_request_bytes_max=500),
    Limits(enforced_schemes=frozenset({"digest"})),
)


class Socket:
    """A client's end and the server's end of one connection, without anything in between.

    As the fronts do, it reads nothing from a conversation that is paused, and drops one that is cut off.
    """

    def __init__(self, server: OneServer) -> None:
        self.connection = ClientConnection(server.pipeline, self, "127.0.0.1", 1)
        self.to_send = b""
        self.unsent = b""
        self.said = bytearray()
        self.is_gone = False

    def wants_flush(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def deliver(self, size: int) -> None:
        if self.to_send and not self.connection.is_paused and self.connection.state != CLOSED:
            piece, self.to_send = self.to_send[:size], self.to_send[size:]
            self.connection.received(piece)

    def flush(self, room: int) -> None:
        """The server sends, and the socket takes at most so many bytes."""
        connection = self.connection
        connection.is_flush_wanted = False
        if connection.is_cut_off:
            self.drop()
            return
        self.unsent += b"".join(connection.out)
        connection.out.clear()
        self.said += self.unsent[:room]
        self.unsent = self.unsent[room:]
        if connection.closes_after_flush and not self.unsent:
            self.drop()
        else:
            connection.flushed(len(self.unsent))

    def drop(self) -> None:
        self.is_gone = True
        self.connection.lost()

    def take_frames(self, *, is_word: bool) -> None:
        """What was said are whole frames, but for the last, and each has a header."""
        at = 0
        while not is_word and len(self.said) - at >= 4:
            length = unpack_from(">i", self.said, at)[0]
            assert 16 <= length < 1 << 20
            if len(self.said) - at - 4 < length:
                break
            at += 4 + length
        del self.said[:at]


class Chaos:
    """A server, its clients, and one source of chance."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.frames = Frames(self.rng)
        self.server = OneServer(limits=LIMITS[seed % len(LIMITS)], ttl_nodes=bool(seed % 2))
        self.server.pipeline.answer_word = lambda _connection, word: word.encode()
        self.sockets: list[Socket] = []
        self.words: set[Socket] = set()

    def step(self) -> None:
        roll = self.rng.random()
        if not self.sockets or (roll < 0.05 and len(self.sockets) < CLIENTS_MAX):
            self._arrive()
        elif roll < 0.65:
            socket = self.rng.choice(self.sockets)
            socket.to_send = socket.to_send or self._data()
            socket.deliver(self.rng.choice((1, 7, 50, 400, 5000)))
        elif roll < 0.8:
            self.server.release(self.rng.randint(0, self.server.sink.undurable))
        elif roll < 0.97:
            self.rng.choice(self.sockets).flush(self.rng.choice((0, 10, 1000, 1 << 20, 1 << 20)))
        elif roll < 0.98:
            self.rng.choice(self.sockets).drop()
        else:
            self.server.pass_time(self.rng.choice((1, 100, 3000)))
        self._turn_over()

    def _arrive(self) -> None:
        socket = Socket(self.server)
        roll = self.rng.random()
        if roll < 0.1:
            socket.to_send = self.frames.words()
            self.words.add(socket)
        elif roll < 0.4:
            socket.to_send = self._hello_for_a_known_session()
        else:
            socket.to_send = hello() + self.frames.stream(3)
        self.sockets.append(socket)

    def _hello_for_a_known_session(self) -> bytes:
        """A connect request, spoilt or not, that wants a session there is."""
        known = [socket.connection for socket in self.sockets if socket.connection.session_id]
        if not known:
            return self.frames.spoilt_hello()
        connection = self.rng.choice(known)
        password = connection._connect_response()[-17:-1] if connection.has_read_only_flag else b""
        if self.rng.random() < 0.5:
            return hello(session=connection.session_id, password=password) + self.frames.stream(2)
        return self.frames.spoilt_hello(connection.session_id, password)

    def _data(self) -> bytes:
        roll = self.rng.random()
        if roll < 0.8:
            return b"".join(self.frames.lasting(xid)[0] for xid in range(1, 20))
        if roll < 0.9:
            return self.frames.stream(10)
        return self.frames.fatal() if roll < 0.95 else self.frames.noisy_stream(10)

    def _turn_over(self) -> None:
        self.server.pipeline.resume_paused()
        for socket in self.sockets:
            socket.take_frames(is_word=socket in self.words)
            assert socket.connection.out_bytes < 10 * OUT_PAUSE_BYTES
        self.sockets = [socket for socket in self.sockets if not socket.is_gone]

    def end(self) -> None:
        """Every client goes without a word, and the time of every session passes."""
        for socket in self.sockets:
            socket.drop()
        for _ in range(3):
            self.server.settle()
            self.server.pass_time(1_000_000)
        self.server.settle()


@pytest.mark.parametrize("seed", range(24))
def test_nothing_is_left_of_clients_that_are_gone(seed: int) -> None:
    chaos = Chaos(seed)
    for _ in range(3000):
        chaos.step()
    chaos.end()
    pipeline, tree = chaos.server.pipeline, chaos.server.tree
    assert not pipeline.in_flight
    assert not pipeline.connections
    assert not pipeline.resumable
    assert not pipeline.sessions.by_id
    assert (pipeline.outstanding, pipeline.queued_reads, pipeline.outstanding_bytes) == (0, 0, 0)
    assert pipeline.large_bytes == 0
    watches = pipeline.watches
    tables = (watches.data_once, watches.child_once, watches.persistent, watches.recursive)
    assert not any(tables)
    assert not pipeline.preparer.pending
    assert not pipeline.preparer.has_to_forget
    assert not pipeline.preparer._ephemeral_zxids
    assert not tree.ephemerals
    assert not tree.session_timeouts_ms
    assert tree.digest == tree.compute_digest()
    assert_sound(tree)
