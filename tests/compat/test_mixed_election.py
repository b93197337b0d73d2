"""Our elector among servers of Apache ZooKeeper: it hears what they say, and they hear it.

This looks inside, as nothing in compat-tests/ does: an elector alone, without a server around it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import javaproperties
import pytest
import trio

from jute.quorum_records import ServerState
from quorum.election import Vote
from quorum.elector import ElectionSettings, Elector
from quorum.network import RealNetwork
from quorum.server_lines import read_ensemble
from support.ensembles import Ensemble, prepare_ensemble, wait_until
from support.servers import Kind

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("reference")]

APACHE: Kind = "reference"
ELECTION_SECONDS_MAX = 30


@asynccontextmanager
async def elector_of(ensemble: Ensemble, server_id: int) -> AsyncIterator[Elector]:
    """In the place of this member, which is not running."""
    members = read_ensemble(javaproperties.loads(ensemble.lines()))
    elector = Elector(server_id, RealNetwork(), ElectionSettings(), members)
    async with trio.open_nursery() as nursery:
        await nursery.start(elector.run)
        with trio.fail_after(ELECTION_SECONDS_MAX):
            yield elector
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("server_id", [1, 2, 3])
async def test_a_newcomer_follows_the_leader_that_apache_servers_elected(server_id: int) -> None:
    """Whether its id is smaller or larger than theirs: one side must call the other back."""
    with prepare_ensemble([APACHE] * 3) as ensemble:
        ensemble.start(*ensemble.others(server_id))
        leader = ensemble.wait_for_leader()
        async with elector_of(ensemble, server_id) as elector:
            vote = await elector.look(0, 0)
            assert isinstance(vote, Vote)
            assert (vote.leader, vote.peer_epoch) == (leader, 1)
            assert elector.state is ServerState.FOLLOWING


async def test_an_observer_is_told_who_leads() -> None:
    """It has to ask; nobody tells it by himself."""
    with prepare_ensemble([APACHE] * 3, observers=[3]) as ensemble:
        ensemble.start(1, 2)
        leader = ensemble.wait_for_leader()
        async with elector_of(ensemble, 3) as elector:
            vote = await elector.look(0, 0)
            assert isinstance(vote, Vote)
            assert vote.leader == leader
            assert elector.state is ServerState.OBSERVING


@pytest.mark.parametrize(("server_id", "leader"), [(3, 3), (1, 2)])
async def test_an_apache_server_and_ours_elect_one_of_them(server_id: int, leader: int) -> None:
    """Both look, for the first time: among servers that know nothing the larger id wins."""
    with prepare_ensemble([APACHE] * 3) as ensemble:
        ensemble.spawn(2)
        async with elector_of(ensemble, server_id) as elector:
            vote = await elector.look(0, 0)
            assert isinstance(vote, Vote)
            assert vote.leader == leader
            role = "LEADING" if leader == 2 else "FOLLOWING"
            await trio.to_thread.run_sync(wait_for_line, ensemble, f"{role} - LEADER ELECTION TOOK")


def wait_for_line(ensemble: Ensemble, line: str) -> None:
    """In the log of server 2."""
    wait_until(lambda: line in ensemble[2].log_text, lambda: ensemble.failure(f"does not say {line}"), 10)
