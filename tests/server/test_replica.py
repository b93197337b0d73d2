"""A server's history on disk, its tree, and the way from one role to the next."""

import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from struct import pack, unpack_from
from typing import Any, TypeVar, TypeVarTuple

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from jute.client_records import Acl, CreateRequest, Id
from jute.opcodes import CreateMode, OpCode
from jute.record import encode
from jute.zxid import make_zxid
from persistence.errors import CorruptSnapshot, StorageError
from persistence.file_names import log_name
from persistence.log_format import zxid_of
from persistence.offload import Offload
from quorum.epochs import EpochKeeper
from quorum.replica import AuthIds
from server.acls import OPEN_ACL
from server.client_fronts import FrontLimits, PlainFront
from server.client_protocol import ClientConnection
from server.clock import SystemClock
from server.config import ServerConfig
from server.data_tree import DataTree, mzxid_of, version_of
from server.ordering import OrderingPipeline
from server.paths import CONFIG
from server.replica import Replica
from server.seats import LeaderSeat
from server.stored_tree import StoredTree
from server.txns import CREATE, CREATE_SESSION, Txn, seal
from server.world import World
from tests.persistence.memory_disk import Killed, MemoryDisk
from tests.quorum.scripted_peers import ensemble_of

DATA = Path("/data")
LOGS = DATA / "version-2"
SERVER_ID = 5
MEMBER: dict[str, Any] = {"ensemble": ensemble_of()}
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def at_once(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    await trio.lowlevel.checkpoint()
    return fn(*args)


def opened(disk: MemoryDisk, log_offload: Offload = at_once, **settings: Any) -> Replica:
    config = ServerConfig(**{"data_dir": DATA, "preallocate_bytes": 0, "digest_enabled": False, **settings})
    world = World(
        disk=disk,
        log_offload=log_offload,
        snapshot_offload=at_once,
        random=Random(7),
        clock=SystemClock(),
        stopwatch=lambda: 0.0,
    )
    return Replica.open(config, world, server_id=SERVER_ID)


@asynccontextmanager
async def running(disk: MemoryDisk, **settings: Any) -> AsyncIterator[Replica]:
    """A replica with its log and snapshots being written."""
    replica = opened(disk, **settings)
    async with trio.open_nursery() as storage:
        storage.start_soon(replica.write_log)
        async with trio.open_nursery() as serving:
            serving.start_soon(replica.work_off)
            serving.start_soon(replica.take_snapshots)
            yield replica
            serving.cancel_scope.cancel()
        replica.writer.finish()


def creating(counter: int, epoch: int = 1, path: str = "") -> bytes:
    """The payload of a transaction that creates a node, /n<counter> unless named otherwise."""
    name = (path or f"/n{counter}").encode()
    zxid = make_zxid(epoch, counter)
    args = (name, b"\0\0\0\0", OPEN_ACL, 0, -1)
    return seal(Txn(1, counter, zxid, 1000, CREATE, args, None)).payload


class Upstream:
    """A leader that never answers."""

    def forward(self, session: int, cxid: int, op: int, body: bytes, ids: AuthIds | None) -> None: ...

    def revalidate(self, session: int, timeout_ms: int) -> None: ...

    def flush(self) -> None: ...


class QuorumOfOne:
    """A proposer that commits what its own log has, unless it is told not to."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.seat: LeaderSeat | None = None
        self.is_alone = False  # from now on nothing is committed any more

    def lead(self, epoch: int) -> None:
        self.replica.on_logged(self._logged)
        self.seat = self.replica.lead(epoch, self)

    def new_config(
        self, joining: str | None, leaving: str | None, members: str | None, version: int, zxid: int
    ) -> str:
        raise NotImplementedError

    def append(self, payload: bytes) -> None:
        self.replica.log(payload)

    def flush(self) -> None:
        self.replica.flush_log()

    def _logged(self, count: int) -> None:
        if self.seat is not None and not self.is_alone:
            self.seat.committed(count)


async def logged(replica: Replica, *payloads: bytes, applied: int | None = None) -> None:
    """Log these, and apply the first so many of them, or all."""
    for payload in payloads:
        replica.log(payload)
    await replica.log_drained()
    for payload in payloads[:applied]:
        replica.apply(payload)


class Handle:
    """Of a client that a test speaks for."""

    def wants_flush(self) -> None: ...

    def resume_reading(self) -> None: ...


def connected(replica: Replica) -> ClientConnection:
    connection = ClientConnection(replica.pipeline, Handle(), "127.0.0.1", 1)
    replica.begin_batch()
    connection.received(pack(">iiqiqi16x?", 45, 0, 0, 10_000, 0, 16, False))
    replica.end_batch()
    return connection


def names(disk: MemoryDisk, kind: str) -> list[str]:
    return sorted(name for name in disk.names(LOGS) if name.startswith(kind))


# -- roles


async def test_a_leader_begins_above_its_epoch() -> None:
    """Which counts as processed; its transactions have the next zxids, and last."""
    disk = MemoryDisk()
    async with running(disk) as replica:
        QuorumOfOne(replica).lead(3)
        assert replica.last_zxid == make_zxid(3, 0)
        client = connected(replica)
        await replica.log_drained()
        assert client.session_id >> 56 == SERVER_ID
        assert replica.last_zxid == make_zxid(3, 1)
        assert [zxid for zxid, _ in replica.committed_log] == [make_zxid(3, 1)]
    again = opened(disk)
    assert again.last_zxid == make_zxid(3, 1)
    assert [zxid for zxid, _ in again.committed_log] == [make_zxid(3, 1)]


async def test_who_retires_lets_clients_go_and_applies_what_was_logged() -> None:
    """Committed or not: it is what the next vote stands for."""
    async with running(MemoryDisk()) as replica:
        leader = QuorumOfOne(replica)
        leader.lead(1)
        client = connected(replica)
        await replica.log_drained()
        leader.is_alone = True
        other = connected(replica)
        await replica.retire()
        assert replica.last_zxid == make_zxid(1, 2)
        assert client.session_id in replica.tree.session_timeouts_ms
        assert other.session_id in replica.tree.session_timeouts_ms
        assert len(replica.committed_log) == 2
        assert not replica.pipeline.is_serving


async def test_a_learner_that_retires_applies_what_it_acknowledged() -> None:
    """Once, also if some of it was committed before."""
    async with running(MemoryDisk()) as replica:
        seat = replica.learn(Upstream(), is_observer=False)
        for counter in (1, 2, 3):
            seat.proposed(creating(counter))
            replica.log(creating(counter))
        seat.committed(1)
        assert replica.last_zxid == make_zxid(1, 1)
        await replica.retire()
        assert replica.last_zxid == make_zxid(1, 3)
        assert {b"/n1", b"/n2", b"/n3"} <= replica.tree.bodies.keys()
        assert [payload for _, payload in replica.committed_log] == [creating(n) for n in (1, 2, 3)]
        await replica.retire()
        assert len(replica.committed_log) == 3


async def test_ids_of_sessions_go_on_from_role_to_role() -> None:
    """Nobody gets an id that somebody had."""
    async with running(MemoryDisk()) as replica:
        given_out = []
        for epoch in (1, 2, 3):
            QuorumOfOne(replica).lead(epoch)
            given_out += [connected(replica).session_id for _ in range(3)]
            await replica.retire()
        assert given_out == sorted(set(given_out))


async def test_a_role_that_ends_reaps_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one looks for itself."""
    async with running(MemoryDisk()) as replica:
        QuorumOfOne(replica).lead(3)
        leading = replica.pipeline
        assert isinstance(leading, OrderingPipeline)
        reaped: list[bytes] = []

        def deposed_meanwhile(_: OrderingPipeline, never_used_ms_max: int) -> Iterator[bytes | None]:
            yield b"/first"
            yield None
            replica.learn(Upstream(), is_observer=False)
            yield b"/second"

        monkeypatch.setattr(OrderingPipeline, "expired_containers", deposed_meanwhile)
        monkeypatch.setattr(OrderingPipeline, "submit_delete_container", lambda _, path: reaped.append(path))
        await replica._reap_containers(leading)
        assert reaped == [b"/first"]


async def test_known_sessions_get_their_whole_timeout_from_a_new_leader() -> None:
    """Whenever they were last heard."""
    async with running(MemoryDisk()) as replica:
        created = seal(Txn(77, 0, make_zxid(1, 1), 1000, CREATE_SESSION, (5000,), None)).payload
        await logged(replica, created)
        QuorumOfOne(replica).lead(2)
        session = replica.pipeline.sessions.by_id[77]
        assert session.timeout_ms == 5000
        assert session.heard_ms >= replica.pipeline.now_ms - 1000


async def test_a_front_survives_a_change_of_roles() -> None:
    """Its listener stays open: old connections are closed, new ones are served as the new role has it."""
    async with running(MemoryDisk()) as replica, trio.open_nursery() as nursery:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        front = PlainFront(replica.pipeline, FrontLimits(), SystemClock())
        replica.fronts.append(front)
        nursery.start_soon(front.run, listener)
        port = listener.getsockname()[1]
        hello = pack(">iiqiqi16x?", 45, 0, 0, 10_000, 0, 16, False)

        async with await trio.open_tcp_stream("127.0.0.1", port) as refused:
            await refused.send_all(hello)
            assert await refused.receive_some() == b""
        QuorumOfOne(replica).lead(1)
        async with await trio.open_tcp_stream("127.0.0.1", port) as client:
            await client.send_all(hello)
            assert unpack_from(">q", await client.receive_some(), 12)[0] >> 56 == SERVER_ID
            await replica.retire()
            assert await client.receive_some() == b""
        QuorumOfOne(replica).lead(2)
        async with await trio.open_tcp_stream("127.0.0.1", port) as client:
            await client.send_all(hello)
            assert unpack_from(">q", await client.receive_some(), 12)[0] >> 56 == SERVER_ID
        replica.fronts.clear()
        nursery.cancel_scope.cancel()


# -- truncation


async def test_a_truncated_history_is_as_if_nothing_more_had_been() -> None:
    """In memory, and on disk; what follows is logged behind it."""
    disk = MemoryDisk()
    async with running(disk) as replica:
        await logged(replica, *(creating(n) for n in (1, 2, 3, 4)))
        await replica.truncate(make_zxid(1, 2))
        assert replica.last_zxid == make_zxid(1, 2)
        assert b"/n3" not in replica.tree.bodies
        assert [zxid for zxid, _ in replica.committed_log] == [make_zxid(1, 1), make_zxid(1, 2)]
        await logged(replica, creating(1, epoch=2, path="/new"))
    again = opened(disk)
    assert again.last_zxid == make_zxid(2, 1)
    assert {b"/n1", b"/n2", b"/new"} <= again.tree.bodies.keys()
    assert b"/n3" not in again.tree.bodies


async def test_snapshots_of_what_is_cut_off_go_too() -> None:
    """They would bring it back."""
    disk = MemoryDisk()
    async with running(disk) as replica:
        await logged(replica, *(creating(n) for n in (1, 2, 3)))
        await replica.take_snapshot()
        await replica.truncate(make_zxid(1, 1))
        assert names(disk, "snapshot") == ["snapshot.0"]
    assert opened(disk).last_zxid == make_zxid(1, 1)


@pytest.mark.parametrize("zxid", [make_zxid(1, 9), make_zxid(2, 0)])
async def test_only_a_zxid_that_is_there_can_become_the_last(zxid: int) -> None:
    """Otherwise everything stays as it is."""
    disk = MemoryDisk()
    async with running(disk) as replica:
        await logged(replica, *(creating(n) for n in (1, 2)))
        with pytest.raises(StorageError, match="not in the log"):
            await replica.truncate(zxid)
        assert replica.last_zxid == make_zxid(1, 2)
    assert opened(disk).last_zxid == make_zxid(1, 2)


@pytest.mark.parametrize("last", [4, 5])
async def test_nothing_is_cut_off_where_the_rest_could_not_be_loaded(last: int) -> None:
    """An earlier log was put aside, since it ended before a snapshot that would go now."""
    disk = MemoryDisk()
    async with running(disk) as replica:
        await logged(replica, *(creating(n) for n in (1, 2, 3)))
        replica.writer.roll()
        await logged(replica, *(creating(n) for n in (4, 5, 6)))
        await replica.take_snapshot()
        disk.rename(LOGS / log_name(make_zxid(1, 1)), LOGS / "aside-log.100000001")
        before = disk.names(LOGS)
        with pytest.raises(StorageError, match="hole"):
            await replica.truncate(make_zxid(1, last))
        assert disk.names(LOGS) == before
    assert opened(disk).last_zxid == make_zxid(1, 6)


# -- a leader's tree


def tree_of(*payloads: bytes) -> StoredTree:
    stored = StoredTree(DataTree(), digests=False)
    for payload in payloads:
        stored.replay(payload)
    return stored


async def leaders_stream(*payloads: bytes) -> bytes:
    """What a leader with this history would send."""
    async with running(MemoryDisk()) as leader:
        for payload in payloads:
            leader.apply(payload)
        return b"".join(leader.snapshot_stream())


async def restore(replica: Replica, stream: bytes, zxid: int) -> None:
    restoring = await replica.begin_restore()
    assert restoring.feed(stream[:-5]) is None
    assert restoring.feed(stream[-5:] + b"more") == b"more"
    restoring.finish(zxid)


async def test_a_leaders_tree_becomes_our_history() -> None:
    """What we had, before it or beyond it, is gone for good."""
    disk = MemoryDisk()
    theirs = [creating(n, path=f"/theirs{n}") for n in (1, 2, 3)]
    stream = await leaders_stream(*theirs)
    async with running(disk) as replica:
        await logged(replica, *(creating(n) for n in (1, 2, 3, 4, 5)))
        await replica.take_snapshot()
        await restore(replica, stream, make_zxid(1, 3))
        await replica.adopt_snapshot()
        assert replica.last_zxid == make_zxid(1, 3)
        assert replica.tree.bodies.keys() == tree_of(*theirs).tree.bodies.keys()
        assert names(disk, "snapshot") == ["snapshot.100000003"]
        assert names(disk, "log") == []
        await logged(replica, creating(4, path="/next"))
        await replica.retire()
        assert replica.last_zxid == make_zxid(1, 4)
    again = opened(disk)
    assert again.tree.bodies.keys() == tree_of(*theirs, creating(4, path="/next")).tree.bodies.keys()


async def test_what_leaves_a_hole_before_a_leaders_tree_goes() -> None:
    """A learner must not be sent from a log that lacks something."""
    disk = MemoryDisk()
    stream = await leaders_stream(creating(1))
    async with running(disk) as replica:
        await logged(replica, creating(1), creating(2))
        await restore(replica, stream, make_zxid(7, 9))
        await replica.adopt_snapshot()
        assert names(disk, "snapshot") == ["snapshot.700000009"]
        assert names(disk, "log") == []
        assert replica.logged_after(make_zxid(1, 1)) is None
        await logged(replica, creating(10, epoch=7))
    assert opened(disk).last_zxid == make_zxid(7, 10)


async def test_a_damaged_tree_from_a_leader_is_noticed_once_it_is_ours() -> None:
    """What comes behind the stream until NEWLEADER may be in it; what comes later is not."""
    wrong = Txn(1, 7, make_zxid(1, 2), 1000, CREATE, (b"/x", b"\0\0\0\0", OPEN_ACL, 0, -1), 12345)
    stream = await leaders_stream(creating(1))
    async with running(MemoryDisk(), digest_enabled=True) as replica:
        await restore(replica, stream, make_zxid(1, 1))
        replica.apply(seal(wrong).payload)
        assert replica.digest_mismatches == 0
        await replica.adopt_snapshot()
        wrong.zxid += 1
        replica.apply(seal(wrong).payload)
        assert replica.digest_mismatches == 1


async def test_wrong_digests_are_counted_wherever_they_are_met() -> None:
    """At the start, and on the way to a role; the server goes on."""
    wrong = Txn(1, 7, make_zxid(1, 1), 1000, CREATE, (b"/x", b"\0\0\0\0", OPEN_ACL, 0, -1), 12345)
    disk = MemoryDisk()
    async with running(disk, digest_enabled=True) as replica:
        await logged(replica, seal(wrong).payload)
    async with running(disk, digest_enabled=True) as replica:
        stats = replica.state.stats
        assert (replica.last_zxid, stats.digest_mismatches) == (wrong.zxid, 1)
        wrong.zxid += 1
        replica.apply(seal(wrong).payload)
        replica.learn(Upstream(), is_observer=False)
        assert stats.digest_mismatches == 2


def is_gapless_from(replica: Replica, zxid: int) -> bool:
    """What a learner that has `zxid` would be sent has no gap, however it was logged."""
    payloads = replica.logged_after(zxid)
    logged = [] if payloads is None else [zxid_of(payload) for payload in payloads]
    return not logged or logged == [make_zxid(1, 1), make_zxid(1, 2)]


async def test_a_crash_while_a_leaders_tree_is_adopted_leaves_no_log_with_a_hole() -> None:
    """Between the name of the snapshot and the removal of the old log there are both. What is logged next is
    the first transaction of an epoch, which may follow any other."""
    stream = await leaders_stream(creating(1), creating(2), creating(3))
    adopted = 0
    for budget in range(10_000):
        disk = MemoryDisk()
        async with running(disk) as replica:
            await logged(replica, creating(1), creating(2))
        try:
            async with running(disk) as replica:
                await restore(replica, stream, make_zxid(7, 0))
                disk.budget = budget
                await replica.adopt_snapshot()
                break
        except* Killed:
            disk.revive()
        async with running(disk) as replica:
            assert replica.last_zxid in (make_zxid(1, 2), make_zxid(7, 0))
            if replica.last_zxid == make_zxid(7, 0):
                adopted += 1
                await logged(replica, creating(1, epoch=7))
            assert is_gapless_from(replica, make_zxid(1, 1))
        assert is_gapless_from(opened(disk), make_zxid(1, 1))
    assert adopted > 1


async def test_who_was_told_to_fetch_everything_votes_once_it_has() -> None:
    """Not before: it may have acknowledged what it no longer has. Nor if it is started in between, or has not
    entered the epoch of what it has."""
    disk = MemoryDisk()
    stream = await leaders_stream(creating(1), creating(2), creating(3))
    async with running(disk, **MEMBER) as replica:
        await logged(replica, creating(1), creating(2))
    disk.put(DATA / "fetch-from-leader", b"")
    disk.put(DATA / "version-2" / "acceptedEpoch", b"1")
    for _ in range(2):
        async with running(disk, **MEMBER) as replica:
            assert replica.last_zxid == -1
            await replica.retire()
            assert replica.last_zxid == -1
    for is_epoch_entered in (False, True):
        async with running(disk, **MEMBER) as replica:
            assert replica.last_zxid == -1
            await restore(replica, stream, make_zxid(1, 3))
            await replica.adopt_snapshot()
            assert replica.last_zxid == make_zxid(1, 3)
            if is_epoch_entered:
                await replica.fetched()
    assert not disk.exists(DATA / "fetch-from-leader")
    assert opened(disk, **MEMBER).last_zxid == make_zxid(1, 3)


class KilledBetweenOperations(MemoryDisk):
    """Its budget is one of operations, however much they write."""

    def _act(self, operation: str, cost: int = 1) -> int:
        return cost if super()._act(operation, min(cost, 1)) else 0


@pytest.mark.parametrize("is_power_lost", [False, True])
async def test_a_crash_while_everything_is_fetched_leaves_no_vote_without_the_epoch(
    is_power_lost: bool,
) -> None:
    """Wherever it comes, on a disk that has been given nothing but the promise."""
    stream = await leaders_stream(creating(1), creating(2))
    crashes = 0
    for budget in range(1000):
        disk = KilledBetweenOperations()
        disk.put(DATA / "fetch-from-leader", b"")
        disk.put(LOGS / "acceptedEpoch", b"7\n")
        disk.put(LOGS / log_name(1), b"damaged")
        disk.budget = budget
        try:
            async with running(disk, **MEMBER) as replica:
                epochs = EpochKeeper(disk, LOGS, replica.last_zxid)
                await restore(replica, stream, make_zxid(7, 0))
                await replica.adopt_snapshot()
                epochs.enter(7)
                await replica.fetched()
                break
        except* Killed:
            crashes += 1
            disk.lose_power(Random(budget)) if is_power_lost else disk.revive()
        again = opened(disk, **MEMBER)
        epochs = EpochKeeper(disk, LOGS, again.last_zxid)
        assert epochs.accepted == 7
        if again.last_zxid != -1:
            assert (again.last_zxid, epochs.current) == (make_zxid(7, 0), 7)
            assert not disk.exists(DATA / "fetch-from-leader")
    assert crashes > 12
    disk.revive()
    assert (opened(disk, **MEMBER).last_zxid, epochs.current) == (make_zxid(7, 0), 7)


class HeldLog:
    """An Offload whose work is done when the test says so."""

    def __init__(self) -> None:
        self.may_go_on = trio.Event()

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        with trio.CancelScope(shield=True):
            await self.may_go_on.wait()
        return fn(*args)


async def test_a_snapshot_gets_its_name_when_all_of_it_is_logged(nursery: trio.Nursery) -> None:
    """The others' acks may have committed what our own disk is still to log; in a crash the snapshot would
    be ahead of the log."""
    disk, held = MemoryDisk(), HeldLog()
    async with running(disk, log_offload=held) as replica:
        replica.log(creating(1))
        replica.flush_log()
        replica.apply(creating(1))
        nursery.start_soon(replica.take_snapshot)
        await trio.testing.wait_all_tasks_blocked()
        assert names(disk, "snapshot") == ["snapshot.0", "snapshot.100000001.tmp"]
        held.may_go_on.set()
        await trio.testing.wait_all_tasks_blocked()
        assert names(disk, "snapshot") == ["snapshot.0", "snapshot.100000001"]


async def test_who_becomes_a_voter_has_its_history_on_disk() -> None:
    """An observer may do without a log; its vote would stand for what it forgets in a crash."""
    disk = MemoryDisk()
    async with running(disk) as replica:
        await logged(replica, creating(1))
        for counter in (2, 3):
            replica.leave_unlogged()
            replica.apply(creating(counter))
        await replica.make_durable()
        await logged(replica, creating(4))

    assert opened(disk).last_zxid == make_zxid(1, 4)
    assert names(disk, "log") == [log_name(make_zxid(1, 4))]


async def test_a_tree_that_never_came_whole_is_forgotten() -> None:
    """What is on disk still counts, and is what we vote for."""
    disk = MemoryDisk()
    stream = await leaders_stream(creating(1, path="/theirs"))
    async with running(disk) as replica:
        await logged(replica, creating(1), creating(2))
        restoring = await replica.begin_restore()
        restoring.feed(stream[: len(stream) // 2])
        await replica.retire()
        assert replica.last_zxid == make_zxid(1, 2)
        assert b"/n2" in replica.tree.bodies
        await restore(replica, stream, make_zxid(7, 9))  # whole, but never saved
        await replica.retire()
        assert replica.last_zxid == make_zxid(1, 2)
        assert b"/theirs" not in replica.tree.bodies


async def test_a_snapshot_of_the_last_role_ends_before_a_leaders_tree_comes() -> None:
    """It would be saved as our history, with what the tree has while it is being filled."""
    disk = MemoryDisk()
    stream = await leaders_stream(creating(1, path="/theirs"))
    is_disk_free = trio.Event()

    async def when_free(fn: Callable[[*Ts], T], *args: *Ts) -> T:
        await is_disk_free.wait()
        return fn(*args)

    async def interrupted() -> None:
        restoring = await replica.begin_restore()
        restoring.feed(stream[: len(stream) // 2])

    async with running(disk, snap_count=2) as replica, trio.open_nursery() as nursery:
        replica.world = attrs.evolve(replica.world, snapshot_offload=when_free)
        replica.learn(Upstream(), is_observer=False)
        await logged(replica, *(creating(n) for n in (1, 2, 3)))
        await trio.testing.wait_all_tasks_blocked()  # a snapshot has begun
        await replica.retire()
        nursery.start_soon(interrupted)
        await trio.testing.wait_all_tasks_blocked()
        is_disk_free.set()
        await trio.testing.wait_all_tasks_blocked()

    again = opened(disk)
    assert again.last_zxid == make_zxid(1, 3)
    assert {b"/n1", b"/n2", b"/n3"} <= again.tree.bodies.keys()


async def test_a_stream_without_its_signature_is_refused() -> None:
    """It is not what a leader sends."""
    stream = await leaders_stream()
    async with running(MemoryDisk()) as replica:
        with pytest.raises(CorruptSnapshot, match="signature"):
            (await replica.begin_restore()).feed(stream[:-1] + b"!")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 60)), st.binary(max_size=20))
def test_a_stream_may_be_cut_anywhere(sizes: list[int], behind: bytes) -> None:
    """The tree is the same, and nothing of what lies behind it is lost."""
    source = tree_of(*(creating(n) for n in range(1, 20)))
    replica = opened(MemoryDisk())
    whole = opened(MemoryDisk())
    for n in range(1, 20):
        whole.apply(creating(n))
    stream = b"".join(whole.snapshot_stream()) + behind
    restoring, rest, at = trio.run(replica.begin_restore), None, 0
    for size in [*sizes, len(stream)]:
        if rest is None:
            rest = restoring.feed(stream[at : at + size])
            at += size
    assert rest is not None
    assert rest + stream[at:] == behind
    restoring.finish(make_zxid(1, 19))
    assert replica.tree.bodies == source.tree.bodies
    assert replica.tree.creates == source.tree.creates


async def test_two_snapshots_at_a_time_number_their_acls_each_for_itself() -> None:
    """A node must not get another one's ACL."""
    async with running(MemoryDisk()) as replica:
        QuorumOfOne(replica).lead(1)
        client = connected(replica)
        await replica.log_drained()

        async def create_as(path: str, user: str) -> None:
            request = CreateRequest(path, b"", (Acl(31, Id("digest", user)),), CreateMode.PERSISTENT)
            body = pack(">ii", 1, OpCode.CREATE) + encode(request)
            replica.begin_batch()
            client.received(pack(">i", len(body)) + body)
            replica.end_batch()
            await replica.log_drained()

        await create_as("/m", "m:x")
        first = replica.snapshot_stream()
        pieces = [next(first), next(first)]  # up to the ACLs
        await create_as("/a", "a:x")
        b"".join(replica.snapshot_stream())
        stream = b"".join([*pieces, *first])
    other = opened(MemoryDisk())
    restoring = await other.begin_restore()
    assert restoring.feed(stream) == b""
    restoring.finish(1)
    assert other.tree.acls[b"/m"] == replica.tree.acls[b"/m"]
    assert other.tree.acls.get(b"/a") != other.tree.acls[b"/m"]


# -- the log, for learners


async def test_the_log_is_read_from_the_file_that_can_hold_the_zxid() -> None:
    """As long as the files behind it are small beside the newest snapshot."""
    disk = MemoryDisk()
    async with running(disk, snapshot_size_factor=0.5) as replica:
        await logged(replica, creating(1), creating(2))
        replica.writer.roll()
        await logged(replica, creating(3), creating(4))
        assert names(disk, "log") == [log_name(make_zxid(1, 1)), log_name(make_zxid(1, 3))]

        def read(zxid: int) -> list[int] | None:
            payloads = replica.logged_after(zxid)
            return None if payloads is None else [zxid_of(payload) & 0xFF for payload in payloads]

        assert read(make_zxid(1, 4)) == [3, 4]
        assert read(make_zxid(0, 9)) is None
        second_bytes = disk.size(LOGS / log_name(make_zxid(1, 3)))
        snapshot_bytes = disk.size(LOGS / "snapshot.0")
        assert second_bytes <= 0.5 * snapshot_bytes
        assert read(make_zxid(1, 2)) == [1, 2, 3, 4]
        await logged(replica, *(creating(n) for n in range(5, 20)))
        assert read(make_zxid(1, 2)) is None
        assert read(make_zxid(1, 4)) is not None


async def test_nobody_is_brought_up_to_date_across_a_hole_that_an_epoch_hides() -> None:
    """The first transaction of an epoch may follow any other. Before the snapshot nothing proves that it
    followed the one that stands before it in the log."""
    disk = MemoryDisk()
    async with running(disk) as replica:
        await logged(replica, creating(1), creating(2), creating(1, epoch=3, path="/m"))
        await replica.take_snapshot()
        await logged(replica, creating(2, epoch=3, path="/n"))
    async with running(disk) as replica:
        assert replica.logged_after(make_zxid(1, 2)) is None
        assert replica.logged_after(make_zxid(3, 1)) is not None


# -- the configuration node


async def test_the_configuration_is_ours_whatever_the_tree_says() -> None:
    """Written without a transaction, and again after each load and after a leader's tree."""
    disk = MemoryDisk()
    stream = await leaders_stream(creating(1))
    async with running(disk) as replica:
        replica.set_config("server.1=here", 0x100000000)
        zxid = replica.last_zxid

        def shown() -> tuple[bytes, int, int]:
            body = replica.tree.bodies[CONFIG]
            return body[4:-68], version_of(body), mzxid_of(body)

        ours = (b"server.1=here", -1, 0x100000000)
        assert shown() == ours
        assert replica.last_zxid == zxid
        await replica.reload()
        assert shown() == ours
        await restore(replica, stream, make_zxid(1, 1))
        assert shown() == ours
        del replica.tree.bodies[CONFIG]
        replica.set_config("server.1=there", 1)
        assert shown() == (b"server.1=there", -1, 1)


async def test_an_empty_database_that_should_not_be_votes_for_nothing() -> None:
    """Until it has been given something."""
    disk = MemoryDisk()
    async with running(disk, db_autocreate=False) as replica:
        assert replica.last_zxid == -1
        await restore(replica, await leaders_stream(), make_zxid(1, 0))
        await replica.adopt_snapshot()
        assert replica.last_zxid == make_zxid(1, 0)
