"""Reading everything back from a server that has just been restarted."""

import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import attrs

from support import session_client as wire
from support.checked_writer import BASE, QUEUE, Writer, found_node
from support.raw_client import Reader
from support.session_client import Lost, SessionClient
from support.whole_tree import read_tree
from support.write_model import OK, Model, Queued, Violation

GUESTS: Final = f"{BASE}/guests"
BALLAST: Final = f"{BASE}/ballast"
BALLAST_NODES: Final = 4000
BALLAST_BYTES: Final = 300

_EXPIRY_SECONDS_LATE_MAX: Final = 15.0


# -- clients that write


def settle_writers(client: SessionClient, writers: Iterable[Writer], port: int) -> None:
    """Every client finds its acknowledged writes, and at most once what was in flight."""
    found = {writer: Model(writer.acked.root, session_id=writer.attach(port)) for writer in writers}
    queued = _read_queue(client)
    for writer, model in found.items():
        mine = b"w%d:" % writer.index
        model.queued = {data: queued.pop(data) for data in list(queued) if data.startswith(mine)}
        for path, seen in read_tree(client, model.root).items():
            model.nodes[path] = found_node(seen.data or b"", seen.stat)
        writer.settle(model)
    if queued:
        raise Violation(f"nobody wrote {queued} to {QUEUE}")


def _read_queue(client: SessionClient) -> dict[bytes, Queued]:
    """The shared directory by what its nodes contain; numbers and zxids rise together."""
    seen = read_tree(client, QUEUE)
    directory = seen.pop(QUEUE)
    queued: dict[bytes, Queued] = {}
    last_zxid = -1
    for path in sorted(seen):
        data, czxid = seen[path].data or b"", seen[path].stat.czxid
        if data in queued:
            raise Violation(f"{data!r} appears twice, at {queued[data].path} and {path}")
        if czxid <= last_zxid:
            raise Violation(f"{path} has czxid 0x{czxid:x}, a smaller number 0x{last_zxid:x}")
        last_zxid = czxid
        queued[data] = Queued(path, czxid)
    if directory.stat.pzxid < last_zxid:
        raise Violation(f"{QUEUE} has pzxid 0x{directory.stat.pzxid:x} and a child of 0x{last_zxid:x}")
    return queued


# -- clients that go away without a word


@attrs.define(eq=False)
class Guest:
    """A session with one ephemeral node, abandoned; `acked` if we know that the node was created."""

    path: str
    session_id: int
    timeout_ms: int
    since: float  # no later than the server last heard of it
    acked: bool = False


@attrs.define
class Guests:
    """Sessions that must live for their timeout, through a restart, and then go with their nodes."""

    present: dict[str, Guest] = attrs.field(factory=dict)
    expired: int = 0
    kept: int = 0
    _count: int = 0

    def come_and_go(self, port: int, timeout_ms: int) -> None:
        """Open a session, create a node, hang up. Lost if the server is gone."""
        self._count += 1
        since = time.monotonic()
        client = SessionClient.open(port, timeout_ms)
        path = f"{GUESTS}/g{self._count}"
        guest = self.present[path] = Guest(path, client.id, client.timeout_ms, since)
        try:
            guest.acked = client.call(wire.create(path, b"", flags=wire.EPHEMERAL)).err == 0
        finally:
            client.drop()

    def settle(self, client: SessionClient, *, killed: float, spawned: Sequence[float]) -> None:
        """Those whose time is not up must be there, and nobody else.

        Time passes only while a server runs: up to the kill, then anew from every start. `spawned` are the
        times of those, the last one being that of the server that runs now.
        """
        owners = _read_guests(client)
        longest_life = max(after - before for before, after in pairwise([*spawned, time.monotonic()]))
        for path, owner in owners.items():
            if path not in self.present or owner != self.present[path].session_id:
                raise Violation(f"{path} of session 0x{owner:x} should not be there")
        for path, guest in list(self.present.items()):
            seconds = guest.timeout_ms / 1000
            must_be = guest.acked and killed < guest.since + seconds and longest_life < seconds
            if must_be and path not in owners:
                raise Violation(f"{path} went before the timeout of its session, {guest.timeout_ms} ms")
            if path in owners:
                self.kept += 1
            else:
                self.expired += 1
                del self.present[path]

    def wait_until_gone(self, client: SessionClient) -> None:
        """All of them expire."""
        longest_ms = max((guest.timeout_ms for guest in self.present.values()), default=0)
        deadline = time.monotonic() + longest_ms / 1000 + _EXPIRY_SECONDS_LATE_MAX
        while left := _read_guests(client):
            if time.monotonic() > deadline:
                raise Violation(f"sessions did not expire: {len(left)} nodes are left of them")
            time.sleep(0.05)
        self.expired += len(self.present)
        self.present.clear()


def _read_guests(client: SessionClient) -> dict[str, int]:
    """The nodes there are, and whose. They may go while we look."""
    names = wire.read_names(Reader(client.call(wire.get_children(GUESTS)).body))
    paths = [f"{GUESTS}/{name}" for name in names]
    owners = {}
    for path, reply in zip(paths, client.call_all([wire.get_data(path) for path in paths]), strict=True):
        if reply.err == OK:
            reader = Reader(reply.body)
            reader.read_buffer()
            owners[path] = wire.read_stat(reader).owner
    return owners


# -- nodes that only make snapshots take long enough to be interrupted


def create_ballast(client: SessionClient) -> None:
    client.call(wire.create(BALLAST, b""))
    paths = (f"{BALLAST}/b{number}" for number in range(BALLAST_NODES))
    for reply in client.call_all([wire.create(path, _ballast_data(path)) for path in paths]):
        assert reply.err == 0


def _ballast_data(path: str) -> bytes:
    return (path.encode() + b" ").ljust(BALLAST_BYTES, b".")


def count_ballast(client: SessionClient) -> None:
    number = Reader(client.call(wire.get_all_children_number(BALLAST)).body).read_int()
    if number != BALLAST_NODES:
        raise Violation(f"{number} nodes of {BALLAST_NODES} are left in {BALLAST}")


def compare_ballast(client: SessionClient) -> None:
    seen = read_tree(client, BALLAST)
    del seen[BALLAST]
    for path, node in seen.items():
        if node.data != _ballast_data(path) or node.stat.version != 0:
            raise Violation(f"{path} has changed: {node}")
    if len(seen) != BALLAST_NODES:
        raise Violation(f"{len(seen)} nodes of {BALLAST_NODES} are left in {BALLAST}")


def auditor(port: int, timeout_ms: int, seen_zxid: int) -> SessionClient:
    """A session to read with; a server that is behind what was seen hangs up on it."""
    try:
        return SessionClient.open(port, timeout_ms, seen_zxid)
    except Lost as failure:
        raise Violation(f"the server does not know of zxid 0x{seen_zxid:x} any more") from failure
