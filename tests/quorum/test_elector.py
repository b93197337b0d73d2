"""Electors that elect: in memory and in virtual time, and once over real sockets."""

import socket
from collections.abc import AsyncIterator

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from jute.framing import frame
from jute.quorum_records import (
    Initiation,
    Notification,
    ServerState,
    decode_notification,
    encode_initiation,
    encode_notification,
)
from quorum.election import Vote
from quorum.election_links import LinkSettings
from quorum.elector import ConfigAdopted, ElectionSettings, Elector
from quorum.network import RealNetwork
from quorum.server_lines import Ensemble, config_text, read_ensemble
from tests.captured_logs import capture_logs
from tests.quorum.election_scenario import ensemble_of
from tests.quorum.memory_network import MemoryNetwork

THREE = ensemble_of([1, 2, 3], [4])


@attrs.define
class Servers:
    """Electors by id, each run in a scope of its own so that it can be killed."""

    nursery: trio.Nursery
    network: MemoryNetwork = attrs.field(factory=MemoryNetwork)
    ensemble: Ensemble = THREE
    electors: dict[int, Elector] = attrs.field(factory=dict)
    scopes: dict[int, trio.CancelScope] = attrs.field(factory=dict)
    outcomes: dict[int, Vote | ConfigAdopted] = attrs.field(factory=dict)

    async def start(self, *sids: int, reconfig_enabled: bool = False) -> None:
        settings = ElectionSettings(reconfig_enabled=reconfig_enabled)
        for sid in sids:
            self.electors[sid] = Elector(sid, self.network, settings, self.ensemble)
            self.scopes[sid] = trio.CancelScope()
            await self.nursery.start(self._run, sid)

    async def _run(self, sid: int, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with self.scopes[sid]:
            await self.electors[sid].run(task_status=task_status)

    async def look(self, zxids: dict[int, int], epoch: int = 1) -> None:
        """Let these servers look for a leader, all at once; done when all have one."""
        async with trio.open_nursery() as nursery:
            for sid, zxid in zxids.items():
                nursery.start_soon(self.look_alone, sid, zxid, epoch)

    async def look_alone(self, sid: int, zxid: int, epoch: int = 1) -> None:
        self.outcomes.pop(sid, None)
        self.outcomes[sid] = await self.electors[sid].look(zxid, epoch)

    async def kill(self, sid: int) -> None:
        self.scopes[sid].cancel()
        await wait_all_tasks_blocked()

    def states(self) -> dict[int, str]:
        return {sid: elector.state.name for sid, elector in self.electors.items()}

    def leaders(self) -> dict[int, int]:
        return {sid: vote.leader for sid, vote in self.outcomes.items() if isinstance(vote, Vote)}


@pytest.fixture
async def servers(autojump_clock: MockClock) -> AsyncIterator[Servers]:
    async with trio.open_nursery() as nursery:
        yield Servers(nursery)
        nursery.cancel_scope.cancel()


async def test_three_start_and_elect_the_one_with_the_highest_zxid(
    servers: Servers, autojump_clock: MockClock
) -> None:
    """What is said first on a connection may be old, so they wait. The second time nobody does."""
    await servers.start(1, 2, 3)
    await servers.look({1: 7, 2: 9, 3: 8})
    assert servers.leaders() == {1: 2, 2: 2, 3: 2}
    assert servers.states() == {1: "FOLLOWING", 2: "LEADING", 3: "FOLLOWING"}
    assert trio.current_time() <= 0.2
    await wait_all_tasks_blocked()  # or an answer on its way says that 2 leads
    await servers.look({1: 17, 2: 19, 3: 20})
    assert servers.leaders() == {1: 3, 2: 3, 3: 3}
    assert trio.current_time() <= 0.2


async def test_a_dead_leader_is_replaced_without_waiting_for_it(
    servers: Servers, autojump_clock: MockClock
) -> None:
    """Its port refuses the survivors; and they notice at different times."""
    await servers.start(1, 2, 3)
    await servers.look({1: 7, 2: 7, 3: 7})
    assert servers.states()[3] == "LEADING"
    await servers.kill(3)
    before = trio.current_time()
    servers.electors[1].state = ServerState.LOOKING
    servers.nursery.start_soon(servers.look_alone, 2, 9)
    await trio.sleep(0.05)
    await servers.look_alone(1, 8)
    await wait_all_tasks_blocked()
    assert servers.leaders() == {1: 2, 2: 2, 3: 3}
    assert trio.current_time() - before < 0.06


async def test_a_server_that_does_not_answer_is_waited_for(
    servers: Servers, autojump_clock: MockClock
) -> None:
    """For 200 ms: its machine is gone, or it is merely slow."""
    servers.network.silent.add("zoo3")
    await servers.start(1, 2)
    await servers.look({1: 7, 2: 7})
    assert servers.leaders() == {1: 2, 2: 2}
    assert 0.2 <= trio.current_time() < 0.21


async def test_a_newcomer_follows_whom_the_others_follow(servers: Servers, autojump_clock: MockClock) -> None:
    """Although it knows more, and although they sit in another epoch than when they voted."""
    await servers.start(1, 2)
    await servers.look({1: 7, 2: 7})
    for sid in (1, 2):
        servers.electors[sid].update_vote_epoch(2)
    await servers.start(3, 4)
    await servers.look({3: 99, 4: 0})
    assert servers.outcomes[3] == servers.outcomes[4] == Vote(2, 7, 1, 2)
    assert servers.states() == {1: "FOLLOWING", 2: "LEADING", 3: "FOLLOWING", 4: "OBSERVING"}


async def test_votes_that_come_while_we_are_about_to_look_are_not_lost(
    servers: Servers, autojump_clock: MockClock
) -> None:
    servers.network.silent |= {"zoo2", "zoo3"}
    await servers.start(1)
    vote = Notification(ServerState.LOOKING, 2, 9, 1, 1, config_text(THREE))
    servers.electors[1].received(2, encode_notification(vote), is_first=True, is_at_home=True)
    await servers.look({1: 7})
    assert servers.leaders() == {1: 2}


async def test_who_has_looked_for_long_decides_as_soon_as_one_who_has_not(
    servers: Servers, autojump_clock: MockClock
) -> None:
    """200 ms after the vote that makes a quorum, not only when our own vote is to be repeated: that is every
    2 s by now."""
    servers.network.silent |= {"zoo2", "zoo3"}
    await servers.start(1)
    servers.nursery.start_soon(servers.look, {1: 7})
    await trio.sleep_until(10.1)
    vote = Notification(ServerState.LOOKING, 2, 9, 1, 1, config_text(THREE))
    servers.electors[1].received(2, encode_notification(vote), is_first=True, is_at_home=True)
    await trio.sleep(0.19)
    assert servers.leaders() == {}
    await trio.sleep(0.02)
    assert servers.leaders() == {1: 2}


async def test_an_election_that_is_cancelled_can_be_started_again(
    servers: Servers, autojump_clock: MockClock
) -> None:
    await servers.start(1)
    with trio.move_on_after(1) as scope:
        await servers.look({1: 7})
    assert scope.cancelled_caught
    assert servers.states() == {1: "LOOKING"}
    await servers.start(2)
    await servers.look({1: 7, 2: 7})
    assert servers.leaders() == {1: 2, 2: 2}


async def test_a_newer_config_is_handed_to_whoever_looks(servers: Servers, autojump_clock: MockClock) -> None:
    """Once it is set, the election goes on with it."""
    await servers.start(1, 2, 3, reconfig_enabled=True)
    newer = attrs.evolve(ensemble_of([1, 2, 3, 5]), version=0x100000005)
    for sid in (2, 3):
        servers.electors[sid].set_members(newer, newer)
    servers.nursery.start_soon(servers.look, {2: 7, 3: 7})
    assert await servers.electors[1].look(7, 1) == ConfigAdopted(newer)
    servers.electors[1].set_members(newer, newer)
    await servers.look_alone(1, 7)
    assert servers.leaders()[1] == 3


async def test_a_newer_config_is_ignored_where_reconfiguration_is_off(
    servers: Servers, autojump_clock: MockClock
) -> None:
    await servers.start(1, 2, 3)
    newer = attrs.evolve(THREE, version=0x100000005)
    for sid in (2, 3):
        servers.electors[sid].set_members(newer, newer)
    await servers.look({1: 7, 2: 7, 3: 7})
    assert servers.leaders() == {1: 3, 2: 3, 3: 3}


async def test_nonsense_is_ignored_with_a_line_that_says_who_sent_it(
    servers: Servers, autojump_clock: MockClock
) -> None:
    await servers.start(1)
    stream = await servers.network.dial("zoo1", 3888)
    hello = encode_initiation(Initiation(3, ("zoo3:3888",)))
    vote = Notification(ServerState.LOOKING, 99, 0, 1, 0, "tickTime=7")
    servers.nursery.start_soon(servers.look_alone, 1, 7)
    with capture_logs() as lines:
        await stream.send_all(hello + frame(b"short") + frame(encode_notification(vote)))
        await wait_all_tasks_blocked()
    ignored = [line for line in lines if line["event"] == "notification_ignored"]
    assert [line["server"] for line in ignored] == [3, 3, 3]
    assert "tickTime" in ignored[1]["reason"]
    assert "votes for 99" in ignored[2]["reason"]


@pytest.mark.parametrize("round_", [1 << 62, (1 << 63) - 2, (1 << 63) - 1])
async def test_however_high_a_round_a_stranger_claims_the_next_elections_go_on(
    round_: int, servers: Servers, autojump_clock: MockClock
) -> None:
    """All who look enter it. There is a round behind the last one, and who missed it is told."""
    await servers.start(1, 2, 3)
    stream = await servers.network.dial("zoo1", 3888)
    claim = Notification(ServerState.LOOKING, 3, 0, round_, 0, config_text(THREE))
    hello = encode_initiation(Initiation(3, ("zoo3:3888",)))
    await stream.send_all(hello + frame(encode_notification(claim)))
    await wait_all_tasks_blocked()
    rounds = []
    for _ in range(3):
        with capture_logs() as lines, trio.fail_after(10):
            await servers.look({1: 7, 2: 7, 3: 7})
        assert servers.leaders() == {1: 3, 2: 3, 3: 3}
        rounds += [
            line["round"] for line in lines if line["event"] == "leader_elected" and line["leader"] == 3
        ]
        await wait_all_tasks_blocked()
    assert round_ in rounds


async def test_what_an_engineer_sees_of_an_election(servers: Servers, autojump_clock: MockClock) -> None:
    await servers.start(1, 2, 3)
    with capture_logs() as lines:
        await servers.look({1: 7, 2: 9, 3: 8})
    of_3 = [line["event"] for line in lines if "election" not in line["event"]]
    assert set(of_3) == {"vote_changed", "leader_elected"}
    elected = next(line for line in lines if line["event"] == "leader_elected")
    assert (elected["leader"], elected["zxid"], elected["round"], elected["epoch"]) == (2, "0x9", 1, 1)


async def test_an_answer_carries_our_state_and_our_committed_config(
    servers: Servers, autojump_clock: MockClock
) -> None:
    """To one who has no vote, with the round we are in."""
    await servers.start(1, 2, 3)
    await servers.look({1: 7, 2: 7, 3: 7})
    stream = await servers.network.dial("zoo3", 3888)
    asks = Notification(ServerState.LOOKING, -(2**63), -(2**63), 1, -(2**63), config_text(THREE))
    hello = encode_initiation(Initiation(4, ("zoo4:3888",)))
    await stream.send_all(hello + frame(encode_notification(asks)))
    await wait_all_tasks_blocked()
    answer = decode_notification(bytes(await stream.receive_some(1000))[4:])
    assert answer == Notification(ServerState.LEADING, 3, 7, 1, 1, config_text(THREE))


# --- Over real sockets.


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [sock.getsockname()[1] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


async def test_three_elect_over_loopback_then_two_after_the_leader_died(nursery: trio.Nursery) -> None:
    ports = free_ports(6)
    lines = {f"server.{n}": f"127.0.0.1:{ports[2 * n - 2]}:{ports[2 * n - 1]}" for n in (1, 2, 3)}
    ensemble = read_ensemble(lines)
    settings = ElectionSettings(links=LinkSettings(connect_timeout_s=5))
    electors = {sid: Elector(sid, RealNetwork(), settings, ensemble) for sid in (1, 2, 3)}
    servers = Servers(nursery, ensemble=ensemble, electors=electors)
    with trio.fail_after(20):
        for sid in electors:
            servers.scopes[sid] = trio.CancelScope()
            await nursery.start(servers._run, sid)
        await servers.look({1: 5, 2: 5, 3: 5})
        assert servers.leaders() == {1: 3, 2: 3, 3: 3}
        await servers.kill(3)
        await servers.look({1: 6, 2: 5})
        assert servers.leaders() == {1: 1, 2: 1, 3: 3}
        assert servers.states() == {1: "LEADING", 2: "FOLLOWING", 3: "LEADING"}
    nursery.cancel_scope.cancel()
