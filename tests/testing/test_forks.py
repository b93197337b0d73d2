"""Tests that fork, as multiprocessing does: the servers stay with the process that started them."""

import multiprocessing
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import pytest

from testing.ensemble import Ensemble
from testing.errors import ServerError
from testing.relay import reserve_port
from testing.server import Server
from tests.testing.stories import kazoo

# Python 3.12 and later warn of forks in a process with threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
FORKING = multiprocessing.get_context("fork")
END_SECONDS_MAX = 5


@contextmanager
def forked() -> Iterator[Connection]:
    """A fork that lives as long as the block, and does nothing."""
    ours, theirs = FORKING.Pipe()
    process = FORKING.Process(target=theirs.recv)
    process.start()
    yield ours
    ours.send(None)
    process.join()


def test_a_server_stops_while_a_fork_lives() -> None:
    with Server() as server, forked():
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < END_SECONDS_MAX


def test_faults_are_faults_while_a_fork_lives() -> None:
    """A fork with the listening socket would take connections, and one with a connection would keep it."""
    with Server() as server:
        client = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        client.sendall(b"r")  # half a word: the server waits for the rest
        server.delayed(0).__enter__()  # the relay has the connection once its thread has answered
        with forked():
            server.drop_connections()
            assert client.recv(1) == b""
            client.close()
            with server.refused(), pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", server.port), timeout=10)
            port = server.port
            server.close()
            reserve_port(port).close()


def test_the_ports_of_an_ensemble_are_free_while_a_fork_lives() -> None:
    ensemble = Ensemble(size=2)
    numbers = [port.getsockname()[1] for ports in ensemble._ports.values() for port in ports]
    assert len(numbers) == 4
    with forked():
        ensemble.close()
        for number in numbers:
            reserve_port(number).close()


def test_a_fork_uses_the_address_and_nothing_else() -> None:
    """Nor does it end the server when it ends; and it can have a server of its own."""
    with Server() as server, Ensemble(size=1) as ensemble:
        ours, theirs = FORKING.Pipe()
        process = FORKING.Process(target=_in_a_fork, args=(server, ensemble, theirs))
        process.start()
        for _ in range(4):
            assert ours.recv() == "as it should be"
        process.join()
        assert server.tree() == {"/": b"", "/from-the-fork": b""}
        assert ensemble.tree() == {"/": b""}


def _in_a_fork(server: Server, ensemble: Ensemble, answers: Any) -> None:
    with kazoo(server.hosts) as client:
        client.create("/from-the-fork")
    answers.send("as it should be")
    try:
        server.tree()
    except ServerError as refused:
        answers.send("as it should be" if "fork" in str(refused) else str(refused))
    try:
        server.stop()
    except ServerError as refused:
        answers.send("as it should be" if "fork" in str(refused) else str(refused))
    server.close()
    ensemble.close()
    with Server() as own, kazoo(own.hosts) as client:
        answers.send("as it should be" if client.exists("/") else "no answer")


def test_a_fork_that_leaves_the_block_ends_nothing() -> None:
    """With a bare fork, both processes do."""
    with Server() as server:
        pid = os.fork()
        if not pid:
            try:
                server.__exit__()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        assert server.tree() == {"/": b""}
