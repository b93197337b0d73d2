"""A server that orders writes: on its own, or (leading.py) for an ensemble.

Every write becomes a transaction with the next zxid, prepared against all that are still in flight, and is
handed to `sink`; it comes back through `committed`.
"""

from collections import deque
from collections.abc import Iterator
from struct import Struct
from typing import Protocol

from jute.errors import MarshallingError, SessionExpired, ZkError
from jute.opcodes import OpCode
from server.client_protocol import CLOSED, ClientConnection
from server.client_sessions import Session, Sessions
from server.pipeline import OUTSTANDING_BYTES_MAX, Pipeline, ServerState
from server.prepare_txn import Preparer
from server.standing import STANDALONE
from server.txns import CLOSE_SESSION, CONTAINER_OWNER, CREATE_SESSION, Txn

_INT = Struct(">i")
_SYNC = int(OpCode.SYNC)
NO_ZXID = (1 << 63) - 1
_MASK64 = 0xFFFFFFFFFFFFFFFF


class TxnSink(Protocol):
    """Where transactions go to be made durable; they come back, in order, through `committed`."""

    def append(self, payload: bytes) -> None: ...

    def flush(self) -> None:
        """Nothing more will be appended for now."""


class Synced(Protocol):
    """Whoever waits for all that is in flight to be committed."""

    def sync_done(self) -> None: ...


class OwnSync:
    """A sync of a client connected to us."""

    __slots__ = ("_body", "_connection", "_pipeline", "_started_ms", "_xid")

    def __init__(self, pipeline: Pipeline, connection: ClientConnection, xid: int, body: bytes) -> None:
        self._pipeline = pipeline
        self._connection = connection
        self._xid = xid
        self._body = body
        self._started_ms = pipeline.now_ms
        pipeline.outstanding_bytes += len(body)

    def sync_done(self) -> None:
        """Answer, unless the client is gone."""
        self._pipeline.outstanding_bytes -= len(self._body)
        if self._connection.state != CLOSED:
            pipeline = self._pipeline
            elapsed_ms = pipeline.now_ms - self._started_ms
            zxid = pipeline.tree.last_zxid
            pipeline.stats.reads.add(elapsed_ms)
            self._connection.write_committed(self._xid, _SYNC, zxid, 0, self._body, elapsed_ms)


class OrderingPipeline(Pipeline):
    """Prepares, proposes and, once committed, applies: see the top of this file."""

    def __init__(
        self,
        state: ServerState,
        sessions: Sessions,
        local: Sessions,
        preparer: Preparer,
        sink: TxnSink,
        mode: str = STANDALONE,
    ) -> None:
        super().__init__(state, sessions, local, sink, mode)
        self.preparer = preparer
        self.sink = sink
        self._syncs: deque[tuple[int, Synced]] = deque()  # and the zxid that each waits for
        self.tree.tracks_digest = False  # the preparer knows it, one transaction ahead

    # -- requests

    def submit(self, connection: ClientConnection, xid: int, op: int, body: bytes) -> None:
        txn = self.preparer.prepare(connection.session_id, xid, op, body, connection.ids, self.wall_ms)
        self._expect(txn, connection, xid, op, len(body))
        self.sink.append(txn.payload)

    def submit_failure(self, connection: ClientConnection, xid: int, op: int, failure: ZkError) -> None:
        """A write that fails before it is looked at, and takes a zxid all the same."""
        txn = self.preparer.refuse(connection.session_id, xid, failure, self.wall_ms)
        self._order(txn, connection, xid, op, 0)

    def sync(self, connection: ClientConnection, xid: int, path: bytes) -> None:
        self.when_synced(OwnSync(self, connection, xid, path))

    def when_synced(self, synced: Synced) -> None:
        """Tell once everything in flight now is committed: at once if nothing is, and nobody else waits."""
        if self.in_flight or self._syncs:
            self._syncs.append((self.preparer.zxid, synced))
        else:
            synced.sync_done()

    @property
    def pending_syncs(self) -> int:
        return len(self._syncs)

    @property
    def outstanding(self) -> int:
        return len(self.in_flight) + len(self._syncs) + self.queued_reads

    @property
    def is_congested(self) -> bool:
        in_flight = len(self.in_flight) + len(self._syncs) + self.queued_reads
        return in_flight > self.limits.outstanding_max or self.outstanding_bytes > OUTSTANDING_BYTES_MAX

    @property
    def sync_due(self) -> int:
        """The zxid that the oldest sync waits for, or one beyond all others."""
        return self._syncs[0][0] if self._syncs else NO_ZXID

    def open_session(self, connection: ClientConnection) -> None:
        session_id = self.sessions.new_id()
        connection.await_session()
        self.hold(connection, self.sessions.open(session_id, connection.timeout_ms, self.now_ms))
        self._submit_create(connection, connection.timeout_ms)

    def create_session_again(self, connection: ClientConnection, xid: int, body: bytes) -> None:
        if len(body) < 4:
            self.submit_failure(connection, xid, CREATE_SESSION, MarshallingError())
        elif not self.sessions.is_alive(connection.session_id):  # nobody would ever close it again
            self.submit_failure(connection, xid, CREATE_SESSION, SessionExpired())
        else:
            self._submit_create(connection, self.limits.session_ms(_INT.unpack_from(body)[0]))

    def _submit_create(self, connection: ClientConnection, timeout_ms: int) -> None:
        txn = self.preparer.create_session(connection.session_id, timeout_ms, self.wall_ms)
        self._order(txn, connection, 0, CREATE_SESSION, 0)

    def _renew(self, connection: ClientConnection, session_id: int) -> None:
        if self.sessions.is_alive(session_id):
            self.hold(connection, self.sessions.open(session_id, connection.timeout_ms, self.now_ms))
            self.stats.sessions_renewed += 1
            connection.opened()
        else:
            connection.refuse()

    def _submit_close(self, connection: ClientConnection, xid: int) -> None:
        txn = self.preparer.close_session(connection.session_id, xid, self.wall_ms)
        self._order(txn, connection, xid, CLOSE_SESSION, 0)

    def _order(
        self, txn: Txn, connection: ClientConnection | None, xid: int, op: int, frame_bytes: int
    ) -> None:
        self._expect(txn, connection, xid, op, frame_bytes)
        self.sink.append(txn.payload)

    def _data_bytes_soon(self, path: bytes) -> int:
        pending = self.preparer.pending.get(path)
        return super()._data_bytes_soon(path) if pending is None else len(pending.body or b"")

    def _children_soon(self, path: bytes) -> int:
        pending = self.preparer.pending.get(path)
        return super()._children_soon(path) if pending is None else pending.children

    # -- commits

    def committed(self, count: int) -> None:
        if not self._syncs:
            super().committed(count)
            return
        for _ in range(count):  # a sync is answered before the write behind it
            super().committed(1)
            while self._syncs and self._syncs[0][0] <= self.tree.last_zxid:
                self._syncs.popleft()[1].sync_done()

    def _applied(self, txn: Txn) -> None:
        self.preparer.applied(txn.zxid)
        if txn.digest is not None:
            self.tree.digest = txn.digest & _MASK64

    # -- what time brings

    def expire_sessions(self) -> None:
        super().expire_sessions()
        for session in self.sessions.expire(self.now_ms):
            self._expire(session)

    def expire_session(self, session_id: int) -> bool:
        """End one session before its time, as an expiry does; was there such a one?"""
        session = self.sessions.by_id.get(session_id)
        if session is None or session.is_closing:
            return False
        session.is_closing = True
        self._expire(session)
        return True

    def _expire(self, session: Session) -> None:
        self.report_expiry(session)
        self._order(self.preparer.close_session(session.id, 0, self.wall_ms), None, 0, CLOSE_SESSION, 0)

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

    def submit_delete_container(self, path: bytes) -> None:
        self._order(self.preparer.delete_container(path, self.wall_ms), None, 0, 0, 0)
