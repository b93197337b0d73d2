"""What seeds draw can be borne: none costs as much as many others together."""

from tests.sim.scenario import TOLD_PER_S_MAX, draw_scenario


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
