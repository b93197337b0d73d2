"""Machines that servers run on: a disk, a clock and a network of their own, and the power to go down.

A machine boots its program as often as it is told to. Between the moment it is killed and the moment its
tasks have noticed, nothing they do has any effect: their disk and network raise Killed.
"""

import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

import trio

from jute.zxid import epoch_of
from persistence.errors import StorageError
from server.replica import Replica
from tests.sim.checkers import Checker
from tests.sim.disk import MountedDisk, VirtualDisk, VirtualOffload
from tests.sim.network import HostNetwork, VirtualNetwork
from tests.sim.virtual_time import PROCESS, Freezer

START_MS = 1_000_000
START_WALL_MS = 1_700_000_000_000


class MachineClock:
    """Meets server.clock.Clock. The wall clock can be set, the other one only goes on."""

    def __init__(self) -> None:
        self.wall_offset_ms = 0

    def now_ms(self) -> int:
        return START_MS + int(trio.current_time() * 1000)

    def wall_ms(self) -> int:
        return START_WALL_MS + int(trio.current_time() * 1000) + self.wall_offset_ms


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
    ) -> None:
        self.name = name
        self.disk = VirtualDisk(Random(chance.random()))
        self.clock = MachineClock()
        self.checker = checker
        self.counts = counts
        self.is_up = False
        self.down_since = 0.0
        self.boots = 0
        self.random = chance
        self.accepted_epoch = 0  # the last one it was about to promise
        self.server: Replica | None = None
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

    # -- what faults do

    def start(self) -> None:
        if not self.is_up:
            self._switched_on.set()

    def kill(self, *, with_machine: bool) -> None:
        """kill -9, or loss of power."""
        if not self.is_up:
            return
        self._trace(self.name, "loses power" if with_machine else "is killed")
        self._cut_off(with_machine=with_machine)
        if with_machine:
            self.disk.lose_power()
        if self._process is not None:
            self._process.cancel()

    def kill_at_disk_operation(self, count: int, *, with_machine: bool) -> None:
        """The same, in the middle of what it does with its disk."""

        def die() -> None:
            self.kill(with_machine=with_machine)

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
        self.is_up = False
        self.down_since = trio.current_time()
        self.checker.disturbed_at = self.down_since  # also where a fault set earlier takes effect only now
        self.server = None
        self.mounted.is_alive = False
        self.disk.die_after = None
        self._network.kill(self.name, with_machine=with_machine)
        for offload in (self.log_offload, self.snapshot_offload):
            offload.die()
        if self.is_paused:
            self._freezer.thaw(self.name)

    # -- its life

    async def live(self) -> None:
        """Run the program each time the machine is started."""
        while True:
            await self._switched_on.wait()
            self._switched_on = trio.Event()
            self.boots += 1
            self._trace(self.name, f"boots for the {self.boots}. time")
            self.network = self._network.boot(self.name)
            self.mounted = self.disk.mount()
            self.log_offload = VirtualOffload(self.mounted)
            self.snapshot_offload = VirtualOffload(self.mounted)
            self.is_up = True
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
        """A server may stop by itself for one reason: its disk."""
        self._trace(self.name, f"stops: {reasons}")
        is_disk = all(isinstance(reason, OSError | StorageError) for reason in reasons)
        if not (is_disk and self.disk.faults_met):
            text = "".join(traceback.format_exception(failure))
            self.checker.note(f"{self.name} stops: {reasons}\n{text}")
        self.counts["stopped_by_disk"] += 1
        self._cut_off(with_machine=False)


def _leaves(failure: BaseException) -> list[BaseException]:
    if isinstance(failure, BaseExceptionGroup):
        return [leaf for each in failure.exceptions for leaf in _leaves(each)]
    return [failure]
