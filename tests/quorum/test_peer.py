"""From one role to the next: with an elector that says what a test tells it to, and scripted leaders."""

from random import Random

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from jute.quorum_records import ServerState
from quorum.election import UNKNOWN_ZXID, Vote
from quorum.membership import Membership
from quorum.packets import (
    DIFF,
    FOLLOWERINFO,
    LEADERINFO,
    PROPOSAL,
    SNAP,
    TRUNC,
    UPTODATE,
    int_data,
    learner_info,
    packet,
)
from quorum.peer import Peer
from quorum.server_lines import Ensemble
from quorum.settings import PeerSettings
from tests.captured_logs import capture_logs
from tests.persistence.fake_tree import inline
from tests.quorum.fake_replica import FakeReplica, stream_of, txn, txns
from tests.quorum.memory_network import MemoryNetwork
from tests.quorum.scripted_peers import (
    ScriptedPeer,
    ensemble_of,
    epochs_at,
    new_leader,
    pass_time,
    settings,
    show,
)

E1, E2 = 1 << 32, 2 << 32

pytestmark = pytest.mark.usefixtures("mock_clock")


class ScriptedElector:
    """Every election ends when and as the test says. Remembers what the server stood for."""

    def __init__(self) -> None:
        self.state = ServerState.LOOKING
        self.candidacies: list[tuple[int, int]] = []  # last zxid, current epoch
        self.epochs: list[int] = []
        self._outcomes, self._ended = trio.open_memory_channel[int](10)

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await trio.sleep_forever()

    async def look(self, zxid: int, epoch: int) -> Vote:
        self.candidacies.append((zxid, epoch))
        leader = await self._ended.receive()
        return Vote(leader, zxid, 1, epoch)

    def elects(self, leader: int, state: ServerState = ServerState.FOLLOWING) -> None:
        self.state = state
        self._outcomes.send_nowait(leader)

    def reach(self) -> tuple[list[int], dict[int, str]]:
        return [2], {3: "connection refused"}

    def update_vote_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)


@attrs.define
class PeerUnderTest:
    nursery: trio.Nursery
    replica: FakeReplica = attrs.field(factory=FakeReplica)
    my_id: int = 1
    ensemble: Ensemble = attrs.field(factory=ensemble_of)
    settings: PeerSettings = attrs.field(factory=settings)
    network: MemoryNetwork = attrs.field(factory=MemoryNetwork)
    elector: ScriptedElector = attrs.field(factory=ScriptedElector)

    async def starts(self, accepted: int = 1, current: int = 1) -> Peer:
        peer = Peer(
            settings=self.settings,
            membership=Membership(self.my_id, self.ensemble),
            network=self.network,
            replica=self.replica,
            epochs=epochs_at(accepted, current)[1],
            elector=self.elector,  # type: ignore[arg-type]
            offload=inline,
            random=Random(1),
        )
        self.nursery.start_soon(peer.run)
        await wait_all_tasks_blocked()
        return peer

    async def follows(self, epoch: int) -> ScriptedPeer:
        """Server 2 is elected, and has told its epoch."""
        [listener] = await self.network.listen("127.0.0.1", 42882)
        self.elector.elects(2)
        leader = ScriptedPeer(await listener.accept())
        await listener.aclose()
        self.nursery.start_soon(leader.listen)
        await wait_all_tasks_blocked()
        await leader.say(packet(LEADERINFO, epoch << 32, int_data(0x10000)))
        return leader

    async def dialled_by(self, server_id: int, accepted: int) -> ScriptedPeer:
        """A follower, while our server leads."""
        follower = ScriptedPeer(await self.network.dial("127.0.0.1", 42880 + self.my_id))
        self.nursery.start_soon(follower.listen)
        await follower.say(packet(FOLLOWERINFO, accepted << 32, learner_info(server_id, 0)))
        return follower


async def test_a_vote_stands_for_all_that_was_logged(nursery: trio.Nursery) -> None:
    """T6: committed or not, and for the epoch that was entered."""
    peer = PeerUnderTest(nursery, FakeReplica(txns(E1 + 1, E1 + 3)))
    await peer.starts()
    assert peer.elector.candidacies == [(E1 + 3, 1)]
    leader = await peer.follows(2)
    await leader.say(packet(DIFF, E1 + 3), new_leader(2), packet(UPTODATE, -1))
    await leader.say(packet(PROPOSAL, E2 + 1, txn(E2 + 1)))
    assert peer.elector.epochs == [2]
    assert peer.replica.last_zxid == E1 + 3
    await leader.hang_up()
    assert peer.elector.state is ServerState.LOOKING
    assert peer.elector.candidacies[1:] == [(E2 + 1, 2)]


async def test_a_snapshot_that_is_needed_is_asked_for_in_the_next_role(nursery: trio.Nursery) -> None:
    """And no longer once it came."""
    peer = PeerUnderTest(nursery, FakeReplica(txns(E1 + 1, E1 + 3)))
    await peer.starts()
    leader = await peer.follows(2)
    await leader.say(packet(TRUNC, E1 + 77))
    assert leader.is_closed()
    leader = await peer.follows(2)
    assert show(leader.heard())[-1] == "ACKEPOCH 0/0"
    await leader.say(packet(SNAP, E1 + 2), stream_of(txns(E1 + 1, E1 + 2)), new_leader(2))
    await leader.hang_up()
    assert peer.elector.candidacies[-1] == (E1 + 2, 2)
    leader = await peer.follows(3)
    assert show(leader.heard())[-1] == "ACKEPOCH 1/2"


async def test_a_leader_that_is_not_listed_is_not_followed(nursery: trio.Nursery) -> None:
    peer = PeerUnderTest(nursery)
    await peer.starts()
    peer.elector.elects(9)
    await wait_all_tasks_blocked()
    assert len(peer.elector.candidacies) == 2
    assert peer.network.dials == []


async def test_who_is_turned_away_again_and_again_tries_less_often(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """At once at first: whoever was elected may have died meanwhile."""
    peer = PeerUnderTest(nursery)
    await peer.starts()
    for _ in range(10):
        peer.elector.elects(9)
    await wait_all_tasks_blocked()
    assert len(peer.elector.candidacies) == 4
    for tries, after_s in enumerate((0.1, 0.2, 0.4, 0.8, 1.0, 1.0), start=5):
        await pass_time(mock_clock, after_s - 0.01)
        assert len(peer.elector.candidacies) == tries - 1
        await pass_time(mock_clock, 0.01)
        assert len(peer.elector.candidacies) == tries


async def test_who_is_elected_leads(nursery: trio.Nursery, mock_clock: MockClock) -> None:
    """And looks again when nobody follows."""
    peer = PeerUnderTest(nursery)
    running = await peer.starts()
    peer.elector.elects(1, ServerState.LEADING)
    await wait_all_tasks_blocked()
    assert running.leader is not None
    assert list(peer.network.listeners) == [("127.0.0.1", 42881)]
    await pass_time(mock_clock, 20)
    assert len(peer.elector.candidacies) == 2
    assert peer.elector.state is ServerState.LOOKING


async def test_the_next_epoch_is_one_that_all_can_accept(nursery: trio.Nursery) -> None:
    """Server 3, who promised a later one, may be too late again to be heard before the epoch is settled."""
    peer = PeerUnderTest(nursery)
    await peer.starts()
    for heard in ("LEADERINFO 2/0", "LEADERINFO 8/0"):
        peer.elector.elects(1, ServerState.LEADING)
        await wait_all_tasks_blocked()
        second = await peer.dialled_by(2, accepted=1)
        assert show(second.heard()) == [heard]
        await peer.dialled_by(3, accepted=7)
    assert len(peer.elector.candidacies) == 2


async def test_an_observer_takes_its_time_before_it_looks_again(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """All observers lose their leader at the same moment."""
    peer = PeerUnderTest(nursery, my_id=4, ensemble=ensemble_of(3, observers=1))
    await peer.starts()
    peer.elector.elects(9, ServerState.OBSERVING)
    await wait_all_tasks_blocked()
    assert len(peer.elector.candidacies) == 1
    await pass_time(mock_clock, 0.5)
    assert len(peer.elector.candidacies) == 2


async def test_reads_are_served_while_there_is_no_leader(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """Not at once, only if that is allowed, and no longer than until the election ends."""
    peer = PeerUnderTest(nursery, settings=settings(read_only_enabled=True))
    await peer.starts()
    await pass_time(mock_clock, 1.5)
    assert not peer.replica.is_read_only()
    await pass_time(mock_clock, 0.5)
    assert peer.replica.is_read_only()
    peer.elector.elects(9)
    await wait_all_tasks_blocked()
    assert not peer.replica.is_read_only()

    strict = PeerUnderTest(nursery)
    await strict.starts()
    await pass_time(mock_clock, 10)
    assert not strict.replica.is_read_only()


async def test_no_reads_are_served_from_a_tree_that_has_yet_to_come_from_a_leader(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """It is empty, and would deny all that was ever acknowledged."""
    replica = FakeReplica()
    replica.last_zxid = UNKNOWN_ZXID
    peer = PeerUnderTest(nursery, replica, settings=settings(read_only_enabled=True))
    await peer.starts()
    await pass_time(mock_clock, 10)
    assert not replica.is_read_only()


async def test_while_nobody_is_served_that_is_said_every_10_s(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """With whom there is a connection, and with whom there is none."""
    peer = PeerUnderTest(nursery)
    await peer.starts()
    with capture_logs() as logs:
        await pass_time(mock_clock, 30)
        said = [each for each in logs if each["event"] == "no_quorum"]
        assert [each["for_s"] for each in said] == [10, 20, 30]
        assert said[0]["reachable"] == [2]
        assert said[0]["unreachable"] == {3: "connection refused"}
        leader = await peer.follows(2)
        await leader.say(packet(DIFF, 0), new_leader(2), packet(UPTODATE, -1))
        logs.clear()
        await pass_time(mock_clock, 9)
        assert "no_quorum" not in [each["event"] for each in logs]
