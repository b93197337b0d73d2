"""Ports that belong to the test: what arrives at one is passed on to a server, or is not.

A relay owns its port from the beginning to the end of its life, so a server keeps its address while it is
dead, and no other process can take it. Behind the relay the server listens wherever the system lets it.
The port is held by a socket that never listens; a second socket on the same port (SO_REUSEPORT) listens
while somebody is to be let in. So a connection is refused at once while nobody is.

All relays of a process share one thread, which starts with the first of them. A process that was forked from
this one has neither that thread nor, thanks to forks.py, any of the sockets.

Invariants, of the thread's side:
  1. Bytes leave in the order in which they came, none before its time is due.
  2. A link holds at most HELD_BYTES_MAX for each direction, and reads no more until some are gone.
  3. While a relay is silent, none of its links reads or sends.
"""

import collections
import errno
import heapq
import itertools
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from . import forks
from .errors import ServerError

HOST = "127.0.0.1"
HELD_BYTES_MAX = 4 * 1024 * 1024
RECEIVE_BYTES = 64 * 1024
BACKLOG = 1024
CALL_SECONDS_MAX = 30.0
NO_FILES_SECONDS = 0.05  # until the next try to accept, while this process may open no more files
_UNDER_WAY = (0, errno.EINPROGRESS)

T = TypeVar("T")


class Half:
    """One direction of a link: what was received from one end and is still to be sent to the other."""

    def __init__(self) -> None:
        self.chunks: collections.deque[tuple[float, bytes]] = collections.deque()
        self.held_bytes = 0
        self.has_ended = False  # the sender has stopped sending
        self.is_shut = False  # and the receiver has been told

    def add(self, data: bytes, due: float) -> None:
        self.chunks.append((due, data))
        self.held_bytes += len(data)

    def sent(self, count: int) -> None:
        due, data = self.chunks.popleft()
        self.held_bytes -= count
        if count < len(data):
            self.chunks.appendleft((due, data[count:]))

    @property
    def due(self) -> float | None:
        """When its next chunk may leave."""
        return self.chunks[0][0] if self.chunks else None


class Link:
    """A client's connection and the one made for it behind the relay."""

    def __init__(
        self, loop: "RelayLoop", relay: "Relay", client: socket.socket, server: socket.socket
    ) -> None:
        self._loop = loop
        self.relay = relay
        self._ends = (client, server)
        self._halves = {client: Half(), server: Half()}  # by the end that sends
        self._masks = {client: 0, server: 0}
        self._is_connected = False

    def _other(self, end: socket.socket) -> socket.socket:
        return self._ends[1] if end is self._ends[0] else self._ends[0]

    def ready(self, end: socket.socket, mask: int) -> None:
        """A socket can be read or written."""
        if end is self._ends[1] and not self._is_connected:
            if end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self.close()
                return
            self._is_connected = True
        elif not self.relay.is_silent:
            try:
                if mask & selectors.EVENT_READ:
                    self._receive(end)
                if mask & selectors.EVENT_WRITE:
                    self._send(end)
            except BlockingIOError:
                pass
            except OSError:
                self.close()
                return
        self.update()

    def _receive(self, end: socket.socket) -> None:
        data, half = end.recv(RECEIVE_BYTES), self._halves[end]
        if data:
            half.add(data, time.monotonic() + self.relay.delay_seconds)
        else:
            half.has_ended = True

    def _send(self, end: socket.socket) -> None:
        half, now = self._halves[self._other(end)], time.monotonic()
        while half.due is not None and half.due <= now:
            half.sent(end.send(half.chunks[0][1]))

    def update(self) -> None:
        """Ask for the events that matter now; close once both directions have ended."""
        now = time.monotonic()
        for end in self._ends:
            outgoing = self._halves[self._other(end)]
            if outgoing.has_ended and not outgoing.chunks and not outgoing.is_shut:
                outgoing.is_shut = True
                try:
                    end.shutdown(socket.SHUT_WR)
                except OSError:
                    self.close()
                    return
        if all(half.is_shut for half in self._halves.values()):
            self.close()
            return
        for end in self._ends:
            self._ask(end, self._wanted(end, now))

    def _wanted(self, end: socket.socket, now: float) -> int:
        if not self._is_connected:
            return selectors.EVENT_WRITE if end is self._ends[1] else 0
        if self.relay.is_silent:
            return 0
        incoming, outgoing, mask = self._halves[end], self._halves[self._other(end)], 0
        if not incoming.has_ended and incoming.held_bytes < HELD_BYTES_MAX:
            mask |= selectors.EVENT_READ
        if outgoing.due is not None:
            if outgoing.due <= now:
                mask |= selectors.EVENT_WRITE
            else:
                self._loop.wake_at(outgoing.due, self._update_if_open)
        return mask

    def _update_if_open(self) -> None:
        if self in self.relay.links:
            self.update()

    def _ask(self, end: socket.socket, mask: int) -> None:
        before, self._masks[end] = self._masks[end], mask
        if mask == before:
            return
        if not before:
            self._loop.selector.register(end, mask, self)
        elif not mask:
            self._loop.selector.unregister(end)
        else:
            self._loop.selector.modify(end, mask, self)

    def close(self) -> None:
        for end in self._ends:
            self._ask(end, 0)
            end.close()
        self.relay.links.discard(self)

    def descriptors(self) -> list[int]:
        return [end.fileno() for end in self._ends]


class Relay:
    """One port of a test. Any thread may call any method, which has taken effect when it returns."""

    def __init__(self, port: int = 0) -> None:
        self._reservation = reserve_port(port)
        self.port: int = self._reservation.getsockname()[1]
        self.is_silent = False
        self.delay_seconds = 0.0
        self.links: set[Link] = set()
        self._listener: socket.socket | None = None
        self._process: _Process | None = None
        self._target_port = 0
        self._loop = relay_loop()
        forks.owners.add(self)

    def open(self, target_port: int, pid: int | None = None) -> None:
        """Let connections in, and pass them on to a port of this machine, while the process `pid` lives."""

        def begin() -> None:
            self._target_port = target_port
            if self._listener is None:
                self._listener = _bound(self.port, socket.SO_REUSEPORT, socket.SO_REUSEADDR)
                self._listener.setblocking(False)
                self._listener.listen(BACKLOG)
                self._listen()
            self._watch(pid)

        self._loop.call(begin)

    def refuse(self) -> None:
        """Refuse connections from now on, and end those there are."""
        self._loop.call(self._stop_listening)
        self.drop()

    def drop(self) -> None:
        """End all connections, as a network that breaks down does."""

        def end() -> None:
            for link in list(self.links):
                link.close()

        self._loop.call(end)

    def silence(self, is_silent: bool) -> None:
        """Hold everything back, in both directions, or let it go."""

        def change() -> None:
            self.is_silent = is_silent
            for link in list(self.links):
                link.update()

        self._loop.call(change)

    def delay(self, seconds: float) -> None:
        """Pass on whatever comes from now on so many seconds later."""

        def change() -> None:
            self.delay_seconds = seconds

        self._loop.call(change)

    def close(self) -> None:
        """Give the port back."""
        self.refuse()
        self._reservation.close()

    def descriptors(self) -> Iterator[int]:
        """What is open; see forks.py."""
        yield self._reservation.fileno()
        if self._listener is not None:
            yield self._listener.fileno()
        if self._process is not None:
            yield self._process.fileno()
        for link in self.links:
            yield from link.descriptors()

    # -- in the relays' thread

    def _listen(self) -> None:
        if self._listener is not None:
            self._loop.selector.register(self._listener, selectors.EVENT_READ, self)

    def _stop_listening(self) -> None:
        if self._listener is not None:
            if self._listener in self._loop.selector.get_map():
                self._loop.selector.unregister(self._listener)
            self._listener.close()
            self._listener = None
        self._watch(None)

    def _watch(self, pid: int | None) -> None:
        """Refuse connections once this process ends, and no longer heed the one before it."""
        if self._process is not None:
            self._process.close()
        self._process = _Process.watched(pid, self) if pid is not None else None

    def process_ended(self) -> None:
        self._stop_listening()
        for link in list(self.links):
            link.close()

    def ready(self, listener: socket.socket, _mask: int) -> None:
        """Somebody connects."""
        try:
            client, _ = listener.accept()
        except OSError as failure:
            if failure.errno in (errno.EMFILE, errno.ENFILE):
                self._loop.selector.unregister(listener)
                self._loop.wake_at(time.monotonic() + NO_FILES_SECONDS, self._listen_again(listener))
            return  # else it is gone again
        try:
            server = socket.socket()
        except OSError:
            client.close()
            return
        for end in (client, server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = Link(self._loop, self, client, server)
        self.links.add(link)
        if server.connect_ex((HOST, self._target_port)) not in _UNDER_WAY:
            link.close()
        else:
            link.update()

    def _listen_again(self, listener: socket.socket) -> Callable[[], None]:
        return lambda: self._listen() if self._listener is listener else None


class _Process:
    """The process behind a relay, as a file that can be read once it has ended."""

    def __init__(self, descriptor: int, relay: Relay, loop: "RelayLoop") -> None:
        self._descriptor = descriptor
        self._relay = relay
        self._loop = loop
        loop.selector.register(self, selectors.EVENT_READ, self)

    @classmethod
    def watched(cls, pid: int, relay: Relay) -> "_Process | None":
        """None where the system cannot do it: a server that dies by itself is then noticed later."""
        try:
            return cls(os.pidfd_open(pid), relay, relay_loop())
        except (AttributeError, OSError):
            return None

    def fileno(self) -> int:
        return self._descriptor

    def ready(self, _process: object, _mask: int) -> None:
        self._relay.process_ended()

    def close(self) -> None:
        self._loop.selector.unregister(self)
        os.close(self._descriptor)


class RelayLoop:
    """The thread that carries all relays' bytes."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self._calls: collections.deque[Callable[[], None]] = collections.deque()
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._waker, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self.selector.register(self._woken, selectors.EVENT_READ, None)
        threading.Thread(target=self._run, name="triokeeper-relays", daemon=True).start()
        forks.owners.add(self)

    def descriptors(self) -> list[int]:
        """What is open; see forks.py."""
        own = [self._waker.fileno(), self._woken.fileno()]
        return own + ([self.selector.fileno()] if hasattr(self.selector, "fileno") else [])

    def call(self, action: Callable[[], T]) -> T:
        """Run something in the relays' thread, from any other, and return what it does."""
        is_done = threading.Event()
        values: list[T] = []
        failures: list[BaseException] = []

        def act() -> None:
            try:
                values.append(action())
            except BaseException as failure:
                failures.append(failure)
            is_done.set()

        self._calls.append(act)
        self._waker.send(b"\0")
        if not is_done.wait(CALL_SECONDS_MAX):
            raise TimeoutError("the relays' thread does not answer")
        if failures:
            raise failures[0]
        return values[0]

    def wake_at(self, due: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._alarms, (due, next(self._numbers), action))

    def _run(self) -> None:
        while True:
            for key, mask in self.selector.select(self._seconds_to_wait()):
                if key.data is None:
                    self._answer_calls()
                elif self._is_registered(key.fd, key.fileobj):
                    key.data.ready(key.fileobj, mask)
            while self._alarms and self._alarms[0][0] <= time.monotonic():
                _, _, action = heapq.heappop(self._alarms)
                action()

    def _is_registered(self, descriptor: int, file: object) -> bool:
        """Whether it still is: in the same round it may have been closed, and its number used again."""
        current = self.selector.get_map().get(descriptor)
        return current is not None and current.fileobj is file

    def _seconds_to_wait(self) -> float | None:
        return max(0.0, self._alarms[0][0] - time.monotonic()) if self._alarms else None

    def _answer_calls(self) -> None:
        self._woken.recv(4096)
        while self._calls:
            self._calls.popleft()()


class _Current:
    """The loop of this process, made when it is first needed."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """A fork does not have the thread, and maybe another thread holds the lock for ever."""
        self.loop: RelayLoop | None = None
        self.lock = threading.Lock()


_current = _Current()
os.register_at_fork(after_in_child=_current.forget)


def relay_loop() -> RelayLoop:
    """The one of this process."""
    with _current.lock:
        if _current.loop is None:
            _current.loop = RelayLoop()
        return _current.loop


def reserve_port(port: int = 0) -> socket.socket:
    """Take a port, any free one if it is 0, that nobody else gets until this socket is closed.

    Whoever is to listen there binds it with SO_REUSEPORT, which lets the same user's sockets share a port. So
    the check that nobody has it comes first, with a socket that shares it only with connections that linger.
    """
    try:
        if port:
            _bound(port, socket.SO_REUSEADDR).close()
        return _bound(port, socket.SO_REUSEPORT)
    except OSError as failure:
        raise ServerError(
            f"port {port} of {HOST} cannot be had: {failure.strerror}; choose another, or 0 for any free one"
        ) from None


def _bound(port: int, *options: int) -> socket.socket:
    sock = socket.socket()
    for option in options:
        sock.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        sock.bind((HOST, port))
    except OSError:
        sock.close()
        raise
    return sock
