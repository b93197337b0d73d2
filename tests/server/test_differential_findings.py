"""What the differential test against Apache ZooKeeper found, each finding as a test of its own.

The long way to look for more is `make compat-differential`.
"""

from struct import unpack_from

import pytest

from jute.client_records import Acl, CreateRequest, Id, SetDataRequest, SetWatches
from jute.errors import InvalidAcl, MarshallingError, QuotaExceeded
from jute.opcodes import EventType, OpCode, Perms
from jute.record import encode
from server.acls import AccessRules, encode_acl
from server.quotas import parse_limits
from tests.server.acl_vectors import AclVector
from tests.server.one_server import Client, OneServer

OPEN = (Acl(int(Perms.ALL), Id("world", "anyone")),)
LIMITS = "/zookeeper/quota/q/zookeeper_limits"


def create(client: Client, path: str, data: bytes | None = b"") -> int:
    return client.ask(OpCode.CREATE, CreateRequest(path, data, OPEN, 0))[1]


def limited(limits: bytes | None) -> Client:
    """A client of a server where /q has a quota that is enforced, but no statistics."""
    client = OneServer(enforce_quota=True).connect()
    for path in ("/q", "/zookeeper/quota/q"):
        assert create(client, path) == 0
    assert create(client, LIMITS, limits) == 0
    return client


@pytest.mark.parametrize("limits", [None, b"junk", b"count=", b",count=1", b"count=9223372036854775808"])
def test_limits_that_cannot_be_read_refuse_every_change_even_without_statistics(limits: bytes | None) -> None:
    """Nobody can know what would exceed them."""
    client = limited(limits)
    assert create(client, "/q/a") == MarshallingError.code
    _, err, _ = client.ask(OpCode.SET_DATA, SetDataRequest("/q", b"x", -1))
    assert err == MarshallingError.code


def test_without_statistics_nothing_exceeds_a_limit() -> None:
    client = limited(b"countHardLimit=0,byteHardLimit=0")
    assert create(client, "/q/a", b"data") == 0
    assert create(client, "/zookeeper/quota/q/zookeeper_stats") == 0
    assert create(client, "/q/b", b"data") == QuotaExceeded.code


def test_limits_may_be_written_in_any_decimal_digits() -> None:
    """As Java's parseLong reads them."""
    assert parse_limits("countHardLimit=\u0663,count=+007".encode()) == {"countHardLimit": 3, "count": 7}


@pytest.mark.parametrize("body", [b"", b"\x00\x00\x04"])
def test_a_create_session_that_is_cut_short_takes_a_zxid(body: bytes) -> None:
    """Its reply is an ordinary error, with the xid it came with."""
    client = OneServer().connect()
    client.send(7, OpCode.CREATE_SESSION, body)
    client.send(8, OpCode.PING)
    client.server.settle()
    replies = [unpack_from(">iqi", frame) for frame in client.frames()]
    assert replies == [(7, 2, MarshallingError.code), (-2, 2, 0)]


@pytest.mark.parametrize(
    ("event", "lists"),
    [
        (EventType.NODE_DATA_CHANGED, (("",), (), ())),
        (EventType.NODE_CREATED, ((), ("",), ())),
        (EventType.NODE_CHILDREN_CHANGED, ((), (), ("",))),
    ],
)
def test_set_watches_takes_the_empty_path_for_the_root(
    event: EventType, lists: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
) -> None:
    """And tells of it by the name it was asked for."""
    client = OneServer().connect()
    client.send(1, OpCode.SET_WATCHES, encode(SetWatches(-1, *lists)))
    notification = client.frames().popleft()
    assert unpack_from(">iqiii", notification)[3] == event
    assert notification.endswith(b"\x00\x00\x00\x00")


def test_two_acl_entries_that_cannot_be_compared_break_the_request() -> None:
    """A missing text is only looked at where everything before it is equal to an earlier entry."""
    rules = AccessRules()
    ip, nameless = (16, "ip", "127.0.0.1"), (16, "ip", None)
    with pytest.raises(MarshallingError):
        rules.fix_up(_acl(ip, (1, "ip", "bad"), nameless), ())
    with pytest.raises(InvalidAcl):
        rules.fix_up(_acl(ip, (1, "ip", "bad"), (17, "ip", None)), ())
    with pytest.raises(MarshallingError):
        rules.fix_up(_acl((1, "ip", "bad"), (1, None, "x")), ())
    assert rules.fix_up(_acl(ip, ip), ()) == encode_acl([(16, "ip", "127.0.0.1")])


def _acl(*entries: tuple[int, str | None, str | None]) -> bytes:
    return encode(AclVector(tuple(Acl(perms, Id(scheme, name)) for perms, scheme, name in entries)))
