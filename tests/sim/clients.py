"""Simulated clients: they speak the real protocol, go from server to server, and believe nothing.

Each is one task. It keeps a session as a client library does (pings, another server when one is silent or
gone, its id, password and last zxid shown again, its watches set again) and now and then does what a library
does not: it falls silent until it expires, cuts its connection with requests under way, or writes once more
on a connection that it has left. Every answer is held against the model (checkers.py) the moment it arrives.
"""

from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from random import Random
from struct import Struct, pack

import attrs
import trio

from jute.client_records import (
    Acl,
    AddWatchRequest,
    CheckVersionRequest,
    ConnectRequest,
    ConnectResponse,
    CreateRequest,
    CreateResponse,
    DeleteRequest,
    ErrorResponse,
    ExistsRequest,
    ExistsResponse,
    GetChildren2Request,
    GetChildren2Response,
    GetDataRequest,
    GetDataResponse,
    Id,
    ReconfigRequest,
    SetDataRequest,
    SetDataResponse,
    SetWatches,
    SetWatches2,
    SyncRequest,
    WatcherEvent,
)
from jute.errors import NoNode, NotReadOnly
from jute.framing import FrameBuffer, frame
from jute.opcodes import (
    NOTIFICATION_XID,
    PING_XID,
    SET_WATCHES_XID,
    AddWatchMode,
    CreateMode,
    EventType,
    OpCode,
)
from jute.record import decode, encode
from jute.txn_records import CreateContainerTxn, CreateTxn
from tests.sim.checkers import SESSION_ERRORS, Checker, Conversation, Request
from tests.sim.decisions import Operation
from tests.sim.model import parent_of
from tests.sim.network import HostNetwork, VirtualStream
from tests.sim.watch_book import WatchBook

CLIENT_PORT = 2181
XIDS_EACH = 1_000_000
OPEN = (Acl(31, Id("world", "anyone")),)
_NEVER_THERE = "/never-there"
_HEADER = Struct(">iqi")
_MULTI_END = pack(">i?i", -1, True, -1)


def server_line(number: int, role: str) -> str:
    return f"server.{number}=s{number}:2888:3888:{role};s{number}:{CLIENT_PORT}"


@attrs.frozen(kw_only=True)
class Habits:
    """What a client does how often. Chances are for each thing it does."""

    think_s: float = 0.1
    pipelined_max: int = 3
    timeout_ms: int = 10_000
    writes: float = 0.5
    watches: float = 0.3
    multis: float = 0.1
    syncs: float = 0.05
    ephemerals: float = 0.3
    sequences: float = 0.2
    reconfigures: float = 0.0
    watches_for_good: float = 0.0
    accepts_read_only: bool = False  # a server without a leader will do
    containers: float = 0.0  # of the paths: at or below one
    falls_silent: float = 0.002
    moves: float = 0.01
    lingers: float = 0.0  # of the moves: the old connection stays open for one more write
    fails_midway: float = 0.3  # of the multis
    cuts_off: float = 0.005
    ends_session: float = 0.005


@attrs.frozen
class Left:
    """A connection that a client has left without closing it."""

    stream: VirtualStream
    server: str
    conversation: Conversation


class Client:
    def __init__(
        self,
        name: str,
        network: HostNetwork,
        servers: list[str],
        checker: Checker,
        chance: Random,
        habits: Habits,
        counts: Counter[str],
        trace: Callable[[str, str], None],
    ) -> None:
        self.name = name
        self.is_stopping = False
        self.last_ack_at = 0.0
        self._network = network
        self._servers = servers
        self._checker = checker
        self._chance = chance
        self._habits = habits
        self._counts = counts
        self._trace = trace
        self._xid = int(name[1:]) * XIDS_EACH  # so that no two clients' requests can be mistaken
        self._new_session()
        self._conversation = Conversation(name, 0, 0)
        self._in_flight: deque[Request] = deque()
        self._pings: deque[float] = deque()
        self._sent_at = 0.0
        self._server = ""  # the one it is connected to
        self._left: Left | None = None
        self._has_written = False  # on this connection, with an answer
        self._asked_in_vain: Operation | None = None  # in a multi that was to fail
        self._frames = FrameBuffer(1 << 24)

    def _new_session(self) -> None:
        self.session_id = 0
        self._password = bytes(16)
        self._timeout_ms = self._habits.timeout_ms
        self._last_zxid = 0
        self._watches = WatchBook(self._checker)

    # -- connections

    async def run(self) -> None:
        while True:
            server = self._chance.choice(self._elsewhere())
            stream = await self._dial(server)
            if stream is None:
                await trio.sleep(self._chance.uniform(0.05, 0.5))
                continue
            try:
                if await self._shake_hands(stream, server):
                    await self._converse(stream)
                else:  # no library knocks on without a pause, and each knock costs real time
                    await trio.sleep(self._chance.uniform(0.05, 0.3))
            except trio.BrokenResourceError:
                self._counts["connections_broken"] += 1
            self._conversation.is_left = True
            await self._hang_up(stream)
            if self.is_stopping and not self.session_id:
                return

    def _elsewhere(self) -> list[str]:
        return [each for each in self._servers if self._left is None or each != self._left.server]

    async def _hang_up(self, stream: VirtualStream) -> None:
        """Close this connection, unless it was just left open, and one that was left before it."""
        left = self._left
        if left is not None and left.stream is not stream:
            await left.stream.aclose()
            self._left = left = None
        if left is None:
            await stream.aclose()

    async def _dial(self, server: str) -> VirtualStream | None:
        try:
            with trio.fail_after(self._timeout_ms / 3000):
                return await self._network.dial(server, CLIENT_PORT)
        except (OSError, trio.TooSlowError):
            return None

    async def _shake_hands(self, stream: VirtualStream, server: str) -> bool:
        sent_at = trio.current_time()
        self._frames = FrameBuffer(1 << 24)
        hello = ConnectRequest(0, self._last_zxid, self._habits.timeout_ms, self.session_id, self._password)
        await stream.send_all(frame(encode(hello) + (b"\1" if self._habits.accepts_read_only else b"\0")))
        answer = await self._next_frame(stream, sent_at + self._timeout_ms / 1000)
        if answer is None:
            self._counts["handshakes_refused"] += 1
            return False
        response, end = decode(ConnectResponse, answer)
        if response.timeout_ms <= 0:
            self._expired()
            return False
        if answer[end:] == b"\1":
            await self._look_without_leader(stream)
            return False
        if self.session_id not in (0, response.session_id):
            self._checker.fail(f"{self.name} asked for 0x{self.session_id:x}, got {response}")
        self._trace(self.name, f"session 0x{response.session_id:x} at {server}")
        self.session_id, self._password = response.session_id, response.passwd or b""
        self._timeout_ms = response.timeout_ms
        self._server = server
        self._checker.session_opened(self.name, server, self.session_id, response.timeout_ms, sent_at)
        self._conversation = Conversation(self.name, self.session_id, self._conversation.number + 1)
        self._in_flight.clear()
        self._pings.clear()
        self._has_written = False
        return True

    async def _look_without_leader(self, stream: VirtualStream) -> None:
        """A server that serves reads alone says so, and takes no write. What it shows may never have been
        committed, so it is not looked at; and a library looks for a better server meanwhile."""
        if not self._habits.accepts_read_only:
            self._checker.fail(f"{self.name} is served read-only, which it did not ask for")
        write = encode(CreateRequest("/n0/read-only", b"", OPEN, 0))
        await stream.send_all(frame(pack(">ii", 1, OpCode.CREATE) + write))
        answer = await self._next_frame(stream, trio.current_time() + self._timeout_ms / 1000)
        if answer is None:
            return
        self._counts["answers_read_only"] += 1
        xid, _, error = _HEADER.unpack_from(answer)
        if (xid, error) != (1, NotReadOnly.code):
            self._checker.fail(f"{self.name} wrote to a server that only reads, and was answered {error}")

    def _expired(self) -> None:
        self._counts["sessions_expired"] += 1
        self._trace(self.name, f"session 0x{self.session_id:x} is told to be expired")
        self._checker.session_refused(self.session_id)
        self._new_session()

    async def _next_frame(self, stream: VirtualStream, deadline: float) -> bytes | None:
        while True:
            found = self._frames.next_frame()
            if found is not None:
                return found
            data = await stream.receive_before(deadline)
            if not data:
                return None
            self._frames.feed(data)

    async def _converse(self, stream: VirtualStream) -> None:
        """Ask and listen until the connection ends or nothing is heard for too long."""
        habits, chance = self._habits, self._chance
        now = heard_at = self._sent_at = trio.current_time()
        if self._watches:
            await self._send(stream, [self._watches_again()])
        act_at = now + chance.expovariate(1 / habits.think_s)
        while True:
            ping_at = self._sent_at + self._timeout_ms / 3000
            give_up_at = heard_at + self._timeout_ms / 1500
            deadline = min(act_at, give_up_at, ping_at if not self._pings else give_up_at)
            data = await stream.receive_before(deadline)
            now = trio.current_time()
            if data == b"":
                return
            if data is not None:
                heard_at = now
                if not self._take(data):
                    return
                if self._left is not None and self._has_written:
                    await self._write_where_it_left(self._left)
            elif now >= give_up_at:
                return
            if now >= ping_at and not self._pings:
                self._pings.append(now)
                self._checker.session_said(self.session_id)
                await self._send(stream, [(PING_XID, OpCode.PING, b"")])
            if now >= act_at and len(self._in_flight) < habits.pipelined_max:
                if not await self._act(stream):
                    return
                act_at = now + chance.expovariate(1 / habits.think_s)
            elif now >= act_at:
                act_at = give_up_at  # busy: what is under way comes first

    async def _act(self, stream: VirtualStream) -> bool:
        """Do something; returns whether to stay."""
        habits, chance = self._habits, self._chance
        if self.is_stopping or chance.random() < habits.ends_session:
            await self._ask(stream, [self._request(OpCode.CLOSE_SESSION, "", ())], [b""])
            return True
        dice = chance.random()
        if dice < habits.falls_silent:
            self._counts["clients_silent"] += 1
            await trio.sleep(self._timeout_ms / 1000 * chance.uniform(0.3, 2.5))
            return False
        if dice < habits.falls_silent + habits.moves:
            if chance.random() < habits.lingers and len(self._servers) > 1:
                self._left = Left(stream, self._server, self._conversation)
            return False
        requests, bodies = [], []
        for _ in range(chance.randint(1, habits.pipelined_max - len(self._in_flight))):
            request, body = self._draw_request()
            requests.append(request)
            bodies.append(body)
        await self._ask(stream, requests, bodies)
        return chance.random() >= habits.cuts_off

    async def _ask(self, stream: VirtualStream, requests: list[Request], bodies: list[bytes]) -> None:
        self._in_flight.extend(requests)
        for request in requests:
            self._checker.asked(request)
        await self._send(
            stream, [(each.xid, each.op, body) for each, body in zip(requests, bodies, strict=True)]
        )

    async def _write_where_it_left(self, left: Left) -> None:
        """Too late: this must not be done after what was written since. Nobody listens for the answer."""
        operation = SetDataRequest(self._draw_path(), self._draw_data(), -1)
        request = self._request(OpCode.SET_DATA, operation.path or "", (operation,))
        request.conversation = left.conversation
        self._checker.asked(request)
        self._counts["late_writes"] += 1
        self._left = None
        with suppress(trio.BrokenResourceError), trio.move_on_after(self._timeout_ms / 3000):
            await left.stream.send_all(frame(pack(">ii", request.xid, request.op) + encode(operation)))
        await left.stream.aclose()

    async def _send(self, stream: VirtualStream, frames: list[tuple[int, int, bytes]]) -> None:
        """A server that takes nothing any more, because its machine is gone or stopped, is given up like one
        that says nothing."""
        self._sent_at = trio.current_time()
        data = b"".join(frame(pack(">ii", xid, op) + body) for xid, op, body in frames)
        with trio.move_on_after(self._timeout_ms / 1500) as waiting:
            await stream.send_all(data)
        if waiting.cancelled_caught:
            raise trio.BrokenResourceError("the server takes nothing any more")

    # -- requests

    def _request(
        self, op: int, path: str, operations: tuple[Operation, ...], is_watching: bool = False
    ) -> Request:
        self._xid += 1
        return Request(
            self._xid,
            op,
            operations,
            path,
            is_watching,
            trio.current_time(),
            self._checker.acked_zxid,
            self._conversation,
        )

    def _draw_request(self) -> tuple[Request, bytes]:
        habits, chance = self._habits, self._chance
        if self._asked_in_vain is not None:  # nothing of it may be felt now
            operation, self._asked_in_vain = self._asked_in_vain, None
            return self._write_alone(operation)
        if chance.random() < habits.reconfigures:
            return self._request(OpCode.RECONFIG, "", ()), encode(self._draw_reconfiguration())
        dice = chance.random()
        if dice < habits.syncs:
            return self._request(OpCode.SYNC, "/", ()), encode(SyncRequest("/"))
        if dice < habits.syncs + habits.multis:
            operations = tuple(self._draw_write() for _ in range(chance.randint(1, 4)))
            if chance.random() < habits.fails_midway:
                self._asked_in_vain = operations[0]
                operations += (DeleteRequest(_NEVER_THERE, -1),)
            return self._request(OpCode.MULTI, "", operations), _encode_multi(operations)
        if dice < habits.syncs + habits.multis + habits.writes:
            return self._write_alone(self._draw_write())
        if habits.watches_for_good and chance.random() < habits.watches_for_good:
            return self._draw_lasting_watch()
        path, is_watching = self._draw_path(), chance.random() < habits.watches
        op, record = chance.choice(
            [
                (OpCode.GET_DATA, GetDataRequest(path, is_watching)),
                (OpCode.EXISTS, ExistsRequest(path, is_watching)),
                (OpCode.GET_CHILDREN2, GetChildren2Request(path, is_watching)),
            ]
        )
        return self._request(op, path, (), is_watching), encode(record)

    def _write_alone(self, operation: Operation) -> tuple[Request, bytes]:
        if isinstance(operation, CheckVersionRequest):
            operation = DeleteRequest(operation.path, operation.version)
        return self._request(_op_of(operation), operation.path or "", (operation,)), encode(operation)

    def _draw_lasting_watch(self) -> tuple[Request, bytes]:
        path = "/" if self._chance.random() < 0.1 else self._draw_path()
        is_recursive = self._chance.random() < 0.5
        mode = AddWatchMode.PERSISTENT_RECURSIVE if is_recursive else AddWatchMode.PERSISTENT
        return self._request(OpCode.ADD_WATCH, path, (), is_recursive), encode(AddWatchRequest(path, mode))

    def _draw_reconfiguration(self) -> ReconfigRequest:
        """One server leaves, joins, or changes its role."""
        number = self._chance.randint(1, len(self._servers))
        if self._chance.random() < 0.3:
            return ReconfigRequest(None, str(number), None, -1)
        role = self._chance.choice(("participant", "participant", "observer"))
        return ReconfigRequest(server_line(number, role), None, None, -1)

    def _draw_path(self) -> str:
        top = f"/n{self._chance.randrange(4)}"
        if self._habits.containers and self._chance.random() < self._habits.containers:
            top = f"/k{self._chance.randrange(2)}"
        return top if self._chance.random() < 0.4 else f"{top}/c{self._chance.randrange(5)}"

    def _draw_write(self) -> Operation:
        chance = self._chance
        path = self._draw_path()
        version = -1 if chance.random() < 0.7 else chance.randrange(4)
        match chance.randrange(8):
            case 0 | 1 | 2:
                return self._draw_create(path)
            case 3 | 4 | 5:
                return SetDataRequest(path, self._draw_data(), version)
            case 6:
                return DeleteRequest(self._draw_victim(path), version)
            case _:
                return CheckVersionRequest(path, version)

    def _draw_create(self, path: str) -> CreateRequest:
        is_ephemeral = path.count("/") > 1 and self._chance.random() < self._habits.ephemerals
        is_sequential = path.count("/") > 1 and self._chance.random() < self._habits.sequences
        if path.startswith("/k") and path.count("/") == 1:
            return CreateRequest(path, self._draw_data(), OPEN, CreateMode.CONTAINER)
        mode = CreateMode((CreateMode.EPHEMERAL if is_ephemeral else 0) + (2 if is_sequential else 0))
        if is_sequential:
            path = f"{parent_of(path)}/s"
        return CreateRequest(path, self._draw_data(), OPEN, mode)

    def _draw_victim(self, path: str) -> str:
        """Often one that is there; sequential nodes would pile up otherwise."""
        parent = path if path.count("/") == 1 else parent_of(path)
        node = self._checker.history.node(parent, self._checker.history.last_zxid)
        if node is not None and node.children and self._chance.random() < 0.6:
            return f"{parent}/{self._chance.choice(sorted(node.children))}"
        return path

    def _draw_data(self) -> bytes:
        size = self._chance.choice((0, 8, 8, 30, 700))
        return (b"%d %s " % (self._xid, self.name.encode()) * size)[:size]

    # -- answers

    def _take(self, data: bytes) -> bool:
        """Look at all that arrived; returns whether the session goes on."""
        self._frames.feed(data)
        while (message := self._frames.next_frame()) is not None:
            xid, zxid, err = _HEADER.unpack_from(message)
            body = message[16:]
            if xid == NOTIFICATION_XID:
                event, _ = decode(WatcherEvent, body)
                self._counts["events"] += 1
                self._watches.told(self.name, EventType(event.type), event.path or "", zxid)
                continue
            self._see(zxid)
            if xid == PING_XID:
                self._checker.session_heard(self.session_id, self._pings.popleft(), self._server)
            elif xid == SET_WATCHES_XID:
                self._watches.set_again(self.name, zxid)
            else:
                self._answered(xid, zxid, err, body)
                if not self.session_id:
                    return False
        return True

    def _see(self, zxid: int) -> None:
        if zxid < self._last_zxid:
            self._checker.fail(f"{self.name} saw 0x{self._last_zxid:x}, then 0x{zxid:x}")
        if zxid > self._last_zxid:
            self._last_zxid = zxid
            self._checker.shown(zxid)
            self._watches.check_none_missed(self.name, zxid)

    def _answered(self, xid: int, zxid: int, err: int, body: bytes) -> None:
        if not self._in_flight or self._in_flight[0].xid != xid:
            self._checker.fail(f"{self.name} got an answer to {xid}, in flight are {self._in_flight}")
        request = self._in_flight.popleft()
        self.last_ack_at = trio.current_time()
        self._counts["answers"] += 1
        self._checker.session_heard(self.session_id, request.asked_at, self._server)
        if request.op == OpCode.SYNC:
            self._checker.sync_answered(request, zxid)
        elif request.op == OpCode.ADD_WATCH:
            self._expect(request, zxid, (err, body), (0, encode(ErrorResponse(0))))
            self._watches.watch_for_good(request.path, zxid, is_recursive=request.is_watching)
            self._counts["watches_for_good"] += 1
        elif request.is_write:
            self._write_answered(request, zxid, err, body)
        else:
            self._read_answered(request, zxid, err, body)

    def _write_answered(self, request: Request, zxid: int, err: int, body: bytes) -> None:
        if request.op == OpCode.CLOSE_SESSION and not err:
            self._checker.close_acknowledged(request, zxid)
            self._counts["sessions_closed"] += 1
            self._new_session()
            return
        entry = self._checker.write_acknowledged(request, zxid, err)
        self._has_written = entry.failure not in SESSION_ERRORS
        self._counts["writes_acked" if not err else "writes_refused"] += 1
        if request.op == OpCode.RECONFIG:
            self._counts["reconfigured" if not err else f"reconfig refused {err}"] += 1
        if err or request.op in (OpCode.DELETE, OpCode.MULTI):
            return
        if request.op in (OpCode.CREATE, OpCode.CREATE_CONTAINER):
            assert isinstance(entry.record, CreateTxn | CreateContainerTxn)
            self._expect(request, zxid, decode(CreateResponse, body)[0], CreateResponse(entry.record.path))
        elif request.op == OpCode.SET_DATA:
            node = self._checker.history.node(request.path, zxid)
            assert node is not None
            self._expect(request, zxid, decode(SetDataResponse, body)[0], SetDataResponse(node.stat()))

    def _read_answered(self, request: Request, zxid: int, err: int, body: bytes) -> None:
        node = self._checker.history.node(request.path, zxid)
        self._expect(request, zxid, err, 0 if node is not None else NoNode.code)
        if node is None:
            if request.op == OpCode.EXISTS and request.is_watching:
                self._watches.watch_missing(request.path, zxid)
            return
        if request.op == OpCode.GET_DATA:
            expected: object = GetDataResponse(node.data, node.stat())
            got: object = decode(GetDataResponse, body)[0]
        elif request.op == OpCode.EXISTS:
            expected, got = ExistsResponse(node.stat()), decode(ExistsResponse, body)[0]
        else:
            expected = GetChildren2Response(tuple(sorted(node.children)), node.stat())
            listed = decode(GetChildren2Response, body)[0]
            got = GetChildren2Response(tuple(sorted(filter(None, listed.children or ()))), listed.stat)
        self._expect(request, zxid, got, expected)
        if request.is_watching:
            if request.op == OpCode.GET_CHILDREN2:
                self._watches.watch_children(request.path, zxid)
            else:
                self._watches.watch_data(request.path, zxid)

    def _expect(self, request: Request, zxid: int, got: object, expected: object) -> None:
        if got != expected:
            self._checker.fail(
                f"{self.name} was answered {got} at 0x{zxid:x}, expected was {expected}; asked: {request}"
            )

    def _watches_again(self) -> tuple[int, int, bytes]:
        zxid = self._last_zxid
        data, missing, children = self._watches.renew(zxid)
        if self._watches.is_lasting:
            again = encode(SetWatches2(zxid, data, missing, children, *self._watches.lasting()))
            return SET_WATCHES_XID, OpCode.SET_WATCHES2, again
        return SET_WATCHES_XID, OpCode.SET_WATCHES, encode(SetWatches(zxid, data, missing, children))


_OP_OF: dict[type, OpCode] = {
    CreateRequest: OpCode.CREATE,
    SetDataRequest: OpCode.SET_DATA,
    DeleteRequest: OpCode.DELETE,
    CheckVersionRequest: OpCode.CHECK,
}


def _op_of(operation: Operation) -> OpCode:
    if isinstance(operation, CreateRequest) and operation.flags == CreateMode.CONTAINER:
        return OpCode.CREATE_CONTAINER
    return _OP_OF[type(operation)]


def _encode_multi(operations: tuple[Operation, ...]) -> bytes:
    parts = [pack(">i?i", _OP_OF[type(each)], False, -1) + encode(each) for each in operations]
    return b"".join(parts) + _MULTI_END
