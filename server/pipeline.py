"""The way of a write: prepared, made durable, committed, applied, answered; and the order in which it
happens.

The pipeline owns the tree and everything around it. It is synchronous: connections call `submit`, whoever
orders transactions (the log of a standalone server) calls `committed`. One transaction is applied
completely, events queued before replies, before the next begins; then the reads that waited behind it on
its connection are answered, so no connection ever sees its requests answered out of order or a later write
before its turn.

`now_ms` (never goes back) and `wall_ms` are set once for a batch of events by the shell that drives us.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

import attrs
import structlog

from jute.errors import ZkError
from jute.opcodes import OpCode
from server.acls import AccessRules
from server.apply_txn import apply_txn
from server.client_protocol import CLOSED, ClientConnection
from server.client_sessions import Sessions
from server.connection_throttle import ConnectionThrottle
from server.data_tree import DataTree
from server.digest_history import INTERVAL as DIGEST_INTERVAL
from server.digest_history import DigestHistory
from server.prepare_txn import Preparer
from server.server_stats import ServerStats
from server.txns import CLOSE_SESSION, CONTAINER_OWNER, CREATE_SESSION, Txn
from server.watches import Watches

log = structlog.get_logger()

OUTSTANDING_BYTES_MAX = 64 << 20

_GET_DATA = int(OpCode.GET_DATA)
_GET_EPHEMERALS = int(OpCode.GET_EPHEMERALS)
_MULTI_READ = int(OpCode.MULTI_READ)
_LONG_READS = frozenset({_GET_DATA, int(OpCode.GET_CHILDREN), int(OpCode.GET_CHILDREN2)})
_SHORT_REPLY_BYTES = 100
_CHILD_NAME_BYTES = 20
_UNKNOWN_REPLY_BYTES = 1 << 20


class TxnSink(Protocol):
    """Where transactions go to be made durable; they come back, in order, through `Pipeline.committed`."""

    def append(self, payload: bytes) -> None: ...

    def flush(self) -> None:
        """Nothing more will be appended for now."""


@attrs.frozen(kw_only=True)
class Limits:
    """What clients may ask for, in sizes and numbers."""

    frame_bytes_max: int = 0xFFFFF
    session_ms_min: int = 4000
    session_ms_max: int = 40_000
    outstanding_max: int = 1000
    large_request_threshold_bytes: int = -1
    large_request_bytes_max: int = 100 * 1024 * 1024
    throttled_op_wait_ms: int = 0
    enforced_schemes: frozenset[str] = frozenset()


# A transaction that is not committed yet, and whom to answer: xid, opcode, when it began, bytes of the
# request. A tuple, because one is made for every write.
InFlight = tuple[Txn, ClientConnection | None, int, int, int, int]


class Pipeline:
    """One server's state and the writes on their way into it."""

    def __init__(
        self,
        *,
        tree: DataTree,
        sessions: Sessions,
        rules: AccessRules,
        preparer: Preparer,
        sink: TxnSink,
        limits: Limits | None = None,
        throttle: ConnectionThrottle | None = None,
        handshake_weights: tuple[int, int] = (1, 1),
    ) -> None:
        self.tree = tree
        self.sessions = sessions
        self.rules = rules
        self.preparer = preparer
        self.sink = sink
        self.limits = limits or Limits()
        self.throttle = throttle or ConnectionThrottle(0)
        self.handshake_weights = handshake_weights  # tokens for a new session, for a renewed one
        self.watches = Watches()
        self.stats = ServerStats()
        self.digest_history = DigestHistory()
        self.answer_word: Callable[[ClientConnection, str], bytes] | None = None
        self.now_ms = 0
        self.wall_ms = 0
        self.connections: dict[int, ClientConnection] = {}  # by session
        self.in_flight: deque[InFlight] = deque()
        self.queued_reads = 0  # waiting behind writes of their own connection
        self.reads_in_batch = 0
        self.outstanding_bytes = 0  # of requests in flight and reads that wait
        self.large_bytes = 0  # of large requests in flight
        self.resumable: list[ClientConnection] = []
        self.tree.triggers = self.watches
        self.watches.count_told = self._count_told
        self.tree.tracks_digest = False  # the preparer knows it, one transaction ahead

    def _count_told(self, event: int, watchers: int) -> None:
        self.stats.watchers_told[event].add(watchers)

    def begin_batch(self, now_ms: int, wall_ms: int) -> None:
        """Something happened: this is the time for everything that follows from it."""
        self.now_ms = now_ms
        self.wall_ms = wall_ms

    def end_batch(self, now_ms: int) -> None:
        """All that happened has been seen to: the writes among it may be made durable, together."""
        if self.reads_in_batch:
            self.stats.reads.add(now_ms - self.now_ms, self.reads_in_batch)
            self.reads_in_batch = 0
        self.sink.flush()

    # -- writes

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
        if op not in _LONG_READS:
            return _SHORT_REPLY_BYTES + len(body)
        path = body[4 : max(4, len(body) - 1)]  # between its length and the watch flag
        pending = self.preparer.pending.get(path)
        if op == _GET_DATA:
            node = self.tree.bodies.get(path, b"") if pending is None else pending.body
            return _SHORT_REPLY_BYTES + len(node or b"")
        children = self.tree.children_count(path) if pending is None else pending.children
        return _SHORT_REPLY_BYTES + _CHILD_NAME_BYTES * children

    def submit(self, connection: ClientConnection, xid: int, op: int, body: bytes) -> None:
        """A client's write. Raises DecodeError, and does nothing, if its body makes no sense."""
        txn = self.preparer.prepare(connection.session_id, xid, op, body, connection.ids, self.wall_ms)
        self._order(txn, connection, xid, op, len(body))

    def submit_failure(self, connection: ClientConnection, xid: int, op: int, failure: ZkError) -> None:
        """A write that fails before it is looked at, and takes a zxid all the same."""
        txn = self.preparer.refuse(connection.session_id, xid, failure, self.wall_ms)
        self._order(txn, connection, xid, op, 0)

    def submit_create_session(self, connection: ClientConnection, timeout_ms: int) -> None:
        txn = self.preparer.create_session(connection.session_id, timeout_ms, self.wall_ms)
        self._order(txn, connection, 0, CREATE_SESSION, 0)

    def submit_close_session(
        self, session_id: int, connection: ClientConnection | None = None, xid: int = 0
    ) -> None:
        txn = self.preparer.close_session(session_id, xid, self.wall_ms)
        self._order(txn, connection, xid, CLOSE_SESSION, 0)

    def submit_delete_container(self, path: bytes) -> None:
        self._order(self.preparer.delete_container(path, self.wall_ms), None, 0, 0, 0)

    def _order(
        self, txn: Txn, connection: ClientConnection | None, xid: int, op: int, frame_bytes: int
    ) -> None:
        self.outstanding_bytes += frame_bytes
        if frame_bytes > self.limits.large_request_threshold_bytes >= 0:
            self.large_bytes += frame_bytes
        self.in_flight.append((txn, connection, xid, op, self.now_ms, frame_bytes))
        self.sink.append(txn.payload)

    def committed(self, count: int) -> None:
        """The oldest `count` transactions in flight are durable: apply and answer them, in order."""
        in_flight, now_ms, writes = self.in_flight, self.now_ms, self.stats.writes
        same_ms, same_count = -1, 0  # writes that began together are counted together
        for _ in range(count):
            done = in_flight.popleft()
            if done[4] != same_ms:
                if same_count:
                    writes.add(now_ms - same_ms, same_count)
                same_ms, same_count = done[4], 0
            same_count += 1
            self._apply(done)
        if same_count:
            writes.add(now_ms - same_ms, same_count)
        self.stats.commits += count
        self.resume_paused()

    def resume_paused(self) -> None:
        """Go on with connections that had to wait and need not any more."""
        ready, self.resumable = self.resumable, []
        for connection in ready:
            connection.resume()

    def _apply(self, done: InFlight) -> None:
        txn, connection, xid, op, started_ms, frame_bytes = done
        err, body = apply_txn(self.tree, txn)
        self.preparer.applied(txn.zxid)
        if txn.digest is not None:
            self.tree.digest = txn.digest & 0xFFFFFFFFFFFFFFFF
            if not txn.zxid % DIGEST_INTERVAL:
                self.digest_history.note(txn.zxid, self.tree.digest)
        self.outstanding_bytes -= frame_bytes
        if frame_bytes > self.limits.large_request_threshold_bytes >= 0:
            self.large_bytes -= frame_bytes
        if txn.type == CLOSE_SESSION:
            self._session_closed(txn.session, connection)
        if connection is not None and connection.state != CLOSED:
            connection.write_committed(xid, op, txn.zxid, err, body, self.now_ms - started_ms)

    def _session_closed(self, session_id: int, connection: ClientConnection | None) -> None:
        self.sessions.forget(session_id)
        holder = self.connections.get(session_id)
        if holder is not None and holder is not connection:
            holder.close()

    # -- what time brings

    def expire_sessions(self) -> None:
        for connection in self.connections.values():
            if connection.is_held_up:
                connection.touch()
        for session in self.sessions.expire(self.now_ms):
            log.info(
                f"Expiring session 0x{session.id & 0xFFFFFFFFFFFFFFFF:x}, "
                f"timeout of {session.timeout_ms}ms exceeded"
            )
            self.stats.sessions_expired += 1
            self.submit_close_session(session.id)

    def expired_containers(self, never_used_ms_max: int) -> Iterator[bytes]:
        """Container and TTL nodes whose time has come."""
        tree = self.tree
        for path, owner in list(tree.owners.items()):
            if tree.children.get(path) or path not in tree.bodies:
                continue
            idle_ms = self.wall_ms - tree.mtime_ms(path)
            if owner == CONTAINER_OWNER:
                is_due = tree.creates.get(path, 0) > 0 or 0 < never_used_ms_max < idle_ms
            else:
                is_due = idle_ms > (tree.ttl_of(owner) or 0)
            if is_due:
                yield path
