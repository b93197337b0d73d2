"""What ought to go on without a pause is watched."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from tests.sim.checkers import Checker, Violation
from tests.sim.network import VirtualNetwork
from tests.sim.scenario import draw_scenario
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
