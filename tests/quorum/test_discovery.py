"""Agreeing on an epoch, against a model that asks for the definition each time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.discovery import ALREADY_ACCEPTED, EpochAgreement, Summary
from quorum.errors import PeerError
from quorum.quorum_verifiers import Majority

VOTERS = frozenset({1, 2, 3, 4, 5})
ME = 3
MINE = Summary(4, 0x400000007)


def agreement(voters: frozenset[int] = VOTERS, mine: Summary = MINE) -> EpochAgreement:
    return EpochAgreement(ME, mine, Majority(voters))


# --- Step 1: which epoch.


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 9)), max_size=12))
def test_the_epoch_is_above_all_that_were_heard_until_there_was_a_quorum(
    arrivals: list[tuple[int, int]],
) -> None:
    """And the quorum is one of voters, with the leader in it; 6, 7 and 8 observe."""
    agreeing = agreement()
    heard: list[tuple[int, int]] = []
    for arrival in arrivals:
        was_proposed = agreeing.is_proposed
        completes = agreeing.connected(*arrival)
        if not was_proposed:
            heard.append(arrival)
        connected = {server for server, _ in heard} & VOTERS
        is_complete = ME in connected and len(connected) >= 3
        assert agreeing.is_proposed == is_complete
        assert completes == (is_complete and not was_proposed)
        assert agreeing.epoch == max(accepted for _, accepted in heard) + 1


def test_observers_raise_the_epoch_but_are_not_counted() -> None:
    """ZOOKEEPER-2959: a quorum of whoever connects would let an epoch begin that no quorum promised."""
    agreeing = agreement()
    assert not agreeing.connected(ME, 1)
    assert not agreeing.connected(6, 7)
    assert not agreeing.connected(7, 2)
    assert not agreeing.connected(2, 3)
    assert agreeing.connected(1, 0)
    assert agreeing.epoch == 8


def test_who_observes_with_the_id_of_a_voter_is_counted_in_neither_step() -> None:
    """It does not log what it acknowledges."""
    agreeing = agreement()
    for voter in (ME, 2):
        assert not agreeing.connected(voter, 0)
    assert not agreeing.connected(1, 0, is_observer=True)
    assert agreeing.connected(4, 0)
    for voter in (ME, 2):
        assert not agreeing.acked(voter, MINE)
    assert not agreeing.acked(1, MINE, is_observer=True)
    assert agreeing.acked(4, MINE)


def test_who_comes_late_is_told_the_same_epoch() -> None:
    """Though it promised a later one: it will refuse, and vote again."""
    agreeing = agreement(frozenset({ME}))
    assert agreeing.connected(ME, 4)
    assert not agreeing.connected(1, 9)
    assert agreeing.epoch == 5


def test_nothing_begins_without_the_leader_itself() -> None:
    agreeing = agreement()
    assert [agreeing.connected(server, 0) for server in (1, 2, 4, 5)] == [False] * 4
    assert agreeing.connected(ME, 0)


# --- Step 2: who is with us.

summaries = st.builds(
    Summary, st.sampled_from([-1, 3, 4]), st.sampled_from([-1, 0, 0x400000006, 0x400000007])
)


@given(st.lists(st.tuples(st.integers(1, 8), summaries), max_size=12))
def test_an_epoch_is_accepted_by_a_quorum_of_voters_that_were_not_counted_before(
    acks: list[tuple[int, Summary]],
) -> None:
    agreeing = agreement()
    counted: set[int] = set()
    for server, summary in acks:
        was_accepted = agreeing.is_accepted
        completes = agreeing.acked(server, summary)
        if server in VOTERS and summary.current_epoch != ALREADY_ACCEPTED and summary.last_zxid != -1:
            counted.add(server)
        is_complete = was_accepted or (ME in counted and len(counted) >= 3)
        assert agreeing.is_accepted == is_complete
        assert completes == (is_complete and not was_accepted)


@pytest.mark.parametrize(
    "theirs", [Summary(5, 0), Summary(5, 0x400000007), Summary(4, 0x400000008), Summary(4, 0x500000000)]
)
@pytest.mark.parametrize("server", [2, 7])
def test_a_server_that_is_ahead_is_not_led(server: int, theirs: Summary) -> None:
    """It may have what was committed, and we do not: epochs first, then zxids (ZOOKEEPER-1082)."""
    agreeing = agreement()
    agreeing.acked(ME, MINE)
    with pytest.raises(PeerError, match="ahead"):
        agreeing.acked(server, theirs)
    assert not agreeing.acked(1, MINE)
    assert agreeing.acked(4, MINE)


def test_who_will_not_be_counted_for_its_promise_any_more() -> None:
    """It is ahead of us, or made the promise before and we do not know. Somebody else may have said so in its
    name: what it says itself counts."""
    agreeing = agreement()
    agreeing.acked(ME, MINE)
    with pytest.raises(PeerError, match="ahead"):
        agreeing.acked(1, Summary(5, 0))
    agreeing.acked(2, Summary(ALREADY_ACCEPTED, 0))
    assert [*agreeing.lost, *agreeing.with_us] == [1, 2, ME]
    agreeing.acked(2, MINE)
    assert (set(agreeing.lost), set(agreeing.with_us)) == ({1}, {2, ME})


def test_a_later_epoch_outweighs_a_higher_zxid() -> None:
    """The zxid of a server that was cut off may be as high as it likes."""
    agreeing = agreement(mine=Summary(4, 0x300000001))
    assert not agreeing.acked(ME, Summary(4, 0x300000001))
    assert not agreeing.acked(1, Summary(3, 0x3FFFFFFFF))
    assert agreeing.acked(2, Summary(0, 0))


def test_once_a_quorum_is_with_us_nobody_can_be_ahead() -> None:
    """What such a server has more was never committed: it will be cut off."""
    agreeing = agreement()
    for server in (1, 2, ME):
        agreeing.acked(server, MINE)
    assert agreeing.is_accepted
    assert not agreeing.acked(4, Summary(9, 0x900000000))


def test_who_was_counted_for_this_epoch_before_is_not_counted_again() -> None:
    """T10: else it could help two leaders of the same epoch into office."""
    agreeing = agreement(frozenset({1, 2, ME}))
    agreeing.acked(ME, MINE)
    assert not agreeing.acked(1, Summary(ALREADY_ACCEPTED, 0x400000007))
    assert not agreeing.acked(1, Summary(ALREADY_ACCEPTED, 0x900000000))
    assert agreeing.acked(2, Summary(4, 0x400000001))


def test_a_server_whose_empty_database_is_not_trusted_is_not_counted() -> None:
    """T39: it says zxid -1."""
    agreeing = agreement(frozenset({1, 2, ME}))
    agreeing.acked(ME, MINE)
    assert not agreeing.acked(1, Summary(0, -1))
