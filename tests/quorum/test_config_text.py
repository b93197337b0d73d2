"""The members of an ensemble as text, to and from other servers."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.server_lines import (
    Address,
    ClientAddress,
    Ensemble,
    Member,
    Role,
    config_text,
    is_same_config,
    read_config_text,
    read_ensemble,
)
from quorum.setting_text import BadValue

CAPTURED = (
    "server.1=127.0.0.1:42881:43881:participant;127.0.0.1:41181\n"
    "server.2=127.0.0.1:42882:43882:participant;127.0.0.1:41182\n"
    "server.3=127.0.0.1:42883:43883:participant;127.0.0.1:41183\n"
    "version=0"
)


def test_a_captured_text_is_read_and_written_the_same() -> None:
    assert config_text(read_config_text(CAPTURED)) == CAPTURED


def test_the_version_is_hexadecimal_and_comes_last() -> None:
    ensemble = read_config_text(CAPTURED.replace("version=0", "version=100000002"))
    assert ensemble.version == 0x100000002
    assert config_text(ensemble).endswith("\nversion=100000002")


def test_a_client_address_from_client_port_is_not_told_to_others() -> None:
    address = Address("zoo1", 2888, 3888)
    client = ClientAddress("0.0.0.0", 2181)
    dynamic = Member(server_id=1, addresses=(address,), client=client)
    static = Member(server_id=1, addresses=(address,), client=client, client_is_static=True)
    assert str(dynamic) == "zoo1:2888:3888:participant;0.0.0.0:2181"
    assert str(static) == "zoo1:2888:3888:participant"


def test_several_addresses_are_sorted_by_host_and_share_one_role() -> None:
    text = "server.1=b:1:2:observer|a:3:4:observer\nserver.2=[::1]:5:6\nversion=0"
    written = "server.1=a:3:4|b:1:2:observer\nserver.2=[::1]:5:6:participant\nversion=0"
    ensemble = read_config_text(text, multi_address=True)
    assert config_text(ensemble) == written
    assert read_config_text(written, multi_address=True).observers == {1}


def test_groups_and_weights_are_written_behind_the_servers() -> None:
    """Every voter is given its weight; an observer has none unless it is named."""
    servers = "server.3=c:1:2\nserver.2=b:1:2\nserver.1=a:1:2\nserver.4=d:1:2:observer"
    text = f"weight.2=0\ngroup.2=3\ngroup.1=2:1\n{servers}"
    assert config_text(read_config_text(text)).splitlines() == [
        "server.1=a:1:2:participant",
        "server.2=b:1:2:participant",
        "server.3=c:1:2:participant",
        "server.4=d:1:2:observer",
        "group.1=1:2",
        "group.2=3",
        "weight.1=1",
        "weight.2=0",
        "weight.3=1",
        "version=0",
    ]


@pytest.mark.parametrize(
    ("text", "wording"),
    [
        ("server.1=a:1:2\ntickTime=5", "Unrecognised parameter: tickTime"),
        ("server.1=a:1:2\nversion=0x10", 'For input string: "0x10"'),
        ("server.1=a:1:2\nversion=8000000000000000", 'For input string: "8000000000000000"'),
        ("server.1=a:1:2\nversion=-1", 'For input string: "-1"'),
        ("server.1=a:1:2:observer\nversion=0", "there is no participant"),
        ("version=0", "there is no participant"),
        ("server.1=a:1", "does not have the form"),
        ("server.1=a:1:2\\u12", "Malformed"),
        ("server.1=a:1:2\ngroup.1=1:2", "Server 2 is in a group, but has no weight"),
        ("server.1=a\\nb:1:2", "'a\\nb' is no host"),
        ("server.1=a:1:2;\\ud800:3", "'\\ud800' is no host"),
        ("server.1=\\ a:1:2", "' a' is no host"),
        ("server.1=:1:2", "'' is no host"),
        ("server.1=a:1:" + "2" * 5000, "Address unresolved: a:2222"),
        ("server.1=a:1:2\nweight.1=" + "1" * 5000, 'For input string: "1111'),
    ],
)
def test_a_text_that_describes_no_ensemble_is_refused(text: str, wording: str) -> None:
    with pytest.raises(BadValue) as caught:
        read_config_text(text)
    assert wording in caught.value.wording


@given(
    st.text(max_size=60)
    | st.text("server.12=:;|a\n\\u[]vion", max_size=40)
    | st.builds(
        "server.1={}:1:2;{}:3".format, st.text("a \\ud80n.[]", max_size=9), st.text("a \\n", max_size=3)
    )
)
def test_no_text_does_worse_than_be_refused(text: str) -> None:
    """What is taken can be told to others, who take the same from it."""
    with contextlib.suppress(BadValue):
        ensemble = read_config_text(text, multi_address=True)
        again = config_text(ensemble).encode().decode()
        assert config_text(read_config_text(again, multi_address=True)) == again


hosts = st.sampled_from(["a", "zoo.example.org", "10.0.0.7", "fe80::1"])
ports = st.integers(1, 0xFFFF)
addresses = st.builds(Address, hosts, ports, ports).filter(lambda a: a.quorum_port != a.election_port)


@st.composite
def ensembles(draw: st.DrawFn) -> Ensemble:
    members = {}
    for server_id in sorted(draw(st.sets(st.integers(0, 40), min_size=1, max_size=5))):
        members[server_id] = Member(
            server_id=server_id,
            addresses=(draw(addresses),),
            role=draw(st.sampled_from(Role)),
            client=draw(st.none() | st.builds(ClientAddress, hosts, ports)),
        )
    return Ensemble(members=members, version=draw(st.integers(0, 2**63 - 1)))


@given(ensembles().filter(lambda ensemble: bool(ensemble.voters)))
def test_what_is_written_is_read_again(ensemble: Ensemble) -> None:
    assert read_config_text(config_text(ensemble)) == ensemble


SAME_BUT = {
    "version alone": (CAPTURED.replace("version=0", "version=7"), True),
    "a role": (
        CAPTURED.replace("42883:43883:participant", "42883:43883:observer").replace("=0", "=7"),
        False,
    ),
    "a client port": (CAPTURED.replace(":41183", ":41184").replace("=0", "=7"), False),
    "an election port": (CAPTURED.replace(":43883", ":43884").replace("=0", "=7"), False),
    "one server less": (CAPTURED.replace(CAPTURED.splitlines()[2] + "\n", "").replace("=0", "=7"), False),
    "all, at the same version": ("server.1=a:1:2\nversion=0", True),
    "groups": (CAPTURED + "\ngroup.1=1:2:3", False),
}


@pytest.mark.parametrize("name", SAME_BUT)
def test_configs_are_the_same_by_version_or_by_all_members(name: str) -> None:
    text, is_same = SAME_BUT[name]
    one, other = read_config_text(CAPTURED), read_config_text(text)
    assert is_same_config(one, other) is is_same
    assert is_same_config(other, one) is is_same


def test_other_weights_are_another_config() -> None:
    lines = {"server.1": "a:1:2", "server.2": "b:1:2", "group.1": "1:2"}
    even, uneven = read_ensemble(lines, version=1), read_ensemble({**lines, "weight.1": "3"}, version=2)
    assert not is_same_config(even, uneven)
