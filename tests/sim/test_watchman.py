"""What ought to go on without a pause is watched."""

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from tests.sim.checkers import Checker, Violation
from tests.sim.network import VirtualNetwork
from tests.sim.scenario import draw_scenario
from tests.sim.three_voters import three_voters
from tests.sim.virtual_time import VirtualClock, run_repeatably
from tests.sim.watchman import Watchman


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_connection_that_is_over_is_to_be_closed(is_closed: bool) -> None:
    """The other side has hung up; this one has had time enough to notice."""

    async def test(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock, Random(1), delay_s=0.001, jitter_s=0.0)
        here, there = network.boot("s1"), network.boot("s2")
        (listener,) = await here.listen(None, 1)
        (await there.dial("s1", 1)).close()
        stream = await listener.accept()
        if is_closed:
            stream.close()
        machine: Any = SimpleNamespace(server_id=1, name="s1", network=here, is_up=True)
        checker = Checker(clock.now, lambda: None)
        watchman = Watchman(draw_scenario(1, 60, is_ensemble=True), [machine], network, checker)
        for _ in range(100):
            await trio.sleep(0.5)
            watchman._check_dead_ends()

    if is_closed:
        run_repeatably(test, 1)
    else:
        with pytest.raises(Violation, match="s1 has not closed a connection with s2"):
            run_repeatably(test, 1)


class Watched:
    """Three machines that are well, and reach each other; none of them serves."""

    def __init__(self, clock: VirtualClock) -> None:
        self.network = VirtualNetwork(clock, Random(1), delay_s=0.001, jitter_s=0.0)
        self.machines: list[Any] = [
            SimpleNamespace(
                server_id=number,
                name=f"s{number}",
                network=self.network.boot(f"s{number}"),
                is_up=True,
                is_well=True,
                serves=False,
                leads=False,
                server=None,
                member=None,
            )
            for number in (1, 2, 3)
        ]
        scenario = three_voters(thresholds=(), tick_ms=1000)
        self.checker = Checker(clock.now, lambda: None)
        self.watchman = Watchman(scenario, self.machines, self.network, self.checker)

    async def look_on(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self.watchman.watch()

    def let_lead(self, machine: Any, *counted: int, connected: tuple[int, ...] = ()) -> None:
        """It serves, and counts the acks of these."""
        machine.serves = machine.leads = True
        machine.server = SimpleNamespace(pipeline=SimpleNamespace(mode="leader"))
        leader = SimpleNamespace(
            learners=[SimpleNamespace(server_id=each) for each in connected],
            proposals=SimpleNamespace(_broadcast=SimpleNamespace(logged=dict.fromkeys(counted, 7))),
        )
        machine.member = SimpleNamespace(peer=SimpleNamespace(leader=leader))


def none_serves(watched: Watched) -> None:
    """As they are."""


def one_is_left_alone(watched: Watched) -> None:
    watched.machines[1].is_well = watched.machines[2].is_well = False


def one_serves(watched: Watched) -> None:
    watched.machines[0].serves = True


@pytest.mark.parametrize(
    ("is_so", "is_wrong"), [(none_serves, True), (one_is_left_alone, False), (one_serves, False)]
)
def test_a_quorum_that_is_well_must_have_somebody_who_serves(
    is_so: Callable[[Watched], None], is_wrong: bool
) -> None:
    async def test(clock: VirtualClock) -> None:
        watched = Watched(clock)
        is_so(watched)
        await watched.look_on(60)

    if is_wrong:
        with pytest.raises(Violation, match=r"are well and reach each other, and for 20\.0 s none of them"):
            run_repeatably(test, 1)
    else:
        run_repeatably(test, 1)


@pytest.mark.parametrize("is_disturbed", [False, True])
def test_nobody_loses_its_role_where_nothing_is_disturbed(is_disturbed: bool) -> None:
    async def test(clock: VirtualClock) -> None:
        watched = Watched(clock)
        leader = watched.machines[0]
        watched.let_lead(leader)
        await watched.look_on(60)
        if is_disturbed:
            watched.checker.disturbed_at = trio.current_time() - 1
        watched.let_lead(leader)
        await watched.look_on(2)

    if is_disturbed:
        run_repeatably(test, 1)
    else:
        with pytest.raises(Violation, match="s1 is no longer leader, though nothing was disturbed for"):
            run_repeatably(test, 1)


@pytest.mark.parametrize("connected", [(2,), (2, 3)])
def test_acks_count_as_long_as_their_learner_is_there(connected: tuple[int, ...]) -> None:
    async def test(clock: VirtualClock) -> None:
        watched = Watched(clock)
        watched.let_lead(watched.machines[0], 1, 2, 3, connected=connected)
        await watched.look_on(2)

    if connected == (2, 3):
        run_repeatably(test, 1)
    else:
        with pytest.raises(Violation, match=r"s1 counts the acks of \[3\], which are not connected"):
            run_repeatably(test, 1)
