"""A server's life in an ensemble: look for a leader, then lead, follow or observe until that ends, for ever.

    run
    ├── elector      answers on the election port, whatever else happens
    └── the roles, one after the other

Between two roles the server serves nobody, and its tree is brought up to the end of its log: the vote it
casts must stand for everything it ever acknowledged (ZOOKEEPER-2845).
"""

from random import Random

import trio

from eventlog import log
from jute.quorum_records import ServerState
from persistence.offload import Offload
from quorum.election import UNKNOWN_ZXID, Vote
from quorum.elector import ConfigAdopted, Elector
from quorum.epochs import EpochKeeper
from quorum.leader import Leader
from quorum.learner import Doubts, Learning
from quorum.learner_links import ms_since
from quorum.membership import Membership
from quorum.network import Network
from quorum.observer_master import ObserverMaster, Relay, masters_to_try
from quorum.peer_stats import PeerStats
from quorum.replica import Replica
from quorum.server_lines import Member, Role
from quorum.settings import PeerSettings

_READ_ONLY_AFTER_S_MIN = 2.0
_REPORT_EVERY_S = 10.0

# Roles that end before we serve: the first few are tried again at once, further ones not so often. A leader
# may turn us away as fast as we dial it, for as long as it leads; Apache's does if we have promised a later
# epoch than its own.
_TRIES_AT_ONCE = 3
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.1, 1.0


class Peer:
    """One member of the ensemble. `leader` and `learning` are there while it is one."""

    def __init__(
        self,
        *,
        settings: PeerSettings,
        membership: Membership,
        network: Network,
        replica: Replica,
        epochs: EpochKeeper,
        elector: Elector,
        offload: Offload,
        random: Random,
        stats: PeerStats | None = None,
    ) -> None:
        self._settings = settings
        self._membership = membership
        self._network = network
        self._replica = replica
        self._epochs = epochs
        self._elector = elector
        self._offload = offload
        self._random = random
        self._stats = stats or PeerStats()
        self._unavailable_since = 0.0
        self._is_available = False
        self._election_ms = 0
        self._roles_in_vain = 0  # in a row
        self._needs_snapshot = False
        self._doubts = Doubts()
        self.leader: Leader | None = None
        self.learning: Learning | None = None

    @property
    def state(self) -> ServerState:
        return self._elector.state

    @property
    def phase(self) -> str:
        """How far we are in our role; nothing while there is none."""
        role = self.leader or self.learning
        return "" if role is None else role.phase

    async def run(self) -> None:
        """Take part until cancelled."""
        self._unavailable_since = trio.current_time()
        async with trio.open_nursery() as nursery:
            await nursery.start(self._elector.run)
            nursery.start_soon(self._report_absence)
            vote: Vote | None = None
            while True:
                vote = await self._take_role(vote or await self._look())

    async def _report_absence(self) -> None:
        """While nobody is served, say so again and again: operators look at the end of a log."""
        while True:
            await trio.sleep(_REPORT_EVERY_S)
            absent_s = trio.current_time() - self._unavailable_since
            if not self._is_available and absent_s >= _REPORT_EVERY_S:
                reachable, unreachable = self._elector.reach()
                log.warning(
                    "no_quorum",
                    for_s=round(absent_s),
                    state=self.state.name,
                    phase=self.phase,
                    voters=sorted(self._membership.committed.voters),
                    reachable=reachable,
                    unreachable=unreachable,
                )

    async def _look(self) -> Vote:
        """Find a leader; meanwhile, if that is allowed, serve clients that only want to read. Not from a tree
        that is empty only because it has yet to come from a leader: it denies what was acknowledged."""
        self._stats.looks += 1
        started_at = trio.current_time()
        log.info("LOOKING")
        while True:
            await self._make_durable()
            async with trio.open_nursery() as nursery:
                if self._settings.read_only_enabled and self._replica.last_zxid != UNKNOWN_ZXID:
                    nursery.start_soon(self._serve_read_only)
                outcome = await self._elector.look(*self._candidacy())
                nursery.cancel_scope.cancel()
            await self._replica.retire()
            if not isinstance(outcome, ConfigAdopted):
                self._election_ms = ms_since(started_at)
                if self._membership.role is not Role.OBSERVER:
                    self._stats.election_times.add(self._election_ms)
                return outcome
            self._membership.activate(outcome.ensemble)

    async def _make_durable(self) -> None:
        """A voter stands for what it has on disk; an observer that becomes one may have it in memory only."""
        if self._membership.is_voter:
            await self._replica.make_durable()

    def _candidacy(self) -> tuple[int, int]:
        return self._replica.last_zxid, self._epochs.current

    async def _serve_read_only(self) -> None:
        await trio.sleep(max(_READ_ONLY_AFTER_S_MIN, self._settings.tick_s))
        log.warning("serving_read_only", reason="there is no leader")
        self._replica.serve_read_only()

    async def _take_role(self, vote: Vote) -> Vote | None:
        """Lead or learn until that ends; returns the next leader, if a new configuration has named it."""
        begun_at = trio.current_time()
        try:
            if vote.leader == self._membership.my_id:
                reason = await self._lead()
            else:
                reason = await self._learn_from(vote.leader)
            log.warning(
                "role_ended",
                role=self._elector.state.name,
                leader=vote.leader,
                epoch=self._epochs.current,
                after_ms=ms_since(begun_at),
                reason=reason,
            )
            is_observer = self._elector.state is ServerState.OBSERVING
            next_leader = self._next_leader()
            if next_leader is None:
                self._elector.state = ServerState.LOOKING
        finally:
            self._roles_in_vain += 1
            if self._is_available:
                self._roles_in_vain = 0
                self._is_available = False
                self._unavailable_since = trio.current_time()
            self.leader = self.learning = None
        await self._replica.retire()
        if next_leader is not None:
            await self._make_durable()
            return self._elector.appoint(next_leader, self._membership.committed.version)
        await trio.sleep_until(begun_at + self._tries_apart_s())
        if is_observer:
            await trio.sleep(self._random.random() * self._settings.observer_delay_s)
        return None

    def _tries_apart_s(self) -> float:
        further = self._roles_in_vain - _TRIES_AT_ONCE
        return min(_PAUSE_S_MIN * 2.0 ** min(further - 1, 10), _PAUSE_S_MAX) if further > 0 else 0.0

    def _available(self, epoch: int) -> None:
        """Our role has reached the point from which clients are served."""
        self._elector.update_vote_epoch(epoch)
        took_ms = ms_since(self._unavailable_since)
        self._stats.unavailable_times.add(took_ms)
        if self.leader is not None:
            self._stats.leader_unavailable_times.add(took_ms)
        self._is_available = True
        role = self._elector.state.name
        if role != ServerState.OBSERVING.name:
            log.info(f"{role} - LEADER ELECTION TOOK - {self._election_ms} MS")
        log.info(f"Peer state changed: {role.lower()} - broadcast")

    def _next_leader(self) -> int | None:
        if self.leader is not None:
            return self.leader.successor
        departure = None if self.learning is None else self.learning.departure
        return None if departure is None else departure.next_leader

    async def _lead(self) -> str:
        self.leader = Leader(
            settings=self._settings,
            membership=self._membership,
            network=self._network,
            replica=self._replica,
            epochs=self._epochs,
            offload=self._offload,
            on_established=self._available,
            stats=self._stats,
            tries_before=self._roles_in_vain,
        )
        return await self.leader.lead()

    async def _learn_from(self, leader_id: int) -> str:
        leader = self._membership.committed.members.get(leader_id)
        if leader is None:
            return f"server {leader_id} was elected, which is not in our configuration"
        self.learning = Learning(
            settings=self._settings,
            membership=self._membership,
            network=self._network,
            replica=self._replica,
            epochs=self._epochs,
            is_observer=self._membership.role is Role.OBSERVER,
            needs_snapshot=self._needs_snapshot,
            doubts=self._doubts,
            on_synced=self._available,
            stats=self._stats,
            tries_before=self._roles_in_vain,
            serve_observers=self._serve_observers if self._settings.observer_master_port else None,
        )
        reason = await self.learning.learn(leader, await self._masters(leader_id))
        self._needs_snapshot = self.learning.needs_snapshot
        return reason

    async def _masters(self, leader_id: int) -> list[Member]:
        """Whom an observer dials before the leader, after a while that differs from observer to observer."""
        if self._membership.role is not Role.OBSERVER:
            return []
        await trio.sleep(self._random.random() * self._settings.observer_reconnect_delay_s)
        if not self._settings.observer_master_port:
            return []
        return masters_to_try(self._membership.my_id, leader_id, self._membership.committed, self._random)

    def _serve_observers(self, relay: Relay, epoch: int) -> ObserverMaster:
        return ObserverMaster(
            settings=self._settings,
            membership=self._membership,
            network=self._network,
            replica=self._replica,
            offload=self._offload,
            relay=relay,
            epoch=epoch,
            stats=self._stats,
        )
