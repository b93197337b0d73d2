"""One client of the crash test: writes of all kinds as fast as they are answered, and remembers them all.

Every reply is compared with what write_model.py says it must be. When the connection ends, the writes without
a reply are kept as unknown; `settle` finds out about them once the server is back.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from threading import Event
from typing import Final, TypeVar

import attrs

from support import session_client as wire
from support.opcodes import Op
from support.raw_client import Reader
from support.session_client import Lost, Refused, Reply, Request, SessionClient, Stat
from support.whole_tree import read_tree
from support.write_model import (
    OK,
    CloseSession,
    Create,
    Delete,
    Dequeue,
    Enqueue,
    Model,
    Multi,
    Node,
    Part,
    SetData,
    Violation,
    Write,
    settle,
)

BASE: Final = "/crash"
QUEUE: Final = f"{BASE}/queue"

SESSION_MS: Final = 30_000
Drawing = TypeVar("Drawing")

_WINDOW: Final = 16  # writes ahead of their replies
_NAMES: Final = 6
_SEQUENTIAL_MAX: Final = 8
_QUEUED_MAX: Final = 25
_DATA_BYTES_LARGE: Final = 20_000


@attrs.define
class Ledger:
    """What no two clients may both have: a zxid, and a number in the shared directory."""

    zxids: dict[int, object] = attrs.field(factory=dict)
    queue_paths: dict[str, bytes] = attrs.field(factory=dict)

    @property
    def last_zxid(self) -> int:
        return max(self.zxids, default=0)

    def claim_zxid(self, zxid: int) -> None:
        token = object()
        if self.zxids.setdefault(zxid, token) is not token:  # atomic, as clients run in threads
            raise Violation(f"two acknowledged writes have the zxid 0x{zxid:x}")

    def claim_queue_path(self, path: str, data: bytes) -> None:
        holder = self.queue_paths.setdefault(path, data)
        if holder != data:
            raise Violation(f"{path} was given to {holder!r}, and now to {data!r}")


@attrs.define(eq=False)
class Writer:
    """A client. After a crash: `attach`, then `settle` with what was found, then it may go on."""

    index: int
    port: int
    rng: random.Random
    ledger: Ledger
    stays_apart: bool = False  # writes below its own node alone, in one session, so it may be settled alone
    pause_seconds: float = 0.0
    acked: Model = attrs.field(init=False)
    acked_count: int = 0
    in_flight_happened: int = 0
    in_flight_lost: int = 0
    sessions_closed: int = 0
    failure: Exception | None = None
    _ahead: Model = attrs.field(init=False)  # as if all in flight had happened: what to draw writes from
    _in_flight: deque[Write] = attrs.field(factory=deque, init=False)
    _client: SessionClient | None = attrs.field(default=None, init=False)
    _last_zxid: int = attrs.field(default=0, init=False)  # of the last acknowledged write
    _seen_zxid: int = attrs.field(default=0, init=False)
    _serial: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.acked = Model(f"{BASE}/w{self.index}")
        self._ahead = self.acked.copy()

    def begin(self) -> None:
        """Open a session and create the node below which everything else will be."""
        client = self._open_session()
        reply = client.call(wire.create2(self.acked.root, b""))
        self.acked.nodes[self.acked.root] = Node(b"", reply.zxid, reply.zxid, reply.zxid)
        self._last_zxid = reply.zxid
        self._ahead = self.acked.copy()

    # -- under load

    def run(self, stop: Event) -> None:
        """Write until told to stop, or until the server is gone. The body of a thread."""
        try:
            while not stop.is_set():
                if self._client is None:
                    self._open_session()
                self._send(self.rng.randint(1, _WINDOW))
                self._receive_until(self.rng.randint(0, _WINDOW // 2))
                if self.pause_seconds:
                    stop.wait(self.pause_seconds)
            if self._client is not None:
                self._receive_until(0)
        except (Lost, TimeoutError):
            pass
        except Exception as failure:  # kept for the thread that waits for us
            self.failure = failure

    def _open_session(self) -> SessionClient:
        self._client = SessionClient.open(self.port, SESSION_MS, self._seen_zxid)
        self.acked.session_id = self._ahead.session_id = self._client.id
        return self._client

    def _send(self, count: int) -> None:
        assert self._client is not None
        requests: list[Request] = []
        while len(requests) < count and self._ahead.session_id:
            write = self._draw()
            requests.append(self._request(write))
            self._in_flight.append(write)
            self._ahead.apply(write, self._last_zxid)
        self._client.send(requests)

    def _receive_until(self, left: int) -> None:
        assert self._client is not None
        if not self._ahead.session_id:
            left = 0
        while len(self._in_flight) > left:
            reply = self._client.receive()
            self._acknowledge(self._in_flight.popleft(), reply)
        if not self._ahead.session_id:
            self.sessions_closed += 1
            self._forget_client()

    def _acknowledge(self, write: Write, reply: Reply) -> None:
        expected = self.acked.apply(write, reply.zxid)
        errors = [reply.err]
        if isinstance(write, Multi) and reply.err == OK:
            errors = wire.read_multi_errors(Reader(reply.body))
        if errors != expected:
            raise Violation(f"{self.acked.root}: {write} answered with {errors} instead of {expected}")
        if reply.zxid <= self._last_zxid:
            raise Violation(f"{write} has zxid 0x{reply.zxid:x}, the one before 0x{self._last_zxid:x}")
        self.ledger.claim_zxid(reply.zxid)
        self._last_zxid = reply.zxid
        self.acked_count += 1
        if errors == [OK]:
            self._compare(write, Reader(reply.body))

    def _compare(self, write: Write, reader: Reader) -> None:
        """Compare what a reply shows with the model."""
        if isinstance(write, Enqueue):
            path = wire.read_text(reader)
            self.ledger.claim_queue_path(path, write.data)
            self.acked.queued[write.data].path = path
        elif isinstance(write, SetData):
            node, stat = self.acked.nodes[write.path], wire.read_stat(reader)
            if found_node(write.data, stat) != node:
                raise Violation(f"{write} answered with {stat}, but the node is {node}")
        elif isinstance(write, Create) and wire.read_text(reader) not in self.acked.nodes:
            raise Violation(f"{write} was answered with another path")

    @property
    def is_settled(self) -> bool:
        """Nothing is unknown."""
        return not self._in_flight

    def drop(self) -> None:
        """Hang up; the session lives on."""
        if self._client is not None:
            self._client.drop()

    def _forget_client(self) -> None:
        assert self._client is not None
        self._seen_zxid = max(self._seen_zxid, self._client.last_zxid)
        self._client.drop()
        self._client = None

    # -- after a crash

    def attach(self, port: int) -> int:
        """Go on with the session; returns its id, or 0 if there is none any more."""
        self.port = port
        if self._client is None:
            return 0
        try:
            self._client.attach(port)
        except Refused:
            self._forget_client()
            return 0
        return self._client.id

    def settle_alone(self) -> None:
        """The same without an auditor, while others go on; it must be attached, and stay apart."""
        assert self.stays_apart
        assert self._client is not None
        self._client.call(wire.sync(self.acked.root))
        nodes = {
            path: found_node(seen.data or b"", seen.stat)
            for path, seen in read_tree(self._client, self.acked.root).items()
        }
        self.settle(Model(self.acked.root, nodes, session_id=self._client.id))

    def settle(self, found: Model) -> None:
        """Learn what became of the writes in flight; Violation unless some of them, in order, explain it."""
        outcome = settle(self.acked, self._in_flight, found, after=self._last_zxid)
        self.in_flight_happened += outcome.happened
        self.in_flight_lost += len(self._in_flight) - outcome.happened
        self._in_flight.clear()
        for data, entry in found.queued.items():
            assert entry.path is not None
            self.ledger.claim_queue_path(entry.path, data)
        self.acked = outcome.model
        self._ahead = self.acked.copy()

    # -- drawing writes

    def _draw(self) -> Write:
        own: list[tuple[int, Callable[[], Write]]] = [(60, self._part), (15, self._multi)]
        shared: list[tuple[int, Callable[[], Write]]] = [
            (12, lambda: Enqueue(self._data())),
            (12, self._dequeue),
            (1 if self._serial > 200 else 0, CloseSession),
        ]
        return self._one_of(own if self.stays_apart else own + shared)()

    def _part(self) -> Part:
        kinds: list[tuple[int, Callable[[], Part]]] = [
            (30, self._set_register),
            (20, lambda: self._toggle(self._path("t"))),
            (10, lambda: self._toggle(f"{self._path('t')}/c")),
            (10, lambda: self._toggle(self._path("e"), ephemeral=True)),
            (15, lambda: self._sequential("s-", ephemeral=False)),
            (5, lambda: self._sequential("es-", ephemeral=True)),
        ]
        return self._one_of(kinds)()

    def _one_of(self, kinds: Sequence[tuple[int, Drawing]]) -> Drawing:
        (drawing,) = self.rng.choices([drawing for _, drawing in kinds], [weight for weight, _ in kinds])
        return drawing

    def _multi(self) -> Multi:
        return Multi(tuple(self._part() for _ in range(self.rng.randint(1, 4))))

    def _dequeue(self) -> Write:
        known = [data for data, entry in self.acked.queued.items() if entry.path]
        known = [data for data in known if data in self._ahead.queued]  # not on its way out
        if len(known) < _QUEUED_MAX:
            return Enqueue(self._data())
        return Dequeue(self.rng.choice(known))

    def _set_register(self) -> Part:
        path = self._path("r")
        node = self._ahead.nodes.get(path)
        if node is None:
            return Create(path, self._data())
        version = self.rng.choice((-1, -1, -1, node.version, node.version + 1))
        return SetData(path, self._data(), version)

    def _toggle(self, path: str, *, ephemeral: bool = False) -> Part:
        deletes = (path in self._ahead.nodes) != (self.rng.random() < 0.1)
        return Delete(path) if deletes else Create(path, self._data(), ephemeral=ephemeral)

    def _sequential(self, name: str, *, ephemeral: bool) -> Part:
        prefix = f"{self._ahead.root}/{name}"
        mine = [path for path in self._ahead.nodes if path.startswith(prefix)]
        if len(mine) > _SEQUENTIAL_MAX:
            return Delete(self.rng.choice(mine))
        return Create(prefix, self._data(), ephemeral=ephemeral, sequential=True)

    def _path(self, kind: str) -> str:
        return f"{self._ahead.root}/{kind}{self.rng.randrange(_NAMES)}"

    def _data(self) -> bytes:
        """Never the same twice: it says whose it is, and which."""
        self._serial += 1
        filler = _DATA_BYTES_LARGE if self.rng.random() < 0.01 else self.rng.randrange(100)
        return b"w%d:%d:%b" % (self.index, self._serial, b"x" * filler)

    # -- on the wire

    def _request(self, write: Write) -> Request:
        if isinstance(write, Multi):
            return wire.multi(self._part_request(part) for part in write.parts)
        if isinstance(write, Enqueue):
            return wire.create(f"{QUEUE}/n-", write.data, flags=wire.SEQUENTIAL)
        if isinstance(write, Dequeue):
            path = self.acked.queued[write.data].path
            assert path is not None
            return wire.delete(path)
        if isinstance(write, CloseSession):
            return Op.CLOSE_SESSION, b""
        return self._part_request(write)

    def _part_request(self, write: Part) -> Request:
        if isinstance(write, SetData):
            return wire.set_data(write.path, write.data, write.version)
        if isinstance(write, Delete):
            return wire.delete(write.path, write.version)
        flags = wire.EPHEMERAL * write.ephemeral + wire.SEQUENTIAL * write.sequential
        create = self.rng.choice((wire.create, wire.create2))
        return create(write.path, write.data, flags=flags)


def found_node(data: bytes, stat: Stat) -> Node:
    """What a server shows of a node, as the model has it."""
    creates = (stat.cversion + stat.children) // 2
    return Node(data, stat.czxid, stat.mzxid, stat.pzxid, stat.version, creates, stat.owner)
