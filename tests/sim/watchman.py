"""Looks at the servers every now and then, while faults go on: what ought to be going on without a pause?

  a leader     a quorum of machines that have been well and in reach of each other for a while has somebody
               who serves
  no new role  where nothing was disturbed for long enough, a server that serves goes on as what it is
  no old acks  a leader counts the acks of those alone that are connected
  no late end  where nothing was disturbed for long enough, sessions that nobody uses have ended
  no dead ends a server closes its end of a connection that is over

A fault that has been mended may be felt for a moment: what it touched counts as well only after that.
"""

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import trio

from quorum.quorum_verifiers import QuorumVerifier, verifier_of
from server.ensemble_member import EnsembleMember
from server.pipeline import Pipeline
from tests.sim.checkers import Checker
from tests.sim.machines import Machine
from tests.sim.membership_on_disk import first_members
from tests.sim.network import VirtualNetwork, VirtualStream
from tests.sim.scenario import Scenario

# A leader may be waited for in vain for initLimit, which is 10 ticks here, and looked for before and after.
LEADERLESS_S_MAX, LEADERLESS_TICKS_MAX = 6.0, 14
_EVERY_S = 0.5
# For so long what was disturbed may still have consequences: somebody finds out, and asks for an election.
_AFTERMATH_S, _AFTERMATH_TICKS = 2.0, 15
# A server that waits for something else, for initLimit at most, may notice so late that a connection is over.
_DEAD_END_S_MAX, _DEAD_END_TICKS_MAX = 4.0, 12


class Watchman:
    def __init__(
        self, scenario: Scenario, machines: list[Machine], network: VirtualNetwork, checker: Checker
    ) -> None:
        self._scenario = scenario
        self._machines = {machine.server_id: machine for machine in machines}
        self._network = network
        self._checker = checker
        self._tick_s = scenario.tick_ms / 1000
        self._leaderless_s_max = LEADERLESS_S_MAX + LEADERLESS_TICKS_MAX * self._tick_s
        self._well_from: dict[int, float] = dict.fromkeys(self._machines, 0.0)
        self._linked_from: dict[tuple[int, int], float] = {}
        self._served_at: dict[int, float] = dict.fromkeys(self._machines, 0.0)
        self._roles: dict[int, Pipeline | None] = dict.fromkeys(self._machines)
        self._over_from: dict[VirtualStream, float] = {}
        self._may_change_roles = scenario.is_reconfigured or scenario.epochs_are_short

    async def watch(self) -> None:
        verifier = None if self._scenario.is_reconfigured else verifier_of(first_members(self._scenario))
        while True:
            await trio.sleep(_EVERY_S)
            self._look()
            if verifier is not None:
                self._check_leader(verifier)
            self._check_sessions()
            self._check_dead_ends()

    def _look(self) -> None:
        now = trio.current_time()
        for server_id, machine in self._machines.items():
            if not machine.is_well:
                self._well_from[server_id] = now
            if machine.serves:
                self._served_at[server_id] = now
            self._check_role(server_id, machine)
            if machine.leads and machine.member is not None:
                self._check_acks(machine, machine.member)
        for pair in combinations(sorted(self._machines), 2):
            names = [self._machines[each].name for each in pair]
            self._linked_from[pair] = max(self._linked_from.get(pair, 0.0), self._network.linked_from(*names))

    # -- roles

    def _check_role(self, server_id: int, machine: Machine) -> None:
        role = machine.server.pipeline if machine.server is not None and machine.serves else None
        before, self._roles[server_id] = self._roles[server_id], role
        if before is None or role is before or self._may_change_roles or self._checker.is_disturbed:
            return
        disturbed_at = max(self._checker.disturbed_at, *self._linked_from.values(), *self._well_from.values())
        quiet_s = trio.current_time() - disturbed_at
        if quiet_s > _AFTERMATH_S + _AFTERMATH_TICKS * self._tick_s:
            self._checker.fail(
                f"{machine.name} is no longer {before.mode}, though nothing was disturbed for {quiet_s:.1f} s"
            )

    def _check_acks(self, machine: Machine, member: EnsembleMember) -> None:
        """What a learner has acked it may be told to cut off again when it comes back."""
        leader = member.peer.leader
        if leader is None:
            return
        learners: Any = leader.learners  # by connection or by server id, as the leader keeps them
        present = {each.server_id for each in (learners.values() if isinstance(learners, dict) else learners)}
        absent = set(leader.proposals._broadcast.logged) - present - {machine.server_id}
        if absent:
            self._checker.fail(f"{machine.name} counts the acks of {sorted(absent)}, which are not connected")

    def _check_dead_ends(self) -> None:
        now, longest_s = trio.current_time(), _DEAD_END_S_MAX + _DEAD_END_TICKS_MAX * self._tick_s
        before, self._over_from = self._over_from, {}
        for server_id, machine in self._machines.items():
            for stream in machine.network.streams if machine.is_up else ():
                if stream.is_reset or stream.incoming.end_arrived:
                    self._over_from[stream] = max(before.get(stream, now), self._well_from[server_id])
                    if now - self._over_from[stream] > longest_s:
                        self._checker.fail(
                            f"{machine.name} has not closed a connection with {stream.peer_name} that was "
                            f"over {longest_s:.1f} s ago"
                        )

    # -- a leader

    def _check_leader(self, verifier: QuorumVerifier) -> None:
        now = trio.current_time()
        long_ago = now - self._leaderless_s_max
        if max(self._served_at.values()) > long_ago:
            return
        well = [each for each in sorted(verifier.voters) if self._well_from[each] < long_ago]
        for size in range(1, len(well) + 1):
            for group in combinations(well, size):
                if verifier.contains_quorum(group) and self._is_linked(group, long_ago):
                    names = [self._machines[each].name for each in group]
                    self._checker.fail(
                        f"{names} are well and reach each other, and for {self._leaderless_s_max:.1f} s none "
                        "of them has served"
                    )

    def _is_linked(self, group: Iterable[int], since: float) -> bool:
        return all(self._linked_from[pair] < since for pair in combinations(group, 2))

    # -- sessions

    def _check_sessions(self) -> None:
        checker, now = self._checker, trio.current_time()
        is_led = any(machine.leads for machine in self._machines.values())
        if is_led and not checker.is_disturbed:
            checker.check_late_sessions(now, checker.disturbed_at, 4 * self._tick_s + 1)
