"""Relays by themselves, with plain sockets at both ends."""

import os
import resource
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from testing.errors import ServerError
from testing.relay import HELD_BYTES_MAX, HOST, Relay, reserve_port


@pytest.fixture
def target() -> Iterator[socket.socket]:
    with socket.create_server((HOST, 0)) as listener:
        listener.settimeout(10)
        yield listener


@pytest.fixture
def relay(target: socket.socket) -> Iterator[Relay]:
    relay = Relay()
    relay.open(target.getsockname()[1])
    yield relay
    relay.close()


def connected(relay: Relay, target: socket.socket) -> tuple[socket.socket, socket.socket]:
    client = socket.create_connection((HOST, relay.port), timeout=10)
    server, _ = target.accept()
    server.settimeout(10)
    return client, server


def receive_all(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        assert more
        data += more
    return data


def test_bytes_pass_in_order_both_ways_and_so_does_their_end(relay: Relay, target: socket.socket) -> None:
    client, server = connected(relay, target)
    with client, server:
        text = bytes(range(256)) * 4096
        client.sendall(text[:70_000])
        assert receive_all(server, 70_000) == text[:70_000]
        client.shutdown(socket.SHUT_WR)
        assert server.recv(1) == b""
        server.sendall(text[:1000])
        assert receive_all(client, 1000) == text[:1000]
        server.close()
        assert client.recv(1) == b""


def test_a_client_that_does_not_read_makes_nothing_pile_up(relay: Relay, target: socket.socket) -> None:
    client, server = connected(relay, target)
    with client, server:
        server.settimeout(0.5)
        sent = 0
        with suppress(TimeoutError):
            while sent < 64 * HELD_BYTES_MAX:
                sent += server.send(bytes(1 << 20))
        assert sent < 16 * HELD_BYTES_MAX  # with what the system's buffers hold
        assert receive_all(client, sent) == bytes(sent)


def test_a_delay_holds_back_what_comes_and_keeps_its_order(relay: Relay, target: socket.socket) -> None:
    client, server = connected(relay, target)
    with client, server:
        relay.delay(0.2)
        began = time.monotonic()
        client.sendall(b"one")
        assert server.recv(10) == b"one"
        assert time.monotonic() - began >= 0.2
        client.sendall(b"two")
        relay.delay(0)
        client.sendall(b"three")
        assert receive_all(server, 8) == b"twothree"


def test_silence_holds_back_and_its_end_lets_go(relay: Relay, target: socket.socket) -> None:
    client, server = connected(relay, target)
    with client, server:
        relay.silence(True)
        client.sendall(b"late")
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.recv(1)
        server.settimeout(10)
        relay.silence(False)
        assert receive_all(server, 4) == b"late"


def test_refusing_ends_connections_and_keeps_the_port(relay: Relay, target: socket.socket) -> None:
    client, server = connected(relay, target)
    with client, server:
        relay.refuse()
        assert server.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, relay.port), timeout=10)
        with pytest.raises(OSError, match="in use"), socket.socket() as thief:
            thief.bind((HOST, relay.port))
        relay.open(target.getsockname()[1])
        again, other = connected(relay, target)
        again.close()
        other.close()


def test_nobody_behind_it_means_that_it_hangs_up() -> None:
    relay, reservation = Relay(), reserve_port()
    relay.open(reservation.getsockname()[1])
    with socket.create_connection((HOST, relay.port), timeout=10) as client:
        assert client.recv(1) == b""
    relay.close()
    reservation.close()


def test_a_closed_relay_has_given_its_port_back() -> None:
    relay = Relay()
    relay.close()
    with socket.socket() as taker:
        taker.bind((HOST, relay.port))


def reset(sock: socket.socket) -> None:
    """Close it with an RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def test_two_ends_that_break_in_one_moment_break_no_other(relay: Relay, target: socket.socket) -> None:
    """Both are ready in the same round of the relays' thread, and the first has closed the second."""
    broken = [connected(relay, target) for _ in range(3)]
    client, server = connected(relay, target)
    relay.silence(True)
    for pair in broken:
        for end in pair:
            reset(end)
    relay.silence(False)
    with client, server:
        client.sendall(b"on")
        assert receive_all(server, 2) == b"on"
    relay.drop()


def test_a_port_that_somebody_has_is_not_shared(relay: Relay, target: socket.socket) -> None:
    """Not even with another relay of the same user, for which SO_REUSEPORT would let it be."""
    for port in (relay.port, target.getsockname()[1]):
        with pytest.raises(ServerError, match=f"port {port} .* in use; choose another"):
            Relay(port)
    relay.refuse()
    with pytest.raises(ServerError, match="in use"):
        Relay(relay.port)


def test_a_port_can_be_had_again_while_old_connections_linger(relay: Relay, target: socket.socket) -> None:
    client, server = connected(relay, target)
    relay.drop()  # the relay hangs up first, so its side of the connection lingers
    client.close()
    server.close()
    relay.close()
    again = Relay(relay.port)
    assert again.port == relay.port
    again.close()


def test_a_process_without_files_left_goes_on_when_it_has_some(relay: Relay, target: socket.socket) -> None:
    """The connection waits in the system's queue meanwhile; the relays' thread lives."""
    with socket.socket() as client:
        client.settimeout(10)
        with no_more_files():
            client.connect((HOST, relay.port))
            relay.silence(False)  # the thread answers
        client.sendall(b"late")
        server, _ = target.accept()
        with server:
            server.settimeout(10)
            assert receive_all(server, 4) == b"late"


@contextmanager
def no_more_files() -> Iterator[None]:
    """In this block the process can open nothing."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        with suppress(OSError):
            while True:
                stack.callback(os.close, os.dup(0))
        yield


def test_a_relay_refuses_when_the_process_behind_it_has_died(target: socket.socket) -> None:
    relay = Relay()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        relay.open(target.getsockname()[1], process.pid)
        client, server = connected(relay, target)
        process.kill()
        assert client.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, relay.port), timeout=10)
        client.close()
        server.close()
    relay.close()
