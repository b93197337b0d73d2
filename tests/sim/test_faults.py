"""Faults do no more than what servers must survive."""

from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from tests.sim.checkers import Checker
from tests.sim.faults import Faults
from tests.sim.scenario import draw_scenario


def nothing(*_: object) -> None:
    """Nobody listens."""


@pytest.mark.parametrize(
    ("weights", "spared"),
    [
        ((), [1, 2, 3]),
        (("group.1=1:2:3", "weight.1=1", "weight.2=0", "weight.3=1"), [2]),  # 1 and 3 are in every quorum
        (("group.1=1:2:3", "weight.1=1", "weight.2=0", "weight.3=0"), [2, 3]),  # 1 is a quorum alone
    ],
)
def test_a_disk_is_spoilt_only_where_the_others_can_go_on(
    weights: tuple[str, ...], spared: list[int]
) -> None:
    """Its server may refuse to start, and then takes everything from a leader that the others must have."""
    scenario = attrs.evolve(
        draw_scenario(1, 60, is_ensemble=True),
        voters=3,
        observers=0,
        group_lines=weights,
        is_reconfigured=False,
    )
    machines: Any = [
        SimpleNamespace(server_id=number, name=f"s{number}", has_durably=lambda zxid: True)
        for number in (1, 2, 3)
    ]
    checker = Checker(lambda: 0.0, nothing)
    network: Any = None
    faults = Faults(
        scenario, machines, [], network, checker, Random(1), Counter(), nothing, leader=lambda: None
    )
    assert [each.server_id for each in machines if faults._can_spare_disk(each)] == spared
