"""A session on a plain socket, for one command that asks and goes.

Trio takes a tenth of a second to import, most of the time that `triokeeper cli ls /` would take. So here the
same conversation is carried by a socket and select: the methods are coroutines, as everywhere, but wait for
nothing else, so `run_to_end` needs no event loop. There is no reconnect, and events are dropped.
"""

import random
import select
import socket
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from client.connect_string import ConnectString, host_port
from client.conversation import ServerSilent
from client.errors import ProtocolError
from client.requester import Address, Requester
from client.requests import AnyRequest

T = TypeVar("T")

RECEIVE_BYTES_MAX = 65536
ROUND_PAUSE_S = 0.2  # after all servers were tried in vain
CLOSE_TIMEOUT_S = 2.0


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits for an event loop."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("this waits for something that only an event loop has")


class BlockingSession(Requester):
    """A session for a short time."""

    def __init__(self, servers: ConnectString, timeout_ms: int, read_only: bool = False) -> None:
        super().__init__(servers, timeout_ms, read_only)
        self._socket: socket.socket | None = None
        self._unsent = bytearray()

    def connect(self, wait_s: float) -> None:
        """Try one server after the other until one accepts the session; raises TimeoutError."""
        deadline = time.monotonic() + wait_s
        hosts = random.sample(self.servers.hosts, len(self.servers.hosts))
        share_s = min(
            self._conversation.connect_timeout_s, wait_s / len(hosts)
        )  # so that all have their turn
        while True:
            for address in hosts:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise self._not_reached(wait_s)
                if self._connect_to(address, min(left_s, share_s)):
                    return
            time.sleep(max(0.0, min(ROUND_PAUSE_S, deadline - time.monotonic())))

    def _connect_to(self, address: Address, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        try:
            self._socket = socket.create_connection(address, timeout_s)
        except OSError as problem:
            self.last_problem = ConnectionError(f"{host_port(*address)}: {problem.strerror or problem}")
            return False
        except UnicodeError:
            self.last_problem = ConnectionError(f"{host_port(*address)}: no host can have this name")
            return False
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self.address = address
        self._conversation.connection_made(time.monotonic())
        while self._socket is not None and not self.state.is_connected and not self.state.is_over:
            self._carry(deadline)
        return self.state.is_connected or self.state.is_over

    async def _answered(self, *asked: AnyRequest) -> None:
        while not all(request.is_done for request in asked):
            if self._socket is None:
                self._conversation.fail_queued()
            else:
                self._carry(float("inf"))
        self._conversation.take_outputs()

    def _carry(self, deadline: float) -> None:
        """Wait for the socket once. If it has nothing to offer until the deadline, the connection is lost."""
        try:
            self._exchange(deadline)
        except (OSError, ProtocolError, ServerSilent) as problem:
            assert self.address is not None
            self.last_problem = ConnectionError(f"{host_port(*self.address)}: {problem}")
            self._lose_connection()

    def _exchange(self, deadline: float) -> None:
        assert self._socket is not None
        now_s = time.monotonic()
        if now_s >= deadline:
            raise TimeoutError("does not answer")
        self._unsent += self._conversation.bytes_to_send(now_s)
        to_write = [self._socket] if self._unsent else []
        timeout_s = max(0.0, min(deadline, self._conversation.due_s) - now_s)
        readable, writable, _ = select.select([self._socket], to_write, [], timeout_s)
        if writable:
            del self._unsent[: self._socket.send(self._unsent)]
        if readable:
            data = self._socket.recv(RECEIVE_BYTES_MAX)
            if not data:
                raise ConnectionError("closed the connection")
            self._conversation.received(data, time.monotonic())
        self._conversation.pass_time(time.monotonic())

    def _lose_connection(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = self.address = None
        self._unsent.clear()
        if not self.state.is_over:
            self._conversation.connection_lost()

    def close(self) -> None:
        """End the session on the server too, if it answers in time."""
        request = self._conversation.close()
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        while request is not None and not request.is_done and self._socket is not None:
            self._carry(deadline)
        self._conversation.abandon()
        self._lose_connection()
