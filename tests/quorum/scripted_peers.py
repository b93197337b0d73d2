"""Leaders and learners that say what a test tells them to, and the real one they talk with.

Time stands still unless a test lets it pass; after everything that is said, all has happened that can.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import attrs
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from jute.quorum_records import PacketType
from jute.zxid import counter_of, epoch_of
from persistence.epoch_files import ACCEPTED_EPOCH, CURRENT_EPOCH, read_epoch, write_epoch
from quorum.epochs import EpochKeeper
from quorum.leader import Leader
from quorum.learner import Doubts, Learning
from quorum.membership import Membership
from quorum.packets import (
    ACK,
    ACKEPOCH,
    FOLLOWERINFO,
    LEADERINFO,
    NEWLEADER,
    OBSERVERINFO,
    int_data,
    learner_info,
    packet,
    read_packets,
)
from quorum.replica import Replica
from quorum.server_lines import Ensemble, config_text, read_ensemble
from quorum.settings import PeerSettings
from tests.persistence.fake_tree import inline
from tests.persistence.memory_disk import MemoryDisk
from tests.quorum.fake_replica import FakeLeaderService, FakeLearnerService, FakeReplica
from tests.quorum.memory_network import MemoryNetwork

DATA = Path("/data/version-2")
TICK_S, INIT_LIMIT_S, SYNC_LIMIT_S = 2.0, 20.0, 10.0


def settings(**more: bool) -> PeerSettings:
    return PeerSettings(
        tick_s=TICK_S,
        init_limit_s=INIT_LIMIT_S,
        sync_limit_s=SYNC_LIMIT_S,
        connect_limit_s=INIT_LIMIT_S,
        data_bytes_max=2097150,
        **more,  # type: ignore[arg-type]
    )


def ensemble_of(voters: int = 3, observers: int = 0, version: int = 0) -> Ensemble:
    """On the ports of the captured traces."""
    lines = {}
    for n in range(1, voters + observers + 1):
        role = "participant" if n <= voters else "observer"
        lines[f"server.{n}"] = f"127.0.0.1:4288{n}:4388{n}:{role};127.0.0.1:4118{n}"
    return read_ensemble(lines, version=version)


CONFIG = config_text(ensemble_of()).encode()


def epochs_at(accepted: int = 0, current: int = 0) -> tuple[MemoryDisk, EpochKeeper]:
    disk = MemoryDisk()
    disk.make_directory(DATA)
    write_epoch(disk, DATA, ACCEPTED_EPOCH, accepted)
    write_epoch(disk, DATA, CURRENT_EPOCH, current)
    return disk, EpochKeeper(disk, DATA, 0)


def epochs_on(disk: MemoryDisk) -> tuple[int | None, int | None]:
    """acceptedEpoch and currentEpoch, as a restart would find them."""
    return read_epoch(disk, DATA, ACCEPTED_EPOCH), read_epoch(disk, DATA, CURRENT_EPOCH)


def show(data: bytes) -> list[str]:
    """Packets as a person would say them: `PROPOSAL 1/5`."""
    packets, used = read_packets(data, 1 << 20)
    shown = [
        f"{PacketType(type_).name} {'-1' if zxid == -1 else f'{epoch_of(zxid)}/{counter_of(zxid)}'}"
        for type_, zxid, _, _ in packets
    ]
    return shown if used == len(data) else [*shown, data[used:].hex()]


async def pass_time(clock: MockClock, seconds: float, step_s: float = 0.5) -> None:
    """In steps that nobody's timer is shorter than."""
    end = trio.current_time() + seconds
    while trio.current_time() < end:
        clock.jump(min(step_s, end - trio.current_time()))
        await wait_all_tasks_blocked()


class Machine(Protocol):
    """A whole server's state on a disk: see machines.py."""

    disk: MemoryDisk

    @property
    def replica(self) -> Replica: ...


def _state_of(server: "LearnerUnderTest | LeaderUnderTest") -> tuple[MemoryDisk, EpochKeeper, Replica]:
    machine = server.machine
    if machine is None:
        return *epochs_at(*server.epochs), server.replica
    return machine.disk, EpochKeeper(machine.disk, DATA, machine.replica.last_zxid), machine.replica


def _membership_of(server: "LearnerUnderTest | LeaderUnderTest") -> Membership:
    is_dynamic = server.is_dynamic or server.last_seen is not None
    return Membership(
        server.my_id,
        server.ensemble,
        last_seen=server.last_seen,
        reconfig_enabled=is_dynamic,
        ask_oracle=server.ask_oracle,
    )


class ScriptedPeer:
    """The other end of a connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._heard = bytearray()
        self._is_closed = False

    async def listen(self) -> None:
        while data := await self._receive():
            self._heard += data
        self._is_closed = True

    def is_closed(self) -> bool:
        """Whether the server under test has hung up."""
        return self._is_closed

    async def _receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(1 << 16))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    async def say(self, *packets: bytes) -> None:
        await self._stream.send_all(b"".join(packets))
        await wait_all_tasks_blocked()

    def heard(self) -> bytes:
        """Everything since the last look."""
        heard = bytes(self._heard)
        self._heard.clear()
        return heard

    def heard_packets(self) -> list[str]:
        return show(self.heard())

    async def hang_up(self) -> None:
        await self._stream.aclose()
        await wait_all_tasks_blocked()


# --- Our learner, and a scripted leader.


@attrs.define
class LearnerUnderTest:
    """Our server `my_id`, whose leader is server 2 and scripted."""

    nursery: trio.Nursery
    replica: FakeReplica = attrs.field(factory=FakeReplica)
    my_id: int = 1
    epochs: tuple[int, int] = (0, 0)  # accepted, current
    is_observer: bool = False
    needs_snapshot: bool = False
    doubts: Doubts = attrs.field(factory=Doubts)
    tries_before: int = 0
    ensemble: Ensemble = attrs.field(factory=ensemble_of)
    last_seen: Ensemble | None = None  # with it, or with `is_dynamic`, the members may change
    is_dynamic: bool = False
    ask_oracle: Callable[[], bool] | None = None
    membership: Membership = attrs.field(init=False)
    settings: PeerSettings = attrs.field(factory=settings)
    network: MemoryNetwork = attrs.field(factory=MemoryNetwork)
    machine: Machine | None = None  # with it, `replica` and `epochs` are the ones on its disk
    disk: MemoryDisk = attrs.field(init=False)
    learning: Learning = attrs.field(init=False)
    synced_with: list[int] = attrs.field(factory=list)  # epochs
    ended: str | None = None  # why

    def prepared(self) -> Learning:
        self.disk, keeper, replica = _state_of(self)
        self.membership = _membership_of(self)
        self.learning = Learning(
            settings=self.settings,
            membership=self.membership,
            network=self.network,
            replica=replica,
            epochs=keeper,
            is_observer=self.is_observer,
            needs_snapshot=self.needs_snapshot,
            doubts=self.doubts,
            on_synced=self.synced_with.append,
            tries_before=self.tries_before,
        )
        return self.learning

    async def dials(self) -> ScriptedPeer:
        """Returns its leader's end of the connection."""
        self.prepared()
        [listener] = await self.network.listen("127.0.0.1", 42882)
        self.nursery.start_soon(self._learn)
        leader = ScriptedPeer(await listener.accept())
        await listener.aclose()
        self.nursery.start_soon(leader.listen)
        await wait_all_tasks_blocked()
        return leader

    async def _learn(self) -> None:
        self.ended = str(await self.learning.learn(self.ensemble.members[2]))

    async def follows(self, epoch: int = 1) -> ScriptedPeer:
        """Up to the point where a leader chooses how to go on."""
        leader = await self.dials()
        await leader.say(packet(LEADERINFO, epoch << 32, int_data(0x10000)))
        leader.heard()
        return leader

    @property
    def service(self) -> FakeLearnerService:
        assert isinstance(self.replica.service, FakeLearnerService)
        return self.replica.service

    @property
    def stored_epochs(self) -> tuple[int | None, int | None]:
        return epochs_on(self.disk)


def new_leader(epoch: int = 1) -> bytes:
    return packet(NEWLEADER, epoch << 32, CONFIG)


# --- Our leader, and scripted learners.


@attrs.define
class LeaderUnderTest:
    """Our server `my_id`, which was elected."""

    nursery: trio.Nursery
    replica: FakeReplica = attrs.field(factory=FakeReplica)
    my_id: int = 2
    epochs: tuple[int, int] = (0, 0)  # accepted, current
    keeper: EpochKeeper | None = None  # the one of an earlier term of office
    tries_before: int = 0
    ensemble: Ensemble = attrs.field(factory=ensemble_of)
    last_seen: Ensemble | None = None  # with it, or with `is_dynamic`, the members may change
    is_dynamic: bool = False
    ask_oracle: Callable[[], bool] | None = None
    membership: Membership = attrs.field(init=False)
    settings: PeerSettings = attrs.field(factory=settings)
    network: MemoryNetwork = attrs.field(factory=MemoryNetwork)
    machine: Machine | None = None  # with it, `replica` and `epochs` are the ones on its disk
    disk: MemoryDisk = attrs.field(init=False)
    leader: Leader = attrs.field(init=False)
    established: list[int] = attrs.field(factory=list)  # epochs
    ended: str | None = None  # why

    async def leads(self) -> None:
        self.disk, keeper, replica = _state_of(self)
        self.membership = _membership_of(self)
        self.leader = Leader(
            settings=self.settings,
            membership=self.membership,
            network=self.network,
            replica=replica,
            epochs=self.keeper or keeper,
            tries_before=self.tries_before,
            offload=inline,
            on_established=self.established.append,
        )
        self.nursery.start_soon(self._lead)
        await wait_all_tasks_blocked()

    async def _lead(self) -> None:
        self.ended = str(await self.leader.lead())

    async def dialled(self) -> ScriptedPeer:
        """By somebody who has said nothing yet."""
        learner = ScriptedPeer(await self.network.dial("127.0.0.1", 42880 + self.my_id))
        self.nursery.start_soon(learner.listen)
        await wait_all_tasks_blocked()
        return learner

    async def joined_by(
        self, server_id: int, *, accepted: int = 0, current: int = 0, zxid: int = 0, is_observer: bool = False
    ) -> ScriptedPeer:
        """A learner that has said who it is and how far it got, if it was told the epoch."""
        learner = await self.dialled()
        hello = OBSERVERINFO if is_observer else FOLLOWERINFO
        await learner.say(packet(hello, accepted << 32, learner_info(server_id, 0)))
        if learner.heard():
            await learner.say(packet(ACKEPOCH, zxid, int_data(current)))
        return learner

    async def followed_by(self, server_id: int, epoch: int = 1, **more: int | bool) -> ScriptedPeer:
        """A learner that is up to date, and what it heard on the way is forgotten."""
        learner = await self.joined_by(server_id, **more)  # type: ignore[arg-type]
        await learner.say(packet(ACK, epoch << 32))
        await learner.say(packet(ACK, epoch << 32))
        learner.heard()
        return learner

    async def followed_by_all(self, *server_ids: int) -> dict[int, ScriptedPeer]:
        """New servers, of which none is told the epoch before enough of them are there."""
        learners = {server_id: await self.dialled() for server_id in server_ids}
        for server_id, learner in learners.items():
            await learner.say(packet(FOLLOWERINFO, 0, learner_info(server_id, 0)))
        for answer in (packet(ACKEPOCH, 0, int_data(0)), packet(ACK, 1 << 32), packet(ACK, 1 << 32)):
            for learner in learners.values():
                await learner.say(answer)
        for learner in learners.values():
            learner.heard()
        return learners

    @property
    def service(self) -> FakeLeaderService:
        assert isinstance(self.replica.service, FakeLeaderService)
        return self.replica.service

    async def propose(self, *bodies: bytes) -> None:
        self.service.propose(*bodies)
        await wait_all_tasks_blocked()

    async def sync_disk(self) -> None:
        self.replica.sync_disk()
        await wait_all_tasks_blocked()

    @property
    def stored_epochs(self) -> tuple[int | None, int | None]:
        return epochs_on(self.disk)
