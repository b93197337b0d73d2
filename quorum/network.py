"""How servers reach each other: real sockets, or a simulator's.

A host name is looked up anew at every dial: behind a name there may be another machine by now.
"""

import errno
import os
import socket
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import IPv6Address, ip_address
from typing import NoReturn, Protocol, TypeVar

import attrs
import trio

from eventlog import log
from persistence.open_files import files_for_peers
from quorum.server_lines import bracketed

BACKLOG_MAX = 0xFFFF  # of connections not accepted yet; the system takes its own maximum (somaxconn) if less
Endpoint = tuple[str, int]  # a host, by name or number, and a port

# How long one address of a server is waited for before the next is dialled beside it.
NEXT_ADDRESS_AFTER_S = 0.25
# The system repeats a lost attempt to connect after 1, 3, 7, 15 s: a network that works again would not be
# noticed for as long. So another attempt is made beside it twice a second, at most so many at the same time.
# A dial that ended just before the network worked again is followed by the next vote, within 2 s.
DIAL_AGAIN_AFTER_S = 0.5
DIALS_AT_ONCE_MAX = 8
REPEAT_AFTER_MS_MAX = 1000  # the least that the system takes
_TCP_RTO_MAX_MS = 44  # Python has no name for it


class Network(Protocol):
    async def listen(self, host: str | None, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        """Accept connections on an address, or on all of this machine's. Raises OSError."""
        ...

    async def dial(self, host: str, port: int) -> trio.abc.Stream:
        """Connect. Raises OSError; how long that may take is the caller's to limit."""
        ...

    async def is_at(self, stream: trio.abc.Stream, hosts: Collection[str]) -> bool:
        """Whether the other end of a connection is at one of these hosts, as far as addresses can tell."""
        ...


@attrs.frozen
class RealNetwork:
    """TCP. Trio's streams send without delay (TCP_NODELAY), as all of these protocols want."""

    keeps_alive: bool = False  # tcpKeepAlive, which Apache heeds on the election port alone
    shares_ports: bool = False  # as `_listen_sharing` does

    async def listen(self, host: str | None, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        try:
            if self.shares_ports:
                return [await _listen_sharing(port)]
            listeners = await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG_MAX)
        except UnicodeError as failure:
            raise _no_host_name(host, failure) from None
        for listener in listeners:  # what is accepted inherits it
            self._keep_alive(listener.socket)
        return listeners

    async def dial(self, host: str, port: int) -> trio.abc.Stream:
        try:
            stream = await first_answered(partial(trio.open_tcp_stream, host, port))
        except OSError as failure:
            raise _first_cause(failure) from None
        except UnicodeError as failure:
            raise _no_host_name(host, failure) from None
        self._keep_alive(stream.socket)
        if not leaves_files(stream):
            await trio.aclose_forcefully(stream)
            raise OSError(errno.EMFILE, "no more files may be open for other servers; raise ulimit -n")
        return stream

    async def is_at(self, stream: trio.abc.Stream, hosts: Collection[str]) -> bool:
        endpoint = _other_end(stream)
        if endpoint is None:
            return False
        for host in hosts:
            if _numeric(endpoint[0]) in await _addresses_of(host):
                return True
        return False

    def _keep_alive(self, sock: trio.socket.SocketType) -> None:
        sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_KEEPALIVE, self.keeps_alive)


async def _listen_sharing(port: int) -> trio.SocketListener:
    """Listen for a test, on this machine alone, at a port that a socket of the test's process reserves."""
    sock = trio.socket.socket()
    try:
        sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_REUSEPORT, True)
        await sock.bind(("127.0.0.1", port))
        sock.listen(BACKLOG_MAX)
    except BaseException:
        sock.close()
        raise
    return trio.SocketListener(sock)


async def listen_at(
    network: Network, endpoints: Sequence[Endpoint], *, on_all_addresses: bool
) -> list[trio.abc.Listener[trio.abc.Stream]]:
    """A listener for each endpoint, or for none of them; at their ports alone, if that is wanted, on whatever
    addresses this machine has."""
    wanted = dict.fromkeys((None if on_all_addresses else host, port) for host, port in endpoints)
    listeners: list[trio.abc.Listener[trio.abc.Stream]] = []
    try:
        for host, port in wanted:
            listeners += await network.listen(host, port)
    except BaseException:
        for listener in listeners:
            await trio.aclose_forcefully(listener)
        raise
    return listeners


def bind_remedy(failure: OSError, *, port: str = "port in the server line", address: str = "") -> str:
    """What an operator can do about a port that cannot be listened on; `port` and `address` are the settings
    to correct."""
    where = address or "the server line, or myid"
    if failure.errno == errno.EACCES:
        return f"Ports below 1024 need a privilege: set another {port}, or grant CAP_NET_BIND_SERVICE"
    if failure.errno == errno.EADDRNOTAVAIL:
        return f"This machine has no such address: correct {where}"
    if isinstance(failure, socket.gaierror):
        return f"This name is not known here: correct {where}, or the name service"
    return f"Stop whatever uses the port, or set another {port}, or correct {where}"


def address_of(stream: trio.abc.Stream) -> str:
    """Where the other end is, for people to read."""
    if not isinstance(stream, trio.SocketStream):
        return "unknown"
    endpoint = _other_end(stream)
    return "gone" if endpoint is None else shown(endpoint)


def leaves_files(stream: trio.abc.Stream) -> bool:
    """Whether this connection leaves enough open files to others; the log needs some at any time."""
    return not isinstance(stream, trio.SocketStream) or stream.socket.fileno() < files_for_peers()


async def serve_peers(
    serve: Callable[[trio.abc.Stream], Awaitable[None]],
    listeners: Sequence[trio.abc.Listener[trio.abc.Stream]],
    nursery: trio.Nursery | None = None,
) -> NoReturn:
    """Serve each connection in a task, as long as there are files for it. In the nursery, if one is given,
    and else in one of its own."""

    async def serve_or_turn_away(stream: trio.abc.Stream) -> None:
        if leaves_files(stream):
            await serve(stream)
            return
        log.warning("connection_turned_away", address=address_of(stream), reason="too many files are open")
        await trio.aclose_forcefully(stream)

    await trio.serve_listeners(serve_or_turn_away, list(listeners), handler_nursery=nursery)


def _other_end(stream: trio.abc.Stream) -> Endpoint | None:
    """The address and port there; None if there is none any more, or never was."""
    if not isinstance(stream, trio.SocketStream):
        return None
    try:
        host, port, *_ = stream.socket.getpeername()
    except OSError:
        return None
    return host, port


async def _addresses_of(host: str) -> set[str]:
    """What a name stands for now; nothing if that cannot be found out."""
    try:
        found = await trio.socket.getaddrinfo(host, None, type=trio.socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return set()
    return {_numeric(str(address[0])) for *_, address in found}


def _numeric(address: str) -> str:
    """An address in one way of writing: without a zone, and IPv4 as such where it came to IPv6."""
    parsed = ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return str(mapped or parsed)


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


async def dial_any(
    dial: Callable[[str, int], Awaitable[trio.abc.Stream]], endpoints: Sequence[Endpoint]
) -> trio.abc.Stream:
    """Connect to the one of a server's addresses that answers first; one of its networks may be down.

    Raises OSError with what went wrong at each of them, once all have failed.
    """
    reached: list[trio.abc.Stream] = []
    failures: list[str] = []
    is_cancelled = True
    try:
        async with trio.open_nursery() as nursery:

            async def try_one(endpoint: Endpoint, has_failed: trio.Event) -> None:
                try:
                    reached.append(await dial(*endpoint))
                    nursery.cancel_scope.cancel()
                except OSError as failure:
                    failures.append(f"{shown(endpoint)}: {failure}")
                    has_failed.set()

            for endpoint in endpoints:
                has_failed = trio.Event()
                nursery.start_soon(try_one, endpoint, has_failed)
                with trio.move_on_after(NEXT_ADDRESS_AFTER_S):
                    await has_failed.wait()
        is_cancelled = False
    finally:
        for stream in reached if is_cancelled else reached[1:]:
            await trio.aclose_forcefully(stream)
    if not reached:
        raise OSError("; ".join(failures) or "no address is known")
    return reached[0]


Connected = TypeVar("Connected", bound=trio.abc.AsyncResource)


async def first_answered(attempt: Callable[[], Awaitable[Connected]]) -> Connected:
    """Connect, and again beside it while there is no answer. An attempt that fails ends it, and is raised."""
    reached: list[Connected] = []
    failures: list[Exception] = []
    under_way: deque[trio.CancelScope] = deque()
    is_cancelled = True
    try:
        async with trio.open_nursery() as nursery:

            async def try_once(scope: trio.CancelScope) -> None:
                with scope:
                    try:
                        reached.append(await attempt())
                    except (OSError, UnicodeError) as failure:
                        failures.append(failure)
                    nursery.cancel_scope.cancel()

            async def try_again_and_again() -> None:
                while True:
                    under_way.append(trio.CancelScope())
                    nursery.start_soon(try_once, under_way[-1])
                    await trio.sleep(DIAL_AGAIN_AFTER_S)
                    if len(under_way) == DIALS_AT_ONCE_MAX:
                        under_way.popleft().cancel()

            nursery.start_soon(try_again_and_again)
        is_cancelled = False
    finally:
        for stream in reached if is_cancelled else reached[1:]:
            await trio.aclose_forcefully(stream)
    if not reached:
        raise failures[0]
    return reached[0]


def give_up_after(stream: trio.abc.Stream, seconds: float) -> None:
    """Let the system end the connection once what was sent is not confirmed for so long. It would repeat it
    for a quarter of an hour, and soon so seldom that a network that works again is not noticed."""
    if isinstance(stream, trio.SocketStream) and hasattr(socket, "TCP_USER_TIMEOUT"):
        with suppress(OSError):  # it is closed already
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(seconds * 1000))


def repeat_soon(stream: trio.abc.Stream) -> None:
    """Let the system repeat what is not confirmed at least every second, if it can (Linux since 6.15). Else
    the pause between two tries doubles each time: a network that works again after 7 s is not used before
    6 s more have passed, and the other side may be taken for dead meanwhile."""
    if isinstance(stream, trio.SocketStream) and sys.platform == "linux":
        with suppress(OSError):  # the system does not know this, or the stream is closed already
            stream.setsockopt(socket.IPPROTO_TCP, _TCP_RTO_MAX_MS, REPEAT_AFTER_MS_MAX)


def shown(endpoint: Endpoint) -> str:
    host, port = endpoint
    return f"{bracketed(host)}:{port}"
