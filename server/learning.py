"""A server that follows or observes: its clients' writes are ordered by the leader.

A write goes up to the leader and comes back as a transaction with the same session and cxid. Until then it
waits in `_waiting`, first in, first out for each session; a transaction that is not what the oldest waiting
write of its session asked for is somebody else's. Either way it is applied when it is committed.

Only what can be decoded goes up: an original leader gives everything else a zxid that is taken, and no write
after it would ever be committed.
"""

from collections import deque
from struct import Struct
from typing import Any

from eventlog import log
from jute.errors import EphemeralOnLocalSession, MarshallingError, SessionExpired, Unimplemented
from jute.opcodes import OpCode
from jute.record import DecodeError
from quorum.replica import Upstream
from server import slices
from server.client_protocol import CLOSED, ClientConnection
from server.client_sessions import Session, Sessions
from server.local_sessions import makes_ephemeral
from server.pipeline import (
    LONG_MULTI_BYTES,
    NO_ZXID,
    OUTSTANDING_BYTES_MAX,
    Pipeline,
    Preparation,
    ServerState,
)
from server.prepare_txn import LongPreparation
from server.slices import CODEC_STEPS, WRITE_STEPS
from server.stored_tree import StoredTree
from server.txns import CLOSE_SESSION, CREATE_SESSION, MULTI, Txn, decode_txn
from server.write_requests import MultiParser, Operation, parse_write

_INT = Struct(">i")
_SYNC = int(OpCode.SYNC)

# A write that has gone up: whom to answer, cxid, opcode, when it began, bytes of the request.
_Forwarded = tuple[ClientConnection | None, int, int, int, int]
# A sync likewise: whom to answer, xid, the reply's body, when it began.
_Sync = tuple[ClientConnection, int, bytes, int]


class LongDecoding(LongPreparation):
    """A client's multi that is taken apart in slices, to see whether it can be; `txn` stays None."""

    def __init__(self, session: int, cxid: int, body: bytes) -> None:
        super().__init__(session, cxid)
        self.body = body
        self.operations: list[Operation] | None = None
        self._parser = MultiParser(body)

    def go_on(self, steps_max: int) -> int:
        try:
            steps = self._parser.go_on(steps_max)
        except MarshallingError as failure:
            raise DecodeError(str(failure)) from None
        if self._parser.is_done:
            self.operations = self._parser.operations
        return steps


class LearningPipeline(Pipeline):
    """Follows or observes: see the top of this file. All sessions it decides about are local."""

    def __init__(
        self, state: ServerState, stored: StoredTree, local: Sessions, upstream: Upstream, mode: str
    ) -> None:
        super().__init__(state, local, local, upstream, mode)
        self._stored = stored
        self._upstream = upstream
        self._waiting: dict[int, deque[_Forwarded]] = {}
        self._waiting_count = 0
        self._syncs: deque[_Sync] = deque()
        self._syncs_due: deque[int] = deque()  # zxids after which the oldest syncs are to be answered
        self._revalidating: dict[int, deque[ClientConnection]] = {}
        self._told_ms = 0  # when the leader was last told who was heard
        self._heard_and_gone: dict[int, int] = {}  # timeouts of sessions heard since, now without connection
        self.tree.tracks_digest = state.digests

    # -- requests

    def submit(self, connection: ClientConnection, xid: int, op: int, body: bytes) -> None:
        if op == MULTI and len(body) > LONG_MULTI_BYTES:
            self._submit_long(connection, xid, body)
            return
        try:
            args = parse_write(op, body)
        except MarshallingError as failure:
            raise DecodeError(str(failure)) from None
        self.steps += CODEC_STEPS * len(args) if op == MULTI else WRITE_STEPS
        self._forward_parsed(connection, xid, op, body, args)

    def _forward_parsed(
        self, connection: ClientConnection, xid: int, op: int, body: bytes, args: Any
    ) -> None:
        if connection.session_id in self.local.by_id and makes_ephemeral(op, args):
            self._upgrade_for(connection, op)
        self._forward(connection, xid, op, body)

    def _submit_long(self, connection: ClientConnection, xid: int, body: bytes) -> None:
        """A multi of many operations takes long to be decoded; other writes wait behind it."""
        connection.asks_for_long = True
        long = LongDecoding(connection.session_id, xid, body)
        self.steps += long.go_on(max(1, slices.long_slice_steps() - self.steps))
        if long.operations is None:
            self.preparing = Preparation(long, connection, xid, MULTI, len(body))
            self.state.on_work_left()
        else:
            self._forward_parsed(connection, xid, MULTI, body, long.operations)

    def _go_on_preparing(self) -> None:
        preparing = self.preparing
        assert preparing is not None
        connection, long = preparing.connection, preparing.long
        assert connection is not None
        assert isinstance(long, LongDecoding)
        try:
            self.steps += long.go_on(max(1, slices.long_slice_steps() - self.steps))
            if long.operations is None:
                return
            self.preparing = None
            if connection.state != CLOSED:
                self._forward_parsed(connection, preparing.xid, MULTI, long.body, long.operations)
        except DecodeError:
            self.preparing = None
            connection.unsubmitted(preparing.xid, MarshallingError.code)

    def _forward(self, connection: ClientConnection, xid: int, op: int, body: bytes) -> None:
        self._wait(connection.session_id, connection, xid, op, len(body))
        ids = None if op == CREATE_SESSION else connection.ids
        self._upstream.forward(connection.session_id, xid, op, body, ids)

    def _wait(
        self, session_id: int, connection: ClientConnection | None, cxid: int, op: int, frame_bytes: int
    ) -> None:
        self.outstanding_bytes += frame_bytes
        if frame_bytes > self.limits.large_request_threshold_bytes >= 0:
            self.large_bytes += frame_bytes
        self._waiting_count += 1
        waiting = self._waiting.setdefault(session_id, deque())
        waiting.append((connection, cxid, op, self.now_ms, frame_bytes))

    def sync(self, connection: ClientConnection, xid: int, path: bytes) -> None:
        self.outstanding_bytes += len(path)
        self._syncs.append((connection, xid, path, self.now_ms))
        self._upstream.forward(connection.session_id, xid, _SYNC, path, connection.ids)

    def sync_done(self) -> None:
        """The leader answered our oldest sync: all that was committed before it is applied."""
        if len(self._syncs) == len(self._syncs_due):
            log.warning("sync_answered_unasked")
            return
        if self.is_behind:
            last = self.in_flight[self.due - 1] if self.due or self.applying is None else self.applying.done
            self._syncs_due.append(last[0].zxid)
            self.sync_zxid = self._syncs_due[0]
        else:
            self._answer_sync()

    def _answer_syncs(self) -> None:
        while self._syncs_due and self._syncs_due[0] <= self.tree.last_zxid:
            self._syncs_due.popleft()
            self._answer_sync()
        self.sync_zxid = self._syncs_due[0] if self._syncs_due else NO_ZXID

    def _answer_sync(self) -> None:
        connection, xid, body, started_ms = self._syncs.popleft()
        self.steps += WRITE_STEPS
        self.outstanding_bytes -= len(body)
        if connection.state != CLOSED:
            elapsed_ms = self.now_ms - started_ms
            self.stats.reads.add(elapsed_ms)
            connection.write_committed(xid, _SYNC, self.tree.last_zxid, 0, body, elapsed_ms)

    @property
    def outstanding(self) -> int:
        return len(self.in_flight) + self._waiting_count + len(self._syncs) + self.queued_reads

    @property
    def is_congested(self) -> bool:
        in_flight = len(self.in_flight) + self._waiting_count + len(self._syncs) + self.queued_reads
        return in_flight > self.limits.outstanding_max or self.outstanding_bytes > OUTSTANDING_BYTES_MAX

    # -- transactions

    def proposed(self, payload: bytes) -> None:
        """The leader's next transaction; nothing changes before it is committed."""
        txn = decode_txn(payload, is_long_left=True)
        waiting = self._waiting.get(txn.session)
        if waiting is None or waiting[0][1] != txn.cxid:
            self._expect(txn, None, 0, 0, 0)
            return
        connection, xid, op, started_ms, frame_bytes = waiting.popleft()
        if not waiting:
            del self._waiting[txn.session]
        self._waiting_count -= 1
        self.in_flight.append((txn, connection, xid, op, started_ms, frame_bytes))

    def committed(self, count: int) -> None:
        if count:
            latency_ms = self.wall_ms - self.in_flight[self.due][0].time_ms
            if latency_ms >= 0:  # by the leader's clock, which may not be ours
                self.stats.ensemble.commit_propagations.add(latency_ms, count)
                self.stats.ensemble.propagations.add(latency_ms, count)
        super().committed(count)

    def _applied(self, txn: Txn) -> None:
        self._stored.check_digest(txn)
        self.stats.digest_mismatches = self._stored.digest_mismatches

    # -- sessions

    def open_session(self, connection: ClientConnection) -> None:
        if self.state.local_sessions:
            self._open_local(connection)
            return
        connection.await_session()
        self.give(connection, Session(self.sessions.new_id(), connection.timeout_ms, self.now_ms))
        self._forward(connection, 0, CREATE_SESSION, _INT.pack(connection.timeout_ms))

    def create_session_again(self, connection: ClientConnection, xid: int, body: bytes) -> None:
        if connection.session_id in self.local.by_id:
            raise Unimplemented  # no transaction speaks of a local session
        if len(body) < 4:
            raise MarshallingError
        if connection.session_id not in self.tree.session_timeouts_ms:
            raise SessionExpired
        timeout_ms = self.limits.session_ms(_INT.unpack_from(body)[0])
        self._forward(connection, xid, CREATE_SESSION, _INT.pack(timeout_ms))

    def _submit_close(self, connection: ClientConnection, xid: int) -> None:
        self._forward(connection, xid, CLOSE_SESSION, b"")

    def renew_session(self, connection: ClientConnection, session_id: int, password: bytes | None) -> None:
        for before in self._revalidating.get(session_id, ()):
            before.close()
        super().renew_session(connection, session_id, password)

    def _renew(self, connection: ClientConnection, session_id: int) -> None:
        """Only the leader knows whether the session lives."""
        connection.await_session()
        self._revalidating.setdefault(session_id, deque()).append(connection)
        self._upstream.revalidate(session_id, connection.timeout_ms)

    def revalidated(self, session_id: int, is_valid: bool) -> None:
        """The leader's answer to the oldest question about this session."""
        asking = self._revalidating.get(session_id)
        if asking is None:
            log.warning("session_revalidated_unasked", session=f"0x{session_id & 0xFFFFFFFFFFFFFFFF:x}")
            return
        connection = asking.popleft()
        if not asking:
            del self._revalidating[session_id]
        if connection.state == CLOSED:
            return
        if is_valid:
            self.give(connection, Session(session_id, connection.timeout_ms, self.now_ms))
            self.stats.sessions_renewed += 1
            connection.opened()
        else:
            connection.refuse()

    def session_left(self, session_id: int) -> None:
        """Its client has gone on elsewhere: what it said here last may come after what it says there."""
        connection = self.connections.get(session_id)
        if connection is not None:
            connection.close()

    def _upgrade_for(self, connection: ClientConnection, op: int) -> None:
        """Let all servers know a local session that is about to own an ephemeral node."""
        if not self.state.upgrades_sessions:
            if op != MULTI:
                raise EphemeralOnLocalSession
            return  # as in the original, it is the leader who refuses: it does not know the session
        session_id, timeout_ms = connection.session_id, connection.timeout_ms
        log.info(f"Upgrading session 0x{session_id & 0xFFFFFFFFFFFFFFFF:x}")
        self.local.forget(session_id)
        self.give(connection, Session(session_id, timeout_ms, self.now_ms))
        self._wait(session_id, None, 0, CREATE_SESSION, 0)
        self._upstream.forward(session_id, 0, CREATE_SESSION, _INT.pack(timeout_ms), None)

    # -- who was heard

    def touched(self) -> list[tuple[int, int]]:
        """Sessions known to all that were heard from since the last call, with their timeouts."""
        heard, self._heard_and_gone = self._heard_and_gone, {}
        for connection in self.connections.values():
            if self._is_news(connection):
                heard[connection.session_id] = connection.timeout_ms
        self._told_ms = self.now_ms
        return list(heard.items())

    def disconnected(self, connection: ClientConnection) -> None:
        if self._is_news(connection):
            self._heard_and_gone[connection.session_id] = connection.timeout_ms
        super().disconnected(connection)

    def _is_news(self, connection: ClientConnection) -> bool:
        """Whether the leader does not know yet that this client was heard."""
        session = connection.session
        return (
            session is not None and session.heard_ms >= self._told_ms and session.id not in self.local.by_id
        )
