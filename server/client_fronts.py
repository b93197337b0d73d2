"""What drives client conversations: sockets in, sockets out.

Trio's price is per task that wakes up, 15 to 20 us each, not per byte. So all plain sockets share one task:
it waits on an epoll set, then drains every socket that is ready, then sends what came of it. In a
prototype, with 50 synchronous readers: 2.06 times the throughput of the original, against 0.70 for a task
and a stream per connection.

A connection that we end politely, after a four-letter word or a refusal, lingers: closing a socket with
unread input resets it, and a reset overtakes the reply. `echo ruok | nc` would at times see nothing, because
its newline came late. So we stop sending, discard what still comes, and close when the client does, or once
LINGER_MS or LINGER_BYTES are exceeded.

`PlainFront` is that task. Where there is no epoll, the front in stream_front.py serves each connection in a
task of its own; it drives the same conversations over any Trio stream.
"""

import errno
import os
import select
import socket
from collections import Counter, deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import Final

import attrs
import trio

from eventlog import log
from persistence.open_files import files_for_clients
from server import slices
from server.client_protocol import CLOSED, FRESH, ClientConnection
from server.clock import Clock
from server.loop_meter import REQUEST
from server.pipeline import Pipeline
from server.slices import ACCEPT_STEPS, BYTES_PER_STEP, FLUSH_STEPS

RECEIVE_BYTES: Final = 64 * 1024
LINGER_MS: Final = 2_000
LINGER_BYTES: Final = 1024 * 1024
_JOINED_BYTES_MAX: Final = 256 << 10  # what is more is sent piece by piece
_PIECES_AT_ONCE: Final = 64
_SMALL_PIECE_BYTES: Final = 512  # which take more memory by themselves than what they say
_TURN_BYTES: Final = 1 << 20  # that one socket takes before others have their turn
_ACCEPTS_PER_BATCH: Final = 256
_EVENTS_PER_BATCH: Final = 4096  # of a crowd that waits, and of those who do not belong to it
_BATCHES_IN_A_ROW: Final = 4  # before other tasks get their turn
_OUT_OF_FILES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
# Linux tells of what happened to a connection before it was accepted, and of a firewall that forbids it.
_LOST_BEFORE_ACCEPTED: Final = (
    errno.ECONNRESET,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ENOPROTOOPT,
    errno.EOPNOTSUPP,
    errno.EPERM,
    errno.EPROTO,
    errno.ETIMEDOUT,
)


@attrs.frozen(kw_only=True)
class FrontLimits:
    """Connections a listener accepts; 0 is no limit."""

    per_address_max: int = 60
    total_max: int = 0
    idle_ms: int = 10_000
    keepalive: bool = False
    has_peers: bool = False  # other servers need open files too


def client_address(address: tuple[object, ...]) -> str:
    """The text of a peer's address as Java writes it: IPv6 in eight groups, mapped IPv4 as IPv4."""
    host = str(address[0])
    if ":" not in host:
        return host
    bare, percent, zone = host.partition("%")
    packed = socket.inet_pton(socket.AF_INET6, bare)
    if packed.startswith(bytes(10) + b"\xff\xff"):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    groups = (packed[i : i + 2].hex().lstrip("0") or "0" for i in range(0, 16, 2))
    return ":".join(groups) + percent + zone


def admits(limits: FrontLimits, pipeline: Pipeline, address: str, same_address: int, total: int) -> bool:
    """Whether one more connection is allowed; it is counted either way."""
    if limits.total_max and total >= limits.total_max:
        log.warning(f"Too many connections max allowed is {limits.total_max}")
    elif limits.per_address_max and same_address >= limits.per_address_max:
        log.warning(f"Too many connections from /{address} - max is {limits.per_address_max}")
    else:
        pipeline.stats.connections_made += 1
        return True
    pipeline.stats.connections_rejected += 1
    return False


def is_idle(connection: ClientConnection, limits: FrontLimits, now: int) -> bool:
    """Whether a connection has been silent too long: no handshake, or a session's whole timeout.

    As in the original, the time is rounded up to the next multiple of the limit.
    """
    step = limits.idle_ms
    if step <= 0:
        return False
    allowed = step if connection.state == FRESH else max(connection.timeout_ms, step)
    return now > ((connection.heard_ms + allowed) // step + 1) * step


class Peer:
    """One socket and the conversation it carries.

    Output that the socket does not take is in `waiting`, as it came: joined, every event for a client that
    does not read would copy all the events before it, and a reply of many megabytes would be there twice.
    """

    __slots__ = (
        "connection",
        "discarded_bytes",
        "event",
        "fd",
        "front",
        "interest",
        "lingers_since_ms",
        "sock",
        "waiting",
        "waiting_bytes",
    )

    def __init__(self, front: "PlainFront", sock: socket.socket, address: tuple[object, ...]) -> None:
        self.front = front
        self.sock = sock
        self.fd = sock.fileno()
        self.waiting: deque[bytes | memoryview] = deque()  # the first may be the rest of a piece
        self.waiting_bytes = 0
        self.interest = select.EPOLLIN
        self.event = 0  # that is still to be served
        self.lingers_since_ms = 0
        self.discarded_bytes = 0
        port = address[1] if len(address) > 1 else 0
        assert isinstance(port, int)
        self.connection = ClientConnection(front.pipeline, self, client_address(address), port)

    def wants_flush(self) -> None:
        self.front.to_flush.append(self)

    def resume_reading(self) -> None:
        self.set_interest(self.interest | select.EPOLLIN)

    def set_interest(self, interest: int) -> None:
        if interest != self.interest and self.fd >= 0:
            self.interest = interest
            self.front.poll.modify(self.fd, interest)

    def receive(self) -> None:
        connection = self.connection
        try:
            data = self.sock.recv(RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.front.pipeline.stats.connections_lost += 1
            self.front.drop(self)
            return
        self.front.pipeline.stats.bytes_received += len(data)
        connection.received(data)
        self.front.pipeline.meter.noted(REQUEST, connection.session_id, connection.last_op)
        if connection.is_paused or connection.state == CLOSED:
            self.set_interest(self.interest & ~select.EPOLLIN)

    def flush(self) -> None:
        """Send what there is, as far as the socket takes it."""
        connection = self.connection
        connection.is_flush_wanted = False
        out = connection.out
        if connection.is_cut_off:
            self.front.drop(self)
        elif out:
            sent_frames = len(out)
            if connection.pieces_in_out:
                sent_frames -= connection.pieces_in_out
                connection.pieces_in_out = 0
            connection.sent_count += sent_frames
            stats = self.front.pipeline.stats
            stats.packets_sent += sent_frames
            if sent_frames == len(out):
                stats.responses.add_batch(out)
            if self.waiting or connection.out_bytes > _JOINED_BYTES_MAX:
                self._wait(out)
                return
            data = out[0] if len(out) == 1 else b"".join(out)
            out.clear()
            self._send(data)
        elif connection.closes_after_flush and not self.waiting:
            self.front.linger(self)

    def _wait(self, out: list[bytes]) -> None:
        """Queue output behind what is waiting, and send as much as the socket takes if nothing was."""
        was_waiting = bool(self.waiting)
        out_bytes = sum(map(len, out))
        if out_bytes < len(out) * _SMALL_PIECE_BYTES:
            self.waiting.append(b"".join(out))
        else:
            self.waiting += out
        self.waiting_bytes += out_bytes
        out.clear()
        if was_waiting:
            self.connection.flushed(self.waiting_bytes)
        else:
            self.send_waiting()

    def send_waiting(self) -> None:
        """The socket may take bytes: send of what waits as much as is fair to others in one turn."""
        waiting, turn_bytes = self.waiting, 0
        while waiting and turn_bytes < _TURN_BYTES:
            try:
                sent = self.sock.sendmsg(list(islice(waiting, _PIECES_AT_ONCE)))
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self.front.drop(self)
                return
            turn_bytes += sent
            while sent:
                first = len(waiting[0])
                if first > sent:
                    waiting[0] = memoryview(waiting[0])[sent:]
                    break
                sent -= first
                waiting.popleft()
        self.waiting_bytes -= turn_bytes
        self.front.pipeline.steps += FLUSH_STEPS + turn_bytes // BYTES_PER_STEP
        self.front.pipeline.stats.bytes_sent += turn_bytes
        self._sent()

    def _sent(self) -> None:
        if self.waiting:
            self.set_interest(self.interest | select.EPOLLOUT)
        elif self.connection.closes_after_flush:
            self.front.linger(self)
            return
        elif self.interest & select.EPOLLOUT:
            self.set_interest(self.interest & ~select.EPOLLOUT)
        self.connection.flushed(self.waiting_bytes)

    def forget_output(self) -> None:
        self.waiting.clear()
        self.waiting_bytes = 0

    def _send(self, data: bytes) -> None:
        """Send what was all there is to say."""
        try:
            sent = self.sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self.front.drop(self)
            return
        self.front.pipeline.stats.bytes_sent += sent
        if sent < len(data):
            self.waiting.append(memoryview(data)[sent:])
            self.waiting_bytes = len(data) - sent
        self._sent()

    def discard(self) -> bool:
        """Read and forget what a client sends whose conversation is over; False once it should be closed."""
        try:
            count = len(self.sock.recv(RECEIVE_BYTES))
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        self.discarded_bytes += count
        return count > 0 and self.discarded_bytes <= LINGER_BYTES


class Nobody:
    """The handle of a connection that is over."""

    def wants_flush(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


_NOBODY: Final = Nobody()


class PlainFront:
    """All plain connections of one listener, in one task over an epoll set.

    Every socket is owned here: registered when accepted, closed by `_close` and nowhere else. It is in
    `peers` while it carries a conversation, in `lingering` after that, and counts for its address in both.
    """

    def __init__(self, pipeline: Pipeline, limits: FrontLimits, clock: Clock) -> None:
        self.pipeline = pipeline
        self.limits = limits
        self._clock = clock
        self.poll = select.epoll()
        self._alarm = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.poll.register(self._alarm, select.EPOLLIN)
        self.peers: dict[int, Peer] = {}
        self.lingering: dict[int, Peer] = {}
        self.to_flush: deque[Peer] = deque()
        self._ready: deque[Peer] = deque()  # that had to wait for the next batch
        self._silent: deque[Peer] = deque()  # that are to be closed for it
        self._by_address: Counter[str] = Counter()
        self._is_accepting = True
        self._files_max = files_for_clients(has_peers=limits.has_peers)

    @property
    def connections(self) -> Iterable[ClientConnection]:
        return (peer.connection for peer in self.peers.values())

    async def run(self, listener: socket.socket) -> None:
        """Serve a listening socket until cancelled."""
        self.listen(listener)
        try:
            while True:
                await trio.lowlevel.wait_readable(self.poll.fileno())
                self.serve()
        finally:
            self.close()

    def serve(self) -> None:
        """Serve whoever speaks, as long as that is no more than a slice."""
        self.pipeline.begin_batch(self._clock.now_ms(), self._clock.wall_ms())
        for _ in range(_BATCHES_IN_A_ROW):
            was_ready = self._serve_batch()
            if not was_ready or self.pipeline.steps >= slices.STEPS_PER_SLICE:
                break
            self.pipeline.continue_batch(self._clock.now_ms(), self._clock.wall_ms())

    def listen(self, listener: socket.socket) -> None:
        """Accept connections here from now on."""
        self._listener, self._listener_fd = listener, listener.fileno()
        self._is_accepting = True
        self.poll.register(listener, select.EPOLLIN)

    def stop_listening(self) -> tuple[object, ...]:
        """Let nobody in, until `listen` follows; those who are in stay. Returns where it was."""
        address: tuple[object, ...] = self._listener.getsockname()
        self.poll.unregister(self._listener_fd)
        self._listener.close()
        return address

    def _serve_batch(self) -> bool:
        """Serve all sockets that are ready; was there any?"""
        was_ready = self._serve_ready()
        if self._silent:
            self._close_silent()
        self.pipeline.resume_paused()
        self.flush()
        self.pipeline.end_batch(self._clock.now_ms())
        return was_ready

    def _serve_ready(self) -> bool:
        """Serve sockets until a slice is over. Those that are left have half of the next one: who speaks now
        and then does not wait until a whole crowd has been served."""
        pipeline, waiting = self.pipeline, self._ready
        steps_max = slices.STEPS_PER_SLICE // 2 if waiting else slices.STEPS_PER_SLICE
        ready = self.poll.poll(0, _EVENTS_PER_BATCH)
        for fd, event in ready:
            peer = self.peers.get(fd)
            if peer is not None:
                if peer.event:  # it waits already
                    peer.event |= event
                elif pipeline.steps < steps_max:
                    self._serve_peer(peer, event)
                else:
                    peer.event = event
                    waiting.append(peer)
            elif fd == self._listener_fd:
                self._accept(steps_max)
            elif fd == self._alarm:
                os.eventfd_read(self._alarm)
            else:
                self._discard(fd)
        while waiting and pipeline.steps < slices.STEPS_PER_SLICE:
            peer = waiting.popleft()
            event, peer.event = peer.event, 0
            if self.peers.get(peer.fd) is peer:
                self._serve_peer(peer, event)
        return bool(ready)

    def _serve_peer(self, peer: Peer, event: int) -> None:
        if event & ~select.EPOLLOUT:
            if peer.connection.is_paused and event & (select.EPOLLHUP | select.EPOLLERR):
                self.drop(peer)
                return
            peer.receive()
        if event & select.EPOLLOUT and peer.fd >= 0 and peer.waiting:
            peer.send_waiting()

    def flush(self) -> None:
        """Send what conversations have to say; called at the end of every batch, whoever started it."""
        to_flush, pipeline = self.to_flush, self.pipeline
        steps_max = pipeline.steps + slices.STEPS_PER_SLICE
        while to_flush and pipeline.steps < steps_max:
            peer = to_flush.popleft()
            if peer.fd >= 0:
                peer.flush()
                pipeline.steps += FLUSH_STEPS
        if self._silent or ((to_flush or self._ready or pipeline.resumable) and self.peers):
            os.eventfd_write(self._alarm, 1)  # in a batch of its own: others may have spoken meanwhile

    def _accept(self, steps_max: int) -> None:
        for number in range(_ACCEPTS_PER_BATCH):
            if number and self.pipeline.steps >= steps_max:
                return
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as failure:
                self._accept_failed(failure)
                return
            if sock.fileno() >= self._files_max:
                _reset(sock)
                self._out_of_files("clients have all the files they may have")
                return
            self._admit(sock, address)
            self.pipeline.steps += ACCEPT_STEPS

    def _accept_failed(self, failure: OSError) -> None:
        if failure.errno in _LOST_BEFORE_ACCEPTED:
            return
        if failure.errno not in _OUT_OF_FILES:
            raise failure
        self._out_of_files(str(failure))

    def _out_of_files(self, reason: str) -> None:
        """Stop accepting until a connection ends, instead of spinning."""
        log.error("accept_failed", reason=reason, remedy="raise the limit of open files (ulimit -n)")
        self._is_accepting = False
        self.poll.modify(self._listener_fd, 0)

    def resume_accepting(self) -> None:
        if not self._is_accepting:
            self._is_accepting = True
            self.poll.modify(self._listener_fd, select.EPOLLIN)

    def _admit(self, sock: socket.socket, address: tuple[object, ...]) -> None:
        text = client_address(address)
        if not admits(
            self.limits, self.pipeline, text, self._by_address[text], len(self.peers) + len(self.lingering)
        ):
            _reset(sock)
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.limits.keepalive:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        peer = Peer(self, sock, address)
        self._by_address[text] += 1
        self.peers[peer.fd] = peer
        self.poll.register(peer.fd, select.EPOLLIN)

    def drop(self, peer: Peer) -> None:
        """Close a socket and forget its conversation."""
        if self.peers.pop(peer.fd, None) is None:
            return  # closed already, or its conversation is over and it lingers
        peer.forget_output()
        peer.connection.lost()
        self._close(peer)

    def linger(self, peer: Peer) -> None:
        """All is said: stop sending, and close when the client has done so too."""
        try:
            peer.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.drop(peer)
            return
        if self.peers.pop(peer.fd, None) is None:
            return  # it lingers already
        peer.connection.lost()
        peer.lingers_since_ms = self.pipeline.now_ms
        peer.set_interest(select.EPOLLIN)
        self.lingering[peer.fd] = peer

    def _discard(self, fd: int) -> None:
        peer = self.lingering.get(fd)  # None if it was dropped earlier in this batch
        if peer is not None and not peer.discard():
            self._end_lingering(peer)

    def _end_lingering(self, peer: Peer) -> None:
        del self.lingering[peer.fd]
        self._close(peer)

    def _close(self, peer: Peer) -> None:
        self.pipeline.steps += ACCEPT_STEPS
        peer.fd = -1
        peer.connection.handle = _NOBODY  # so that no circle of the two is left behind
        peer.sock.close()  # leaves the epoll set by itself
        address = peer.connection.address
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        self.pipeline.stats.connections_dropped += 1
        self.resume_accepting()

    def close_idle(self) -> None:
        """Close who has been silent too long: a crowd of them in slices."""
        if not self._silent:
            self._silent += filter(self._is_idle, self.peers.values())
            self._silent += filter(self._has_lingered, self.lingering.values())
        self._close_silent()

    def _close_silent(self) -> None:
        pipeline = self.pipeline
        steps_max = pipeline.steps + pipeline.steps_left
        while self._silent and pipeline.steps < steps_max:
            peer = self._silent.popleft()
            if self.lingering.get(peer.fd) is peer:
                self._end_lingering(peer)
            elif self.peers.get(peer.fd) is peer and self._is_idle(peer):
                pipeline.stats.connections_idle += 1
                self.drop(peer)

    def _is_idle(self, peer: Peer) -> bool:
        return is_idle(peer.connection, self.limits, self.pipeline.now_ms)

    def _has_lingered(self, peer: Peer) -> bool:
        return self.pipeline.now_ms - peer.lingers_since_ms > LINGER_MS

    def close(self) -> None:
        for peer in list(self.peers.values()):
            self.drop(peer)
        for peer in list(self.lingering.values()):
            self._end_lingering(peer)
        self.poll.close()
        os.close(self._alarm)
        self._listener.close()


def _reset(sock: socket.socket) -> None:
    """Close at once and without a word."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    sock.close()
