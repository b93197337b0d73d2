"""A standalone server on a memory disk in virtual time: what happens beside serving requests."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from struct import pack, unpack_from
from typing import Any, TypeVar, TypeVarTuple

import pytest
import trio
from trio.testing import MockClock

from jute.client_records import (
    Acl,
    ConnectRequest,
    CreateRequest,
    CreateTtlRequest,
    DeleteRequest,
    Id,
    SetDataRequest,
)
from jute.opcodes import CreateMode, OpCode
from jute.record import encode
from persistence.log_writer import OFFLOADED_IN_A_ROW_MIN
from persistence.offload import Begin
from server import slices
from server.client_protocol import ClientConnection
from server.config import ServerConfig
from server.pipeline import Pipeline
from server.standalone import Standalone
from server.world import World
from tests.persistence.memory_disk import MemoryDisk

OPEN = (Acl(31, Id("world", "anyone")),)
DATA_DIR = Path("/data")
START_MS = 1_700_000_000_000
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class VirtualClock:
    def __init__(self, start_ms: int) -> None:
        self._start_ms = start_ms

    def now_ms(self) -> int:
        return round(trio.current_time() * 1000)

    def wall_ms(self) -> int:
        return self._start_ms + self.now_ms()


async def at_once(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    await trio.lowlevel.checkpoint()
    return fn(*args)


class Talk:
    """One client and the handle of its conversation: everything sent is answered once it is durable."""

    def __init__(self, server: Standalone) -> None:
        self.server = server
        self.connection = ClientConnection(server.pipeline, self, "127.0.0.1", 40_000)

    def wants_flush(self) -> None: ...

    def resume_reading(self) -> None: ...

    async def _answered(self, body: bytes) -> bytes:
        clock = self.server.world.clock
        self.server.pipeline.begin_batch(clock.now_ms(), clock.wall_ms())
        self.connection.received(pack(">i", len(body)) + body)
        self.server.pipeline.end_batch(clock.now_ms())
        while not self.connection.out:
            await trio.lowlevel.checkpoint()
        answer = b"".join(self.connection.out)
        self.connection.out.clear()
        return answer

    async def connect(self, timeout_ms: int) -> int:
        answer = await self._answered(encode(ConnectRequest(0, 0, timeout_ms, 0, bytes(16))) + b"\x00")
        session_id: int = unpack_from(">q", answer, 12)[0]
        return session_id

    async def ask(self, op: OpCode, request: object) -> int:
        """The error code of the reply."""
        answer = await self._answered(pack(">ii", 1, op) + encode(request))
        err: int = unpack_from(">i", answer, 16)[0]
        return err


@asynccontextmanager
async def running(
    disk: MemoryDisk,
    *,
    start_ms: int = START_MS,
    clock: VirtualClock | None = None,
    log_begin: Begin | None = None,
    **settings: Any,
) -> AsyncIterator[Standalone]:
    """A server with all its tasks but no sockets."""
    config = ServerConfig(data_dir=DATA_DIR, tick_ms=2000, preallocate_bytes=65536, **settings)
    clock = clock or VirtualClock(start_ms)
    world = World(
        disk=disk,
        log_offload=at_once,
        log_begin=log_begin,
        snapshot_offload=at_once,
        random=Random(7),
        clock=clock,
    )
    server = Standalone.start(config, world)
    async with trio.open_nursery() as storage:
        storage.start_soon(server.write_log)
        async with trio.open_nursery() as serving:
            for task in (
                server.work_off,
                server.tick,
                server.take_snapshots,
                server.reap_containers,
                server.purge_old_files,
            ):
                serving.start_soon(task)
            yield server
            serving.cancel_scope.cancel()
        server.writer.finish()


def create(path: str, flags: CreateMode = CreateMode.PERSISTENT) -> CreateRequest:
    return CreateRequest(path, b"data", OPEN, flags)


async def test_a_silent_session_expires_with_its_nodes(autojump_clock: MockClock) -> None:
    """Up to one tick after its timeout, never before it."""
    async with running(MemoryDisk()) as server:
        await trio.sleep(0.5)
        client = Talk(server)
        await client.connect(4000)
        assert await client.ask(OpCode.CREATE, create("/e", CreateMode.EPHEMERAL)) == 0
        await trio.sleep(4)
        assert b"/e" in server.pipeline.tree.bodies
        await trio.sleep(2)
        assert b"/e" not in server.pipeline.tree.bodies
        assert not server.pipeline.sessions.by_id


class DoneAtOnce:
    """What a disk does that is quick (persistence.offload.Begun)."""

    is_done = True

    def __init__(self, seconds: float, fn: Callable[[], None]) -> None:
        fn()

    async def finished(self) -> None: ...

    def check(self) -> None: ...


class StepClock(VirtualClock):
    """Notes at each look how far the turn of the loop has come: whoever begins one looks first."""

    def __init__(self) -> None:
        super().__init__(START_MS)
        self.pipeline: Pipeline | None = None
        self.steps: list[int] = []

    def now_ms(self) -> int:
        if self.pipeline is not None:
            self.steps.append(self.pipeline.steps)
        return super().now_ms()


async def test_a_client_that_sends_write_upon_write_has_a_slice_at_a_time(autojump_clock: MockClock) -> None:
    """Each batch that is durable at once lets it go on with the next: others have their turn in between."""
    clock = StepClock()
    async with running(
        MemoryDisk(), clock=clock, log_begin=DoneAtOnce, global_outstanding_limit=50
    ) as server:
        client = Talk(server)
        await client.connect(4000)
        for number in range(OFFLOADED_IN_A_ROW_MIN + 1):
            assert await client.ask(OpCode.CREATE, create(f"/{number}")) == 0
        body = pack(">ii", 1, OpCode.SET_DATA) + encode(SetDataRequest("/0", b"", -1))
        pipeline, commits = server.pipeline, pipeline_commits(server)
        clock.pipeline = pipeline
        pipeline.begin_batch(clock.now_ms(), clock.wall_ms())
        client.connection.received((pack(">i", len(body)) + body) * 5000)
        pipeline.end_batch(clock.now_ms())
        assert pipeline_commits(server) - commits < 1000
        turns = 0
        while pipeline_commits(server) - commits < 5000:
            await trio.lowlevel.checkpoint()
            turns += 1
        assert len(client.connection.out) == 5000
        assert turns > 5000 * (slices.FRAME_STEPS + slices.WRITE_STEPS) // slices.STEPS_PER_SLICE
        assert max(clock.steps) <= 2 * slices.STEPS_PER_SLICE


def pipeline_commits(server: Standalone) -> int:
    return server.pipeline.stats.commits


@pytest.mark.parametrize("is_flushing", [False, True])
async def test_what_a_flush_brings_about_counts_as_work_of_its_turn(is_flushing: bool) -> None:
    async with running(MemoryDisk()) as server:
        server.pipeline.steps = 1000
        server.writer.is_flushing = is_flushing
        server._durable(0)
        assert server.pipeline.steps == (1000 if is_flushing else 0)
        server.writer.is_flushing = False


class StoppedAgainAndAgain(VirtualClock):
    """Of a process that is stopped for longer than a tick after every look at the clock."""

    def __init__(self) -> None:
        super().__init__(START_MS)
        self._stopped_ms = 0

    def now_ms(self) -> int:
        self._stopped_ms += 2500
        return super().now_ms() + self._stopped_ms


async def test_a_process_may_be_stopped_at_any_moment(autojump_clock: MockClock) -> None:
    """Between two looks at the clock more than a tick may pass; ticks go on."""
    clock = StoppedAgainAndAgain()
    async with running(MemoryDisk(), clock=clock) as server:
        await Talk(server).connect(4000)
        await trio.sleep(60)
        assert not server.pipeline.sessions.by_id


async def test_sessions_and_their_nodes_survive_a_restart(autojump_clock: MockClock) -> None:
    """With a whole timeout ahead of them; then they expire like others."""
    disk = MemoryDisk()
    async with running(disk) as server:
        client = Talk(server)
        session_id = await client.connect(4000)
        await client.ask(OpCode.CREATE, create("/e", CreateMode.EPHEMERAL))
    await trio.sleep(0.001)
    async with running(disk) as server:
        assert server.pipeline.sessions.is_alive(session_id)
        assert b"/e" in server.pipeline.tree.bodies
        await trio.sleep(6.1)
        assert b"/e" not in server.pipeline.tree.bodies
        assert server.pipeline.sessions.new_id() > session_id


async def test_a_clock_set_back_does_not_repeat_the_last_session_ids(autojump_clock: MockClock) -> None:
    """The client of one that is gone would be given the new one: its password is a function of the id."""
    disk = MemoryDisk()
    async with running(disk) as server:
        kept, gone = await Talk(server).connect(40_000), await Talk(server).connect(4000)
        await trio.sleep(6.1)
        assert list(server.pipeline.sessions.by_id) == [kept]
    async with running(disk, start_ms=START_MS - 60_000) as server:
        assert await Talk(server).connect(40_000) not in (kept, gone)


async def test_a_session_in_use_keeps_its_id_to_itself(autojump_clock: MockClock) -> None:
    """Even where a clock set back comes to the millisecond in which it was given out."""
    disk = MemoryDisk()
    async with running(disk) as server:
        living = [await Talk(server).connect(40_000) for _ in range(2)]
        await trio.sleep(1)
    async with running(disk, start_ms=START_MS - 1000) as server:
        assert server.pipeline.sessions.next_id == living[0]
        assert await Talk(server).connect(40_000) == living[1] + 1


async def test_containers_and_ttl_nodes_are_reaped(autojump_clock: MockClock) -> None:
    """A container once it has lost its last child, a TTL node once it is old; nothing else."""
    async with running(MemoryDisk(), extended_types_enabled=True, container_check_ms=1000) as server:
        client = Talk(server)
        await client.connect(40_000)
        bodies = server.pipeline.tree.bodies
        await client.ask(OpCode.CREATE_CONTAINER, create("/used", CreateMode.CONTAINER))
        await client.ask(OpCode.CREATE_CONTAINER, create("/unused", CreateMode.CONTAINER))
        await client.ask(OpCode.CREATE, create("/used/child"))
        ttl = CreateTtlRequest("/ttl", b"", OPEN, CreateMode.PERSISTENT_WITH_TTL, 5000)
        await client.ask(OpCode.CREATE_TTL, ttl)
        await trio.sleep(3)
        assert {b"/used", b"/unused", b"/ttl"} <= bodies.keys()
        await client.ask(OpCode.DELETE, DeleteRequest("/used/child", -1))
        await trio.sleep(3.5)
        assert b"/used" not in bodies
        assert b"/ttl" not in bodies
        assert b"/unused" in bodies


async def test_snapshots_come_with_the_transactions_and_old_files_go(autojump_clock: MockClock) -> None:
    """After at least half of snapCount transactions a snapshot, and never more than the purge retains."""
    disk = MemoryDisk()
    async with running(disk, snap_count=10, autopurge_interval_hours=1) as server:
        client = Talk(server)
        await client.connect(40_000)
        for number in range(100):
            await client.ask(OpCode.CREATE, create(f"/{number}"))
            await trio.sleep(0.01)
        assert server.pipeline.stats.snapshots >= 9
        await client.ask(OpCode.CREATE, create("/last"))
        await trio.sleep(3601)
        names = disk.names(DATA_DIR / "version-2")
        assert sum(name.startswith("snapshot.") for name in names) == 3
    async with running(disk) as server:
        assert b"/last" in server.pipeline.tree.bodies
        assert b"/0" in server.pipeline.tree.bodies


async def test_a_failing_log_ends_the_server(autojump_clock: MockClock) -> None:
    """Nothing more is acknowledged, and the error comes out."""
    disk = MemoryDisk()

    async def write_to_a_broken_disk() -> None:
        async with running(disk) as server:
            client = Talk(server)
            await client.connect(40_000)
            disk.faults["write_at"] = OSError(5, "Input/output error")
            await client.ask(OpCode.CREATE, create("/a"))

    with pytest.raises(ExceptionGroup) as failure:
        await write_to_a_broken_disk()
    assert failure.group_contains(OSError, match="Input/output error")
