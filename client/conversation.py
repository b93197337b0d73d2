"""One session's conversation with one server after the other: bytes and time in, bytes and answers out.

    conversation = Conversation(Chroot("/app"), timeout_ms=30_000, hosts=3)
    conversation.submit(request)             # any time; it is sent once there is a session
    conversation.connection_made(now_s)      # a connection stands: the handshake is ready to be sent
    conversation.bytes_to_send(now_s)
    conversation.received(data, now_s)       # raises ProtocolError: close, and call connection_lost
    conversation.pass_time(now_s)            # pings when due; raises ServerSilent: as above
    conversation.connection_lost()
    conversation.take_outputs()              # requests that are complete and events, in their order

On a connection, in this order: the handshake; once it is answered, credentials, the watches held so far, what
was submitted meanwhile, and from then on every request as it comes.

What always holds:
  1. Answers come in the order of the requests (but those to credentials, which may overtake), or the
     conversation ends with ProtocolError.
  2. Whoever submitted a request gets exactly one answer: the server's, or an error when the connection or the
     session ends. Nothing is ever sent twice: whether a lost write was done, only the caller can find out.
  3. An event stands before any answer that could reveal its change.
"""

from collections import deque
from typing import TypeAlias

import attrs

from client.errors import ProtocolError, ServerError, server_error
from client.events import NO_ZXID, State, WatchedEvent
from client.paths import Chroot
from client.replies import REPLY_LENGTH_MAX, decode_reply
from client.requests import OK, AnyRequest, Request, close_session
from client.watch_registry import WatchRegistry
from jute.client_records import (
    AuthPacket,
    ConnectRequest,
    ConnectResponse,
    ReplyHeader,
    RequestHeader,
    SetWatches2,
    WatcherEvent,
)
from jute.framing import FrameBuffer, FrameError, frame
from jute.opcodes import (
    AUTH_XID,
    NOTIFICATION_XID,
    PING_XID,
    SET_WATCHES_XID,
    EventType,
    KeeperState,
    OpCode,
)
from jute.record import DecodeError, encode

PING_INTERVAL_S_MAX = 10.0
XID_MAX = 2**31 - 1
CONNECTION_LOSS = -4
SESSION_EXPIRED = -112
AUTH_FAILED = -115
NO_WATCHER = -121
SERVER_EVENTS = range(EventType.NODE_CREATED, EventType.NODE_CHILDREN_CHANGED + 1)

_CODE_WHEN_OVER = {
    State.AUTH_FAILED: AUTH_FAILED,
    State.CLOSED: SESSION_EXPIRED,
    State.EXPIRED: SESSION_EXPIRED,
}

Output: TypeAlias = AnyRequest | WatchedEvent


class ServerSilent(Exception):
    """The server has not been heard for too long: the connection is as good as lost."""


@attrs.define
class Credentials:
    """What the server knows this session by: shown again at each handshake."""

    session_id: int = 0
    password: bytes = bytes(16)
    last_zxid: int = 0


class Conversation:
    """The session, over all its connections."""

    def __init__(
        self, chroot: Chroot, *, timeout_ms: int, hosts: int = 1, is_read_only_fine: bool = False
    ) -> None:
        self.chroot = chroot
        self.state = State.CONNECTING
        self.credentials = Credentials()
        self.watches = WatchRegistry()
        self.timeout_ms = timeout_ms  # what we ask for; once connected, what the server grants
        self._wished_timeout_ms = timeout_ms
        self._hosts = hosts
        self._is_read_only_fine = is_read_only_fine
        self._has_met_voter = False  # a read-only server's session is its own, and of no use elsewhere
        self._auths: list[tuple[str, bytes | None]] = []
        self._last_state = KeeperState.DISCONNECTED
        self._outputs: deque[Output] = deque()
        self._queue: deque[AnyRequest] = deque()  # submitted, not yet sent
        self._xid = 0
        self._forget_connection()

    def _forget_connection(self) -> None:
        self._frames: FrameBuffer | None = None  # None: no connection
        self._to_send: list[bytes] = []
        self._in_flight: deque[tuple[int, AnyRequest | None]] = deque()  # None: not the caller's request
        self._auths_in_flight: deque[AnyRequest | None] = deque()
        self._heard_s = 0.0
        self._sent_s = 0.0
        self._is_closing = False

    # --- What the owner asks for.

    def submit(self, request: AnyRequest) -> None:
        """Take a request. It is complete at once if the session is over."""
        if self.state.is_over:
            self._lose(request)
        elif self.state.is_connected:
            self._send(request)
        else:
            self._queue.append(request)

    def add_auth(self, scheme: str, auth: bytes | None) -> Request[None]:
        """Show credentials, now and on every later connection. The request tells of the first answer."""
        request: Request[None] = Request(
            OpCode.AUTH, encode(AuthPacket(0, scheme, auth)), None, decode=lambda body: None
        )
        if self.state.is_over:
            self._lose(request)
            return request
        self._auths.append((scheme, auth))
        if self.state.is_connected:
            self._send_auth(request)
        else:
            self._queue.append(request)
        return request

    def close(self) -> Request[None] | None:
        """Ask the server to end the session; without a connection it is over at once."""
        if self.state.is_connected and not self._is_closing:
            request = close_session()
            self._send(request)
            self._is_closing = True
            return request
        if not self.state.is_over:
            self._end(State.CLOSED)
        return None

    def abandon(self) -> None:
        """Leave without telling the server: the session lives on there until it expires."""
        if not self.state.is_over:
            self._end(State.CLOSED)

    def withdraw(self, request: AnyRequest) -> None:
        """Nobody waits for it any more: if it has not been sent, it never is. Credentials stay."""
        if request in self._queue and request.op is not OpCode.AUTH:
            self._queue.remove(request)

    def fail_queued(self) -> None:
        """Nobody can be reached: who waits is told so."""
        while self._queue:
            self._lose(self._queue.popleft())

    def take_outputs(self) -> list[Output]:
        """Requests that are complete, and events, since the last call."""
        outputs = list(self._outputs)
        self._outputs.clear()
        return outputs

    # --- The connection.

    def connection_made(self, now_s: float) -> None:
        assert self._frames is None
        assert self.state is State.CONNECTING
        self._frames = FrameBuffer(REPLY_LENGTH_MAX)
        self._heard_s = self._sent_s = now_s
        known = self.credentials
        session_id = known.session_id if self._has_met_voter else 0
        request = ConnectRequest(0, known.last_zxid, self._wished_timeout_ms, session_id, known.password)
        self._to_send.append(frame(encode(request) + bytes([self._is_read_only_fine])))

    def connection_lost(self) -> None:
        """What was under way is lost. A session that is not over looks for another server."""
        if self._is_closing:
            self._end(State.CLOSED)
        elif self.state.is_connected:
            self.state = State.CONNECTING
            self._lose_all_sent()
            self._tell_state(KeeperState.DISCONNECTED)
        else:
            self._forget_connection()

    def bytes_to_send(self, now_s: float) -> bytes:
        """What is to be sent now; empty if nothing is."""
        data = b"".join(self._to_send)
        if data:
            self._to_send.clear()
            self._sent_s = now_s
        return data

    def received(self, data: bytes, now_s: float) -> None:
        """Take in bytes, however they are cut. Raises ProtocolError if they make no sense."""
        assert self._frames is not None
        self._frames.feed(data)
        try:
            while self._frames is not None and (payload := self._frames.next_frame()) is not None:
                self._heard_s = now_s  # only whole frames count: no server keeps us by a byte now and then
                if self.state is State.CONNECTING:
                    self._handshake_answered(payload)
                else:
                    self._frame_received(payload)
        except (FrameError, DecodeError) as problem:
            raise ProtocolError(str(problem)) from problem

    # --- Time.

    @property
    def _silence_s_max(self) -> float:
        """Two thirds of the session's time; then there is a third left to find another server."""
        return self.timeout_ms / 1000 * 2 / 3

    @property
    def connect_timeout_s(self) -> float:
        """How long one server may take to accept the connection and the session."""
        return self.timeout_ms / 1000 / self._hosts

    @property
    def due_s(self) -> float:
        """When `pass_time` has something to do, if nothing else happens; without a connection, never."""
        if self._frames is None:
            return float("inf")
        if not self.state.is_connected:
            return self._heard_s + self.connect_timeout_s
        return min(self._heard_s + self._silence_s_max, self._sent_s + self._ping_interval_s)

    @property
    def _ping_interval_s(self) -> float:
        return min(self._silence_s_max / 2, PING_INTERVAL_S_MAX)

    def pass_time(self, now_s: float) -> None:
        """Send a ping if one is due. Raises ServerSilent if the server has been silent for too long."""
        if self._frames is None:
            return
        allowed_s = self._silence_s_max if self.state.is_connected else self.connect_timeout_s
        if now_s >= self._heard_s + allowed_s:
            raise ServerSilent(f"the server has not been heard for {now_s - self._heard_s:.1f} s")
        if self.state.is_connected and now_s >= self._sent_s + self._ping_interval_s:
            self._to_send.append(frame(encode(RequestHeader(PING_XID, OpCode.PING))))
            self._sent_s = now_s

    # --- Sending.

    def _send(self, request: AnyRequest) -> None:
        self._xid = self._xid + 1 if self._xid < XID_MAX else 1
        self._to_send.append(frame(encode(RequestHeader(self._xid, request.op)) + request.body))
        self._in_flight.append((self._xid, request))

    def _send_auth(self, request: AnyRequest) -> None:
        self._to_send.append(frame(encode(RequestHeader(AUTH_XID, OpCode.AUTH)) + request.body))
        self._auths_in_flight.append(request)

    def _send_all_there_is(self) -> None:
        """After a handshake: credentials, watches, then what waited."""
        waiting = [request for request in self._queue if request.op is OpCode.AUTH]
        # The latest credentials are those of the requests that wait for their answer.
        for scheme, auth in self._auths[: len(self._auths) - len(waiting)]:
            self._to_send.append(
                frame(encode(RequestHeader(AUTH_XID, OpCode.AUTH)) + encode(AuthPacket(0, scheme, auth)))
            )
            self._auths_in_flight.append(None)
        for request in waiting:
            self._send_auth(request)
        for watches in self.watches.set_watches(self.credentials.last_zxid):
            op = OpCode.SET_WATCHES2 if isinstance(watches, SetWatches2) else OpCode.SET_WATCHES
            self._to_send.append(frame(encode(RequestHeader(SET_WATCHES_XID, op)) + encode(watches)))
            self._in_flight.append((SET_WATCHES_XID, None))
        for request in self._queue:
            if request.op is not OpCode.AUTH:
                self._send(request)
        self._queue.clear()

    # --- Receiving.

    def _handshake_answered(self, payload: bytes) -> None:
        response, at = decode_reply(ConnectResponse, payload)
        if response.timeout_ms <= 0:
            self._end(State.EXPIRED)
            return
        if response.passwd is None:
            raise ProtocolError("a session without a password")
        is_read_only = payload[at : at + 1] not in (b"", b"\0")
        if is_read_only and not self._is_read_only_fine:
            raise ProtocolError("a read-only server accepted a session that may write")
        self._has_met_voter |= not is_read_only
        self.credentials.session_id = response.session_id
        self.credentials.password = response.passwd
        self.timeout_ms = response.timeout_ms
        self.state = State.CONNECTED_READ_ONLY if is_read_only else State.CONNECTED
        self._tell_state(KeeperState.CONNECTED_READ_ONLY if is_read_only else KeeperState.SYNC_CONNECTED)
        self._send_all_there_is()

    def _frame_received(self, payload: bytes) -> None:
        header, at = decode_reply(ReplyHeader, payload)
        if header.xid == NOTIFICATION_XID:
            self._notified(header.zxid, payload, at)
        elif header.xid == AUTH_XID:
            self._auth_answered(header.err)
        elif header.xid != PING_XID:
            self._answered(header, payload[at:])
        if header.zxid > 0 and header.xid != NOTIFICATION_XID:
            self.credentials.last_zxid = header.zxid

    def _notified(self, zxid: int, payload: bytes, at: int) -> None:
        event, _ = decode_reply(WatcherEvent, payload, at)
        if event.type not in SERVER_EVENTS or event.path is None or not event.path.startswith("/"):
            raise ProtocolError(f"an event of type {event.type} for the path {event.path!r}")
        kind = EventType(event.type)
        if self.watches.fire(kind, event.path):
            path = self.chroot.to_client(event.path)
            self._outputs.append(WatchedEvent(KeeperState.SYNC_CONNECTED, kind, path, zxid))

    def _auth_answered(self, code: int) -> None:
        if not self._auths_in_flight:
            raise ProtocolError("an answer to credentials that were not shown")
        request = self._auths_in_flight.popleft()
        if code == OK:
            if request is not None:
                self._succeed(request, None)
        else:
            if request is not None:
                self._fail(request, code)
            self._end(State.AUTH_FAILED)

    def _answered(self, header: ReplyHeader, body: bytes) -> None:
        if not self._in_flight:
            raise ProtocolError(f"an answer with xid {header.xid}, but nothing was asked")
        xid, request = self._in_flight[0]
        if xid != header.xid:
            raise ProtocolError(f"an answer with xid {header.xid}; the next one must have {xid}")
        if request is None:
            self._in_flight.popleft()
            return
        outcome = self._outcome(request, header.err, body)  # raises before the request is taken out
        self._in_flight.popleft()
        if request.register is not None:
            request.register(self.watches, header.err)
        if request.removes is not None:
            outcome = self._remove_watches(request, header.err)
        if isinstance(outcome, ServerError):
            request.fail(outcome)
        else:
            request.succeed(outcome)
        self._outputs.append(request)
        if request.op is OpCode.CLOSE_SESSION:
            self._end(State.CLOSED)

    def _outcome(self, request: AnyRequest, code: int, body: bytes) -> object:
        if code != OK:
            return server_error(code, request.path)
        try:
            return request.decode(body)
        except ServerError as error:  # a multi's errors are in its body
            return error

    # --- Ends.

    def _remove_watches(self, request: AnyRequest, code: int) -> ServerError | None:
        """Forget watches here too, once the server has or, if local, even if it could not be asked."""
        path, kind = request.watch_path, request.removes
        assert path is not None
        assert kind is not None
        if not self.watches.holds(path, kind):
            return server_error(NO_WATCHER, request.path)
        if code != OK and not request.is_local:
            return server_error(code, request.path)
        is_lost = code in (CONNECTION_LOSS, SESSION_EXPIRED)
        state = KeeperState.DISCONNECTED if is_lost else KeeperState.SYNC_CONNECTED
        for event in self.watches.remove(path, kind):
            self._outputs.append(WatchedEvent(state, event, self.chroot.to_client(path)))
        return None

    def _lose(self, request: AnyRequest) -> None:
        """Complete a request that no server will answer."""
        code = _CODE_WHEN_OVER.get(self.state, CONNECTION_LOSS)
        if request.removes is not None:
            error = self._remove_watches(request, code)
            if error is None:
                self._succeed(request, None)
            else:
                self._fail(request, error.code)
        else:
            self._fail(request, code)

    def _lose_all_sent(self) -> None:
        lost = [request for _, request in self._in_flight if request is not None]
        lost += [request for request in self._auths_in_flight if request is not None]
        self._forget_connection()
        for request in lost:
            self._lose(request)

    def _succeed(self, request: AnyRequest, result: object) -> None:
        request.succeed(result)
        self._outputs.append(request)

    def _fail(self, request: AnyRequest, code: int) -> None:
        request.fail_with(code)
        self._outputs.append(request)

    def _end(self, state: State) -> None:
        """The session is over: everybody who waits is told, then the owner."""
        self.state = state
        self._lose_all_sent()
        self.fail_queued()
        if state is State.EXPIRED:
            self._tell_state(KeeperState.EXPIRED)
        elif state is State.AUTH_FAILED:
            self._tell_state(KeeperState.AUTH_FAILED)
        self._tell_state(KeeperState.CLOSED)

    def _tell_state(self, state: KeeperState) -> None:
        if state is not self._last_state:
            self._last_state = state
            self._outputs.append(WatchedEvent(state, EventType.NONE, None, NO_ZXID))
