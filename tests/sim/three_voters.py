"""The scenario that tests of single parts of the simulator share."""

from typing import Any

import attrs

from tests.sim.scenario import Scenario, draw_scenario


def three_voters(**settings: Any) -> Scenario:
    """Three voters that nobody reconfigures; the rest as drawn, or as told."""
    scenario = draw_scenario(1, 60, is_ensemble=True)
    fixed: dict[str, Any] = {"voters": 3, "observers": 0, "group_lines": (), "is_reconfigured": False}
    return attrs.evolve(scenario, **fixed | settings)
