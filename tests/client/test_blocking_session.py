"""The session of single commands: real sockets, servers real and made up."""

import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress

import pytest

from client import requests
from client.blocking_session import BlockingSession, run_to_end
from client.connect_string import ConnectString, parse_connect_string
from client.errors import ConnectionLost, NoNode, ServerError, SessionExpired
from client.events import State
from client.paths import Chroot
from jute.opcodes import CreateMode
from support.servers import Server, start_server
from tests.client.pure_talk import accepted, answer

WHOLE = Chroot()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with start_server("triokeeper") as running:
        yield running


def connected(hosts: str) -> BlockingSession:
    session = BlockingSession(parse_connect_string(hosts), 10_000)
    session.connect(10)
    return session


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[ConnectString]:
    """A server that serves each connection in a thread as it is told."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):  # the listener is shut down, or the client has gone
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        serve(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        yield ConnectString((("127.0.0.1", listener.getsockname()[1]),))
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_requests_and_the_end(server: Server) -> None:
    session = connected(server.host_port)
    assert session.state is State.CONNECTED
    path, _ = run_to_end(session.create("/e", b"x", mode=CreateMode.EPHEMERAL))
    assert path == "/e"
    with pytest.raises(NoNode):
        run_to_end(session.get_data("/no"))
    session.close()
    other = connected(server.host_port)
    assert run_to_end(other.exists("/e")) is None
    other.close()
    with pytest.raises(SessionExpired):
        run_to_end(session.get_data("/"))


def test_many_at_once_with_more_data_than_any_buffer_holds(server: Server) -> None:
    session = connected(server.host_port)
    run_to_end(session.create("/big", b"x" * 500_000))
    reads = [requests.get_data(WHOLE, path, False) for path in ["/big"] * 60 + ["/no"]]
    results = run_to_end(session.many(reads))
    assert [len(result[0] or b"") for result in results[:-1] if not isinstance(result, ServerError)] == [
        500_000
    ] * 60
    assert isinstance(results[-1], NoNode)
    session.close()


def test_another_server_is_tried(server: Server) -> None:
    session = connected(f"127.0.0.1:1,{server.host_port},127.0.0.1:1")
    assert session.address == ("127.0.0.1", server.port)
    session.close()


def test_nobody_there() -> None:
    session = BlockingSession(parse_connect_string("127.0.0.1:1"), 10_000)
    with pytest.raises(
        TimeoutError, match=r"no server of 127\.0\.0\.1:1 answered within 0\.3 s: 127\.0\.0\.1:1: Conn"
    ):
        session.connect(0.3)


def test_a_server_that_never_answers() -> None:
    def be_silent(connection: socket.socket) -> None:
        while connection.recv(100):
            pass

    with listening(be_silent) as servers:
        session = BlockingSession(servers, 10_000)
        with pytest.raises(TimeoutError, match="does not answer"):
            session.connect(0.3)
        session.close()


def test_a_server_of_another_kind() -> None:
    with listening(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n")) as servers:
        session = BlockingSession(servers, 10_000)
        with pytest.raises(TimeoutError, match=r"frame length|closed the connection|Connection re"):
            session.connect(0.3)


def test_a_lost_connection_is_told() -> None:
    def accept_and_go(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(accepted())
        connection.recv(100)

    with listening(accept_and_go) as servers:
        session = BlockingSession(servers, 10_000)
        session.connect(5)
        with pytest.raises(ConnectionLost):
            run_to_end(session.get_data("/"))
        with pytest.raises(ConnectionLost):
            run_to_end(session.get_data("/"))
        session.close()


def test_a_server_is_pinged_and_given_up_when_silent() -> None:
    heard: list[bytes] = []

    def answer_one_ping(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(accepted(timeout_ms=300))
        heard.append(connection.recv(100))  # the request, which is never answered
        heard.append(connection.recv(100))
        connection.sendall(answer(-2))
        while connection.recv(100):
            pass

    with listening(answer_one_ping) as servers:
        session = BlockingSession(servers, 10_000)
        session.connect(5)
        with pytest.raises(ConnectionLost):
            run_to_end(session.get_data("/"))
        assert "has not been heard" in str(session.last_problem)
        assert heard[1][4:8] == b"\xff\xff\xff\xfe"


def test_what_needs_an_event_loop_is_a_mistake() -> None:
    async def wait_for_ever() -> None:
        await Never()

    class Never:
        def __await__(self) -> Generator[None, None, None]:
            yield

    with pytest.raises(AssertionError, match="only an event loop"):
        run_to_end(wait_for_ever())


def test_a_silent_server_leaves_time_for_the_others(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts and says nothing; the session's time alone would let it use up the whole wait."""
    monkeypatch.setattr("random.sample", lambda hosts, count: list(hosts))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]},{server.host_port}"
        session = BlockingSession(parse_connect_string(hosts), 30_000)
        session.connect(1.0)
        assert session.state is State.CONNECTED
        session.close()
