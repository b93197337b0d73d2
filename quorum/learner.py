"""Following a leader, or observing one: take over its history, then log, acknowledge and apply what it sends.

What is durable before which acknowledgement is the heart of it:
  - the epoch is accepted on disk before it is acknowledged (ZOOKEEPER-1291);
  - the leader's history is on disk, then currentEpoch, then NEWLEADER is acknowledged, in that order
    (ZOOKEEPER-3911, 4643, 4646, 4785);
  - a proposal is acknowledged after the fsync that covers it.
Only what is committed is applied; what was proposed and not committed while we synchronised waits until the
leader says UPTODATE (ZOOKEEPER-4394).

In a DIFF, committed transactions are logged and applied as they come, not when all are there: a server may be
a million behind. If the connection breaks half-way, our history is a longer beginning of the leader's than
before, and says so itself: nothing is ever taken for granted because a leader announced it (ZOOKEEPER-2355).

A snapshot is needed when our history cannot be mended otherwise: it cannot be cut back, the leader's has a
hole, or a digest shows that our tree is not the one it should be. It is asked for by reporting zxid 0, and
only on a connection on which we are not counted for the new epoch: who is counted must say how far its
history goes, or it would help a leader into office that has less. So it may take a second connection. For a
wrong digest it is asked for once in an epoch, and never again of a leader whose snapshot did not help: if it
is the leader whose digests are wrong, all of its learners would stop serving again and again.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice

import attrs
import trio

from eventlog import log
from jute.client_records import DeleteRequest
from jute.opcodes import OpCode
from jute.record import encode
from jute.zxid import epoch_of, format_zxid, make_zxid
from persistence.errors import StorageError
from persistence.log_format import TXN_HEADER_BYTES, follows, zxid_of
from quorum.discovery import ALREADY_ACCEPTED
from quorum.epochs import EpochKeeper
from quorum.errors import PeerError
from quorum.learner_links import LearnerLink, ms_since, patience
from quorum.membership import Membership
from quorum.network import Network, dial_any, shown
from quorum.observer_master import Asker, ObserverMaster, Relay
from quorum.packets import (
    ACK,
    ACKEPOCH,
    COMMIT,
    COMMITANDACTIVATE,
    DIFF,
    FOLLOWERINFO,
    INFORM,
    INFORMANDACTIVATE,
    LEADERINFO,
    NEWLEADER,
    OBSERVERINFO,
    PING,
    PROPOSAL,
    REVALIDATE,
    SNAP,
    SYNC,
    TRUNC,
    UPTODATE,
    AuthIds,
    Packet,
    int_data,
    learner_info,
    packet,
    packets_without_data,
    ping_answer,
    read_long,
    read_revalidated,
    request_packet,
    revalidate_packet,
)
from quorum.peer_stats import PeerStats
from quorum.reconfiguration import Departure, config_in, departure_after, is_reconfiguration
from quorum.replica import LearnerService, Replica
from quorum.server_lines import Ensemble, Member, read_config_text
from quorum.setting_text import BadValue
from quorum.settings import PeerSettings

_SYNC = int(OpCode.SYNC)
_CLOSE_SESSION = int(OpCode.CLOSE_SESSION)
# What takes the place of a write that must not be done: every leader makes a transaction of it that says no,
# and whoever forwarded the write waits for a transaction.
_REFUSED_BY_ALL = int(OpCode.DELETE), encode(DeleteRequest("/", -1))
# A leader that was elected a moment ago may not listen yet.
_DIAL_PAUSES_S = (0.01, 0.02, 0.04, 0.08, 0.1, 0.1, 0.1, 0.1)
_SYNC_EVERY_BYTES = 256 << 10
_MASTER_PATIENCE_TICKS = 2
# A leader that was elected a moment ago and answers nobody does not hear us, and others could lead meanwhile.
# Where all are slow this is too short, so it is doubled each time it was in vain.
_UNANSWERED_PATIENCE_S = 3.0
_MASTER_PAUSE_S = 0.1


# Makes one, if we are to serve observers: of the way to the leader, and the epoch.
ServeObservers = Callable[[Relay, int], ObserverMaster]


@attrs.define
class Doubts:
    """What digests have told about our tree so far, from one leader to the next."""

    mismatches: int = 0  # that were dealt with
    asked_in_epoch: int = -1
    unhelpful_leader: int | None = None  # its snapshot met wrong digests too

    def call_for_snapshot(self, mismatches: int, epoch: int, leader_id: int) -> bool:
        """Whether there are new mismatches, and the leader of this epoch is to be asked for its tree."""
        if mismatches == self.mismatches:
            return False
        self.mismatches = mismatches
        if epoch == self.asked_in_epoch:
            self.unhelpful_leader = leader_id
        if leader_id == self.unhelpful_leader:
            return False
        self.asked_in_epoch = epoch
        return True


class Learning:
    """One leader's learner, from dialling it to losing it. `learn` returns why that ended; `departure` is
    there if a new configuration made us leave."""

    def __init__(
        self,
        *,
        settings: PeerSettings,
        membership: Membership,
        network: Network,
        replica: Replica,
        epochs: EpochKeeper,
        is_observer: bool,
        needs_snapshot: bool,
        doubts: "Doubts | None" = None,
        on_synced: Callable[[int], None],
        serve_observers: ServeObservers | None = None,
        stats: PeerStats | None = None,
        tries_before: int = 0,
    ) -> None:
        """`tries_before`: how often a role of ours has ended in vain just now."""
        self._settings = settings
        self._connect_limit_s = min(
            settings.connect_limit_s, _UNANSWERED_PATIENCE_S * 2.0 ** min(tries_before, 10)
        )
        self._membership = membership
        self._network = network
        self._replica = replica
        self._epochs = epochs
        self._is_observer = is_observer
        self._on_synced = on_synced
        self._serve_observers = serve_observers
        self.observer_master: ObserverMaster | None = None  # while we are one
        self._stats = stats or PeerStats()
        self.phase = "discovery"  # Zab's, by the name operators know
        self._sync_mode = ""
        self._sync_started_at = 0.0
        self._epoch = 0
        self._leader_id = 0
        self.master_id: int | None = None  # the leader's, or that of a follower in its place
        self.departure: Departure | None = None
        self._link: LearnerLink | None = None
        self._service: LearnerService | None = None
        self._logs = not is_observer or settings.observer_logs
        self.needs_snapshot = needs_snapshot
        self._doubts = doubts or Doubts()
        self._proposed: deque[tuple[int, bytes]] = deque()  # while synchronising: not applied yet
        self._unsynced_bytes = 0  # about how much was handed to the log while synchronising
        self._committed_count = 0  # of these, that are committed since NEWLEADER
        self._last_proposed: int | None = None  # its zxid; None if whatever comes next is right
        self._uncommitted: deque[tuple[int, bytes]] = deque()  # handed to the service
        self._unacked: deque[int] = deque()  # zxids handed to the log
        # Who asked the leader what: it answers in the order of the questions.
        self._syncs: deque[Asker] = deque()
        self._revalidations: deque[tuple[int, Asker]] = deque()

    # -- the whole way

    async def learn(self, leader: Member, masters: Sequence[Member] = ()) -> str:
        """An observer tries `masters` first, followers that may serve it in the leader's place."""
        self._leader_id = leader.server_id
        for pause_s in _DIAL_PAUSES_S:
            reason = await self._learn_once(leader, masters)
            # A leader that does not listen yet refuses connections, and dialling is patient with that. Behind
            # a proxy, a container's published port for one, it accepts and hangs up instead.
            if self._link is None or not self._link.was_closed_unanswered:
                return reason
            await trio.sleep(pause_s)
        return await self._learn_once(leader, masters)

    async def _learn_once(self, leader: Member, masters: Sequence[Member]) -> str:
        self._link = None
        try:
            stream = await self._dial_master(masters) or await self._dial(leader)
        except PeerError as failure:
            return str(failure)
        self._link = link = LearnerLink(stream, data_bytes_max=self._settings.data_bytes_max)
        try:
            return await link.carry_on(partial(self._learn, link))
        finally:
            self._replica.on_logged(_nobody)

    async def _dial_master(self, masters: Sequence[Member]) -> trio.abc.Stream | None:
        """The first that answers; each is given a tick.

        Followers that are still being brought up to date do not listen yet: all are asked again for a while.
        """
        give_up_at = trio.current_time() + _MASTER_PATIENCE_TICKS * self._settings.tick_s
        while masters:
            for master in masters:
                port = self._settings.observer_master_port
                with trio.move_on_after(self._settings.tick_s), suppress(OSError):
                    endpoints = [(address.host, port) for address in master.addresses]
                    stream = await dial_any(self._network.dial, endpoints)
                    self.master_id = master.server_id
                    return stream
            if trio.current_time() >= give_up_at:
                log.info("no_observer_master_answers", tried=[each.server_id for each in masters])
                break
            await trio.sleep(_MASTER_PAUSE_S)
        return None

    async def _dial(self, leader: Member) -> trio.abc.Stream:
        """At all of its addresses: one of its networks may be down."""
        self.master_id = leader.server_id
        endpoints = [(address.host, address.quorum_port) for address in leader.addresses]
        reason = f"{', '.join(map(shown, endpoints))} took too long"
        with trio.move_on_after(self._connect_limit_s):
            try:
                return await dial_any(self._dial_patiently, endpoints)
            except OSError as failure:
                reason = str(failure)
        raise PeerError(f"cannot reach leader {leader.server_id}: {reason}")

    async def _dial_patiently(self, host: str, port: int) -> trio.abc.Stream:
        for pause_s in _DIAL_PAUSES_S:
            with suppress(OSError):
                return await self._network.dial(host, port)
            await trio.sleep(pause_s)
        return await self._network.dial(host, port)

    async def _learn(self, link: LearnerLink) -> None:
        with patience(self._settings.init_limit_s):
            await self._discover(link)
        await self._synchronise(link)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.send_queued)
            if self._serve_observers is not None and not self._is_observer:
                self.observer_master = self._serve_observers(self, self._epoch)
                nursery.start_soon(self.observer_master.serve)
            self._start_serving(link)
            await self._listen(link)

    # -- discovery

    async def _discover(self, link: LearnerLink) -> None:
        info = learner_info(self._membership.my_id, self._membership.committed.version)
        hello = OBSERVERINFO if self._is_observer else FOLLOWERINFO
        await link.send_now(packet(hello, make_zxid(self._epochs.accepted, 0), info))
        type_, zxid, _, _ = await link.receive()
        if type_ != LEADERINFO:
            raise PeerError(f"the leader began with a packet of type {type_}")
        self._epoch = epoch_of(zxid)
        current = self._accept(self._epoch)
        self._look_for_mismatch()
        asks_for_snapshot = self.needs_snapshot and current == ALREADY_ACCEPTED
        last_zxid = 0 if asks_for_snapshot else self._replica.last_zxid
        await link.send_now(packet(ACKEPOCH, last_zxid, int_data(current)))

    def _look_for_mismatch(self) -> bool:
        """Whether digests have told that our tree is wrong, and this leader may help."""
        mismatches = self._replica.digest_mismatches
        if self.needs_snapshot:  # it is asked for already: this says nothing of what the leader has
            self._doubts.mismatches = mismatches
            return False
        if not self._doubts.call_for_snapshot(mismatches, self._epoch, self._leader_id):
            return False
        log.error(
            "tree_differs_from_leaders", leader=self._leader_id, epoch=self._epoch, mismatches=mismatches
        )
        self.needs_snapshot = True
        return True

    def _leave_if_tree_is_wrong(self) -> None:
        if self._look_for_mismatch():
            raise PeerError("a digest shows that our tree is not the leader's: we ask for a snapshot")

    def _accept(self, epoch: int) -> int:
        """Promise to follow no earlier leader; returns what to say of our history.

        Who has made the promise before must not be counted for it again (T10).
        """
        if epoch < self._epochs.accepted:
            raise PeerError(
                f"the leader's epoch {epoch} is before {self._epochs.accepted}, which we accepted"
            )
        if epoch == self._epochs.accepted:
            return ALREADY_ACCEPTED
        self._epochs.accept(epoch)
        return self._epochs.current

    # -- synchronisation

    async def _synchronise(self, link: LearnerLink) -> None:
        """Until UPTODATE: our history is the leader's, on disk, and acknowledged."""
        self.phase, self._sync_started_at = "synchronization", trio.current_time()
        with patience(self._settings.init_limit_s):
            mode, zxid, _, _ = await link.receive()
        self._sync_mode = _MODES.get(mode, str(mode))
        self.phase = f"synchronization - {self._sync_mode.lower()}"
        log.info(
            "synchronising",
            leader=self._leader_id,
            mode=self._sync_mode,
            zxid=format_zxid(zxid),
            our_zxid=format_zxid(self._replica.last_zxid),
            epoch=self._epoch,
        )
        await self._begin(link, mode, zxid)
        is_new_leader = False
        leaders_config: Ensemble | None = None
        while True:
            if (received := link.next_packet()) is None:
                await self._receive_more(link)
                continue
            type_, zxid, data, _ = received
            type_, data, designated = _without_activation(type_, data)
            if type_ in (PROPOSAL, INFORM):
                payload = self._next_txn(zxid, data)
                self._proposed.append((zxid, payload))
                self._see_config(payload)
            if designated is not None:
                self._activate(self._config_seen(zxid), designated)
                self._leave_if_we_must()
            if type_ in (COMMIT, INFORM) and is_new_leader:
                self._commit_later(zxid)
            elif type_ in (COMMIT, INFORM):
                self._commit_now(zxid, mode)
            elif type_ == NEWLEADER:
                leaders_config = _read_leaders_config(data)
                if leaders_config is not None:
                    self._membership.see(leaders_config)
                await self._take_over(link, mode, zxid)
                is_new_leader = True
            elif type_ == UPTODATE:
                if not is_new_leader:
                    raise PeerError("UPTODATE came before NEWLEADER")
                self._activate(None if self._is_only_proposed(leaders_config) else leaders_config, None)
                self._leave_if_we_must()
                return

    def _is_only_proposed(self, leaders_config: Ensemble | None) -> bool:
        """A leader shows the newest configuration it has seen. If that one is under way, we are told when it
        is in force, and maybe our ack is needed for that: to go by it now could be the end of both."""
        uncommitted = islice(self._proposed, self._committed_count, None)
        return leaders_config is not None and any(zxid == leaders_config.version for zxid, _ in uncommitted)

    async def _receive_more(self, link: LearnerLink) -> None:
        """One sync for much of what we missed; and if the disk is slow the leader has to wait, not our memory
        to grow."""
        if self._unsynced_bytes >= _SYNC_EVERY_BYTES:
            self._unsynced_bytes = 0
            await self._replica.log_drained()
        with patience(self._settings.init_limit_s):
            await link.receive_more()

    async def _begin(self, link: LearnerLink, mode: int, zxid: int) -> None:
        if self.needs_snapshot and mode in (DIFF, TRUNC):
            raise PeerError("we need a snapshot, and ask for it when we come again")
        if mode == DIFF:
            self._last_proposed = self._replica.last_zxid
            if self._logs:
                await self._replica.make_durable()  # or our log would have a hole
        elif mode == TRUNC:
            try:
                await self._replica.truncate(zxid)
            except StorageError as failure:
                self.needs_snapshot = True
                raise PeerError(f"the log cannot be cut back to {format_zxid(zxid)}: {failure}") from failure
            self._last_proposed = zxid
        elif mode == SNAP:
            await self._restore(link, zxid)
        else:
            raise PeerError(f"synchronisation began with a packet of type {mode}")

    async def _restore(self, link: LearnerLink, zxid: int) -> None:
        """Take the leader's tree. If it does not come whole, go back to what is on disk (ZOOKEEPER-3642)."""
        restoring = await self._replica.begin_restore()
        rest: bytes | None = None
        is_whole = False
        try:
            while rest is None:
                with patience(self._settings.init_limit_s):
                    rest = restoring.feed(await link.receive_raw())
            restoring.finish(zxid)
            is_whole = True
        except StorageError as failure:
            raise PeerError(f"the leader sent no tree: {failure}") from failure
        finally:
            if not is_whole:
                with trio.CancelScope(shield=True):
                    await self._replica.reload()
        link.put_back(rest)

    def _next_txn(self, zxid: int, data: bytes | None) -> bytes:
        """What a proposal carries. It goes into our log as it is, so it must be what the packet says.

        A hole in what we are sent must not become one in what we have: better to take all of it anew.
        """
        if data is None or len(data) < TXN_HEADER_BYTES or zxid_of(data) != zxid:
            raise PeerError(f"proposal {format_zxid(zxid)} does not carry its transaction")
        last, self._last_proposed = self._last_proposed, zxid
        if last is not None and not follows(last, zxid):
            self.needs_snapshot = True
            raise PeerError(f"proposal {format_zxid(zxid)} does not follow {format_zxid(last)}")
        return data

    def _commit_now(self, zxid: int, mode: int) -> None:
        """Before NEWLEADER. What follows a snapshot is not logged: it will be in the snapshot we save."""
        if not self._proposed or self._proposed[0][0] != zxid:
            raise PeerError(f"commit {format_zxid(zxid)} is not of the oldest proposal")
        _, payload = self._proposed.popleft()
        if zxid <= self._replica.last_zxid:
            return  # it was in the snapshot that was sent
        self._replica.apply(payload)  # first: what cannot be applied must not be in the log
        if mode != SNAP and self._logs:
            self._replica.log(payload)
            self._unsynced_bytes += len(payload)
        elif mode != SNAP:
            self._replica.leave_unlogged()

    def _commit_later(self, zxid: int) -> None:
        """After NEWLEADER: applied when we serve."""
        if len(self._proposed) <= self._committed_count or self._proposed[self._committed_count][0] != zxid:
            raise PeerError(f"commit {format_zxid(zxid)} is not of the oldest proposal")
        self._committed_count += 1

    async def _take_over(self, link: LearnerLink, mode: int, zxid: int) -> None:
        """The leader's history is complete: make it durable, then enter its epoch, then say so."""
        if epoch_of(zxid) != self._epoch:
            raise PeerError(f"NEWLEADER is of epoch {epoch_of(zxid)}, not of {self._epoch}")
        if mode == SNAP:
            await self._replica.adopt_snapshot()
            self.needs_snapshot = False
            self._doubts.mismatches = self._replica.digest_mismatches
        else:
            self._leave_if_tree_is_wrong()
            await self._replica.log_drained()
        self._epochs.enter(self._epoch)
        if mode == SNAP:  # only now: with a vote, but in an earlier epoch, our history would count for less
            with trio.CancelScope(shield=True):
                await self._replica.fetched()
        await link.send_now(packet(ACK, make_zxid(self._epoch, 0)))

    # -- serving

    def _start_serving(self, link: LearnerLink) -> None:
        service = self._service = self._replica.learn(self, is_observer=self._is_observer)
        self._replica.on_logged(self._logged)
        self._on_synced(self._epoch)
        self._report_sync()
        link.send(packet(ACK, make_zxid(self._epoch, 0)))
        for zxid, payload in self._proposed:
            self._take_proposal(service, zxid, payload)
        for _ in range(self._committed_count):
            self._take_commit(self._uncommitted[0][0])
        service.committed(self._committed_count)
        self._proposed.clear()
        self._end_batch(service)

    def _report_sync(self) -> None:
        self.phase = "broadcast"
        took_ms = ms_since(self._sync_started_at)
        stats = self._stats
        (stats.observer_sync_times if self._is_observer else stats.follower_sync_times).add(took_ms)
        log.info(
            "observing" if self._is_observer else "following",
            leader=self._leader_id,
            **({} if self.master_id == self._leader_id else {"through": self.master_id}),
            epoch=self._epoch,
            zxid=format_zxid(self._replica.last_zxid),
            mode=self._sync_mode,
            took_ms=took_ms,
        )

    async def _listen(self, link: LearnerLink) -> None:
        limit_s = self._settings.sync_limit_s
        with trio.CancelScope(deadline=trio.current_time() + limit_s) as silence:
            while True:
                packets = await link.receive_batch()
                silence.deadline = trio.current_time() + limit_s
                self._received(link, packets)
                if self.departure is not None:
                    await link.say_last()
                    self._leave_if_we_must()
        raise PeerError(f"the leader said nothing for {limit_s:g} s")

    def _received(self, link: LearnerLink, packets: list[Packet]) -> None:
        service = self._service
        assert service is not None
        service.begin_batch()
        committed = 0  # commits that stand together are applied together
        for type_, zxid, data, _ in packets:
            if type_ == COMMIT and not self._is_observer:
                self._take_commit(zxid)
                committed += 1
                continue
            if type_ == PROPOSAL and not self._is_observer:
                self._take_proposal(service, zxid, self._next_txn(zxid, data))
                continue
            if type_ == INFORM and self._is_observer:
                self._take_proposal(service, zxid, self._next_txn(zxid, data))
                self._take_commit(zxid)
                committed += 1
                continue
            if committed:
                service.committed(committed)
                committed = 0
            if type_ in (COMMITANDACTIVATE, INFORMANDACTIVATE):
                self._commit_config(service, type_, zxid, data)
                if self.departure is not None:
                    # If the leader stays, sessions must not suffer from who has not found us again yet.
                    link.send(ping_answer(zxid, self._touched(service)))
                    break
            elif type_ == PING:
                link.send(ping_answer(zxid, self._touched(service)))
            elif type_ == SYNC:
                (self._syncs.popleft() if self._syncs else service).sync_done()
            elif type_ == REVALIDATE:
                self._revalidated(service, *read_revalidated(data))
            else:
                log.warning("packet_not_understood", type=type_)
        if committed:
            service.committed(committed)
        self._end_batch(service)
        if self._replica.digest_mismatches != self._doubts.mismatches:
            self._leave_if_tree_is_wrong()

    def _end_batch(self, service: LearnerService) -> None:
        """Replies leave before the log is written: clients need not wait for what is proposed next. Who asked
        for a reconfiguration is answered even if we leave then."""
        service.end_batch()
        assert self._link is not None
        self._link.flush()
        if self.observer_master is not None:
            self.observer_master.flush()
        self._replica.flush_log()

    def _touched(self, service: LearnerService) -> list[tuple[int, int]]:
        touched = service.touched()
        if self.observer_master is None:
            return touched
        return list({**self.observer_master.take_touched(), **dict(touched)}.items())

    def _revalidated(self, service: LearnerService, session: int, is_valid: bool) -> None:
        asker: Asker = service
        for asked in self._revalidations:
            if asked[0] == session:
                self._revalidations.remove(asked)
                asker = asked[1]
                break
        if is_valid and self.observer_master is not None:
            self.observer_master.session_granted(session, asker)
            if asker is not service:
                service.session_left(session)
        asker.revalidated(session, is_valid)

    def _take_proposal(self, service: LearnerService, zxid: int, payload: bytes) -> None:
        self._see_config(payload)
        self._stats.proposals_received += not self._is_observer
        service.proposed(payload)
        self._uncommitted.append((zxid, payload))
        if self._logs:
            self._unacked.append(zxid)
            self._replica.log(payload)
        else:
            self._replica.leave_unlogged()

    def _take_commit(self, zxid: int, designated: int | None = None) -> None:
        if not self._uncommitted or self._uncommitted[0][0] != zxid:
            raise PeerError(f"commit {format_zxid(zxid)} is not of the oldest proposal")
        _, payload = self._uncommitted.popleft()
        self._stats.commits_received += 1
        if self.observer_master is None:
            return
        if designated is None:
            self.observer_master.committed(zxid, payload)
        else:
            self.observer_master.activated(zxid, payload, designated)

    def _logged(self, count: int) -> None:
        """The oldest `count` proposals in the log are durable: say so. Observers are not asked."""
        zxids = [self._unacked.popleft() for _ in range(count)]
        if not self._is_observer:
            assert self._link is not None
            self._link.send(packets_without_data(ACK, zxids))
            self._link.flush()

    # -- reconfiguration

    def _see_config(self, payload: bytes) -> None:
        """A reconfiguration is known, here and on disk, before we acknowledge it."""
        if is_reconfiguration(payload):
            proposed = config_in(payload)
            if proposed is None:
                raise PeerError("the leader proposes a configuration that makes no sense")
            self._membership.see(proposed)

    def _config_seen(self, zxid: int) -> Ensemble | None:
        """What the transaction that is committed now proposed."""
        last_seen = self._membership.last_seen
        return last_seen if last_seen.version == zxid else None

    def _activate(self, now: Ensemble | None, designated: int | None) -> None:
        """A configuration is in force, if we know one. `designated` leads from now on, if we are told."""
        before = self._membership.committed
        if now is not None:
            self._membership.activate(now)
        self.departure = departure_after(
            self._membership.my_id, self._leader_id, before, self._membership.committed, designated
        )

    def _leave_if_we_must(self) -> None:
        if self.departure is not None:
            raise PeerError("the new configuration changes our role or our leader")

    def _commit_config(self, service: LearnerService, type_: int, zxid: int, data: bytes | None) -> None:
        _, payload, designated = _without_activation(type_, data)
        if payload is not None:
            self._take_proposal(service, zxid, self._next_txn(zxid, payload))
        self._take_commit(zxid, designated)
        self._activate(self._config_seen(zxid), designated)
        service.committed(1)

    # -- what our clients ask for (quorum.replica.Upstream)

    def forward(self, session: int, cxid: int, op: int, body: bytes, ids: AuthIds | None) -> None:
        assert self._service is not None
        self.ask(self._service, session, cxid, op, body, ids)

    def revalidate(self, session: int, timeout_ms: int) -> None:
        assert self._service is not None
        self.ask_revalidation(self._service, session, timeout_ms)

    # -- and what observers ask for through us (quorum.observer_master.Relay)

    def ask(self, asker: Asker, session: int, cxid: int, op: int, body: bytes, ids: AuthIds | None) -> None:
        assert self._link is not None
        if op == _SYNC:
            self._syncs.append(asker)
        elif op != _CLOSE_SESSION and self._has_left(session, asker):
            op, body = _REFUSED_BY_ALL
        self._link.send(request_packet(session, cxid, op, body, ids))

    def _has_left(self, session: int, asker: Asker) -> bool:
        return self.observer_master is not None and self.observer_master.has_left(session, asker)

    def ask_revalidation(self, asker: Asker, session: int, timeout_ms: int) -> None:
        assert self._link is not None
        self._revalidations.append((session, asker))
        self._link.send(revalidate_packet(session, timeout_ms))

    def flush(self) -> None:
        assert self._link is not None
        self._link.flush()


_MODES = {DIFF: "DIFF", TRUNC: "TRUNC", SNAP: "SNAP"}


def _without_activation(type_: int, data: bytes | None) -> tuple[int, bytes | None, int | None]:
    """A packet that puts a configuration in force, as the plain one it extends, and the leader it names."""
    if type_ == COMMITANDACTIVATE:
        return COMMIT, None, read_long(data)
    if type_ == INFORMANDACTIVATE:
        return INFORM, (data or b"")[8:], read_long(data)
    return type_, data, None


def _read_leaders_config(data: bytes | None) -> Ensemble | None:
    """What NEWLEADER carries. Leaders before 3.5 send none."""
    if not data:
        return None
    try:
        return read_config_text(data.decode(), multi_address=True)
    except (UnicodeDecodeError, BadValue) as failure:
        log.warning("leaders_configuration_not_understood", reason=str(failure))
        return None


def _nobody(count: int) -> None:
    """Nobody waits for the log any more."""
