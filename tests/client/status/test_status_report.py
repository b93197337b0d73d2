"""Members, verdicts, lags and the table."""

import pytest

from client.status.answers import ServerFacts
from client.status.members import Member, parse_members, place_strangers
from client.status.report import Report, ServerReport, Verdict
from client.status.table import plain_table, size_text

LINES = """\
server.3=zk3:2888:3888:observer;0.0.0.0:2183
server.1=zk1:2888:3888:participant;2181
server.2=[fe80::2]:2888:3888|zk2b:2888:3888:participant;10.0.0.2:2182
version=100000000
"""


def serving(server_id: int, mode: str, zxid: int = 0x100000005, **more: int) -> ServerReport:
    facts = ServerFacts(mode=mode, version="3.9.5", zxid=zxid, connections=1, nodes=5, **more)
    return ServerReport(Member(server_id, ("zk", 2180 + server_id)), facts)


def silent(server_id: int, *, has_address: bool = True) -> ServerReport:
    return ServerReport(Member(server_id, ("zk", 2180 + server_id) if has_address else None))


def up_without_quorum(server_id: int) -> ServerReport:
    return ServerReport(Member(server_id, ("zk", 2180 + server_id)), ServerFacts())


def test_members_come_from_server_lines() -> None:
    assert parse_members(LINES, 9) == [
        Member(1, ("zk1", 2181)),
        Member(2, ("10.0.0.2", 2182)),
        Member(3, ("zk3", 2183), is_observer=True),
    ]
    assert parse_members("", 2181) == []


def test_without_client_ports_members_are_looked_for_where_the_asked_server_is() -> None:
    """But not where several share a host: they cannot share the port."""
    assert parse_members("server.1=a:1:2\nserver.2=b:1:2:observer", 2281) == [
        Member(1, ("a", 2281)),
        Member(2, ("b", 2281), is_observer=True),
    ]
    assert parse_members("server.1=a:1:2\nserver.2=a:3:4\nserver.3=b:1:2;x", 2281) == [
        Member(1, None),
        Member(2, None),
        Member(3, None),
    ]


def test_named_servers_take_the_places_without_an_address() -> None:
    members = [Member(1, None), Member(2, None), Member(3, ("zk3", 1))]
    assert place_strangers(members, {("a", 1): 2, ("b", 1): None}) == [
        Member(1, ("b", 1)),
        Member(2, ("a", 1)),
        Member(3, ("zk3", 1)),
    ]
    assert place_strangers(members, {("a", 1): None}) == [*members, Member(None, ("a", 1))]
    assert place_strangers(members, {("a", 1): None, ("b", 1): None}) == [
        Member(3, ("zk3", 1)),
        Member(None, ("a", 1)),
        Member(None, ("b", 1)),
    ]


@pytest.mark.parametrize(
    ("servers", "verdict"),
    [
        ([serving(1, "standalone")], Verdict.ALL_IN),
        ([serving(1, "leader"), serving(2, "follower"), serving(3, "observer")], Verdict.ALL_IN),
        ([serving(1, "leader"), serving(2, "follower"), silent(3)], Verdict.MEMBER_MISSING),
        ([serving(1, "leader"), serving(2, "follower"), up_without_quorum(3)], Verdict.MEMBER_MISSING),
        ([silent(1), serving(2, "follower"), silent(3)], Verdict.MEMBER_MISSING),
        ([silent(1), up_without_quorum(2), silent(3)], Verdict.NO_QUORUM),
        ([serving(1, "read-only"), silent(2)], Verdict.NO_QUORUM),
        ([silent(1), silent(2)], Verdict.UNREACHABLE),
        ([serving(1, "leader"), silent(2, has_address=False)], Verdict.MEMBER_MISSING),
        ([serving(1, "leader", synced_followers=1), silent(2, has_address=False)], Verdict.ALL_IN),
        ([serving(1, "leader", synced_followers=0), silent(2, has_address=False)], Verdict.MEMBER_MISSING),
        ([serving(1, "leader", synced_followers=1), silent(2)], Verdict.MEMBER_MISSING),
    ],
)
def test_verdicts(servers: list[ServerReport], verdict: Verdict) -> None:
    assert Report(tuple(servers)).verdict is verdict


def test_the_lag_is_counted_from_the_leader() -> None:
    leader = serving(1, "leader", 0x200000010)
    others = [serving(2, "follower", zxid) for zxid in (0x20000000C, 0x200000011, 0x1000000FF)]
    report = Report((leader, *others, silent(3)))
    assert [report.lag_of(server) for server in report.servers] == [0, 4, 0, 0x10, None]


def test_without_a_leader_the_foremost_counts() -> None:
    report = Report((serving(2, "follower", 7), serving(3, "follower", 9)))
    assert [report.lag_of(server) for server in report.servers] == [2, 0]


def test_the_table() -> None:
    problem = ServerReport(Member(3, ("zk3", 2183)), problem="zk3:2183: Connection refused")
    report = Report(
        (serving(1, "leader", latency_max_ms=3, latency_avg_ms=1, data_bytes=2048, sessions=4), problem),
        ("a note",),
    )
    table = plain_table(report).splitlines()
    assert [line[:50].rstrip() for line in table[:3]] == [
        "id  server    role         version  zxid         e",
        " 1  zk:2181   leader       3.9.5    0x100000005",
        " 3  zk3:2183  unreachable  -        -",
    ]
    assert [line[50:] for line in table[:3]] == [
        "poch  lag  clients  sessions  latency avg/max  nodes     data",
        "   1    0        1         4  1.0/3 ms             5  2.0 KiB",
        "   -    -        -         -  -                    -        -",
    ]
    assert table[3:] == [
        "",
        "there is a quorum, but a member is missing (1 of 2 serving)",
        "zk3:2183: Connection refused",
        "a note",
    ]


def test_as_json() -> None:
    told = Report((serving(1, "leader"), silent(2))).as_json()
    assert (told["verdict"], told["exit_code"], told["quorum"], told["leader"]) == (
        "member-missing",
        1,
        True,
        1,
    )
    assert [server["role"] for server in told["servers"]] == ["leader", "unreachable"]
    assert told["servers"][0]["zxid"] == "0x100000005"


def test_sizes() -> None:
    assert [size_text(size) for size in (0, 1023, 1536, 150 * 1024, 5 * 1024**3)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "150 KiB",
        "5.0 GiB",
    ]
