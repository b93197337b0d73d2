"""Machines that servers run on: a disk, a clock and a network of their own, and the power to go down.

A machine boots its program as often as it is told to. Between the moment it is killed and the moment its
tasks have noticed, nothing they do has any effect: their disk and network raise Killed.
"""

import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import trio

from jute.zxid import epoch_of
from persistence.errors import CorruptLog, CorruptSnapshot, StorageError
from server.ensemble_member import EnsembleMember
from server.ordering import OrderingPipeline
from server.replica import Replica
from tests.sim.checkers import Checker
from tests.sim.disk import MountedDisk, VirtualDisk, VirtualOffload
from tests.sim.network import HostNetwork, VirtualNetwork
from tests.sim.stored_history import entries_of, safe_on
from tests.sim.virtual_time import PROCESS, Freezer, VirtualClock

DATA_DIR = Path("/data")
FETCH_MARKER = DATA_DIR / "fetch-from-leader"
_ACCEPTED_EPOCH = DATA_DIR / "version-2" / "acceptedEpoch"
START_MS = 1_000_000
START_WALL_MS = 1_700_000_000_000


# A sync in the event loop that takes less than this is not modelled as a stop of the process.
_HELD_S_MIN = 0.01


class MachineClock:
    """Meets server.clock.Clock. The wall clock can be set, the other one only goes on: from another number
    at each boot, and on each machine a little faster or slower than on others."""

    def __init__(self, clock: VirtualClock, rate: float) -> None:
        self._clock = clock
        self.wall_offset_ms = 0
        self.start_ms = START_MS
        self._rate = rate

    def now_ms(self) -> int:
        return self.start_ms + int(self._clock.time * 1000 * self._rate)

    def wall_ms(self) -> int:
        return START_WALL_MS + int(self._clock.time * 1000) + self.wall_offset_ms


class Machine:
    """One server's machine. `program` runs the server; it is given the machine and returns only when told."""

    def __init__(
        self,
        name: str,
        program: "Callable[[Machine], Awaitable[None]]",
        network: VirtualNetwork,
        freezer: Freezer,
        checker: Checker,
        chance: Random,
        counts: Counter[str],
        trace: Callable[[str, str], None],
        clock_rate: float = 1.0,
    ) -> None:
        self.name = name
        self.disk = VirtualDisk(Random(chance.random()))
        self.clock = MachineClock(network.clock, clock_rate)
        self.checker = checker
        self.counts = counts
        self.is_up = False
        self.down_since = 0.0
        self.boots = 0
        self.booted_at = 0.0
        self.refuses_to_start = False  # what is on its disk is not what it must be, and it said so
        self.dies_in_recovery: int | None = None  # at which disk operation of the next start
        self.dies_in_adoption: int | None = None  # at which disk operation of taking over a leader's tree
        self.safe_zxids: set[int] = set()  # of entries that its log has durably
        self.safe_upto = 0  # a snapshot that it was started from, or was sent, has everything up to here
        self.snapshot_write_s = 0.0  # what a write of a snapshot takes longer than others
        self.keeps_old_logs = False  # as Apache's servers do when a leader sends them its tree
        self.old_logs: dict[Path, bytes] = {}
        self.acks_early = False  # as Apache's servers before 3.9.4 do
        self.has_old_logs = False  # they are on its disk
        self.fetches_for = 0  # how often its disk had been damaged when it was told to fetch everything
        self.on_down: Callable[[Machine], None] = _tell_nobody
        self.are_members_in_force: Callable[[int], bool] = _always  # of this version, at the other machines
        self.random = chance
        self.accepted_epoch = 0  # the last one it was about to promise
        self.server: Replica | None = None
        self.member: EnsembleMember | None = None
        self._program = program
        self._network = network
        self._freezer = freezer
        self._trace = trace
        self._switched_on = trio.Event()
        self._process: trio.CancelScope | None = None
        self.network: HostNetwork
        self.mounted: MountedDisk
        self.log_offload: VirtualOffload
        self.snapshot_offload: VirtualOffload

    @property
    def server_id(self) -> int:
        return int(self.name[1:])

    def has_durably(self, zxid: int) -> bool:
        """Does it serve, with this as its last transaction, and is all of it on disk?"""
        server = self.server
        return (
            server is not None
            and server.pipeline.is_serving
            and server.tree.last_zxid == zxid
            and self.accepted_epoch == epoch_of(zxid)
            and server.writer._reported_count == server.writer._appended_count
        )

    def holds(self, zxid: int) -> bool:
        """Would it have this transaction after a loss of power?"""
        return zxid <= self.safe_upto or zxid in self.safe_zxids

    def read_its_disk(self) -> None:
        """Its server has: what is safe there is what it says it has. One that fetches everything has no vote
        until it has that again: so what it acknowledged before counts on."""
        upto, zxids = safe_on(self.disk)
        if self.is_fetching:
            upto, zxids = max(upto, self.safe_upto), zxids | self.safe_zxids
        self.safe_upto, self.safe_zxids = upto, zxids

    @property
    def is_fetching(self) -> bool:
        """Has its operator told it to take everything from its leader, and has it not done so yet?"""
        directory = self.disk.directories.get(FETCH_MARKER.parent)
        return directory is not None and FETCH_MARKER.name in directory.names

    @property
    def accepted_on_disk(self) -> int:
        """What its operator finds in the file of that name."""
        directory = self.disk.directories.get(_ACCEPTED_EPOCH.parent)
        inode = None if directory is None else directory.names.get(_ACCEPTED_EPOCH.name)
        return 0 if inode is None else int(bytes(inode.content).split(b"\n")[0])

    @property
    def is_voter(self) -> bool:
        return self.member is not None and self.member.membership.is_voter

    @property
    def serves(self) -> bool:
        """Are its clients' writes taken?"""
        server = self.server
        return server is not None and server.pipeline.is_serving and not server.pipeline.is_read_only

    @property
    def leads(self) -> bool:
        return self.serves and isinstance(self.server and self.server.pipeline, OrderingPipeline)

    @property
    def is_well(self) -> bool:
        """Is there nothing that keeps it from doing its work?"""
        disk = self.disk
        return (
            self.is_up
            and not self.is_paused
            and not self.is_fetching
            and not (disk.failing or disk.stall_s or disk.is_damaged)
            and disk.die_after is None
        )

    # -- what faults do

    def start(self) -> None:
        if not self.is_up:
            self._switched_on.set()

    def fetch_from_leader(self) -> None:
        """What its operator is told to do where its data is damaged, while it is down."""
        self.fetches_for = self.disk.damages
        self.disk.put(FETCH_MARKER, b"")

    def replace_disk(self, kept: Path, accepted_epoch: int) -> None:
        """The same where its disk is lost: the new one has the latest epoch that any other member accepted,
        so that no promise is forgotten."""
        self.disk.replace(kept)
        self.disk.put(_ACCEPTED_EPOCH, b"%d\n" % accepted_epoch)
        self.accepted_epoch = accepted_epoch
        self.fetch_from_leader()

    def kill(self, *, with_machine: bool) -> None:
        """kill -9, or loss of power."""
        if not self.is_up:
            return
        self._trace(self.name, "loses power" if with_machine else "is killed")
        self._cut_off(with_machine=with_machine)
        if with_machine:
            self.disk.lose_power()
        if not self.is_fetching:  # else what is left of its files is put aside at its next start
            self.checker.check_disk(self.name, self.disk, has_old_logs=self.has_old_logs)
        if self._process is not None:
            self._process.cancel()

    def kill_at_disk_operation(
        self, count: int, *, with_machine: bool, on_death: Callable[[], None] | None = None
    ) -> None:
        """The same, in the middle of what it does with its disk; `on_death` comes with it."""

        def die() -> None:
            self.kill(with_machine=with_machine)
            if on_death is not None:
                on_death()

        self.disk.on_death = die
        self.disk.die_after = count

    def pause(self) -> None:
        self._trace(self.name, "is stopped")
        self._freezer.freeze(self.name)

    def resume(self) -> None:
        self._trace(self.name, "goes on")
        self._freezer.thaw(self.name)

    @property
    def is_paused(self) -> bool:
        return self._freezer.is_frozen(self.name)

    def _cut_off(self, *, with_machine: bool) -> None:
        self.on_down(self)
        self.is_up = False
        self.down_since = trio.current_time()
        self.checker.disturbed_at = self.down_since  # also where a fault set earlier takes effect only now
        self.server = self.member = None
        self.mounted.is_alive = False
        self.disk.die_after = None
        self._network.kill(self.name, with_machine=with_machine)
        for offload in (self.log_offload, self.snapshot_offload):
            offload.die()
        self._freezer.release(self.name)

    def _hold_loop(self, seconds: float) -> None:
        """The event loop waits for the disk: nothing else of this process happens meanwhile."""
        if seconds < _HELD_S_MIN or not self.is_up:
            return
        boots = self.boots
        self._freezer.freeze(self.name)

        def go_on() -> None:
            if self.boots == boots and self.is_up:
                self._freezer.thaw(self.name)

        self._network.clock.call_later(seconds, go_on)

    def adopts_snapshot(self) -> None:
        """Its server begins to make a leader's tree its own."""
        if self.dies_in_adoption is not None:
            count, self.dies_in_adoption = self.dies_in_adoption, None
            self.counts["crashes_in_adoption"] += 1
            self.kill_at_disk_operation(count, with_machine=self.random.random() < 0.5)

    def adopted_snapshot(self, kept: dict[Path, bytes], zxid: int) -> None:
        """Apache's would have left its logs where they were; ours finds them at its next start."""
        self.has_old_logs = False
        if self.keeps_old_logs:
            self.old_logs |= {
                path: log for path, log in kept.items() if max(entries_of(log), default=0) <= zxid
            }

    def has_fetched(self) -> None:
        """Its server has taken everything from a leader, as it was told to, if it was."""
        self.read_its_disk()
        if self.disk.is_damaged and self.disk.damages == self.fetches_for:
            self.disk.is_damaged = self.disk.has_damaged_epochs

    def _put_old_logs_back(self) -> None:
        for path, content in self.old_logs.items():
            directory = self.disk.directories.get(path.parent)
            if directory is not None and path.name not in directory.names:
                self.counts["old_logs_found"] += 1
                self._trace(self.name, f"has {path.name} from before its snapshot")
                self.disk.put(path, content)
                self.has_old_logs = True
        self.old_logs.clear()

    # -- its life

    async def live(self) -> None:
        """Run the program each time the machine is started."""
        while True:
            await self._switched_on.wait()
            self._switched_on = trio.Event()
            self.boots += 1
            self._trace(self.name, f"boots for the {self.boots}. time")
            self.network = self._network.boot(self.name)
            self._put_old_logs_back()
            self.mounted = self.disk.mount()
            self.mounted.on_loop_held = self._hold_loop
            self.clock.start_ms = START_MS + self.random.randrange(START_MS)
            self.booted_at = trio.current_time()
            self.refuses_to_start = False
            self.log_offload = VirtualOffload(self.mounted, self._network.clock)
            self.snapshot_offload = VirtualOffload(self.mounted, self._network.clock, self.snapshot_write_s)
            self.is_up = True
            if self.dies_in_recovery is not None:
                count, self.dies_in_recovery = self.dies_in_recovery, None
                self.kill_at_disk_operation(count, with_machine=self.random.random() < 0.5)
            async with trio.open_nursery() as nursery:  # the program is frozen by name, we are not
                nursery.start_soon(self._run_program)

    async def _run_program(self) -> None:
        PROCESS.set(self.name)
        with trio.CancelScope() as self._process:
            try:
                await self._program(self)
            except BaseException as failure:
                if not self.is_up:
                    return  # whatever a dying process says
                reasons = [leaf for leaf in _leaves(failure) if not isinstance(leaf, trio.Cancelled)]
                if not reasons:
                    raise  # the simulation is over
                self._stopped(failure, reasons)
                return
        if self.is_up:
            self.checker.note(f"{self.name} ended by itself")
            self._cut_off(with_machine=False)

    def _stopped(self, failure: BaseException, reasons: list[BaseException]) -> None:
        """A server may stop by itself for one reason: its disk fails, or has not kept what was stored."""
        self._trace(self.name, f"stops: {reasons}")
        is_disk = all(isinstance(reason, OSError | StorageError) for reason in reasons)
        self.refuses_to_start = all(isinstance(reason, StorageError) for reason in reasons)
        is_excused = self.disk.is_damaged or (self.disk.faults_met and not self._misses_data(reasons))
        if not (is_disk and is_excused):
            text = "".join(traceback.format_exception(failure))
            self.checker.note(f"{self.name} stops: {reasons}\n{text}")
        self.counts["stopped_by_disk"] += 1
        self._cut_off(with_machine=False)

    def _misses_data(self, reasons: list[BaseException]) -> bool:
        """A disk that fails is no excuse for files that make no sense."""
        return any(isinstance(reason, CorruptLog | CorruptSnapshot) for reason in reasons)


def _always(version: int) -> bool:
    return True


def _tell_nobody(machine: Machine) -> None:
    """Nobody has to know that it goes down."""


def _leaves(failure: BaseException) -> list[BaseException]:
    if isinstance(failure, BaseExceptionGroup):
        return [leaf for each in failure.exceptions for leaf in _leaves(each)]
    return [failure]
