"""What seeds draw can be borne: none costs as much as many others together."""

import pytest

from tests.sim.faults import Faults
from tests.sim.scenario import TOLD_PER_S_MAX, draw_scenario

_FAULTS = (
    "kill power_loss kill_all power_loss_all pause deposed "
    "crash_in_disk blackout_in_disk crash_in_recovery crash_in_adoption "
    "partition isolate one_way_cut slow_link reset silence "
    "disk_error disk_full slow_disk disk_unable lost_disk stalled_leader damage "
    "clock_step purge told_to_fetch"
)


def test_many_clients_of_many_servers_take_their_time() -> None:
    """What all of them ask for, told to all servers, is bounded; who asks for little is not slowed down."""
    slowed = 0
    for seed in range(200):
        scenario = draw_scenario(seed, 60, is_ensemble=True)
        asked_per_s = sum((1 + each.pipelined_max) / 2 / each.think_s for each in scenario.habits)
        assert asked_per_s * (scenario.voters + scenario.observers) <= TOLD_PER_S_MAX * 1.001
        slowed += any(each.think_s not in (0.05, 0.1, 0.2, 0.5) for each in scenario.habits)
    assert 0 < slowed < 200


def test_a_seed_stands_for_the_same_each_time() -> None:
    assert draw_scenario(7, 60, is_ensemble=True) == draw_scenario(7, 60, is_ensemble=True)


def test_everything_that_may_go_wrong_is_drawn() -> None:
    """Each kind of fault, and each circumstance, by some of a few hundred seeds."""
    scenarios = [draw_scenario(seed, 60, is_ensemble=True) for seed in range(300)]
    drawn = {fault for scenario in scenarios for fault in scenario.faults}
    assert drawn == set(_FAULTS.split())
    assert not {fault for fault in drawn if not hasattr(Faults, f"_{fault}")}


@pytest.mark.parametrize(
    "circumstance",
    [
        "clock_drift",
        "retransmits_late",
        "purges",
        "reaps",
        "has_read_only_mode",
        "has_oracle",
        "has_stranger",
        "finds_old_logs",
        "acks_early",
        "is_reconfigured",
        "thresholds",
    ],
)
def test_circumstances_are_drawn_and_are_not_the_rule(circumstance: str) -> None:
    drawn = [bool(getattr(draw_scenario(n, 60, is_ensemble=True), circumstance)) for n in range(100)]
    assert any(drawn)
    assert not all(drawn)
