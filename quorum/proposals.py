"""What a leader proposes and commits, and whom it tells: broadcast.py, carried out.

A reconfiguration is a proposal that changes who counts for itself and for all behind it, and maybe who leads.
"""

from collections.abc import Callable, Sequence

import trio

from eventlog import log
from jute.errors import SystemError_
from jute.zxid import counter_of, epoch_of
from persistence.log_format import zxid_of
from quorum.broadcast import FOR_EVER, Broadcast
from quorum.errors import MembersNotSaved
from quorum.led_learner import Learner
from quorum.membership import Membership
from quorum.packets import (
    COMMIT,
    COMMITANDACTIVATE,
    INFORM,
    INFORMANDACTIVATE,
    PROPOSAL,
    long_data,
    packet,
    packets_without_data,
)
from quorum.peer_stats import PeerStats
from quorum.reconfiguration import (
    ReconfigRules,
    Reconfiguration,
    designated_leader,
    is_reconfiguration,
    keeps_leading,
    next_ensemble,
)
from quorum.replica import LeaderService, Replica
from quorum.server_lines import Ensemble, config_text

# Before the counter of an epoch overflows a new epoch must begin; some room is left for what is under way.
LAST_COUNTER = 0xFFFF0000


class Proposals:
    """Of one leader in one epoch (quorum.replica.Proposer). `learners` is the leader's own list, and `alive`
    says which servers among them were heard of lately."""

    def __init__(
        self,
        epoch_zxid: int,
        learners: Sequence[Learner],
        alive: Callable[[], set[int]],
        *,
        membership: Membership,
        replica: Replica,
        stats: PeerStats,
        rules: ReconfigRules,
    ) -> None:
        self._epoch_zxid = epoch_zxid
        self._learners = learners
        self._alive = alive
        self._membership = membership
        self._my_id = membership.my_id
        self._replica = replica
        self._stats = stats
        self._rules = rules
        self._broadcast = Broadcast(epoch_zxid, membership.verifier())
        self._own_logged = epoch_zxid
        self._progress = trio.lowlevel.ParkingLot()  # of who waits for a commit, or for a learner to leave
        self.service: LeaderService | None = None  # once there is a quorum
        self.must_end: str | None = None  # why the term of office is over
        self.ends_now = trio.Event()  # it is, and there is nothing to wait for
        self._asked_config: Ensemble | None = None  # to be proposed by the next transaction
        self._config_zxid: int | None = None  # of the reconfiguration under way
        self._is_silent = False  # what should have been proposed was not: nothing can follow it
        self._is_deposed = False  # the configuration in force makes another the leader: nothing more commits
        self.successor: int | None = None  # who leads then, if that is settled

    def begin(self) -> None:
        """A quorum has taken over our history: serve."""
        self._complete_config()
        self._replica.on_logged(self._logged)
        self.service = self._replica.lead(epoch_of(self._epoch_zxid), self)

    @property
    def last_proposed(self) -> int:
        return self._broadcast.last_proposed

    @property
    def last_committed(self) -> int:
        return self._broadcast.last_committed

    # -- proposing (quorum.replica.Proposer)

    def append(self, payload: bytes) -> None:
        if self._asked_config is not None:
            try:
                self._propose_config(payload)
            except MembersNotSaved as failure:
                self._is_silent = True
                self.end(str(failure))
        if self._is_silent:
            return
        zxid = self._broadcast.propose(payload)
        self._stats.proposals += 1
        self._stats.proposal_sizes.add(len(payload))
        assert zxid == zxid_of(payload), (zxid, payload)
        if counter_of(zxid) >= LAST_COUNTER:
            self.end("the epoch has used up its zxids")
        self._replica.log(payload)
        proposal = packet(PROPOSAL, zxid, payload)
        now = 0.0
        for learner in self._learners:
            if learner.is_forwarding and not learner.is_observer:
                learner.link.send(proposal)
                if learner.awaited_ack is None:
                    now = now or trio.current_time()
                    learner.sent_proposal(zxid, now)

    def flush(self) -> None:
        self._flush_links()
        self._replica.flush_log()

    def _flush_links(self) -> None:
        for learner in self._learners:
            if learner.is_sending:
                learner.link.flush()

    def send_outstanding(self, learner: Learner) -> None:
        """Queue what is proposed and not committed."""
        for zxid, payload in self._broadcast.proposals():
            learner.link.send(packet(PROPOSAL, zxid, payload))

    # -- committing

    def acked(self, server_id: int, zxid: int) -> None:
        self._broadcast.acked(server_id, zxid)

    def forget(self, server_id: int) -> None:
        """A connection of it has ended: what it acked there is no longer counted, since when it comes back we
        may ask it to cut that off again. What it acked on another one still is."""
        self._broadcast.forget(server_id)
        for learner in self._learners:
            if learner.server_id == server_id and learner.logged:
                self._broadcast.acked(server_id, learner.logged)
        self._end_if_abandoned()
        self._progress.unpark_all()

    async def progress(self) -> None:
        """Wait until something is committed, or a learner has left."""
        await self._progress.park()

    def _logged(self, count: int) -> None:
        """Our own ack."""
        self._own_logged += count
        self._broadcast.acked(self._my_id, self._own_logged)
        self.commit()
        self.end_batch()

    def commit(self) -> None:
        """Commit what can be."""
        if self._is_deposed:
            return
        if self._config_zxid is not None:
            self._commit_up_to(self._config_zxid - 1)
            self._commit_config(self._config_zxid)
        else:
            self._commit_up_to(FOR_EVER)

    def _commit_up_to(self, zxid: int) -> None:
        """A sync is answered between the commits it stands between: a learner that heard of the later ones
        first would take them for somebody else's (T2)."""
        service = self.service
        if service is None:
            return
        while payloads := self._broadcast.commit(up_to=min(zxid, service.sync_due)):
            self._announce(payloads)
            self._stats.commits += len(payloads)
            service.committed(len(payloads))

    def _announce(self, payloads: list[bytes]) -> None:
        """Let the learners know what is committed last."""
        self._progress.unpark_all()
        last = self._broadcast.last_committed
        zxids = range(last - len(payloads) + 1, last + 1)
        commits = packets_without_data(COMMIT, zxids)
        informs = b""
        for learner in self._learners:
            if not learner.is_forwarding:
                continue
            if learner.is_observer:
                informs = informs or b"".join(
                    [packet(INFORM, zxid, payload) for zxid, payload in zip(zxids, payloads, strict=True)]
                )
                learner.link.send(informs)
            else:
                learner.link.send(commits)

    def end_batch(self) -> None:
        """All that came together has been seen to: let answers, proposals and commits leave."""
        if self.service is not None:
            self.service.end_batch()
        self._flush_links()

    # -- reconfiguration

    def new_config(
        self,
        joining: str | None,
        leaving: str | None,
        new_members: str | None,
        from_version: int,
        zxid: int,
    ) -> str:
        try:
            self._membership.check_savable()
        except MembersNotSaved as failure:
            log.error("reconfiguration_refused", reason=str(failure))
            raise SystemError_ from failure
        followers = [each for each in self._learners if each.is_forwarding and not each.is_observer]
        self._asked_config = next_ensemble(
            Reconfiguration(
                joining=joining, leaving=leaving, new_members=new_members, from_version=from_version
            ),
            self._membership.committed,
            self._membership.last_seen,
            version=zxid,
            rules=self._rules,
            verifier_of=self._membership.verifier_of,
            synced=self._alive() & {self._my_id, *(each.server_id for each in followers)},
        )
        return config_text(self._asked_config)

    def _propose_config(self, payload: bytes) -> None:
        """The transaction to be proposed is the reconfiguration asked for, or what became of it instead.

        It and all that follow need both quorums, so both must be known, here and on disk, before it leaves.
        """
        asked, self._asked_config = self._asked_config, None
        assert asked is not None
        if asked.version == zxid_of(payload) and is_reconfiguration(payload):
            self._membership.see(asked)
            self._broadcast.propose_members(self._membership.verifier_of(asked))
            self._config_zxid = asked.version

    def _commit_config(self, zxid: int) -> None:
        """If the reconfiguration can be committed, put it in force and tell everybody who leads from now on.

        If that is another they leave us, by their own doing: so we know that they have heard it.
        """
        broadcast, service = self._broadcast, self.service
        if not (payloads := broadcast.commit(up_to=zxid)):
            return
        assert service is not None
        self._config_zxid = None
        before, now = self._membership.committed, self._membership.last_seen
        designated = designated_leader(self._my_id, before, now, broadcast.logged, zxid)
        self._membership.activate(now)
        self._announce_config(zxid, payloads[0], designated)
        self._stats.commits += 1
        service.committed(1)
        if keeps_leading(self._my_id, before, now):
            broadcast.settle_members()
            self._commit_up_to(FOR_EVER)
        else:
            self.successor = designated
            self._depose()

    def _announce_config(self, zxid: int, payload: bytes, designated: int) -> None:
        commit = packet(COMMITANDACTIVATE, zxid, long_data(designated))
        inform = packet(INFORMANDACTIVATE, zxid, long_data(designated) + payload)
        for learner in self._learners:
            if learner.is_forwarding:
                learner.link.send(inform if learner.is_observer else commit)

    def _complete_config(self) -> None:
        """What a quorum took over with our history is in force: a reconfiguration that nobody completed, or
        the first version (ZOOKEEPER-1324)."""
        before, now = self._membership.committed, self._membership.last_seen
        self._membership.activate(now)
        self._broadcast = Broadcast(self._epoch_zxid, self._membership.verifier())
        if not keeps_leading(self._my_id, before, now):
            self._depose()

    def end(self, reason: str) -> None:
        """The term of office is over, at once; one that ends already goes on to its own end."""
        if self.must_end is None:
            self.must_end = reason
            self.ends_now.set()

    def _depose(self) -> None:
        self._is_deposed = True
        self.must_end = "the configuration in force has another leader"
        self._end_if_abandoned()

    def _end_if_abandoned(self) -> None:
        if self._is_deposed and not self._learners:
            self.ends_now.set()
