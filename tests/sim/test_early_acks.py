"""A follower that acknowledges early does so from its disk, and once."""

from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from quorum.packets import COMMIT, DIFF, PROPOSAL, UPTODATE, packet
from tests.quorum.machines import ServerMachine, creating, names_of
from tests.quorum.scripted_peers import LearnerUnderTest, new_leader, pass_time, show
from tests.sim.early_acks import early_acks
from tests.sim.virtual_time import PROCESS

E1 = 1 << 32


@pytest.mark.parametrize(("is_early", "early"), [(True, ["ACK 1/2", "ACK 1/3"]), (False, [])])
async def test_what_was_sent_before_newleader_is_acked_before_it(
    nursery: trio.Nursery, mock_clock: MockClock, is_early: bool, early: list[str]
) -> None:
    """1/2 is committed, 1/3 is not. Without the quirk, that is acked when clients are served."""
    host: Any = SimpleNamespace(acks_early=is_early, random=Random(1))
    counts = Counter[str]()
    token = PROCESS.set("s1")
    with early_acks({"s1": host}, counts):
        machine = ServerMachine().with_history([E1 + 1], accepted=1, current=1)
        leader = await LearnerUnderTest(await machine.boot(nursery), machine=machine).follows(2)
        sent = [packet(PROPOSAL, E1 + counter, creating(E1 + counter)) for counter in (2, 3)]
        await leader.say(packet(DIFF, E1 + 2), sent[0], packet(COMMIT, E1 + 2), sent[1], new_leader(2))
        assert show(leader.heard()) == (early or ["ACK 2/0"])
        assert machine.names_on_disk() == names_of([E1 + 1, E1 + 2, E1 + 3] if early else [E1 + 1, E1 + 2])
        await pass_time(mock_clock, 0.1)
        assert show(leader.heard()) == (["ACK 2/0"] if early else [])
        await leader.say(packet(COMMIT, E1 + 3), packet(UPTODATE, -1))
        assert show(leader.heard()) == (["ACK 2/0"] if early else ["ACK 2/0", "ACK 1/3"])
        assert machine.names() == names_of([E1 + 1, E1 + 2, E1 + 3])
    PROCESS.reset(token)
    assert counts["acked_early"] == is_early
