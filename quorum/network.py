"""How servers reach each other: real sockets, or a simulator's.

A host name is looked up anew at every dial: behind a name there may be another machine by now.
"""

import os
from collections.abc import Sequence
from typing import Protocol

import trio


class Network(Protocol):
    async def listen(self, host: str | None, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        """Accept connections on an address, or on all of this machine's. Raises OSError."""
        ...

    async def dial(self, host: str, port: int) -> trio.abc.Stream:
        """Connect. Raises OSError; how long that may take is the caller's to limit."""
        ...


class RealNetwork:
    """TCP. Trio's streams send without delay (TCP_NODELAY), as all of these protocols want."""

    async def listen(self, host: str | None, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        try:
            return await trio.open_tcp_listeners(port, host=host)
        except UnicodeError as failure:
            raise _no_host_name(host, failure) from None

    async def dial(self, host: str, port: int) -> trio.abc.Stream:
        try:
            return await trio.open_tcp_stream(host, port)
        except OSError as failure:
            raise _first_cause(failure) from None
        except UnicodeError as failure:
            raise _no_host_name(host, failure) from None


def _no_host_name(host: str | None, failure: UnicodeError) -> OSError:
    """An empty label, or one that is too long: no reason to stop a server that meets it in a server line."""
    return OSError(f"{host} is no host name: {failure.__cause__ or failure}")


def _first_cause(failure: OSError) -> OSError:
    """Trio tries all addresses of a host, and what went wrong with each is inside."""
    cause: BaseException | None = failure.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
        return OSError(cause.errno, os.strerror(cause.errno))
    return failure
