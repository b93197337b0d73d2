"""A server that leads an ensemble: it orders the writes of all servers, and decides about their sessions.

A learner waits for a transaction with the session and cxid of each write it forwarded. So each becomes
exactly one transaction, in the order of arrival, whatever is wrong with it; and each forwarded sync is
answered once, after the commits of what came before it.

A session has an owner: the server its client was last connected to. A write that another server forwards for
it came from a connection the client has left; it is refused, lest it be done after what the client did since.
"""

from collections import deque
from functools import partial
from struct import Struct

from eventlog import log
from jute.errors import MarshallingError, SessionMoved, Unimplemented, ZkError
from jute.opcodes import OpCode
from jute.record import DecodeError
from quorum.replica import Origin
from server import slices
from server.acls import AuthIds
from server.client_protocol import CLOSED, WRITES, ClientConnection
from server.client_sessions import Session, Sessions
from server.local_sessions import asks_for_ephemeral, makes_ephemeral
from server.ordering import OrderingPipeline, TxnSink
from server.pipeline import NO_ZXID, Preparation, ServerState
from server.prepare_txn import LongMulti, Preparer
from server.slices import length_steps, undecodable_steps
from server.standing import LEADER
from server.txns import CLOSE_SESSION, CREATE_SESSION, MULTI, Txn
from server.write_requests import Operation

_INT = Struct(">i")
_SYNC = int(OpCode.SYNC)
# A learner's request: from where, session, cxid, opcode, body, ids.
_Forwarded = tuple[Origin, int, int, int, bytes, AuthIds]
_COUNTER_MAX = 0xFFFFFFFE  # the last zxid of an epoch: after it there must be a new one


class LeadingPipeline(OrderingPipeline):
    """Leads: see the top of this file. All sessions known when it begins have their whole timeout."""

    def __init__(
        self, state: ServerState, sessions: Sessions, local: Sessions, preparer: Preparer, sink: TxnSink
    ) -> None:
        super().__init__(state, sessions, local, preparer, sink, LEADER)
        self._learner_syncs: deque[tuple[int, Origin]] = deque()  # and the zxid that each waits for
        self._committed_zxid = preparer.zxid
        self._forwarded: deque[_Forwarded] = deque()  # that wait for the next slice
        self._long_from: Origin | None = None  # whose long transaction was prepared last
        self.owners: dict[int, Origin | None] = {}  # None: ourselves; absent: nobody has asked yet
        self._zxid_max = preparer.zxid | _COUNTER_MAX

    def committed(self, count: int) -> None:
        if count:
            latency_ms = max(0, self.wall_ms - self.in_flight[self.due][0].time_ms)
            self.stats.ensemble.quorum_acks.add(latency_ms, count)
            self.stats.ensemble.propagations.add(latency_ms, count)
        self._committed_zxid += count
        super().committed(count)
        while self._learner_syncs and self._learner_syncs[0][0] <= self._committed_zxid:
            self._learner_syncs.popleft()[1].sync_done()

    @property
    def sync_due(self) -> int:
        """The zxid that the oldest sync of a learner waits for, or one beyond all others.

        It waits for commits that are sent before the answer, not for us to apply them.
        """
        return self._learner_syncs[0][0] if self._learner_syncs else NO_ZXID

    @property
    def deferred(self) -> int:
        return sum(op != _SYNC for _, _, _, op, _, _ in self._forwarded)

    @property
    def pending_syncs(self) -> int:
        return super().pending_syncs + len(self._learner_syncs)

    # -- our own clients

    def submit(self, connection: ClientConnection, xid: int, op: int, body: bytes) -> None:
        if self.preparer.zxid >= self._zxid_max:
            connection.close()
            return
        is_long = op == MULTI and self.may_take_long(body)
        if connection.session_id in self.local.by_id and not is_long and asks_for_ephemeral(op, body):
            self._upgrade_for(connection)
        super().submit(connection, xid, op, body)

    def _begin_multi(self, connection: ClientConnection, xid: int, body: bytes) -> LongMulti:
        long = super()._begin_multi(connection, xid, body)
        if connection.session_id in self.local.by_id:
            long.when_taken_apart = partial(self._upgrade_for_long, connection)
        return long

    def _upgrade_for_long(self, connection: ClientConnection, operations: list[Operation]) -> None:
        if connection.state != CLOSED and makes_ephemeral(MULTI, operations):
            self._upgrade_for(connection)

    def open_session(self, connection: ClientConnection) -> None:
        if self.state.local_sessions:
            self._open_local(connection)
        else:
            super().open_session(connection)

    def create_session_again(self, connection: ClientConnection, xid: int, body: bytes) -> None:
        if connection.session_id in self.local.by_id:
            raise Unimplemented  # no transaction speaks of a local session
        super().create_session_again(connection, xid, body)

    def give(self, connection: ClientConnection, session: Session) -> None:
        super().give(connection, session)
        if session.id in self.sessions.by_id:  # else it is local: nobody can forward for it
            self.owners[session.id] = None

    def _upgrade_for(self, connection: ClientConnection) -> None:
        """Let all servers know a local session that is about to own an ephemeral node."""
        if not self.state.upgrades_sessions:
            return
        session_id, timeout_ms = connection.session_id, connection.timeout_ms
        log.info(f"Upgrading session 0x{session_id & 0xFFFFFFFFFFFFFFFF:x}")
        self.local.forget(session_id)
        self.give(connection, self.sessions.open(session_id, timeout_ms, self.now_ms))
        txn = self.preparer.create_session(session_id, timeout_ms, self.wall_ms)
        self._order(txn, None, 0, CREATE_SESSION, 0)

    # -- learners

    def forwarded(self, origin: Origin, session: int, cxid: int, op: int, body: bytes, ids: AuthIds) -> None:
        """A learner's request: becomes exactly one transaction, or a sync answered in its turn."""
        request = (origin, session, cxid, op, body, ids)
        if self.preparing is not None or self._forwarded or self.steps >= slices.STEPS_PER_SLICE:
            self._forwarded.append(request)
            self.state.on_work_left()
        else:
            self._takes_long(request)

    def _take(self, request: "_Forwarded") -> None:
        origin, session, cxid, op, body, ids = request
        if op == _SYNC:
            self._sync_learner(origin)
        elif self.preparer.zxid < self._zxid_max:
            self._prepare(origin, session, cxid, op, body, ids)

    def _sync_learner(self, origin: Origin) -> None:
        if self._committed_zxid < self.preparer.zxid or self._learner_syncs:
            self._learner_syncs.append((self.preparer.zxid, origin))
        else:
            origin.sync_done()

    def _prepare(self, origin: Origin, session: int, cxid: int, op: int, body: bytes, ids: AuthIds) -> None:
        if op == CLOSE_SESSION:  # whoever asks: also the server that the client has left
            self._order_close(session, None, cxid)
        elif op == CREATE_SESSION:
            self._order(self._create_session(origin, session, cxid, body), None, cxid, op, len(body))
        elif self.sessions.is_alive(session) and self.owners.setdefault(session, origin) is not origin:
            self._refuse(session, cxid, op, SessionMoved())
        elif op not in WRITES:
            self._refuse(session, cxid, op, Unimplemented())
        elif op == MULTI and self.may_take_long(body):
            long = self.preparer.begin_multi(session, cxid, body, ids, self.wall_ms)
            try:
                self._prepare_long(long, None, cxid, op, len(body))
            except DecodeError:
                self._refuse(session, cxid, op, MarshallingError())
        else:
            self.steps += length_steps(len(body))
            try:
                txn = self._prepare_at_once(session, cxid, op, body, ids)
            except DecodeError:
                self.steps += undecodable_steps(len(body))
                txn = self.preparer.refuse(session, cxid, MarshallingError(), self.wall_ms)
            self._order(txn, None, cxid, op, len(body))

    def _refuse(self, session: int, cxid: int, op: int, failure: ZkError) -> None:
        self._order(self.preparer.refuse(session, cxid, failure, self.wall_ms), None, cxid, op, 0)

    def _not_prepared(self, preparing: Preparation) -> None:
        if preparing.connection is not None:
            super()._not_prepared(preparing)
        else:  # a learner waits for exactly one transaction
            self._refuse(preparing.long.session, preparing.xid, preparing.op, MarshallingError())

    @property
    def has_work_left(self) -> bool:
        return bool(super().has_work_left or self._forwarded)

    def _go_on_undisturbed(self) -> None:
        """Learners' requests first: they have waited in their order. After a long transaction of a learner's
        client, our own clients and the other learners come before its next one."""
        was_long = self._long_from is not None
        if self._long_from is not None:
            super()._go_on_undisturbed()
            self._let_others_pass(self._long_from)
            self._long_from = None
        while self._forwarded and self.preparing is None and self.steps < slices.STEPS_PER_SLICE:
            if self._takes_long(self._forwarded.popleft()):
                return
        if not was_long and self.preparing is None:
            super()._go_on_undisturbed()

    def _takes_long(self, request: "_Forwarded") -> bool:
        """Take a request; whether it goes on in other slices."""
        self._take(request)
        if self.preparing is None:
            return False
        self._long_from = request[0]
        return True

    def _let_others_pass(self, origin: Origin) -> None:
        """What one learner has forwarded comes behind what the others have, each in its order."""
        others = [request for request in self._forwarded if request[0] is not origin]
        if others:
            others += [request for request in self._forwarded if request[0] is origin]
            self._forwarded = deque(others)

    def _create_session(self, origin: Origin, session: int, cxid: int, body: bytes) -> Txn:
        if len(body) < 4:
            return self.preparer.refuse(session, cxid, MarshallingError(), self.wall_ms)
        timeout_ms: int = _INT.unpack_from(body)[0]
        self.sessions.open(session, timeout_ms, self.now_ms)
        self.owners[session] = origin
        return self.preparer.create_session(session, timeout_ms, self.wall_ms, cxid)

    def revalidate(self, origin: Origin, session: int, timeout_ms: int) -> bool:
        """May a client go on with this session at `origin`? If it was ours, it is no more."""
        if not self.sessions.is_alive(session):
            return False
        before = self.connections.get(session)
        if before is not None:
            before.close()
        self.sessions.open(session, timeout_ms, self.now_ms)
        self.owners[session] = origin
        return True

    def touch(self, session: int, timeout_ms: int) -> None:
        """A learner has heard from this session."""
        if self.sessions.is_alive(session):
            self.sessions.open(session, timeout_ms, self.now_ms)

    # -- sessions

    def close_ownerless(self) -> None:
        """Nodes of sessions that nobody knows go by a transaction, so that they go on every server."""
        known = self.tree.session_timeouts_ms
        self._to_close += [owner for owner in self.tree.ephemerals if owner not in known]
        self._close_some()

    def _session_closed(self, session_id: int, connection: ClientConnection | None) -> None:
        super()._session_closed(session_id, connection)
        self.owners.pop(session_id, None)
