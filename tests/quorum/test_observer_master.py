"""Our follower as an observer master: a scripted leader on one side, scripted observers on the other."""

from random import Random

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from quorum.admission import CONNECTIONS_MAX
from quorum.learner import Learning
from quorum.observer_master import ObserverMaster, Relay, masters_to_try
from quorum.packets import (
    ACK,
    ACKEPOCH,
    COMMIT,
    COMMITANDACTIVATE,
    DIFF,
    FOLLOWERINFO,
    INFORM,
    LEADERINFO,
    OBSERVERINFO,
    PING,
    PROPOSAL,
    SYNC,
    UPTODATE,
    int_data,
    learner_info,
    long_data,
    packet,
    ping_answer,
    read_packets,
    request_packet,
    revalidate_packet,
    revalidated_packet,
)
from quorum.settings import PeerSettings
from tests.persistence.fake_tree import inline
from tests.quorum.fake_replica import txn
from tests.quorum.scripted_peers import (
    INIT_LIMIT_S,
    SYNC_LIMIT_S,
    TICK_S,
    LearnerUnderTest,
    ScriptedPeer,
    ensemble_of,
    new_leader,
    pass_time,
    settings,
    show,
)

E1 = 1 << 32
PORT = 42890
DELETE, SET_DATA, SYNC_OP, CLOSE_SESSION = 2, 5, 9, -11

pytestmark = pytest.mark.usefixtures("mock_clock")


def master_settings(**more: int) -> PeerSettings:
    return attrs.evolve(settings(), observer_master_port=PORT, **more)  # type: ignore[arg-type]


@attrs.define
class MasterUnderTest(LearnerUnderTest):
    """Follows scripted server 2, and serves observers."""

    settings: PeerSettings = attrs.field(factory=master_settings)
    master: ObserverMaster | None = None

    def prepared(self) -> Learning:
        learning = super().prepared()
        learning._serve_observers = self._serve_observers
        return learning

    def _serve_observers(self, relay: Relay, epoch: int) -> ObserverMaster:
        self.master = ObserverMaster(
            settings=self.settings,
            membership=self.learning._membership,
            network=self.network,
            replica=self.replica,
            offload=inline,
            relay=relay,
            epoch=epoch,
        )
        return self.master

    async def serves(self) -> ScriptedPeer:
        """Returns its leader's end."""
        leader = await self.follows()
        await leader.say(packet(DIFF, 0), new_leader())
        await leader.say(packet(UPTODATE, -1))
        leader.heard()
        return leader

    async def dialled(self) -> ScriptedPeer:
        observer = ScriptedPeer(await self.network.dial("127.0.0.1", PORT))
        self.nursery.start_soon(observer.listen)
        await wait_all_tasks_blocked()
        return observer

    async def joined_by(self, server_id: int = 4, zxid: int = 0) -> ScriptedPeer:
        """An observer that has said who it is and how far it got."""
        observer = await self.dialled()
        await observer.say(packet(OBSERVERINFO, 0, learner_info(server_id, 0)))
        await observer.say(packet(ACKEPOCH, zxid, int_data(0)))
        return observer

    async def observed_by(self, server_id: int = 4) -> ScriptedPeer:
        """An observer that is up to date."""
        observer = await self.joined_by(server_id, self.replica.last_zxid)
        await observer.say(packet(ACK, E1))
        await observer.say(packet(ACK, E1))
        observer.heard()
        return observer


def proposal(zxid: int) -> bytes:
    return packet(PROPOSAL, zxid, txn(zxid))


def commit(zxid: int) -> bytes:
    return packet(COMMIT, zxid)


async def test_an_observer_is_brought_up_to_date_in_the_followers_epoch(nursery: trio.Nursery) -> None:
    """No quorum is waited for: UPTODATE follows the ack at once."""
    master = MasterUnderTest(nursery)
    leader = await master.serves()
    await leader.say(proposal(E1 + 1), commit(E1 + 1), proposal(E1 + 2))

    observer = await master.dialled()
    await observer.say(packet(OBSERVERINFO, 0, learner_info(4, 0)))
    assert observer.heard() == packet(LEADERINFO, E1, int_data(0x10000))
    await observer.say(packet(ACKEPOCH, E1 + 1, int_data(0)))
    assert observer.heard_packets() == ["DIFF 1/1", "NEWLEADER 1/0"]
    await observer.say(packet(ACK, E1))
    assert observer.heard() == packet(UPTODATE, -1)

    await leader.say(commit(E1 + 2))
    assert observer.heard() == packet(INFORM, E1 + 2, txn(E1 + 2))


async def test_an_observer_that_missed_some_is_sent_them(nursery: trio.Nursery) -> None:
    """From what the follower has applied, as a leader would."""
    master = MasterUnderTest(nursery)
    leader = await master.serves()
    for zxid in range(E1 + 1, E1 + 4):
        await leader.say(proposal(zxid), commit(zxid))

    observer = await master.joined_by(zxid=E1 + 2)
    assert observer.heard_packets()[1:] == ["DIFF 1/3", "PROPOSAL 1/3", "COMMIT 1/3", "NEWLEADER 1/0"]


async def test_commits_while_an_observer_synchronises_wait_behind_newleader(nursery: trio.Nursery) -> None:
    """None is missed, and none comes twice."""
    master = MasterUnderTest(nursery)
    leader = await master.serves()
    observer = await master.joined_by()
    observer.heard()
    await leader.say(proposal(E1 + 1), commit(E1 + 1))
    await observer.say(packet(ACK, E1))
    assert observer.heard_packets() == ["INFORM 1/1", "UPTODATE -1"]


async def test_what_observers_ask_goes_to_the_leader_and_comes_back_in_order(nursery: trio.Nursery) -> None:
    """SYNC has no name on it: whoever asked first is answered first."""
    master = MasterUnderTest(nursery)
    leader = await master.serves()
    one, two = await master.observed_by(4), await master.observed_by(5)
    ids = (("ip", "10.0.0.1"),)
    asked = request_packet(0x77, 3, SET_DATA, b"body", ids)

    await one.say(asked)
    assert leader.heard() == asked
    await two.say(request_packet(0x78, 1, SYNC_OP, b"/", None))
    master.service.upstream.forward(0x79, 1, SYNC_OP, b"/", None)
    master.service.upstream.flush()
    await one.say(request_packet(0x77, 4, SYNC_OP, b"/", None))

    await leader.say(packet(SYNC, 0))
    assert (one.heard(), two.heard(), master.service.syncs_done_at) == (b"", packet(SYNC, 0), [])
    await leader.say(packet(SYNC, 0))
    assert (one.heard(), two.heard(), master.service.syncs_done_at) == (b"", b"", [0])
    await leader.say(packet(SYNC, 0))
    assert (one.heard(), two.heard(), master.service.syncs_done_at) == (packet(SYNC, 0), b"", [0])


async def test_a_sync_does_not_overtake_the_commits_before_it(nursery: trio.Nursery) -> None:
    """An observer told of the sync first would read old data after it."""
    master = MasterUnderTest(nursery)
    leader = await master.serves()
    observer = await master.observed_by()
    await observer.say(request_packet(0x77, 4, SYNC_OP, b"/", None))
    await leader.say(proposal(E1 + 1), proposal(E1 + 2), commit(E1 + 1), packet(SYNC, 0), commit(E1 + 2))
    assert observer.heard_packets() == ["INFORM 1/1", "SYNC 0/0", "INFORM 1/2"]


async def test_revalidations_find_their_way_back(nursery: trio.Nursery) -> None:
    """Our own clients' too, and two about the same session one after the other."""
    master = MasterUnderTest(nursery)
    leader = await master.serves()
    observer = await master.observed_by()
    master.service.upstream.revalidate(0x77, 4000)
    master.service.upstream.flush()
    await observer.say(revalidate_packet(0x77, 4000), revalidate_packet(0x78, 4000))
    assert leader.heard() == (
        revalidate_packet(0x77, 4000) + revalidate_packet(0x77, 4000) + revalidate_packet(0x78, 4000)
    )

    await leader.say(revalidated_packet(-1, 0x77, True))
    assert (master.service.revalidations, observer.heard()) == ([(0x77, True)], b"")
    await leader.say(revalidated_packet(-1, 0x77, True), revalidated_packet(-1, 0x78, False))
    assert observer.heard() == revalidated_packet(-1, 0x77, True) + revalidated_packet(-1, 0x78, False)
    assert len(master.service.revalidations) == 1


async def granted(leader: ScriptedPeer, asker: ScriptedPeer, session: int) -> None:
    """The leader lets the session go on at this observer."""
    await asker.say(revalidate_packet(session, 4000))
    await leader.say(revalidated_packet(-1, session, True))
    leader.heard()


async def test_a_write_from_a_connection_that_its_client_has_left_is_refused(nursery: trio.Nursery) -> None:
    """For the leader all of us are one server. Its answer is a transaction, for which the observer waits."""
    master = MasterUnderTest(nursery)
    leader = await master.serves()
    one, two = await master.observed_by(4), await master.observed_by(5)
    write, late = request_packet(0x77, 3, SET_DATA, b"new", None), b"late"
    root = b"\0\0\0\1/" + b"\xff" * 4

    await granted(leader, one, 0x77)
    await granted(leader, two, 0x77)
    await two.say(write)
    assert leader.heard() == write
    await one.say(request_packet(0x77, 2, SET_DATA, late, None))
    assert leader.heard() == request_packet(0x77, 2, DELETE, root, None)
    await one.say(request_packet(0x78, 2, SET_DATA, late, None))
    assert leader.heard() == request_packet(0x78, 2, SET_DATA, late, None)
    await one.say(request_packet(0x77, 4, CLOSE_SESSION, b"", None))
    assert leader.heard() == request_packet(0x77, 4, CLOSE_SESSION, b"", None)

    master.service.upstream.revalidate(0x77, 4000)
    master.service.upstream.flush()
    await leader.say(revalidated_packet(-1, 0x77, True))
    leader.heard()
    await two.say(write)
    assert leader.heard() == request_packet(0x77, 3, DELETE, root, None)


async def test_our_own_connection_ends_when_its_client_goes_on_at_an_observer(nursery: trio.Nursery) -> None:
    master = MasterUnderTest(nursery)
    leader = await master.serves()
    observer = await master.observed_by()
    await observer.say(revalidate_packet(0x78, 4000))
    await leader.say(revalidated_packet(-1, 0x78, False))
    assert master.service.sessions_left == []
    await granted(leader, observer, 0x77)
    assert master.service.sessions_left == [0x77]


async def test_who_owned_a_session_is_forgotten_with_it(nursery: trio.Nursery) -> None:
    """So the table grows no longer than that of sessions. A clock set back gives the same id again."""
    master = MasterUnderTest(nursery)
    leader = await master.serves()
    one, two = await master.observed_by(4), await master.observed_by(5)
    await granted(leader, one, 0x77)
    end = txn(E1 + 1, session=0x77, type_=CLOSE_SESSION)
    await leader.say(packet(PROPOSAL, E1 + 1, end), commit(E1 + 1))
    leader.heard()
    write = request_packet(0x77, 3, SET_DATA, b"new", None)
    await two.say(write)
    assert leader.heard() == write


async def test_sessions_that_observers_hear_are_told_in_the_next_answer_to_a_ping(
    nursery: trio.Nursery,
) -> None:
    """Once, together with our own."""
    master = MasterUnderTest(nursery)
    leader = await master.serves()
    observer = await master.observed_by()
    await observer.say(ping_answer(E1, [(0x77, 4000), (0x78, 5000)]))
    master.service.heard_from = [(0x79, 6000)]

    await leader.say(packet(PING, E1))
    assert leader.heard() == ping_answer(E1, [(0x77, 4000), (0x78, 5000), (0x79, 6000)])
    await leader.say(packet(PING, E1))
    assert leader.heard() == ping_answer(E1, [])


async def test_an_observer_that_acks_a_transaction_is_let_go(nursery: trio.Nursery) -> None:
    """Only voters ack: whoever believes to be one must not go on in that belief (T62)."""
    master = MasterUnderTest(nursery)
    leader = await master.serves()
    observer = await master.observed_by()
    await leader.say(proposal(E1 + 1), commit(E1 + 1))
    await observer.say(packet(ACK, E1 + 1))
    assert observer.is_closed()
    assert master.master is not None
    assert not master.master.observers
    assert not leader.is_closed()


async def test_followers_are_not_served(nursery: trio.Nursery) -> None:
    """A voter has to ask the leader."""
    master = MasterUnderTest(nursery)
    await master.serves()
    voter = await master.dialled()
    await voter.say(packet(FOLLOWERINFO, 0, learner_info(3, 0)))
    assert voter.is_closed()


async def test_an_observer_ahead_of_us_is_sent_elsewhere(nursery: trio.Nursery) -> None:
    """It has what is committed and has not reached us yet: it must not be told to cut that off."""
    master = MasterUnderTest(nursery)
    await master.serves()
    observer = await master.joined_by(zxid=E1 + 1)
    assert show(observer.heard()) == ["LEADERINFO 1/0"]
    assert observer.is_closed()


async def test_an_observer_for_which_too_much_waits_is_let_go(nursery: trio.Nursery) -> None:
    """Memory is bounded by observerMaster.sizeLimit; the others go on."""
    master = MasterUnderTest(nursery, settings=master_settings(observer_master_queued_bytes_max=100))
    leader = await master.serves()
    slow = await master.joined_by(4)
    assert slow.is_closed()  # the configuration alone is longer than that
    assert not leader.is_closed()


async def test_an_observer_that_missed_more_than_may_wait_is_sent_it_in_pieces(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is for what is new: whoever comes back gets all that it missed."""
    monkeypatch.setattr("quorum.learner_sync._QUEUED_BYTES_MAX", 100)
    master = MasterUnderTest(nursery, settings=master_settings(observer_master_queued_bytes_max=1000))
    leader = await master.serves()
    for zxid in range(E1 + 1, E1 + 101):
        await leader.say(proposal(zxid), commit(zxid))
    observer = await master.joined_by(zxid=E1 + 1)
    heard = observer.heard_packets()
    assert heard[2:-1:2] == [f"PROPOSAL 1/{n}" for n in range(2, 101)]
    assert heard[3:-1:2] == [f"COMMIT 1/{n}" for n in range(2, 101)]
    assert heard[-1] == "NEWLEADER 1/0"


async def test_observers_are_pinged_twice_a_tick_and_a_silent_one_is_let_go(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """As by a leader."""
    master = MasterUnderTest(nursery)
    leader = await master.serves()
    observer = await master.observed_by()
    await pass_time(mock_clock, TICK_S)
    assert observer.heard() == 2 * packet(PING, 0)
    for _ in range(int(SYNC_LIMIT_S / TICK_S)):
        await leader.say(packet(PING, E1))
        await pass_time(mock_clock, TICK_S)
    assert observer.is_closed()
    assert not leader.is_closed()


async def test_observers_are_let_go_with_the_leader(nursery: trio.Nursery) -> None:
    """What they would be told then is not known to be committed."""
    master = MasterUnderTest(nursery)
    leader = await master.serves()
    observer = await master.observed_by()
    await leader.hang_up()
    assert observer.is_closed()
    assert ("127.0.0.1", PORT) not in master.network.listeners


async def test_an_answer_for_an_observer_that_is_gone_goes_nowhere(nursery: trio.Nursery) -> None:
    """In particular not to whoever asked next."""
    master = MasterUnderTest(nursery)
    leader = await master.serves()
    gone, there = await master.observed_by(4), await master.observed_by(5)
    await gone.say(request_packet(0x77, 1, SYNC_OP, b"/", None))
    await there.say(request_packet(0x78, 1, SYNC_OP, b"/", None))
    await gone.hang_up()
    await leader.say(packet(SYNC, 0))
    assert there.heard() == b""
    await leader.say(packet(SYNC, 0))
    assert there.heard() == packet(SYNC, 0)


async def test_a_port_that_is_taken_costs_no_more_than_observers(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """We follow all the same, and serve observers as soon as the port is free."""
    master = MasterUnderTest(nursery)
    [other] = await master.network.listen("127.0.0.1", PORT)
    leader = await master.serves()
    assert not leader.is_closed()
    await other.aclose()
    await pass_time(mock_clock, TICK_S)
    assert await master.observed_by()


async def test_an_impostor_throws_no_observer_out(nursery: trio.Nursery) -> None:
    """Nor do very many of them have room here."""
    master = MasterUnderTest(nursery)
    await master.serves()
    observer = await master.observed_by()
    for _ in range(CONNECTIONS_MAX - 1):
        await master.observed_by()
    assert (await master.joined_by(4, master.replica.last_zxid)).is_closed()
    assert not observer.is_closed()
    assert master.master is not None
    assert master.master.synced_count == CONNECTIONS_MAX


async def test_a_configuration_put_in_force_is_passed_on(nursery: trio.Nursery) -> None:
    """With the leader it designates, and the transaction that observers have not seen yet."""
    master = MasterUnderTest(nursery)
    leader = await master.serves()
    observer = await master.observed_by()
    await leader.say(proposal(E1 + 1), packet(COMMITANDACTIVATE, E1 + 1, long_data(2)))
    [(_, zxid, data, _)], _ = read_packets(observer.heard(), 1 << 20)
    assert (zxid, data) == (E1 + 1, long_data(2) + txn(E1 + 1))


# --- The observer's side.


def observer_under_test(nursery: trio.Nursery) -> LearnerUnderTest:
    ensemble = ensemble_of(voters=3, observers=1)
    return LearnerUnderTest(nursery, my_id=4, is_observer=True, ensemble=ensemble, settings=master_settings())


async def test_an_observer_prefers_a_master_to_the_leader(nursery: trio.Nursery) -> None:
    """The conversation is the same."""
    observer = observer_under_test(nursery)
    learning = observer.prepared()
    [listener] = await observer.network.listen("127.0.0.1", PORT)
    members = observer.ensemble.members
    nursery.start_soon(learning.learn, members[2], [members[3], members[1]])
    master = ScriptedPeer(await listener.accept())
    nursery.start_soon(master.listen)
    await wait_all_tasks_blocked()
    assert master.heard_packets() == ["OBSERVERINFO 0/0"]
    assert learning.master_id == 3
    nursery.cancel_scope.cancel()


async def test_an_observer_without_a_master_asks_the_leader(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """After two ticks: followers that were elected a moment ago may not listen yet."""
    observer = observer_under_test(nursery)
    learning = observer.prepared()
    [listener] = await observer.network.listen("127.0.0.1", 42882)
    members = observer.ensemble.members
    nursery.start_soon(learning.learn, members[2], [members[3], members[1]])
    await wait_all_tasks_blocked()
    await pass_time(mock_clock, TICK_S)
    assert set(observer.network.dials) == {("127.0.0.1", PORT)}
    await pass_time(mock_clock, 2 * TICK_S)
    await listener.accept()
    assert observer.network.dials[-3:] == [("127.0.0.1", PORT)] * 2 + [("127.0.0.1", 42882)]
    assert learning.master_id == 2
    nursery.cancel_scope.cancel()


async def test_a_master_that_does_not_answer_is_given_a_tick(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """Then it is the next one's turn; when nobody answers at all, we look for a leader again."""
    observer = observer_under_test(nursery)
    learning = observer.prepared()
    observer.network.silent.add("127.0.0.1")
    members = observer.ensemble.members
    nursery.start_soon(learning.learn, members[2], [members[3], members[1]])
    await wait_all_tasks_blocked()
    await pass_time(mock_clock, 2 * TICK_S)
    assert observer.network.dials == [("127.0.0.1", PORT)] * 2 + [("127.0.0.1", 42882)]
    await pass_time(mock_clock, INIT_LIMIT_S)


def test_masters_are_all_followers_beginning_anywhere() -> None:
    """So that many observers are spread over them."""
    ensemble = ensemble_of(voters=4, observers=1)
    tried = [tuple(each.server_id for each in masters_to_try(5, 2, ensemble, Random(n))) for n in range(20)]
    assert set(tried) == {(1, 3, 4), (3, 4, 1), (4, 1, 3)}
    assert masters_to_try(2, 1, ensemble_of(voters=1, observers=1), Random(1)) == []
