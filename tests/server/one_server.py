"""A whole standalone server without sockets, disk or time, for tests that speak its protocol."""

from collections import deque
from struct import pack, unpack_from
from typing import Any

from jute.client_records import ConnectRequest
from jute.opcodes import OpCode
from jute.record import decode, encode
from server.acls import AccessRules
from server.client_protocol import ClientConnection
from server.client_sessions import Sessions, first_session_id
from server.data_tree import DataTree
from server.pipeline import Limits, Pipeline
from server.prepare_txn import Preparer


class HeldSink:
    """Keeps transactions until the test says they are durable."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.undurable = 0

    def append(self, payload: bytes) -> None:
        self.payloads.append(payload)
        self.undurable += 1


class OneServer:
    """The pipeline of one server; `settle` makes everything in flight durable."""

    def __init__(self, *, limits: Limits | None = None, rules: AccessRules | None = None, **preparing: Any) -> None:
        self.tree = DataTree(extended_types=preparing.get("ttl_nodes", False))
        self.sink = HeldSink()
        sessions = Sessions(2000, first_session_id(1, 1000))
        rules = rules or AccessRules()
        self.pipeline = Pipeline(
            tree=self.tree,
            sessions=sessions,
            rules=rules,
            preparer=Preparer(self.tree, sessions, rules, **preparing),
            sink=self.sink,
            limits=limits or Limits(),
        )
        self.pipeline.begin_batch(1000, 1_700_000_000_000)

    def settle(self) -> None:
        while self.sink.undurable:
            count, self.sink.undurable = self.sink.undurable, 0
            self.pipeline.committed(count)

    def connect(self, *, timeout_ms: int = 10_000) -> "Client":
        client = Client(self)
        client.send_raw(encode(ConnectRequest(0, 0, timeout_ms, 0, bytes(16))) + b"\x00")
        self.settle()
        response = client.frames().popleft()
        client.session_id = unpack_from(">q", response, 8)[0]
        client.password = response[20:36]
        return client


class Client:
    """A client of a OneServer: frames in, frames out, and the front's handle in between."""

    def __init__(self, server: OneServer, address: str = "127.0.0.1") -> None:
        self.server = server
        self.session_id = 0
        self.password = b""
        self.is_reading = True
        self._unread: deque[bytes] = deque()
        self.connection = ClientConnection(server.pipeline, self, address, 40_000)

    def wants_flush(self) -> None:
        pass

    def resume_reading(self) -> None:
        self.is_reading = True

    def send_raw(self, body: bytes) -> None:
        self.connection.received(pack(">i", len(body)) + body)

    def send(self, xid: int, op: int, body: bytes = b"") -> None:
        self.send_raw(pack(">ii", xid, op) + body)

    def frames(self) -> deque[bytes]:
        """What arrived since the last look, without the lengths in front."""
        self.connection.is_flush_wanted = False
        data = b"".join(self.connection.out)
        self.connection.out.clear()
        self.connection.flushed(0)
        frames: deque[bytes] = deque()
        while data:
            length = unpack_from(">i", data)[0]
            frames.append(data[4 : 4 + length])
            data = data[4 + length :]
        return frames

    def ask(self, op: int, request: object | bytes = b"", xid: int = 1) -> tuple[int, int, bytes]:
        """Send one request, wait for it, and return the zxid, the error and the body of its reply."""
        self.send(xid, op, request if isinstance(request, bytes) else encode(request))
        self.server.settle()
        reply = self.frames().pop()
        _, zxid, err = unpack_from(">iqi", reply)
        return zxid, err, reply[16:]
