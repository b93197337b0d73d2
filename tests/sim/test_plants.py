"""The catalogue of planted bugs fits the code it is planted in."""

import pytest

from tests.sim.plants import PLANTS, planted

# What reviewers found to go unnoticed once.
_WENT_UNNOTICED = {
    "discovery-check-off",
    "no-directory-fsync",
    "one-quorum-in-a-reconfiguration",
    "old-log-kept-after-snap",
    "log-not-cut-by-snap",
    "newleader-acked-before-the-log-is-durable",
    "acks-outlive-their-learner",
    "snapshot-not-given-up",
    "connectivity-check-off",
    "promise-counted-twice",
}


def test_there_are_enough_of_them() -> None:
    """Forty at least, and those that went unnoticed once."""
    assert len(PLANTS) >= 40
    assert PLANTS.keys() >= _WENT_UNNOTICED


@pytest.mark.parametrize("name", PLANTS)
def test_a_plant_goes_in_and_comes_out(name: str) -> None:
    """Its place is there, is taken while it is planted, and is as it was afterwards."""
    places = [(owner, attribute) for owner, attribute, _ in PLANTS[name].replaced]
    before = [owner.__dict__[attribute] for owner, attribute in places]
    with planted(name):
        assert all(
            owner.__dict__[attribute] is not original
            for (owner, attribute), original in zip(places, before, strict=True)
        )
    assert [owner.__dict__[attribute] for owner, attribute in places] == before
    assert PLANTS[name].behaviour
