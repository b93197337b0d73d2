"""What goes wrong, and when: a schedule drawn from the seed, which mends everything at its end.

Each kind of fault is a method that does the harm and arranges for its end; `run` picks one now and then.
"""

import errno
import math
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from random import Random

import trio

import persistence.snapshots
from quorum.quorum_verifiers import verifier_of
from tests.sim.checkers import Checker
from tests.sim.damage import damage, flip_bit
from tests.sim.disk import Killed
from tests.sim.machines import Machine
from tests.sim.membership_on_disk import CONFIG_FILE, first_members
from tests.sim.network import HostNetwork, VirtualNetwork
from tests.sim.scenario import Scenario

_TRIES = 40  # to find a moment when the others can do without a disk
_DAMAGES_AT_REST = 3


class Faults:
    """`leader` names the machine that leads at present, if any."""

    def __init__(
        self,
        scenario: Scenario,
        machines: list[Machine],
        clients: list[str],
        network: VirtualNetwork,
        checker: Checker,
        chance: Random,
        counts: Counter[str],
        trace: Callable[[str, str], None],
        leader: Callable[[], Machine | None],
    ) -> None:
        self._scenario = scenario
        self._ensemble = first_members(scenario)
        self._verifier = verifier_of(self._ensemble)
        self._machines = machines
        self._hosts = [machine.name for machine in machines] + clients
        self._network = network
        self._checker = checker
        self._chance = chance
        self._counts = counts
        self._trace = trace
        self._leader = leader
        self._fetch_chance = Random(f"fetches {scenario.seed}")
        self._damaged: Machine | None = None  # one at a time: a quorum must have what it had
        self._mending: dict[int, Callable[[], None]] = {}
        self._sequence = 0

    async def run(self, until: float) -> None:
        """Do harm until then, and undo all of it."""
        every_s, names = self._scenario.fault_every_s, self._scenario.faults
        while trio.current_time() < until:
            await trio.sleep(self._chance.expovariate(1 / every_s))
            if trio.current_time() < until:
                name = self._chance.choice(names)
                self._disturb()
                self._counts[f"fault {name}"] += 1
                getattr(self, f"_{name}")()
        self._mend_all()
        if "damage" in names:
            await self._damage_at_rest()

    async def _damage_at_rest(self) -> None:
        """While things go wrong there is rarely a moment at which a disk can be spared; now there is."""
        possible = [each for each in self._machines if self._is_dispensable(each)]
        if not possible:
            return
        machine = self._damaged or self._chance.choice(possible)
        for _ in range(_DAMAGES_AT_REST):
            give_up_at = trio.current_time() + 5 + 10 * self._tick_s()
            while not self._can_spare_disk(machine):
                if trio.current_time() > give_up_at:
                    return
                await trio.sleep(0.02)
            self._disturb()
            self._counts["fault damage"] += 1
            machine.kill(with_machine=self._chance.random() < 0.5)
            spoil = flip_bit if self._chance.random() < 0.5 else damage
            self._spoil(machine, spoil(machine.disk, self._chance))
            machine.start()
            await trio.sleep(self._chance.uniform(0.1, 2) + 2 * self._tick_s())

    def _mend_all(self) -> None:
        self._trace("faults", "are over")
        for sequence in list(self._mending):
            self._mend(sequence)
        for machine in self._machines:
            machine.disk.mend()
            machine.disk.die_after = machine.dies_in_recovery = machine.dies_in_adoption = None
            machine.start()
        self._disturb()

    async def watch_over(self) -> None:
        """Whoever runs these machines starts one again that has been down for long, for whatever reason. One
        that says its data is damaged is told to fetch everything from its leader, or gets an empty disk, as
        soon as the others can do without it."""
        patience_s = 8 * self._tick_s() + 2
        while True:
            await trio.sleep(patience_s / 4)
            for machine in self._machines:
                if machine.is_up:
                    continue
                if machine.refuses_to_start and machine is self._damaged:
                    if not machine.disk.has_damaged_epochs and self._fetch_chance.random() < 0.5:
                        self._disturb()
                        self._fetch(machine)
                        machine.start()
                        continue
                    self._when_spare(machine, partial(self._wipe, machine))
                elif trio.current_time() - machine.down_since > patience_s:
                    self._disturb()
                    machine.start()

    # -- scheduling

    def _disturb(self) -> None:
        self._checker.disturbed_at = trio.current_time()
        self._checker.is_disturbed = bool(self._mending)

    def _undo_later(self, shortest_s: float, longest_s: float, undo: Callable[[], None]) -> None:
        self._sequence += 1
        sequence = self._sequence
        self._mending[sequence] = undo
        self._checker.is_disturbed = True
        delay = self._chance.uniform(shortest_s, longest_s)
        self._network.clock.call_later(delay, lambda: self._mend(sequence))

    def _mend(self, sequence: int) -> None:
        undo = self._mending.pop(sequence, None)
        if undo is not None:
            undo()
            self._disturb()

    # -- victims

    def _victim(self) -> Machine:
        leader = self._leader()
        if leader is not None and self._chance.random() < self._scenario.leader_bias:
            return leader
        return self._chance.choice(self._machines)

    def _tick_s(self) -> float:
        return self._scenario.tick_ms / 1000

    # -- processes and machines

    def _go_down(self, machine: Machine, *, with_machine: bool) -> None:
        machine.kill(with_machine=with_machine)
        self._undo_later(0.05, 6 * self._tick_s() + 1, machine.start)

    def _kill(self) -> None:
        self._go_down(self._victim(), with_machine=False)

    def _power_loss(self) -> None:
        self._go_down(self._victim(), with_machine=True)

    def _kill_all(self) -> None:
        self._several(with_machine=False)

    def _power_loss_all(self) -> None:
        self._several(with_machine=True)

    def _several(self, *, with_machine: bool) -> None:
        """All of them, or some, at the same moment."""
        count = self._chance.choice((len(self._machines), self._chance.randint(1, len(self._machines))))
        for machine in self._chance.sample(self._machines, count):
            self._go_down(machine, with_machine=with_machine)

    def _crash_in_recovery(self) -> None:
        """It goes down, and again while it reads its disk."""
        machine = self._victim()
        machine.kill(with_machine=self._chance.random() < 0.5)
        machine.dies_in_recovery = self._chance.randrange(60)
        self._network.clock.call_later(self._chance.uniform(0.05, 1), machine.start)
        self._undo_later(1.5, 6 * self._tick_s() + 2, machine.start)

    def _crash_in_adoption(self) -> None:
        """It goes down while it takes over a leader's tree, the next time it does."""
        machine = self._victim()
        machine.dies_in_adoption = self._chance.randrange(16)

    def _crash_in_disk(self) -> None:
        machine = self._victim()
        machine.kill_at_disk_operation(self._chance.randrange(30), with_machine=self._chance.random() < 0.5)
        self._undo_later(0.5, 6 * self._tick_s() + 1, machine.start)

    def _blackout_in_disk(self) -> None:
        """The power fails everywhere, in the middle of what one machine does with its disk."""
        machine = self._victim()
        machine.kill_at_disk_operation(
            self._chance.randrange(30), with_machine=True, on_death=partial(self._several, with_machine=True)
        )
        self._undo_later(0.5, 6 * self._tick_s() + 1, machine.start)

    def _pause(self) -> None:
        machine = self._victim()
        if machine.is_up and not machine.is_paused:
            boots = machine.boots
            machine.pause()

            def resume() -> None:
                if machine.boots == boots and machine.is_up:
                    machine.resume()

            self._undo_later(0.05, 12 * self._tick_s(), resume)

    # -- the network

    def _partition(self) -> None:
        """Two sides that do not reach each other; clients are on either, or see both."""
        side = [host for host in self._hosts if self._chance.random() < 0.5]
        other = [host for host in self._hosts if host not in side and self._chance.random() < 0.9]
        self._trace("faults", f"{side} do not reach {other}")
        pairs = [(a, b) for a in side for b in other]
        self._cut(pairs + [(b, a) for a, b in pairs])

    def _isolate(self) -> None:
        machine = self._victim()
        others = [other.name for other in self._machines if other is not machine]
        self._trace("faults", f"{machine.name} is alone")
        self._cut([(machine.name, name) for name in others] + [(name, machine.name) for name in others])

    def _one_way_cut(self) -> None:
        source, target = self._two_hosts()
        self._trace("faults", f"{source} does not reach {target}")
        self._cut([(source, target)])

    def _two_hosts(self) -> tuple[str, str]:
        first = self._victim().name
        second = self._chance.choice([host for host in self._hosts if host != first])
        return (first, second) if self._chance.random() < 0.5 else (second, first)

    def _cut(self, pairs: list[tuple[str, str]]) -> None:
        for pair in pairs:
            self._network.cut(*pair)

        def restore() -> None:
            self._trace("faults", "a cut is mended")
            for pair in pairs:
                self._network.restore(*pair)

        self._undo_later(0.1, 15 * self._tick_s(), restore)

    def _slow_link(self) -> None:
        source, target = self._two_hosts()
        link = self._network.link(source, target)
        link.slowness = self._chance.uniform(2, max(4, 3 * self._tick_s() / link.delay_s))

        def restore() -> None:
            link.slowness = 1.0
            link.well_from = trio.current_time() + 3 * self._tick_s()

        self._undo_later(0.1, 15 * self._tick_s(), restore)

    def _reset(self) -> None:
        connections = self._network.connections()
        for connection in self._chance.sample(connections, min(len(connections), self._chance.randint(1, 3))):
            connection.disturb(trio.current_time())
            match self._chance.randrange(3):
                case 0:
                    connection.reset()
                case 1:
                    connection.reset(connection.dialled)
                case _:
                    connection.reset(connection.accepted)

    def _silence(self) -> None:
        """Nothing arrives, until the systems at both ends give the connection up."""
        connections = self._network.connections()
        if connections:
            connection = self._chance.choice(connections)
            connection.silence()
            connection.disturb(math.inf)

            def end() -> None:
                connection.reset()
                for pipe in (connection.dialled.outgoing, connection.accepted.outgoing):
                    pipe.link.well_from = trio.current_time()

            self._undo_later(0.5, 20 * self._tick_s(), end)

    # -- disks and clocks

    def _lost_disk(self) -> None:
        """A machine goes down, and comes up with an empty disk: if the ensemble can afford it, or with the
        latest promise of the others, to fetch everything from its leader."""
        machine = self._victim()
        if not machine.is_up or self._damaged not in (None, machine):
            return
        if self._fetch_chance.random() < 0.5:
            if self._may_fetch(machine):
                self._go_down(machine, with_machine=True)
                self._trace(machine.name, "has a new disk, and is to fetch everything")
                self._counts["disks_replaced"] += 1
                promised = max(each.accepted_on_disk for each in self._machines if each is not machine)
                machine.replace_disk(CONFIG_FILE.parent, promised)
            return
        machine.kill(with_machine=True)
        self._when_spare(machine, partial(self._wipe, machine))
        self._undo_later(6 * self._tick_s(), 8 * self._tick_s() + 2, machine.start)

    def _wipe(self, machine: Machine) -> None:
        self._trace(machine.name, "has an empty disk")
        self._counts["disks_wiped"] += 1
        machine.disk.wipe(CONFIG_FILE.parent)
        machine.start()

    def _told_to_fetch(self) -> None:
        """A machine is to take everything from its leader, and has no vote until then: so it does not matter
        what others lack. Only one at a time: what one acknowledged is asked of the others."""
        machine = self._victim()
        if machine.is_up and self._may_fetch(machine):
            self._go_down(machine, with_machine=self._chance.random() < 0.5)
            self._fetch(machine)
            if self._fetch_chance.random() < 0.5:  # it goes down again before it is done
                machine.dies_in_recovery = self._fetch_chance.randrange(60)

    def _may_fetch(self, machine: Machine) -> bool:
        others = [each for each in self._machines if each is not machine]
        is_one = self._damaged in (None, machine) and not any(each.is_fetching for each in others)
        return is_one and self._is_dispensable(machine)

    def _fetch(self, machine: Machine) -> None:
        self._trace(machine.name, "is to fetch everything")
        self._counts["told_to_fetch"] += 1
        machine.fetch_from_leader()

    def _damage(self) -> None:
        """What a disk has stored changes, under a running server or while its machine is down. So that
        nothing is lost for good, the others have all of it; so only one disk is ever damaged."""
        machine = self._victim()
        if not machine.is_up or self._damaged not in (None, machine):
            return
        if self._chance.random() < 0.5:
            self._flip_when_spare(machine, _TRIES)
            return
        machine.kill(with_machine=True)

        def spoil() -> None:
            self._spoil(machine, damage(machine.disk, self._chance))
            machine.start()

        self._when_spare(machine, spoil)
        self._undo_later(6 * self._tick_s(), 8 * self._tick_s() + 2, machine.start)

    def _flip_when_spare(self, machine: Machine, tries: int) -> None:
        if self._damaged not in (None, machine) or not machine.is_up:
            return
        if self._can_spare_disk(machine):
            self._spoil(machine, flip_bit(machine.disk, self._chance))
            if self._chance.random() < 0.7:  # else it goes unnoticed for longer
                with_machine = self._chance.random() < 0.5
                self._network.clock.call_later(
                    self._chance.uniform(0, 2), partial(self._go_down, machine, with_machine=with_machine)
                )
        elif tries:
            self._network.clock.call_later(0.05, partial(self._flip_when_spare, machine, tries - 1))

    def _spoil(self, machine: Machine, what: str | None) -> None:
        if what is not None:
            self._damaged = machine
            self._counts["disks_damaged"] += 1
            self._trace(machine.name, f"has a damaged disk, {what}")

    def _when_spare(self, machine: Machine, do: Callable[[], None]) -> None:
        """Do something to the disk of a machine that is down, once the others can do without it."""
        boots, clock = machine.boots, self._network.clock

        def do_if_possible() -> None:
            if machine.is_up or machine.boots != boots:
                return  # somebody was quicker
            if self._can_spare_disk(machine):
                do()
            else:
                clock.call_later(self._tick_s() / 4, do_if_possible)

        clock.call_later(self._tick_s() / 4, do_if_possible)

    def _can_spare_disk(self, machine: Machine) -> bool:
        """Does every other voter have on disk all that was ever logged, and no epoch but that one's?

        Nothing less will do: what another lacks may be committed because this machine had it, and with the
        disk go the promises about epochs.
        """
        last_zxid = max(self._checker.logged, default=0)
        return self._is_dispensable(machine) and all(
            each.has_durably(last_zxid)
            for each in self._machines
            if each is not machine and each.server_id in self._ensemble.voters
        )

    def _is_dispensable(self, machine: Machine) -> bool:
        """It must not be a quorum alone: it would lead an empty tree; nor be needed for every quorum: if it
        refuses to start, there is no leader to take everything from."""
        others = self._ensemble.voters - {machine.server_id}
        is_alone = self._verifier.contains_quorum([machine.server_id])
        return not is_alone and self._verifier.contains_quorum(others)

    def _disk_error(self) -> None:
        operation = self._chance.choice(("write_at", "sync", "sync", "create", "rename", "sync_directory"))
        self._fail(operation, errno.EIO)

    def _disk_unable(self) -> None:
        """What is written rarely, or only read."""
        self._fail(self._chance.choice(("read", "read", "truncate", "rename", "unlink", "open")), errno.EIO)

    def _purge(self) -> None:
        """A task beside the server, or somebody's cron job, removes what newer snapshots made superfluous."""
        machine = self._victim()
        replica = machine.server
        if replica is not None and not machine.is_paused:
            with suppress(OSError, Killed):
                persistence.snapshots.purge(machine.mounted, replica.dirs.snap_dir, replica.dirs.log_dir, 3)

    def _disk_full(self) -> None:
        self._fail(self._chance.choice(("write_at", "grow", "create")), errno.ENOSPC)

    def _fail(self, operation: str, code: int) -> None:
        machine = self._victim()
        machine.disk.failing[operation] = code

        def mend() -> None:
            machine.disk.failing.pop(operation, None)
            machine.start()

        self._undo_later(0.2, 6 * self._tick_s() + 1, mend)

    def _slow_disk(self) -> None:
        disk = self._victim().disk
        disk.stall_s = self._chance.choice((0.02, 0.2, 2 * self._tick_s()))

        def mend() -> None:
            disk.stall_s = 0.0

        self._undo_later(0.2, 10 * self._tick_s(), mend)

    def _stalled_leader(self) -> None:
        """The leader's disk stalls, and its links to others break: what they acked is cut off again."""
        leader = self._leader()
        if leader is None:
            return
        leader.disk.stall_s = self._chance.uniform(0.2, 2) * self._tick_s()
        links = [each for each in self._network.connections() if leader.network in each.hosts]
        for connection in links:
            delay_s = self._chance.uniform(0.0, leader.disk.stall_s)
            self._network.clock.call_later(delay_s, connection.reset)
            connection.disturb(trio.current_time() + delay_s)

        def mend() -> None:
            leader.disk.stall_s = 0.0

        self._undo_later(0.5 * self._tick_s(), 3 * self._tick_s(), mend)

    def _deposed(self) -> None:
        """The leader is cut off, logs what nobody hears of, and is told that all its links are broken. Where
        snapshots take long, it is saving its tree meanwhile."""
        self._depose_when_saving(_TRIES if self._scenario.snapshot_write_s else 0)

    def _depose_when_saving(self, tries: int) -> None:
        leader = self._leader()
        if leader is None or leader.server is None:
            return
        if tries and not leader.server._saving.locked():
            self._network.clock.call_later(0.05, partial(self._depose_when_saving, tries - 1))
            return
        self._disturb()
        others = [other.name for other in self._machines if other is not leader]
        self._trace("faults", f"{leader.name} is cut off and told so")
        self._cut([(leader.name, name) for name in others] + [(name, leader.name) for name in others])
        self._network.clock.call_later(
            self._chance.uniform(0.1, 1.5) * self._tick_s(),
            partial(self._break_links, leader.network, others),
        )

    def _break_links(self, host: HostNetwork, others: Collection[str]) -> None:
        for stream in list(host.streams):
            if stream.peer_name in others:
                stream.connection.reset(stream)

    def _clock_step(self) -> None:
        self._victim().clock.wall_offset_ms += self._chance.choice((-1, 1)) * self._chance.randint(1, 10**7)
