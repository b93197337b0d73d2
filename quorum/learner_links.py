"""A connection between a leader and one of its learners: packets both ways, many at a time.

What is to be sent is queued at once, by whoever has it, and leaves when `flush` is called: everything queued
in one piece, on the spot if the socket takes it. (To wake a task for that costs more than the send, and the
fsync of a leader must not begin before its proposals are on their way.) What arrives is handed over in
batches: all packets that one read of the stream completed.
"""

import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, runtime_checkable

import trio

from jute.record import DecodeError, Truncated
from persistence.open_files import files_for_peers
from quorum.errors import PeerError
from quorum.network import repeat_soon
from quorum.packets import IdsScan, Packet, read_packet, read_packets

_RECEIVE_BYTES = 256 << 10
# A learner that takes nothing for so long that this much waits for it is let go: it can come back and be
# brought up to date from the log.
QUEUED_BYTES_MAX = 256 << 20
_LAST_WORD_S_MAX = 1.0


class Direct(Protocol):
    """The way into a connection without waiting, as a socket that does not block offers it."""

    def send(self, data: bytes, /) -> int:
        """Take some of the data; returns how much. Raises OSError if it takes none."""

    def close(self) -> None: ...


@runtime_checkable
class HasDirect(Protocol):
    """A stream without a socket that can be sent to without waiting: a simulated one."""

    def direct(self) -> Direct: ...


class LearnerLink:
    """One end of the connection; the other may be Apache's."""

    def __init__(
        self, stream: trio.abc.Stream, *, data_bytes_max: int, queued_bytes_max: int | None = None
    ) -> None:
        self.stream = stream
        repeat_soon(stream)
        self._data_bytes_max = data_bytes_max
        self._queued_bytes_max = QUEUED_BYTES_MAX if queued_bytes_max is None else queued_bytes_max
        self._received = b""
        self._at = 0  # what lies before is done with: cutting it off for each packet would copy all the rest
        self._scan = IdsScan()  # of the packet that is not all there yet
        self._queue: list[bytes] = []
        self.queued_bytes = 0
        self._direct: Direct | None = None  # the stream's own socket, from the first flush on
        self._is_direct_known = False
        self._is_sending = False
        self._wake = trio.lowlevel.ParkingLot()
        self._sent = trio.lowlevel.ParkingLot()
        self._is_flush_wanted = False
        self._scope = trio.CancelScope()  # of `carry_on`
        self._abort_reason = ""
        self.server_id: int | None = None  # of the other side, once it has said so
        self._has_received = False
        self.was_closed_unanswered = False  # by the other side, before a single byte came

    # -- receiving

    async def receive(self) -> Packet:
        """The next packet. Nothing behind it is looked at: after SNAP that is not a packet."""
        while (packet := self.next_packet()) is None:
            await self.receive_more()
        return packet

    def next_packet(self) -> Packet | None:
        """The next packet if all of it has arrived, without waiting."""
        try:
            packet, self._at = read_packet(self._received, self._at, self._data_bytes_max, self._scan)
        except Truncated:
            return None
        except DecodeError as failure:
            raise PeerError(str(failure)) from failure
        return packet

    async def receive_more(self) -> None:
        """Wait until something arrives."""
        self._received = self._rest()
        self._received += await self._receive_some()

    async def receive_batch(self) -> list[Packet]:
        """At least one packet, and all that are there with it."""
        while True:
            self._received = self._rest()
            try:
                packets, self._at = read_packets(self._received, self._data_bytes_max, self._scan)
            except DecodeError as failure:
                raise PeerError(str(failure)) from failure
            if packets:
                return packets
            await self.receive_more()

    async def receive_raw(self) -> bytes:
        """Bytes that are not packets: part of a snapshot."""
        received, self._received = self._rest(), b""
        return received or await self._receive_some()

    def put_back(self, data: bytes) -> None:
        """What `receive_raw` gave too much."""
        self._received = data + self._rest()

    def _rest(self) -> bytes:
        """What is not done with; to be kept, or handed out, by the caller."""
        rest, self._at = self._received[self._at :], 0
        return rest

    async def _receive_some(self) -> bytes:
        try:
            data = bytes(await self.stream.receive_some(_RECEIVE_BYTES))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as failure:
            self.was_closed_unanswered = not self._has_received
            raise PeerError("the connection broke") from failure
        if not data:
            self.was_closed_unanswered = not self._has_received
            raise PeerError("the other side closed the connection")
        self._has_received = True
        return data

    # -- sending

    def send(self, data: bytes) -> None:
        """Queue a packet, or several in one; `flush` must follow."""
        self._queue.append(data)
        self.queued_bytes += len(data)
        if self.queued_bytes > self._queued_bytes_max:
            self.abort(f"{self.queued_bytes} bytes wait to be taken")

    def flush(self) -> None:
        """Let what is queued leave: at once as far as the socket takes it, the rest by the task."""
        if not self._queue or self._is_flush_wanted:
            return
        if not self._is_direct_known:  # not before: it is one more open file
            self._is_direct_known = True
            self._direct = _same_socket(self.stream)
        if self._direct is not None and not self._is_sending:
            self._send_on_the_spot(self._direct)
            if not self._queue:
                return
        self._is_flush_wanted = True
        self._wake.unpark()

    def _send_on_the_spot(self, direct: Direct) -> None:
        data = b"".join(self._queue)
        try:
            sent = direct.send(data)
        except OSError:  # it would block; or the connection broke, which the task will find out
            sent = 0
        self._queue = [data[sent:]] if sent < len(data) else []
        self.queued_bytes = len(data) - sent

    async def send_now(self, data: bytes) -> None:
        """Send ahead of the queue, whose task must not be running."""
        try:
            await self.stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as failure:
            self.was_closed_unanswered = not self._has_received
            raise PeerError("the connection broke") from failure

    async def send_queued(self) -> None:
        """The sending task: runs until cancelled, or raises PeerError."""
        while True:
            if not self._is_flush_wanted:
                await self._wake.park()
            self._is_flush_wanted = False
            queued, self._queue, self.queued_bytes = self._queue, [], 0
            self._is_sending = True
            await self.send_now(b"".join(queued))
            self._is_sending = False
            self._sent.unpark_all()

    async def say_last(self) -> None:
        """Let what is queued leave, by the task, and be read, before the link is closed: to close with unread
        input resets the connection, and a reset overtakes what was said. So discard input until the other
        side has closed, too; not for long, since it may be gone."""
        with trio.move_on_after(_LAST_WORD_S_MAX), suppress(PeerError):
            self.flush()
            while self._queue or self._is_sending:
                await self._sent.park()
            if isinstance(self.stream, trio.abc.HalfCloseableStream):
                await self._end_sending(self.stream)
                while True:
                    await self.receive_raw()

    async def _end_sending(self, stream: trio.abc.HalfCloseableStream) -> None:
        try:
            await stream.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as failure:
            raise PeerError("the connection broke") from failure

    # -- from beginning to end

    async def carry_on(self, conversation: Callable[[], Awaitable[None]]) -> str:
        """Returns what ended the conversation, or nothing if it came to its end; the link is closed then."""
        reason = ""
        try:
            with self._scope:
                await conversation()
            reason = self._abort_reason
        except* (PeerError, DecodeError) as failures:
            reason = _first_reason(failures)
        finally:
            await self.close()
        return reason

    def abort(self, reason: str) -> None:
        """Make `carry_on` end."""
        if not self._abort_reason:
            self._abort_reason = reason
            self._scope.cancel()

    @property
    def is_aborted(self) -> bool:
        return bool(self._abort_reason)

    async def close(self) -> None:
        """At once: what is queued is lost."""
        if self._direct is not None:
            self._direct.close()
        await trio.aclose_forcefully(self.stream)


def _same_socket(stream: trio.abc.Stream) -> Direct | None:
    """The socket under the stream, to be used without waiting; None if it has none, or no more files may be
    open: then everything is sent by the task."""
    if isinstance(stream, HasDirect):
        return stream.direct()
    if not isinstance(stream, trio.SocketStream):
        return None
    try:
        duplicate = socket.fromfd(stream.socket.fileno(), stream.socket.family, stream.socket.type)
    except OSError:
        return None
    if duplicate.fileno() >= files_for_peers():
        duplicate.close()
        return None
    duplicate.setblocking(False)
    return duplicate


def ms_since(start_s: float) -> int:
    """How long ago that was, by Trio's clock."""
    return round((trio.current_time() - start_s) * 1000)


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """What is not done in time, that is initLimit, is the other side's fault."""
    try:
        with trio.fail_after(seconds):
            yield
    except trio.TooSlowError as failure:
        raise PeerError(f"the other side took longer than {seconds:g} s (initLimit)") from failure


def _first_reason(failures: BaseExceptionGroup[BaseException]) -> str:
    """Why a link ended: one reason is enough."""
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return str(first)
