"""Faults do no more than what servers must survive."""

from collections import Counter
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.sim.checkers import Checker
from tests.sim.faults import Faults
from tests.sim.three_voters import three_voters


def nothing(*_: object) -> None:
    """Nobody listens."""


def nothing_named(**_: object) -> None:
    """Nor here."""


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
    scenario = three_voters(group_lines=weights)
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


@pytest.mark.parametrize(("fetching", "told"), [((), ["s1"]), ((1,), ["s1"]), ((2,), [])])
def test_one_machine_at_a_time_takes_everything_from_its_leader(
    fetching: tuple[int, ...], told: list[str]
) -> None:
    """What it acknowledged is asked of the others, who must not have been told to forget it too."""
    scenario = three_voters(leader_bias=1.0)
    is_told: list[str] = []
    machines: Any = [
        SimpleNamespace(
            server_id=number,
            name=f"s{number}",
            is_up=True,
            is_fetching=number in fetching,
            dies_in_recovery=None,
            kill=nothing_named,
            start=nothing,
            fetch_from_leader=partial(is_told.append, f"s{number}"),
        )
        for number in (1, 2, 3)
    ]
    network: Any = SimpleNamespace(clock=SimpleNamespace(call_later=nothing))
    faults = Faults(
        scenario,
        machines,
        [],
        network,
        Checker(lambda: 0.0, nothing),
        Random(1),
        Counter(),
        nothing,
        leader=lambda: machines[0],
    )
    faults._told_to_fetch()
    assert is_told == told
