"""Reconfiguration, decided: what is refused and why, who leads afterwards, and who must leave its role."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jute.errors import BadArguments, BadVersion, NewConfigNoQuorum, ReconfigInProgress, ZkError
from jute.record import encode
from jute.txn_records import SetDataTxn
from quorum.errors import PeerError
from quorum.quorum_verifiers import verifier_of
from quorum.reconfiguration import (
    Departure,
    ReconfigRules,
    Reconfiguration,
    config_in,
    departure_after,
    designated_leader,
    next_ensemble,
)
from quorum.server_lines import Ensemble, config_text, read_ensemble

VERSION = 0x100000007


def ensemble_of(*lines: str, version: int = 0x100000000) -> Ensemble:
    """Lines like 1, 4:observer, 2@elsewhere: id, role, host."""
    servers = {}
    for line in lines:
        name, _, role = line.partition(":")
        server_id, _, host = name.partition("@")
        place = host or f"zoo{server_id}"
        servers[f"server.{server_id}"] = f"{place}:2888:3888:{role or 'participant'};2181"
    return read_ensemble(servers, version=version)


THREE = ensemble_of("1", "2", "3")


def asked(
    before: Ensemble = THREE,
    *,
    last_seen: Ensemble | None = None,
    synced: tuple[int, ...] = (1, 2, 3, 4),
    rules: ReconfigRules | None = None,
    joining: str | None = None,
    leaving: str | None = None,
    new_members: str | None = None,
    from_version: int = -1,
) -> Ensemble:
    return next_ensemble(
        Reconfiguration(joining=joining, leaving=leaving, new_members=new_members, from_version=from_version),
        before,
        before if last_seen is None else last_seen,
        version=VERSION,
        rules=rules or ReconfigRules(),
        verifier_of=verifier_of,
        synced=synced,
    )


def lines_of(ensemble: Ensemble) -> list[str]:
    return config_text(ensemble).splitlines()[:-1]


SERVERS = lines_of(THREE)
FOURTH = "server.4=zoo4:2888:3888:participant;0.0.0.0:2181"


@pytest.mark.parametrize(
    ("joining", "leaving", "expected"),
    [
        (FOURTH, None, [*SERVERS, FOURTH]),
        (f" {FOURTH} , ", "", [*SERVERS, FOURTH]),
        (None, "2", [SERVERS[0], SERVERS[2]]),
        (None, "1, 9", SERVERS[1:]),
        (FOURTH, "1", [*SERVERS[1:], FOURTH]),
        (SERVERS[0], "1", SERVERS),
        (None, None, SERVERS),
    ],
)
def test_servers_join_and_leave(joining: str | None, leaving: str | None, expected: list[str]) -> None:
    """A server that leaves and joins in one request has the new line; one that is not there may leave."""
    changed = asked(joining=joining, leaving=leaving)
    assert changed.version == VERSION
    assert lines_of(changed) == expected


def test_a_server_that_joins_again_has_the_role_and_the_addresses_it_names() -> None:
    changed = asked(joining="server.2=zoo9:2888:3888:observer;2182")
    assert changed.observers == {2}
    assert str(changed.members[2]) == "zoo9:2888:3888:observer;0.0.0.0:2182"


def test_all_members_anew() -> None:
    """Separated by commas or by line ends; a version among them counts nothing."""
    text = "server.1=a:1:2;3,server.2=b:1:2;3\nserver.9=c:1:2:observer;3\nversion=7"
    changed = asked(new_members=text, joining=FOURTH, leaving="1")
    assert changed.voters == {1, 2}
    assert changed.observers == {9}
    assert changed.version == VERSION


def test_groups_may_come_and_go_with_all_members() -> None:
    servers = "server.1=a:1:2;3\nserver.2=b:1:2;3\n"
    grouped = asked(new_members=servers + "group.1=1:2")
    assert grouped.is_hierarchical
    assert not asked(grouped, new_members=servers).is_hierarchical
    with pytest.raises(BadArguments):
        asked(grouped, joining=FOURTH)


@pytest.mark.parametrize(
    ("refusal", "changes"),
    [
        (BadVersion, {"from_version": 5}),
        (BadArguments, {"joining": "server.4=zoo4:2888:3888"}),  # no client port
        (BadArguments, {"joining": "server.4=zoo4:2888;2181"}),
        (BadArguments, {"joining": "server.4"}),
        (BadArguments, {"joining": "server.four=zoo4:2888:3888;2181"}),
        (BadArguments, {"joining": "server.4=zoo3:2888:3999;2181"}),  # server 3 is there
        (BadArguments, {"joining": "server.4=zoo4:2888:3888 ; 2181"}),
        (BadArguments, {"leaving": "server.1"}),
        (BadArguments, {"leaving": "1,2"}),  # one voter is left
        (BadArguments, {"new_members": ""}),
        (BadArguments, {"new_members": "server.1=a:1:2:observer;3"}),
        (BadArguments, {"new_members": "server.1=a:1:2;3,tickTime=5"}),
        (BadArguments, {"new_members": "server.1=a:1:2|b:1:2;3,server.2=c:1:2;3"}),
        (NewConfigNoQuorum, {"joining": FOURTH, "synced": (1, 2)}),
        (NewConfigNoQuorum, {"leaving": "1", "synced": (1, 2)}),
    ],
)
def test_refused(refusal: type[ZkError], changes: dict[str, object]) -> None:
    with pytest.raises(refusal):
        asked(**changes)  # type: ignore[arg-type]


def test_the_order_of_the_checks() -> None:
    """A request that is wrong in every way is told the first thing that is wrong; mended, the next."""
    pending = attrs.evolve(THREE, version=VERSION - 1)
    with pytest.raises(ReconfigInProgress):
        asked(last_seen=pending, from_version=5, leaving="1,2", synced=())
    with pytest.raises(BadVersion):
        asked(from_version=5, leaving="1,2", synced=())
    with pytest.raises(BadArguments):
        asked(from_version=THREE.version, leaving="1,2", synced=())
    with pytest.raises(NewConfigNoQuorum):
        asked(from_version=THREE.version, leaving="1", synced=())


def test_where_one_server_may_be_an_ensemble_one_voter_may_be_left() -> None:
    rules = ReconfigRules(voters_min=1)
    assert asked(leaving="1,2", rules=rules).voters == {3}
    with pytest.raises(BadArguments):
        asked(leaving="1,2,3", rules=rules)


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", "::1", "localhost"])
def test_addresses_that_mean_another_machine_to_each_do_not_clash(host: str) -> None:
    """Of servers on one machine the ports are checked by nobody, as in the original."""
    place = f"[{host}]" if ":" in host else host
    here = [f"server.{n}={place}:2888:3888;2181" for n in (1, 2)]
    assert asked(read_ensemble({}), joining=",".join(here)).voters == {1, 2}


# --- Who leads.


@pytest.mark.parametrize(
    ("now", "logged", "expected"),
    [
        (("1", "2", "3"), {}, 3),
        (("2", "3", "4"), {}, 3),
        (("1", "2"), {1: 7, 2: 7, 3: 9}, 1),
        (("1", "2"), {1: 7, 2: 8, 3: 9}, 2),
        (("1", "2", "4"), {1: 7, 2: 7, 3: 9, 4: 9}, 4),
        (("1", "2", "3:observer"), {1: 6, 2: 7, 3: 9}, 2),
        (("1", "2", "3@elsewhere"), {1: 7, 3: 9}, 1),
        (("3@elsewhere",), {1: 7, 2: 7, 3: 9}, 3),
        (("1", "2:observer"), {1: 8, 2: 9}, 1),
    ],
)
def test_who_leads_from_then_on(now: tuple[str, ...], logged: dict[int, int], expected: int) -> None:
    """Server 3 led, and proposed as 7; what others have logged beyond that is what would be lost."""
    assert designated_leader(3, THREE, ensemble_of(*now), logged, 7) == expected


@given(
    st.sets(st.integers(1, 5), min_size=1), st.dictionaries(st.integers(1, 5), st.integers(5, 9)), st.just(7)
)
def test_whoever_leads_is_a_voter_that_has_the_configuration(
    voters: set[int], logged: dict[int, int], zxid: int
) -> None:
    """Unless nobody else could: then the old leader is all there is."""
    now = ensemble_of(*map(str, voters))
    leader = designated_leader(3, THREE, now, logged, zxid)
    if leader != 3:
        assert leader in voters
        assert logged[leader] == max(has for sid, has in logged.items() if sid in voters and sid != 3)
        assert logged[leader] >= zxid


# --- Who leaves.


@pytest.mark.parametrize(
    ("my_id", "now", "designated", "expected"),
    [
        (1, ("1", "2", "3", "4"), 3, None),
        (1, ("1", "2"), 2, Departure(2)),
        (1, ("1", "2"), 1, Departure(1)),
        (3, ("1", "2"), 1, Departure(1)),
        (1, ("1:observer", "2", "3"), 3, Departure(3)),
        (1, ("2", "3"), 3, None),  # removed: it stays, without a vote
        (9, ("1", "2", "3", "9"), 3, None),  # a follower without a vote gets one
        (1, ("1", "2", "3", "4"), None, None),
        (1, ("1", "2", "4"), None, Departure(None)),
        (1, ("1", "2", "3@elsewhere"), None, Departure(None)),
        (1, ("1", "2", "3:observer"), None, Departure(None)),
        (1, ("1:observer", "2", "3"), None, Departure(None)),
    ],
)
def test_who_must_leave_its_role(
    my_id: int, now: tuple[str, ...], designated: int | None, expected: Departure | None
) -> None:
    """Server 3 leads. Who is told the next leader goes there at once, who is not looks for one."""
    after = ensemble_of(*now, version=VERSION)
    assert departure_after(my_id, 3, THREE, after, designated) == expected


def test_nobody_leaves_for_what_it_knows_already() -> None:
    assert departure_after(1, 3, THREE, attrs.evolve(THREE, version=VERSION), 2) is None
    assert departure_after(1, 3, attrs.evolve(THREE, version=VERSION), ensemble_of("1"), 2) is None


# --- On the wire.


def payload_of(type_: int, data: bytes) -> bytes:
    return bytes(28) + type_.to_bytes(4, "big") + encode(SetDataTxn("/zookeeper/config", data, -1))


def test_the_configuration_in_a_transaction() -> None:
    text = config_text(THREE).encode()
    assert config_in(payload_of(16, text)) == THREE
    assert config_in(payload_of(5, text)) is None


@pytest.mark.parametrize("data", [b"server.1=x", b"\xff", b""])
def test_a_configuration_that_makes_no_sense_is_its_leaders_fault(data: bytes) -> None:
    with pytest.raises(PeerError):
        config_in(payload_of(16, data))


@pytest.mark.parametrize(
    "texts",
    [
        {"joining": ",".join(f"server.{n}=zoo{n}:2888:3888;2181" for n in range(10, 900))},
        {"joining": "server.9=" + "|".join(["zoo9:2888:3888"] * 5000) + ";2181"},
        {"leaving": ",".join(["1"] * 900)},
        {"new_members": "\n".join(f"server.{n}=zoo{n}:2888:3888;2181" for n in range(900))},
    ],
)
def test_a_text_that_describes_no_ensemble_is_not_even_read(
    monkeypatch: pytest.MonkeyPatch, texts: dict[str, str]
) -> None:
    """Anybody may send one as long as a frame: that he may not reconfigure is found out last."""
    for name in ("_read_joining", "read_config_text", "parse_integer"):
        monkeypatch.setattr(f"quorum.reconfiguration.{name}", None)
    with pytest.raises(BadArguments):
        asked(
            joining=texts.get("joining"),
            leaving=texts.get("leaving"),
            new_members=texts.get("new_members"),
        )


def test_very_many_joining_servers_are_compared_by_their_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not each with each."""
    looks: list[str] = []

    def is_relative(host: str) -> bool:
        looks.append(host)
        return False

    monkeypatch.setattr("quorum.reconfiguration._is_relative", is_relative)
    joining = ",".join(f"server.{n}=zoo{n}:2888:3888;zoo{n}:2181" for n in range(10, 255))
    ensemble = asked(joining=joining, synced=tuple(range(255)))
    assert len(ensemble.members) == 248
    assert len(looks) < 3000


def test_a_server_that_moves_leaves_its_address_to_others() -> None:
    moved = "server.3=zoo9:2888:3888:participant;0.0.0.0:2181"
    taken = "server.4=zoo3:2888:3888:participant;0.0.0.0:2181"
    assert asked(joining=f"{moved},{taken}").members[4].addresses == THREE.members[3].addresses
    with pytest.raises(BadArguments):
        asked(joining=f"{taken},{moved}")
