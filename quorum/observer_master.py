"""A follower that serves observers, so that the leader need not: observerMasterPort.

An observer takes it for a leader: the handshake and the synchronisation are the same. What the observer asks
for is asked of the leader as if our own clients had, and the answers find their way back because the leader
gives them in the order of the questions (Learning keeps that order). So nearly nothing is decided here, and
nobody is waited for: whatever an observer is told is committed.

What is decided here is who owns a session. For the leader it is ours, whether its client is connected to us
or to one of our observers, so the leader cannot tell a write that comes late, from a connection which the
client has left, from one of those it made since. The last of us that was granted the session has it.

    serve
    ├── one task for each observer: handshake, synchronisation, then its packets; a second one sends
    └── pings, twice in a tick
"""

from collections.abc import Sequence
from functools import partial
from random import Random
from struct import Struct
from typing import Protocol

import trio

from eventlog import log
from jute.opcodes import OpCode
from jute.zxid import counter_of, epoch_of, format_zxid, make_zxid
from persistence.log_format import TXN_HEADER_BYTES
from persistence.offload import Offload
from quorum.admission import Admission
from quorum.errors import PeerError
from quorum.learner_links import LearnerLink, ms_since, patience
from quorum.learner_sync import LearnerSync, committed_proposal
from quorum.membership import Membership
from quorum.network import Network, address_of, serve_peers
from quorum.packets import (
    ACK,
    ACKEPOCH,
    INFORM,
    INFORMANDACTIVATE,
    LEADERINFO,
    NEWLEADER,
    OBSERVERINFO,
    PING,
    PROTOCOL_VERSION,
    REQUEST,
    REVALIDATE,
    SYNC,
    UPTODATE,
    AuthIds,
    Packet,
    int_data,
    long_data,
    packet,
    read_learner_info,
    read_request,
    read_revalidate,
    read_sessions,
    revalidated_packet,
)
from quorum.peer_stats import PeerStats
from quorum.replica import Replica
from quorum.server_lines import Ensemble, Member, config_text
from quorum.settings import PeerSettings

_LONG = Struct(">q")
_TXN_TYPE = slice(TXN_HEADER_BYTES - 4, TXN_HEADER_BYTES)
_CLOSE_SESSION = int(OpCode.CLOSE_SESSION).to_bytes(4, "big", signed=True)


class Asker(Protocol):
    """Whoever asks the leader through us: our own clients' service, or an observer."""

    def sync_done(self) -> None: ...

    def revalidated(self, session: int, is_valid: bool) -> None: ...


class Relay(Protocol):
    """The way to the leader. Answers come back to the asker."""

    def ask(self, asker: Asker, session: int, cxid: int, op: int, body: bytes, ids: AuthIds | None) -> None:
        """A request for the leader."""

    def ask_revalidation(self, asker: Asker, session: int, timeout_ms: int) -> None:
        """May this session go on there?"""

    def flush(self) -> None:
        """Nothing more will be asked for now."""


class Observer:
    """An observer as its master sees it."""

    def __init__(self, link: LearnerLink, server_id: int) -> None:
        self.link = link
        self.server_id = server_id
        self.is_forwarding = False  # it is told every commit
        self.is_sending = False  # its queue is being sent: before that a ping would end up in a snapshot
        self.is_gone = False

    def sync_done(self) -> None:
        self._answer(packet(SYNC, 0))

    def revalidated(self, session: int, is_valid: bool) -> None:
        self._answer(revalidated_packet(-1, session, is_valid))

    def _answer(self, data: bytes) -> None:
        if not self.is_gone:
            self.link.send(data)


class ObserverMaster:
    """Serves observers while we follow, in this epoch. `observers` are there from their handshake on."""

    def __init__(
        self,
        *,
        settings: PeerSettings,
        membership: Membership,
        network: Network,
        replica: Replica,
        offload: Offload,
        relay: Relay,
        epoch: int,
        stats: PeerStats | None = None,
    ) -> None:
        self._settings = settings
        self._membership = membership
        self._network = network
        self._replica = replica
        self._sync = LearnerSync(settings, replica, offload, stats or PeerStats(), _always)
        self._relay = relay
        self._epoch = epoch
        self.observers: list[Observer] = []  # one for each connection, so one may be there twice
        self._admission = Admission(lambda: membership.committed.members)
        self._touched: dict[int, int] = {}  # timeouts of sessions that observers have heard
        self._owners: dict[int, Asker] = {}  # of sessions that the leader was asked about, until they end

    @property
    def synced_count(self) -> int:
        return sum(each.is_forwarding for each in self.observers)

    async def serve(self) -> None:
        """Listen for observers until cancelled."""
        listeners = await self._listen()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._ping)
            await serve_peers(self._serve_connection, listeners, nursery)

    async def _listen(self) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        """A port that cannot be had costs us no more than observers: the ensemble needs us as a follower.

        (The original stops following, and comes back to the same port.)
        """
        address, port = self._membership.me.addresses[0], self._settings.observer_master_port
        host = None if self._settings.leader_host_is_any else address.host
        is_reported = False
        while True:
            try:
                listeners = await self._network.listen(host, port)
            except OSError as failure:
                if not is_reported:
                    is_reported = True
                    log.error("observer_master_port_not_bound", host=host, port=port, reason=str(failure))
            else:
                log.info("observer_master_port_open", host=host, port=port, epoch=self._epoch)
                return listeners
            await trio.sleep(self._settings.tick_s)

    async def _ping(self) -> None:
        while True:
            await trio.sleep(self._settings.tick_s / 2)
            ping = packet(PING, self._replica.last_zxid)
            for observer in self.observers:
                if observer.is_sending:
                    observer.link.send(ping)
                    observer.link.flush()

    # -- what we hear from the leader

    def committed(self, zxid: int, payload: bytes) -> None:
        """This transaction is committed, and will be applied before anything else happens."""
        if self._owners and payload[_TXN_TYPE] == _CLOSE_SESSION:
            self._owners.pop(_LONG.unpack_from(payload)[0], None)
        self._tell(packet(INFORM, zxid, payload))

    def activated(self, zxid: int, payload: bytes, designated: int) -> None:
        """This one is too, and with it a configuration is in force in which `designated` leads."""
        self._tell(packet(INFORMANDACTIVATE, zxid, long_data(designated) + payload))

    def _tell(self, data: bytes) -> None:
        for observer in self.observers:
            if observer.is_forwarding:
                observer.link.send(data)

    def flush(self) -> None:
        for observer in self.observers:
            if observer.is_sending:
                observer.link.flush()

    def session_granted(self, session: int, asker: Asker) -> None:
        """The leader lets it go on there."""
        self._owners[session] = asker

    def has_left(self, session: int, asker: Asker) -> bool:
        """Whether its client has gone on somewhere else behind us since."""
        return self._owners.get(session, asker) is not asker

    def take_touched(self) -> dict[int, int]:
        """Sessions that observers have heard since the last call, with their timeouts."""
        touched, self._touched = self._touched, {}
        return touched

    # -- one observer

    async def _serve_connection(self, stream: trio.abc.Stream) -> None:
        address = address_of(stream)
        settings = self._settings
        link = LearnerLink(
            stream,
            data_bytes_max=settings.data_bytes_max,
            queued_bytes_max=settings.observer_master_queued_bytes_max,
        )
        reason = await link.carry_on(partial(self._talk, link))
        self._admission.left(link)
        if reason:
            log.warning("observer_gone", server=link.server_id, address=address, reason=reason)

    async def _talk(self, link: LearnerLink) -> None:
        observer = await self._greet(link)
        try:
            await self._serve_observer(observer)
        finally:
            self._forget(observer)

    def _forget(self, observer: Observer) -> None:
        observer.is_gone = True
        observer.is_forwarding = observer.is_sending = False
        if observer in self.observers:
            self.observers.remove(observer)

    async def _greet(self, link: LearnerLink) -> Observer:
        with patience(self._settings.init_limit_s):
            type_, _, data, _ = await self._admission.first_packet(link)
        if type_ != OBSERVERINFO:
            raise PeerError(f"the first packet has type {type_}: only observers are served here")
        info = read_learner_info(data)
        if info.config_version > self._membership.committed.version:
            raise PeerError(f"server {info.server_id} knows a newer configuration than we do")
        self._admission.introduced(link, info.server_id)
        return Observer(link, info.server_id)

    async def _serve_observer(self, observer: Observer) -> None:
        link, init_limit_s = observer.link, self._settings.init_limit_s
        with patience(init_limit_s):
            await link.send_now(packet(LEADERINFO, self._epoch_zxid, int_data(PROTOCOL_VERSION)))
            type_, peer_zxid, _, _ = await link.receive()
        if type_ != ACKEPOCH:
            raise PeerError(f"the epoch was answered with a packet of type {type_}")
        if epoch_of(peer_zxid) == self._epoch and peer_zxid > self._replica.last_zxid:
            # What an observer has of this epoch is committed: it must not cut that off because we are slow.
            raise PeerError(f"the observer has {format_zxid(peer_zxid)}, which is not committed here yet")
        self._enter(observer)
        started_at = trio.current_time()
        mode = await self._sync.bring_up_to_date(
            observer.server_id,
            link,
            peer_zxid,
            partial(self._begin_forwarding, observer),
            is_member=observer.server_id in self._membership.committed.members,
        )
        # Behind all that got into a snapshot while it was sent (ZOOKEEPER-3104).
        link.send(packet(NEWLEADER, self._epoch_zxid, config_text(self._membership.committed).encode()))
        async with trio.open_nursery() as nursery:
            observer.is_sending = True
            nursery.start_soon(link.send_queued)
            link.flush()
            with patience(init_limit_s):
                type_, _, _, _ = await link.receive()
            if type_ != ACK:
                raise PeerError(f"NEWLEADER was answered with a packet of type {type_}")
            link.send(packet(UPTODATE, -1))
            link.flush()
            log.info(
                "observer_synced", server=observer.server_id, mode=mode.value, took_ms=ms_since(started_at)
            )
            await self._listen_to(observer)

    @property
    def _epoch_zxid(self) -> int:
        return make_zxid(self._epoch, 0)

    def _enter(self, observer: Observer) -> None:
        """From now on this is a connection of that observer, beside others that say the same: one of them may
        be a stranger's, so none ends for the sake of another."""
        self._admission.entered(observer.link)
        self.observers.append(observer)

    def _begin_forwarding(self, observer: Observer, after: int) -> None:
        """In one step: queue what is committed after `after`, and begin to forward."""
        link = observer.link
        for zxid, payload in self._replica.committed_log:
            if zxid > after:
                link.send(committed_proposal(payload))
        observer.is_forwarding = True

    async def _listen_to(self, observer: Observer) -> None:
        limit_s = self._settings.sync_limit_s
        with trio.CancelScope(deadline=trio.current_time() + limit_s) as silence:
            while True:
                packets = await observer.link.receive_batch()
                silence.deadline = trio.current_time() + limit_s
                if observer.is_gone:
                    return
                self._received(observer, packets)
        raise PeerError(f"nothing was heard for {limit_s:g} s")

    def _received(self, observer: Observer, packets: list[Packet]) -> None:
        for type_, zxid, data, ids in packets:
            if type_ == REQUEST:
                self._relay.ask(observer, *read_request(data), ids)
            elif type_ == PING:
                self._touched.update(read_sessions(data))
            elif type_ == REVALIDATE:
                self._relay.ask_revalidation(observer, *read_revalidate(data))
            elif type_ != ACK:
                log.warning("packet_not_understood", server=observer.server_id, type=type_)
            elif counter_of(zxid):
                raise PeerError(f"an observer acked {format_zxid(zxid)}, which is for voters to do")
        self._relay.flush()


def masters_to_try(observer_id: int, leader: int, ensemble: Ensemble, random: Random) -> list[Member]:
    """The followers an observer may ask to serve it, all of them once, beginning anywhere."""
    followers = [ensemble.members[sid] for sid in sorted(ensemble.voters - {observer_id, leader})]
    first = random.randrange(len(followers)) if followers else 0
    return followers[first:] + followers[:first]


def _always() -> bool:
    """A follower serves clients as long as it serves observers."""
    return True
