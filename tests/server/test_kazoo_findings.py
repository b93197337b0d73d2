"""What Kazoo's own test suite, run against both servers, showed to differ: one test for each."""

from struct import pack

from jute.client_records import AuthPacket, GetSaslRequest
from jute.opcodes import OpCode
from jute.record import encode
from tests.server.one_server import OneServer


def test_a_client_that_only_authenticates_loses_its_session() -> None:
    """Kazoo asks for SASL for ever if it is not served, and would never time out if that kept its session."""
    server = OneServer()
    client = server.connect(timeout_ms=10_000)
    for _ in range(3):
        server.pass_time(6_000)
        client.send(-2, OpCode.SASL, encode(GetSaslRequest(b"")))
        client.send(-4, OpCode.AUTH, encode(AuthPacket(0, "digest", b"a:b")))
    server.settle()
    assert client.is_closed


def test_a_client_that_pings_beside_authenticating_keeps_its_session() -> None:
    """A ping in the same read of the socket counts, whatever stands beside it."""
    server = OneServer()
    client = server.connect(timeout_ms=10_000)
    auth = encode(AuthPacket(0, "digest", b"a:b"))
    ping_then_auth = pack(">iii", 8, -2, OpCode.PING) + pack(">iii", 8 + len(auth), -4, OpCode.AUTH) + auth
    for _ in range(3):
        server.pass_time(6_000)
        client.connection.received(ping_then_auth)
    server.settle()
    assert not client.is_closed
