"""Our leader with scripted learners: first the conversations that were captured between Apache's servers,
byte for byte, then everything learners may also do."""

from collections.abc import Collection, Iterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from jute.quorum_records import LearnerInfo
from jute.record import encode
from quorum import proposals as proposals_module
from quorum.admission import CONNECTIONS_MAX
from quorum.epochs import CLAIMS_APART_S, EPOCH_STEP_MAX
from quorum.leader import ABSENT_PATIENCE_S, HOPELESS_S
from quorum.learner_links import LearnerLink
from quorum.learner_sync import LearnerSync
from quorum.packets import (
    ACK,
    ACKEPOCH,
    COMMIT,
    DIFF,
    FOLLOWERINFO,
    INFORM,
    LEADERINFO,
    NEWLEADER,
    OBSERVERINFO,
    PING,
    PROPOSAL,
    REQUEST,
    REVALIDATE,
    SNAP,
    SYNC,
    UPTODATE,
    int_data,
    learner_info,
    packet,
    ping_answer,
    request_packet,
    revalidate_packet,
)
from quorum.synchronization import SyncMode
from tests.quorum.fake_replica import FakeReplica, stream_of, txn, txns
from tests.quorum.memory_network import MemoryNetwork
from tests.quorum.scripted_peers import (
    CONFIG,
    INIT_LIMIT_S,
    TICK_S,
    LeaderUnderTest,
    ensemble_of,
    epochs_at,
    new_leader,
    pass_time,
    settings,
    show,
)

E1, E2, E3 = 1 << 32, 2 << 32, 3 << 32
SESSION = 0x01000010037B0000
SYNC_REQUEST = request_packet(SESSION, 6, 9, b"\0\0\0\2/a", ())

# Nothing here may depend on how long things take.
pytestmark = pytest.mark.usefixtures("mock_clock")


def unhex(text: str) -> bytes:
    return bytes.fromhex(text)


def proposal(zxid: int) -> bytes:
    return packet(PROPOSAL, zxid, txn(zxid))


def committed(*zxids: int) -> bytes:
    """As a learner that missed them is sent them."""
    return b"".join(proposal(zxid) + packet(COMMIT, zxid) for zxid in zxids)


# --- As captured.


async def test_trace_8_1_the_first_start(nursery: trio.Nursery) -> None:
    """Server 2 leads, 1 follows; nobody has a history."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    follower = await ours.dialled()
    assert ours.stored_epochs == (0, 0)
    await follower.say(
        unhex("0000000b 0000000000000000 00000014 0000000000000001 00010000 0000000000000000 ffffffff")
    )
    assert follower.heard() == unhex("00000011 0000000100000000 00000004 00010000 ffffffff")
    assert ours.stored_epochs == (1, 0)  # before anybody is told (T10)
    await follower.say(unhex("00000012 0000000000000000 00000004 00000000 ffffffff"))
    assert follower.heard() == (
        unhex("0000000d 0000000000000000 ffffffff ffffffff")
        + unhex("0000000a 0000000100000000 000000ba")
        + CONFIG
        + unhex("ffffffff")
    )
    assert ours.stored_epochs == (1, 1)
    assert ours.established == []
    await follower.say(unhex("00000003 0000000100000000 ffffffff ffffffff"))
    assert follower.heard() == unhex("0000000c ffffffffffffffff ffffffff ffffffff")
    assert ours.established == [1]
    assert ours.replica.last_zxid == E1
    await follower.say(unhex("00000003 0000000100000000 ffffffff ffffffff"))
    assert follower.heard() == b""


async def test_trace_8_1_a_ping_each_half_tick(nursery: trio.Nursery, mock_clock: MockClock) -> None:
    """Null data in ours, an empty buffer in the answer."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    follower = await ours.followed_by(1)
    await pass_time(mock_clock, TICK_S / 2)
    assert follower.heard() == unhex("00000005 0000000100000000 ffffffff ffffffff")
    await follower.say(unhex("00000005 0000000100000000 00000000 ffffffff"))
    await pass_time(mock_clock, TICK_S / 2)
    assert follower.heard() == unhex("00000005 0000000100000000 ffffffff ffffffff")


async def test_trace_8_1_a_server_that_comes_later(nursery: trio.Nursery) -> None:
    """It has nothing, we have begun an epoch: that is not the same, so it gets the tree."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    await ours.followed_by(1)
    third = await ours.joined_by(3)
    assert third.heard() == (
        unhex("0000000f 0000000100000000 ffffffff ffffffff") + stream_of([]) + new_leader()
    )
    await third.say(packet(ACK, E1))
    assert show(third.heard()) == ["UPTODATE -1"]


CREATE_SESSION = unhex("01000010037b0000 00000000 fffffff6 00007530")


async def test_trace_8_2_writes_through_a_follower(nursery: trio.Nursery) -> None:
    """Proposed to all, committed with our own ack and one more; who acks later is not waited for."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first, third = await ours.followed_by(1), await ours.followed_by(3)
    ours.replica.disk_is_busy = True
    await first.say(packet(REQUEST, -1, CREATE_SESSION))
    payload = txn(E1 + 1, SESSION, 0, unhex("00007530"))
    proposed = unhex("00000002 0000000100000001 00000024") + payload + unhex("ffffffff")
    assert (first.heard(), third.heard()) == (proposed, proposed)
    await third.say(unhex("00000003 0000000100000001 ffffffff ffffffff"))
    assert (first.heard(), third.heard()) == (b"", b"")
    await ours.sync_disk()
    commit = unhex("00000004 0000000100000001 ffffffff ffffffff")
    assert (first.heard(), third.heard()) == (commit, commit)
    assert ours.replica.history == [E1 + 1]
    await first.say(unhex("00000003 0000000100000001 ffffffff ffffffff"))
    await first.say(SYNC_REQUEST)
    assert first.heard() == unhex("00000007 0000000000000000 ffffffff ffffffff")
    await third.say(unhex("00000006 ffffffffffffffff 0000000c 01000010037b0000 00007530 ffffffff"))
    assert third.heard() == unhex("00000006 ffffffffffffffff 00000009 01000010037b0000 01 ffffffff")
    await first.say(unhex("00000005 000000010000000c 0000000c 01000010037b0000 00007530 ffffffff"))
    assert ours.service.touched == [(SESSION, 30000)]


async def test_trace_8_3_a_follower_comes_back(nursery: trio.Nursery) -> None:
    """It missed three in the same epoch."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.followed_by(1)
    for zxid in range(E1 + 1, E1 + 11):
        await ours.propose(b"body")
        await first.say(packet(ACK, zxid))
    third = await ours.dialled()
    await third.say(packet(FOLLOWERINFO, E1, learner_info(3, 0)))
    assert third.heard() == packet(LEADERINFO, E1, int_data(0x10000))
    await third.say(unhex("00000012 0000000100000007 00000004 ffffffff ffffffff"))
    assert third.heard() == packet(DIFF, E1 + 10) + committed(E1 + 8, E1 + 9, E1 + 10) + new_leader()
    await third.say(packet(ACK, E1))
    assert show(third.heard()) == ["UPTODATE -1"]


async def test_trace_8_4_the_old_leader_comes_back_with_too_much(nursery: trio.Nursery) -> None:
    ours = LeaderUnderTest(nursery, FakeReplica(txns(E1 + 1, E1 + 12)), my_id=3, epochs=(1, 1))
    await ours.leads()
    await ours.followed_by(1, epoch=2, accepted=1, current=1, zxid=E1 + 12)
    second = await ours.joined_by(2, accepted=1, current=1, zxid=E1 + 13)
    assert second.heard() == unhex("0000000e 000000010000000c ffffffff ffffffff") + new_leader(2)
    await second.say(packet(ACK, E2))
    assert show(second.heard()) == ["UPTODATE -1"]


async def test_trace_8_5_too_much_of_an_epoch_that_is_over(nursery: trio.Nursery) -> None:
    """T14: no TRUNC across epochs, but the whole tree."""
    history = txns(E2 + 1, E2 + 2)
    ours = LeaderUnderTest(nursery, FakeReplica(history), epochs=(2, 2))
    await ours.leads()
    first = await ours.followed_by(1, epoch=3, accepted=2, current=2, zxid=E2 + 2)
    await ours.propose(b"body", b"body", b"body")
    await first.say(*[packet(ACK, E3 + n) for n in (1, 2, 3)])
    third = await ours.joined_by(3, accepted=2, current=2, zxid=E2 + 3)
    assert third.heard() == (
        unhex("0000000f 0000000300000003 ffffffff ffffffff")
        + stream_of(history + txns(E3 + 1, E3 + 3))
        + new_leader(3)
    )


async def test_trace_8_6_an_observer(nursery: trio.Nursery) -> None:
    """It is informed of commits, and not asked."""
    ours = LeaderUnderTest(nursery, ensemble=ensemble_of(3, observers=1))
    await ours.leads()
    first = await ours.followed_by(1)
    await ours.propose(b"body")
    await first.say(packet(ACK, E1 + 1))
    fourth = await ours.dialled()
    await fourth.say(
        unhex("00000010 0000000000000000 00000014 0000000000000004 00010000 0000000000000000 ffffffff")
    )
    await fourth.say(packet(ACKEPOCH, 0, int_data(0)))
    heard = fourth.heard()
    assert heard.startswith(packet(LEADERINFO, E1, int_data(0x10000)) + packet(SNAP, E1 + 1))
    await fourth.say(packet(ACK, E1))
    await fourth.say(packet(ACK, E1), request_packet(SESSION, 1, 1, b"body", ()))
    assert show(fourth.heard()) == ["UPTODATE -1"]  # no proposal
    await first.say(packet(ACK, E1 + 2))
    assert fourth.heard() == packet(INFORM, E1 + 2, txn(E1 + 2, SESSION, 1))
    assert show(first.heard())[-2:] == ["PROPOSAL 1/2", "COMMIT 1/2"]


# --- Agreeing on an epoch.


async def test_a_quorum_must_connect_before_anybody_hears_of_the_epoch(nursery: trio.Nursery) -> None:
    """And observers do not count, though the epoch is above theirs (T63)."""
    ours = LeaderUnderTest(nursery, ensemble=ensemble_of(5, observers=1), epochs=(3, 3))
    await ours.leads()
    observer = await ours.joined_by(6, accepted=7, is_observer=True)
    first = await ours.joined_by(1)
    assert (first.heard(), observer.heard()) == (b"", b"")
    assert ours.stored_epochs == (3, 3)
    third = await ours.dialled()
    await third.say(packet(FOLLOWERINFO, E1, learner_info(3, 0)))
    for learner in (observer, first, third):
        assert learner.heard() == packet(LEADERINFO, 8 << 32, int_data(0x10000))
    assert ours.stored_epochs == (8, 3)


async def test_a_follower_that_is_ahead_is_not_led(nursery: trio.Nursery) -> None:
    """While there is no quorum without it. Its connection ends, and there is another election."""
    ours = LeaderUnderTest(nursery, FakeReplica(txns(E1 + 1, E1 + 3)), epochs=(1, 1))
    await ours.leads()
    ahead = await ours.joined_by(1, accepted=1, current=1, zxid=E1 + 4)
    assert ahead.is_closed()
    assert ours.stored_epochs == (2, 1)
    fine = await ours.joined_by(3, accepted=1, current=1, zxid=E1 + 3)
    assert show(fine.heard()) == ["DIFF 1/3", "NEWLEADER 2/0"]
    again = await ours.joined_by(1, accepted=2, current=1, zxid=E1 + 4)
    assert show(again.heard()) == ["TRUNC 1/3", "NEWLEADER 2/0"]


async def test_who_promised_this_epoch_before_is_not_counted_again(nursery: trio.Nursery) -> None:
    """T10: -1 in its ACKEPOCH. It is synchronised all the same once others are with us."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.joined_by(1, current=-1)
    assert first.heard() == b""
    assert ours.stored_epochs == (1, 0)
    await ours.joined_by(3)
    assert show(first.heard()) == ["DIFF 0/0", "NEWLEADER 1/0"]


async def test_an_epoch_cannot_be_pushed_beyond_all_numbers(nursery: trio.Nursery) -> None:
    """Nobody's word alone may use up what is left of them."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    for epoch in (0x7FFF_FFFF, -5):
        hostile = await ours.dialled()
        await hostile.say(packet(FOLLOWERINFO, epoch << 32, learner_info(1, 0)))
        assert hostile.is_closed()
    assert ours.stored_epochs == (0, 0)
    await ours.followed_by(1)
    assert ours.established == [1]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (packet(PING, 0), "a packet that introduces nobody"),
        (packet(ACK, E1), "a packet that introduces nobody"),
        (packet(FOLLOWERINFO, 0), "no LearnerInfo"),
        (packet(FOLLOWERINFO, 0, b"1234"), "half of one"),
        (packet(FOLLOWERINFO, 0, encode(LearnerInfo(1, 1, 0))), "the protocol before 3.4"),
        (packet(FOLLOWERINFO, 0, learner_info(2, 0)), "our own id"),
        (packet(FOLLOWERINFO, 0, learner_info(1, 5)), "a configuration newer than ours (T40)"),
        (unhex("0000000b 0000000000000000 fffffffe"), "data of -2 bytes"),
        (b"GET / HTTP/1.1\r\nHost: zoo\r\n\r\n", "another protocol"),
    ],
)
async def test_whoever_does_not_introduce_itself_is_shown_out(
    nursery: trio.Nursery, said: bytes, reason: str
) -> None:
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    stranger = await ours.dialled()
    await stranger.say(said + bytes(20))
    assert stranger.is_closed(), reason
    assert ours.ended is None
    assert ours.stored_epochs == (0, 0)


@pytest.mark.parametrize("answer", [packet(ACK, E1), packet(ACKEPOCH, 0), packet(ACKEPOCH, 0, b"1")])
async def test_the_epoch_must_be_acknowledged(nursery: trio.Nursery, answer: bytes) -> None:
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    learner = await ours.dialled()
    await learner.say(packet(FOLLOWERINFO, 0, learner_info(1, 0)))
    await learner.say(answer)
    assert learner.is_closed()


# --- Synchronising while we work.


async def test_a_learner_misses_nothing_that_happens_while_it_synchronises(nursery: trio.Nursery) -> None:
    """T12: what is proposed and committed between DIFF and the ack of NEWLEADER, in its order."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.followed_by(1)
    await ours.propose(b"body")
    third = await ours.joined_by(3)
    assert third.heard() == packet(SNAP, E1) + stream_of([]) + proposal(E1 + 1) + new_leader()
    await ours.propose(b"body")
    await first.say(packet(ACK, E1 + 1))
    await third.say(packet(ACK, E1))
    assert show(third.heard()) == ["PROPOSAL 1/2", "COMMIT 1/1", "UPTODATE -1"]


async def test_outstanding_proposals_come_before_newleader(nursery: trio.Nursery) -> None:
    """For followers. Observers hear of them when they are committed."""
    ours = LeaderUnderTest(
        nursery, FakeReplica(txns(E1 + 1, E1 + 2)), ensemble=ensemble_of(3, 1), epochs=(1, 1)
    )
    await ours.leads()
    first = await ours.followed_by(1, epoch=2, accepted=1, current=1, zxid=E1 + 2)
    await ours.propose(b"body", b"body")
    third = await ours.joined_by(3, accepted=1, current=1, zxid=E1 + 1)
    fourth = await ours.joined_by(4, accepted=1, current=1, zxid=E1 + 1, is_observer=True)
    rest = ["PROPOSAL 1/2", "COMMIT 1/2"]
    assert show(third.heard()) == ["DIFF 1/2", *rest, "PROPOSAL 2/1", "PROPOSAL 2/2", "NEWLEADER 2/0"]
    assert show(fourth.heard()) == ["DIFF 1/2", *rest, "NEWLEADER 2/0"]
    await first.say(packet(ACK, E2 + 1))
    assert show(third.heard()) == ["COMMIT 2/1"]
    assert show(fourth.heard()) == ["INFORM 2/1"]


async def test_a_snapshot_is_taken_while_we_go_on(nursery: trio.Nursery) -> None:
    """T12, T13: the queue behind it begins at the zxid that was announced, whatever else got into it."""
    history = txns(E1 + 1, E1 + 3)
    ours = LeaderUnderTest(nursery, FakeReplica(history), epochs=(1, 1))
    await ours.leads()
    await ours.followed_by(1, epoch=2, accepted=1, current=1, zxid=E1 + 3)
    third = await ours.joined_by(3, accepted=1, current=1, zxid=0)
    await ours.propose(b"body")
    await third.say(packet(ACK, E2))
    expected = packet(SNAP, E2) + stream_of(history) + new_leader(2) + proposal(E2 + 1)
    assert third.heard() == expected + packet(UPTODATE, -1)


async def test_a_learner_far_behind_is_served_from_disk(nursery: trio.Nursery, mock_clock: MockClock) -> None:
    """Beyond what is in memory, and on into it without a gap."""
    replica = FakeReplica(txns(E1 + 1, E1 + 9), commit_log_count=3)
    ours = LeaderUnderTest(nursery, replica, epochs=(1, 1))
    await ours.leads()
    await ours.followed_by(1, epoch=2, accepted=1, current=1, zxid=E1 + 9)
    third = await ours.joined_by(3, accepted=1, current=1, zxid=E1 + 4)
    expected = packet(DIFF, E2) + committed(*range(E1 + 5, E1 + 10)) + new_leader(2)
    assert third.heard() == expected


async def test_a_learner_far_behind_catches_up_with_a_leader_in_a_hurry(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """While the log is read to its end, more is logged than memory keeps: reading goes on from there."""
    replica = FakeReplica(txns(E1 + 1, E1 + 9), commit_log_count=3)
    ours = LeaderUnderTest(nursery, replica, epochs=(1, 1))
    await ours.leads()
    first = await ours.followed_by(1, epoch=2, accepted=1, current=1, zxid=E1 + 9)
    read_log = replica.logged_after
    readings = 0

    def and_meanwhile(zxid: int) -> object:
        nonlocal readings
        found = read_log(zxid)
        readings += 1
        if readings <= 2:
            ours.service.propose(*[b"body"] * 5)
            last = E2 + 5 * readings
            for each in range(last - 4, last + 1):
                ours.leader._acked(ours.leader.learners[1], each)
            ours.leader.proposals.commit()
        return found

    replica.logged_after = and_meanwhile  # type: ignore[assignment, method-assign]
    third = await ours.joined_by(3, accepted=1, current=1, zxid=E1 + 4)
    assert not third.is_closed()
    assert show(third.heard())[1::2] == [
        *(f"PROPOSAL 1/{n}" for n in range(5, 10)),
        *(f"PROPOSAL 2/{n}" for n in range(1, 11)),
        "NEWLEADER 2/0",
    ]
    assert not first.is_closed()


async def test_clients_go_before_a_learner_that_gets_the_tree(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """So much at a time, and a pause behind it; before anybody is served, all at once."""
    history = [txn(E1 + n, body=bytes(70_000)) for n in range(1, 4)]
    ours = LeaderUnderTest(nursery, FakeReplica(history), epochs=(1, 1))
    await ours.leads()
    first = await ours.joined_by(1, accepted=1, current=1)
    assert first.heard() == packet(SNAP, E1 + 3) + stream_of(history) + new_leader(2)
    await first.say(packet(ACK, E2))
    third = await ours.joined_by(3, accepted=1, current=1)
    heard = [third.heard()]
    while not heard[-1].endswith(new_leader(2)):
        await pass_time(mock_clock, 0.003)
        heard.append(third.heard())
    assert len(heard) == 4
    assert b"".join(heard) == packet(SNAP, E2) + stream_of(history) + new_leader(2)


async def test_a_learner_that_gets_the_tree_goes_first_where_much_waits_for_it(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """Or what is written meanwhile would grow faster than it catches up."""
    history = [txn(E1 + n, body=bytes(70_000)) for n in range(1, 4)]
    ours = LeaderUnderTest(nursery, FakeReplica(history), epochs=(1, 1))
    await ours.leads()
    await ours.followed_by(1, epoch=2, accepted=1, current=1, zxid=E1 + 3)
    for _ in range(17):
        await ours.propose(bytes(1 << 20))
    third = await ours.joined_by(3, accepted=1, current=1)
    assert third.heard().endswith(new_leader(2))


async def test_a_learner_that_missed_much_goes_first_where_as_much_is_written(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """Or it would never catch up."""
    history = [txn(E1 + n, body=bytes(70_000)) for n in range(1, 5)]
    ours = LeaderUnderTest(nursery, FakeReplica(history, commit_log_count=1), epochs=(1, 1))
    await ours.leads()
    await ours.followed_by(1, epoch=2, accepted=1, current=1, zxid=E1 + 4)
    read_log, written = ours.replica.logged_after, 0

    def and_meanwhile(zxid: int) -> Iterator[bytes]:
        nonlocal written
        for payload in read_log(zxid) or ():
            if written < 8:
                written += 1
                ours.service.propose(b"body")
                ours.leader._acked(ours.leader.learners[1], E2 + written)
                ours.leader.proposals.commit()
            yield payload

    ours.replica.logged_after = and_meanwhile  # type: ignore[method-assign]
    third = await ours.joined_by(3, accepted=1, current=1, zxid=E1 + 1)
    assert show(third.heard())[-3:] == ["PROPOSAL 2/8", "COMMIT 2/8", "NEWLEADER 2/0"]


async def test_what_is_not_committed_yet_is_not_sent_from_disk(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """It is in the log before it is committed: it follows as a proposal, once."""
    ours = LeaderUnderTest(nursery, FakeReplica(txns(E1 + 1, E1 + 9), commit_log_count=2), epochs=(1, 1))
    await ours.leads()
    await ours.followed_by(1, epoch=2, accepted=1, current=1, zxid=E1 + 9)
    await ours.propose(b"body")
    third = await ours.joined_by(3, accepted=1, current=1, zxid=E1 + 4)
    assert show(third.heard())[1:] == [
        *(f"{type_} 1/{n}" for n in range(5, 10) for type_ in ("PROPOSAL", "COMMIT")),
        "PROPOSAL 2/1",
        "NEWLEADER 2/0",
    ]


async def test_a_learner_gets_the_tree_where_the_log_has_a_hole(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """It is not sent away again and again: some versions of Apache left gaps in the logs of followers."""
    holed = [payload for payload in txns(E1 + 1, E1 + 9) if payload != txn(E1 + 6)]
    ours = LeaderUnderTest(nursery, FakeReplica(holed, commit_log_count=2), epochs=(1, 1))
    await ours.leads()
    await ours.followed_by(1, epoch=2, accepted=1, current=1, zxid=E1 + 9)
    third = await ours.joined_by(3, accepted=1, current=1, zxid=E1 + 2)
    if third.is_closed():
        third = await ours.joined_by(3, accepted=2, current=1, zxid=E1 + 2)
    assert third.heard().startswith(packet(SNAP, E2))


async def test_a_snapshot_can_be_forced(nursery: trio.Nursery) -> None:
    ours = LeaderUnderTest(nursery, settings=settings(force_snapshot_sync=True))
    await ours.leads()
    first = await ours.joined_by(1)
    assert first.heard() == packet(SNAP, 0) + stream_of([]) + new_leader()


async def test_no_ping_falls_into_a_snapshot(
    nursery: trio.Nursery, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T17."""
    ours = LeaderUnderTest(nursery, FakeReplica(txns(E1 + 1, E1 + 3)), epochs=(1, 1))
    await ours.leads()
    first = await ours.followed_by(1, epoch=2, accepted=1, current=1, zxid=E1 + 3)
    third = await ours.dialled()
    await third.say(packet(FOLLOWERINFO, E1, learner_info(3, 0)))
    third.heard()
    tree = ours.replica.snapshot_stream
    is_slow = trio.Event()
    send_now = LearnerLink.send_now

    async def slowly(link: LearnerLink, data: bytes) -> None:
        await send_now(link, data)
        if data == packet(SNAP, E2):
            await is_slow.wait()

    monkeypatch.setattr(LearnerLink, "send_now", slowly)
    await third.say(packet(ACKEPOCH, 0, int_data(1)))
    await pass_time(mock_clock, TICK_S)
    assert third.heard() == packet(SNAP, E2)
    assert show(first.heard()) == ["PING 2/0", "PING 2/0"]
    is_slow.set()
    await wait_all_tasks_blocked()
    assert third.heard() == b"".join(tree()) + new_leader(2)


async def test_a_long_snapshot_is_not_cut_short_by_new_proposals(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """How long a learner may take to ack counts from when it acked NEWLEADER: before, it must not ack."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.followed_by(1)
    third = await ours.joined_by(3)
    await ours.propose(b"body")
    await first.say(packet(ACK, E1 + 1))
    for _ in range(6):
        await pass_time(mock_clock, TICK_S)
        await first.say(ping_answer(E1, []))
    assert not third.is_closed()
    third.heard()
    await third.say(packet(ACK, E1))
    assert show(third.heard()) == ["UPTODATE -1"]


# --- Proposals, acks, commits.


async def test_nothing_is_committed_before_our_own_disk_or_another_has_it(nursery: trio.Nursery) -> None:
    """A quorum of durable logs, whoever's they are."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first, third = await ours.followed_by(1), await ours.followed_by(3)
    ours.replica.disk_is_busy = True
    await ours.propose(b"body")
    await first.say(packet(ACK, E1 + 1))
    assert show(first.heard()) == ["PROPOSAL 1/1"]
    await third.say(packet(ACK, E1 + 1))
    assert show(first.heard()) == ["COMMIT 1/1"]
    assert ours.replica.history == [E1 + 1]
    await ours.sync_disk()
    assert show(first.heard()) == []


async def test_commits_leave_in_order_however_acks_arrive(nursery: trio.Nursery) -> None:
    """T3, T44."""
    ours = LeaderUnderTest(nursery, ensemble=ensemble_of(5))
    await ours.leads()
    learners = await ours.followed_by_all(1, 3, 4, 5)
    await ours.propose(b"a", b"b", b"c")
    await learners[3].say(packet(ACK, E1 + 1), packet(ACK, E1 + 2), packet(ACK, E1 + 3))
    await learners[4].say(packet(ACK, E1 + 1))
    await learners[1].say(packet(ACK, E1 + 1), packet(ACK, E1 + 2))
    assert show(learners[5].heard())[3:] == ["COMMIT 1/1", "COMMIT 1/2"]
    await learners[5].say(packet(ACK, E1 + 1), packet(ACK, E1 + 2), packet(ACK, E1 + 3))
    assert show(learners[5].heard()) == ["COMMIT 1/3"]
    assert ours.replica.history == [E1 + 1, E1 + 2, E1 + 3]


async def test_acks_of_whoever_has_no_vote_are_not_counted(nursery: trio.Nursery) -> None:
    """T45: observers, and followers that the configuration does not know."""
    ours = LeaderUnderTest(nursery, ensemble=ensemble_of(3, observers=1))
    await ours.leads()
    first = await ours.followed_by(1)
    observer = await ours.followed_by(4, is_observer=True)
    joiner = await ours.followed_by(9)
    ours.replica.disk_is_busy = True
    await ours.propose(b"body")
    await observer.say(packet(ACK, E1 + 1))
    await joiner.say(packet(ACK, E1 + 1))
    await first.say(packet(ACK, E1 + 1))
    assert show(joiner.heard()) == ["PROPOSAL 1/1"]
    await ours.sync_disk()
    assert show(joiner.heard()) == ["COMMIT 1/1"]
    assert show(observer.heard()) == ["INFORM 1/1"]


async def test_acks_that_say_nothing_new(nursery: trio.Nursery) -> None:
    """Of what is committed, of the epoch's beginning, of the past."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first, third = await ours.followed_by(1), await ours.followed_by(3)
    await ours.propose(b"body")
    await first.say(packet(ACK, E1 + 1))
    await third.say(
        packet(ACK, E1 + 1), packet(ACK, E1 + 1), packet(ACK, E1), packet(ACK, 0), packet(ACK, -1)
    )
    assert show(third.heard()) == ["PROPOSAL 1/1", "COMMIT 1/1"]
    assert not third.is_closed()


async def test_an_ack_of_what_was_never_proposed(nursery: trio.Nursery) -> None:
    """Such a follower does not know what it has; nothing it said may commit anything."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first, third = await ours.followed_by(1), await ours.followed_by(3)
    ours.replica.disk_is_busy = True
    await ours.propose(b"body")
    await third.say(packet(ACK, E1 + 1), packet(ACK, E1 + 2))
    assert third.is_closed()
    await ours.sync_disk()
    assert show(first.heard()) == ["PROPOSAL 1/1"]
    await first.say(packet(ACK, E1 + 1))
    assert show(first.heard()) == ["COMMIT 1/1"]


async def test_a_request_becomes_a_transaction_and_a_sync_keeps_its_place(nursery: trio.Nursery) -> None:
    """T1, T2: one each, in the order they came, whatever is in flight; a sync waits for what was proposed."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first, third = await ours.followed_by(1), await ours.followed_by(3)
    ours.replica.disk_is_busy = True
    requests = [request_packet(SESSION, cxid, 1, b"%d" % cxid, ()) for cxid in (1, 2)]
    await first.say(requests[0], SYNC_REQUEST, requests[1])
    assert show(first.heard()) == ["PROPOSAL 1/1", "PROPOSAL 1/2"]
    await ours.sync_disk()
    await third.say(packet(ACK, E1 + 1), packet(ACK, E1 + 2))
    assert show(first.heard()) == ["COMMIT 1/1", "SYNC 0/0", "COMMIT 1/2"]
    assert show(third.heard()) == ["PROPOSAL 1/1", "PROPOSAL 1/2", "COMMIT 1/1", "COMMIT 1/2"]
    assert list(ours.replica.tree.values()) == [txn(E1 + n, SESSION, n, b"%d" % n) for n in (1, 2)]


async def test_a_session_that_is_not_known(nursery: trio.Nursery) -> None:
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.followed_by(1)
    ours.service.refuses_sessions = True
    await first.say(revalidate_packet(SESSION, 30000))
    assert first.heard() == unhex("00000006 ffffffffffffffff 00000009 01000010037b0000 00 ffffffff")


@pytest.mark.parametrize(
    "said",
    [
        packet(PING, E1),  # null where sessions are listed (T16)
        packet(PING, E1, b"12345"),
        packet(REQUEST, -1),
        packet(REQUEST, -1, b"too short"),
        packet(REVALIDATE, -1),
        packet(REVALIDATE, -1, b"short"),
        unhex("00000003 0000000100000001 80000000 ffffffff"),
        unhex("00000001 ffffffffffffffff ffffffff 7fffffff"),
        packet(PROPOSAL, E1, b"")[:12] + unhex("7fffffff ffffffff"),
    ],
)
async def test_a_learner_that_makes_no_sense_is_let_go(nursery: trio.Nursery, said: bytes) -> None:
    """It alone: the others go on."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first, third = await ours.followed_by(1), await ours.followed_by(3)
    await third.say(said)
    assert third.is_closed()
    await ours.propose(b"body")
    await first.say(packet(ACK, E1 + 1))
    assert show(first.heard()) == ["PROPOSAL 1/1", "COMMIT 1/1"]


async def test_what_we_know_nothing_of_is_passed_over(nursery: trio.Nursery) -> None:
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.followed_by(1)
    await first.say(packet(99, 0), packet(COMMIT, E1), packet(NEWLEADER, E1), packet(SYNC, 0), SYNC_REQUEST)
    assert show(first.heard()) == ["SYNC 0/0"]


async def test_a_proposal_acked_before_newleader(nursery: trio.Nursery) -> None:
    """T18: it is not taken for NEWLEADER's ack, and counts only once that has come."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.followed_by(1)
    ours.replica.disk_is_busy = True
    await ours.propose(b"body")
    third = await ours.joined_by(3)
    await third.say(packet(ACK, E1 + 1))
    await first.say(packet(ACK, E1 + 1))
    assert show(first.heard()) == ["PROPOSAL 1/1"]
    assert not third.is_closed()
    await third.say(packet(ACK, E1))
    assert show(first.heard()) == ["COMMIT 1/1"]
    assert third.heard().endswith(packet(UPTODATE, -1) + packet(COMMIT, E1 + 1))


async def test_a_stray_ack_in_place_of_newleaders(nursery: trio.Nursery) -> None:
    """T18: of what was never proposed. It puts nobody into office."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.joined_by(1)
    await first.say(packet(ACK, E1 + 5))
    assert ours.established == []
    await first.say(packet(ACK, E1))
    assert ours.established == [1]
    assert first.is_closed()


async def test_newleader_must_be_acked(nursery: trio.Nursery) -> None:
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.joined_by(1)
    await first.say(packet(PING, E1, b""))
    assert first.is_closed()
    assert ours.established == []


# --- Learners come and go.


async def test_an_impostor_throws_no_follower_out(nursery: trio.Nursery) -> None:
    """Nor do its acks count less, while the impostor is there or once it has left."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.followed_by(1)
    impostor = await ours.joined_by(1, accepted=1, current=-1, zxid=E1)
    assert show(impostor.heard()) == ["DIFF 1/0", "NEWLEADER 1/0"]
    assert not first.is_closed()
    await ours.propose(b"body")
    await first.say(packet(ACK, E1 + 1))
    assert show(first.heard()) == ["PING 1/0", "PROPOSAL 1/1", "COMMIT 1/1"]
    ours.replica.disk_is_busy = True
    await ours.propose(b"body")
    await first.say(packet(ACK, E1 + 2))
    await impostor.hang_up()
    await ours.sync_disk()
    assert show(first.heard()) == ["PROPOSAL 1/2", "COMMIT 1/2"]
    assert [each.server_id for each in ours.leader.learners] == [1]


async def test_a_follower_that_connects_again_is_asked_for_nothing_back_that_counts(
    nursery: trio.Nursery,
) -> None:
    """It has acked a proposal on a connection it has given up, which we do not know. If it had to cut that
    off now, its ack would be no longer true."""
    ours = LeaderUnderTest(nursery, ensemble=ensemble_of(5))
    await ours.leads()
    first, third = (await ours.followed_by_all(1, 3)).values()
    await ours.propose(b"body")
    await third.say(packet(ACK, E1 + 1))
    third.heard()
    again = await ours.joined_by(3, accepted=1, current=-1, zxid=E1 + 1)
    assert (show(third.heard()), again.heard()) == (["PING 1/1"], b"")
    await first.say(packet(ACK, E1 + 1))
    assert show(again.heard()) == ["DIFF 1/1", "NEWLEADER 1/0"]
    assert not third.is_closed()


async def test_a_follower_that_connects_again_once_it_is_known_to_have_left(nursery: trio.Nursery) -> None:
    """What it acked on its former connection counts no more."""
    ours = LeaderUnderTest(nursery, ensemble=ensemble_of(5))
    await ours.leads()
    first, third = (await ours.followed_by_all(1, 3)).values()
    await ours.propose(b"body")
    await third.say(packet(ACK, E1 + 1))
    again = await ours.joined_by(3, accepted=1, current=-1, zxid=E1 + 1)
    await third.hang_up()
    assert show(again.heard()) == ["TRUNC 1/0", "PROPOSAL 1/1", "NEWLEADER 1/0"]
    await first.say(packet(ACK, E1 + 1))
    assert show(first.heard()) == ["PROPOSAL 1/1"]
    await again.say(packet(ACK, E1))
    await again.say(packet(ACK, E1), packet(ACK, E1 + 1))
    assert show(again.heard()) == ["UPTODATE -1", "COMMIT 1/1"]


async def test_a_follower_that_connects_twice_before_it_is_synchronised(nursery: trio.Nursery) -> None:
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    early = await ours.joined_by(1)
    again = await ours.joined_by(1, accepted=1, current=-1)
    await again.say(packet(ACK, E1))
    assert ours.established == [1]
    assert not early.is_closed()


async def test_only_so_many_connections_may_say_they_are_the_same_server(nursery: trio.Nursery) -> None:
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.followed_by(1)
    impostors = [await ours.joined_by(1, accepted=1, current=-1, zxid=E1) for _ in range(CONNECTIONS_MAX)]
    assert [each.is_closed() for each in impostors] == [False] * (CONNECTIONS_MAX - 1) + [True]
    assert not first.is_closed()


async def test_a_follower_too_slow_to_ack(nursery: trio.Nursery, mock_clock: MockClock) -> None:
    """syncLimit after a proposal was sent; that it answers pings does not help."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first, third = await ours.followed_by(1), await ours.followed_by(3)
    await ours.propose(b"body")
    await first.say(packet(ACK, E1 + 1))
    for _ in range(5):
        await pass_time(mock_clock, TICK_S)
        await first.say(ping_answer(E1, []))
        await third.say(ping_answer(E1, []))
    assert not third.is_closed()
    await pass_time(mock_clock, TICK_S)
    assert third.is_closed()
    assert not first.is_closed()


async def test_a_follower_that_acks_late_but_keeps_up(nursery: trio.Nursery, mock_clock: MockClock) -> None:
    """Each proposal has its own time."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first, third = await ours.followed_by(1), await ours.followed_by(3)
    for n in range(1, 12):
        await ours.propose(b"body")
        await first.say(packet(ACK, E1 + n))
        await third.say(ping_answer(E1, []))
        if n > 3:
            await third.say(packet(ACK, E1 + n - 3))
        await pass_time(mock_clock, TICK_S)
    assert not third.is_closed()


async def test_a_follower_that_falls_silent(nursery: trio.Nursery, mock_clock: MockClock) -> None:
    """syncLimit after the last thing it said."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first, third = await ours.followed_by(1), await ours.followed_by(3)
    for _ in range(5):
        assert not third.is_closed()
        await pass_time(mock_clock, TICK_S)
        await first.say(ping_answer(E1, []))
    assert third.is_closed()
    assert not first.is_closed()


async def test_a_learner_that_takes_too_long_to_synchronise(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """initLimit for the ack of NEWLEADER."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.followed_by(1)
    third = await ours.joined_by(3)
    for _ in range(9):
        await pass_time(mock_clock, TICK_S)
        await first.say(ping_answer(E1, []))
    assert not third.is_closed()
    await pass_time(mock_clock, TICK_S)
    assert third.is_closed()


async def test_a_learner_that_takes_nothing_is_let_go(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for it is bounded."""
    monkeypatch.setattr("quorum.learner_links.QUEUED_BYTES_MAX", 1000)
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first, third = await ours.followed_by(1), await ours.followed_by(3)
    ours.leader.learners[-1].is_sending = False  # its queue is not taken
    for n in range(1, 20):
        await ours.propose(b"body")
        await first.say(packet(ACK, E1 + n))
    assert third.is_closed()
    assert not first.is_closed()


async def test_a_learner_that_forwards_without_end_is_let_go(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it may have under way is bounded, also by coming back; others go on meanwhile."""
    monkeypatch.setattr("quorum.leader.BACKLOG_BYTES_MAX", 20_000)
    flood = request_packet(SESSION, 1, 1, bytes(100), ()) * 10
    ours = LeaderUnderTest(nursery, ensemble=ensemble_of(5))
    await ours.leads()
    _, _, _, fifth = (await ours.followed_by_all(1, 3, 4, 5)).values()
    for _ in range(9):
        await fifth.say(flood)
        if fifth.is_closed():
            break
    assert fifth.is_closed()
    assert len(ours.service.in_flight) == 20
    again = await ours.followed_by(5)
    await again.say(flood)
    assert again.is_closed()
    assert ours.ended is None


async def test_a_learner_may_forward_as_long_as_it_is_committed(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten times as much as may wait."""
    monkeypatch.setattr("quorum.leader.BACKLOG_BYTES_MAX", 20_000)
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.followed_by(1)
    for n in range(1, 201):
        await first.say(request_packet(SESSION, n, 1, bytes(100), ()))
        await first.say(packet(ACK, E1 + n))
    assert not first.is_closed()
    assert ours.replica.last_zxid == E1 + 200


async def test_nothing_is_kept_of_those_that_only_said_an_id(nursery: trio.Nursery) -> None:
    """There are very many ids."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    await ours.followed_by(1)
    for server_id in range(10, 30):
        await (await ours.joined_by(server_id)).hang_up()
    assert len(ours.leader._backlogs) <= 2


async def test_a_server_that_nobody_lists_is_a_stranger_however_much_it_lacks(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All strangers share what is sent to one member in the same time."""
    members: dict[int, bool] = {}

    class Noting(LearnerSync):
        async def bring_up_to_date(
            self, server_id: int, *rest: Any, is_member: bool = True, **more: Any
        ) -> SyncMode:
            members[server_id] = is_member
            return await super().bring_up_to_date(server_id, *rest, is_member=is_member, **more)

    monkeypatch.setattr("quorum.leader.LearnerSync", Noting)
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    await ours.followed_by(1)
    await ours.joined_by(10)
    await ours.joined_by(11, is_observer=True)
    assert members == {1: True, 10: False, 11: False}


async def test_who_says_nothing_at_all_is_let_go(nursery: trio.Nursery, mock_clock: MockClock) -> None:
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    await ours.followed_by(1)
    nobody = await ours.dialled()
    await pass_time(mock_clock, INIT_LIMIT_S)
    assert nobody.is_closed()


async def test_only_so_many_may_connect_without_a_word(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each costs open files, which the log needs. Who has waited longest goes; learners get through."""
    monkeypatch.setattr("quorum.admission.SILENT_MAX", 3)
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.followed_by(1)
    strangers = [await ours.dialled() for _ in range(5)]
    assert [each.is_closed() for each in strangers] == [True, True, False, False, False]
    third = await ours.followed_by(3)
    assert [each.is_closed() for each in strangers] == [True, True, True, False, False]
    assert not first.is_closed()
    assert not third.is_closed()


# --- The end of the term.


@pytest.mark.parametrize(("tries_before", "after_s"), [(0, 2.1), (2, 6.6), (9, INIT_LIMIT_S)])
async def test_nobody_follows(
    nursery: trio.Nursery, mock_clock: MockClock, tries_before: int, after_s: float
) -> None:
    """T59: there is another election. Soon, for who elected us dials at once; where all are slow, after twice
    as long each time, up to initLimit."""
    ours = LeaderUnderTest(nursery, tries_before=tries_before)
    await ours.leads()
    await pass_time(mock_clock, after_s - 0.5, step_s=0.1)
    assert ours.ended is None
    await pass_time(mock_clock, 0.6, step_s=0.1)
    assert "follow" in str(ours.ended)
    assert ours.network.listeners == {}


async def test_a_quorum_that_has_become_impossible_is_not_waited_for(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """Both others have promised the epoch on connections that broke: neither may be counted for it again. A
    moment is left to them, since a stranger may have said so in their names."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    broken = await ours.dialled()
    await broken.say(packet(FOLLOWERINFO, 0, learner_info(1, 0)))
    assert show(broken.heard()) == ["LEADERINFO 1/0"]
    await broken.hang_up()
    for server_id in (1, 3):
        await ours.joined_by(server_id, accepted=1, current=-1)
    await pass_time(mock_clock, HOPELESS_S, step_s=0.1)
    assert ours.ended is None
    await pass_time(mock_clock, 0.2, step_s=0.1)
    assert ours.ended == "of the voters only [2] may follow yet"


async def test_one_of_five_is_down_and_two_cannot_be_counted(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """It might come, so it is waited for; not as long as initLimit."""
    ours = LeaderUnderTest(nursery, ensemble=ensemble_of(5))
    await ours.leads()
    hellos = {server_id: await ours.dialled() for server_id in (1, 3, 4)}
    for server_id, learner in hellos.items():
        await learner.say(packet(FOLLOWERINFO, 0, learner_info(server_id, 0)))
    await hellos[1].say(packet(ACKEPOCH, 0, int_data(0)))
    for server_id in (3, 4):
        await hellos[server_id].hang_up()
        await ours.joined_by(server_id, accepted=1, current=-1)
    await pass_time(mock_clock, ABSENT_PATIENCE_S, step_s=0.1)
    assert ours.ended is None
    await pass_time(mock_clock, 0.8, step_s=0.1)
    assert ours.ended == "of the voters only [1, 2] may follow yet"


async def test_what_a_stranger_says_in_a_members_name_does_not_end_it(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """That it is ahead of us, or has promised the epoch before. The member comes a little later."""
    ours = LeaderUnderTest(nursery, FakeReplica(txns(E1 + 1, E1 + 3)), epochs=(1, 1))
    await ours.leads()
    await ours.dialled()
    first = await ours.dialled()
    await first.say(packet(FOLLOWERINFO, E1, learner_info(1, 0)))
    for server_id, current in ((1, 1), (3, 1), (3, -1)):
        await ours.joined_by(server_id, accepted=1, current=current, zxid=E1 + 77)
    await pass_time(mock_clock, 5, step_s=0.1)
    assert ours.ended is None
    await first.say(packet(ACKEPOCH, E1 + 3, int_data(1)))
    await first.say(packet(ACK, E2))
    assert ours.established == [2]


async def test_a_member_is_waited_for_a_moment_whatever_was_said_in_its_name(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """Nobody else may follow yet, and it is on its way."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    broken = await ours.dialled()
    await broken.say(packet(FOLLOWERINFO, 0, learner_info(1, 0)))
    await broken.hang_up()
    for server_id in (1, 3):
        await ours.joined_by(server_id, accepted=1, current=-1)
    await pass_time(mock_clock, 0.4, step_s=0.1)
    await ours.followed_by(3)
    await pass_time(mock_clock, 1, step_s=0.1)
    assert (ours.established, ours.ended) == ([1], None)


async def test_a_quorum_that_is_lost_ends_it(nursery: trio.Nursery, mock_clock: MockClock) -> None:
    """T46: at the next tick, and those that are left are let go."""
    ours = LeaderUnderTest(nursery, ensemble=ensemble_of(5))
    await ours.leads()
    learners = await ours.followed_by_all(1, 3)
    await pass_time(mock_clock, TICK_S)
    assert ours.ended is None
    await learners[3].hang_up()
    await pass_time(mock_clock, TICK_S)
    assert "[1, 2]" in str(ours.ended)
    assert learners[1].is_closed()


async def test_observers_keep_nobody_in_office(nursery: trio.Nursery, mock_clock: MockClock) -> None:
    ours = LeaderUnderTest(nursery, ensemble=ensemble_of(3, observers=2))
    await ours.leads()
    first = await ours.followed_by(1)
    for n in (4, 5):
        await ours.followed_by(n, is_observer=True)
    await first.hang_up()
    await pass_time(mock_clock, TICK_S)
    assert "no quorum" in str(ours.ended)


async def test_who_leads_alone_leads(nursery: trio.Nursery, mock_clock: MockClock) -> None:
    """An ensemble of one."""
    ours = LeaderUnderTest(nursery, my_id=1, ensemble=ensemble_of(1))
    await ours.leads()
    assert ours.established == [1]
    await ours.propose(b"body")
    await pass_time(mock_clock, 10 * TICK_S)
    assert ours.replica.history == [E1 + 1]
    assert ours.ended is None


async def test_a_leader_that_is_no_longer_one_commits_nothing(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """Its disk may still be at work when it has given up."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.followed_by(1)
    ours.replica.disk_is_busy = True
    await ours.propose(b"body")
    await first.say(packet(ACK, E1 + 1))
    await first.hang_up()
    await pass_time(mock_clock, TICK_S)
    assert ours.ended
    await ours.sync_disk()
    assert ours.replica.history == []


async def test_an_epoch_ends_before_its_zxids_do(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T47: the counter must not overflow into the next epoch's. Office is laid down at once."""
    monkeypatch.setattr(proposals_module, "LAST_COUNTER", 3)
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.followed_by(1)
    await ours.propose(b"a", b"b")
    await first.say(packet(ACK, E1 + 1), packet(ACK, E1 + 2))
    assert ours.ended is None
    await ours.propose(b"c")
    assert "zxids" in str(ours.ended)
    assert first.is_closed()


async def test_a_member_that_promised_a_later_epoch_ends_it(nursery: trio.Nursery) -> None:
    """It can follow no leader of ours, however often it tries. Server 9 is no member: it may go on trying."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.followed_by(1)
    stranger = await ours.dialled()
    await stranger.say(packet(OBSERVERINFO, E3, learner_info(9, 0)))
    assert show(stranger.heard()) == ["LEADERINFO 1/0"]
    await ours.joined_by(3, accepted=1, current=-1)
    assert ours.ended is None
    await ours.joined_by(3, accepted=2)
    assert "server 3 has accepted epoch 2" in str(ours.ended)
    assert first.is_closed()


async def test_a_member_that_promised_a_later_epoch_ends_it_before_it_has_begun(
    nursery: trio.Nursery,
) -> None:
    """There is nothing to wait for."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first = await ours.joined_by(1)
    await ours.joined_by(3, accepted=2)
    assert "server 3 has accepted epoch 2" in str(ours.ended)
    assert first.is_closed()
    assert ours.established == []


# --- Whoever says it has promised a later epoch, and has not.


async def test_no_packet_deposes_a_leader_in_the_name_of_a_member_that_follows(nursery: trio.Nursery) -> None:
    """One FOLLOWERINFO was enough. The member itself is there, and has promised nothing."""
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    first, third = await ours.followed_by(1), await ours.followed_by(3)
    for server_id in (1, 3):
        liar = await ours.dialled()
        await liar.say(packet(FOLLOWERINFO, E3, learner_info(server_id, 0)))
        assert show(liar.heard()) == ["LEADERINFO 1/0"]
    await ours.propose(b"body")
    assert show(first.heard())[-1] == show(third.heard())[-1] == "PROPOSAL 1/1"
    assert ours.ended is None


async def test_a_later_epoch_is_believed_of_a_member_at_its_own_address(nursery: trio.Nursery) -> None:
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    await ours.followed_by(1)
    ours.network.caller = "elsewhere"
    await ours.joined_by(3, accepted=2)
    assert ours.ended is None
    ours.network.caller = "127.0.0.1"
    await ours.joined_by(3, accepted=2)
    assert "server 3 has accepted epoch 2" in str(ours.ended)


async def test_a_later_epoch_is_not_believed_again_soon(nursery: trio.Nursery, mock_clock: MockClock) -> None:
    """Whoever speaks for a member that is down, from its address, does not depose leader after leader."""
    _, keeper = epochs_at()
    for epoch in (1, 4):
        ours = LeaderUnderTest(nursery, keeper=keeper)
        await ours.leads()
        await ours.followed_by(1, epoch=epoch)
        assert ours.established == [epoch]
        await ours.joined_by(3, accepted=epoch + 2)
    assert ours.ended is None
    mock_clock.jump(CLAIMS_APART_S)
    await ours.joined_by(3, accepted=epoch + 2)
    assert "server 3 has accepted epoch 6" in str(ours.ended)


async def test_who_comes_to_follow_while_its_address_is_looked_up_is_not_given_way_to(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That may take long, and the member itself was on its way."""
    is_looked_up = trio.Event()

    async def is_at(_: MemoryNetwork, stream: trio.abc.Stream, hosts: Collection[str]) -> bool:
        await is_looked_up.wait()
        return True

    monkeypatch.setattr(MemoryNetwork, "is_at", is_at)
    ours = LeaderUnderTest(nursery)
    await ours.leads()
    await ours.followed_by(1)
    liar = await ours.joined_by(3, accepted=2)
    await ours.followed_by(3)
    is_looked_up.set()
    await wait_all_tasks_blocked()
    assert ours.ended is None
    assert show(liar.heard()) == ["LEADERINFO 1/0"]


async def test_no_address_is_looked_up_for_what_will_not_be_believed(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger may ask for it as often as it likes."""

    async def is_at(_: MemoryNetwork, stream: trio.abc.Stream, hosts: Collection[str]) -> bool:
        raise AssertionError(f"{hosts} are looked up")

    _, keeper = epochs_at()
    keeper.believe_claim(0, trio.current_time())
    ours = LeaderUnderTest(nursery, keeper=keeper)
    await ours.leads()
    await ours.followed_by(1)
    monkeypatch.setattr(MemoryNetwork, "is_at", is_at)
    await ours.joined_by(3, accepted=2)
    monkeypatch.setattr(keeper, "believes_claim", lambda now: True)
    await ours.joined_by(1, accepted=2)
    assert ours.ended is None


@pytest.mark.parametrize("is_serving", [False, True])
async def test_no_packet_uses_up_the_epochs(nursery: trio.Nursery, is_serving: bool) -> None:
    """All members would store the last one there is, and nobody could lead them again."""
    ours = LeaderUnderTest(nursery, epochs=(5, 5))
    await ours.leads()
    if is_serving:
        await ours.followed_by(1, epoch=6, accepted=5, current=5)
    for accepted in (0x7FFF_FFFE, 0x7FFF_FFFF, 6 + EPOCH_STEP_MAX + 1):
        liar = await ours.joined_by(3, accepted=accepted)
        assert liar.is_closed()
    assert ours.ended is None
    await ours.followed_by(1, epoch=6, accepted=5, current=5)
    assert ours.established == [6]
    assert ours.stored_epochs == (6, 6)


# --- Who says that it observes.


async def test_an_observer_with_the_id_of_a_voter_counts_for_no_quorum(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """It does not log what it acknowledges. Neither the epoch nor the history is agreed on with it."""
    leader = LeaderUnderTest(nursery)
    await leader.leads()
    liar = await leader.joined_by(1, is_observer=True)
    assert liar.heard() == b""
    assert leader.stored_epochs == (0, 0)
    await leader.joined_by(3)
    await liar.say(packet(ACKEPOCH, 0, int_data(0)))
    await liar.say(packet(ACK, 1 << 32))
    assert leader.established == []


async def test_an_observer_with_the_id_of_a_voter_does_not_accept_an_epoch_for_it(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """The voter may promise it to another leader."""
    leader = LeaderUnderTest(nursery)
    await leader.leads()
    liar, voter = await leader.joined_by(1, is_observer=True), await leader.dialled()
    await voter.say(packet(FOLLOWERINFO, 0, learner_info(3, 0)))
    await liar.say(packet(ACKEPOCH, 0, int_data(0)))
    assert leader.stored_epochs == (1, 0)
    await voter.say(packet(ACKEPOCH, 0, int_data(0)))
    assert leader.stored_epochs == (1, 1)


async def test_acks_of_an_observer_with_the_id_of_a_voter_are_not_counted(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """It has nothing on disk: with the leader's disk alone a proposal is not committed."""
    leader = LeaderUnderTest(nursery)
    await leader.leads()
    follower = await leader.followed_by(1)
    liar = await leader.followed_by(3, is_observer=True, accepted=1)
    await leader.propose(b"body")
    await liar.say(packet(ACK, E1 + 1))
    assert leader.replica.history == []
    await follower.say(packet(ACK, E1 + 1))
    assert leader.replica.history == [E1 + 1]


async def test_an_observer_does_not_keep_a_leader_in_office(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    leader = LeaderUnderTest(nursery)
    await leader.leads()
    follower = await leader.followed_by(1)
    await leader.followed_by(3, is_observer=True, accepted=1)
    await follower.hang_up()
    for _ in range(4):
        await pass_time(mock_clock, leader.settings.tick_s)
    assert "which is no quorum" in str(leader.ended)


# --- Two voters and an oracle.


async def test_with_an_oracle_a_leader_still_waits_for_a_follower_that_is_there(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """What it committed alone the other could undo, if that one were chosen next. Once a tick has shown that
    it is gone, the oracle decides."""
    leader = LeaderUnderTest(nursery, ensemble=ensemble_of(2), ask_oracle=lambda: True)
    await leader.leads()
    assert leader.established == [1]
    await leader.propose(b"alone")
    assert leader.replica.history == [E1 + 1]
    follower = await leader.followed_by(1, accepted=1)
    await leader.propose(b"together")
    assert leader.replica.history == [E1 + 1]
    await follower.say(packet(ACK, E1 + 2))
    assert leader.replica.history == [E1 + 1, E1 + 2]
    await leader.propose(b"not acked")
    await follower.hang_up()
    assert leader.replica.history == [E1 + 1, E1 + 2]
    await pass_time(mock_clock, leader.settings.tick_s)
    assert leader.replica.history == [E1 + 1, E1 + 2, E1 + 3]
    assert leader.ended is None


async def test_a_follower_is_counted_in_one_term_of_office_alone(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """A leader that is not chosen steps down without its follower, and asks the oracle next time."""
    chosen = [False]
    leader = LeaderUnderTest(nursery, ensemble=ensemble_of(2), ask_oracle=lambda: chosen[0])
    await leader.leads()
    follower = await leader.followed_by(1)
    assert leader.established == [1]
    await follower.hang_up()
    for _ in range(2):
        await pass_time(mock_clock, leader.settings.tick_s)
    assert "which is no quorum" in str(leader.ended)
    chosen[0] = True
    assert leader.membership.verifier().contains_quorum({2})


async def test_a_follower_that_outlasts_its_leader_is_not_counted_in_the_next_term(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    leader = LeaderUnderTest(nursery, ensemble=ensemble_of(2), ask_oracle=lambda: True)
    await leader.leads()
    await leader.followed_by(1)
    assert not leader.membership.verifier().contains_quorum({2})
    leader.leader.proposals.end("for a reason of its own")
    await pass_time(mock_clock, leader.settings.tick_s)
    assert leader.ended == "for a reason of its own"
    assert leader.membership.verifier().contains_quorum({2})
