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
from jute.record import DecodeError
from server import slices
from server.acls import AuthIds
from server.client_protocol import CLOSED, ClientConnection
from server.client_sessions import Session, Sessions
from server.pipeline import (
    EXPIRY_STEPS,
    LONG_MULTI_BYTES,
    NO_ZXID,
    OUTSTANDING_BYTES_MAX,
    SHORT_ACLS_BYTES,
    SHORT_MULTI_BYTES,
    Pipeline,
    Preparation,
    ServerState,
)
from server.prepare_txn import LongMulti, LongPreparation, Preparer
from server.slices import ENTRY_STEPS, OPERATION_STEPS, WRITE_STEPS
from server.standing import STANDALONE
from server.txns import CLOSE_SESSION, CONTAINER_OWNER, CREATE_SESSION, MULTI, Txn

_INT = Struct(">i")
_SYNC = int(OpCode.SYNC)
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
        self._pipeline.steps += WRITE_STEPS
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
        self._expiring: Iterator[Session] | None = None
        self._to_close: deque[int] = deque()  # sessions that end without having been asked to
        self.tree.tracks_digest = False  # the preparer knows it, one transaction ahead

    # -- requests

    def submit(self, connection: ClientConnection, xid: int, op: int, body: bytes) -> None:
        if op == MULTI and self.may_take_long(body):
            connection.asks_for_long = True
            self._prepare_long(self._begin_multi(connection, xid, body), connection, xid, op, len(body))
            return
        txn = self._prepare_at_once(connection.session_id, xid, op, body, connection.ids)
        self._expect(txn, connection, xid, op, len(body))
        self.sink.append(txn.payload)

    def may_take_long(self, multi: bytes) -> bool:
        """Because it has many operations, or some whose nodes may have ACLs that take long to be judged."""
        length = len(multi)
        return length > LONG_MULTI_BYTES or (
            length > SHORT_MULTI_BYTES and self.tree.acl_bytes > SHORT_ACLS_BYTES
        )

    def _begin_multi(self, connection: ClientConnection, xid: int, body: bytes) -> LongMulti:
        return self.preparer.begin_multi(connection.session_id, xid, body, connection.ids, self.wall_ms)

    def _prepare_at_once(self, session_id: int, xid: int, op: int, body: bytes, ids: AuthIds) -> Txn:
        preparer = self.preparer
        entries_before = preparer.acl_entries
        txn = preparer.prepare(session_id, xid, op, body, ids, self.wall_ms)
        self.steps += WRITE_STEPS + ENTRY_STEPS * (preparer.acl_entries - entries_before)
        if op == MULTI:
            self.steps += OPERATION_STEPS * len(txn.args)
        return txn

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
            self.sync_zxid = self._syncs[0][0]
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

    def open_session(self, connection: ClientConnection) -> None:
        session_id = self.sessions.new_id()
        connection.await_session()
        self.give(connection, self.sessions.open(session_id, connection.timeout_ms, self.now_ms))
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
            self.give(connection, self.sessions.open(session_id, connection.timeout_ms, self.now_ms))
            self.stats.sessions_renewed += 1
            connection.opened()
        else:
            connection.refuse()

    def _submit_close(self, connection: ClientConnection, xid: int) -> None:
        self._order_close(connection.session_id, connection, xid)

    def _order_close(self, session_id: int, connection: ClientConnection | None, xid: int) -> None:
        self.steps += EXPIRY_STEPS
        if self.takes_long_to_close(session_id):
            long = self.preparer.begin_close(session_id, xid, self.wall_ms)
            self._prepare_long(long, connection, xid, CLOSE_SESSION, 0)
        else:
            txn = self.preparer.close_session(session_id, xid, self.wall_ms)
            self._order(txn, connection, xid, CLOSE_SESSION, 0)

    def takes_long_to_close(self, session_id: int) -> bool:
        """Whether a session may own more ephemerals than can be deleted in a slice."""
        owned = len(self.tree.ephemerals.get(session_id, ()))
        return owned + len(self.preparer.pending) > slices.operations_per_slice()

    def _prepare_long(
        self, long: LongPreparation, connection: ClientConnection | None, xid: int, op: int, frame_bytes: int
    ) -> None:
        """Prepare what takes long: at once as far as this slice goes, then in others."""
        self.preparing = Preparation(long, connection, xid, op, frame_bytes)
        try:
            self.steps += long.go_on(max(1, slices.long_slice_steps() - self.steps))
        except DecodeError:
            self.preparing = None
            raise
        self._order_if_prepared()

    def _go_on_preparing(self) -> None:
        preparing = self.preparing
        assert preparing is not None
        try:
            self.steps += preparing.long.go_on(max(1, slices.long_slice_steps() - self.steps))
        except DecodeError:
            self.preparing = None
            self._not_prepared(preparing)
            return
        self._order_if_prepared()

    def _order_if_prepared(self) -> None:
        preparing = self.preparing
        assert preparing is not None
        txn = preparing.long.txn
        if txn is None:
            self.state.on_work_left()
            return
        self.preparing = None
        self._order(txn, preparing.connection, preparing.xid, preparing.op, preparing.frame_bytes)

    def _not_prepared(self, preparing: Preparation) -> None:
        """What was asked for turned out to be no transaction at all."""
        assert preparing.connection is not None
        preparing.connection.unsubmitted(preparing.xid, MarshallingError.code)

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

    def _answer_syncs(self) -> None:
        """A sync is answered before the write behind it."""
        while self._syncs and self._syncs[0][0] <= self.tree.last_zxid:
            self._syncs.popleft()[1].sync_done()
        self.sync_zxid = self._syncs[0][0] if self._syncs else NO_ZXID

    def _applied(self, txn: Txn) -> None:
        self.preparer.applied(txn)
        if self.preparer.has_to_forget:
            self.state.on_work_left()
        if txn.digest is not None:
            self.tree.digest = txn.digest & _MASK64

    # -- what time brings

    def expire_sessions(self) -> None:
        if self._expiring is None:
            self._expiring = iter(self.sessions.expire(self.now_ms))
        super().expire_sessions()

    def expire_session(self, session_id: int) -> bool:
        """End one session before its time, as an expiry does; was there such a one?"""
        session = self.sessions.by_id.get(session_id)
        if session is None or session.is_closing:
            return False
        session.is_closing = True
        self.report_expiry(session)
        self._to_close.append(session_id)
        self._close_some()
        return True

    def _close_some(self) -> None:
        super()._close_some()
        steps_max = self.steps + self.steps_left
        while self._to_close or self._expiring is not None:
            if self.preparing is not None or self.steps >= steps_max:
                self.state.on_work_left()
                return
            if self._to_close:
                self._order_close(self._to_close.popleft(), None, 0)
                continue
            assert self._expiring is not None
            session = next(self._expiring, None)
            if session is None:
                self._expiring = None
            elif not session.is_closing:
                self.steps += 1
            else:
                self.report_expiry(session)
                self._order_close(session.id, None, 0)

    @property
    def has_work_left(self) -> bool:
        is_closing = self._to_close or self._expiring is not None
        return bool(super().has_work_left or is_closing or self.preparer.has_to_forget)

    def _go_on_undisturbed(self) -> None:
        super()._go_on_undisturbed()
        changes_max = max(slices.share_steps(), slices.long_slice_steps() - self.steps)
        self.steps += self.preparer.forget(changes_max)

    def expired_containers(self, never_used_ms_max: int) -> Iterator[bytes | None]:
        """Container and TTL nodes whose time has come; None whenever others should have their turn.

        A node with a change under way is left for the next time: it may be another one when that is done.
        """
        tree, pending = self.tree, self.preparer.pending
        for count, path in enumerate(list(tree.owners), start=1):
            if not count % slices.long_slice_steps():
                yield None
            while self.preparing is not None:
                yield None
            if path in pending:
                continue
            owner = tree.owners.get(path)
            if owner is None or tree.children.get(path):
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
