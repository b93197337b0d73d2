"""Real sockets between servers, on loopback."""

from socket import SO_KEEPALIVE, SOL_SOCKET

import pytest
import trio

from quorum.network import RealNetwork, address_of


@pytest.mark.parametrize("is_wanted", [False, True])
async def test_both_ends_are_kept_alive_where_that_is_wanted(is_wanted: bool) -> None:
    """tcpKeepAlive: else a link through a firewall that forgets it is dead, and nobody knows."""
    network = RealNetwork(is_wanted)
    [listener] = await network.listen("127.0.0.1", 0)
    assert isinstance(listener, trio.SocketListener)
    port = listener.socket.getsockname()[1]
    dialled = await network.dial("127.0.0.1", port)
    accepted = await listener.accept()
    async with listener, dialled, accepted:
        for stream in (dialled, accepted):
            assert isinstance(stream, trio.SocketStream)
            assert bool(stream.socket.getsockopt(SOL_SOCKET, SO_KEEPALIVE)) is is_wanted
        assert address_of(dialled) == f"127.0.0.1:{port}"
