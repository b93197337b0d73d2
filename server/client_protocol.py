"""One client's conversation: bytes in, frames out.

Pure: no socket, no task, no clock. A front (client_fronts.py, or the simulator) feeds `received` with
whatever arrived and sends what it finds in `out`. The same object serves plain TCP, TLS and tests.

    FRESH -- connect request --> OPENING -- session is there --> OPEN -- closeSession --> CLOSING --> CLOSED
                              (input waits meanwhile)                               (input is dropped)

What a session is, and who may have one, is for the pipeline to say: it answers `open_session` and
`renew_session` at once or later, by `opened` or `refuse`.

A four-letter word, a bad frame, an expired session or a lost socket lead to CLOSED from anywhere.

The unit of work is "all complete frames in the buffer". Reads are answered on the spot unless a write of this
connection is still in flight: then they wait in `fifo`, between the marks of the writes they stand behind.

What keeps the loop short: nothing is decoded that need not be; counting happens once for a batch; a
reply is one concatenation, and all replies of a batch leave in one send. A getData in a batch of 100 takes
about 1 us from frame to reply, a setData 9 us (without the log).

Bounds: a frame is at most jute.maxbuffer; a connection whose client does not read its replies is not read
from (OUT_PAUSE_BYTES), nor is one where the reads behind a write will come to as much when that is done; it
is cut off when events, which nobody can hold back, pile up beyond EVENTS_MAX_BYTES, or when it has the most
of what all clients together have not taken and that is beyond triokeeper.unsentMaxBytes.
"""

from collections import deque
from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol

from librt.strings import BytesWriter, read_i32_be, write_i32_be, write_i64_be

from eventlog import log
from jute.client_records import (
    AuthPacket,
    ConnectRequest,
    ConnectResponse,
    GetSaslRequest,
    SyncRequest,
    SyncResponse,
)
from jute.errors import (
    AuthFailed,
    MarshallingError,
    SessionClosedRequireAuth,
    SessionMoved,
    ThrottledOp,
    Unimplemented,
    ZkError,
)
from jute.opcodes import OpCode
from jute.record import DecodeError, decode, encode
from server import slices
from server.acls import AuthIds, add_ids
from server.client_sessions import REFUSED_PASSWORD, Session, password_of
from server.loop_meter import REQUEST
from server.read_requests import (
    READS,
    REWATCHES,
    LongRead,
    MultiReadSpoilt,
    Rewatching,
    TakesLong,
    exists,
    get_children2,
    get_data,
    multi_read,
)
from server.reads_meanwhile import READS_MEANWHILE, read_before
from server.slices import (
    AUTHENTICATION_STEPS,
    BYTES_PER_STEP,
    CONNECT_STEPS,
    ENTRY_STEPS,
    FRAME_STEPS,
    LINE_STEPS,
    REFUSAL_STEPS,
    SEARCHED_PER_STEP,
    WORD_STEPS,
    WRITE_STEPS,
    length_steps,
    undecodable_steps,
)
from server.txns import CLOSE_SESSION, CREATE_SESSION
from server.watches import WatchedPaths

if TYPE_CHECKING:
    from server.pipeline import Pipeline

FRESH: Final = 0
OPENING: Final = 1
OPEN: Final = 2
CLOSING: Final = 3
CLOSED: Final = 4

OUT_PAUSE_BYTES: Final = 1 << 20
EVENTS_MAX_BYTES: Final = 16 << 20
_LOGGED_CHARACTERS_MAX: Final = 100  # of a text that a client chose
_COUNTED_FRAME_BYTES: Final = 1024  # smaller replies are counted when they are not taken (`flushed`)

_PING: Final = int(OpCode.PING)
_AUTH: Final = int(OpCode.AUTH)
_SASL: Final = int(OpCode.SASL)
_SYNC: Final = int(OpCode.SYNC)
_SET_WATCHES2: Final = int(OpCode.SET_WATCHES2)
_GET_DATA: Final = int(OpCode.GET_DATA)
_EXISTS: Final = int(OpCode.EXISTS)
_GET_CHILDREN2: Final = int(OpCode.GET_CHILDREN2)
_AUTHENTICATION: Final = frozenset({_AUTH, _SASL})  # says who the client is, not that its session lives
_MULTI_READ: Final = int(OpCode.MULTI_READ)
READ_OPS: Final = frozenset({*READS, *REWATCHES, _MULTI_READ})
_UNHINDERED: Final = READ_OPS | _AUTHENTICATION | {_PING}  # by a transaction that is being prepared
WRITES: Final = frozenset(
    int(op)
    for op in (
        OpCode.CREATE,
        OpCode.CREATE2,
        OpCode.CREATE_CONTAINER,
        OpCode.CREATE_TTL,
        OpCode.DELETE,
        OpCode.DELETE_CONTAINER,
        OpCode.SET_DATA,
        OpCode.SET_ACL,
        OpCode.MULTI,
        OpCode.RECONFIG,
    )
)
OP_NAMES: Final = {
    0: "NA",
    _PING: "PING",
    CREATE_SESSION: "SESS",
    CLOSE_SESSION: "CLOS",
    int(OpCode.CREATE): "CREA",
    int(OpCode.CREATE2): "CREA",
    int(OpCode.CREATE_CONTAINER): "CREA",
    int(OpCode.CREATE_TTL): "CREA",
    int(OpCode.DELETE): "DELE",
    int(OpCode.DELETE_CONTAINER): "DELE",
    int(OpCode.EXISTS): "EXIS",
    int(OpCode.GET_DATA): "GETD",
    int(OpCode.SET_DATA): "SETD",
    int(OpCode.GET_ACL): "GETA",
    int(OpCode.SET_ACL): "SETA",
    int(OpCode.GET_CHILDREN): "GETC",
    int(OpCode.GET_CHILDREN2): "GETC",
    _SYNC: "SYNC",
    int(OpCode.MULTI): "MULT",
    int(OpCode.MULTI_READ): "MLTR",
    int(OpCode.RECONFIG): "RECO",
    int(OpCode.CHECK_WATCHES): "CHKW",
    int(OpCode.REMOVE_WATCHES): "REMW",
    int(OpCode.SET_WATCHES): "SETW",
    int(OpCode.SET_WATCHES2): "STW2",
    int(OpCode.ADD_WATCH): "ADDW",
    int(OpCode.GET_EPHEMERALS): "GETE",
    int(OpCode.GET_ALL_CHILDREN_NUMBER): "GETACN",
    int(OpCode.WHO_AM_I): "HOMI",
}

FOUR_LETTER_WORDS: Final = {
    word.encode(): word
    for word in (
        "conf cons crst dirs dump envi gtmk hash isro mntr ruok srst srvr stat stmk wchc wchp wchs".split()
    )
} | {b"\xff\xf4\xff\xfd": "telnet close"}

_INT: Final = Struct(">i")
_REPLY: Final = Struct(">iiqi")  # frame length, xid, zxid, error
_PING_XID: Final = -2
_NULL_TOKEN: Final = b"\xff\xff\xff\xff"

# In fifo: the mark of a write in flight, and a read that waits behind one: xid, opcode, body, ids, arrival.
_Waiting = tuple[int, int, bytes, AuthIds, int]


# A sync that waits for its turn: xid, opcode, error, body, elapsed ms.
_LateSync = tuple[int, int, int, bytes, int]


class Handle(Protocol):
    """The front's side of a connection."""

    def wants_flush(self) -> None:
        """There is output, or the connection is to be closed once it is sent."""

    def resume_reading(self) -> None:
        """The connection takes input again."""


class ClientConnection:
    """What the server knows about one client; see the top of this file."""

    __slots__ = (
        "_has_said",
        "_late_events",
        "_late_syncs",
        "_long_read_xid",
        "_needed_bytes",
        "_needs_auth",
        "_tail",
        "_word",
        "address",
        "asks_for_long",
        "asks_read_only",
        "closes_after_flush",
        "established_ms",
        "event_bytes",
        "expected_bytes",
        "fifo",
        "handle",
        "has_read_only_flag",
        "heard_ms",
        "ids",
        "is_cut_off",
        "is_flush_wanted",
        "is_paused",
        "last_latency_ms",
        "last_op",
        "last_reply_ms",
        "last_xid",
        "last_zxid",
        "latency_count",
        "latency_max_ms",
        "latency_min_ms",
        "latency_total_ms",
        "long_read",
        "out",
        "out_bytes",
        "pieces_in_out",
        "pipeline",
        "port",
        "received_count",
        "sent_count",
        "session",
        "session_id",
        "state",
        "timeout_ms",
        "told_zxid",
        "unsent_bytes",
        "watched",
    )

    def __init__(self, pipeline: "Pipeline", handle: Handle, address: str, port: int) -> None:
        self.pipeline = pipeline
        self.handle = handle
        self.address = address
        self.port = port
        self.state = FRESH
        self.ids: AuthIds = (("ip", address),)
        self.session: Session | None = None
        self.session_id = 0
        self.timeout_ms = 0
        self.has_read_only_flag = False
        self.asks_read_only = False
        self.watched = WatchedPaths()
        self.out: list[bytes] = []
        self.pieces_in_out = 0  # that go on with the frame before them
        self.out_bytes = 0  # of replies and events large enough to count, not yet taken by the socket
        self.unsent_bytes = 0  # when the front last looked: what is counted for all clients together
        self.event_bytes = 0  # of events since the client had last taken everything
        self.is_flush_wanted = False
        self.closes_after_flush = False
        self.is_cut_off = False  # to be closed whatever the client has not taken yet
        self.is_paused = False
        self.fifo: deque[_Waiting | None] = deque()
        self.long_read: LongRead | None = None  # that takes several slices
        self._long_read_xid = 0
        self._late_events: list[bytes] = []  # of changes that its reply does not show
        self._late_syncs: list[_LateSync] = []  # behind it; no write of ours is applied before its reply
        self._word: Iterator[str] | None = None  # four letters, the rest of the answer to them
        self._has_said = False  # a part of it
        self.asks_for_long = False  # transactions that take many slices: it has done so before
        self.told_zxid = 0  # of the last transaction that was applied in slices and told here
        self.expected_bytes = 0  # of replies to the reads in fifo, about; forgotten when it is empty
        self._tail = bytearray()
        self._needed_bytes = 4
        self._needs_auth = self._lacks_enforced_scheme()
        self.heard_ms = pipeline.now_ms
        self.established_ms = pipeline.wall_ms
        self.received_count = self.sent_count = 0
        self.last_op = 0
        self.last_xid = -1
        self.last_zxid = -1
        self.last_reply_ms = 0
        self.last_latency_ms = self.latency_max_ms = self.latency_total_ms = self.latency_count = 0
        self.latency_min_ms: int | None = None

    # -- input

    def received(self, data: bytes) -> None:
        """Everything one read of the socket gave."""
        self.heard_ms = self.pipeline.now_ms
        if self._tail:
            self._tail += data
            if len(self._tail) < self._needed_bytes:
                return
            data = bytes(self._tail)
            self._tail.clear()
        if self.state == OPEN and not self.is_paused:
            used = self._serve(data)
        elif self.state == FRESH and not self.is_paused:
            used = self._begin(data)
        else:
            used = 0
        if self.state < CLOSING and used < len(data):
            self._tail += data[used:] if used else data

    def resume(self) -> None:
        """What made us pause is over: go on with the input that waits."""
        if self.is_paused and (self.state == OPEN or self.state == FRESH) and not self.has_reads_due:
            self.is_paused = False
            self.handle.resume_reading()
            self._needed_bytes = 0
            self.received(b"")

    def pause(self) -> None:
        self.is_paused = True

    @property
    def has_reads_due(self) -> bool:
        """Whether nothing but the time it takes keeps reads from being answered: then the pipeline has us
        among its `long_reads`."""
        return self.long_read is not None or (bool(self.fifo) and self.fifo[0] is not None)

    @property
    def is_held_up(self) -> bool:
        """Whether it is our fault that the client is not heard, rather than that it does not read."""
        return self.is_paused and self.out_bytes <= OUT_PAUSE_BYTES

    def touch(self) -> None:
        """The client lives."""
        self.heard_ms = self.pipeline.now_ms
        if self.session is not None:
            self.session.heard_ms = self.pipeline.now_ms

    def _serve(self, data: bytes) -> int:
        """Answer or pass on every complete frame; returns how many bytes were used."""
        pipeline = self.pipeline
        size, at, count, ordered, unheard = len(data), 0, 0, 0, 0
        length, xid, op = 8, 0, 0
        frame_bytes_max: int = pipeline.limits.frame_bytes_max
        steps_max: int = slices.STEPS_PER_SLICE
        fifo, is_meanwhile = self.fifo, pipeline.applying is not None
        self._needed_bytes = 4
        while size - at >= 12:
            length = read_i32_be(data, at)
            end = at + 4 + length
            if not 8 <= length <= frame_bytes_max:
                break
            if end > size:
                self._needed_bytes = end - at
                break
            xid = read_i32_be(data, at + 4)
            op = read_i32_be(data, at + 8)
            if is_meanwhile and not self._serves_meanwhile(op, length):
                self._hold()
                break
            count += 1
            pipeline.steps += FRAME_STEPS
            if length > SEARCHED_PER_STEP:
                pipeline.steps += length_steps(length)
            if self._needs_auth and op not in _AUTHENTICATION:
                self._refuse_unauthenticated(xid)
            elif op in READ_OPS and not fifo:
                if not self._answer_read(op, xid, data, at + 12, end):
                    count -= 1
                    self._hold()
                    break
            elif op == _PING and not fifo:
                zxid = max(pipeline.tree.last_zxid, self.told_zxid)  # an event may have been ahead of it
                self._send(_REPLY.pack(16, _PING_XID, zxid, 0))
            elif pipeline.preparing is not None and op not in _UNHINDERED:
                count -= 1
                self._hold()
                break
            else:
                ordered += 1
                unheard += op in _AUTHENTICATION
                self._serve_in_order(xid, op, data[at + 12 : end])
            at = end
            if self.is_paused or self.state != OPEN:
                break
            if pipeline.steps >= steps_max and size - at >= 12:
                self._wait_for_next_slice()
                break
        else:
            length = read_i32_be(data, at) if size - at >= 4 else 8
        if count > unheard and self.session is not None:
            self.session.heard_ms = pipeline.now_ms
        if count:
            self._count_batch(count, count - ordered, xid, op)
        if self.state == OPEN and not self.is_paused and not 8 <= length <= frame_bytes_max:
            log.warning(
                "frame_refused",
                client=f"{self.address}:{self.port}",
                length=length,
                length_max=frame_bytes_max,
            )
            self.close()
        return at

    def _serves_meanwhile(self, op: int, length: int) -> bool:
        """Whether a request is served before the transaction that is being applied is whole."""
        pipeline, applying = self.pipeline, self.pipeline.applying
        assert applying is not None
        if op == _PING and not self.fifo:
            return True
        if self._needs_auth or pipeline.tree.before is None or self.told_zxid == applying.done[0].zxid:
            return False
        if op in WRITES:
            return pipeline.takes_meanwhile(op, length)
        return op in READS_MEANWHILE or op == _PING

    def _wait_for_next_slice(self) -> None:
        """A frame may hold little, and many frames much."""
        self.pause()
        self.pipeline.resumable.append(self)
        self.pipeline.state.on_work_left()

    def _hold(self) -> None:
        self.pause()
        self.pipeline.hold(self)

    def _answer_read(self, op: int, xid: int, data: bytes, at: int, end: int) -> bool:
        """Answer a read, at once or in slices; False if it has to wait until a transaction is whole.

        The commonest are called by name: compiled, that takes a fifth of a call through a table.
        """
        pipeline = self.pipeline
        try:
            if pipeline.applying is not None:
                before = pipeline.tree.before
                found = None if before is None else read_before(self, before, op, data, at, end)
                if found is None:
                    return False
                body = found
            elif op == _GET_DATA:
                body = get_data(self, data, at, end)
            elif op == _EXISTS:
                body = exists(self, data, at, end)
            elif op == _GET_CHILDREN2:
                body = get_children2(self, data, at, end)
            elif op == _MULTI_READ:
                self._read_long(xid, multi_read(self, data, at, end))
                return True
            elif op in REWATCHES:
                self._read_long(xid, Rewatching(data[at:end], op == _SET_WATCHES2))
                return True
            else:
                body = READS[op](self, data, at, end)
        except ZkError as failure:
            self._refuse_read(xid, failure.code)
            return True
        except DecodeError:
            self._refuse_read(xid, MarshallingError.code)
            return True
        except TakesLong as long:
            self._read_long(xid, long.read)
            return True
        length = 16 + len(body)
        header = BytesWriter()
        write_i32_be(header, length)
        write_i32_be(header, xid)
        write_i64_be(header, pipeline.tree.last_zxid)
        write_i32_be(header, 0)
        self._send(header.getvalue() + body)
        if length > _COUNTED_FRAME_BYTES:
            self._count_out(length)
        return True

    def _refuse_read(self, xid: int, code: int) -> None:
        self.pipeline.steps += REFUSAL_STEPS
        self._send(_REPLY.pack(16, xid, self.pipeline.tree.last_zxid, code))

    def _read_long(self, xid: int, read: LongRead) -> None:
        """Answer a read that may take several slices."""
        self.long_read, self._long_read_xid = read, xid
        if not self._read_some():
            self._read_on_later()

    def _read_on_later(self) -> None:
        self.pause()
        self.pipeline.long_reads.append(self)
        self.pipeline.state.on_work_left()

    def _read_some(self) -> bool:
        """Whether it is answered now."""
        read, pipeline = self.long_read, self.pipeline
        assert read is not None
        code = 0
        try:
            steps = read.go_on(self, pipeline.steps_left)
            pipeline.steps += steps  # not in one go: it may have added to them itself
        except DecodeError:
            code = MarshallingError.code
        except MultiReadSpoilt as spoilt:
            code, read.pieces = MarshallingError.code, spoilt.pieces
        except ZkError as failure:
            code = failure.code
        if not code and not read.is_done:
            return False
        self.long_read = None
        zxid = read.zxid or pipeline.tree.last_zxid
        self._send_pieces(self._long_read_xid, code, read.pieces, zxid)
        late_events, self._late_events = self._late_events, []
        for event in late_events:
            self.notify(event)
        return True

    def go_on_reading(self) -> None:
        """The next slice; when it was the last, whatever waited behind it follows in its order."""
        if self.state == CLOSED:
            return
        if self._word is not None:
            self._say_more(self._word)
            return
        if self.long_read is not None and not self._read_some():
            self.pipeline.long_reads.append(self)
            return
        self.pipeline.meter.noted(REQUEST, self.session_id, self.last_op)
        self._serve_waiting()
        if self.has_reads_due:
            return
        late, self._late_syncs = self._late_syncs, []
        for xid, op, err, body, elapsed_ms in late:
            if self.state != CLOSED:
                self.write_committed(xid, op, self.pipeline.tree.last_zxid, err, body, elapsed_ms)
        if self.is_paused and self._may_resume():
            self.pipeline.resumable.append(self)

    def _serve_in_order(self, xid: int, op: int, body: bytes) -> None:
        """Everything that is not a read of a connection without writes in flight."""
        if op in WRITES:
            self._submit(xid, op, body)
        elif op == _PING or op in READ_OPS:
            self._wait_in_order(xid, op, body)
            self.expected_bytes += self.pipeline.likely_reply_bytes(self, op, body)
            if self.expected_bytes > OUT_PAUSE_BYTES:
                self.pause()
        elif op == _SYNC:
            self._sync(xid, body)
        elif op == CLOSE_SESSION:
            self.state = CLOSING
            self.pipeline.close_session(self, xid)
            return
        elif op == _AUTH:
            self._authenticate(xid, body)
        elif op == _SASL:
            self._refuse_sasl(xid, body)
        elif op == CREATE_SESSION:
            self._create_session_again(xid, body)
        else:
            self._send(_REPLY.pack(16, xid, -1, Unimplemented.code))
            self.close_after_flush()
        if self.fifo and self.pipeline.is_congested:
            self.pause()

    def _submit(self, xid: int, op: int, body: bytes) -> None:
        limits = self.pipeline.limits
        is_large = len(body) > limits.large_request_threshold_bytes >= 0
        if is_large and self.pipeline.large_bytes + len(body) > limits.large_request_bytes_max:
            self.pipeline.stats.large_requests_rejected += 1
            self.close()
            return
        try:
            self.pipeline.submit(self, xid, op, body)
        except DecodeError:
            self.pipeline.steps += undecodable_steps(len(body))
            self._refuse_in_order(xid, MarshallingError.code)
        except ZkError as failure:
            self._refuse_in_order(xid, failure.code)
        else:
            self.fifo.append(None)

    def _create_session_again(self, xid: int, body: bytes) -> None:
        try:
            self.pipeline.create_session_again(self, xid, body)
        except ZkError as failure:
            self._refuse_in_order(xid, failure.code)
        else:
            self.fifo.append(None)

    def _sync(self, xid: int, body: bytes) -> None:
        try:
            asked, _ = decode(SyncRequest, body)
        except DecodeError:
            self._refuse_in_order(xid, MarshallingError.code)
        else:
            self.fifo.append(None)
            self.pipeline.sync(self, xid, encode(SyncResponse(asked.path)))

    def _refuse_in_order(self, xid: int, code: int) -> None:
        """A refusal that needs no transaction, but must not overtake the replies before it."""
        self.pipeline.steps += REFUSAL_STEPS
        if self.fifo:
            self._wait_in_order(xid, _REFUSAL, _INT.pack(code))
        else:
            self._send(_REPLY.pack(16, xid, self.pipeline.tree.last_zxid, code))

    def _wait_in_order(self, xid: int, op: int, body: bytes) -> None:
        self.fifo.append((xid, op, body, self.ids, self.pipeline.now_ms))
        self.pipeline.queued_reads += 1
        self.pipeline.outstanding_bytes += len(body)

    # -- commits

    def write_committed(self, xid: int, op: int, zxid: int, err: int, body: bytes, elapsed_ms: int) -> None:
        """A write of this connection is applied, or a sync done: answer it, and the reads behind it."""
        if self.has_reads_due:
            self._late_syncs.append((xid, op, err, body, elapsed_ms))
            return
        if err:
            if err == SessionMoved.code:  # the client is elsewhere by now: it must not hear from here
                self.close()
                return
            self._send(_REPLY.pack(16, xid, zxid, err))
        elif op == CREATE_SESSION:
            if self.state == OPENING:
                self.opened()
                return
            self._send(self._connect_response())
        else:
            header = BytesWriter()
            write_i32_be(header, 16 + len(body))
            write_i32_be(header, xid)
            write_i64_be(header, zxid)
            write_i32_be(header, 0)
            self._send(header.getvalue() + body)
        if op == CLOSE_SESSION:
            self.close_after_flush()
            return
        self.last_op = op
        self.last_xid = xid
        self.last_zxid = zxid
        self._count_latency(elapsed_ms, 1)
        fifo = self.fifo
        fifo.popleft()
        if fifo and fifo[0] is not None:
            self._serve_waiting()
        if not fifo:
            self.expected_bytes = 0
        if self.is_paused and self._may_resume():
            self.pipeline.resumable.append(self)

    def _serve_waiting(self) -> None:
        """Answer the reads in front, now or, as far as that is too much at once, in the next slices."""
        fifo, steps_max = self.fifo, self.pipeline.steps + self.pipeline.steps_left
        while fifo and fifo[0] is not None and self.long_read is None:
            if self.pipeline.steps >= steps_max or self.pipeline.applying is not None:
                self._read_on_later()
                return
            xid, op, body, ids, since_ms = fifo.popleft()  # type: ignore[misc]
            self.pipeline.queued_reads -= 1
            self.pipeline.outstanding_bytes -= len(body)
            self.pipeline.steps += FRAME_STEPS
            self.pipeline.stats.reads.add(self.pipeline.now_ms - since_ms)
            wait_ms = self.pipeline.limits.throttled_op_wait_ms
            if op == _PING:
                self._send(_REPLY.pack(16, _PING_XID, self.pipeline.tree.last_zxid, 0))
            elif op == _REFUSAL:
                code = _INT.unpack(body)[0]
                self._send(_REPLY.pack(16, xid, self.pipeline.tree.last_zxid, code))
            elif op == CLOSE_SESSION:
                self._end(xid)
            elif 0 < wait_ms < self.pipeline.now_ms - since_ms:
                self.pipeline.stats.throttled_ops += 1
                self._send(_REPLY.pack(16, xid, self.pipeline.tree.last_zxid, ThrottledOp.code))
            else:
                now_ids, self.ids = self.ids, ids
                self._answer_read(op, xid, body, 0, len(body))
                self.ids = now_ids

    def unsubmitted(self, xid: int, code: int) -> None:
        """The last write turned out to be no transaction at all: it is refused in its turn."""
        if self.state == CLOSED:
            return
        fifo, was_reading = self.fifo, self.has_reads_due
        behind: list[_Waiting] = []
        while (waiting := fifo.pop()) is not None:
            behind.append(waiting)
        self._refuse_in_order(xid, code)
        fifo.extend(reversed(behind))
        if not was_reading:
            self._serve_waiting()
        if self.is_paused and self._may_resume():
            self.pipeline.resumable.append(self)

    def _may_resume(self) -> bool:
        if self.out_bytes > OUT_PAUSE_BYTES or self.has_reads_due:
            return False
        return not self.fifo or (self.expected_bytes <= OUT_PAUSE_BYTES and not self.pipeline.is_congested)

    # -- the beginning of a conversation

    def _begin(self, data: bytes) -> int:
        """The first bytes are a four-letter word or the length of a connect request."""
        if len(data) < 4:
            return 0
        word = FOUR_LETTER_WORDS.get(data[:4])
        if word is not None:
            return self._answer_word(word, data)
        length: int = _INT.unpack_from(data)[0]
        if not 0 <= length <= self.pipeline.limits.frame_bytes_max:
            log.warning(
                f"Len error. A message from /{self.address}:{self.port} with advertised length of {length} "
                "is either a malformed message or too large to process (length is greater than "
                f"jute.maxbuffer={self.pipeline.limits.frame_bytes_max})"
            )
            self.close()
            return 0
        if len(data) < 4 + length:
            self._needed_bytes = 4 + length
            return 0
        try:
            request, used = decode(ConnectRequest, data, 4, 4 + length)
        except DecodeError:
            self.close()
            return 0
        if self.pipeline.preparing is not None or self.pipeline.applying is not None:
            self._needed_bytes = 0
            self._hold()
            return 0
        self.pipeline.steps += CONNECT_STEPS
        self.received_count += 1
        self.pipeline.stats.packets_received += 1
        self.has_read_only_flag = used < 4 + length
        self.asks_read_only = self.has_read_only_flag and data[used] != 0
        self._connect(request)
        if self.state == OPEN and len(data) > 4 + length:
            return 4 + length + self._serve(data[4 + length :])
        return 4 + length

    def _answer_word(self, word: str, data: bytes) -> int:
        answer = self.pipeline.answer_word
        reply: bytes | Iterator[str] = b""
        if word == "stmk" and len(data) < 12:  # its argument is missing: only a refusal can be said already
            if answer is not None:
                reply = answer(self, word)
            if not reply:
                self._needed_bytes = 12
                return 0
        self.pipeline.steps += WORD_STEPS
        self.received_count += 1
        self.pipeline.stats.packets_received += 1
        if answer is not None and not reply:
            reply = answer(self, word if word != "stmk" else "stmk" + data[4:12].hex())
        if not isinstance(reply, bytes):
            self._word = reply
            self.pause()
            self._say_more(reply)
            return len(data)
        if reply:
            self._send(reply)
        self.close_after_flush()
        return len(data)

    def _say_more(self, word: Iterator[str]) -> None:
        """Send some of the answer to a word; the next follows in another slice, once the client takes it."""
        pipeline, pieces, is_whole = self.pipeline, [], False
        steps_max = pipeline.steps + pipeline.steps_left
        while True:
            piece = next(word, None)
            if piece is None:
                is_whole = True
                break
            pieces.append(piece)
            pipeline.steps += LINE_STEPS + length_steps(len(piece))
            if pipeline.steps >= steps_max:
                break
        said = "".join(pieces).encode()
        pipeline.stats.word_bytes += len(said)
        if said:
            self._send(said)
            self.pieces_in_out += self._has_said
            self._has_said = True
            self._count_out(len(said))
        if is_whole:
            self._word = None
            self.close_after_flush()
        elif self.out_bytes <= OUT_PAUSE_BYTES:
            self._say_more_later()

    def _say_more_later(self) -> None:
        self.pipeline.long_reads.append(self)
        self.pipeline.state.on_work_left()

    def _connect(self, request: ConnectRequest) -> None:
        pipeline, limits = self.pipeline, self.pipeline.limits
        if not pipeline.admits(self, request):
            self.close()
            return
        self.timeout_ms = limits.session_ms(request.timeout_ms)
        if request.session_id == 0:
            pipeline.open_session(self)
        else:
            pipeline.renew_session(self, request.session_id, request.passwd)

    def await_session(self) -> None:
        """Whether there will be a session is decided later: by `opened` or `refuse`."""
        self.state = OPENING
        self.pause()

    def opened(self) -> None:
        """The session is there: say so, and go on with what the client sent meanwhile."""
        self.pipeline.steps += WRITE_STEPS
        self.state = OPEN
        self.last_op = CREATE_SESSION
        self._send(self._connect_response())
        self.resume()

    def refuse(self) -> None:
        """There is no such session, or it is somebody else's."""
        self.timeout_ms = self.session_id = 0
        self._send(self._connect_response())
        self.close_after_flush()

    def _connect_response(self) -> bytes:
        password = password_of(self.session_id) if self.session_id else REFUSED_PASSWORD
        body = encode(ConnectResponse(0, self.timeout_ms, self.session_id, password))
        if self.has_read_only_flag:
            body += b"\x01" if self.pipeline.is_read_only else b"\x00"
        return _INT.pack(len(body)) + body

    # -- authentication

    def _authenticate(self, xid: int, body: bytes) -> None:
        self.pipeline.steps += AUTHENTICATION_STEPS
        try:
            packet, _ = decode(AuthPacket, body)
        except DecodeError:
            self.close()
            return
        try:
            self.ids = add_ids(self.ids, self.pipeline.rules.prove(packet.scheme, packet.auth, self.address))
        except AuthFailed:
            scheme = (packet.scheme or "")[:_LOGGED_CHARACTERS_MAX]
            log.warning("authentication_failed", client=f"{self.address}:{self.port}", scheme=scheme)
            self.pipeline.stats.auth_failures += 1
            self._send(_REPLY.pack(16, xid, 0, AuthFailed.code))
            self.close_after_flush()
            return
        self._needs_auth = self._lacks_enforced_scheme()
        self._send(_REPLY.pack(16, xid, 0, 0))

    def _lacks_enforced_scheme(self) -> bool:
        enforced = self.pipeline.limits.enforced_schemes
        return bool(enforced) and not any(scheme in enforced for scheme, _ in self.ids)

    def _refuse_sasl(self, xid: int, body: bytes) -> None:
        """SASL is not configured: the client is told that it is done, and is nobody."""
        try:
            request, _ = decode(GetSaslRequest, body)
        except DecodeError:
            self.close()
            return
        if request.token is None:
            self.close()
        else:
            self._send(_REPLY.pack(20, xid, 0, 0) + _NULL_TOKEN)

    def _refuse_unauthenticated(self, xid: int) -> None:
        self._send(_REPLY.pack(16, xid, 0, SessionClosedRequireAuth.code))
        self.close_after_flush()

    # -- watches (server.watches.Watcher)

    def may_read(self, acl: bytes) -> bool:
        pipeline, rules = self.pipeline, self.pipeline.rules
        entries_before = rules.entries_read
        may_read = rules.permits(acl, 1, self.ids)
        pipeline.watches.add_steps(ENTRY_STEPS * (rules.entries_read - entries_before))
        return may_read

    def notify(self, frame: bytes) -> None:
        if self.state == CLOSED:  # some of its watches are still to be dropped
            return
        if self.long_read is not None and self.long_read.zxid:
            self._late_events.append(frame)
            return
        applying = self.pipeline.applying
        if applying is not None:
            self.told_zxid = applying.done[0].zxid
        self.pipeline.stats.watches_fired += 1
        self.pipeline.stats.watch_bytes += len(frame)
        self._send(frame)
        self._count_out(len(frame))
        self.event_bytes += len(frame)

    # -- output

    def _send(self, frame: bytes) -> None:
        self.out.append(frame)
        if not self.is_flush_wanted:
            self.is_flush_wanted = True
            self.handle.wants_flush()

    def _send_pieces(self, xid: int, err: int, pieces: list[bytes], zxid: int = 0) -> None:
        """Send a reply whose body may be too long to be copied; `zxid` is that of the last change unless the
        reply shows an earlier state."""
        length = 16 + sum(map(len, pieces))
        header = _REPLY.pack(length, xid, zxid or self.pipeline.tree.last_zxid, err)
        if len(pieces) <= 1:
            self._send(b"".join((header, *pieces)))
        else:
            self._send(header)
            self.out += pieces
            self.pieces_in_out += len(pieces)
            self.pipeline.stats.responses.add(length + 4)
        if length > _COUNTED_FRAME_BYTES:
            self._count_out(length)

    def _count_out(self, length: int) -> None:
        self.out_bytes += length
        self.pipeline.steps += length // BYTES_PER_STEP
        if self.out_bytes > OUT_PAUSE_BYTES:
            self.pause()

    def flushed(self, unsent_bytes: int) -> None:
        """The front has taken `out`; this much of it is still to be sent."""
        was_full = self.out_bytes > OUT_PAUSE_BYTES
        if self.is_paused and unsent_bytes < self.out_bytes:
            self.touch()  # it reads, so it lives, though we do not listen to it
        self.out_bytes = unsent_bytes
        if unsent_bytes > OUT_PAUSE_BYTES:  # also of replies so small that nobody has counted them
            self.pause()
        if was_full and self._word is not None and unsent_bytes <= OUT_PAUSE_BYTES:
            self._say_more_later()
        if unsent_bytes != self.unsent_bytes:
            self._count_unsent(unsent_bytes)
        if not unsent_bytes:
            self.event_bytes = 0
        elif self.event_bytes > EVENTS_MAX_BYTES:
            self.cut_off_if_overrun()
        if self.is_paused and self.state == OPEN and self._may_resume() and not self.closes_after_flush:
            self.pipeline.resumable.append(self)

    def _count_unsent(self, now: int) -> None:
        before, self.unsent_bytes = self.unsent_bytes, now
        self.pipeline.state.count_unsent(self, before, now)

    def cut_off_if_overrun(self) -> None:
        """Close a client that lets events pile up. Not while they are made: whoever makes them may go on to
        set watches, and those of a closed connection would never go."""
        if min(self.event_bytes, self.out_bytes) > EVENTS_MAX_BYTES and self.state != CLOSED:
            log.warning(
                "client_does_not_read", client=f"{self.address}:{self.port}", bytes_waiting=self.out_bytes
            )
            self.close()

    # -- the end

    def end_in_turn(self, xid: int) -> None:
        """A session that takes no transaction to close ends once all that came before is answered."""
        if self.fifo:
            self._wait_in_order(xid, CLOSE_SESSION, b"")
        else:
            self._end(xid)

    def _end(self, xid: int) -> None:
        self.pipeline.local.forget(self.session_id)
        self._send(_REPLY.pack(16, xid, self.pipeline.tree.last_zxid, 0))
        self.close_after_flush()

    def close_after_flush(self) -> None:
        """Say what there is to say, then close. Input is no longer looked at."""
        self.closes_after_flush = True
        self._forget()

    def close(self) -> None:
        """Close without another word."""
        self._clear_out()
        self.closes_after_flush = True
        self.is_cut_off = True
        self._forget()
        self.is_flush_wanted = True
        self.handle.wants_flush()  # again, even if it knows of output: this is more urgent

    def lost(self) -> None:
        """The socket is gone."""
        self._forget()
        self._clear_out()

    def _clear_out(self) -> None:
        self.out.clear()
        self.pieces_in_out = 0
        if self.unsent_bytes:
            self._count_unsent(0)

    def _forget(self) -> None:
        if self.state == CLOSED:
            return
        self.state = CLOSED
        pipeline = self.pipeline
        self._drop_watches()
        self.long_read = None
        self._word = None
        self._late_events.clear()
        self._late_syncs.clear()
        for waiting in self.fifo:
            if waiting is not None:
                pipeline.queued_reads -= 1
                pipeline.outstanding_bytes -= len(waiting[2])
        self.fifo.clear()
        self._tail.clear()
        pipeline.disconnected(self)

    def _drop_watches(self) -> None:
        pipeline = self.pipeline
        pipeline.steps += pipeline.watches.drop_watcher(self, slices.STEPS_PER_SLICE - pipeline.steps)
        if pipeline.watches.dropped:
            pipeline.state.on_work_left()

    # -- counting

    def _count_batch(self, count: int, reads: int, xid: int, op: int) -> None:
        pipeline = self.pipeline
        pipeline.stats.packets_received += count
        pipeline.reads_in_batch += reads
        pipeline.steps += count
        self.received_count += count
        self.last_op = op
        if xid >= 0:
            self.last_xid = xid
        if reads:
            self.last_zxid = pipeline.tree.last_zxid
            self._count_latency(0, reads)

    def _count_latency(self, elapsed_ms: int, count: int) -> None:
        """Replies that leave with the batch that asked for them took less than the clock can tell."""
        self.last_reply_ms = self.pipeline.now_ms
        self.last_latency_ms = elapsed_ms
        self.latency_count += count
        self.latency_total_ms += elapsed_ms * count
        if elapsed_ms > self.latency_max_ms:
            self.latency_max_ms = elapsed_ms
        if self.latency_min_ms is None or elapsed_ms < self.latency_min_ms:
            self.latency_min_ms = elapsed_ms


_REFUSAL: Final = -1000  # in fifo: not an opcode, but an error that waits for its turn
