"""What all roles of a server have in common: its state, its clients, and the one way in which committed
transactions are applied and answered.

A server orders writes itself (ordering.py: standalone; leading.py: for an ensemble), hands them to its leader
(learning.py), serves nothing but reads (read_only.py) or nothing at all (not_serving.py). Each of these is a
pipeline; when the role changes, all connections are closed and the next ones get another pipeline over the
same `ServerState`.

A pipeline is synchronous: connections hand it what their clients ask for, whoever orders transactions calls
`committed`. One transaction is applied completely, events queued before replies, before the next begins; then
the reads that waited behind it on its connection are answered, so no connection ever sees its requests
answered out of order or a later write before its turn.

What takes long is done in slices (slices.py); `go_on` does one. Meanwhile the sockets are looked at, clients
and other servers are heard, and pings are answered.

    preparing    a transaction that is not whole: other writes wait, and so do transactions to be applied
    applying     one that is not in the tree altogether, or not told to all who watch: nobody may see a part
                 of it, so reads show the state before, writes go on, and the rest waits
    due          transactions are committed that are not applied: they follow, in their order
    long_reads   a setWatches of many paths, a list of very many children, too many reads behind a write:
                 these connections wait, and so do committed transactions, from the next write of such a
                 connection on
    chores       sessions to be expired, watches of connections that are gone: nobody waits

`now_ms` (never goes back) and `wall_ms` are set once for a batch of events by the shell that drives us.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Protocol

import attrs

from eventlog import log
from jute.client_records import ConnectRequest
from jute.opcodes import OpCode
from quorum.committed_log import CommittedLog
from server import slices
from server.acls import AccessRules
from server.apply_txn import LongApplication, apply_txn, takes_long
from server.client_protocol import CLOSED, ClientConnection
from server.client_sessions import Session, Sessions, password_of
from server.connection_throttle import ConnectionThrottle
from server.data_tree import DataTree
from server.digest_history import INTERVAL as DIGEST_INTERVAL
from server.digest_history import DigestHistory
from server.loop_meter import COMMIT, LoopMeter
from server.prepare_txn import LongPreparation
from server.server_stats import ServerStats
from server.slices import (
    ACCEPT_STEPS,
    FREED_PER_STEP,
    OPERATION_STEPS,
    WRITE_STEPS,
    depth_steps,
)
from server.txns import CLOSE_SESSION, MULTI, Txn
from server.watches import Watches

OUTSTANDING_BYTES_MAX = 64 << 20
NO_ZXID = (1 << 63) - 1
LONG_MULTI_BYTES = 8 << 10  # where it may take long to prepare
SHORT_MULTI_BYTES = 512  # where it does not, whatever ACLs there are
SHORT_ACLS_BYTES = 64 << 10  # of all that are in use, where none of them takes long to be judged
_REFUSAL_EVERY_MS = 10_000

_GET_ACL = int(OpCode.GET_ACL)
_GET_DATA = int(OpCode.GET_DATA)
_GET_EPHEMERALS = int(OpCode.GET_EPHEMERALS)
_MULTI_READ = int(OpCode.MULTI_READ)
_LONG_READS = frozenset({_GET_DATA, int(OpCode.GET_CHILDREN), int(OpCode.GET_CHILDREN2)})
_SHORT_REPLY_BYTES = 100
_ACL_WEIGHT = 50  # to hide a part of an ACL takes as long as to send so many times its bytes
_CHILD_NAME_BYTES = 20
_UNKNOWN_REPLY_BYTES = 1 << 20
_APPLIED_AT_ONCE_STEPS = 400
EXPIRY_STEPS = 2 * OPERATION_STEPS
_ROOM_SHARE = 16  # of what all clients together may leave unread


class Outlet(Protocol):
    """Where requests go to be ordered or made durable."""

    def flush(self) -> None:
        """Nothing more will come for now."""


class NoOutlet:
    """For roles in which nothing leaves."""

    def flush(self) -> None:
        pass


@attrs.frozen(kw_only=True)
class Limits:
    """What clients may ask for, in sizes and numbers."""

    frame_bytes_max: int = 0xFFFFF
    session_ms_min: int = 4000
    session_ms_max: int = 40_000
    outstanding_max: int = 1000
    multi_read_operations_max: int = 4000
    multi_read_bytes_max: int = 64 << 20
    unsent_bytes_max: int = 256 << 20
    large_request_threshold_bytes: int = -1
    large_request_bytes_max: int = 100 * 1024 * 1024
    throttled_op_wait_ms: int = 0
    enforced_schemes: frozenset[str] = frozenset()

    def session_ms(self, asked_ms: int) -> int:
        """How long a session lives unheard whose client asks for so long."""
        return max(self.session_ms_min, min(asked_ms, self.session_ms_max))


# A transaction that is not committed yet, and whom to answer: xid, opcode, when it began, bytes of the
# request. A tuple, because one is made for every write. Where nobody is to be answered it began at UNTIMED.
InFlight = tuple[Txn, ClientConnection | None, int, int, int, int]
UNTIMED = -1


class ServerState:
    """What a server is whatever its role; it stays while roles come and go.

    `committed_log` is a member's of an ensemble. With `local_sessions` new sessions are known to this server
    alone, and with `upgrades_sessions` one that wants an ephemeral node becomes known to all.
    """

    def __init__(
        self,
        tree: DataTree,
        rules: AccessRules,
        limits: Limits | None = None,
        throttle: ConnectionThrottle | None = None,
        *,
        handshake_weights: tuple[int, int] = (1, 1),
        digests: bool = True,
        committed_log: CommittedLog | None = None,
        local_sessions: bool = False,
        upgrades_sessions: bool = False,
        meter: LoopMeter | None = None,
    ) -> None:
        self.tree = tree
        self.rules = rules
        self.limits = limits or Limits()
        self.throttle = throttle or ConnectionThrottle(0)
        self.handshake_weights = handshake_weights  # tokens for a new session, for a renewed one
        self.digests = digests
        self.committed_log = committed_log
        self.local_sessions = local_sessions
        self.upgrades_sessions = upgrades_sessions
        self.meter = meter or LoopMeter()
        self.watches = Watches()
        self.stats = ServerStats()
        self.digest_history = DigestHistory()
        self.answer_word: Callable[[ClientConnection, str], bytes | Iterator[str]] | None = None
        self.unsent_bytes = 0  # of all replies and events that clients have not taken
        self.unread: dict[ClientConnection, None] = {}  # whose clients these are
        self._refusal_due_ms = 0
        self._refusals_unreported = 0
        self.on_work_left: Callable[[], object] = _nobody_goes_on
        self.tree.triggers = self.watches
        self.watches.count_told = self._count_told

    def _count_told(self, event: int, watchers: int) -> None:
        self.stats.watchers_told[event].add(watchers)

    def report_refusal(self, client: str, op: int, setting: str, most: int, now_ms: int) -> None:
        """Say which limit a request was beyond; not each time, because anybody can bring it about."""
        if now_ms < self._refusal_due_ms:
            self._refusals_unreported += 1
            return
        log.warning(
            "request_refused",
            client=client,
            opcode=int(op),
            reason=f"it is beyond {setting}={most}",
            unreported=self._refusals_unreported,
        )
        self._refusal_due_ms = now_ms + _REFUSAL_EVERY_MS
        self._refusals_unreported = 0

    def count_unsent(self, connection: ClientConnection, before: int, now: int) -> None:
        """A client has taken some of its output, or been given some that it has not taken."""
        self.unsent_bytes += now - before
        if not now:
            self.unread.pop(connection, None)
            return
        self.unread[connection] = None
        if now > before and self.unsent_bytes > self.limits.unsent_bytes_max:
            self._close_worst()

    def _close_worst(self) -> None:
        """Close those who have most, until there is room for a while: to look at all who do not read, once
        for each reply that is too much, would take long."""
        limit_bytes = self.limits.unsent_bytes_max
        for worst in sorted(self.unread, key=_unsent_bytes, reverse=True):
            if self.unsent_bytes <= limit_bytes - limit_bytes // _ROOM_SHARE:
                break
            log.warning(
                "client_does_not_read",
                client=f"{worst.address}:{worst.port}",
                bytes_waiting=worst.unsent_bytes,
                reason=f"all clients together are beyond triokeeper.unsentMaxBytes={limit_bytes}",
            )
            worst.pipeline.steps += ACCEPT_STEPS
            worst.close()


def _nobody_goes_on() -> None:
    """Until there is a shell that calls `go_on`."""


class Preparation:
    """A transaction that is being prepared in slices, and whom to answer."""

    __slots__ = ("connection", "frame_bytes", "long", "op", "xid")

    def __init__(
        self, long: LongPreparation, connection: ClientConnection | None, xid: int, op: int, frame_bytes: int
    ) -> None:
        self.long = long
        self.connection = connection
        self.xid = xid
        self.op = op
        self.frame_bytes = frame_bytes


class Application:
    """A transaction that is being applied in slices; `long` is None if only its events take long."""

    __slots__ = ("body", "done", "err", "long")

    def __init__(self, done: InFlight, long: LongApplication | None, err: int, body: bytes) -> None:
        self.done = done
        self.long = long
        self.err = err
        self.body = body


def _asks_for_long(connection: ClientConnection) -> bool:
    return connection.asks_for_long


def _unsent_bytes(connection: ClientConnection) -> int:
    return connection.unsent_bytes


class Pipeline:
    """A server in one of its roles, with the clients and the writes on their way that it has meanwhile.

    `sessions` are those it decides about; of these, `local` are known to nobody else. `mode` is the role's
    name, as operators know it.
    """

    def __init__(
        self, state: ServerState, sessions: Sessions, local: Sessions, outlet: Outlet, mode: str
    ) -> None:
        self.state = state
        self.mode = mode
        self.is_serving = True
        self.is_read_only = False
        self.tree = state.tree
        self.rules = state.rules
        self.limits = state.limits
        self.throttle = state.throttle
        self.watches = state.watches
        self.stats = state.stats
        self.meter = state.meter
        self.digest_history = state.digest_history
        self.sessions = sessions
        self.local = local
        self.outlet = outlet
        self.now_ms = 0
        self.wall_ms = 0
        self.connections: dict[int, ClientConnection] = {}  # by session
        self.in_flight: deque[InFlight] = deque()
        self.queued_reads = 0  # waiting behind writes of their own connection
        self.reads_in_batch = 0
        self.outstanding_bytes = 0  # of requests in flight and reads that wait
        self.large_bytes = 0  # of large requests in flight
        self.resumable: deque[ClientConnection] = deque()
        self.steps = 0  # of work in this turn of the loop
        self.preparing: Preparation | None = None
        self.applying: Application | None = None
        self.held: list[ClientConnection] = []  # with requests that wait for one of the two
        self.due = 0  # transactions in flight that are committed
        self._kept = 0  # of these, that are in the committed log
        self.sync_zxid = NO_ZXID  # when this is applied, syncs are to be answered
        self.long_reads: deque[ClientConnection] = deque()
        self._shown: list[dict[bytes, bytes | None]] = []  # nodes before long transactions, to be freed
        self._expiring_local: Iterator[Session] | None = None
        self._committed_log = state.committed_log

    @property
    def answer_word(self) -> Callable[[ClientConnection, str], bytes | Iterator[str]] | None:
        return self.state.answer_word

    @answer_word.setter
    def answer_word(self, answer: Callable[[ClientConnection, str], bytes | Iterator[str]] | None) -> None:
        self.state.answer_word = answer

    def begin_batch(self, now_ms: int, wall_ms: int) -> None:
        """Something happened: this is the time for everything that follows from it."""
        self.steps = 0
        self.continue_batch(now_ms, wall_ms)

    def continue_batch(self, now_ms: int, wall_ms: int) -> None:
        """More has happened before others had their turn: it counts as work of the same slice."""
        self.now_ms = now_ms
        self.wall_ms = wall_ms

    def end_batch(self, now_ms: int) -> None:
        """All that happened has been seen to: what is to be ordered or made durable may go, together."""
        if self.reads_in_batch:
            self.stats.reads.add(now_ms - self.now_ms, self.reads_in_batch)
            self.reads_in_batch = 0
        self.outlet.flush()

    # -- what the roles do differently

    def submit(self, connection: ClientConnection, xid: int, op: int, body: bytes) -> None:
        """A client's write. Raises DecodeError or a ZkError, and does nothing, if it is refused at once."""
        raise NotImplementedError

    def sync(self, connection: ClientConnection, xid: int, path: bytes) -> None:
        """Answer `path` (in wire form) once this server knows all that is committed now."""
        raise NotImplementedError

    def open_session(self, connection: ClientConnection) -> None:
        """Give a client a new session."""
        raise NotImplementedError

    def create_session_again(self, connection: ClientConnection, xid: int, body: bytes) -> None:
        """A client may ask for its own session to be created; it gets a second connect response. Raises a
        ZkError, and does nothing, if that is refused at once."""
        raise NotImplementedError

    def _renew(self, connection: ClientConnection, session_id: int) -> None:
        """A client has shown that the session is its own: it may go on, if the session still lives."""
        raise NotImplementedError

    def _submit_close(self, connection: ClientConnection, xid: int) -> None:
        """A client closes its session."""
        raise NotImplementedError

    def _applied(self, txn: Txn) -> None:
        """A transaction is in the tree now."""
        raise NotImplementedError

    def _suits(self, connection: ClientConnection, session_id: int) -> bool:
        """Whether this role serves such a client at all."""
        return True

    # -- the beginning and the end of sessions

    def admits(self, connection: ClientConnection, request: ConnectRequest) -> bool:
        """Whether a client may go on from its connect request; if not, it is not told why."""
        self.stats.connect_requests += 1
        self.stats.token_deficits.add(self.throttle.tokens_missing)
        tokens = self.state.handshake_weights[request.session_id != 0]
        if not self.throttle.admits(tokens, self.now_ms):
            self.stats.connections_rejected += 1
            return False
        return self._suits(connection, request.session_id) and not self._is_behind(connection, request)

    def _is_behind(self, connection: ClientConnection, request: ConnectRequest) -> bool:
        """Whether the client has seen more than we have: served by us, it would go back in time."""
        if request.last_zxid_seen <= self.tree.last_zxid:
            return False
        log.info(
            f"Refusing session(0x{request.session_id & 0xFFFFFFFFFFFFFFFF:x}) request for client "
            f"/{connection.address}:{connection.port} as it has seen zxid 0x{request.last_zxid_seen:x} our "
            f"last zxid is 0x{self.tree.last_zxid:x} client must try another server"
        )
        return True

    def renew_session(self, connection: ClientConnection, session_id: int, password: bytes | None) -> None:
        """The session's old connection goes first, even if the password then turns out wrong."""
        before = self.connections.get(session_id)
        if before is not None:
            before.close()
        if password != password_of(session_id):
            connection.refuse()
        elif session_id in self.local.by_id:
            self._renew_local(connection, session_id)
        else:
            self._renew(connection, session_id)

    def close_session(self, connection: ClientConnection, xid: int) -> None:
        """A client closes its session, in the order of its requests."""
        if connection.session_id in self.local.by_id:
            connection.end_in_turn(xid)
        else:
            connection.fifo.append(None)
            self._submit_close(connection, xid)

    def give(self, connection: ClientConnection, session: Session) -> None:
        """From now on this connection is the session's."""
        connection.session = session
        connection.session_id = session.id
        self.connections[session.id] = connection

    def disconnected(self, connection: ClientConnection) -> None:
        """A connection is over; its session may go on without one."""
        if self.connections.get(connection.session_id) is connection:
            del self.connections[connection.session_id]

    def _open_local(self, connection: ClientConnection) -> None:
        session_id = self.sessions.new_id()
        self.give(connection, self.local.open(session_id, connection.timeout_ms, self.now_ms))
        connection.opened()

    def _renew_local(self, connection: ClientConnection, session_id: int) -> None:
        if self.local.is_alive(session_id):
            self.give(connection, self.local.open(session_id, connection.timeout_ms, self.now_ms))
            self.stats.sessions_renewed += 1
            connection.opened()
        else:
            connection.refuse()

    # -- requests on their way

    def report_refusal(self, connection: ClientConnection, op: int, setting: str, most: int) -> None:
        self.state.report_refusal(f"{connection.address}:{connection.port}", op, setting, most, self.now_ms)

    @property
    def outstanding(self) -> int:
        return len(self.in_flight) + self.queued_reads

    @property
    def is_congested(self) -> bool:
        """Whether connections that have something in flight must wait with the rest."""
        in_flight = len(self.in_flight) + self.queued_reads
        return in_flight > self.limits.outstanding_max or self.outstanding_bytes > OUTSTANDING_BYTES_MAX

    def likely_reply_bytes(self, connection: ClientConnection, op: int, body: bytes) -> int:
        """About how much a read will be answered with that has to wait for writes in flight."""
        if op == _MULTI_READ:
            return _UNKNOWN_REPLY_BYTES
        if op == _GET_EPHEMERALS:
            owned = self.tree.ephemerals.get(connection.session_id, ())
            return _SHORT_REPLY_BYTES + _CHILD_NAME_BYTES * len(owned)
        if op == _GET_ACL:
            return _SHORT_REPLY_BYTES + _ACL_WEIGHT * len(self.tree.acls.get(body[4:], b""))
        if op not in _LONG_READS:
            return _SHORT_REPLY_BYTES + len(body)
        path = body[4:-1] if len(body) > 4 else b""  # between its length and the watch flag
        if op == _GET_DATA:
            return _SHORT_REPLY_BYTES + self._data_bytes_soon(path)
        return _SHORT_REPLY_BYTES + _CHILD_NAME_BYTES * self._children_soon(path)

    def _data_bytes_soon(self, path: bytes) -> int:
        return len(self.tree.bodies.get(path, b""))

    def _children_soon(self, path: bytes) -> int:
        return self.tree.children_count(path)

    def _expect(
        self, txn: Txn, connection: ClientConnection | None, xid: int, op: int, frame_bytes: int
    ) -> None:
        """A transaction is on its way that will be committed after all those in flight."""
        self.outstanding_bytes += frame_bytes
        if frame_bytes > self.limits.large_request_threshold_bytes >= 0:
            self.large_bytes += frame_bytes
        started_ms = self.now_ms if connection is not None else UNTIMED
        self.in_flight.append((txn, connection, xid, op, started_ms, frame_bytes))

    # -- commits

    def committed(self, count: int) -> None:
        """The oldest `count` transactions in flight that are not due yet are committed: apply and answer them
        in order, now or, as far as that is too much at once, in the next slices."""
        self.due += count
        self.stats.commits += count
        self._apply_due()
        self.resume_paused()

    def _apply_due(self) -> None:
        in_flight, now_ms, writes = self.in_flight, self.now_ms, self.stats.writes
        same_ms, same_count = UNTIMED, 0  # writes that began together are counted together
        is_whole, steps_max = self.applying is None, slices.STEPS_PER_SLICE
        while is_whole and self.due and self.steps < steps_max and self.preparing is None:
            if self.long_reads and self._reader_before_next() is not None:
                break
            self.due -= 1
            done = in_flight.popleft()
            if done[4] != same_ms:
                if same_ms != UNTIMED:
                    writes.add(now_ms - same_ms, same_count)
                same_ms, same_count = done[4], 0
            same_count += 1
            is_whole = self._apply(done)
        if same_ms != UNTIMED:
            writes.add(now_ms - same_ms, same_count)
        if self.due:
            self._keep_due()
            self.state.on_work_left()

    def _reader_before_next(self) -> ClientConnection | None:
        """The client of the next transaction, if reads of its own are due before it. Were it applied now,
        reads between the two would show what was written behind them, and its reply an earlier zxid."""
        connection = self.in_flight[0][1] if self.due else None
        return connection if connection is not None and connection.has_reads_due else None

    def _keep_due(self) -> None:
        """A learner that is brought up to date now is sent what is committed, applied or not."""
        if self._committed_log is not None:
            for done in islice(self.in_flight, self._kept, self.due):
                self._committed_log.append(done[0].zxid, done[0].payload)
            self._kept = self.due

    @property
    def is_behind(self) -> bool:
        """Whether something is committed and not applied."""
        return self.due > 0 or self.applying is not None

    def resume_paused(self) -> None:
        """Go on with connections that had to wait and need not any more, as many as fit in a slice."""
        resumable = self.resumable
        for _ in range(len(resumable)):
            if self.steps >= slices.STEPS_PER_SLICE:
                self.state.on_work_left()
                return
            resumable.popleft().resume()

    def _apply(self, done: InFlight) -> bool:
        """Apply a transaction and answer it; False if it goes on in other slices."""
        txn, type_ = done[0], done[0].type
        if self._committed_log is not None:
            if self._kept:
                self._kept -= 1
            else:
                self._committed_log.append(txn.zxid, txn.payload)
        self.steps += WRITE_STEPS
        if type_ in (MULTI, CLOSE_SESSION):
            if takes_long(self.tree, txn, slices.operations_per_slice()):
                self.applying = Application(done, LongApplication(self.tree, txn), 0, b"")
                return self._go_on_applying()
            self.steps += OPERATION_STEPS * (len(txn.args) if type_ == MULTI else 1)
        elif isinstance(txn.args[0], bytes):
            self.steps += depth_steps(txn.args[0])
        err, body = apply_txn(self.tree, txn)
        self.steps += self.watches.take_steps()
        self._applied(txn)
        if txn.digest is not None and not txn.zxid % DIGEST_INTERVAL:
            self.digest_history.note(txn.zxid, self.tree.digest)
        if self.watches.untold:
            self.applying = Application(done, None, err, body)
            return self._go_on_applying()
        self._answer(done, err, body)
        return True

    def _go_on_applying(self) -> bool:
        """Do some of what is to be applied; True if that was the rest."""
        applying = self.applying
        assert applying is not None
        done, long = applying.done, applying.long
        steps_max = slices.long_slice_steps()
        if self.watches.untold:
            self._go_on_telling(steps_max)
        while long is not None and not long.is_whole and not self.watches.untold and self.steps < steps_max:
            # Events for many are told before the next operations, so that they do not pile up.
            steps = long.go_on(min(_APPLIED_AT_ONCE_STEPS, steps_max - self.steps))
            self.steps += steps
            if self.watches.untold:
                self._go_on_telling(steps_max)
        if (long is None or long.is_whole) and not self.watches.untold:
            if long is not None:
                self._finish(applying, long)
            self.applying = None
            self._answer(done, applying.err, applying.body)
            return True
        self.meter.noted(COMMIT, done[0].session, done[0].type)
        self.state.on_work_left()
        return False

    def _go_on_telling(self, steps_max: int) -> None:
        steps = self.watches.go_on_telling(max(1, steps_max - self.steps))
        self.steps += steps  # not in one go: those who are told have added to them

    def _finish(self, applying: Application, long: LongApplication) -> None:
        """All of a long transaction is in the tree and told: let it be seen."""
        before, txn = self.tree.before, applying.done[0]
        long.finish()
        applying.err, applying.body = long.err, long.body
        self._applied(txn)
        if txn.digest is not None and not txn.zxid % DIGEST_INTERVAL:
            self.digest_history.note(txn.zxid, self.tree.digest)
        if before is not None:
            self._shown.append(before.bodies)
            self.state.on_work_left()
            self.steps += len(before.late_watches)
            for (watcher, path), existed in before.late_watches.items():
                if watcher.state != CLOSED:
                    self.watches.renew(self.tree, path, existed, before.zxid, watcher)

    def _answer(self, done: InFlight, err: int, body: bytes) -> None:
        txn, connection, xid, op, started_ms, frame_bytes = done
        self.outstanding_bytes -= frame_bytes
        if frame_bytes > self.limits.large_request_threshold_bytes >= 0:
            self.large_bytes -= frame_bytes
        if txn.type == CLOSE_SESSION:
            self._session_closed(txn.session, connection)
        if connection is not None and connection.state != CLOSED:
            connection.write_committed(xid, op, txn.zxid, err, body, self.now_ms - started_ms)
        self.meter.noted(COMMIT, txn.session, txn.type)
        if txn.zxid >= self.sync_zxid:
            self._answer_syncs()

    def _answer_syncs(self) -> None:
        """All that some syncs wait for is applied."""
        raise NotImplementedError

    # -- what takes long

    def takes_meanwhile(self, op: int, length: int) -> bool:
        """Whether a write is taken while a transaction is applied: not if it may take long itself."""
        return self.preparing is None and (op != MULTI or length <= LONG_MULTI_BYTES)

    def hold(self, connection: ClientConnection) -> None:
        """A connection waits with its next request until what is being prepared or applied is whole."""
        self.held.append(connection)

    @property
    def has_work_left(self) -> bool:
        return bool(
            self.preparing is not None
            or self.applying is not None
            or self.due
            or self.held
            or self.resumable
            or self.long_reads
            or self.watches.dropped
            or self._shown
            or self._expiring_local is not None
        )

    def go_on(self) -> None:
        """Do the next slice of what takes long."""
        if self.preparing is not None:
            self._go_on_preparing()
        elif self.applying is not None:
            self._go_on_applying()
        elif self.long_reads and (reader := self._reader_before_next()) is not None:
            self.long_reads.remove(reader)
            reader.go_on_reading()
        self._apply_due()
        if self.preparing is None and self.applying is None:
            self._go_on_undisturbed()
        if self.has_work_left:
            self.state.on_work_left()

    def _go_on_undisturbed(self) -> None:
        """No transaction is half done: let others go on, each with its share of the slice. Clients that ask
        for long transactions come last: one after the other, these would leave nothing to those who wait."""
        held, self.held = self.held, []
        held.sort(key=_asks_for_long)
        self.resumable += held
        self.resume_paused()
        self.steps += self.watches.go_on_dropping(self.steps_left)
        if self._shown:
            self._free_some()
        steps_max = self.steps + self.steps_left
        for _ in range(len(self.long_reads)):
            if self.steps >= steps_max:
                break
            connection = self.long_reads.popleft()
            connection.go_on_reading()
        self._close_some()

    @property
    def steps_left(self) -> int:
        """What a chore may take of this turn: the rest of the slice, or its share if that is more."""
        return max(slices.share_steps(), slices.STEPS_PER_SLICE - self.steps)

    def _free_some(self) -> None:
        """Very many nodes as they were take long to be freed."""
        bodies = self._shown[-1]
        steps_max = max(self.steps + slices.share_steps(), slices.long_slice_steps())
        while bodies and self.steps < steps_max:
            for _ in range(min(len(bodies), FREED_PER_STEP)):
                bodies.popitem()
            self.steps += 1
        if not bodies:
            self._shown.pop()

    def _go_on_preparing(self) -> None:
        """Only whoever orders writes prepares any."""
        raise NotImplementedError

    def _session_closed(self, session_id: int, connection: ClientConnection | None) -> None:
        """Wherever a session was closed, nobody goes on with it here."""
        self.sessions.forget(session_id)
        holder = self.connections.get(session_id)
        if holder is not None and holder is not connection:
            holder.close()

    # -- what time brings

    def expire_sessions(self) -> None:
        """End the sessions whose time is up, if it is for us to say so."""
        self.hear_held_up()
        if self._expiring_local is None:
            self._expiring_local = iter(self.local.expire(self.now_ms))
        self._close_some()

    def hear_held_up(self) -> None:
        for connection in self.connections.values():
            if connection.is_held_up:
                connection.touch()

    def _close_some(self) -> None:
        """A crowd that expires together does so in slices; meanwhile, whoever is heard does not expire."""
        steps_max = self.steps + self.steps_left
        while self._expiring_local is not None:
            if self.steps >= steps_max:
                self.state.on_work_left()
                return
            session = next(self._expiring_local, None)
            if session is None:
                self._expiring_local = None
            elif not session.is_closing:
                self.steps += 1
            else:
                self._end_local(session)

    def _end_local(self, session: Session) -> None:
        self.steps += EXPIRY_STEPS
        self.report_expiry(session)
        self.local.forget(session.id)
        holder = self.connections.get(session.id)
        if holder is not None:
            holder.close()

    def report_expiry(self, session: Session) -> None:
        log.info(
            f"Expiring session 0x{session.id & 0xFFFFFFFFFFFFFFFF:x}, "
            f"timeout of {session.timeout_ms}ms exceeded"
        )
        self.stats.sessions_expired += 1
