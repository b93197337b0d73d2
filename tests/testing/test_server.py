"""One server for tests: its life, its faults and its content, as a Kazoo client sees them."""

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.security import CREATOR_ALL_ACL

from testing.errors import ServerError
from testing.server import Server, Session
from tests.testing.stories import kazoo, wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def test_an_expired_session_is_expired_for_everybody(server: Server) -> None:
    """A session of 30 s: its ephemeral goes, a watch on it fires, and its client learns that it is over."""
    with kazoo(server.hosts, 30) as victim, kazoo(server.hosts) as witness:
        lost, gone = threading.Event(), threading.Event()
        victim.create("/mine", ephemeral=True)
        witness.exists("/mine", watch=lambda event: gone.set())
        victim.add_listener(lambda state: lost.set() if state == "LOST" else None)
        server.expire(victim.client_id[0])
        assert gone.wait(5)
        assert lost.wait(5)
        assert "/mine" not in server.tree()


def test_a_session_that_is_not_there_cannot_expire(server: Server) -> None:
    with pytest.raises(ServerError, match="no session 0x1234"):
        server.expire(0x1234)


def test_sessions_tell_who_is_connected(server: Server) -> None:
    with kazoo(server.hosts, 25) as client:
        client.create("/held", ephemeral=True)
        (session,) = (each for each in server.sessions() if each.id == client.client_id[0])
        assert session == Session(client.client_id[0], 25.0, session.address, ["/held"])
        assert session.address is not None
        assert session.address.startswith("127.0.0.1:")


def test_what_is_loaded_is_there_with_its_parents(server: Server) -> None:
    server.load({"/app/a/b": "text", "/app/c": b"\x00\xff"})
    server.load({"/app/c": b"again"})
    assert server.tree("/app") == {"/app": b"", "/app/a": b"", "/app/a/b": b"text", "/app/c": b"again"}
    with pytest.raises(ServerError, match="no node /none"):
        server.tree("/none")


def test_a_namespace_is_removed_with_all_that_is_in_it(server: Server) -> None:
    """Whatever ACLs the test has set there."""
    with server.namespace() as namespace, kazoo(namespace.hosts) as client:
        client.add_auth("digest", "me:secret")
        client.create("/a/b", makepath=True)
        client.set_acls("/a/b", CREATOR_ALL_ACL)
        client.set_acls("/a", CREATOR_ALL_ACL)
        assert f"{namespace.path}/a/b" in server.tree()
    assert not any(path.startswith(namespace.path) for path in server.tree())


def test_dropped_connections_come_back(server: Server) -> None:
    with kazoo(server.hosts) as client:
        states: list[str] = []
        client.add_listener(states.append)
        server.drop_connections()
        wait_until(lambda: states[-2:] == ["SUSPENDED", "CONNECTED"])


def test_a_refusing_server_refuses_at_once(server: Server) -> None:
    with server.refused(), pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=5)
    with kazoo(server.hosts) as client:
        assert client.exists("/")


def test_a_silent_server_takes_connections_and_says_nothing(server: Server) -> None:
    with kazoo(server.hosts) as client:
        with server.silent():
            answer = client.exists_async("/")
            assert not answer.wait(0.3)
            with socket.create_connection(("127.0.0.1", server.port), timeout=0.3) as probe:
                probe.sendall(b"ruok")
                with pytest.raises(TimeoutError):
                    probe.recv(4)
        assert answer.get(timeout=10)


def test_a_delayed_server_answers_later(server: Server) -> None:
    with kazoo(server.hosts) as client:
        began = time.monotonic()
        with server.delayed(0.2):
            client.exists("/")
        assert time.monotonic() - began >= 0.4
        client.exists("/")


def test_killed_and_started_again_it_has_its_port_and_data() -> None:
    with Server() as server:
        port = server.port
        server.load({"/kept": b"1"})
        server.kill()
        assert not server.is_running
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
        with pytest.raises(ServerError, match="not running"):
            server.tree()
        server.restart()
        assert server.port == port
        assert server.tree() == {"/": b"", "/kept": b"1"}
        server.reset()
        assert server.port == port
        assert server.tree() == {"/": b""}


def test_a_server_paused_past_a_session_timeout_has_expired_it() -> None:
    with Server(tick_time=0.1) as server, kazoo(server.hosts, 0.4) as client:
        lost = threading.Event()
        client.add_listener(lambda state: lost.set() if state == "LOST" else None)
        client.create("/mine", ephemeral=True)
        session = client.client_id[0]
        server.pause()
        time.sleep(0.6)
        server.resume()
        wait_until(lambda: session not in {each.id for each in server.sessions()})
        assert "/mine" not in server.tree()
        assert lost.wait(10)


def test_a_data_directory_of_ones_own_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with Server(data_dir=tmp_path / "data") as server:
        server.load({"/a": b""})
    with Server(data_dir=tmp_path / "data") as server:
        assert "/a" in server.tree()
        with pytest.raises(ServerError, match="held data before"):
            server.reset()
        assert "/a" in server.tree()


def test_files_are_kept_only_if_asked_for() -> None:
    with Server() as server:
        data = server.data_dir
    assert not data.exists()
    with Server(keep=True) as server:
        data = server.data_dir
    assert data.exists()
    shutil.rmtree(data.parent)


def test_the_configuration_of_the_test_beats_all() -> None:
    with Server(tick_time=0.2, config={"tickTime": 500, "maxSessionTimeout": 1200}) as server:
        assert "tickTime=500" in (server.data_dir.parent / "zoo.cfg").read_text()
        with kazoo(server.hosts, 60) as client:
            (session,) = server.sessions()
            assert session.timeout == 1.2
            assert client.exists("/")


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(ServerError, match="tickTime"), Server(config={"tickTime": "soon"}):
        pass


def test_tls_is_not_pretended() -> None:
    with pytest.raises(ValueError, match="tls=True"):
        Server(tls=True)
    assert Server.certs is None
    assert Server.admin_url is None
