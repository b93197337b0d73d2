"""One simulation, from its seed to its report.

faults                 harm until their time is over, then mend everything
machines  clients      start together; clients go on until they have seen that writes are served again
the end                clients close their sessions, what is left expires, and all trees must be equal
"""

import gc
import hashlib
import time
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from random import Random

import attrs
import trio

from quorum.quorum_verifiers import verifier_of
from quorum.server_lines import Ensemble
from server.leading import LeadingPipeline
from tests.sim.checkers import Checker, Violation
from tests.sim.clients import Client
from tests.sim.early_acks import early_acks
from tests.sim.faults import Faults
from tests.sim.leftovers import leftovers
from tests.sim.machines import Machine
from tests.sim.membership_on_disk import first_members, members_of
from tests.sim.network import VirtualNetwork
from tests.sim.observed import nodes_of, observed
from tests.sim.oracle import Oracle
from tests.sim.programs import SYNC_LIMIT_TICKS, run_member, run_standalone
from tests.sim.scenario import Scenario
from tests.sim.strangers import Stranger
from tests.sim.thresholds import shrunk
from tests.sim.virtual_time import Freezer, VirtualClock, run_repeatably
from tests.sim.watchman import Watchman

Print = Callable[[str], None]
_FAULTS_SHARE = 0.8  # of the time; the rest is for mending and for the end


@attrs.frozen(kw_only=True)
class Report:
    seed: int
    violations: tuple[str, ...]
    fingerprint: str  # the same for the same seed, in every process
    simulated_s: float
    cpu_s: float
    counts: Counter[str]


def simulate(scenario: Scenario, print_trace: Print | None = None) -> Report:
    """Run a scenario to its end, or to the first violation."""
    _leave_modules_alone()
    started = time.process_time()
    simulation = Simulation(scenario, print_trace)
    gc.collect()
    gc.disable()
    freeze, gc.freeze = gc.freeze, _nothing  # a server makes its tree permanent; here it is not
    try:
        with shrunk(scenario.thresholds):
            run_repeatably(simulation.run, scenario.seed)
    except* Violation:
        pass
    finally:
        gc.freeze = freeze
        gc.enable()
    return simulation.report(time.process_time() - started)


@cache
def _leave_modules_alone() -> None:
    """What was there before the first simulation is no garbage of any."""
    gc.collect()
    gc.freeze()


def _nothing() -> None:
    pass


class Simulation:
    def __init__(self, scenario: Scenario, print_trace: Print | None) -> None:
        self._scenario = scenario
        self._print = print_trace
        self._hash = hashlib.blake2b(digest_size=8)
        self._ended_at = 0.0
        self.counts: Counter[str] = Counter()
        self._everything: trio.CancelScope | None = None
        self._checker = Checker(
            trio.current_time,
            self._stop,
            has_local_sessions=scenario.has_local_sessions,
            clock_drift=scenario.clock_drift,
            sync_limit_s=SYNC_LIMIT_TICKS * scenario.tick_ms / 1000,
        )

    def _stop(self) -> None:
        if self._everything is not None:
            self._everything.cancel()

    def trace(self, who: str, what: str) -> None:
        line = f"{trio.current_time():12.6f} {who:8} {what}"
        self._hash.update(line.encode())
        if self._print is not None:
            self._print(line)

    async def run(self, clock: VirtualClock) -> None:
        scenario = self._scenario
        self._build(clock)
        watched = observed(self._machines, self._checker, observers_log=scenario.observers_log)
        early = early_acks(self._machines, self.counts)
        with watched, early, trio.CancelScope() as self._everything:
            async with trio.open_nursery() as nursery:
                for machine in self._machines.values():
                    nursery.start_soon(machine.live)
                    machine.start()
                nursery.start_soon(self._faults.watch_over)
                nursery.start_soon(self._watchman.watch)
                if self._stranger is not None:
                    nursery.start_soon(self._stranger.run)
                if self._oracle is not None:
                    nursery.start_soon(self._oracle.decide, scenario.tick_ms / 1000)
                async with trio.open_nursery() as conversations:
                    for client in self._clients:
                        conversations.start_soon(client.run)
                    await self._faults.run(scenario.duration_s * _FAULTS_SHARE)
                    await self._until_served()
                    for client in self._clients:
                        client.is_stopping = True
                await self._until_quiet()
                if self._stranger is not None:
                    await self._stranger.leave()
                self._check_end()
                nursery.cancel_scope.cancel()
        self._ended_at = trio.current_time()
        self._hash.update(repr((self._network.fingerprint, sorted(self.counts.items()))).encode())
        for entry in self._checker.history.entries.values():
            self._hash.update(entry.payload)

    def _build(self, clock: VirtualClock) -> None:
        scenario = self._scenario
        chance = Random(f"simulation {scenario.seed}")

        def own() -> Random:
            return Random(chance.getrandbits(64))

        self._network = VirtualNetwork(clock, own(), delay_s=scenario.delay_s, jitter_s=scenario.jitter_s)
        self._network.cut_anywhere = scenario.cut_anywhere
        self._network.retransmits_late = scenario.retransmits_late
        freezer = Freezer()
        rates = Random(f"clocks {scenario.seed}")
        names = [f"s{number}" for number in range(1, scenario.voters + scenario.observers + 1)]
        self._machines = {
            name: Machine(
                name,
                partial(run_member if scenario.is_ensemble else run_standalone, scenario),
                self._network,
                freezer,
                self._checker,
                own(),
                self.counts,
                self.trace,
                1 + scenario.clock_drift * rates.uniform(-1, 1),
            )
            for name in names
        }
        for machine in self._machines.values():
            machine.disk.sync_s = scenario.sync_s
            machine.keeps_old_logs = scenario.finds_old_logs
            machine.acks_early = scenario.acks_early and machine.server_id % 2 == 0
            machine.snapshot_write_s = scenario.snapshot_write_s
            machine.are_members_in_force = self._are_members_in_force
        self._oracle = Oracle(list(self._machines.values()), self.trace) if scenario.has_oracle else None
        client_names = [f"c{number}" for number in range(1, scenario.clients + 1)]
        self._clients = [
            Client(
                name,
                self._network.boot(name),
                names,
                self._checker,
                own(),
                habits,
                self.counts,
                self.trace,
            )
            for name, habits in zip(client_names, scenario.habits, strict=True)
        ]
        self._faults = Faults(
            scenario,
            list(self._machines.values()),
            client_names,
            self._network,
            self._checker,
            own(),
            self.counts,
            self.trace,
            self._leader,
        )

        self._stranger: Stranger | None = None
        if scenario.has_stranger:
            host = self._network.boot("x1")
            chance_of_its_own = Random(f"stranger {scenario.seed}")
            self._stranger = Stranger(host, names, scenario, chance_of_its_own, self.counts, self.trace)
        self._by_number = {machine.server_id: machine for machine in self._machines.values()}
        self._members: Ensemble | None = None  # who they are since the last reconfiguration
        self._verifiers = [verifier_of(first_members(scenario))]
        if scenario.is_ensemble and not scenario.has_oracle:
            self._checker.holders = self._holders
            self._checker.members_taken_over = self._take_over_members
        self._watchman = Watchman(scenario, list(self._machines.values()), self._network, self._checker)

    def _holders(self, zxid: int) -> tuple[bool, list[str]]:
        """Who has a transaction on disk, and are they a quorum? Of a reconfiguration, by both countings."""
        text = self._checker.history.members_text
        if text is not None:
            self._change_members(members_of(text))
        holding = [number for number, machine in self._by_number.items() if machine.holds(zxid)]
        is_quorum = all(verifier.contains_quorum(holding) for verifier in self._verifiers)
        self._verifiers = self._verifiers[-1:]
        return is_quorum, [] if is_quorum else [f"s{number}" for number in holding]

    def _take_over_members(self, leader: str) -> None:
        """A leader completes what was proposed when the last one ended. That is in no log if its proposer
        went no further than to write the new members down."""
        member = self._machines[leader].member
        if member is not None:
            self._change_members(member.membership.committed)

    def _change_members(self, members: Ensemble) -> None:
        if self._members is None or members.version > self._members.version:
            self._members = members
            self._verifiers.append(verifier_of(members))

    def _are_members_in_force(self, version: int) -> bool:
        """Have all that run agreed on members of this version or later, and have a leader?"""
        running = [machine.member for machine in self._listed() if machine.member is not None]
        return any(machine.leads for machine in self._listed()) and all(
            member.membership.committed.version >= version for member in running
        )

    def _leader(self) -> Machine | None:
        for machine in self._machines.values():
            if machine.server is not None and isinstance(machine.server.pipeline, LeadingPipeline):
                return machine
        return None

    # -- the end

    async def _until_served(self) -> None:
        """Soon somebody's write must be acknowledged, and some time later everybody must have an answer."""
        mended_at = trio.current_time()
        tick_s = self._scenario.tick_ms / 1000
        acked = self._checker.acked_count
        while self._checker.acked_count == acked:
            self._give_up_after(mended_at + 10 + 25 * tick_s, "no write is acknowledged")
            await trio.sleep(0.1)
        self.counts["recovery_ms"] += int(1000 * (trio.current_time() - mended_at))
        while waiting := [client.name for client in self._clients if client.last_ack_at <= mended_at]:
            self._give_up_after(mended_at + 30 + 80 * tick_s, f"{waiting} still get no answers")
            await trio.sleep(0.5)

    def _give_up_after(self, deadline: float, what: str) -> None:
        if trio.current_time() > deadline:
            self._checker.fail(f"a long time after the last fault, {what}")

    async def _until_quiet(self) -> None:
        """Sessions that were left behind expire, and every server hears of it."""
        tick_s = self._scenario.tick_ms / 1000
        longest_s = max(habits.timeout_ms for habits in self._scenario.habits) / 1000
        self.trace("end", "no more requests")
        await trio.sleep(longest_s + 4 * tick_s + 1)
        give_up_at = trio.current_time() + 10 + 30 * tick_s
        while behind := self._behind():
            if trio.current_time() > give_up_at:
                self._checker.fail(f"at the end {behind} do not serve what the others do")
            await trio.sleep(tick_s)

    def _listed(self) -> list[Machine]:
        """Without those that a reconfiguration has left out."""
        if self._members is None:
            return list(self._machines.values())
        return [self._by_number[number] for number in self._members.members]

    def _behind(self) -> list[str]:
        """Servers that have not joined the others, or not heard everything."""
        last_zxid = self._checker.history.last_zxid
        return [
            machine.name
            for machine in self._listed()
            if machine.server is None
            or not machine.server.pipeline.is_serving
            or machine.server.tree.last_zxid < last_zxid
        ]

    def _check_end(self) -> None:
        self._checker.check_late_sessions(trio.current_time(), 0.0, 4 * self._scenario.tick_ms / 1000 + 1)
        for machine in self._listed():
            assert machine.server is not None
            for left in leftovers(machine, len(self._machines)):
                self._checker.note(f"{machine.name} is left with {left}")
            tree = machine.server.tree
            if machine.server.stored.digest_mismatches:
                self._checker.note(f"{machine.name} has met a digest that is not its tree's")
            digest = tree.digest if self._scenario.has_digests else None
            self._checker.check_tree(machine.name, tree.last_zxid, nodes_of(tree), digest)

    def report(self, cpu_s: float) -> Report:
        self.counts["acked"] = self._checker.acked_count
        self.counts["stale_syncs"] = self._checker.stale_syncs
        self.counts["txns"] = len(self._checker.history.entries)
        return Report(
            seed=self._scenario.seed,
            violations=tuple(self._checker.violations),
            fingerprint=self._hash.hexdigest(),
            simulated_s=self._ended_at,
            cpu_s=cpu_s,
            counts=self.counts,
        )
