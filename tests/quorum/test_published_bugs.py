"""Bugs that were found in Apache ZooKeeper's replication, each with the situation it needs, on our server.

What was lost or left behind is always a node named after its zxid. Servers here are real up to the network:
their leader or follower is scripted, their disk can stop and lose power at any moment.
"""

from collections.abc import Callable
from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from jute.quorum_records import ServerState
from persistence.epoch_files import ACCEPTED_EPOCH, CURRENT_EPOCH, read_epoch
from persistence.file_names import log_name
from persistence.log_format import FILE_HEADER, encode_entries
from quorum.epochs import EpochKeeper
from quorum.learner_links import LearnerLink
from quorum.packets import (
    ACK,
    ACKEPOCH,
    COMMIT,
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
from tests.persistence.memory_disk import MemoryDisk
from tests.quorum.election_scenario import play
from tests.quorum.fake_replica import FakeReplica, stream_of, txn, txns
from tests.quorum.machines import FILES, ServerMachine, creating, names_of
from tests.quorum.scripted_peers import (
    TICK_S,
    LeaderUnderTest,
    LearnerUnderTest,
    ScriptedPeer,
    new_leader,
    pass_time,
    show,
)

E1, E2, E3 = 1 << 32, 2 << 32, 3 << 32
UP_TO_DATE = packet(UPTODATE, -1)

# Nothing here may depend on how long things take.
pytestmark = pytest.mark.usefixtures("mock_clock")


def proposal(zxid: int) -> bytes:
    return packet(PROPOSAL, zxid, creating(zxid))


def commit(zxid: int) -> bytes:
    return packet(COMMIT, zxid)


def committed(*zxids: int) -> bytes:
    return b"".join(proposal(zxid) + commit(zxid) for zxid in zxids)


def epochs_on(disk: MemoryDisk) -> tuple[int | None, int | None]:
    return read_epoch(disk, FILES, ACCEPTED_EPOCH), read_epoch(disk, FILES, CURRENT_EPOCH)


async def follower_on(
    machine: ServerMachine, nursery: trio.Nursery, epoch: int = 2
) -> tuple[LearnerUnderTest, ScriptedPeer]:
    """Started, and at the point where its leader chooses how to bring it up to date."""
    learner = LearnerUnderTest(await machine.boot(nursery), machine=machine)
    return learner, await learner.follows(epoch)


def server_with(*zxids: int) -> ServerMachine:
    """It is in epoch 1, and has these."""
    return ServerMachine().with_history(zxids, accepted=1, current=1)


async def tree_of(*zxids: int) -> bytes:
    """The stream that SNAP is followed by."""
    machine = server_with(*zxids)
    return b"".join(machine.opened().snapshot_stream())


# What a server has, or more than that; and what its leader has, in the same epoch.
HISTORY = (E1 + 1, E1 + 2)
AIM = (E1 + 1, E1 + 2, E1 + 3, E1 + 4)


async def opening(mode: str) -> tuple[ServerMachine, bytes]:
    """A server, and what its leader sends to make it have AIM."""
    if mode == "DIFF":
        return server_with(*HISTORY), packet(DIFF, AIM[-1]) + committed(*AIM[2:])
    if mode == "TRUNC":
        return server_with(*AIM, E1 + 5, E1 + 6), packet(TRUNC, AIM[-1])
    return server_with(*HISTORY), packet(SNAP, AIM[-1]) + await tree_of(*AIM)


MODES = ["DIFF", "TRUNC", "SNAP"]


# --- What is on disk when NEWLEADER is acknowledged.


async def test_zookeeper_3023_what_a_diff_brought_is_there_when_newleader_is_acked(
    nursery: trio.Nursery,
) -> None:
    """A follower handed the transactions of a DIFF to its log and acked NEWLEADER whether they had been
    written and applied or not: a test that looked at once found them or did not."""
    machine = server_with(*HISTORY)
    _, leader = await follower_on(machine, nursery)
    machine.hold_log()
    await leader.say(packet(DIFF, AIM[-1]), committed(*AIM[2:]), new_leader(2))
    assert leader.heard() == b""
    await machine.release_log()
    assert show(leader.heard()) == ["ACK 2/0"]
    assert machine.names() == names_of(AIM)
    await machine.crash()
    assert machine.names_on_disk() == names_of(AIM)


@pytest.mark.parametrize("mode", MODES)
async def test_zookeeper_4646_what_was_synchronised_survives_a_crash_after_the_ack(
    nursery: trio.Nursery, mode: str
) -> None:
    """A follower acked NEWLEADER before its log was synced: its leader counted it and served clients, and
    after a power failure the follower did not have what it had been counted for."""
    for chance in range(6):
        machine, said = await opening(mode)
        _, leader = await follower_on(machine, nursery)
        machine.hold_log()
        await leader.say(said, new_leader(2))
        if not (heard := leader.heard()):
            await machine.release_log()
            heard = leader.heard()
        assert show(heard) == ["ACK 2/0"]
        await machine.crash(chance)
        assert machine.names_on_disk() == names_of(AIM)
        assert epochs_on(machine.disk) == (2, 2)


async def _crash_at_every_step(
    nursery: trio.Nursery, mode: str, check: Callable[[ServerMachine, bool], None]
) -> None:
    """While a follower takes over a leader's history, its machine goes down after so and so many writes; the
    first time while nothing gets into the log."""
    budget, was_acked, is_log_held = 10_000, False, True
    while not was_acked:
        for chance in (None, 1, 2):
            machine, said = await opening(mode)
            _, leader = await follower_on(machine, nursery)
            machine.disk.budget = budget
            if is_log_held:
                machine.hold_log()
            await leader.say(said + new_leader(2))
            was_acked = "ACK 2/0" in show(leader.heard())
            await machine.crash(chance)
            check(machine, was_acked)
        if is_log_held:
            budget, was_acked, is_log_held = 0, False, False
        budget = budget * 5 // 4 + 1


@pytest.mark.parametrize("mode", MODES)
async def test_zookeeper_4643_the_epoch_is_entered_after_its_history_is_there(
    nursery: trio.Nursery, mode: str
) -> None:
    """A follower wrote currentEpoch before the transactions of its leader: a crash in between left a server
    that outvoted others by its epoch and lacked what they had committed."""

    def check(machine: ServerMachine, was_acked: bool) -> None:
        _, current = epochs_on(machine.disk)
        if current == 2:
            assert machine.names_on_disk() == names_of(AIM)
        else:
            assert not was_acked

    await _crash_at_every_step(nursery, mode, check)


@pytest.mark.parametrize("mode", MODES)
async def test_zookeeper_4785_no_vote_stands_for_more_than_is_on_disk(
    nursery: trio.Nursery, mode: str
) -> None:
    """The log was written by one thread and currentEpoch by another: a follower that was restarted in between
    came back with the new epoch and the old history, was elected, and had the others cut theirs."""

    def check(machine: ServerMachine, was_acked: bool) -> None:
        replica = machine.opened()
        vote = (EpochKeeper(machine.disk, FILES, replica.last_zxid).current, replica.last_zxid)
        assert vote < (2, 0) or vote == (2, AIM[-1])
        history = [name for name in machine.names_on_disk() if name in names_of(AIM)]
        assert history == names_of(AIM)[: len(history)]
        assert len(history) >= len(HISTORY)

    await _crash_at_every_step(nursery, mode, check)


async def test_zookeeper_3911_a_quorum_that_is_synchronised_has_the_leaders_whole_log(
    nursery: trio.Nursery,
) -> None:
    """What a new leader had logged and nobody had committed went to its followers by DIFF, and they acked
    NEWLEADER before they logged it: the leader committed it, crashed, and nobody else had it."""
    leading, following = server_with(*AIM), server_with(*HISTORY)
    ours = LeaderUnderTest(await leading.boot(nursery), machine=leading)
    await ours.leads()
    follower = LearnerUnderTest(await following.boot(nursery), machine=following, network=ours.network)
    following.hold_log()
    nursery.start_soon(follower.prepared().learn, ours.ensemble.members[2])
    await wait_all_tasks_blocked()
    assert ours.established == []
    await following.release_log()
    assert ours.established == [2]
    await leading.crash()
    await following.crash()
    assert following.names_on_disk() == names_of(AIM)


# --- What comes in between while a follower is synchronised.


async def test_zookeeper_4394_a_commit_after_newleader_of_a_proposal_before_it(nursery: trio.Nursery) -> None:
    """A proposal came before NEWLEADER and its commit after: the follower had put the proposal away and fell
    over a null pointer, left the leader, and met the same again when it came back."""
    machine = server_with(*HISTORY)
    _, leader = await follower_on(machine, nursery)
    await leader.say(packet(DIFF, E1 + 3), committed(E1 + 3), proposal(E1 + 4), new_leader(2))
    await leader.say(commit(E1 + 4), proposal(E2 + 1), commit(E2 + 1))
    await leader.say(UP_TO_DATE)
    assert show(leader.heard()) == ["ACK 2/0", "ACK 2/0", "ACK 1/4", "ACK 2/1"]
    assert machine.names() == names_of([*AIM, E2 + 1])


async def test_zookeeper_4685_no_proposal_is_acked_before_newleader(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """Followers acked proposals before NEWLEADER; leaders took the first ack for NEWLEADER's, never counted
    the follower as synchronised, and without it gave up. Ours does not do the first, nor mind if others
    do."""
    machine = server_with(*HISTORY)
    _, leader = await follower_on(machine, nursery)
    await leader.say(packet(DIFF, E1 + 2), proposal(E2 + 1), proposal(E2 + 2), new_leader(2))
    assert show(leader.heard()) == ["ACK 2/0"]

    ours = LeaderUnderTest(nursery)
    await ours.leads()
    older = await ours.joined_by(1)
    await older.say(packet(ACK, 5))
    await older.say(packet(ACK, E1))
    assert show(older.heard())[-1] == "UPTODATE -1"
    assert ours.established == [1]
    await pass_time(mock_clock, TICK_S)
    assert ours.ended is None


async def test_zookeeper_2355_a_follower_does_not_have_what_was_only_announced(nursery: trio.Nursery) -> None:
    """DIFF names the last zxid to come, and a follower took that for its own at once: if the connection broke
    then, it never asked for the rest, and kept an ephemeral node whose deletion was in it."""
    machine = server_with(*HISTORY)
    learner, leader = await follower_on(machine, nursery)
    await leader.say(packet(DIFF, AIM[-1]), proposal(AIM[2])[:30])
    await leader.hang_up()
    assert learner.ended
    await machine.replica.retire()
    _, again = await _back_again(machine, nursery)
    assert show(again.heard())[-1] == "ACKEPOCH 1/2"
    await again.say(packet(DIFF, AIM[-1]), committed(*AIM[2:]), new_leader(2))
    assert machine.names() == names_of(AIM)


async def _back_again(
    machine: ServerMachine, nursery: trio.Nursery, epoch: int = 2
) -> tuple[LearnerUnderTest, ScriptedPeer]:
    """The server, without having been restarted, follows a leader anew."""
    learner = LearnerUnderTest(nursery, machine=machine)
    leader = await learner.dials()
    await leader.say(packet(LEADERINFO, epoch << 32, int_data(0x10000)))
    return learner, leader


@pytest.mark.parametrize("is_whole", [False, True])
async def test_zookeeper_3642_a_snapshot_that_was_not_completed_is_forgotten(
    nursery: trio.Nursery, is_whole: bool
) -> None:
    """A follower lost its leader while a snapshot came in, kept half a tree in memory, said it had what its
    log had, and got a DIFF on top of that."""
    machine = server_with(*HISTORY)
    stream = await tree_of(*AIM)
    learner, leader = await follower_on(machine, nursery)
    await leader.say(packet(SNAP, AIM[-1]), stream if is_whole else stream[: len(stream) // 2])
    await leader.hang_up()
    assert learner.ended
    await machine.replica.retire()
    assert machine.names() == names_of(HISTORY)
    _, again = await _back_again(machine, nursery)
    assert show(again.heard())[-1] == "ACKEPOCH 1/2"
    await again.say(packet(DIFF, AIM[-1]), committed(*AIM[2:]), new_leader(2))
    assert machine.names() == names_of(AIM)
    await machine.crash()
    assert machine.names_on_disk() == names_of(AIM)


async def test_zookeeper_2872_a_snapshot_is_durable_before_it_is_acknowledged(nursery: trio.Nursery) -> None:
    """The snapshot a leader sent was written but not synced, while what came after it was: a power failure
    left a log without the snapshot it continues."""
    for chance in range(6):
        machine = server_with(*HISTORY)
        stream = await tree_of(*AIM)
        _, leader = await follower_on(machine, nursery)
        await leader.say(packet(SNAP, AIM[-1]), stream, new_leader(2), UP_TO_DATE, proposal(E2 + 1))
        assert show(leader.heard()) == ["ACK 2/0", "ACK 2/0", "ACK 2/1"]
        await machine.crash(chance)
        assert machine.names_on_disk() == names_of([*AIM, E2 + 1])


async def test_zookeeper_3104_newleader_comes_behind_all_that_a_snapshot_may_hold(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NEWLEADER was queued before the snapshot was sent, and before what was committed meanwhile: a follower
    saved a tree with some of that in it, under a zxid that said otherwise."""
    ours = LeaderUnderTest(nursery, FakeReplica(txns(E1 + 1, E1 + 3)), epochs=(1, 1))
    await ours.leads()
    first = await ours.followed_by(1, epoch=2, accepted=1, current=1, zxid=E1 + 3)
    third = await ours.dialled()
    await third.say(packet(FOLLOWERINFO, E1, learner_info(3, 0)))
    third.heard()
    may_go_on = trio.Event()
    send_now = LearnerLink.send_now

    async def slowly(link: LearnerLink, data: bytes) -> None:
        await send_now(link, data)
        await may_go_on.wait()

    monkeypatch.setattr(LearnerLink, "send_now", slowly)
    await third.say(packet(ACKEPOCH, 0, int_data(1)))
    await ours.propose(b"body", b"body")
    await first.say(packet(ACK, E2 + 1))
    may_go_on.set()
    await wait_all_tasks_blocked()
    heard = third.heard()
    opening = packet(SNAP, E2) + stream_of([*txns(E1 + 1, E1 + 3), txn(E2 + 1)])
    assert heard.startswith(opening)
    rest = show(heard[len(opening) :])
    assert rest == ["PROPOSAL 2/1", "PROPOSAL 2/2", "COMMIT 2/1", "NEWLEADER 2/0"]


async def test_zookeeper_4925_what_came_by_diff_is_handed_on(nursery: trio.Nursery) -> None:
    """What a follower was sent while it synchronised did not get into the list of latest transactions it
    keeps: when it led later, others were sent a DIFF with a hole. Nor do we take such a DIFF."""
    machine = server_with(*HISTORY)
    learner, leader = await follower_on(machine, nursery)
    await leader.say(packet(DIFF, E1 + 4), committed(E1 + 3, E1 + 4), proposal(E2 + 1), new_leader(2))
    await leader.say(UP_TO_DATE, commit(E2 + 1), proposal(E2 + 2), commit(E2 + 2))
    await leader.hang_up()
    assert learner.ended
    await machine.replica.retire()
    ours = LeaderUnderTest(nursery, my_id=2, machine=machine)
    await ours.leads()
    stale = await ours.joined_by(3, accepted=1, current=1, zxid=E1 + 1)
    sent = [*AIM[1:], E2 + 1, E2 + 2]
    assert stale.heard() == packet(DIFF, E2 + 2) + committed(*sent) + new_leader(3)

    victim = server_with(E1 + 1)
    learner, holed = await follower_on(victim, nursery)
    await holed.say(packet(DIFF, E2 + 1), committed(E1 + 2, E2 + 2), new_leader(2))
    assert holed.heard() == b""
    assert learner.learning.needs_snapshot


# --- From one role to the next.


async def test_zookeeper_2845_what_was_logged_is_in_the_next_vote(nursery: trio.Nursery) -> None:
    """The tree in memory was kept from one role to the next, without what had been logged and not committed:
    the vote said less than the log held, and a restart changed the server's history."""
    machine = server_with(*HISTORY)
    learner, leader = await follower_on(machine, nursery)
    await leader.say(packet(DIFF, E1 + 2), new_leader(2), UP_TO_DATE, proposal(E2 + 1), proposal(E2 + 2))
    assert show(leader.heard())[-1] == "ACK 2/2"
    assert machine.names() == names_of(HISTORY)
    await leader.hang_up()
    assert learner.ended
    await machine.replica.retire()
    assert machine.replica.last_zxid == E2 + 2
    in_memory = machine.names()
    await machine.crash()
    assert machine.names_on_disk() == in_memory == names_of([*HISTORY, E2 + 1, E2 + 2])


async def test_zookeeper_4712_nothing_is_logged_any_more_once_a_role_has_ended(nursery: trio.Nursery) -> None:
    """A follower that stopped following did not stop the thread that logs: what that wrote afterwards was
    neither in the tree nor in the vote, but in the log."""
    machine = server_with(*HISTORY)
    learner, leader = await follower_on(machine, nursery)
    await leader.say(packet(DIFF, E1 + 2), new_leader(2), UP_TO_DATE)
    machine.hold_log()
    await leader.say(proposal(E2 + 1), proposal(E2 + 2))
    await leader.hang_up()
    assert learner.ended
    has_retired = trio.Event()

    async def retire() -> None:
        await machine.replica.retire()
        has_retired.set()

    nursery.start_soon(retire)
    await wait_all_tasks_blocked()
    assert not has_retired.is_set()
    await machine.release_log()
    assert has_retired.is_set()
    assert machine.replica.last_zxid == E2 + 2
    in_memory, spent = machine.names(), machine.disk.spent
    await wait_all_tasks_blocked()
    assert machine.disk.spent == spent
    await machine.crash()
    assert machine.names_on_disk() == in_memory


# --- Truncation.


async def test_zookeeper_1489_what_is_logged_after_a_cut_can_be_read(nursery: trio.Nursery) -> None:
    """After TRUNC the log went on at its old position, beyond the end of the file: the hole in between hid
    everything behind it from the next start."""
    machine = server_with(*HISTORY)
    _, leader = await follower_on(machine, nursery)
    await leader.say(packet(DIFF, E1 + 2), new_leader(2), UP_TO_DATE, *[proposal(E2 + n) for n in (1, 2, 3)])
    assert show(leader.heard())[-1] == "ACK 2/3"
    await leader.hang_up()
    await machine.replica.retire()
    _, leader = await _back_again(machine, nursery, epoch=3)
    await leader.say(packet(TRUNC, E1 + 2), new_leader(3), UP_TO_DATE)
    await leader.say(*[proposal(E3 + n) + commit(E3 + n) for n in (1, 2, 3)])
    assert machine.names() == names_of([*HISTORY, E3 + 1, E3 + 2, E3 + 3])
    await machine.crash()
    assert machine.names_on_disk() == machine.names()


@pytest.mark.parametrize("operation", ["truncate", "unlink"])
async def test_zookeeper_3701_a_log_that_could_not_be_cut_is_not_acknowledged(
    nursery: trio.Nursery, operation: str
) -> None:
    """On a full disk TRUNC failed, and nobody looked: the follower went on with transactions that had never
    been committed, and there were two histories in one ensemble."""
    machine = server_with(*AIM)
    replica = machine.opened()
    replica.txn_log.append_batch([creating(E1 + 5)])  # in a file of its own
    replica.txn_log.close()
    _, leader = await follower_on(machine, nursery)
    machine.disk.faults[operation] = OSError(28, "No space left on device")
    await leader.say(packet(TRUNC, E1 + 3), new_leader(2))
    assert "ACK 2/0" not in show(leader.heard())
    assert machine.is_dead
    machine.disk.faults.clear()
    assert epochs_on(machine.disk) == (2, 1)
    machine.is_dead = False
    _, leader = await follower_on(machine, nursery, epoch=3)
    await leader.say(packet(TRUNC, E1 + 3), new_leader(3))
    assert show(leader.heard()) == ["ACK 3/0"]
    assert machine.names() == names_of(AIM[:3])


async def test_zookeeper_5094_what_followed_a_cut_is_on_disk_when_it_is_in_the_tree(
    nursery: trio.Nursery,
) -> None:
    """What came behind TRUNC was applied and not logged: a follower that lost its leader before NEWLEADER
    voted with more than it had, was sent only the rest, and logged a hole."""
    machine = server_with(*AIM, E1 + 5)
    learner, leader = await follower_on(machine, nursery)
    await leader.say(packet(TRUNC, E1 + 4), committed(E2 + 1, E2 + 2))
    await leader.hang_up()
    assert learner.ended
    await machine.replica.retire()
    in_memory, zxid = machine.names(), machine.replica.last_zxid
    await machine.crash()
    assert machine.names_on_disk() == in_memory
    assert machine.opened().last_zxid == zxid == E2 + 2


# --- A disk that fails, or failed.


async def test_zookeeper_2247_a_leader_whose_disk_fails_does_not_go_on(nursery: trio.Nursery) -> None:
    """A leader that could not write its log any more went on sending pings: nothing was committed, and nobody
    else was elected."""
    machine = server_with(*HISTORY)
    ours = LeaderUnderTest(await machine.boot(nursery), machine=machine)
    await ours.leads()
    ours.nursery = nursery  # where its follower lives
    follower = await ours.followed_by(1, epoch=2, accepted=1, current=1, zxid=HISTORY[-1])
    assert ours.established == [2]
    machine.disk.faults["write_at"] = OSError(28, "No space left on device")
    machine.disk.faults["create"] = OSError(28, "No space left on device")
    ours.leader.proposals.append(creating(E2 + 1))
    ours.leader.proposals.flush()
    await wait_all_tasks_blocked()
    assert machine.is_dead
    assert follower.is_closed()
    assert "COMMIT 2/1" not in show(follower.heard())


async def test_zookeeper_4882_a_follower_whose_disk_fails_does_not_go_on(nursery: trio.Nursery) -> None:
    """A follower applied what was committed though its own disk had refused it, and later logged what came
    after: the log had a hole that the tree had not."""
    machine = server_with(*HISTORY)
    _, leader = await follower_on(machine, nursery)
    await leader.say(packet(DIFF, E1 + 2), new_leader(2), UP_TO_DATE)
    leader.heard()
    machine.disk.faults["create"] = OSError(5, "Input/output error")
    await leader.say(proposal(E2 + 1))
    assert machine.is_dead
    assert leader.heard() == b""
    machine.disk.faults.clear()
    assert machine.names_on_disk() == names_of(HISTORY)


def left_by_apache(*zxids: int) -> ServerMachine:
    """As Apache's server leaves what `server_with` has: nothing says that it is ours."""
    machine = server_with()
    entries = encode_entries(list(map(creating, zxids)))
    machine.disk.put(FILES / log_name(zxids[0]), FILE_HEADER + entries)
    for name in (ACCEPTED_EPOCH, CURRENT_EPOCH):
        machine.disk.put(FILES / name, b"1\n")
    return machine


def test_zookeeper_2332_a_log_that_was_created_and_never_written_is_no_obstacle() -> None:
    """A server that stopped between creating a log file and writing its header did not start again."""
    machine = left_by_apache(*AIM)
    machine.disk.put(FILES / log_name(E1 + 5), b"")
    assert machine.names_on_disk() == names_of(AIM)


@pytest.mark.parametrize("size", range(1, len(FILE_HEADER)))
def test_zookeeper_1621_a_log_that_ends_in_its_header_is_no_obstacle(size: int) -> None:
    """On a full disk a new log got part of its header; when there was room again, the server did not
    start."""
    machine = left_by_apache(*AIM)
    machine.disk.put(FILES / log_name(E1 + 5), FILE_HEADER[:size])
    assert machine.names_on_disk() == names_of(AIM)


def test_zookeeper_1621_a_full_disk_costs_nothing_that_was_acknowledged() -> None:
    """The same with our own log: wherever the disk is full, a restart finds all that was there before."""
    for budget in range(0, 400, 7):
        machine = server_with(*AIM)
        replica = machine.opened()
        machine.disk.faults["sync"] = OSError(28, "No space left on device")
        machine.disk.budget = budget
        with pytest.raises(BaseException):  # noqa: B017, PT011 - Killed, or the disk is full
            replica.txn_log.append_batch([creating(E1 + 5)])
        machine.disk.faults.clear()
        machine.disk.lose_power(Random(budget))
        assert machine.names_on_disk() in (names_of(AIM), names_of([*AIM, E1 + 5]))


def test_zookeeper_4269_a_promise_that_was_not_completed_is_no_obstacle() -> None:
    """The new acceptedEpoch was written beside the old one and could not be renamed: the server then found
    its two epochs at odds, and did not start."""
    disk = server_with(*HISTORY).disk
    epochs = EpochKeeper(disk, FILES, HISTORY[-1])
    disk.faults["rename"] = OSError(5, "Input/output error")
    with pytest.raises(OSError, match="Input/output"):
        epochs.accept(2)
    assert epochs.accepted == 1
    disk.faults.clear()
    disk.put(FILES / "acceptedEpoch.tmp", b"2")
    disk.put(FILES / "currentEpoch.tmp", b"")
    again = EpochKeeper(disk, FILES, HISTORY[-1])
    assert (again.accepted, again.current) == (1, 1)
    again.accept(2)
    again.enter(2)
    assert epochs_on(disk) == (2, 2)


# --- Elections.


def test_zookeeper_1818_followers_that_tell_of_one_leader_in_different_words() -> None:
    """A server that joined compared all that followers said of their leader, rounds and zxids too, which
    differ when they joined it at different times: it never found a quorum."""
    heard = play(
        "server 3 voters=1,2,3,4,5\n"
        "hear 1 FOLLOWING 2 1/5 epoch=3 round=4\n"
        "hear 4 FOLLOWING 2 2/0 epoch=3 round=9\n"
        "hear 2 LEADING 2 1/7 epoch=3 round=7\n----\n"
    )
    assert heard.splitlines()[-1].startswith(f"{ServerState.FOLLOWING.name}: 2 ")
