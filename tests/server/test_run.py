"""A server as a process, as far as it can be seen without one."""

import socket

import pytest

from server.run import _java_address


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
