"""Who is a quorum, against versions too simple to be wrong."""

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.quorum_verifiers import Hierarchical, Majority, verifier_of
from quorum.server_lines import Ensemble, read_ensemble

HALF = Fraction(1, 2)


def ensemble_of(voters: int, observers: int = 0, **more: str) -> Ensemble:
    lines = {f"server.{n}": f"h{n}:1:2" for n in range(1, voters + 1)}
    lines |= {f"server.{n}": f"h{n}:1:2:observer" for n in range(voters + 1, voters + observers + 1)}
    return read_ensemble(lines | {key.replace("_", "."): value for key, value in more.items()})


@given(st.integers(1, 7), st.sets(st.integers(1, 9)))
def test_a_majority_is_more_than_half_of_the_voters(voters: int, acks: set[int]) -> None:
    """Acks of observers, here those above the voters, count nothing."""
    verifier = verifier_of(ensemble_of(voters, observers=2))
    assert isinstance(verifier, Majority)
    is_majority = Fraction(sum(ack <= voters for ack in acks), voters) > HALF
    assert verifier.contains_quorum(acks) is is_majority


@st.composite
def hierarchies(draw: st.DrawFn) -> Ensemble:
    """Up to three groups of up to three servers; the last server observes, in a group of its own or not."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    total = sum(sizes)
    ids = iter(range(1, total + 1))
    lines = {f"server.{n}": f"h{n}:1:2" for n in range(1, total + 1)}
    lines |= {f"group.{g}": ":".join(str(next(ids)) for _ in range(size)) for g, size in enumerate(sizes)}
    lines |= {f"weight.{n}": str(draw(st.integers(0, 3))) for n in range(1, total + 1)}
    lines[f"server.{total + 1}"] = f"h{total + 1}:1:2:observer"
    return read_ensemble(lines)


def wins(ensemble: Ensemble, acks: set[int]) -> bool:
    """The rule as it is written in the manual."""
    shares = []
    for servers in ensemble.groups.values():
        weight = sum(ensemble.weights[server] for server in servers)
        if weight:
            shares.append(Fraction(sum(ensemble.weights[s] for s in servers if s in acks), weight))
    return bool(shares) and Fraction(sum(share > HALF for share in shares), len(shares)) > HALF


@given(hierarchies(), st.sets(st.integers(1, 10)))
def test_a_hierarchical_quorum_has_most_of_the_weight_in_most_groups(
    ensemble: Ensemble, acks: set[int]
) -> None:
    verifier = verifier_of(ensemble)
    assert isinstance(verifier, Hierarchical)
    assert verifier.contains_quorum(acks) is wins(ensemble, acks)


@given(hierarchies())
def test_any_two_hierarchical_quorums_share_a_server(ensemble: Ensemble) -> None:
    verifier = verifier_of(ensemble)
    voters = sorted(ensemble.voters)
    quorums = [
        set(some)
        for size in range(len(voters) + 1)
        for some in combinations(voters, size)
        if verifier.contains_quorum(some)
    ]
    assert all(one & other for one, other in combinations(quorums, 2))


def test_weights() -> None:
    """A voter weighs 1 unless the configuration says otherwise."""
    verifier = verifier_of(ensemble_of(3, group_1="1:2:3", weight_2="0"))
    assert [verifier.weight_of(server_id) for server_id in (1, 2, 3, 4)] == [1, 0, 1, 0]
    assert verifier_of(ensemble_of(3)).weight_of(2) == 1


def test_an_acker_that_is_named_twice_counts_once() -> None:
    assert not verifier_of(ensemble_of(3)).contains_quorum([1, 1])
    assert not verifier_of(ensemble_of(3, group_1="1:2:3")).contains_quorum([1, 1])


@pytest.mark.parametrize("is_chosen", [True, False])
def test_of_two_voters_the_one_the_oracle_chose_goes_on_alone(is_chosen: bool) -> None:
    verifier = verifier_of(ensemble_of(2), lambda: is_chosen)
    assert verifier.contains_quorum({1}) is is_chosen
    assert verifier.contains_quorum({1, 2})
    assert verifier.yields_to_a_leader() is not is_chosen


def test_three_voters_need_no_oracle() -> None:
    verifier = verifier_of(ensemble_of(3), lambda: True)
    assert not verifier.contains_quorum({1})
    assert not verifier.yields_to_a_leader()


def test_an_oracle_makes_a_majority_of_groups() -> None:
    """Servers of both kinds must agree on what a quorum is."""
    verifier = verifier_of(ensemble_of(3, group_1="1:2:3", weight_1="3"), lambda: True)
    assert not verifier.contains_quorum({1})
    assert verifier.contains_quorum({2, 3})
