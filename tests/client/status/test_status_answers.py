"""What servers say, Apache's and ours, becomes values; what they do not say is None."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.status.answers import ServerFacts, add_mntr, brief_version, parse_srvr, server_id_of

SRVR = """\
Zookeeper version: 3.9.5-293c895a8d966a3ecb92872be4a1daf87d725da2, built on 2026-02-11 20:18 UTC
Latency min/avg/max: 0/1.25/17
Received: 46
Sent: 45
Connections: 3
Outstanding: 2
Zxid: 0x10000002a
Mode: leader
Node count: 5
Proposal sizes last/min/max: -1/-1/-1
"""
MNTR = """\
zk_version\t3.9.5-293c895a8d966a3ecb92872be4a1daf87d725da2, built on 2026-02-11 20:18 UTC
zk_server_state\tleader
zk_approximate_data_size\t182
zk_global_sessions\t7
zk_local_sessions\t1
zk_synced_followers\t2
zk_synced_observers\t1
"""


def test_srvr() -> None:
    assert parse_srvr(SRVR) == ServerFacts(
        mode="leader",
        version="3.9.5",
        zxid=0x10000002A,
        connections=3,
        nodes=5,
        latency_avg_ms=1.25,
        latency_max_ms=17,
        outstanding=2,
    )


def test_mntr_adds_what_srvr_lacks() -> None:
    facts = add_mntr(parse_srvr(SRVR), MNTR)
    assert (facts.sessions, facts.data_bytes, facts.synced_followers, facts.synced_observers) == (
        8,
        182,
        2,
        1,
    )
    assert facts.mode == "leader"


@pytest.mark.parametrize(
    "text",
    ["", "This ZooKeeper instance is not currently serving requests\n", "HTTP/1.1 400 Bad Request\r\n"],
)
def test_a_server_that_does_not_serve(text: str) -> None:
    assert parse_srvr(text) == ServerFacts()
    assert not parse_srvr(text).is_serving


@pytest.mark.parametrize(
    ("mode", "serves"),
    [("leader", True), ("follower", True), ("observer", True), ("standalone", True), ("read-only", False)],
)
def test_serving_means_in_a_quorum(mode: str, serves: bool) -> None:
    assert parse_srvr(f"Mode: {mode}\n").is_serving is serves


def test_who_a_server_is() -> None:
    assert server_id_of("clientPort=2181\nserverId=3\ninitLimit=10\n") == 3
    assert server_id_of("conf is not executed because it is not in the whitelist.\n") is None


def test_versions() -> None:
    assert [brief_version(text) for text in ("3.8.0-1, built on x", "3.5", "--", None)] == [
        "3.8.0",
        "3.5",
        None,
        None,
    ]


@given(st.text())
def test_any_text_is_an_answer(text: str) -> None:
    """A server of another kind must not break the report on the others."""
    add_mntr(parse_srvr(text), text)
