"""The connections over which servers elect a leader: one between any two of them.

The larger id keeps the connections it dials. A smaller one only knocks: it dials, says who it is, and hangs
up; the larger one dials back. Nothing is answered to the opening message, and no sign of life is asked for.

    run                    binds the election port, again whenever our own address changes
    ├── _dial_wanted       starts a dial for each server there is something to tell
    │   └── _dial          at most one for each server
    └── _accept            a task for each connection that comes in

Invariants:
  1. For each server at most one message waits, the newest; what it replaces is out of date anyhow.
  2. A new connection repeats the last message sent, if none waits: it may have been lost with the old one.
  3. Nobody dials without a reason: a message, a knock. So servers that have a leader leave each other alone.
  4. What a peer sends, or fails to send, ends its own connection and nothing else.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NoReturn, Protocol

import attrs
import trio

from eventlog import log
from jute.framing import FrameBuffer, FrameError, frame
from jute.quorum_records import Initiation, decode_initiation, encode_initiation
from jute.record import DecodeError, Truncated
from persistence.open_files import strangers_max
from quorum.errors import CannotListen, PeerError
from quorum.network import (
    Endpoint,
    Network,
    address_of,
    bind_remedy,
    dial_any,
    give_up_after,
    listen_at,
    repeat_soon,
    serve_peers,
    shown,
)
from quorum.server_lines import Address, Ensemble, host_and_ports
from quorum.setting_text import BadValue, port_number

MESSAGE_BYTES_MAX = 524_288
HALF_OPEN_MAX = 64  # connections that have not said who they are; the oldest gives way to a new one
STRANGERS_MAX = 256  # connected servers that no configuration lists
# How long a larger id is given to dial back before it is knocked at again. A knock that comes in so soon
# after we dialled has crossed our dial: it is answered already.
KNOCK_PATIENCE_S = 0.1
# After so many connections that lasted no longer than this we wait as long before we dial again: whoever ends
# them, such as a second server with the same id, would keep us busy with nothing else.
SHORT_LINKS_MAX = 3
SHORT_LINK_S = 1.0
BIND_RETRY_S = 1
ADDRESS_PATIENCE_S = 0.2
UNCONFIRMED_S = 3.0  # a link on which what was said is not confirmed for so long is dialled again
ANONYMOUS_OBSERVER = (1 << 63) - 1  # what observers of long ago called themselves
WILDCARDS = ("0.0.0.0", "::")
CHUNK_BYTES = 65_536

_BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError)


@attrs.frozen(kw_only=True)
class LinkSettings:
    connect_timeout_s: float = 5  # zookeeper.cnxTimeout
    initiation_timeout_s: float = 10  # quorumCnxnTimeoutMs, or tickTime * syncLimit
    bind_tries_max: int = 3  # zookeeper.electionPortBindRetry; 0: for ever
    listens_on_all: bool = False  # quorumListenOnAllIPs
    sends_all_addresses: bool = False  # multiAddress.enabled: older servers do not understand it
    waits_for_address: bool = False  # reconfigEnabled: who speaks matters from the first word on


class LinkListener(Protocol):
    """Who is told what happens on the links; nothing here waits."""

    def received(self, sid: int, message: bytes, *, is_first: bool, is_at_home: bool) -> None:
        """The first on a connection may be a repetition of an old one. `is_at_home`: it comes from an address
        that is listed for that server, as far as was found out yet."""

    def dial_failed(self, sid: int) -> None: ...

    def link_lost(self, sid: int) -> None: ...


@attrs.define(eq=False)
class _Peer:
    """One other server, as far as we talk to it."""

    sid: int
    waiting: bytes | None = None  # the newest message, not sent yet
    last_sent: bytes | None = None
    has_news: trio.Event = attrs.field(factory=trio.Event)  # set with `waiting`
    link: trio.CancelScope | None = None  # of the one connection in use
    is_at_home: bool = False  # the other end of that is at an address that is listed for this server
    address_known: trio.Event = attrs.field(factory=trio.Event)  # so much is known of it
    dialling: trio.CancelScope | None = None  # of the one dial under way
    dialled_at: float = -math.inf  # when we dialled it, or knocked there
    called_from: Sequence[Endpoint] = ()  # where it asked to be dialled back
    failure: str | None = None  # why it could not be dialled, if it could not the last time
    short_links: int = 0  # the last so many connections did not last
    says_it_is_at: tuple[str, ...] = ()  # when it last called
    is_doubtful: bool = False  # there may be two of it, and that was said

    def take_call(self) -> Sequence[Endpoint]:
        called_from, self.called_from = self.called_from, ()
        return called_from


class ElectionLinks:
    """Sends and receives messages; whoever uses it says which servers there are, by `set_members`."""

    def __init__(self, my_id: int, network: Network, settings: LinkSettings, listener: LinkListener) -> None:
        self._my_id = my_id
        self._network = network
        self._settings = settings
        self._listener = listener
        self._addresses: dict[int, Sequence[Address]] = {}  # of all members, ourselves included
        self._peers: dict[int, _Peer] = {}
        self._wanted: dict[int, _Peer] = {}  # to be dialled
        self._is_wanting = trio.Event()
        self._half_open: dict[trio.CancelScope, None] = {}
        self._listening = trio.CancelScope()
        self._last_anonymous = 0

    def set_members(self, committed: Ensemble, last_seen: Ensemble) -> None:
        """Who is where. Connections to servers that moved end; if we moved, the port is bound anew."""
        members = {**last_seen.members, **committed.members}
        before, now = self._addresses, {sid: member.addresses for sid, member in members.items()}
        now.setdefault(self._my_id, tuple(before.get(self._my_id, ())))
        self._addresses = dict(now)
        if self._my_id in before and before[self._my_id] != now[self._my_id]:
            self._listening.cancel()
        for peer in self._peers.values():
            if peer.sid in before and before[peer.sid] != now.get(peer.sid):
                _drop_link(peer)

    def send(self, sid: int, message: bytes) -> None:
        """Tell a server, as soon as it can be reached; forget what it was to be told before."""
        peer = self._peer(sid)
        peer.waiting = message
        peer.has_news.set()
        self._want(peer)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the links until cancelled; started once the port is bound. Raises CannotListen."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._dial_wanted)
            nursery.start_soon(self._listen, nursery, _Once(task_status))

    def reachable(self) -> list[int]:
        """Servers there is a connection with."""
        return sorted(sid for sid, peer in self._peers.items() if peer.link is not None)

    def unreachable(self) -> dict[int, str]:
        """Members there is none with, and why."""
        missing = sorted(self._addresses.keys() - {self._my_id} - set(self.reachable()))
        return {sid: self._peer(sid).failure or "does not answer" for sid in missing}

    def _peer(self, sid: int) -> _Peer:
        if sid not in self._peers:
            self._peers[sid] = _Peer(sid)
        return self._peers[sid]

    def _forget_stranger(self, peer: _Peer) -> None:
        """Of a server that is not listed nothing is kept beyond its connection."""
        if peer.sid not in self._addresses and peer.link is None and peer.dialling is None:
            self._peers.pop(peer.sid, None)

    # -- out

    def _want(self, peer: _Peer) -> None:
        is_waiting_for_call = peer.sid > self._my_id and self._has_just_dialled(peer)
        if peer.link is None and peer.dialling is None and not is_waiting_for_call:
            self._start_dial(peer)

    def _start_dial(self, peer: _Peer) -> None:
        peer.dialling = trio.CancelScope()
        self._wanted[peer.sid] = peer
        self._is_wanting.set()

    def _has_just_dialled(self, peer: _Peer) -> bool:
        return trio.current_time() < peer.dialled_at + KNOCK_PATIENCE_S

    async def _dial_wanted(self) -> NoReturn:
        async with trio.open_nursery() as dials:
            while True:
                await self._is_wanting.wait()
                self._is_wanting = trio.Event()
                wanted, self._wanted = self._wanted, {}
                for peer in wanted.values():
                    dials.start_soon(self._dial, peer)

    async def _dial(self, peer: _Peer) -> None:
        if peer.short_links >= SHORT_LINKS_MAX:
            await trio.sleep(SHORT_LINK_S)
            if peer.link is not None and not peer.called_from:  # it has called, which is as good
                peer.dialling = None
                return
        endpoints = [*peer.take_call(), *self._endpoints(peer.sid)]
        peer.dialled_at = trio.current_time()
        stream: trio.abc.Stream | None = None
        with trio.CancelScope() as peer.dialling:  # a call before this moment is answered by this dial
            stream = await self._reach(peer, endpoints)
        peer.dialling = None
        if stream is None:
            peer.dialled_at = -math.inf
            if peer.called_from:  # it called meanwhile: it is there now
                self._start_dial(peer)
            else:
                self._listener.dial_failed(peer.sid)
                self._forget_stranger(peer)
        elif peer.sid > self._my_id:
            await _close(stream)
        else:
            await self._keep(peer, stream)

    def _endpoints(self, sid: int) -> list[Endpoint]:
        return [(address.host, address.election_port) for address in self._addresses.get(sid, ())]

    async def _reach(self, peer: _Peer, endpoints: Iterable[Endpoint]) -> trio.abc.Stream | None:
        """A connection on which we have said who we are; None if no address answers.

        A server that is down is dialled again and again: only what is new about it is logged.
        """
        each_once = list(dict.fromkeys(endpoints))
        try:
            with trio.fail_after(self._settings.connect_timeout_s):
                return await self._open(each_once)
        except trio.TooSlowError:
            reason = f"{', '.join(map(shown, each_once))} did not answer in time"
        except (OSError, *_BROKEN) as error:
            reason = str(error.__cause__ or error)
        if peer.failure != reason:
            peer.failure = reason
            log.info("election_dial_failed", server=peer.sid, reason=reason)
        return None

    async def _open(self, endpoints: Sequence[Endpoint]) -> trio.abc.Stream:
        stream = await dial_any(self._network.dial, endpoints)
        try:
            # In one piece: the original gives up on one that arrives in two.
            await stream.send_all(encode_initiation(Initiation(self._my_id, self._advertised())))
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return stream

    def _advertised(self) -> tuple[str, ...]:
        all_mine = tuple(map(shown, self._endpoints(self._my_id)))
        return all_mine if self._settings.sends_all_addresses else all_mine[:1]

    # -- in

    async def _listen(self, connections: trio.Nursery, started: "_Once") -> NoReturn:
        while True:
            with trio.CancelScope() as self._listening:
                listeners = await self._bind()
                started.tell()
                log.info("election_port_open", addresses=self._endpoints(self._my_id))
                await serve_peers(self._accept, listeners, connections)

    async def _bind(self) -> list[trio.abc.Listener[trio.abc.Stream]]:
        tries = 0
        told = ""
        while True:
            try:
                return await listen_at(
                    self._network,
                    self._endpoints(self._my_id),
                    on_all_addresses=self._settings.listens_on_all,
                )
            except OSError as error:
                tries += 1
                where = ", ".join(map(shown, self._endpoints(self._my_id)))
                problem = f"cannot listen on the election port {where} (server.{self._my_id}): {error}"
                if tries == self._settings.bind_tries_max:
                    raise CannotListen(f"{problem}. {bind_remedy(error)}") from error
                if problem != told:  # it may be tried for ever
                    log.error("election_port_not_bound", reason=problem, remedy=bind_remedy(error))
                told = problem
            await trio.sleep(BIND_RETRY_S)

    async def _accept(self, stream: trio.abc.Stream) -> None:
        address = address_of(stream)
        try:
            initiation, rest = await self._read_initiation(stream)
            await self._admit(initiation, stream, rest)
        except (PeerError, DecodeError, BadValue, *_BROKEN) as problem:
            reason = problem.wording if isinstance(problem, BadValue) else str(problem)
            log.warning("election_connection_refused", address=address, reason=reason)
        finally:
            await trio.aclose_forcefully(stream)

    async def _read_initiation(self, stream: trio.abc.Stream) -> tuple[Initiation, bytes]:
        """Who dialled, and what arrived behind that."""
        if len(self._half_open) >= strangers_max(HALF_OPEN_MAX):
            oldest = next(iter(self._half_open))
            del self._half_open[oldest]  # now: the next may come before that one's task has run
            oldest.cancel()
        scope = trio.move_on_after(self._settings.initiation_timeout_s)
        self._half_open[scope] = None
        try:
            with scope:
                return await _read_initiation(stream)
        finally:
            self._half_open.pop(scope, None)
        raise PeerError("did not say in time which server it is")

    async def _admit(self, initiation: Initiation, stream: trio.abc.Stream, rest: bytes) -> None:
        """Keep the connection of a larger id; call a smaller one back."""
        sid = self._sid_in(initiation)
        self._check_room_for(sid)
        _see_whether_it_is_one(self._peer(sid), initiation.addresses)
        if sid > self._my_id:
            self._peer(sid).dialled_at = -math.inf  # the call we waited for
            await self._keep(self._peer(sid), stream, rest)
            return
        called_from = _read_endpoints(initiation.addresses)
        await trio.aclose_forcefully(stream)
        peer = self._peer(sid)
        peer.called_from = called_from
        is_busy = peer.link is not None or peer.dialling is not None
        if is_busy and self._has_just_dialled(peer):
            return
        # It had no connection when it called. By now it may have one, if the way is long: so ours is not
        # dropped, it is replaced once the next is there. Else two distant servers would never stop calling.
        if peer.dialling is not None:
            peer.dialling.cancel()
        else:
            self._start_dial(peer)

    def _sid_in(self, initiation: Initiation) -> int:
        if initiation.sid == self._my_id:
            raise PeerError(f"it calls itself server {self._my_id}, which is this one")
        if initiation.sid == ANONYMOUS_OBSERVER:
            self._last_anonymous -= 1
            return self._last_anonymous
        return initiation.sid

    def _check_room_for(self, sid: int) -> None:
        strangers = self._peers.keys() - self._addresses.keys()
        if (
            sid not in self._addresses
            and sid not in strangers
            and len(strangers) >= strangers_max(STRANGERS_MAX)
        ):
            raise PeerError(f"server {sid} is not listed, nor are {len(strangers)} more")

    # -- a connection

    async def _keep(self, peer: _Peer, stream: trio.abc.Stream, rest: bytes = b"") -> None:
        """Talk over this connection until it breaks, or a newer one takes its place."""
        _drop_link(peer)
        scope = peer.link = trio.CancelScope()
        peer.is_at_home, peer.address_known = False, trio.Event()
        up_since = trio.current_time()
        peer.called_from = ()
        peer.failure = None
        give_up_after(stream, UNCONFIRMED_S)
        repeat_soon(stream)
        log.info("election_link_up", server=peer.sid, address=address_of(stream))
        try:
            with scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._find_out_address, peer, stream, scope)
                    nursery.start_soon(_send_all, peer, stream, scope)
                    nursery.start_soon(self._receive_all, peer, stream, rest, scope)
        finally:
            await trio.aclose_forcefully(stream)
        is_short = trio.current_time() < up_since + SHORT_LINK_S
        peer.short_links = peer.short_links + 1 if is_short else 0
        if peer.link is scope:
            peer.link = None
            self._listener.link_lost(peer.sid)
        self._forget_stranger(peer)

    async def _find_out_address(self, peer: _Peer, stream: trio.abc.Stream, scope: trio.CancelScope) -> None:
        """Beside the conversation: a name may take long to be looked up."""
        hosts = {address.host for address in self._addresses.get(peer.sid, ())}
        is_at_home = await self._network.is_at(stream, hosts)
        if peer.link is scope:
            peer.is_at_home = is_at_home
            peer.address_known.set()

    async def _receive_all(
        self, peer: _Peer, stream: trio.abc.Stream, rest: bytes, scope: trio.CancelScope
    ) -> None:
        if self._settings.waits_for_address:
            with trio.move_on_after(ADDRESS_PATIENCE_S):
                await peer.address_known.wait()
        frames = FrameBuffer(MESSAGE_BYTES_MAX)
        reason = "the other side closed it"
        data = rest
        is_first = True
        try:
            while True:
                frames.feed(data)
                while (message := frames.next_frame()) is not None:
                    if not message:
                        raise FrameError("an empty frame")
                    self._listener.received(peer.sid, message, is_first=is_first, is_at_home=peer.is_at_home)
                    is_first = False
                data = bytes(await stream.receive_some(CHUNK_BYTES))
                if not data:
                    break
        except (FrameError, *_BROKEN) as error:
            reason = str(error) or "it broke"
        if peer.link is scope:
            log.info("election_link_lost", server=peer.sid, address=address_of(stream), reason=reason)
        scope.cancel()


async def _send_all(peer: _Peer, stream: trio.abc.Stream, scope: trio.CancelScope) -> None:
    try:
        if peer.waiting is None and peer.last_sent is not None:
            await stream.send_all(frame(peer.last_sent))
        while peer.link is scope:  # else a newer connection says what there is to say
            message, peer.waiting = peer.waiting, None
            if message is None:
                peer.has_news = trio.Event()
                await peer.has_news.wait()
            else:
                peer.last_sent = message
                await stream.send_all(frame(message))
    except _BROKEN:
        scope.cancel()


def _see_whether_it_is_one(peer: _Peer, addresses: tuple[str, ...]) -> None:
    """Two servers with one id push each other out, and no election ends. It may also have moved."""
    before, peer.says_it_is_at = peer.says_it_is_at, addresses
    if before and before != addresses and not peer.is_doubtful:
        peer.is_doubtful = True
        log.warning(
            "server_calls_from_elsewhere",
            server=peer.sid,
            before=", ".join(before),
            now=", ".join(addresses),
            remedy=f"unless it was moved, two servers have the id {peer.sid}: correct the myid of one",
        )


def _drop_link(peer: _Peer) -> None:
    if peer.link is not None:
        peer.link.cancel()
        peer.link = None


async def _read_initiation(stream: trio.abc.Stream) -> tuple[Initiation, bytes]:
    data = b""
    while True:
        chunk = await stream.receive_some(CHUNK_BYTES)
        if not chunk:
            raise PeerError("closed before it said which server it is")
        data += chunk
        try:
            initiation, end = decode_initiation(data)
        except Truncated:
            continue
        return initiation, data[end:]


def _read_endpoints(addresses: Iterable[str]) -> list[Endpoint]:
    """Where a caller wants to be called back; a host that means any of its addresses is no place to dial."""
    endpoints: list[Endpoint] = []
    for text in addresses:
        parts = host_and_ports(text)
        if len(parts) != 2 or not parts[0]:
            raise BadValue(f"{text!r} is no address", "write host:port")
        if parts[0] not in WILDCARDS:
            endpoints.append((parts[0], port_number(parts[1])))
    return endpoints


async def _close(stream: trio.abc.Stream) -> None:
    """Let go of a connection, and what was sent on it arrive."""
    try:
        await stream.aclose()
    except trio.BrokenResourceError:
        log.debug("election_knock_lost")


@attrs.define
class _Once:
    """Tells that something has started, the first time only."""

    task_status: trio.TaskStatus[None] | None

    def tell(self) -> None:
        if self.task_status is not None:
            self.task_status.started()
            self.task_status = None
