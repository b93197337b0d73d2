"""Whole members of an ensemble, on a network and disks in memory and in virtual time: what operators see."""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar, TypeVarTuple

import attrs
import trio
from trio.testing import MockClock

from jute.opcodes import OpCode
from persistence.disk import RealDisk, replace_file
from quorum.errors import CannotListen
from quorum.server_lines import Ensemble, read_ensemble
from server.config import ServerConfig
from server.ensemble_member import EnsembleMember, election_settings, oracle_of, peer_settings
from server.metrics import MetricsReader
from server.run import four_letter_words_of
from server.server_stats import ServerStats
from server.standing import Standing
from server.world import World
from tests.captured_logs import capture_logs
from tests.persistence.memory_disk import MemoryDisk
from tests.quorum.memory_network import MemoryNetwork
from tests.server.test_four_letter_words import PaperHost
from tests.server.toy_ensemble import ToyEnsemble, path_body

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

ROLES = {1: "participant", 2: "participant", 3: "participant", 4: "observer"}
ENSEMBLE = read_ensemble({f"server.{n}": f"zoo{n}:2888:3888:{role};2181" for n, role in ROLES.items()})


async def at_once(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    await trio.lowlevel.checkpoint()
    return fn(*args)


class TrioClock:
    """The virtual time, in milliseconds; it began at noon."""

    def now_ms(self) -> int:
        return round(trio.current_time() * 1000)

    def wall_ms(self) -> int:
        return 1_767_268_800_000 + self.now_ms()


@attrs.define
class Members:
    """Those that run, by id."""

    nursery: trio.Nursery
    settings: dict[str, Any]
    listed: Ensemble = ENSEMBLE
    network: MemoryNetwork = attrs.field(factory=MemoryNetwork)
    by_id: dict[int, EnsembleMember] = attrs.field(factory=dict)
    scopes: dict[int, trio.CancelScope] = attrs.field(factory=dict)
    ended: dict[int, str] = attrs.field(factory=dict)  # by themselves, and why

    def start(self, *ids: int) -> None:
        for my_id in ids:
            config = ServerConfig(
                data_dir=Path("/data"),
                client_port=2181,
                preallocate_bytes=0,
                my_id=my_id,
                ensemble=self.listed,
                init_limit_ticks=10,
                sync_limit_ticks=5,
                **self.settings,
            )
            world = World(
                disk=MemoryDisk(),
                log_offload=at_once,
                snapshot_offload=at_once,
                random=Random(my_id),
                clock=TrioClock(),
                stopwatch=lambda: 0.0,
            )
            world.disk.make_directory(Path("/data"))
            self.by_id[my_id] = EnsembleMember.open(config, world, self.network)
            self.scopes[my_id] = trio.CancelScope()
            self.nursery.start_soon(self._run, my_id)

    async def _run(self, my_id: int) -> None:
        member = self.by_id[my_id]
        try:
            with self.scopes[my_id]:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(member.replica.write_log)
                    nursery.start_soon(member.run)
        except* CannotListen as failures:
            failure: BaseException = failures
            while isinstance(failure, BaseExceptionGroup):
                (failure,) = failure.exceptions
            self.ended[my_id] = str(failure)

    def kill(self, *ids: int) -> None:
        for my_id in ids:
            self.scopes[my_id].cancel()
            del self.by_id[my_id]

    def standing(self, my_id: int) -> Standing:
        return self.by_id[my_id].standing()

    def counters(self, my_id: int) -> dict[str, int]:
        member = self.by_id[my_id]
        reader = MetricsReader(
            current_pipeline=lambda: member.replica.pipeline,
            connections=lambda: (),
            host=PaperHost(),
            started_ms=0,
        )
        metrics = reader.read(member.standing())
        counts = {name: summary.count for name, summary in metrics.summaries.items()}
        return {**metrics.counters, **counts}


@asynccontextmanager
async def ensemble(*ids: int, **settings: Any) -> AsyncIterator[Members]:
    """Members that have had half a minute to find each other."""
    async with trio.open_nursery() as nursery:
        members = Members(nursery, settings)
        members.start(*ids)
        await trio.sleep(30)
        yield members
        nursery.cancel_scope.cancel()


def leader_of(members: Members) -> int:
    [leader] = [n for n in members.by_id if members.standing(n).mode == "leader"]
    return leader


async def test_a_leader_shows_its_learners(autojump_clock: MockClock) -> None:
    """Followers, observers, proposals, and since when."""
    async with ensemble(1, 2, 3, 4) as members:
        standing = members.standing(leader_of(members))
        assert standing.is_serving
        assert standing.monitor_values == {"peer_state": "leading - broadcast"}
        gauges = dict(standing.gauges)
        assert 20_000 < gauges.pop("leader_uptime") <= 30_000
        assert gauges == {
            "quorum_size": 3,
            "learners": 3,
            "synced_followers": 2,
            "synced_non_voting_followers": 0,
            "synced_observers": 1,
            "pending_syncs": 0,
            "last_proposal_size": -1,
            "max_proposal_size": -1,
            "min_proposal_size": -1,
        }
        assert str(standing.proposals) == "-1/-1/-1"


async def test_learners_show_whom_they_learn_from(autojump_clock: MockClock) -> None:
    """A follower hosts no observers unless it is told to; an observer names its master."""
    async with ensemble(1, 2, 3, 4) as members:
        leader = leader_of(members)
        follower = next(n for n in (1, 2, 3) if n != leader)
        assert members.standing(follower).mode == "follower"
        assert members.standing(follower).monitor_values == {"peer_state": "following - broadcast"}
        assert members.standing(follower).gauges == {"quorum_size": 3}
        assert members.standing(follower).proposals is None
        assert members.standing(4).mode == "observer"
        assert members.standing(4).monitor_values == {
            "peer_state": "observing - broadcast",
            "observer_master_id": leader,
        }


async def test_an_observer_shows_the_follower_that_serves_it(autojump_clock: MockClock) -> None:
    """And so does the follower."""
    async with ensemble(1, 2, 3, 4, observer_master_port=2889) as members:
        master = members.standing(4).monitor_values["observer_master_id"]
        assert isinstance(master, int)
        assert master in {1, 2, 3} - {leader_of(members)}
        assert members.standing(master).gauges == {"quorum_size": 3, "synced_observers": 1}
        assert members.standing(leader_of(members)).gauges["synced_observers"] == 0


async def test_elections_and_synchronisations_are_counted(autojump_clock: MockClock) -> None:
    """Once each, on a quiet day."""
    async with ensemble(1, 2, 3, 4) as members:
        leader = leader_of(members)
        follower = next(n for n in (1, 2, 3) if n != leader)
        leads, follows, observes = (members.counters(n) for n in (leader, follower, 4))
        assert leads["looking_count"] == follows["looking_count"] == observes["looking_count"] == 1
        assert leads["diff_count"] + leads["snap_count"] == 3
        names = (
            "election_time",
            "follower_sync_time",
            "observer_sync_time",
            "unavailable_time",
            "leader_unavailable_time",
        )
        assert [leads[name] for name in names] == [1, 0, 0, 1, 1]
        assert [follows[name] for name in names] == [1, 1, 0, 1, 0]
        assert [observes[name] for name in names] == [0, 0, 1, 1, 0]


async def test_a_member_alone_is_looking_and_serves_nobody(autojump_clock: MockClock) -> None:
    """There are no gauges of a role it does not have."""
    async with ensemble(1) as members:
        standing = members.standing(1)
        assert not standing.is_serving
        assert standing.monitor_values == {"peer_state": "looking"}
        assert standing.gauges == {"quorum_size": 3}


async def test_a_member_alone_may_serve_readers_until_it_is_not(autojump_clock: MockClock) -> None:
    """What it shows is then nothing about the ensemble but its own settings."""
    async with ensemble(1, read_only_mode_enabled=True) as members:
        standing = members.standing(1)
        assert (standing.mode, standing.is_serving) == ("read-only", True)
        assert standing.monitor_values == standing.gauges == {}
        assert standing.ensemble_conf == (
            "initLimit=10\nsyncLimit=5\nelectionAlg=3\nelectionPort=3888\nquorumPort=2888\npeerType=0\n"
        )
        members.start(2)
        await trio.sleep(30)
        assert {members.standing(1).mode, members.standing(2).mode} == {"leader", "follower"}


async def test_uptime_begins_when_the_server_does(autojump_clock: MockClock) -> None:
    """And not with the clock, which counts from the start of the machine."""
    async with ensemble() as members:
        members.start(1)
        member = members.by_id[1]
        words = four_letter_words_of(member.replica, member.standing)
        await trio.sleep(5)
        member.replica.begin_batch()
        assert words.metrics.read(member.standing()).gauges["uptime"] == 5000
        member.replica.end_batch()


async def test_a_learner_that_no_server_line_names_is_shown_as_such(autojump_clock: MockClock) -> None:
    """It follows, as in the original, but its vote does not count: somebody forgot to list it here."""
    without_3 = attrs.evolve(ENSEMBLE, members={n: ENSEMBLE.members[n] for n in (1, 2)})
    with capture_logs() as lines:
        async with ensemble() as members:
            members.listed = without_3
            members.start(1, 2)
            await trio.sleep(30)
            members.listed = ENSEMBLE
            members.start(3)
            await trio.sleep(30)
            assert members.standing(3).mode == "follower"
    listed = {line["server"]: line.get("listed") for line in lines if line["event"] == "learner_synced"}
    assert listed.pop(3) is False
    assert set(listed.values()) == {None}


async def test_a_leader_that_cannot_listen_leaves_it_to_others(autojump_clock: MockClock) -> None:
    """It says why, and ends: else it would be elected again and again."""
    async with ensemble() as members:
        await members.network.listen("zoo3", 2888)
        members.start(1, 2, 3)
        await trio.sleep(60)  # whoever has the port leaves the others without an answer for initLimit
        assert members.ended[3].startswith("cannot listen for learners (server.3=zoo3:2888:3888): ")
        assert members.ended[3].endswith("correct the server line, or myid")
        assert {members.standing(n).mode for n in (1, 2)} == {"leader", "follower"}


async def test_every_transition_is_one_line(autojump_clock: MockClock) -> None:
    """What an engineer on call reads after a leader is lost."""
    async with ensemble(1, 2, 3) as members:
        leader = leader_of(members)
        with capture_logs() as lines:
            members.kill(leader)
            await trio.sleep(60)
        now = leader_of(members)
        [ended, _] = [line for line in lines if line["event"] == "role_ended" and line["role"] == "FOLLOWING"]
        assert ended["leader"] == leader
        assert ended["epoch"] == 1
        assert ended["reason"]
        [leading] = [line for line in lines if line["event"] == "leading"]
        assert (leading["epoch"], leading["zxid"]) == (2, "0x200000000")
        [following] = [line for line in lines if line["event"] == "following"]
        assert (following["leader"], following["epoch"]) == (now, 2)
        [synced] = [line for line in lines if line["event"] == "learner_synced"]
        assert (synced["mode"], synced["observer"]) == (following["mode"], False)
        assert len([line for line in lines if line["event"] == "election_dial_failed"]) <= 2


async def test_roles_are_announced_in_the_words_of_the_original(autojump_clock: MockClock) -> None:
    """Scripts and people search logs for them; a leader says that it orders writes once it serves."""
    with capture_logs() as lines:
        async with ensemble(1, 2, 3) as members:
            leader = leader_of(members)
    said = [line["event"] for line in lines]
    assert said.count("LOOKING") == 3
    assert f"New election. My id = {leader}, proposed zxid=0x0" in said
    [led] = [text for text in said if text.startswith("LEADING - LEADER ELECTION TOOK - ")]
    assert led.endswith(" MS")
    assert sum(text.startswith("FOLLOWING - LEADER ELECTION TOOK - ") for text in said) == 2
    assert said.count("Peer state changed: leading - broadcast") == 1
    assert said.count("Peer state changed: following - broadcast") == 2
    [quorum] = [text for text in said if text.startswith("Have quorum of supporters, sids: [[")]
    assert quorum.endswith("; starting up and setting last processed zxid: 0x100000000")
    [ordering] = [text for text in said if text.startswith("PrepRequestProcessor")]
    assert ordering == f"PrepRequestProcessor (sid:{leader}) started, reconfigEnabled=false"
    assert sum(text.startswith("Snapshot loaded in ") for text in said) >= 3


def test_how_long_writes_take_through_an_ensemble_is_counted_on_every_server() -> None:
    """At the leader until a quorum has them, at learners until they hear of that."""
    ensemble = ToyEnsemble()
    learner = ensemble.learners[0]
    client = learner.connect()  # a session is a write
    client.send(1, OpCode.SYNC, path_body("/"))
    ensemble.pass_time(30)
    ensemble.settle()
    leads, learns = ensemble.leader.state.stats, learner.state.stats
    assert (leads.ensemble.quorum_acks.count, leads.ensemble.propagations.count) == (1, 1)
    assert (learns.ensemble.commit_propagations.count, learns.ensemble.propagations.count) == (1, 1)
    assert (learns.reads.count, learns.reads.greatest) == (1, 30)


def test_srst_forgets_what_the_peer_counted_and_goes_on_counting() -> None:
    """The peer holds the same numbers for ever."""
    stats = ServerStats()
    peers = stats.ensemble
    peers.looks += 1
    peers.election_times.add(20)
    stats.reset()
    assert stats.ensemble is peers
    assert (peers.looks, peers.election_times.count) == (0, 0)


def test_a_vote_is_repeated_at_least_every_2_s() -> None:
    """Or a network that works again is not noticed."""
    timing = election_settings(ServerConfig(data_dir=Path("/data"))).timing
    assert (timing.resend_min_ms, timing.resend_max_ms) == (200, 2_000)


def test_settings_of_the_election_port() -> None:
    links = election_settings(ServerConfig(data_dir=Path("/data"), multi_address_enabled=True)).links
    assert links.sends_all_addresses


def test_limits_that_are_off() -> None:
    """As in the original: 0 is no limit for a dial, and below zero is as good as not set."""
    unset = ServerConfig(data_dir=Path("/data"), init_limit_ticks=10)
    off = attrs.evolve(unset, connect_to_learner_master_limit_ticks=-1, cnx_timeout_ms=0)
    assert peer_settings(off) == peer_settings(unset)
    assert election_settings(off).links.connect_timeout_s == math.inf


def test_an_oracle_that_cannot_be_read_says_no() -> None:
    """It is somebody else's file, and may be replaced or gone at any time."""
    disk = MemoryDisk()
    ask = oracle_of(ServerConfig(data_dir=Path("/data"), oracle_path=Path("/oracle")), disk)
    assert ask is not None
    assert not ask()
    replace_file(disk, Path("/oracle"), b"1\n")
    assert ask()
    replace_file(disk, Path("/oracle"), b"0\n")
    assert not ask()


def test_an_oracle_that_is_a_directory_says_no(tmp_path: Path) -> None:
    ask = oracle_of(ServerConfig(data_dir=tmp_path, oracle_path=tmp_path), RealDisk())
    assert ask is not None
    assert not ask()


def test_the_settings_of_observers_and_their_masters() -> None:
    """A limit that could not hold one large transaction would let every observer go."""
    settings = peer_settings(
        ServerConfig(
            data_dir=Path("/data"),
            observer_master_port=2889,
            observer_master_size_limit_bytes=1,
            observer_reconnect_delay_ms=500,
            observer_election_delay_ms=-1,
        )
    )
    assert settings.observer_master_port == 2889
    assert settings.observer_master_queued_bytes_max == 4 << 20
    assert settings.observer_reconnect_delay_s == 0.5
    assert settings.observer_delay_s == 0
