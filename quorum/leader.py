"""Leading: agree on an epoch, bring learners up to date, then listen to them until too few are left.

    lead
    ├── one task for each learner: handshake, synchronisation, then its packets; a second one sends
    └── pings, and a look at who is still there, twice in a tick

The decisions are pure and elsewhere: discovery.py, synchronization.py, broadcast.py. What is proposed and
committed is in proposals.py. What is done between two awaits is one step: a learner's queue gets the last
that is committed and the first that is proposed anew in the same step, so it misses none (ZOOKEEPER-3104).
"""

import math
from collections.abc import Callable, Collection
from functools import partial

import trio

from eventlog import log
from jute.zxid import counter_of, epoch_of, format_zxid, make_zxid
from persistence.offload import Offload
from quorum.admission import Admission
from quorum.backlog import BACKLOG_BYTES_MAX, Backlog
from quorum.discovery import EpochAgreement, Summary
from quorum.epochs import EpochKeeper
from quorum.errors import CannotListen, PeerError
from quorum.learner_links import LearnerLink, ms_since, patience
from quorum.learner_sync import LearnerSync, committed_proposal
from quorum.led_learner import Learner
from quorum.membership import Membership
from quorum.network import Network, address_of, bind_remedy, listen_at, serve_peers
from quorum.packets import (
    ACK,
    ACKEPOCH,
    FOLLOWERINFO,
    LEADERINFO,
    NEWLEADER,
    OBSERVERINFO,
    PING,
    PROTOCOL_VERSION,
    REQUEST,
    REVALIDATE,
    UPTODATE,
    Packet,
    int_data,
    packet,
    read_int,
    read_learner_info,
    read_request,
    read_revalidate,
    read_sessions,
    revalidated_packet,
)
from quorum.peer_stats import PeerStats
from quorum.proposals import Proposals
from quorum.replica import Replica
from quorum.server_lines import Ensemble, config_text
from quorum.settings import PeerSettings

LISTEN_TRIES_MAX = 3
LISTEN_RETRY_S = 1
# Who elected us dials us within milliseconds. One that is not there after this long is not counted on; where
# all are slow that is too short, so it is doubled each time it was in vain.
ABSENT_PATIENCE_S = 1.5
PROSPECTS_EVERY_S = 0.1
HOPELESS_S = 0.5


class Leader:
    """One term of office. `lead` returns why it ended."""

    def __init__(
        self,
        *,
        settings: PeerSettings,
        membership: Membership,
        network: Network,
        replica: Replica,
        epochs: EpochKeeper,
        offload: Offload,
        on_established: Callable[[int], None],
        stats: PeerStats | None = None,
        tries_before: int = 0,
    ) -> None:
        """`tries_before`: how often a role of ours has ended in vain just now."""
        self._settings = settings
        self._membership = membership
        self._my_id = membership.my_id
        self._network = network
        self._replica = replica
        self._epochs = epochs
        self._stats = stats or PeerStats()
        self._stats.proposal_sizes.reset()
        self._serving = trio.Event()
        self._sync = LearnerSync(settings, replica, offload, self._stats, self._serving.is_set)
        self._on_established = on_established
        self.learners: list[Learner] = []  # one for each connection, so a server may be there twice
        self._admission = Admission(self._listed)
        self._backlogs: dict[int, Backlog] = {}  # by server
        self._tick = 0
        self._begun_at = trio.current_time()
        self._served_since: float | None = None
        self._agreement = EpochAgreement(
            self._my_id, Summary(epochs.current, replica.last_zxid), membership.verifier()
        )
        self._epoch_proposed = trio.Event()
        self._epoch_accepted = trio.Event()
        self._synced: set[int] = set()  # who has acked NEWLEADER
        self._answering: dict[LearnerLink, int] = {}  # servers that have not answered LEADERINFO yet
        self._stage_began_at = self._begun_at
        self._absent_patience_s = ABSENT_PATIENCE_S * 2.0 ** min(tries_before, 10)
        self._quorum_synced = trio.Event()
        self._given_up: str | None = None  # why, if that was before we served
        self._establishing = trio.CancelScope()
        self._proposals: Proposals | None = None  # once the epoch is known

    # -- the term of office

    async def lead(self) -> str:
        """Lead as long as a quorum follows; returns what ended it. Raises CannotListen."""
        listeners = await self._listen()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._accept, listeners)
                reason = await self._hold_office()
                nursery.cancel_scope.cancel()
        finally:
            self._membership.has_ready_follower = False
        return reason

    async def _listen(self) -> list[trio.abc.Listener[trio.abc.Stream]]:
        """Whoever was elected and cannot listen would be elected again: so the others had better do without
        this server."""
        addresses = self._membership.me.addresses
        endpoints = [(address.host, address.quorum_port) for address in addresses]
        tries = 0
        while True:
            try:
                return await listen_at(
                    self._network, endpoints, on_all_addresses=self._settings.leader_host_is_any
                )
            except OSError as failure:
                tries += 1
                line = "|".join(map(str, addresses))
                problem = f"cannot listen for learners (server.{self._my_id}={line}): {failure}"
                if tries == LISTEN_TRIES_MAX:
                    raise CannotListen(f"{problem}. {bind_remedy(failure)}") from failure
                log.error("quorum_port_not_bound", reason=problem, remedy=bind_remedy(failure))
            await trio.sleep(LISTEN_RETRY_S)

    async def _accept(self, listeners: list[trio.abc.Listener[trio.abc.Stream]]) -> None:
        await serve_peers(self._serve_connection, listeners)

    async def _hold_office(self) -> str:
        with trio.move_on_after(self._settings.init_limit_s) as self._establishing:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_prospects)
                await self._establish()
                nursery.cancel_scope.cancel()
        if self._given_up:
            return self._given_up
        if self._establishing.cancelled_caught:
            return "no quorum of followers took over this server's history in time"
        self._serve()
        return await self._keep_leading()

    async def _establish(self) -> None:
        self._connected(self._my_id, max(self._epochs.accepted, self._epochs.heard))
        await self._epoch_proposed.wait()
        self._stage_began_at = trio.current_time()
        log.info("epoch_proposed", epoch=self._agreement.epoch)
        self._epoch_acked(self._my_id, Summary(self._epochs.current, self._replica.last_zxid))
        await self._epoch_accepted.wait()
        self._stage_began_at = trio.current_time()
        self._new_leader_acked(self._my_id)
        await self._quorum_synced.wait()

    async def _watch_prospects(self) -> None:
        """Give up early if a quorum has become impossible: an election finds a leader before initLimit ends.

        What makes it impossible may be a stranger's lie about a member that is on its way: so not at once.
        """
        hopeless_since: float | None = None
        while True:
            await trio.sleep(PROSPECTS_EVERY_S)
            now = trio.current_time()
            if self._has_quorums(self._prospects(now)):
                hopeless_since = None
            elif hopeless_since is None:
                hopeless_since = now
            elif now >= hopeless_since + HOPELESS_S:
                self._give_up(f"of the voters only {sorted(self._prospects(now))} may follow yet")

    def _prospects(self, now: float) -> set[int]:
        """Voters that follow us, or may do so yet: because they are connected, or could come soon."""
        prospects = {self._my_id}
        lost: Collection[int] = ()
        if self._epoch_accepted.is_set():
            prospects |= self._synced | {each.server_id for each in self.learners if not each.is_observer}
        else:
            lost = self._agreement.lost
            prospects |= self._agreement.with_us
        prospects.update(self._answering.values())
        if now < self._stage_began_at + self._absent_patience_s:
            prospects |= self._listed() - set(lost)
        return prospects

    @property
    def phase(self) -> str:
        """Zab's, by the name operators know."""
        if not self._epoch_accepted.is_set():
            return "discovery"
        return "broadcast" if self._serving.is_set() else "synchronization"

    @property
    def proposals(self) -> Proposals:
        assert self._proposals is not None
        return self._proposals

    @property
    def successor(self) -> int | None:
        """Who leads next, if that is settled."""
        return None if self._proposals is None else self._proposals.successor

    @property
    def uptime_ms(self) -> int:
        return 0 if self._served_since is None else ms_since(self._served_since)

    @property
    def _epoch_zxid(self) -> int:
        return make_zxid(self._agreement.epoch, 0)

    def _connected(self, server_id: int, accepted_epoch: int, *, is_observer: bool = False) -> None:
        if self._agreement.connected(server_id, accepted_epoch, is_observer=is_observer):
            self._epochs.accept(self._agreement.epoch)  # before anybody is told
            self._membership.give_first_version(self._epoch_zxid)
            self._proposals = Proposals(
                self._epoch_zxid,
                self.learners,
                self._alive,
                membership=self._membership,
                replica=self._replica,
                stats=self._stats,
                rules=self._settings.reconfig,
            )
            self._epoch_proposed.set()

    def _epoch_acked(self, server_id: int, theirs: Summary, *, is_observer: bool = False) -> None:
        if self._agreement.acked(server_id, theirs, is_observer=is_observer):
            self._epochs.enter(self._agreement.epoch)  # before anybody takes over our history
            self._epoch_accepted.set()

    async def _make_way_for(self, link: LearnerLink, server_id: int, accepted_epoch: int) -> None:
        """A member that has promised a later epoch than ours can never follow us: only a new one lets it in.

        So it is with a server that proposed an epoch and was left alone with it, while the others agreed on
        an earlier one. Waiting for the next election would leave them without it until another one fails.

        But anybody can say so, and it costs the ensemble its leader. It is believed of a member that does not
        follow us at the moment, at that member's own address, and not again soon (EpochKeeper).
        """
        member = self._membership.committed.members.get(server_id)
        if accepted_epoch <= self._agreement.epoch or member is None or self._is_followed_by(server_id):
            return
        if not self._epochs.believes_claim(trio.current_time()):
            return
        is_from_there = await self._network.is_at(link.stream, [each.host for each in member.addresses])
        now = trio.current_time()
        if not is_from_there or self._is_followed_by(server_id) or not self._epochs.believes_claim(now):
            return
        self._epochs.believe_claim(accepted_epoch, now)
        reason = f"server {server_id} has accepted epoch {accepted_epoch}, which is after ours"
        self._give_up(reason)
        raise PeerError(reason)

    def _is_followed_by(self, server_id: int) -> bool:
        return any(each.is_synced for each in self._connections_of(server_id))

    def _give_up(self, reason: str) -> None:
        if self._serving.is_set():
            self.proposals.end(reason)
        else:
            self._given_up = reason
            self._establishing.cancel()

    def _new_leader_acked(self, server_id: int) -> None:
        self._synced.add(server_id)
        if self._has_quorums(self._synced):
            self._quorum_synced.set()

    def _has_quorums(self, servers: set[int]) -> bool:
        pending = self._membership.pending_verifier()
        return self._membership.verifier().contains_quorum(servers) and (
            pending is None or pending.contains_quorum(servers)
        )

    def _serve(self) -> None:
        epoch = self._agreement.epoch
        self.proposals.begin()
        self._on_established(epoch)
        self._serving.set()
        self._served_since = trio.current_time()
        log.info(
            f"Have quorum of supporters, sids: [{sorted(self._synced)}]; "
            f"starting up and setting last processed zxid: 0x{self._replica.last_zxid:x}"
        )
        log.info(
            "leading",
            epoch=epoch,
            zxid=format_zxid(self._replica.last_zxid),
            followers=sorted(self._synced - {self._my_id}),
            took_ms=ms_since(self._begun_at),
        )

    async def _keep_leading(self) -> str:
        """Twice in a tick let the learners know that we are there; once, see whether they are."""
        proposals = self.proposals
        while True:
            for is_whole_tick in (False, True):
                with trio.move_on_after(self._settings.tick_s / 2):
                    await proposals.ends_now.wait()
                if proposals.must_end:
                    return proposals.must_end
                self._ping()
                if is_whole_tick:
                    self._tick += 1
                    self._look_for_ready_follower()
                    if not self._has_quorums(self._alive()):
                        return f"only servers {sorted(self._alive())} are still there, which is no quorum"

    def _alive(self) -> set[int]:
        followers = [each for each in self.learners if not each.is_observer]
        return {each.server_id for each in followers if self._tick <= each.deadline_tick} | {self._my_id}

    def _look_for_ready_follower(self) -> None:
        """An oracle may let us commit alone what a follower that has left would have acked; but not before we
        have seen, at a tick, that it is gone."""
        was_ready = self._membership.has_ready_follower
        followers = [each for each in self.learners if each.is_forwarding and not each.is_observer]
        voters = self._membership.committed.voters
        self._membership.has_ready_follower = any(each.server_id in voters for each in followers)
        if was_ready and not self._membership.has_ready_follower:
            self.proposals.commit()
            self.proposals.end_batch()

    def _ping(self) -> None:
        ping = packet(PING, self.proposals.last_proposed)
        late_since = trio.current_time() - self._settings.sync_limit_s
        for learner in list(self.learners):
            if learner.awaited_ack is not None and learner.awaited_ack[1] < late_since:
                learner.link.abort(f"proposal {format_zxid(learner.awaited_ack[0])} was not acked in time")
            elif learner.is_sending:
                learner.link.send(ping)
                learner.link.flush()

    # -- one learner

    async def _serve_connection(self, stream: trio.abc.Stream) -> None:
        address = address_of(stream)
        link = LearnerLink(stream, data_bytes_max=self._settings.data_bytes_max)
        reason = await link.carry_on(partial(self._talk, link))
        self._admission.left(link)
        self._answering.pop(link, None)
        if reason:
            log.warning("learner_gone", server=link.server_id, address=address, reason=reason)

    async def _talk(self, link: LearnerLink) -> None:
        learner = await self._greet(link)
        try:
            await self._serve_learner(learner)
        finally:
            self._forget(learner)

    def _forget(self, learner: Learner) -> None:
        if learner.is_gone:
            return
        learner.is_gone = True
        learner.is_forwarding = learner.is_sending = False
        if learner in self.learners:
            self.learners.remove(learner)
            self.proposals.forget(learner.server_id)

    async def _greet(self, link: LearnerLink) -> Learner:
        """The beginning of discovery: who is it, and which epoch is there to be."""
        with patience(self._settings.init_limit_s):
            type_, zxid, data, _ = await self._admission.first_packet(link)
            if type_ not in (FOLLOWERINFO, OBSERVERINFO):
                raise PeerError(f"the first packet has type {type_}")
            info = read_learner_info(data)
            if info.config_version > self._membership.committed.version:
                raise PeerError(f"server {info.server_id} knows a newer configuration than we do")
            if not self._epochs.can_be_true(epoch_of(zxid)):
                raise PeerError(
                    f"server {info.server_id} says it has accepted epoch {epoch_of(zxid)}, which cannot be: "
                    f"ours is {self._epochs.accepted}. If it is no stranger, its acceptedEpoch is damaged: "
                    "stop it and write the highest one of the other members into that file"
                )
            if info.server_id == self._my_id:
                raise PeerError(f"another server has our id {self._my_id}")
            self._admission.introduced(link, info.server_id)
            self._answering[link] = info.server_id
            self._connected(info.server_id, epoch_of(zxid), is_observer=type_ == OBSERVERINFO)
            await self._make_way_for(link, info.server_id, epoch_of(zxid))
            await self._epoch_proposed.wait()
            return Learner(
                link,
                info.server_id,
                self._backlog_of(info.server_id),
                is_observer=type_ == OBSERVERINFO,
                deadline_tick=self._tick
                + self._in_ticks(self._settings.init_limit_s + self._settings.sync_limit_s),
            )

    def _backlog_of(self, server_id: int) -> Backlog:
        """It does not end with a connection: what was asked for there may not be committed yet."""
        for each, backlog in list(self._backlogs.items()):
            backlog.committed(self.proposals.last_committed)
            if not backlog.size_bytes and not self._connections_of(each):
                del self._backlogs[each]
        return self._backlogs.setdefault(server_id, Backlog())

    def _listed(self) -> set[int]:
        return {*self._membership.committed.members, *self._membership.last_seen.members}

    async def _serve_learner(self, learner: Learner) -> None:
        link, settings = learner.link, self._settings
        with patience(settings.init_limit_s):
            await link.send_now(packet(LEADERINFO, self._epoch_zxid, int_data(PROTOCOL_VERSION)))
            type_, peer_zxid, data, _ = await link.receive()
            if type_ != ACKEPOCH:
                raise PeerError(f"the epoch was answered with a packet of type {type_}")
            del self._answering[link]
            summary = Summary(read_int(data), peer_zxid)
            self._epoch_acked(learner.server_id, summary, is_observer=learner.is_observer)
            await self._epoch_accepted.wait()
            await self._enter(learner)
        started_at = trio.current_time()
        mode = await self._sync.bring_up_to_date(
            learner.server_id,
            link,
            peer_zxid,
            partial(self._begin_forwarding, learner),
            is_member=learner.server_id in self._listed(),
        )
        # Behind all that got into a snapshot while it was sent (ZOOKEEPER-3104).
        link.send(packet(NEWLEADER, self._epoch_zxid, config_text(self._config_for(learner)).encode()))
        async with trio.open_nursery() as nursery:
            learner.is_sending = True
            nursery.start_soon(link.send_queued)
            link.flush()
            with patience(settings.init_limit_s):
                early = await self._until_synced(learner)
                await self._serving.wait()
            link.send(packet(UPTODATE, -1))
            self._received(learner, [(ACK, early, None, None)])
            log.info(
                "learner_synced",
                server=learner.server_id,
                observer=learner.is_observer,
                **({} if learner.server_id in self._membership.committed.members else {"listed": False}),
                mode=mode.value,
                took_ms=ms_since(started_at),
            )
            await self._listen_to(learner)

    def _config_for(self, learner: Learner) -> Ensemble:
        """What UPTODATE puts in force. A follower is sent what is only proposed, and knows that it is; an
        observer is not."""
        if learner.is_observer and self._serving.is_set():
            return self._membership.committed
        return self._membership.last_seen

    async def _until_synced(self, learner: Learner) -> int:
        """Wait for the ack of NEWLEADER; returns how far the learner has acked proposals before it.

        Learners before 3.9.4 do that (ZOOKEEPER-4685). It must not count until they have entered our epoch:
        what they logged before could lose an election against a server that has entered it without.
        """
        early = self._epoch_zxid
        while True:
            type_, zxid, _, _ = await learner.link.receive()
            if type_ != ACK:
                raise PeerError(f"NEWLEADER was answered with a packet of type {type_}")
            if zxid == self._epoch_zxid:
                learner.is_synced = True
                if not learner.is_observer:
                    self._new_leader_acked(learner.server_id)
                return early
            early = max(early, zxid)

    async def _enter(self, learner: Learner) -> None:
        """From now on this is a connection of that server, beside others that say the same.

        Nobody can tell which is the server's own: another may be one it has given up, or this one a
        stranger's. So none ends for the sake of another, as with Apache, and what is acked on any of them
        counts. That is safe because of this: a server may have acked all that was proposed before it
        connected again, and may be asked to cut that off now. So all that is committed first, unless the
        others end meanwhile. (A ping lets us know at once of one whose other end is gone.)
        """
        proposed = self.proposals.last_proposed
        self._admission.entered(learner.link)
        for other in self._connections_of(learner.server_id):
            if other.is_sending:
                other.link.send(packet(PING, proposed))
                other.link.flush()
        while self.proposals.last_committed < proposed and self._connections_of(learner.server_id):
            await self.proposals.progress()
        self.learners.append(learner)

    def _connections_of(self, server_id: int) -> list[Learner]:
        return [each for each in self.learners if each.server_id == server_id]

    async def _listen_to(self, learner: Learner) -> None:
        settings, link = self._settings, learner.link
        with trio.CancelScope(deadline=trio.current_time() + settings.sync_limit_s) as silence:
            while True:
                packets = await link.receive_batch()
                silence.deadline = trio.current_time() + settings.sync_limit_s
                if learner.is_gone:
                    return
                learner.deadline_tick = self._tick + self._in_ticks(settings.sync_limit_s)
                self._received(learner, packets)
        raise PeerError(f"nothing was heard for {settings.sync_limit_s:g} s")

    def _in_ticks(self, seconds: float) -> int:
        return math.ceil(seconds / self._settings.tick_s)

    def _received(self, learner: Learner, packets: list[Packet]) -> None:
        proposals = self.proposals
        service = proposals.service
        assert service is not None
        service.begin_batch()
        requests = body_bytes = 0
        for type_, zxid, data, ids in packets:
            if type_ == ACK:
                self._acked(learner, zxid)
            elif type_ == REQUEST:
                session, cxid, op, body = read_request(data)
                service.forwarded(learner, session, cxid, op, body, ids or ())
                requests += 1
                body_bytes += len(body)
            elif type_ == PING:
                for session, timeout_ms in read_sessions(data):
                    service.touch(session, timeout_ms)
            elif type_ == REVALIDATE:
                session, timeout_ms = read_revalidate(data)
                self._stats.revalidations += 1
                is_valid = service.revalidate(learner, session, timeout_ms)
                learner.link.send(revalidated_packet(zxid, session, is_valid))
            else:
                log.warning("packet_not_understood", server=learner.server_id, type=type_)
        proposals.commit()
        proposals.end_batch()
        if requests:
            last = proposals.last_proposed + service.deferred
            self._check_backlog(learner.backlog, last, requests, body_bytes)

    def _check_backlog(self, backlog: Backlog, last: int, requests: int, body_bytes: int) -> None:
        backlog.add(last, requests, body_bytes)
        backlog.committed(self.proposals.last_committed)
        if backlog.size_bytes > BACKLOG_BYTES_MAX:
            raise PeerError(f"{backlog.size_bytes} bytes of its requests are not committed yet")

    def _acked(self, learner: Learner, zxid: int) -> None:
        if zxid > self.proposals.last_proposed:
            raise PeerError(f"{format_zxid(zxid)} is acked, which was never proposed")
        learner.acked(zxid)
        if counter_of(zxid) and epoch_of(zxid) == self._agreement.epoch and not learner.is_observer:
            learner.logged = max(learner.logged, zxid)
            self.proposals.acked(learner.server_id, zxid)

    # -- synchronisation

    def _begin_forwarding(self, learner: Learner, after: int) -> None:
        """In one step: queue what is committed after `after`, then what is proposed, and begin to forward."""
        for zxid, payload in self._replica.committed_log:
            if zxid > after:
                learner.link.send(committed_proposal(payload))
        if not learner.is_observer:
            self.proposals.send_outstanding(learner)
        learner.is_forwarding = True
        if not learner.is_observer and learner.server_id in self._membership.committed.voters:
            self._membership.has_ready_follower = True
