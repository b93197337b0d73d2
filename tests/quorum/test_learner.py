"""Our learner with a scripted leader: first the conversations that were captured between Apache's servers,
byte for byte, then everything a leader may also do."""

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from persistence.log_format import zxid_of
from quorum.epochs import EpochKeeper
from quorum.packets import (
    ACK,
    ACKEPOCH,
    COMMIT,
    DIFF,
    FOLLOWERINFO,
    INFORM,
    LEADERINFO,
    NEWLEADER,
    PING,
    PROPOSAL,
    REVALIDATE,
    SNAP,
    SYNC,
    TRUNC,
    UPTODATE,
    int_data,
    packet,
    revalidated_packet,
)
from tests.quorum.fake_replica import FakeReplica, stream_of, txn, txns
from tests.quorum.machines import ServerMachine, creating, names_of
from tests.quorum.scripted_peers import (
    CONFIG,
    INIT_LIMIT_S,
    SYNC_LIMIT_S,
    LearnerUnderTest,
    ScriptedPeer,
    ensemble_of,
    epochs_on,
    new_leader,
    pass_time,
    settings,
    show,
)

E1, E2, E3 = 1 << 32, 2 << 32, 3 << 32
UP_TO_DATE = packet(UPTODATE, -1)

# Nothing here may depend on how long things take.
pytestmark = pytest.mark.usefixtures("mock_clock")


def unhex(text: str) -> bytes:
    return bytes.fromhex(text)


def proposal(zxid: int, payload: bytes | None = None) -> bytes:
    return packet(PROPOSAL, zxid, payload or txn(zxid))


def inform(zxid: int) -> bytes:
    return packet(INFORM, zxid, txn(zxid))


def commit(zxid: int) -> bytes:
    return packet(COMMIT, zxid)


def committed(*zxids: int) -> bytes:
    """As a learner that missed them is sent them."""
    return b"".join(proposal(zxid) + commit(zxid) for zxid in zxids)


async def in_step(leader: ScriptedPeer, epoch: int = 1) -> None:
    """A learner that has nothing to catch up with is now served."""
    await leader.say(packet(DIFF, 0), new_leader(epoch))
    await leader.say(UP_TO_DATE)
    leader.heard()


# --- As captured.


async def test_trace_8_1_the_first_start(nursery: trio.Nursery) -> None:
    """Follower 1 of an ensemble that has no history."""
    learner = LearnerUnderTest(nursery)
    leader = await learner.dials()
    assert leader.heard() == unhex(
        "0000000b 0000000000000000 00000014 0000000000000001 00010000 0000000000000000 ffffffff"
    )
    await leader.say(unhex("00000011 0000000100000000 00000004 00010000 ffffffff"))
    assert leader.heard() == unhex("00000012 0000000000000000 00000004 00000000 ffffffff")
    assert learner.stored_epochs == (1, 0)  # the promise is on disk before it is made (T10)
    await leader.say(unhex("0000000d 0000000000000000 ffffffff ffffffff"))
    await leader.say(unhex("0000000a 0000000100000000 000000ba") + CONFIG + unhex("ffffffff"))
    ack = unhex("00000003 0000000100000000 ffffffff ffffffff")
    assert leader.heard() == ack
    assert learner.stored_epochs == (1, 1)
    assert learner.synced_with == []
    await leader.say(unhex("0000000c ffffffffffffffff ffffffff ffffffff"))
    assert leader.heard() == ack
    assert learner.synced_with == [1]
    await leader.say(unhex("00000005 0000000100000000 ffffffff ffffffff"))
    assert leader.heard() == unhex("00000005 0000000100000000 00000000 ffffffff")
    assert learner.replica.last_zxid == 0  # nothing raises it to the epoch's beginning (T9)


async def test_trace_8_1_joining_by_snapshot(nursery: trio.Nursery) -> None:
    """Server 3 has nothing, its leader has processed the start of an epoch."""
    learner = LearnerUnderTest(nursery, my_id=3)
    leader = await learner.follows()
    await leader.say(unhex("0000000f 0000000100000000 ffffffff ffffffff") + stream_of([]) + new_leader())
    assert show(leader.heard()) == ["ACK 1/0"]
    assert (learner.replica.saved_zxid, learner.replica.last_zxid) == (E1, E1)
    assert learner.stored_epochs == (1, 1)


SESSION = 0x01000010037B0000
CREATE_SESSION = unhex(
    "01000010037b0000 00000000 0000000100000001 000001a1e1830ce8 fffffff6 00007530 00000002 0000000051c6d660"
)


async def test_trace_8_2_writes_through_a_follower(nursery: trio.Nursery) -> None:
    """Requests are forwarded, proposals logged and acked, commits applied."""
    learner = LearnerUnderTest(nursery)
    leader = await learner.follows()
    await in_step(leader)
    upstream = learner.service.upstream
    upstream.forward(SESSION, 0, -10, unhex("00007530"), None)
    upstream.flush()
    await wait_all_tasks_blocked()
    assert leader.heard() == unhex(
        "00000001 ffffffffffffffff 00000014 01000010037b0000 00000000 fffffff6 00007530 ffffffff"
    )
    await leader.say(unhex("00000002 0000000100000001 00000030") + CREATE_SESSION + unhex("ffffffff"))
    assert leader.heard() == unhex("00000003 0000000100000001 ffffffff ffffffff")
    assert learner.replica.on_disk == [CREATE_SESSION]
    assert learner.replica.history == []
    await leader.say(unhex("00000004 0000000100000001 ffffffff ffffffff"))
    assert learner.replica.history == [E1 + 1]
    upstream.forward(SESSION, 6, 9, unhex("00000002 2f61"), (("ip", "127.0.0.1"),))
    upstream.flush()
    await leader.say(unhex("00000007 0000000000000000 ffffffff ffffffff"))
    assert leader.heard() == unhex(
        "00000001 ffffffffffffffff 00000016 01000010037b0000 00000006 00000009 00000002 2f61"
        "00000001 00000002 6970 00000009 3132372e302e302e31"
    )
    assert learner.service.syncs_done_at == [E1 + 1]
    learner.service.heard_from.append((SESSION, 30000))
    await leader.say(packet(PING, 0x10000000C))
    assert leader.heard() == unhex("00000005 000000010000000c 0000000c 01000010037b0000 00007530 ffffffff")
    upstream.revalidate(SESSION, 30000)
    upstream.flush()
    await leader.say(unhex("00000006 ffffffffffffffff 00000009 01000010037b0000 01 ffffffff"))
    assert leader.heard() == unhex("00000006 ffffffffffffffff 0000000c 01000010037b0000 00007530 ffffffff")
    assert learner.service.revalidations == [(SESSION, True)]


async def test_trace_8_3_coming_back_by_diff(nursery: trio.Nursery) -> None:
    """Server 3 missed three; its leader is still the same."""
    learner = LearnerUnderTest(nursery, FakeReplica(txns(E1 + 1, E1 + 7)), my_id=3, epochs=(1, 1))
    leader = await learner.dials()
    assert leader.heard() == unhex(
        "0000000b 0000000100000000 00000014 0000000000000003 00010000 0000000000000000 ffffffff"
    )
    await leader.say(packet(LEADERINFO, E1, int_data(0x10000)))
    assert leader.heard() == unhex("00000012 0000000100000007 00000004 ffffffff ffffffff")
    learner.replica.disk_is_busy = True
    await leader.say(packet(DIFF, E1 + 10), committed(E1 + 8, E1 + 9, E1 + 10), new_leader())
    assert leader.heard() == b""  # not before it is on disk
    learner.replica.disk_is_busy = False
    learner.replica.sync_disk()
    await wait_all_tasks_blocked()
    assert leader.heard() == unhex("00000003 0000000100000000 ffffffff ffffffff")
    await leader.say(UP_TO_DATE)
    assert leader.heard() == unhex("00000003 0000000100000000 ffffffff ffffffff")
    assert list(map(zxid_of, learner.replica.on_disk)) == list(range(E1 + 1, E1 + 11))
    assert learner.replica.last_zxid == E1 + 10


async def test_trace_8_4_coming_back_by_trunc(nursery: trio.Nursery) -> None:
    """The old leader has logged one more than everybody else."""
    learner = LearnerUnderTest(nursery, FakeReplica(txns(E1 + 1, E1 + 13)), my_id=1, epochs=(1, 1))
    leader = await learner.dials()
    await leader.say(packet(LEADERINFO, E2, int_data(0x10000)))
    assert leader.heard()[-24:] == unhex("00000012 000000010000000d 00000004 00000001 ffffffff")
    await leader.say(unhex("0000000e 000000010000000c ffffffff ffffffff"), new_leader(2))
    assert show(leader.heard()) == ["ACK 2/0"]
    await leader.say(UP_TO_DATE)
    assert show(leader.heard()) == ["ACK 2/0"]
    assert learner.replica.history == list(range(E1 + 1, E1 + 13))
    assert learner.replica.crashed().history == learner.replica.history
    assert learner.stored_epochs == (2, 2)


async def test_trace_8_5_coming_back_by_snapshot(nursery: trio.Nursery) -> None:
    """What it had and nobody else goes with all the rest; what follows the stream are packets again."""
    learner = LearnerUnderTest(nursery, FakeReplica(txns(E2 + 1, E2 + 3)), my_id=3, epochs=(2, 2))
    leader = await learner.follows(3)
    tree = txns(E2 + 1, E2 + 2) + txns(E3 + 1, E3 + 3)
    await leader.say(unhex("0000000f 0000000300000003 ffffffff ffffffff") + stream_of(tree) + new_leader(3))
    assert show(leader.heard()) == ["ACK 3/0"]
    await leader.say(UP_TO_DATE)
    assert show(leader.heard()) == ["ACK 3/0"]
    assert learner.replica.history == list(map(zxid_of, tree))
    assert learner.replica.crashed().history == learner.replica.history


async def test_trace_8_6_an_observer(nursery: trio.Nursery) -> None:
    """It is informed, and acks nothing it is informed of."""
    learner = LearnerUnderTest(nursery, my_id=4, is_observer=True, ensemble=ensemble_of(3, observers=1))
    leader = await learner.dials()
    assert leader.heard() == unhex(
        "00000010 0000000000000000 00000014 0000000000000004 00010000 0000000000000000 ffffffff"
    )
    await leader.say(packet(LEADERINFO, E1, int_data(0x10000)))
    await leader.say(packet(SNAP, E1 + 3) + stream_of(txns(E1 + 1, E1 + 3)) + new_leader())
    await leader.say(UP_TO_DATE)
    assert show(leader.heard()) == ["ACKEPOCH 0/0", "ACK 1/0", "ACK 1/0"]
    await leader.say(inform(E1 + 4))
    await leader.say(inform(E1 + 5), packet(PING, E1 + 5))
    assert show(leader.heard()) == ["PING 1/5"]
    assert learner.replica.last_zxid == E1 + 5
    assert list(map(zxid_of, learner.replica.on_disk)) == [E1 + 4, E1 + 5]


async def test_an_observer_may_keep_no_log(nursery: trio.Nursery) -> None:
    """syncEnabled=false."""
    learner = LearnerUnderTest(
        nursery,
        my_id=4,
        is_observer=True,
        ensemble=ensemble_of(3, observers=1),
        settings=settings(observer_logs=False),
    )
    leader = await learner.follows()
    await leader.say(packet(DIFF, E1 + 1), committed(E1 + 1), new_leader())
    await leader.say(UP_TO_DATE, inform(E1 + 2))
    assert learner.replica.last_zxid == E1 + 2
    assert learner.replica.on_disk == []


# --- Synchronising while the ensemble works.


async def test_what_is_proposed_meanwhile_waits_until_we_serve(nursery: trio.Nursery) -> None:
    """T8, T19: neither logged nor acked before UPTODATE, nor applied; then all of that."""
    learner = LearnerUnderTest(nursery)
    leader = await learner.follows()
    await leader.say(packet(DIFF, E1 + 1), committed(E1 + 1), proposal(E1 + 2), new_leader())
    await leader.say(proposal(E1 + 3), commit(E1 + 2), proposal(E1 + 4))
    assert show(leader.heard()) == ["ACK 1/0"]
    assert list(map(zxid_of, learner.replica.on_disk)) == [E1 + 1]
    await leader.say(UP_TO_DATE)
    assert show(leader.heard()) == ["ACK 1/0", "ACK 1/2", "ACK 1/3", "ACK 1/4"]
    assert learner.replica.history == [E1 + 1, E1 + 2]
    await leader.say(commit(E1 + 3), commit(E1 + 4))
    assert learner.replica.history == [E1 + 1, E1 + 2, E1 + 3, E1 + 4]


async def test_pings_are_not_answered_before_we_serve(nursery: trio.Nursery) -> None:
    """T17: a leader that reads one packet for the ack of NEWLEADER must find that ack."""
    learner = LearnerUnderTest(nursery)
    leader = await learner.follows()
    await leader.say(packet(DIFF, 0), packet(PING, E1), new_leader(), packet(PING, E1))
    assert show(leader.heard()) == ["ACK 1/0"]
    await leader.say(UP_TO_DATE)
    assert show(leader.heard()) == ["ACK 1/0"]


async def test_a_snapshot_may_hold_more_than_its_zxid_says(nursery: trio.Nursery) -> None:
    """T13: it was taken while the leader went on, and what it went on with comes again."""
    learner = LearnerUnderTest(nursery)
    leader = await learner.follows()
    await leader.say(
        packet(SNAP, E1 + 3), stream_of(txns(E1 + 1, E1 + 5)), committed(E1 + 4, E1 + 5, E1 + 6), new_leader()
    )
    await leader.say(UP_TO_DATE)
    assert learner.replica.history == list(range(E1 + 1, E1 + 7))
    assert learner.replica.last_zxid == E1 + 6
    assert learner.replica.crashed().history == learner.replica.history


@pytest.mark.parametrize("mode", ["DIFF", "TRUNC", "SNAP"])
async def test_a_history_that_comes_byte_by_byte(nursery: trio.Nursery, mode: str) -> None:
    """However the stream is cut, wherever the snapshot ends in it."""
    learner = LearnerUnderTest(nursery, FakeReplica(txns(E1 + 1, E1 + 3)), epochs=(1, 1))
    leader = await learner.follows(2)
    openings = {
        "DIFF": packet(DIFF, E1 + 5) + committed(E1 + 4, E1 + 5),
        "TRUNC": packet(TRUNC, E1 + 2) + committed(E1 + 3, E1 + 4, E1 + 5),
        "SNAP": packet(SNAP, E1 + 4) + stream_of(txns(E1 + 1, E1 + 4)) + committed(E1 + 5),
    }
    for byte in openings[mode] + new_leader(2) + UP_TO_DATE:
        await leader.say(bytes([byte]))
    assert show(leader.heard()) == ["ACK 2/0", "ACK 2/0"]
    assert learner.replica.history == list(range(E1 + 1, E1 + 6))
    assert learner.replica.crashed().history == learner.replica.history


async def test_a_log_that_cannot_be_cut_is_replaced(nursery: trio.Nursery) -> None:
    """T15: the leader named what we lack. Next time we say that we have nothing, and get its tree."""
    learner = LearnerUnderTest(nursery, FakeReplica(txns(E1 + 1, E1 + 9)), epochs=(1, 1))
    leader = await learner.follows(2)
    await leader.say(packet(TRUNC, E1 + 20))
    assert leader.is_closed()
    assert "cannot be cut back" in str(learner.ended)
    assert learner.learning.needs_snapshot
    again = LearnerUnderTest(nursery, learner.replica, epochs=(2, 1), needs_snapshot=True)
    leader = await again.dials()
    await leader.say(packet(LEADERINFO, E2, int_data(0x10000)))
    assert show(leader.heard())[-1] == "ACKEPOCH 0/0"


@pytest.mark.parametrize(
    "said",
    [
        packet(DIFF, E1 + 9) + committed(E1 + 5),
        packet(DIFF, E1 + 9) + committed(E1 + 4, E1 + 6),
        packet(DIFF, E2 + 9) + committed(E1 + 4, E2 + 2),
        packet(TRUNC, E1 + 2) + committed(E1 + 4),
        packet(SNAP, E1 + 3) + stream_of(txns(E1 + 1, E1 + 3)) + committed(E1 + 4, E1 + 6),
    ],
)
async def test_a_history_with_a_hole_is_not_taken_over(nursery: trio.Nursery, said: bytes) -> None:
    """T20: nothing behind the hole is kept, and next time we ask for the whole tree."""
    learner = LearnerUnderTest(nursery, FakeReplica(txns(E1 + 1, E1 + 3)), epochs=(1, 1))
    leader = await learner.follows(3)
    await leader.say(said, new_leader(3))
    assert leader.heard() == b""
    assert "does not follow" in str(learner.ended)
    assert learner.learning.needs_snapshot
    await learner.replica.retire()
    history = learner.replica.history
    assert history == list(range(E1 + 1, E1 + 1 + len(history)))
    assert learner.stored_epochs == (3, 1)


@pytest.mark.parametrize("mode", [DIFF, TRUNC])
async def test_who_is_counted_for_the_epoch_says_how_far_its_history_goes(
    nursery: trio.Nursery, mode: int
) -> None:
    """Also if it needs a snapshot: with zxid 0 it would help a leader into office that has less. It asks on
    the next connection, on which it is not counted."""
    learner = LearnerUnderTest(nursery, FakeReplica(txns(E1 + 1, E1 + 3)), epochs=(1, 1), needs_snapshot=True)
    leader = await learner.dials()
    await leader.say(packet(LEADERINFO, E2, int_data(0x10000)))
    assert show(leader.heard())[-1] == "ACKEPOCH 1/3"
    await leader.say(packet(mode, E1 + 2), new_leader(2))
    assert leader.is_closed()
    assert learner.replica.history == [E1 + 1, E1 + 2, E1 + 3]
    again = LearnerUnderTest(nursery, learner.replica, epochs=(2, 1), needs_snapshot=True)
    leader = await again.dials()
    await leader.say(packet(LEADERINFO, E2, int_data(0x10000)))
    assert leader.heard()[-24:] == packet(ACKEPOCH, 0, int_data(-1))


@pytest.mark.parametrize("is_serving", [True, False])
async def test_a_wrong_digest_makes_a_learner_ask_for_a_snapshot(
    nursery: trio.Nursery, is_serving: bool
) -> None:
    """It stops serving at once, or does not begin."""
    learner = LearnerUnderTest(nursery)
    leader = await learner.follows()
    learner.replica.wrong_digests = {E1 + 2}
    if is_serving:
        await in_step(leader)
        await leader.say(committed(E1 + 1, E1 + 2))
    else:
        await leader.say(packet(DIFF, E1 + 2), committed(E1 + 1, E1 + 2), new_leader())
        assert leader.heard() == b""
    assert leader.is_closed()
    assert "a digest shows" in str(learner.ended)
    assert learner.learning.needs_snapshot


async def test_a_leader_whose_snapshot_did_not_help_is_not_asked_again(nursery: trio.Nursery) -> None:
    """A leader with wrong digests must not take all of its learners down, in this epoch and in later ones."""
    learner = LearnerUnderTest(nursery)
    replica, doubts = learner.replica, learner.doubts
    replica.wrong_digests = {E1 + 1, E1 + 2, E2 + 1}
    leader = await learner.follows()
    await in_step(leader)
    await leader.say(committed(E1 + 1))
    again = LearnerUnderTest(nursery, replica, epochs=(1, 1), needs_snapshot=True, doubts=doubts)
    leader = await again.follows()
    await leader.say(packet(SNAP, E1 + 1), stream_of([txn(E1 + 1)]), new_leader())
    await leader.say(UP_TO_DATE, committed(E1 + 2))
    assert again.ended is None
    await leader.hang_up()
    later = LearnerUnderTest(nursery, replica, epochs=(1, 1), doubts=doubts)
    leader = await later.follows(2)
    await in_step(leader, 2)
    await leader.say(committed(E2 + 1))
    assert later.ended is None
    assert replica.digest_mismatches == 3


async def test_a_leader_is_not_judged_before_its_snapshot_is_there(nursery: trio.Nursery) -> None:
    """More digests are missed on the way to it: by what we had logged, and by what follows the stream."""
    learner = LearnerUnderTest(nursery)
    replica, doubts = learner.replica, learner.doubts
    replica.wrong_digests = {E1 + 1, E1 + 2, E2 + 1}
    leader = await learner.follows()
    await in_step(leader)
    await leader.say(committed(E1 + 1))
    replica.digest_mismatches += 1
    again = LearnerUnderTest(nursery, replica, epochs=(1, 1), needs_snapshot=True, doubts=doubts)
    leader = await again.follows()
    await leader.say(packet(SNAP, E1 + 1), stream_of([txn(E1 + 1)]), committed(E1 + 2), new_leader())
    await leader.say(UP_TO_DATE)
    await leader.hang_up()
    later = LearnerUnderTest(nursery, replica, epochs=(1, 1), doubts=doubts)
    leader = await later.follows(2)
    await in_step(leader, 2)
    await leader.say(committed(E2 + 1))
    assert later.learning.needs_snapshot


async def test_a_tree_that_was_wrong_at_the_start_is_replaced(nursery: trio.Nursery) -> None:
    replica = FakeReplica(txns(E1 + 1, E1 + 3))
    replica.digest_mismatches = 7
    learner = LearnerUnderTest(nursery, replica, epochs=(2, 1))
    leader = await learner.dials()
    await leader.say(packet(LEADERINFO, E2, int_data(0x10000)))
    assert show(leader.heard())[-1] == "ACKEPOCH 0/0"


async def test_a_snapshot_is_asked_for_only_until_it_came(nursery: trio.Nursery) -> None:
    learner = LearnerUnderTest(nursery, FakeReplica(txns(E1 + 1, E1 + 3)), needs_snapshot=True)
    leader = await learner.follows()
    await leader.say(packet(SNAP, E1 + 3), stream_of(txns(E1 + 1, E1 + 3)))
    assert learner.learning.needs_snapshot
    await leader.say(new_leader())
    assert not learner.learning.needs_snapshot


async def test_a_history_that_was_fetched_counts_once_its_epoch_is_entered(nursery: trio.Nursery) -> None:
    """With a vote, but in an earlier epoch, it could lose an election against a server that has less."""
    learner = LearnerUnderTest(nursery)
    seen: list[tuple[list[int], int | None, list[str]]] = []
    leader = await learner.follows()
    leader.heard()
    learner.replica.on_fetched = lambda: seen.append(
        (learner.replica.crashed().history, epochs_on(learner.disk)[1], show(leader.heard()))
    )
    await leader.say(packet(SNAP, E1 + 2), stream_of(txns(E1 + 1, E1 + 2)), new_leader())
    assert seen == [([E1 + 1, E1 + 2], 1, [])]
    assert show(leader.heard()) == ["ACK 1/0"]


async def test_only_a_whole_tree_ends_what_an_operator_asked_for(nursery: trio.Nursery) -> None:
    """Who asks for it while the server runs means its next start; until then it may come back by DIFF."""
    learner = LearnerUnderTest(nursery)
    fetched: list[bool] = []
    learner.replica.on_fetched = lambda: fetched.append(True)
    leader = await learner.follows()
    await leader.say(packet(DIFF, 0), new_leader(), UP_TO_DATE)
    assert learner.synced_with == [1]
    assert not fetched


async def test_whoever_is_stopped_after_it_has_entered_the_epoch_has_fetched_everything(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it would take all of it once more when it is started."""
    fetched: list[bool] = []
    enter = EpochKeeper.enter

    def stop_behind(keeper: EpochKeeper, epoch: int) -> None:
        enter(keeper, epoch)
        inner.cancel_scope.cancel()

    async def has_fetched(_: FakeReplica) -> None:
        await trio.lowlevel.checkpoint()
        fetched.append(True)

    monkeypatch.setattr(EpochKeeper, "enter", stop_behind)
    monkeypatch.setattr(FakeReplica, "fetched", has_fetched)
    async with trio.open_nursery() as inner:
        learner = LearnerUnderTest(inner)
        leader = await learner.follows()
        await leader.say(packet(SNAP, E1 + 2), stream_of(txns(E1 + 1, E1 + 2)), new_leader())
    assert fetched == [True]


async def test_a_proposal_that_was_left_out_is_noticed_while_we_serve(nursery: trio.Nursery) -> None:
    """T20: the original warns, and diverges. We leave, and say truly how far we got."""
    learner = LearnerUnderTest(nursery)
    leader = await learner.follows()
    await in_step(leader)
    await leader.say(proposal(E1 + 1), proposal(E1 + 3))
    assert "does not follow" in str(learner.ended)
    await learner.replica.retire()
    assert learner.replica.last_zxid == E1 + 1


# --- What a leader must not do.


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ([packet(UPTODATE, -1)], "type 12"),
        ([packet(COMMIT, E1)], "type 4"),
        ([packet(DIFF, 0), commit(E1 + 1)], "oldest"),
        ([packet(DIFF, 0), proposal(E1 + 1), commit(E1 + 2)], "oldest"),
        ([packet(DIFF, 0), proposal(E1 + 1), proposal(E1 + 2), commit(E1 + 2)], "oldest"),
        ([packet(DIFF, 0), proposal(E1 + 1), proposal(E1 + 3)], "does not follow"),
        ([packet(DIFF, 0), proposal(E1 + 2), proposal(E1 + 1)], "does not follow"),
        ([packet(DIFF, 0), packet(PROPOSAL, E1 + 1)], "does not carry its transaction"),
        ([packet(DIFF, 0), UP_TO_DATE], "before NEWLEADER"),
        ([packet(DIFF, 0), new_leader(2)], "epoch 2"),
        ([packet(DIFF, 0), new_leader(), commit(E1 + 1)], "oldest"),
        ([packet(DIFF, 0), new_leader(), proposal(E1 + 1), commit(E1 + 2)], "oldest"),
        ([unhex("0000000d 0000000000000000 fffffffe ffffffff")], "makes no sense"),
        ([unhex("0000000d 0000000000000000 7fffffff ffffffff")], "larger than"),
        ([packet(DIFF, 0), new_leader(), UP_TO_DATE, commit(E1 + 1)], "oldest"),
        ([packet(DIFF, 0), new_leader(), UP_TO_DATE, proposal(E1 + 1), commit(E1 + 2)], "oldest"),
        (
            [packet(DIFF, 0), new_leader(), UP_TO_DATE, packet(PROPOSAL, E1 + 1)],
            "does not carry its transaction",
        ),
        ([packet(DIFF, 0), new_leader(), UP_TO_DATE, packet(REVALIDATE, -1)], "no session"),
    ],
)
async def test_a_leader_that_makes_no_sense_is_left(
    nursery: trio.Nursery, said: list[bytes], reason: str
) -> None:
    """Not the process ends, as the original's does, but the connection: an election finds a better leader."""
    learner = LearnerUnderTest(nursery)
    leader = await learner.follows()
    await leader.say(*said)
    assert leader.is_closed()
    assert reason in str(learner.ended)
    assert learner.replica.history == []


async def test_a_tree_that_makes_no_sense_is_not_kept(nursery: trio.Nursery) -> None:
    """We are then what we were."""
    learner = LearnerUnderTest(nursery, FakeReplica(txns(E1 + 1, E1 + 3)), epochs=(1, 1))
    leader = await learner.follows(2)
    await leader.say(packet(SNAP, E2 + 1), stream_of([txn(E2 + 1)])[:-4], unhex("fffffffe"))
    assert leader.is_closed()
    assert "sent no tree" in str(learner.ended)
    assert learner.replica.history == [E1 + 1, E1 + 2, E1 + 3]


@pytest.mark.parametrize("type_", [PING, NEWLEADER, ACK, 99, -1])
async def test_a_conversation_begins_with_the_epoch(nursery: trio.Nursery, type_: int) -> None:
    learner = LearnerUnderTest(nursery)
    leader = await learner.dials()
    await leader.say(packet(type_, E1))
    assert leader.is_closed()
    assert f"type {type_}" in str(learner.ended)
    assert learner.stored_epochs == (0, 0)


async def test_a_leader_of_the_past_is_not_followed(nursery: trio.Nursery) -> None:
    """Of an earlier epoch than we promised."""
    learner = LearnerUnderTest(nursery, epochs=(5, 3))
    leader = await learner.dials()
    await leader.say(packet(LEADERINFO, 4 << 32, int_data(0x10000)))
    assert leader.is_closed()
    assert "accepted" in str(learner.ended)
    assert learner.stored_epochs == (5, 3)


async def test_what_we_know_nothing_of_is_passed_over(nursery: trio.Nursery) -> None:
    """As the original does: it may be of a later version."""
    learner = LearnerUnderTest(nursery)
    leader = await learner.follows()
    await leader.say(packet(DIFF, 0), packet(99, 7), new_leader(), packet(SYNC, 0))
    await leader.say(UP_TO_DATE)
    await leader.say(UP_TO_DATE, packet(99, 7), packet(NEWLEADER, E1), packet(PING, E1))
    assert show(leader.heard()) == ["ACK 1/0", "ACK 1/0", "PING 1/0"]
    assert learner.ended is None


async def test_an_observer_takes_no_proposals_while_it_serves(nursery: trio.Nursery) -> None:
    learner = LearnerUnderTest(nursery, my_id=4, is_observer=True, ensemble=ensemble_of(3, observers=1))
    leader = await learner.follows()
    await in_step(leader)
    await leader.say(proposal(E1 + 1), commit(E1 + 1), packet(PING, E1))
    assert show(leader.heard()) == ["PING 1/0"]
    assert learner.replica.history == []


# --- Acks.


async def test_acks_follow_the_disk(nursery: trio.Nursery) -> None:
    """T7: in zxid order, each after the sync that covers it; commits do not wait for our own disk."""
    learner = LearnerUnderTest(nursery)
    leader = await learner.follows()
    await in_step(leader)
    learner.replica.disk_is_busy = True
    await leader.say(proposal(E1 + 1), proposal(E1 + 2), proposal(E1 + 3), commit(E1 + 1))
    assert leader.heard() == b""
    assert learner.replica.history == [E1 + 1]
    learner.replica.sync_disk(2)
    await wait_all_tasks_blocked()
    assert show(leader.heard()) == ["ACK 1/1", "ACK 1/2"]
    learner.replica.sync_disk()
    await wait_all_tasks_blocked()
    assert show(leader.heard()) == ["ACK 1/3"]


async def test_what_becomes_durable_after_the_end_is_nobodys_business(nursery: trio.Nursery) -> None:
    learner = LearnerUnderTest(nursery)
    leader = await learner.follows()
    await in_step(leader)
    learner.replica.disk_is_busy = True
    await leader.say(proposal(E1 + 1))
    await leader.hang_up()
    assert "closed" in str(learner.ended)
    learner.replica.sync_disk()
    assert list(map(zxid_of, learner.replica.on_disk)) == [E1 + 1]


async def test_answers_to_clients_keep_their_place_among_commits(nursery: trio.Nursery) -> None:
    """T2: a sync is done when what the leader committed before is applied, in one batch or in several."""
    learner = LearnerUnderTest(nursery)
    leader = await learner.follows()
    await in_step(leader)
    sync = packet(SYNC, 0)
    await leader.say(
        proposal(E1 + 1), commit(E1 + 1), sync, proposal(E1 + 2), proposal(E1 + 3), sync, commit(E1 + 2), sync
    )
    assert learner.service.syncs_done_at == [E1 + 1, E1 + 1, E1 + 2]


# --- Time.


async def test_a_leader_that_says_nothing_of_the_epoch(nursery: trio.Nursery, mock_clock: MockClock) -> None:
    """It is waited for as long as initLimit allows."""
    learner = LearnerUnderTest(nursery)
    leader = await learner.dials()
    await pass_time(mock_clock, INIT_LIMIT_S - 0.5)
    assert learner.ended is None
    await pass_time(mock_clock, 0.5)
    assert leader.is_closed()
    assert "took longer than 20 s (initLimit)" in str(learner.ended)


@pytest.mark.parametrize(
    "said",
    [
        [],
        [packet(DIFF, 0)],
        [packet(DIFF, 0), proposal(E1 + 1)[:30]],
        [packet(SNAP, E1 + 3), stream_of(txns(E1 + 1, E1 + 3))[:-4]],
        [packet(DIFF, 0), new_leader()],
    ],
)
async def test_a_leader_that_falls_silent_while_we_synchronise(
    nursery: trio.Nursery, mock_clock: MockClock, said: list[bytes]
) -> None:
    learner = LearnerUnderTest(nursery)
    leader = await learner.follows()
    await leader.say(*said)
    await pass_time(mock_clock, INIT_LIMIT_S - 0.5)
    assert not leader.is_closed()
    await pass_time(mock_clock, 0.5)
    assert leader.is_closed()
    assert learner.ended
    assert learner.replica.history == []


async def test_a_leader_that_falls_silent_while_we_serve(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """syncLimit after the last thing it said."""
    learner = LearnerUnderTest(nursery)
    leader = await learner.follows()
    await in_step(leader)
    await pass_time(mock_clock, SYNC_LIMIT_S - 0.5)
    await leader.say(packet(PING, E1))
    await pass_time(mock_clock, SYNC_LIMIT_S - 0.5)
    assert not leader.is_closed()
    await pass_time(mock_clock, 0.5)
    assert leader.is_closed()
    assert "10 s" in str(learner.ended)


async def test_a_leader_that_does_not_listen_yet_is_dialled_again(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """It may have been elected a moment ago; but not for ever."""
    learner = LearnerUnderTest(nursery)
    nursery.start_soon(_dial_in_vain, learner)
    await wait_all_tasks_blocked()
    await pass_time(mock_clock, 5)
    assert len(learner.network.dials) > 3
    assert "cannot reach leader 2" in str(learner.ended)


@pytest.mark.parametrize(("tries_before", "seconds"), [(0, 3), (1, 6), (20, INIT_LIMIT_S)])
async def test_a_leader_whose_machine_does_not_answer_is_given_up(
    nursery: trio.Nursery, mock_clock: MockClock, tries_before: int, seconds: float
) -> None:
    """Soon, since others may lead; but not again and again before a slow network could have answered."""
    learner = LearnerUnderTest(nursery, tries_before=tries_before)
    learner.network.silent.add("127.0.0.1")
    nursery.start_soon(_dial_in_vain, learner)
    await wait_all_tasks_blocked()
    await pass_time(mock_clock, seconds - 0.1)
    assert learner.ended is None
    await pass_time(mock_clock, 0.1)
    assert "took too long" in str(learner.ended)


async def test_a_leader_with_several_addresses_is_met_at_the_one_that_answers(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """The machine is there, but one of its networks is not."""
    learner = LearnerUnderTest(nursery)
    learner.network.silent.add("127.0.0.1")
    (listener,) = await learner.network.listen("other", 2888)
    leader = learner.ensemble.members[2]
    other = attrs.evolve(leader.addresses[0], host="other", quorum_port=2888)
    twice = attrs.evolve(leader, addresses=(*leader.addresses, other))
    nursery.start_soon(learner.prepared().learn, twice)
    await wait_all_tasks_blocked()
    await pass_time(mock_clock, 0.5)
    stream = await listener.accept()
    assert int.from_bytes(await stream.receive_some(4), "big") == FOLLOWERINFO


async def _dial_in_vain(learner: LearnerUnderTest) -> None:
    leader = learner.ensemble.members[2]
    learner.ended = str(await learner.prepared().learn(leader))


# --- Answers to what clients ask.


async def test_a_session_that_may_not_go_on(nursery: trio.Nursery) -> None:
    learner = LearnerUnderTest(nursery)
    leader = await learner.follows()
    await in_step(leader)
    await leader.say(revalidated_packet(-1, SESSION, False))
    assert learner.service.revalidations == [(SESSION, False)]


async def test_what_waits_for_the_leader_has_a_limit(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that takes nothing is given up before it costs us our memory."""
    monkeypatch.setattr("quorum.learner_links.QUEUED_BYTES_MAX", 1000)
    ours = LearnerUnderTest(nursery)
    leader = await ours.follows()
    await in_step(leader)
    for cxid in range(100):  # and nobody lets them leave
        ours.service.upstream.forward(0x1234, cxid, 5, bytes(100), ())
    await wait_all_tasks_blocked()
    assert ours.ended is not None
    assert "bytes wait to be taken" in ours.ended
    assert leader.is_closed()


# --- What no leader should send.


@pytest.mark.parametrize("is_serving", [False, True])
@pytest.mark.parametrize(
    "payload",
    [
        b"",
        creating(E1 + 2)[:31],
        creating(E1 + 2)[:40],
        creating(E1 + 3),
    ],
    ids=["nothing", "half a header", "half a node", "another zxid"],
)
async def test_what_is_no_transaction_is_not_logged(
    nursery: trio.Nursery, payload: bytes, is_serving: bool
) -> None:
    """The link ends; whatever starts from our disk afterwards can read it."""
    machine = ServerMachine().with_history([E1 + 1], accepted=1, current=1)
    ours = LearnerUnderTest(await machine.boot(nursery), machine=machine)
    leader = await ours.follows(1)
    await leader.say(packet(DIFF, E1 + 1))
    if is_serving:
        await leader.say(new_leader())
        await leader.say(UP_TO_DATE)
    await leader.say(packet(PROPOSAL, E1 + 2, payload), commit(E1 + 2))
    assert ours.ended is not None
    await machine.replica.retire()
    assert machine.names() == names_of([E1 + 1])
    await machine.crash()
    assert machine.names_on_disk() == names_of([E1 + 1])


async def test_a_leader_behind_a_proxy_may_hang_up_until_it_listens(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """A proxy accepts before it knows whether there is anybody behind it. That is no reason for an election:
    the learner tries again, as it does where connections are refused, and no more often."""
    learner = LearnerUnderTest(nursery)
    learner.prepared()
    [listener] = await learner.network.listen("127.0.0.1", 42882)
    nursery.start_soon(learner._learn)
    for _ in range(8):
        await (await listener.accept()).aclose()
        await wait_all_tasks_blocked()
        await pass_time(mock_clock, 0.1)
        assert learner.ended is None
    leader = ScriptedPeer(await listener.accept())
    nursery.start_soon(leader.listen)
    await wait_all_tasks_blocked()
    assert leader.heard_packets()[0].startswith("FOLLOWERINFO")
    await leader.hang_up()
    assert learner.ended == "the other side closed the connection"


async def test_a_leader_that_hangs_up_after_its_first_word_is_left_at_once(nursery: trio.Nursery) -> None:
    learner = LearnerUnderTest(nursery)
    leader = await learner.follows()
    await leader.hang_up()
    assert learner.ended == "the other side closed the connection"
