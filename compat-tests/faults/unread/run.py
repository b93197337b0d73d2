"""Many clients that each do the dearest thing they can and read nothing: how much does the server hold?

    python -m faults.unread.run --connections 200 --seconds 60

Each connection does one of ACTS. Meanwhile a client replaces the large nodes, so that the replies which
nobody takes are all that holds what they show. The server may hold no more than docs/OPERATING.md says
("What clients can make the server hold"), and has to give it back when they leave. Prints the figures; ends
with 1 if the server held more, or keeps more than a tenth of what it had.
"""

import argparse
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import cycle, islice
from struct import pack, unpack_from
from typing import Final, TypeAlias

import attrs

from faults.fuzz.vitals import watched_memory
from support.servers import HOST, Server, start_server

FRAME_BYTES: Final = 1_000_000
MIB: Final = 1 << 20
LARGE: Final = 8  # nodes of a megabyte
CHILDREN: Final = 60_000
RETURN_SECONDS_MAX: Final = 60.0
_CREATE, _GET_DATA, _SET_DATA, _GET_CHILDREN, _MULTI, _MULTI_READ = 1, 4, 5, 8, 14, 22
_CHECK, _GET_ACL, _SET_WATCHES, _ADD_WATCH = 13, 6, 101, 106
_OPEN: Final = pack(">ii", 1, 31) + pack(">i", 5) + b"world" + pack(">i", 6) + b"anyone"
_END: Final = pack(">i?i", -1, True, -1)


def text(value: bytes) -> bytes:
    return pack(">i", len(value)) + value


def frame(op: int, body: bytes = b"", xid: int = 1) -> bytes:
    return text(pack(">ii", xid, op) + body)


def operation(op: int, body: bytes) -> bytes:
    return pack(">i?i", op, False, -1) + body


def creating(path: bytes, data: bytes = b"", flags: int = 0) -> bytes:
    return text(path) + text(data) + _OPEN + pack(">i", flags)


class Client:
    """A session on a plain socket, which sends as long as the server takes it."""

    def __init__(self, server: Server, over: ExitStack) -> None:
        self.socket = over.enter_context(socket.create_connection((HOST, server.port), 60))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.pending = b""

    def handshake(self) -> None:
        self.socket.sendall(text(pack(">iqiq", 0, 0, 40_000, 0) + text(bytes(16)) + b"\0"))
        self._receive()

    def ask(self, op: int, body: bytes = b"") -> None:
        self.socket.sendall(frame(op, body))
        while unpack_from(">i", self._receive())[0] != 1:
            pass

    def push(self, more: bytes) -> None:
        """Send some more of the same, if the server takes it; nothing is read."""
        if not self.pending:
            self.pending = more
        self.socket.setblocking(False)
        with suppress(BlockingIOError, ConnectionError):
            self.pending = self.pending[self.socket.send(self.pending) :]

    def _receive(self) -> bytes:
        return self._exactly(unpack_from(">i", self._exactly(4))[0])

    def _exactly(self, count: int) -> bytes:
        pieces, missing = [], count
        while missing:
            piece = self.socket.recv(min(missing, 1 << 20))
            if not piece:
                raise ConnectionError("the server hung up")
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)


def large(n: int) -> bytes:
    return b"/large%d" % (n % LARGE)


def multi_reads(n: int) -> bytes:
    reads = b"".join(operation(_GET_DATA, text(large(n + k)) + b"\0") for k in range(60))
    return frame(_MULTI_READ, reads + _END)


def reads(n: int) -> bytes:
    return b"".join(frame(_GET_DATA, text(large(n + k)) + b"\0") for k in range(100))


def lists(n: int) -> bytes:
    return frame(_GET_CHILDREN, text(b"/many") + b"\0") * 100


def checks(n: int) -> bytes:
    check = operation(_CHECK, text(b"/many") + pack(">i", -1))
    return frame(_MULTI, check * (FRAME_BYTES // len(check)) + _END)


def sets(n: int) -> bytes:
    """Each is large, and so is what waits behind it."""
    return frame(_SET_DATA, text(b"/mine") + text(bytes(FRAME_BYTES - 100)) + pack(">i", -1)) + reads(n)


def rewatches(n: int) -> bytes:
    """An event for each of very many paths that are gone."""
    paths = b"".join(text(b"/%07d" % k) for k in range(70_000))
    return frame(_SET_WATCHES, pack(">qi", 0, 70_000) + paths + bytes(8))


def hears(n: int) -> bytes:
    return frame(_ADD_WATCH, text(b"/") + pack(">i", 1))


def half_a_frame(n: int) -> bytes:
    return pack(">i", FRAME_BYTES) + bytes(FRAME_BYTES - 1)


Act: TypeAlias = Callable[[int], bytes]
ACTS: Final[dict[str, Act]] = {
    "multiRead": multi_reads,
    "getData": reads,
    "getChildren": lists,
    "checks": checks,
    "setData": sets,
    "setWatches": rewatches,
    "watch": hears,
    "frame": half_a_frame,
}
WORDS: Final = {"dump": b"dump", "wchp": b"wchp"}


@attrs.frozen
class Outcome:
    """What the server held, in bytes."""

    before: int
    peak: int
    bound: int
    after: int

    @property
    def is_bounded(self) -> bool:
        return self.peak <= self.bound

    @property
    def is_given_back(self) -> bool:
        return self.after <= self.before * 1.1

    def __str__(self) -> str:
        before, peak, bound, after = (n / MIB for n in (self.before, self.peak, self.bound, self.after))
        return (
            f"before {before:.0f} MiB, at most {peak:.0f} MiB (may be {bound:.0f}), after {after:.0f} MiB "
            f"({self.after / self.before:.2f}x)"
        )


def bound_bytes(connections: int) -> int:
    """The formula of docs/OPERATING.md, with the default settings."""
    return connections * (MIB + 128 * 1024) + (64 + 1) * MIB + 256 * MIB + (80 + 64) * MIB


def attack(server: Server, connections: int, seconds: float) -> Outcome:
    with ExitStack() as over:
        writer = Client(server, over)
        writer.handshake()
        prepare(writer)
        # One round of everything, once the tree is there: what Python keeps for its own use does not count.
        _press(server, writer, len(ACTS) + len(WORDS), 1.0)
        before = _settled(server, 0)
        with watched_memory(server) as peak:
            _press(server, writer, connections, seconds)
        after = _settled(server, before)
    return Outcome(before, peak.rss_bytes, before + bound_bytes(connections), after)


def prepare(writer: Client) -> None:
    for n in range(LARGE):
        writer.ask(_CREATE, creating(large(n), bytes(FRAME_BYTES)))
    writer.ask(_CREATE, creating(b"/mine"))
    writer.ask(_CREATE, creating(b"/many"))
    for first in range(0, CHILDREN, 10_000):
        creates = (operation(_CREATE, creating(b"/many/%06d" % n)) for n in range(first, first + 10_000))
        writer.ask(_MULTI, b"".join(creates) + _END)


def _press(server: Server, writer: Client, connections: int, seconds: float) -> None:
    with ExitStack() as over:
        each: list[Act | bytes] = [*ACTS.values(), *WORDS.values()]
        clients: list[tuple[Client, Act | bytes]] = []
        for act in islice(cycle(each), connections):
            client = Client(server, over)
            if callable(act):
                client.handshake()
            clients.append((client, act))
        made = {act: act(0) for act in ACTS.values()}
        until, n = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            for client, act in clients:
                client.push(made[act] if callable(act) else act)
            with suppress(TimeoutError):
                writer.ask(_SET_DATA, text(large(n)) + text(bytes(FRAME_BYTES)) + pack(">i", -1))
            n += 1
            time.sleep(0.05)


def _settled(server: Server, aim: int) -> int:
    """What the server holds once it has nothing to do any more."""
    until = time.monotonic() + RETURN_SECONDS_MAX
    least = server.rss_bytes
    while time.monotonic() < until:
        time.sleep(1)
        now = server.rss_bytes
        if aim and now <= aim * 1.1:
            return now
        if not aim and now == least:
            return now
        least = min(least, now)
    return least


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with ExitStack() as over:
        server = over.enter_context(start_server("triokeeper", {"maxClientCnxns": 0}))
        outcome = attack(server, options.connections, options.seconds)
    print(outcome)
    return 0 if outcome.is_bounded and outcome.is_given_back else 1


if __name__ == "__main__":
    sys.exit(main())
