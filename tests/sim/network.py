"""A virtual network: hosts by name, and streams between them that fail as TCP's do.

    bytes of a connection arrive in order, later than they were sent, and cut anywhere
    a cut link        one way or both: what is sent waits, as TCP's retransmissions do, until the link is
                      whole again, and maybe as long again (`retransmits_late`); who dials waits as well
    a reset           both ends fail, at once or as soon as the news arrives; what was under way is lost
    a silent peer     nothing arrives any more, and nobody says so
    a dead process    its system closes its connections; what had been sent still arrives
    a dead machine    is silent; once it is up again, it resets connections it does not know

Every delay comes from the network's own Random and every delivery from the virtual clock, so a seed gives the
same conversation each time. A stream holds at most WINDOW_BYTES that were not read: then its sender waits.
"""

import errno
import socket
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from random import Random

import attrs
import trio

from tests.sim.disk import Killed
from tests.sim.virtual_time import VirtualClock

WINDOW_BYTES = 256 * 1024
SYN_TIMEOUT_S = 127.0
RETRANSMISSION_S = (0.05, 0.8)
RETRANSMISSION_S_MAX = 60.0


@attrs.define
class Link:
    """The way from one host to another; the way back is another link."""

    delay_s: float
    jitter_s: float
    slowness: float = 1.0
    cuts: int = 0  # how many faults cut it at present
    cut_at: float = 0.0  # the first of them
    well_from: float = 0.0  # when what the last fault did to it is felt no more
    waiting: list["Pipe"] = attrs.field(factory=list)

    def draw_delay(self, chance: Random) -> float:
        return (self.delay_s + self.jitter_s * chance.random()) * self.slowness


@attrs.define(eq=False)
class Segment:
    """What is sent at once; None is the end. It may get lost and be sent again, but keeps its place."""

    pieces: list[bytes | None]
    is_under_way: bool = False
    is_here: bool = False


class Pipe:
    """One direction of a connection."""

    def __init__(self, network: "VirtualNetwork", link: Link, source: str, target: str) -> None:
        self.network = network
        self.link = link
        self.source = source
        self.target = target
        self.arrived = bytearray()
        self.unread_bytes = 0  # sent and not yet read, wherever they are
        self.held: list[Segment] = []  # did not get through, and wait for the link
        self.held_since = 0.0
        self.is_silent = False
        self.is_broken = False
        self.is_ended = False  # no more will be sent
        self.end_arrived = False
        self.reader: trio.lowlevel.Task | None = None
        self.is_reader_gone = False
        self.writers = trio.lowlevel.ParkingLot()
        self._sent: deque[Segment] = deque()  # and not handed over yet, in order
        self._last_arrival = 0.0
        self.on_refused: Callable[[], None] = _nothing  # whom the receiving system tells: nobody reads here

    def send(self, data: bytes | None) -> None:
        """Send bytes, or the end."""
        if data is not None:
            self.unread_bytes += len(data)
        if self.is_silent:
            return
        network = self.network
        arrival = max(self._last_arrival, network.clock.time + self.link.draw_delay(network.chance))
        if self._sent and self._sent[-1].is_under_way and arrival == self._last_arrival:
            self._sent[-1].pieces.append(data)
            return
        self._sent.append(Segment([data]))
        self._depart([self._sent[-1]], arrival)

    def _depart(self, segments: "list[Segment]", arrival: float) -> None:
        self._last_arrival = arrival
        for segment in segments:
            segment.is_under_way = True
        self.network.clock.call_at(arrival, partial(self._arrive, segments))

    def _arrive(self, segments: "list[Segment]") -> None:
        """What overtook something that did not get through waits for it here."""
        for segment in segments:
            segment.is_under_way = False
        if self.is_silent:
            return
        if self.link.cuts:
            self._hold(segments)
            return
        if self.is_broken or self.is_reader_gone or self.network.is_down(self.target):
            if any(segment.pieces != [None] for segment in segments):
                self.on_refused()
            return
        for segment in segments:
            segment.is_here = True
        while self._sent and self._sent[0].is_here:
            self._hand_over(self._sent.popleft())
        network = self.network
        network.fingerprint = hash((network.fingerprint, network.clock.time, len(self.arrived)))
        self.wake_reader()

    def _hand_over(self, segment: "Segment") -> None:
        for piece in segment.pieces:
            if piece is None:
                self.end_arrived = True
            else:
                self.arrived += piece

    def _hold(self, segments: "list[Segment]") -> None:
        if not self.held:
            self.link.waiting.append(self)
            self.held_since = self.network.clock.now()
        self.held += segments

    def link_restored(self) -> None:
        segments, self.held = self.held, []
        if segments and not self.is_silent:  # also if nobody reads there any more: it finds out
            now = self.network.clock.now()
            shortest, longest = RETRANSMISSION_S
            if self.network.retransmits_late:  # the pause between two tries doubles each time
                longest = max(longest, min(now - self.held_since, RETRANSMISSION_S_MAX))
            arrival = max(self._last_arrival, now + self.network.chance.uniform(shortest, longest))
            self._depart(segments, arrival)

    def wake_reader(self) -> None:
        reader, self.reader = self.reader, None
        if reader is not None:
            trio.lowlevel.reschedule(reader)

    def take(self, size_max: int | None) -> bytes:
        arrived, network = self.arrived, self.network
        size = len(arrived)
        if size_max is not None and size_max < size:
            size = size_max
        if size > 1 and network.chance.random() < network.cut_anywhere:
            size = network.chance.randint(1, size)
        data = bytes(arrived) if size == len(arrived) else bytes(arrived[:size])
        del arrived[:size]
        self.unread_bytes -= size
        if self.writers and self.unread_bytes < WINDOW_BYTES:
            self.writers.unpark_all()
        return data

    def tell_waiting_sender(self) -> None:
        """Nobody will read here. Who has filled the window sends nothing more, but asks for room."""
        if self.unread_bytes >= WINDOW_BYTES and not self.is_silent:
            self.on_refused()

    def fail(self) -> None:
        self.is_broken = True
        self.arrived.clear()
        self.wake_reader()
        self.writers.unpark_all()


class VirtualStream(trio.abc.HalfCloseableStream):
    """One end of a connection. Meets what Trio says of streams, except that not every call yields."""

    def __init__(self, connection: "Connection", host: "HostNetwork", outgoing: Pipe, incoming: Pipe) -> None:
        self.connection = connection
        self.host = host
        self.outgoing = outgoing
        self.incoming = incoming
        self.is_closed = False
        self.is_reset = False

    @property
    def peer_name(self) -> str:
        return self.outgoing.target

    def _check(self) -> None:
        self.host.check_alive()
        if self.is_closed:
            raise trio.ClosedResourceError("this stream was closed here")

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._check()
        await trio.lowlevel.checkpoint_if_cancelled()
        pipe = self.outgoing
        if pipe.is_ended:
            raise trio.ClosedResourceError("the end was already sent")
        if self.is_reset or pipe.unread_bytes >= WINDOW_BYTES:
            await self.wait_send_all_might_not_block()
        if data:
            pipe.send(bytes(data))

    def direct(self) -> "DirectEnd":
        return DirectEnd(self)

    async def wait_send_all_might_not_block(self) -> None:
        self._check()
        pipe = self.outgoing
        while pipe.unread_bytes >= WINDOW_BYTES and not self.is_reset:
            await pipe.writers.park()
            self._check()
        if self.is_reset:
            raise trio.BrokenResourceError(errno.ECONNRESET, "reset by peer")

    async def send_eof(self) -> None:
        self._check()
        await trio.lowlevel.checkpoint()
        if not self.outgoing.is_ended:
            self.outgoing.is_ended = True
            self.outgoing.send(None)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        self._check()
        pipe = self.incoming
        if pipe.arrived or pipe.end_arrived or self.is_reset:  # else it is waited for, which can be cancelled
            await trio.lowlevel.checkpoint_if_cancelled()
        while not pipe.arrived:
            if self.is_reset:
                raise trio.BrokenResourceError(errno.ECONNRESET, "reset by peer")
            if pipe.end_arrived:
                return b""
            await self._wait_readable()
            self._check()
        return pipe.take(max_bytes)

    async def receive_before(self, deadline: float) -> bytes | None:
        """The same for a simulated client, or None once it is too late. Costs less than a cancel scope."""
        clock = self.host.network.clock
        pipe = self.incoming
        if not pipe.arrived and not pipe.end_arrived and not self.is_reset:
            task = trio.lowlevel.current_task()
            waiting = [task]

            def too_late() -> None:
                if waiting and pipe.reader is task:
                    pipe.wake_reader()

            clock.call_at(deadline, too_late)
            await self._wait_readable()
            waiting.clear()
        if pipe.arrived:
            return pipe.take(None)
        if self.is_reset or pipe.end_arrived:
            return b""
        return None

    async def _wait_readable(self) -> None:
        pipe = self.incoming
        if pipe.reader is not None:
            raise trio.BusyResourceError("another task reads this stream")
        pipe.reader = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            pipe.reader = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def close(self) -> None:
        """What the system does when a socket is closed, or its process dies."""
        if self.is_closed:
            return
        self.is_closed = True
        self.connection.closed_by(self)

    async def aclose(self) -> None:
        if self.host.is_alive:
            self.close()
        await trio.lowlevel.checkpoint_if_cancelled()


class DirectEnd:
    """Meets quorum.learner_links.Direct: takes what fits into the window, at once."""

    def __init__(self, stream: VirtualStream) -> None:
        self._stream = stream

    def send(self, data: bytes) -> int:
        stream, pipe = self._stream, self._stream.outgoing
        stream.host.check_alive()
        if stream.is_closed or stream.is_reset:
            raise BrokenPipeError(errno.EPIPE, "this stream is no more")
        size = min(len(data), WINDOW_BYTES - pipe.unread_bytes)
        if size <= 0:
            raise BlockingIOError(errno.EAGAIN, "the window is full")
        pipe.send(data if size == len(data) else data[:size])
        return size

    def close(self) -> None:
        """The stream itself is closed by whoever has it."""


class Connection:
    """Both ends."""

    def __init__(self, network: "VirtualNetwork", dialler: "HostNetwork", listener: "HostNetwork") -> None:
        self.network = network
        there = Pipe(network, network.link(dialler.name, listener.name), dialler.name, listener.name)
        back = Pipe(network, network.link(listener.name, dialler.name), listener.name, dialler.name)
        self.dialled = VirtualStream(self, dialler, there, back)
        self.accepted = VirtualStream(self, listener, back, there)
        there.on_refused = partial(self._refused, self.dialled)
        back.on_refused = partial(self._refused, self.accepted)
        for stream in (self.dialled, self.accepted):
            stream.host.streams[stream] = None

    @property
    def hosts(self) -> "tuple[HostNetwork, HostNetwork]":
        return self.dialled.host, self.accepted.host

    def closed_by(self, stream: VirtualStream) -> None:
        stream.host.streams.pop(stream, None)
        stream.incoming.is_reader_gone = True
        stream.incoming.wake_reader()
        stream.outgoing.writers.unpark_all()
        if not stream.is_reset and not stream.outgoing.is_ended:
            stream.outgoing.is_ended = True
            stream.outgoing.send(None)
        if stream.incoming.arrived:  # nobody will read it, and who sent it may be waiting for that
            stream.incoming.on_refused()

    def _refused(self, sender: VirtualStream) -> None:
        """Something arrived where nobody reads: the system there says so, if there is one."""
        if sender.is_closed or sender.is_reset:
            return
        if self.network.is_down(sender.outgoing.target):
            sender.outgoing.is_silent = True
            sender.host.network.unanswered.setdefault(sender.outgoing.target, []).append(sender)
            return
        clock = self.network.clock
        if sender.incoming.link.cuts or sender.outgoing.link.cuts:  # it tries again, and is told again
            clock.call_later(RETRANSMISSION_S[1], partial(self._refused, sender))
        else:
            clock.call_later(
                sender.incoming.link.draw_delay(self.network.chance), partial(self.reset, sender)
            )

    def reset(self, *ends: VirtualStream) -> None:
        """These ends learn that the connection is no more."""
        for end in ends or (self.dialled, self.accepted):
            end.is_reset = True
            end.outgoing.fail()
            end.incoming.fail()
        for end in ends:
            end.incoming.tell_waiting_sender()

    def disturb(self, until: float) -> None:
        """Whoever watches is not to expect much of these two until then."""
        for pipe in (self.dialled.outgoing, self.accepted.outgoing):
            pipe.link.well_from = max(pipe.link.well_from, until)

    def silence(self) -> None:
        """Nothing arrives any more."""
        self.dialled.outgoing.is_silent = True
        self.accepted.outgoing.is_silent = True


class VirtualListener(trio.abc.Listener[VirtualStream]):
    def __init__(self, host: "HostNetwork", port: int) -> None:
        self.host = host
        self.port = port
        self._waiting: deque[VirtualStream] = deque()
        self._acceptors = trio.lowlevel.ParkingLot()
        self._is_closed = False

    def offer(self, stream: VirtualStream) -> None:
        self._waiting.append(stream)
        self._acceptors.unpark()

    async def accept(self) -> VirtualStream:
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._waiting:
            if self._is_closed:
                raise trio.ClosedResourceError("this listener was closed")
            self.host.check_alive()
            await self._acceptors.park()
        self.host.check_alive()
        return self._waiting.popleft()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self.host.listeners.pop(self.port, None)
        self._acceptors.unpark_all()
        for stream in self._waiting:
            stream.close()
        self._waiting.clear()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint_if_cancelled()


class HostNetwork:
    """The network as one process sees it. Meets quorum.network.Network.

    Once its process is dead, everything raises Killed: whatever that process still does has no effect.
    """

    def __init__(self, network: "VirtualNetwork", name: str) -> None:
        self.network = network
        self.name = name
        self.is_alive = True
        self.listeners: dict[int, VirtualListener] = {}
        self.streams: dict[VirtualStream, None] = {}

    def check_alive(self) -> None:
        if not self.is_alive:
            raise Killed

    async def listen(self, host: str | None, port: int) -> Sequence[VirtualListener]:
        self.check_alive()
        await trio.lowlevel.checkpoint()
        if port in self.listeners:
            raise OSError(errno.EADDRINUSE, f"port {port} of {self.name} is taken")
        listener = self.listeners[port] = VirtualListener(self, port)
        return [listener]

    async def dial(self, host: str, port: int) -> VirtualStream:
        self.check_alive()
        network = self.network
        with trio.move_on_after(SYN_TIMEOUT_S):
            await network.wait_for_way(self.name, host)
            there, back = network.link(self.name, host), network.link(host, self.name)
            await trio.sleep(there.draw_delay(network.chance) + back.draw_delay(network.chance))
            await network.wait_for_way(self.name, host)
            self.check_alive()
            return self._connect(network.hosts[host], port)
        raise TimeoutError(errno.ETIMEDOUT, f"{host} does not answer")

    async def is_at(self, stream: trio.abc.Stream, hosts: Collection[str]) -> bool:
        await trio.lowlevel.checkpoint_if_cancelled()
        return isinstance(stream, VirtualStream) and stream.peer_name in hosts

    def _connect(self, target: "HostNetwork", port: int) -> VirtualStream:
        listener = target.listeners.get(port)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {target.name}:{port}")
        connection = Connection(self.network, self, target)
        listener.offer(connection.accepted)
        return connection.dialled

    def die(self, *, with_machine: bool) -> None:
        """The process ends without a word; its system says what is to be said, unless it ends as well."""
        self.is_alive = False
        for listener in list(self.listeners.values()):
            listener.close()
        for stream in list(self.streams):
            if with_machine:
                stream.is_closed = True
                stream.outgoing.is_silent = True
                stream.incoming.is_reader_gone = True
                stream.incoming.tell_waiting_sender()
            else:
                stream.close()
            stream.incoming.wake_reader()
            stream.outgoing.writers.unpark_all()
        self.streams.clear()


class VirtualNetwork:
    """All hosts and what connects them."""

    def __init__(self, clock: VirtualClock, chance: Random, *, delay_s: float, jitter_s: float) -> None:
        self.clock = clock
        self.chance = chance
        self.cut_anywhere = 0.05  # how often a receiver gets only a part of what arrived
        self.retransmits_late = False
        self.fingerprint = 0  # of all deliveries so far: when, and how much
        self.hosts: dict[str, HostNetwork] = {}
        self.unanswered: dict[str, list[VirtualStream]] = {}  # by machine that is down: who spoke to it
        self._delay_s = delay_s
        self._jitter_s = jitter_s
        self._links: dict[tuple[str, str], Link] = {}
        self._down: dict[str, None] = {}
        self._changed = trio.lowlevel.ParkingLot()

    def boot(self, name: str) -> HostNetwork:
        """A new process under this name, on a machine that is up."""
        self._down.pop(name, None)
        host = self.hosts[name] = HostNetwork(self, name)
        for stream in self.unanswered.pop(name, []):
            delay = self.chance.uniform(*RETRANSMISSION_S)
            self.clock.call_later(delay, partial(stream.connection.reset, stream))
        self._changed.unpark_all()
        return host

    def kill(self, name: str, *, with_machine: bool) -> None:
        if with_machine:
            self._down[name] = None
        self.hosts[name].die(with_machine=with_machine)

    def is_down(self, name: str) -> bool:
        return name in self._down

    def link(self, source: str, target: str) -> Link:
        link = self._links.get((source, target))
        if link is None:
            spread = self.chance.uniform(0.5, 1.5)
            link = Link(self._delay_s * spread, self._jitter_s * spread)
            self._links[source, target] = link
        return link

    def linked_from(self, one: str, other: str) -> float:
        """Since when two hosts reach each other as they should, both ways; now or later if they do not."""
        links = self.link(one, other), self.link(other, one)
        if any(link.cuts or link.slowness != 1.0 for link in links):
            return self.clock.now()
        return max(link.well_from for link in links)

    def cut(self, source: str, target: str) -> None:
        link = self.link(source, target)
        if not link.cuts:
            link.cut_at = self.clock.now()
        link.cuts += 1

    def restore(self, source: str, target: str) -> None:
        link = self.link(source, target)
        link.cuts -= 1
        if not link.cuts:
            now = self.clock.now()
            patience_s = now - link.cut_at if self.retransmits_late else 0.0
            link.well_from = now + max(RETRANSMISSION_S[1], min(patience_s, RETRANSMISSION_S_MAX))
            waiting, link.waiting = link.waiting, []
            for pipe in waiting:
                pipe.link_restored()
            self._changed.unpark_all()

    async def wait_for_way(self, source: str, target: str) -> None:
        if target not in self.hosts:
            raise socket.gaierror(socket.EAI_NONAME, f"{target} is not known")
        while self.link(source, target).cuts or self.link(target, source).cuts or self.is_down(target):
            await self._changed.park()

    def connections(self) -> list[Connection]:
        found: dict[Connection, None] = {}
        for host in self.hosts.values():
            for stream in host.streams:
                found[stream.connection] = None
        return list(found)


def _nothing() -> None:
    pass
