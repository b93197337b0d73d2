"""Reconfigurations as leaders and learners live through them, with the other side scripted."""

import errno
from pathlib import Path
from struct import pack

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from jute.errors import NewConfigNoQuorum, ReconfigInProgress, SystemError_
from jute.record import encode
from jute.txn_records import SetDataTxn
from quorum.config_files import ConfigFiles
from quorum.packets import (
    ACK,
    COMMIT,
    COMMITANDACTIVATE,
    DIFF,
    INFORMANDACTIVATE,
    NEWLEADER,
    PROPOSAL,
    UPTODATE,
    long_data,
    packet,
    ping_answer,
)
from quorum.reconfiguration import Departure
from quorum.server_lines import Ensemble, config_text, read_config_text
from tests.persistence.memory_disk import MemoryDisk
from tests.quorum.fake_replica import FakeReplica, txn, txns
from tests.quorum.scripted_peers import (
    TICK_S,
    LeaderUnderTest,
    LearnerUnderTest,
    ScriptedPeer,
    ensemble_of,
    pass_time,
    show,
)

E1 = 1 << 32
FOUR = ensemble_of(4)
FOURTH = f"server.4={FOUR.members[4]}"

# Nothing here may depend on how long things take.
pytestmark = pytest.mark.usefixtures("mock_clock")


def unhex(text: str) -> bytes:
    return bytes.fromhex(text)


def members(*server_ids: int, version: int, observers: tuple[int, ...] = ()) -> Ensemble:
    listed = {n: ensemble_of(5).members[n] for n in server_ids}
    listed |= {n: ensemble_of(0, 5).members[n] for n in observers}
    return Ensemble(members=dict(sorted(listed.items())), version=version)


def reconfig_txn(ensemble: Ensemble, zxid: int | None = None) -> bytes:
    header = pack(">qiqqi", 0x1234, 7, ensemble.version if zxid is None else zxid, 1_700_000_000_000, 16)
    return header + encode(SetDataTxn("/zookeeper/config", config_text(ensemble).encode(), -1))


# --- The leader.


async def leading(
    nursery: trio.Nursery, *followers: int, ensemble: Ensemble | None = None, my_id: int = 3
) -> tuple[LeaderUnderTest, dict[int, ScriptedPeer]]:
    ours = LeaderUnderTest(nursery, my_id=my_id, is_dynamic=True, ensemble=ensemble or ensemble_of())
    await ours.leads()
    return ours, await ours.followed_by_all(*followers)


async def reconfigure(
    ours: LeaderUnderTest, joining: str | None = None, leaving: str | None = None
) -> Ensemble:
    """What a client asks for, prepared and proposed as the server would."""
    zxid = ours.service._next_zxid
    text = ours.leader.proposals.new_config(joining, leaving, None, -1, zxid)
    asked = ours.leader.proposals._asked_config
    assert asked is not None
    assert text == config_text(asked)
    ours.service._append(reconfig_txn(asked))
    ours.service.end_batch()
    await wait_all_tasks_blocked()
    return asked


async def test_the_first_configuration_gets_the_version_of_its_epoch(nursery: trio.Nursery) -> None:
    """ZOOKEEPER-1783: proposed with NEWLEADER, in force when a quorum has taken it over."""
    ours = LeaderUnderTest(nursery, is_dynamic=True)
    await ours.leads()
    follower = await ours.joined_by(1)
    assert follower.heard().endswith(b"\nversion=100000000" + unhex("ffffffff"))
    assert ours.membership.committed.version == 0
    await follower.say(packet(ACK, E1))
    assert ours.membership.committed.version == E1
    assert show(follower.heard()) == ["UPTODATE -1"]


async def test_trace_8_7_a_server_is_added(nursery: trio.Nursery) -> None:
    ours, followers = await leading(nursery, 1, 2, 4)
    await ours.propose(b"body")
    await followers[1].say(packet(ACK, E1 + 1))
    for follower in followers.values():
        follower.heard()
    asked = await reconfigure(ours, joining=FOURTH)
    assert asked.version == ours.membership.last_seen.version == E1 + 2
    proposed = packet(PROPOSAL, E1 + 2, reconfig_txn(asked))
    assert [follower.heard() for follower in followers.values()] == [proposed] * 3
    await followers[1].say(packet(ACK, E1 + 2))
    assert ours.membership.committed.version == E1  # of four, two are no majority
    await followers[4].say(packet(ACK, E1 + 2))
    activated = unhex("00000009 0000000100000002 00000008 0000000000000003 ffffffff")
    assert [follower.heard() for follower in followers.values()] == [activated] * 3
    assert ours.membership.committed == asked
    assert ours.replica.history == [E1 + 1, E1 + 2]


async def test_until_it_is_in_force_both_quorums_are_needed(nursery: trio.Nursery) -> None:
    """Also for what is proposed after it; and afterwards that of the new members alone."""
    ours, followers = await leading(nursery, 1, 2, 4)
    await reconfigure(ours, joining=FOURTH, leaving="1")
    await ours.propose(b"after")
    await followers[4].say(packet(ACK, E1 + 1), packet(ACK, E1 + 2))
    assert ours.replica.history == []  # 3 and 4 of the new three, but of the old ones 3 alone
    await followers[2].say(packet(ACK, E1 + 1))
    assert ours.replica.history == [E1 + 1]
    await followers[1].say(packet(ACK, E1 + 1), packet(ACK, E1 + 2))
    assert ours.replica.history == [E1 + 1, E1 + 2]  # proposed under both
    await ours.propose(b"later")
    await followers[1].say(packet(ACK, E1 + 3))
    assert ours.replica.history == [E1 + 1, E1 + 2]  # its ack counts no longer
    await followers[4].say(packet(ACK, E1 + 3))
    assert ours.replica.history == [E1 + 1, E1 + 2, E1 + 3]


async def test_one_at_a_time_and_only_with_a_quorum_that_is_there(nursery: trio.Nursery) -> None:
    ours, followers = await leading(nursery, 1, 2)
    with pytest.raises(NewConfigNoQuorum):
        ours.leader.proposals.new_config(f"{FOURTH},{FOURTH.replace('4', '5')}", "1", None, -1, E1 + 1)
    await reconfigure(ours, leaving="1")
    with pytest.raises(ReconfigInProgress):
        ours.leader.proposals.new_config(None, "2", None, -1, E1 + 2)
    await followers[2].say(packet(ACK, E1 + 1))
    await reconfigure(ours, joining=f"server.1={FOUR.members[1]}")


async def test_one_that_fails_after_all_changes_nothing(nursery: trio.Nursery) -> None:
    """The client may not write the config node, say: its transaction is an error, and needs no new quorum."""
    ours, followers = await leading(nursery, 1, 2)
    ours.leader.proposals.new_config(None, "1", None, -1, E1 + 1)
    await ours.propose(b"an error")
    await followers[1].say(packet(ACK, E1 + 1))
    assert show(followers[1].heard()) == ["PROPOSAL 1/1", "COMMIT 1/1"]
    assert ours.membership.last_seen.version == E1


async def test_the_leader_is_removed(nursery: trio.Nursery) -> None:
    """The follower with the most is named, nothing more is committed, and all leave by themselves."""
    ours, followers = await leading(nursery, 1, 2)
    await reconfigure(ours, leaving="3")
    await ours.propose(b"after")
    await followers[2].say(packet(ACK, E1 + 1), packet(ACK, E1 + 2))
    await followers[1].say(packet(ACK, E1 + 1))
    named = packet(COMMITANDACTIVATE, E1 + 1, long_data(2))
    assert followers[1].heard().endswith(named)
    assert followers[2].heard().endswith(named)
    await followers[1].say(packet(ACK, E1 + 2))
    assert ours.replica.history == [E1 + 1]
    assert not followers[1].is_closed()
    for follower in followers.values():
        await follower.hang_up()
    assert ours.ended is not None
    assert ours.leader.successor == 2


async def test_a_leader_that_was_removed_waits_for_nobody_long(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    ours, followers = await leading(nursery, 1, 2)
    await reconfigure(ours, leaving="3")
    await followers[1].say(packet(ACK, E1 + 1))
    await followers[2].say(packet(ACK, E1 + 1))
    await pass_time(mock_clock, TICK_S / 2)
    assert ours.ended is not None
    assert ours.leader.successor == 1


async def test_observers_are_informed(nursery: trio.Nursery) -> None:
    ours = LeaderUnderTest(nursery, is_dynamic=True, ensemble=ensemble_of(3, observers=1))
    await ours.leads()
    follower = await ours.followed_by(1)
    observer = await ours.followed_by(4, is_observer=True)
    asked = await reconfigure(ours, leaving="3")
    await follower.say(packet(ACK, E1 + 1))
    assert observer.heard() == packet(INFORMANDACTIVATE, E1 + 1, long_data(2) + reconfig_txn(asked))


async def test_a_new_leader_completes_what_was_proposed(nursery: trio.Nursery) -> None:
    """ZOOKEEPER-1324: it goes out with NEWLEADER, and needs both quorums there."""
    pending = members(1, 2, 3, 4, 5, version=E1 + 7)
    ours = LeaderUnderTest(nursery, ensemble=ensemble_of(version=E1), last_seen=pending, epochs=(1, 1))
    await ours.leads()
    first = await ours.joined_by(1, accepted=1, current=1)
    assert b"\nserver.5=" in first.heard()
    await first.say(packet(ACK, 2 << 32))
    assert ours.established == []  # two of five
    fourth = await ours.joined_by(4, accepted=1, current=1)
    await fourth.say(packet(ACK, 2 << 32))
    assert ours.established == [2]
    assert ours.membership.committed == pending
    await ours.propose(b"body")
    await first.say(packet(ACK, (2 << 32) + 1))
    assert ours.replica.history == []
    await fourth.say(packet(ACK, (2 << 32) + 1))
    assert ours.replica.history == [(2 << 32) + 1]


async def test_a_new_leader_that_is_to_be_none_completes_it_and_goes(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """The others learn from UPTODATE that it is in force, and elect another."""
    pending = members(1, 3, version=E1 + 7)
    ours = LeaderUnderTest(nursery, ensemble=ensemble_of(version=E1), last_seen=pending, epochs=(1, 1))
    await ours.leads()
    for server_id in (1, 3):
        follower = await ours.joined_by(server_id, accepted=1, current=1)
        await follower.say(packet(ACK, 2 << 32))
    assert ours.membership.committed == pending
    assert show(follower.heard())[-1] == "UPTODATE -1"
    await pass_time(mock_clock, TICK_S / 2)
    assert ours.ended is not None
    assert ours.leader.successor is None


async def test_a_leader_by_appointment_gives_way_to_one_who_knows_more(
    nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    """The old leader chose it by the acks it had; the other had logged more by then."""
    two = members(1, 2, version=E1 + 2)
    ours = LeaderUnderTest(nursery, FakeReplica(txns(E1 + 1, E1 + 2)), epochs=(1, 1), ensemble=two)
    await ours.leads()
    old_leader = await ours.joined_by(3, accepted=1, current=1, zxid=E1 + 9)
    await ours.joined_by(1, accepted=1, current=1, zxid=E1 + 3)
    await pass_time(mock_clock, 1, step_s=0.1)
    assert ours.ended is not None
    assert ours.leader.successor is None
    assert old_leader.is_closed()


# --- Learners. Server 2 leads.

ESTABLISHED = ensemble_of(version=E1)
NEW_LEADER = packet(NEWLEADER, E1, config_text(ESTABLISHED).encode())
UP_TO_DATE = packet(UPTODATE, -1)


async def learning(
    nursery: trio.Nursery, my_id: int = 1, *, observers: int = 0
) -> tuple[LearnerUnderTest, ScriptedPeer]:
    """A learner in step with its leader."""
    ours = LearnerUnderTest(
        nursery,
        my_id=my_id,
        is_dynamic=True,
        is_observer=my_id > 3,
        ensemble=ensemble_of(3, observers, version=E1),
    )
    leader = await ours.follows()
    await leader.say(packet(DIFF, 0), NEW_LEADER)
    await leader.say(UP_TO_DATE)
    leader.heard()
    return ours, leader


def activation(zxid: int, designated: int) -> bytes:
    return packet(COMMITANDACTIVATE, zxid, long_data(designated))


async def test_a_follower_that_is_not_concerned_goes_on(nursery: trio.Nursery) -> None:
    ours, leader = await learning(nursery)
    asked = members(1, 2, 3, 4, version=E1 + 1)
    await leader.say(packet(PROPOSAL, E1 + 1, reconfig_txn(asked)))
    assert ours.membership.last_seen == asked
    assert ours.membership.committed == ESTABLISHED
    assert show(leader.heard()) == ["ACK 1/1"]
    await leader.say(activation(E1 + 1, 2))
    assert ours.membership.committed == asked
    assert ours.replica.history == [E1 + 1]
    await leader.say(packet(PROPOSAL, E1 + 2, txn(E1 + 2)), packet(COMMIT, E1 + 2))
    assert ours.replica.history == [E1 + 1, E1 + 2]
    assert ours.ended is None


@pytest.mark.parametrize(
    ("asked", "designated"),
    [
        (members(1, 3, version=E1 + 1), 3),
        (members(1, 3, version=E1 + 1), 1),
        (members(2, 3, version=E1 + 1, observers=(1,)), 2),
    ],
)
async def test_a_follower_with_another_leader_or_role_applies_it_and_goes(
    nursery: trio.Nursery, asked: Ensemble, designated: int
) -> None:
    ours, leader = await learning(nursery)
    await leader.say(packet(PROPOSAL, E1 + 1, reconfig_txn(asked)), activation(E1 + 1, designated))
    assert ours.replica.history == [E1 + 1]
    assert ours.membership.committed.version == E1 + 1
    assert leader.is_closed()
    await leader.hang_up()
    assert ours.ended is not None
    assert ours.learning.departure == Departure(designated)


async def test_who_leaves_tells_which_sessions_it_has_heard(nursery: trio.Nursery) -> None:
    """The next question would come too late: the leader may stay, and would let them expire before their
    time."""
    ours, leader = await learning(nursery, 4, observers=1)
    ours.service.heard_from = [(7, 200)]
    asked = members(1, 2, 3, 4, version=E1 + 1)
    await leader.say(packet(INFORMANDACTIVATE, E1 + 1, long_data(2) + reconfig_txn(asked)))
    assert leader.heard() == ping_answer(E1 + 1, [(7, 200)])
    assert leader.is_closed()


async def test_an_observer_that_becomes_a_voter_comes_back_as_a_follower(nursery: trio.Nursery) -> None:
    ours, leader = await learning(nursery, 4, observers=1)
    asked = members(1, 2, 3, 4, version=E1 + 1)
    await leader.say(packet(INFORMANDACTIVATE, E1 + 1, long_data(2) + reconfig_txn(asked)))
    assert ours.replica.history == [E1 + 1]
    assert ours.learning.departure == Departure(2)


@pytest.mark.parametrize("is_new_leader", [False, True])
@pytest.mark.parametrize("designated", [2, 3])
async def test_it_may_come_while_a_follower_takes_over_the_history(
    nursery: trio.Nursery, is_new_leader: bool, designated: int
) -> None:
    """Before NEWLEADER or after it. Who must go goes at once: what it missed it gets from the next leader."""
    ours = LearnerUnderTest(nursery, is_dynamic=True, ensemble=ESTABLISHED)
    leader = await ours.follows()
    asked = members(1, 2, 3, 4, version=E1 + 1)
    proposed = packet(PROPOSAL, E1 + 1, reconfig_txn(asked))
    before = (NEW_LEADER, proposed) if is_new_leader else (proposed,)
    await leader.say(packet(DIFF, 0), *before)
    assert ours.membership.last_seen == asked
    await leader.say(activation(E1 + 1, designated))
    assert ours.membership.committed == asked
    if designated == 3:
        assert ours.learning.departure == Departure(3)
        return
    leaders = packet(NEWLEADER, E1, config_text(asked).encode())
    await leader.say(*([] if is_new_leader else [leaders]), UP_TO_DATE)
    assert ours.replica.history == [E1 + 1]
    assert ours.ended is None


async def test_the_leaders_configuration_is_in_force_when_we_are_up_to_date(nursery: trio.Nursery) -> None:
    """Not before: until then nobody knows that a quorum has it."""
    ours = LearnerUnderTest(nursery, is_dynamic=True)
    leader = await ours.follows()
    await leader.say(packet(DIFF, 0), NEW_LEADER)
    assert ours.membership.last_seen.version == E1
    assert ours.membership.committed.version == 0
    await leader.say(UP_TO_DATE)
    assert ours.membership.committed.version == E1
    assert ours.synced_with == [1]


async def test_what_the_leader_only_proposes_is_not_in_force_when_we_are_up_to_date(
    nursery: trio.Nursery,
) -> None:
    """Else we would leave, for a role that we do not have yet, and our ack may be the one that is missing."""
    ours = LearnerUnderTest(nursery, is_dynamic=True, ensemble=ESTABLISHED)
    leader = await ours.follows()
    asked = members(2, 3, version=E1 + 1, observers=(1,))
    await leader.say(packet(DIFF, 0), packet(PROPOSAL, E1 + 1, reconfig_txn(asked)))
    await leader.say(packet(NEWLEADER, E1, config_text(asked).encode()))
    leader.heard()
    await leader.say(UP_TO_DATE)
    assert (ours.membership.committed, ours.membership.last_seen) == (ESTABLISHED, asked)
    assert show(leader.heard()) == ["ACK 1/0", "ACK 1/1"]
    await leader.say(activation(E1 + 1, 2))
    assert ours.membership.committed == asked
    assert ours.learning.departure is not None


async def test_an_observer_that_joins_is_told_what_is_in_force(nursery: trio.Nursery) -> None:
    """What is proposed it hears of when it is committed."""
    ours = LeaderUnderTest(nursery, is_dynamic=True, ensemble=ensemble_of(3, 1))
    await ours.leads()
    await ours.followed_by(1)
    in_force = ours.membership.committed
    asked = members(1, 2, 3, 4, version=E1 + 1)
    ours.membership.see(asked)
    observer = await ours.joined_by(4, is_observer=True)
    assert observer.heard().endswith(packet(NEWLEADER, E1, config_text(in_force).encode()))
    follower = await ours.joined_by(3)
    assert follower.heard().endswith(packet(NEWLEADER, E1, config_text(asked).encode()))


async def test_a_leader_that_is_no_voter_in_its_own_configuration_is_left(nursery: trio.Nursery) -> None:
    ours = LearnerUnderTest(nursery, is_dynamic=True, ensemble=ESTABLISHED)
    leader = await ours.follows()
    completed = members(1, 3, version=E1 + 7)
    await leader.say(packet(DIFF, 0), packet(NEWLEADER, E1, config_text(completed).encode()), UP_TO_DATE)
    assert ours.membership.committed == completed
    assert ours.learning.departure == Departure(None)


async def test_what_was_proposed_and_the_leader_does_not_know_is_forgotten(nursery: trio.Nursery) -> None:
    ours = LearnerUnderTest(nursery, ensemble=ESTABLISHED, last_seen=members(1, 4, 5, version=E1 + 7))
    leader = await ours.follows()
    await leader.say(packet(DIFF, 0), NEW_LEADER)
    assert ours.membership.last_seen == ESTABLISHED


async def test_where_reconfiguration_is_off_it_is_a_write_like_any_other(nursery: trio.Nursery) -> None:
    ours, leader = await learning(nursery)
    ours.membership.reconfig_enabled = False
    asked = members(1, 3, version=E1 + 1)
    await leader.say(packet(PROPOSAL, E1 + 1, reconfig_txn(asked)), activation(E1 + 1, 3))
    assert ours.replica.history == [E1 + 1]
    assert ours.membership.committed == ESTABLISHED
    assert ours.ended is None


async def test_nonsense_ends_the_connection(nursery: trio.Nursery) -> None:
    ours, leader = await learning(nursery)
    nonsense = reconfig_txn(attrs.evolve(ESTABLISHED, version=E1 + 1)).replace(b"server", b"serves")
    await leader.say(packet(PROPOSAL, E1 + 1, nonsense))
    assert ours.ended is not None
    assert ours.learning.departure is None


# --- A configuration file beside which nothing can be written.


def cannot_save(ours: LearnerUnderTest | LeaderUnderTest) -> MemoryDisk:
    disk = MemoryDisk()
    disk.put(Path("/conf/zoo.cfg"), b"")
    for operation in ("create", "is_writable"):
        disk.faults[operation] = OSError(errno.EROFS, "read-only file system")
    ours.membership._files = ConfigFiles(disk, Path("/conf/zoo.cfg"))
    return disk


async def test_a_follower_does_not_acknowledge_members_it_cannot_save(nursery: trio.Nursery) -> None:
    ours, leader = await learning(nursery)
    cannot_save(ours)
    asked = members(1, 2, 3, 4, version=E1 + 1)
    await leader.say(packet(PROPOSAL, E1 + 1, reconfig_txn(asked)))
    assert leader.heard() == b""
    assert leader.is_closed()
    assert "/conf/zoo.cfg.dynamic.next cannot be written" in str(ours.ended)
    assert ours.membership.last_seen == ESTABLISHED


async def test_a_leader_refuses_members_it_cannot_save(nursery: trio.Nursery) -> None:
    """And leads on."""
    ours, followers = await leading(nursery, 1, 2, 4)
    cannot_save(ours)
    with pytest.raises(SystemError_):
        ours.leader.proposals.new_config(FOURTH, None, None, -1, E1 + 1)
    await ours.propose(b"something else")
    assert show(followers[1].heard()) == ["PROPOSAL 1/1"]
    assert ours.ended is None


async def test_a_leader_that_fails_to_save_members_it_has_begun_to_propose_resigns(
    nursery: trio.Nursery,
) -> None:
    """Nobody hears of them, nor of anything behind them."""
    ours, followers = await leading(nursery, 1, 2, 4)
    disk = cannot_save(ours)
    disk.faults.clear()
    text = ours.leader.proposals.new_config(FOURTH, None, None, -1, E1 + 1)
    disk.faults["rename"] = OSError(errno.EIO, "input/output error")
    ours.service._append(reconfig_txn(read_config_text(text)))
    ours.service._append(txn(E1 + 2))
    ours.service.end_batch()
    await wait_all_tasks_blocked()
    assert followers[1].heard() == b""
    assert ours.replica.waiting == ours.replica.on_disk == []
    assert "cannot be written" in str(ours.ended)
