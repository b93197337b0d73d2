"""What a neighbour feels while one client, or a crowd, does the dearest thing it can.

The neighbour reads and writes at a steady rate, in a process of its own: the load generator. Meanwhile the
cause, one frame or one event, happens once. The figures, beside those with the Java server, are the
neighbour's longest wait and its p99 while the cause lasts, and its p99 over the whole run of ten seconds.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from struct import pack, unpack_from
from typing import TypeAlias

import attrs
import click

from bench.crowds import SESSION_MS, Crowd, text, watching
from bench.load import Histogram, LoadFailed, LoadResult, joined, run_load
from bench.measure import Plan, Round, Sample, figure_sample, fresh_server
from bench.workloads import Load, Pause
from support.servers import Kind, Server

NEIGHBOUR = Load("neighbour", "mixed", 4, 1000, [])
NEIGHBOUR_PER_SECOND = 500
NEIGHBOUR_SECONDS_MAX = 20.0
WINDOW_SECONDS = 0.05
_FRAME_BYTES_MAX = 1_000_000
_ANSWER_SECONDS_MAX = 60.0

_CREATE, _DELETE, _EXISTS, _GET_DATA, _SET_DATA, _CHECK, _MULTI, _MULTI_READ = 1, 2, 3, 4, 5, 13, 14, 22
_SET_WATCHES, _ALL_CHILDREN_NUMBER, _CLOSE = 101, 104, -11
_EPHEMERAL, _EPHEMERAL_SEQUENTIAL = 1, 3
_EXPIRING_MS = 4000
_END = pack(">i?i", -1, True, -1)
_OPEN = pack(">ii", 1, 31) + pack(">i", 5) + b"world" + pack(">i", 6) + b"anyone"

# Prepares a server, and returns what to do to it while the neighbour works.
Cause: TypeAlias = Callable[[Server, ExitStack, Plan], Callable[[], object]]


def creating(path: bytes, acl: bytes = _OPEN, flags: int = 0, data: bytes = b"") -> bytes:
    return text(path) + text(data) + acl + pack(">i", flags)


def many(op: int, bodies: Iterator[bytes]) -> bytes:
    """A multi of as many operations as fit into a frame."""
    whole = bytearray()
    for body in bodies:
        if len(whole) + len(body) + 30 > _FRAME_BYTES_MAX:
            break
        whole += pack(">i?i", op, False, -1) + body
    return bytes(whole) + _END


class Client:
    """A session on a plain socket; closed with the measurement, without a word."""

    def __init__(self, server: Server, over: ExitStack) -> None:
        self.socket = over.enter_context(socket.create_connection(("127.0.0.1", server.port), 30))
        self.socket.settimeout(_ANSWER_SECONDS_MAX)
        body = pack(">iqiq", 0, 0, 20_000, 0) + text(bytes(16)) + b"\0"
        self.socket.sendall(text(body))
        self.receive()

    def send(self, op: int, body: bytes = b"") -> None:
        self.socket.sendall(text(pack(">ii", 1, op) + body))

    def receive(self) -> bytes:
        return self._exactly(unpack_from(">i", self._exactly(4))[0])

    def ask(self, op: int, body: bytes = b"") -> None:
        self.send(op, body)
        while unpack_from(">i", self.receive())[0] != 1:
            pass  # an event

    def _exactly(self, count: int) -> bytes:
        pieces, missing = [], count
        while missing:
            piece = self.socket.recv(min(missing, 1 << 20))
            if not piece:
                raise LoadFailed("the server hung up")
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)


def _long_acl() -> bytes:
    entries = [pack(">i", 31) + text(b"ip") + text(b"10.%d.%d.1" % (n // 250, n % 250)) for n in range(999)]
    return pack(">i", 1000) + b"".join(entries) + pack(">i", 31) + text(b"world") + text(b"anyone")


def checks(server: Server, over: ExitStack, plan: Plan) -> Callable[[], object]:
    client = Client(server, over)
    client.ask(_CREATE, creating(b"/long-acl", _long_acl()))
    body = many(_CHECK, (text(b"/long-acl") + pack(">i", -1) for _ in range(1 << 20)))
    return lambda: client.ask(_MULTI, body)


def creates(server: Server, over: ExitStack, plan: Plan) -> Callable[[], object]:
    client = Client(server, over)
    client.ask(_CREATE, creating(b"/created"))
    body = many(_CREATE, (creating(b"/created/%05d" % n) for n in range(1 << 20)))
    return lambda: client.ask(_MULTI, body)


def multi_reads(server: Server, over: ExitStack, plan: Plan) -> Callable[[], object]:
    client = Client(server, over)
    client.ask(_CREATE, creating(b"/long-acl-read", _long_acl()))
    body = (pack(">i?i", _GET_DATA, False, -1) + text(b"/long-acl-read") + b"\0") * 200 + _END
    return lambda: client.ask(_MULTI_READ, body)


def unread(server: Server, over: ExitStack, plan: Plan) -> Callable[[], object]:
    clients = [Client(server, over) for _ in range(4)]
    clients[0].ask(_CREATE, creating(b"/large", data=bytes(_FRAME_BYTES_MAX)))
    body = (pack(">i?i", _GET_DATA, False, -1) + text(b"/large") + b"\0") * 60 + _END

    def act() -> None:
        for client in clients:
            client.send(_MULTI_READ, body)
        time.sleep(1)

    return act


def counts(server: Server, over: ExitStack, plan: Plan) -> Callable[[], object]:
    client = Client(server, over)
    run_load(Load("fill", "fill", 10, 100, []), server.port, count=plan.sizes[0])
    frame = text(pack(">ii", 1, _ALL_CHILDREN_NUMBER) + text(b"/"))

    def act() -> None:
        client.socket.sendall(frame * 100)
        for _ in range(100):
            client.receive()

    return act


def quota_statistics(server: Server, over: ExitStack, plan: Plan) -> Callable[[], object]:
    client = Client(server, over)
    run_load(Load("fill", "fill", 10, 100, []), server.port, count=plan.sizes[0])
    client.ask(_CREATE, creating(b"/zookeeper/quota/bench"))

    def act() -> None:
        for _ in range(50):
            client.ask(_CREATE, creating(b"/zookeeper/quota/bench/zookeeper_stats", data=b"count=1,bytes=1"))
            client.ask(_DELETE, text(b"/zookeeper/quota/bench/zookeeper_stats") + pack(">i", -1))

    return act


def no_text(server: Server, over: ExitStack, plan: Plan) -> Callable[[], object]:
    client = Client(server, over)
    body = text(b"/" + b"\xff" * (_FRAME_BYTES_MAX - 100)) + b"\1"
    return lambda: client.ask(_EXISTS, body)


def watchers_leave(server: Server, over: ExitStack, plan: Plan) -> Callable[[], object]:
    clients = [Client(server, over) for _ in range(plan.crowd // 3)]
    for client in clients:
        client.ask(_SET_WATCHES, watching(800))

    def act() -> None:
        for client in clients:
            client.socket.close()

    return act


def close_with_ephemerals(server: Server, over: ExitStack, plan: Plan) -> Callable[[], object]:
    client = Client(server, over)
    client.ask(_CREATE, creating(b"/mine"))
    for folder in range(max(1, plan.sizes[0] // 10_000)):
        paths = (b"/mine/%d-%05d" % (folder, n) for n in range(10_000))
        client.ask(_MULTI, many(_CREATE, (creating(path, flags=_EPHEMERAL) for path in paths)))
    return lambda: client.ask(_CLOSE)


def statistics_of_names(server: Server, over: ExitStack, plan: Plan) -> Callable[[], object]:
    """The neighbour writes below the quota, and each of its writes is counted there."""
    client = Client(server, over)
    names = b",".join(b"name%06d=1" % n for n in range(60_000))
    client.ask(_CREATE, creating(b"/zookeeper/quota/bench"))
    client.ask(_CREATE, creating(b"/zookeeper/quota/bench/zookeeper_limits", data=b"count=-1,bytes=-1"))
    client.ask(_CREATE, creating(b"/zookeeper/quota/bench/zookeeper_stats", data=b"count=1,bytes=1"))
    body = text(b"/zookeeper/quota/bench/zookeeper_stats") + text(b"count=1,bytes=1," + names)

    def act() -> None:
        client.ask(_SET_DATA, body + pack(">i", -1))
        time.sleep(1)

    return act


def crowd_connects(server: Server, over: ExitStack, plan: Plan) -> Callable[[], object]:
    crowd = _crowd(server, over, plan)
    return lambda: crowd.connect()


def crowd_sets_watches(server: Server, over: ExitStack, plan: Plan) -> Callable[[], object]:
    crowd = _crowd(server, over, plan)
    crowd.connect()
    return lambda: crowd.ask(_SET_WATCHES, watching(100))


def crowd_hears(server: Server, over: ExitStack, plan: Plan) -> Callable[[], object]:
    crowd, client = _crowd(server, over, plan), Client(server, over)
    client.ask(_CREATE, creating(b"/heard"))
    crowd.connect()
    crowd.ask(_EXISTS, text(b"/heard") + b"\1")
    change = text(b"/heard") + text(b"x") + pack(">i", -1)
    return lambda: crowd.hear_an_event(lambda: client.ask(_SET_DATA, change))


def crowd_closes(server: Server, over: ExitStack, plan: Plan) -> Callable[[], object]:
    crowd = _crowd_with_ephemerals(server, over, plan)
    return lambda: crowd.ask(_CLOSE, b"")


def crowd_expires(server: Server, over: ExitStack, plan: Plan) -> Callable[[], object]:
    crowd = _crowd_with_ephemerals(server, over, plan, _EXPIRING_MS)

    def act() -> None:
        crowd.close()
        time.sleep(_EXPIRING_MS / 1000 + 2)  # a tick, and a little

    return act


def _crowd(server: Server, over: ExitStack, plan: Plan, session_ms: int = SESSION_MS) -> Crowd:
    crowd = Crowd([server.port], plan.crowd, session_ms)
    over.callback(crowd.close)
    return crowd


def _crowd_with_ephemerals(
    server: Server, over: ExitStack, plan: Plan, session_ms: int = SESSION_MS
) -> Crowd:
    client = Client(server, over)
    client.ask(_CREATE, creating(b"/crowd"))
    crowd = _crowd(server, over, plan, session_ms)
    crowd.connect()
    body = creating(b"/crowd/n-", flags=_EPHEMERAL_SEQUENTIAL)
    crowd.ask(_MULTI, (pack(">i?i", _CREATE, False, -1) + body) * 10 + _END)
    return crowd


def nothing(server: Server, over: ExitStack, plan: Plan) -> Callable[[], object]:
    return lambda: time.sleep(1)


CAUSES: dict[str, Cause] = {
    "nothing": nothing,
    "checks": checks,
    "creates": creates,
    "multiReads": multi_reads,
    "unread": unread,
    "counts": counts,
    "quota": quota_statistics,
    "statistics": statistics_of_names,
    "text": no_text,
    "leave": watchers_leave,
    "ephemerals": close_with_ephemerals,
    "connect": crowd_connects,
    "setWatches": crowd_sets_watches,
    "event": crowd_hears,
    "close": crowd_closes,
    "expire": crowd_expires,
}


@attrs.define
class Neighbour:
    """The load generator, at work in a thread of this process until its time is over."""

    server: Server
    seconds: float
    result: LoadResult | None = None
    failure: str = ""

    def run(self) -> None:
        try:
            self.result = run_load(
                NEIGHBOUR,
                self.server.port,
                rate=NEIGHBOUR_PER_SECOND,
                seconds=self.seconds,
                window=WINDOW_SECONDS,
            )
        except LoadFailed as failed:
            self.failure = str(failed)


def measure_pauses(kinds: Sequence[Kind], pauses: Sequence[Pause], plan: Plan) -> list[Round]:
    """A Round for each kind. Each cause on a fresh server: what one left behind shall not be felt with the
    next. A cause may take a minute, so progress is told."""
    rounds: list[Round] = [{} for _ in kinds]
    for cause in dict.fromkeys(pause.cause for pause in pauses):
        for kind, measured in zip(kinds, rounds, strict=True):
            felt, failure = measure_cause(kind, CAUSES[cause], plan)
            for pause in pauses:
                if pause.cause == cause and failure:
                    measured[pause.name] = Sample(failure=failure)
                elif pause.cause == cause:
                    latencies = felt.over_all if pause.is_of_all else felt.meanwhile
                    measured[pause.name] = figure_sample(latencies.percentile_us(pause.percentile) / 1000)
            click.echo(f"pause: {cause}: {kind} {failure or felt}", err=True)
    return rounds


@attrs.frozen
class Felt:
    """The latencies of a neighbour while a cause lasted, and over the whole run."""

    meanwhile: Histogram = attrs.field(factory=Histogram)
    over_all: Histogram = attrs.field(factory=Histogram)

    def __str__(self) -> str:
        longest_ms, p99_ms = (self.meanwhile.percentile_us(percent) / 1000 for percent in (100, 99))
        all_ms = self.over_all.percentile_us(99) / 1000
        return f"longest {longest_ms:.1f} ms, p99 {p99_ms:.1f} ms, of all {all_ms:.1f} ms"


def measure_cause(kind: Kind, cause: Cause, plan: Plan) -> tuple[Felt, str]:
    with ExitStack() as over:
        server = over.enter_context(fresh_server(kind, plan.snap_count))
        server.start()
        try:
            act = cause(server, over, plan)
        except (OSError, LoadFailed) as failed:
            return Felt(), f"the cause could not be prepared: {failed}"
        neighbour = Neighbour(server, min(NEIGHBOUR_SECONDS_MAX, 2 + plan.pause_seconds))
        thread = threading.Thread(target=neighbour.run)
        thread.start()
        time.sleep(0.5 + plan.lead_in)
        began = time.monotonic()
        try:
            act()
            ended = time.monotonic()
        except (OSError, LoadFailed) as failed:
            return Felt(), f"the cause failed: {failed}"
        finally:
            thread.join()
        if neighbour.result is None:
            return Felt(), neighbour.failure
        meanwhile = during(neighbour.result, began - WINDOW_SECONDS, ended + 0.5)
        return Felt(meanwhile, neighbour.result.latencies), ""


def during(result: LoadResult, began: float, ended: float) -> Histogram:
    """Latencies of the windows that the cause touches, and those right behind it: pauses end late."""
    first = int((began - result.started_at) / result.window_seconds)
    last = int((ended - result.started_at) / result.window_seconds)
    return joined(result.windows[max(first, 0) : last + 1])
