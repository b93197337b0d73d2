"""A whole standalone server without sockets, disk or time, for tests that speak its protocol."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from struct import pack, unpack_from
from typing import Any

import pytest

import server.learning
import server.ordering
import server.slices
import server.txns
import server.watches
from jute.client_records import ConnectRequest
from jute.record import encode
from server.acls import AccessRules
from server.client_protocol import CLOSED, ClientConnection
from server.client_sessions import Sessions, first_session_id
from server.data_tree import DataTree
from server.ordering import OrderingPipeline
from server.pipeline import Limits, ServerState
from server.prepare_txn import Preparer

START_MS = 1000
START_WALL_MS = 1_700_000_000_000
TICK_MS = 2000


@contextmanager
def smallest_slices() -> Iterator[None]:
    """As long as this lasts, everything that can be done in slices is, one step in each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server.slices, "STEPS_PER_SLICE", 1)
        patch.setattr(server.ordering, "LONG_MULTI_BYTES", 0)
        patch.setattr(server.learning, "LONG_MULTI_BYTES", 0)
        patch.setattr(server.txns, "_LONG_BYTES", 0)
        patch.setattr(server.watches, "TOLD_AT_ONCE_MAX", 0)
        yield


class HeldSink:
    """Keeps transactions until the test says they are durable."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.undurable = 0

    def flush(self) -> None:
        """Nothing hangs on the end of a batch here."""

    def append(self, payload: bytes) -> None:
        self.payloads.append(payload)
        self.undurable += 1


class OneServer:
    """The pipeline of one server; `settle` makes everything in flight durable."""

    def __init__(
        self, *, limits: Limits | None = None, rules: AccessRules | None = None, **preparing: Any
    ) -> None:
        self.tree = DataTree(extended_types=preparing.get("ttl_nodes", False))
        self.sink = HeldSink()
        sessions = Sessions(TICK_MS, first_session_id(1, START_MS))
        rules = rules or AccessRules()
        self.pipeline = OrderingPipeline(
            ServerState(self.tree, rules, limits),
            sessions,
            Sessions(TICK_MS, 0),
            Preparer(self.tree, sessions, rules, **preparing),
            self.sink,
        )
        self.pipeline.begin_batch(START_MS, START_WALL_MS)

    def settle(self) -> None:
        while self.sink.undurable or self.pipeline.has_work_left:
            self.release(self.sink.undurable)
            self.work_off()

    def work_off(self) -> None:
        """Do all that takes long, in as many slices as it takes."""
        pipeline = self.pipeline
        while pipeline.has_work_left:
            self.begin_batch()
            pipeline.go_on()

    def release(self, count: int) -> None:
        """Only the oldest so many of the transactions in flight become durable."""
        self.sink.undurable -= count
        self.begin_batch()
        self.pipeline.committed(count)

    def begin_batch(self) -> None:
        """What follows happens in a turn of its own; no time has passed."""
        self.pipeline.begin_batch(self.pipeline.now_ms, self.pipeline.wall_ms)

    def pass_time(self, ms: int) -> None:
        """The clocks go on, and sessions whose time is up are told to close."""
        self.pipeline.begin_batch(self.pipeline.now_ms + ms, self.pipeline.wall_ms + ms)
        self.pipeline.expire_sessions()

    def connect(
        self, *, timeout_ms: int = 10_000, address: str = "127.0.0.1", session_of: "Client | None" = None
    ) -> "Client":
        """A client with a session: a new one, or that of another client."""
        client = Client(self, address)
        session_id, password = (session_of.session_id, session_of.password) if session_of else (0, bytes(16))
        client.send_raw(encode(ConnectRequest(0, 0, timeout_ms, session_id, password)) + b"\x00")
        self.settle()
        client.read_handshake()
        return client


class Client:
    """A client of a OneServer: frames in, frames out, and the front's handle in between."""

    def __init__(self, server: OneServer, address: str = "127.0.0.1") -> None:
        self.server = server
        self.session_id = 0
        self.password = b""
        self.is_reading = True
        self.connection = ClientConnection(server.pipeline, self, address, 40_000)

    def wants_flush(self) -> None:
        pass

    def resume_reading(self) -> None:
        self.is_reading = True

    @property
    def is_closed(self) -> bool:
        return self.connection.state == CLOSED

    def send_raw(self, body: bytes) -> None:
        self.connection.received(pack(">i", len(body)) + body)

    def send(self, xid: int, op: int, body: bytes = b"") -> None:
        self.send_raw(pack(">ii", xid, op) + body)

    def receive(self) -> bytes:
        """Everything the server has said since the last look; our socket takes whatever there is."""
        data = b"".join(self.connection.out)
        self.connection.out.clear()
        self.connection.is_flush_wanted = False
        self.connection.flushed(0)
        self.server.pipeline.resume_paused()
        return data

    def frames(self) -> deque[bytes]:
        """What arrived since the last look, without the lengths in front."""
        data = self.receive()
        frames: deque[bytes] = deque()
        while data:
            length = unpack_from(">i", data)[0]
            frames.append(data[4 : 4 + length])
            data = data[4 + length :]
        return frames

    def read_handshake(self) -> None:
        response = self.frames().popleft()
        self.session_id = unpack_from(">q", response, 8)[0]
        self.password = response[20:36]

    def ask(self, op: int, request: object | bytes = b"", xid: int = 1) -> tuple[int, int, bytes]:
        """Send one request, wait for it, and return the zxid, the error and the body of its reply."""
        self.send(xid, op, request if isinstance(request, bytes) else encode(request))
        self.server.settle()
        reply = self.frames().pop()
        _, zxid, err = unpack_from(">iqi", reply)
        return zxid, err, reply[16:]
