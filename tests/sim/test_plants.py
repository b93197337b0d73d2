"""The catalogue of planted bugs fits the code it is planted in."""

import inspect
from contextlib import ExitStack
from typing import Any

import pytest

from tests.captured_logs import logging_restored
from tests.sim.plants import PLANTS, Planted, planted, replaced
from tests.sim.run import run_seed

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
_SEEDS_MAX = 40
_MINUTES = 0.25


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


def test_servers_come_by_every_place_where_a_bug_is_planted() -> None:
    """And call what is there with arguments that the bug would take. No bug is planted for this."""
    waiting = {
        f"{plant.name} at {owner.__name__}.{attribute}": (owner, attribute, bug)
        for plant in PLANTS.values()
        for owner, attribute, bug in plant.replaced
    }
    for seed in range(1, _SEEDS_MAX):
        came_by: set[str] = set()
        with ExitStack() as stack:
            for key, (owner, attribute, bug) in waiting.items():
                stack.enter_context(replaced(owner, attribute, _note_arguments(bug, key, came_by)))
            stack.enter_context(logging_restored())  # a run silences the servers' log
            run_seed(seed, minutes=_MINUTES, is_ensemble=True)
        for key in came_by:
            del waiting[key]
        if not waiting:
            return
    pytest.fail(f"nobody called {sorted(waiting)} in {_SEEDS_MAX} seeds: plant them where the code went")


def _note_arguments(bug: Planted, key: str, came_by: set[str]) -> Planted:
    signature = inspect.signature(bug)

    def note(original: Planted, *args: Any, **named: Any) -> Any:
        if key not in came_by:
            signature.bind(original, *args, **named)
            came_by.add(key)
        return original(*args, **named)

    return note
