"""How servers reach each other: real sockets, or a simulator's.

A host name is looked up anew at every dial: behind a name there may be another machine by now.
"""

import os
from collections.abc import Sequence
from typing import Protocol

import attrs
import trio

from quorum.server_lines import bracketed


class Network(Protocol):
    async def listen(self, host: str | None, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        """Accept connections on an address, or on all of this machine's. Raises OSError."""
        ...

    async def dial(self, host: str, port: int) -> trio.abc.Stream:
        """Connect. Raises OSError; how long that may take is the caller's to limit."""
        ...


@attrs.frozen
class RealNetwork:
    """TCP. Trio's streams send without delay (TCP_NODELAY), as all of these protocols want."""

    keeps_alive: bool = False  # tcpKeepAlive, which Apache heeds on the election port alone

    async def listen(self, host: str | None, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        listeners = await trio.open_tcp_listeners(port, host=host)
        for listener in listeners:  # what is accepted inherits it
            self._keep_alive(listener.socket)
        return listeners

    async def dial(self, host: str, port: int) -> trio.abc.Stream:
        try:
            stream = await trio.open_tcp_stream(host, port)
        except OSError as failure:
            raise _first_cause(failure) from None
        self._keep_alive(stream.socket)
        return stream

    def _keep_alive(self, sock: trio.socket.SocketType) -> None:
        sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_KEEPALIVE, self.keeps_alive)


def address_of(stream: trio.abc.Stream) -> str:
    """Where the other end is, for people to read."""
    if not isinstance(stream, trio.SocketStream):
        return "unknown"
    try:
        host, port, *_ = stream.socket.getpeername()
    except OSError:
        return "gone"
    return f"{bracketed(host)}:{port}"


def _first_cause(failure: OSError) -> OSError:
    """Trio tries all addresses of a host, and what went wrong with each is inside."""
    cause: BaseException | None = failure.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
        return OSError(cause.errno, os.strerror(cause.errno))
    return failure
