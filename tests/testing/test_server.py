"""One server for tests: its life, its faults and its content, as a Kazoo client sees them."""

import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kazoo.security import CREATOR_ALL_ACL

from testing.errors import ServerError
from testing.server import LOADED_AT_ONCE, Server, Session, server_settings
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
        assert "/mine" not in server.tree()
        assert gone.wait(5)
        assert lost.wait(5)


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


def refuses(server: Server) -> bool:
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def is_quiet(server: Server) -> bool:
    """Whether it takes a connection and answers nothing."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=0.2) as probe:
        probe.sendall(b"ruok")
        try:
            return not probe.recv(4)
        except TimeoutError:
            return True


def test_a_refusing_server_refuses_until_the_last_block_ends() -> None:
    """Whatever is done to the server meanwhile."""
    with Server() as server:
        with server.refused():
            server.start()  # it runs: nothing happens
            with server.refused():
                pass
            assert refuses(server)
            server.restart()
            assert refuses(server)
        with kazoo(server.hosts) as client:
            assert client.exists("/")


def test_a_silent_server_is_silent_until_the_last_block_ends() -> None:
    with Server() as server:
        with server.silent():
            with server.silent():
                pass
            server.pause()
            server.resume()
            assert is_quiet(server)
            server.restart()
            assert is_quiet(server)
            server.pause()
        assert is_quiet(server)  # paused
        server.resume()
        assert not is_quiet(server)


def test_delays_add_up(server: Server) -> None:
    with kazoo(server.hosts) as client, server.delayed(0.1):
        with server.delayed(0.1):
            began = time.monotonic()
            client.exists("/")
            assert time.monotonic() - began >= 0.4
        began = time.monotonic()
        client.exists("/")
        assert time.monotonic() - began >= 0.2
    with pytest.raises(ValueError, match="seconds=-1"), server.delayed(-1):
        pass


def test_a_server_that_was_killed_by_somebody_else_refuses_and_can_be_started() -> None:
    with Server() as server:
        os.kill(running_pid(server), signal.SIGKILL)
        wait_until(lambda: refuses(server))
        assert not server.is_running
        with pytest.raises(ServerError, match="cannot tree: the server "):
            server.tree()
        server.start()
        with kazoo(server.hosts) as client:
            assert client.exists("/")
        server.pause()
        os.kill(running_pid(server), signal.SIGKILL)
        with pytest.raises(ServerError, match="cannot judge"):
            server.resume()


def running_pid(server: Server) -> int:
    assert server._child is not None
    return server._child.pid


def test_a_paused_server_is_not_asked() -> None:
    """It could not answer, and would be killed for it."""
    with Server() as server:
        server.pause()
        server.pause()
        with pytest.raises(ServerError, match="cannot tree: the server is paused; resume it first"):
            server.tree()
        server.resume()
        server.resume()
        assert server.tree() == {"/": b""}
        server.pause()
        server.restart()
        assert server.tree() == {"/": b""}
        server.pause()


def test_what_a_client_said_before_a_pause_is_not_heard_after_it() -> None:
    """A ping that lies unread in the server's socket when it is stopped would keep its session."""
    with Server(tick_time=0.1) as server, socket.create_connection(("127.0.0.1", server.port), 10) as client:
        client.sendall(bytes.fromhex("0000002d" + "00" * 12 + "000000c8" + "00" * 8 + "00000010" + "00" * 17))
        assert len(client.recv(100)) == 41
        (session,) = server.sessions()
        os.kill(running_pid(server), signal.SIGSTOP)
        client.sendall(bytes.fromhex("00000008fffffffe0000000b"))
        time.sleep(0.1)
        os.kill(running_pid(server), signal.SIGCONT)
        server.pause()
        time.sleep(session.timeout + 0.2)
        server.resume()
        assert server.sessions() == []


def test_a_closed_server_says_so() -> None:
    server = Server(keep=True)
    with server:
        pass
    server.close()
    with pytest.raises(ServerError, match="this server was closed"):
        server.start()
    with pytest.raises(ServerError, match="this server was closed"), server:
        pass
    with pytest.raises(ServerError, match="not running"):
        server.tree()
    assert "serving on" in server.log
    shutil.rmtree(server.data_dir.parent)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"port": 70000}, "port=70000"),
        ({"config": {"clientPort": "x"}}, "port=x"),
        ({"tick_time": 0}, "tick_time=0"),
        ({"tick_time": float("nan")}, "tick_time=nan"),
        ({"tls": True}, "tls=True"),
    ],
)
def test_options_that_make_no_sense_leave_nothing_behind(
    options: dict[str, Any], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ValueError, match=complaint):
        Server(**options)
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_named(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ServerError, match=f"port {server.port} of 127.0.0.1 cannot be had"):
        Server(port=server.port)
    assert list(tmp_path.iterdir()) == []


def test_a_data_directory_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ServerError, match=f"cannot start a server on {tmp_path}/file/data"):
        Server(data_dir=tmp_path / "file" / "data").__enter__()


def test_keys_of_the_configuration_beat_port_data_and_tick(tmp_path: Path) -> None:
    """And what depends on them follows them."""
    free = Server()
    free.close()
    logs = tmp_path / "logs of été \\ #1"
    config = {"clientPort": free.port, "dataDir": tmp_path / " data", "dataLogDir": logs, "tickTime": 400}
    with Server(config=config, port=1, data_dir="/nowhere", tick_time=0.1) as server:
        assert server.port == free.port
        assert server.data_dir == tmp_path / " data"
        with kazoo(server.hosts, 0.1) as client:
            client.create("/a")
            assert [session.timeout for session in server.sessions()] == [0.8]
        (tmp_path / " data" / "mine.txt").write_text("not the server's")
        server.reset()
        assert server.tree() == {"/": b""}
        assert (tmp_path / " data" / "mine.txt").exists()
        server.load({"/b": b""})
        assert list(logs.glob("version-2/log.*"))
    other = Server(config={"dataLogDir": logs})
    with pytest.raises(ServerError, match="held data before"):
        other.reset()
    other.close()


def test_limits_are_worth_the_same_time_whatever_the_tick() -> None:
    for tick_ms in (10, 200, 2000):
        settings = server_settings(None, tick_ms / 1000)
        assert settings == server_settings(str(tick_ms), 99)
        assert settings["tickTime"] == tick_ms
        assert settings["minSessionTimeout"] == 2 * tick_ms
        assert settings["maxSessionTimeout"] == 60_000
        assert (settings["initLimit"], settings["syncLimit"]) == (10_000 // tick_ms, 4_000 // tick_ms)


def test_what_is_no_session_is_refused_here_and_not_by_the_server(server: Server) -> None:
    with pytest.raises(TypeError, match=r"client\.client_id\[0\]"):
        server.expire((1, b""))  # type: ignore[arg-type]
    assert server.is_running


def test_many_nodes_are_loaded_in_parts(server: Server) -> None:
    nodes = {f"/many/{number}": str(number) for number in range(LOADED_AT_ONCE + 10)}
    server.load(nodes)
    assert len(server.tree("/many")) == 1 + len(nodes)
    with pytest.raises(ServerError, match=r"cannot load: .*no-slash"):
        server.load({"no-slash": b""})
    assert server.is_running


def test_any_thread_may_do_anything() -> None:
    """Asking a server that others start, stop and kill gets an answer or a ServerError."""
    with Server() as server, ThreadPoolExecutor() as threads:

        def ask(number: int) -> None:
            for _ in range(30):
                try:
                    server.load({f"/{number}": b""})
                    assert f"/{number}" in server.tree()
                except ServerError:
                    server.start()

        def disturb() -> None:
            server.kill()
            server.restart()
            server.stop()

        for done in [*(threads.submit(ask, number) for number in range(4)), threads.submit(disturb)]:
            done.result(60)
        server.start()
        assert len(server.tree()) == 5


def test_a_server_that_says_nothing_is_killed_and_that_is_said() -> None:
    server = Server()
    server.spawn()
    assert server._child is not None
    with pytest.raises(ServerError, match=r"did not start within 0\.001 s and was killed"):
        server._child.wait_ready(0.001)
    server.close()
