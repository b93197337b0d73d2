"""A server as a process, as far as it can be seen without one."""

import os
import socket
import sys
from pathlib import Path

import pytest
import trio

from quorum.network import RealNetwork
from server.config import ServerConfig
from server.run import _backlog, _backlog_in_force, _bound, _java_address


@pytest.mark.parametrize(
    ("configured", "shown"),
    [
        (None, "0.0.0.0/0.0.0.0:PORT"),  # clientPort
        ("127.0.0.1", "/127.0.0.1:PORT"),  # clientPortAddress, or the address after ; in a server line
        ("localhost", "localhost/127.0.0.1:PORT"),
    ],
)
def test_the_client_port_is_shown_as_java_does(configured: str | None, shown: str) -> None:
    """People's tests wait for this text."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        assert _java_address(configured, listener) == shown.replace("PORT", str(port))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what became of a backlog")
@pytest.mark.parametrize("asked", [-1, 7])
def test_the_listen_backlog_is_the_systems_maximum_unless_it_is_set(asked: int) -> None:
    """What is in force is what the system says, as the start-up log shows it."""
    config = ServerConfig(data_dir=Path("unused"), client_port_listen_backlog=asked)
    with _bound("127.0.0.1", 0, _backlog(config)) as listener:
        most = _backlog_max()

        assert _backlog_in_force(listener) == (min(7, most) if asked > 0 else most)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what became of a backlog")
@pytest.mark.parametrize("shares_ports", [False, True])
async def test_ports_for_peers_have_the_systems_maximum_too(shares_ports: bool) -> None:
    """A whole ensemble of observers may come back at once."""
    most = _backlog_max()
    for listener in await RealNetwork(shares_ports=shares_ports).listen("127.0.0.1", 0):
        assert isinstance(listener, trio.SocketListener)
        async with listener:
            with socket.socket(fileno=os.dup(listener.socket.fileno())) as same:
                assert _backlog_in_force(same) == most


def _backlog_max() -> int:
    return int(Path("/proc/sys/net/core/somaxconn").read_text())
