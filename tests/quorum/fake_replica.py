"""A replica in memory (quorum.replica.Replica): its tree is the transactions it holds, its log a list.

What is on disk is apart from what is not: `waiting` was handed to the log and is lost in a crash, `on_disk`
and `saved` are not. A test that wants to look in between sets `disk_is_busy` and calls `sync_disk` later.
"""

from collections.abc import Callable, Iterable, Iterator
from struct import pack, unpack_from

import attrs
import trio

from persistence.errors import CorruptSnapshot, DataDirError
from persistence.log_format import zxid_of
from quorum.committed_log import CommittedLog
from quorum.replica import AuthIds, Origin, Proposer, Upstream

Tree = dict[int, bytes]  # by zxid: a transaction applied twice changes nothing

END_OF_STREAM = pack(">i", -1)


def txn(zxid: int, session: int = 0x1234, cxid: int = 7, body: bytes = b"body", type_: int = 5) -> bytes:
    """A transaction: header and something behind it."""
    return pack(">qiqqi", session, cxid, zxid, 1_700_000_000_000, type_) + body


def txns(first: int, last: int) -> list[bytes]:
    return [txn(zxid) for zxid in range(first, last + 1)]


def stream_of(tree: Iterable[bytes]) -> bytes:
    """What SNAP is followed by. Only fake replicas understand it."""
    return b"".join([pack(">i", len(payload)) + payload for payload in tree]) + END_OF_STREAM


def _nothing() -> None:
    """Nobody asks when a history was fetched."""


def _nobody(count: int) -> None:
    """Nobody waits for the log."""


class FakeReplica:
    def __init__(
        self, log: Iterable[bytes] = (), *, saved: tuple[int, Tree] = (0, {}), commit_log_count: int = 500
    ) -> None:
        self.saved_zxid, self.saved = saved  # the newest snapshot on disk
        self.on_disk = list(log)
        self.waiting: list[bytes] = []
        self.disk_is_busy = False
        self.tree: Tree = {}
        self.last_zxid = 0
        self.committed_log = CommittedLog(commit_log_count)
        self.digest_mismatches = 0
        self.wrong_digests: set[int] = set()  # zxids of transactions that lead to another tree than ours
        self.on_fetched: Callable[[], None] = _nothing
        self.service: FakeLeaderService | FakeLearnerService | None = None
        self._is_read_only = False
        self._streamed = False  # the tree came from a leader, and is not on disk yet
        self._on_logged: Callable[[int], None] = _nobody
        self._drained = trio.lowlevel.ParkingLot()
        self._load()

    def crashed(self) -> "FakeReplica":
        """The same server after a power loss."""
        return FakeReplica(self.on_disk, saved=(self.saved_zxid, self.saved))

    def is_read_only(self) -> bool:
        return self._is_read_only

    @property
    def history(self) -> list[int]:
        """What was applied."""
        return sorted(self.tree)

    def _load(self) -> None:
        self._streamed = False
        self.tree = dict(self.saved)
        self.last_zxid = self.saved_zxid
        self.committed_log.begin(self.saved_zxid)
        for payload in self.on_disk:
            if zxid_of(payload) > self.last_zxid:
                self.apply(payload)

    # -- the log

    def log(self, payload: bytes) -> None:
        self.waiting.append(payload)

    def leave_unlogged(self) -> None:
        """A tree that is lost with its server: nothing here outlives it."""

    async def make_durable(self) -> None:
        """Nothing was left unlogged."""

    def flush_log(self) -> None:
        if not self.disk_is_busy:
            self.sync_disk()

    def sync_disk(self, count: int | None = None) -> None:
        """The oldest `count` that wait, or all, are durable now."""
        count = len(self.waiting) if count is None else count
        done, self.waiting = self.waiting[:count], self.waiting[count:]
        self.on_disk += done
        if done:
            self._on_logged(len(done))
        if not self.waiting:
            self._drained.unpark_all()

    def on_logged(self, callback: Callable[[int], None]) -> None:
        self._on_logged = callback

    async def caught_up(self) -> None:
        """What is committed is applied at once."""

    async def log_drained(self) -> None:
        self.flush_log()
        while self.waiting:
            await self._drained.park()
        await trio.lowlevel.checkpoint()

    def logged_after(self, zxid: int) -> Iterator[bytes] | None:
        if not self.on_disk or zxid_of(self.on_disk[0]) > zxid:
            return None
        return iter(list(self.on_disk))

    async def truncate(self, zxid: int) -> None:
        await self.log_drained()
        if zxid != self.saved_zxid and zxid not in map(zxid_of, self.on_disk):
            raise DataDirError(f"{zxid:#x} is not in the log")
        self.on_disk = [payload for payload in self.on_disk if zxid_of(payload) <= zxid]
        self._load()

    # -- the tree

    def apply(self, payload: bytes) -> None:
        zxid = zxid_of(payload)
        self.digest_mismatches += zxid in self.wrong_digests
        self.tree[zxid] = payload
        self.last_zxid = zxid
        self.committed_log.append(zxid, payload)

    def snapshot_stream(self) -> Iterator[bytes]:
        """Taken one by one, while the tree goes on."""
        at = 0
        while at < len(self.tree):
            yield stream_of([list(self.tree.values())[at]]).removesuffix(END_OF_STREAM)
            at += 1
        yield END_OF_STREAM

    async def begin_restore(self) -> "FakeRestoring":
        await trio.lowlevel.checkpoint()
        self.tree.clear()
        self._streamed = True
        return FakeRestoring(self)

    async def adopt_snapshot(self) -> None:
        await self.log_drained()
        self.on_disk = []
        self.saved_zxid, self.saved = self.last_zxid, dict(self.tree)
        self._streamed = False
        await trio.lowlevel.checkpoint()

    async def fetched(self) -> None:
        self.on_fetched()
        await trio.lowlevel.checkpoint()

    async def reload(self) -> None:
        await self.log_drained()
        self._load()

    # -- roles

    def lead(self, epoch: int, proposer: Proposer) -> "FakeLeaderService":
        self.last_zxid = max(self.last_zxid, epoch << 32)
        self.service = FakeLeaderService(self, proposer)
        return self.service

    def learn(self, upstream: Upstream, *, is_observer: bool = False) -> "FakeLearnerService":
        self.service = FakeLearnerService(self, upstream)
        return self.service

    def serve_read_only(self) -> None:
        self._is_read_only = True

    async def retire(self) -> None:
        self.service = None
        self._is_read_only = False
        await self.log_drained()
        if self._streamed:
            self._load()
        for payload in self.on_disk:
            if zxid_of(payload) > self.last_zxid:
                self.apply(payload)


class FakeRestoring:
    def __init__(self, replica: FakeReplica) -> None:
        self._replica = replica
        self._rest = b""

    def feed(self, chunk: bytes) -> bytes | None:
        self._rest += chunk
        while len(self._rest) >= 4:
            (size,) = unpack_from(">i", self._rest)
            if size == -1:
                return self._rest[4:]
            if size < 0:
                raise CorruptSnapshot(f"a transaction of {size} bytes")
            if len(self._rest) < 4 + size:
                return None
            payload, self._rest = self._rest[4 : 4 + size], self._rest[4 + size :]
            self._replica.tree[zxid_of(payload)] = payload
        return None

    def finish(self, zxid: int) -> None:
        self._replica.last_zxid = zxid
        self._replica.committed_log.begin(zxid)


class FakeLeaderService:
    """Makes a transaction of every request, and lets every session go on."""

    def __init__(self, replica: FakeReplica, proposer: Proposer) -> None:
        self._replica = replica
        self._proposer = proposer
        self._next_zxid = replica.last_zxid + 1
        self.in_flight: list[bytes] = []
        self._syncs: list[tuple[int, Origin]] = []  # answered once that zxid is committed
        self.touched: list[tuple[int, int]] = []
        self.refuses_sessions = False

    def propose(self, *bodies: bytes) -> None:
        """Requests of the leader's own clients."""
        for body in bodies:
            self._append(txn(self._next_zxid, body=body))
        self.end_batch()

    def _append(self, payload: bytes) -> None:
        self._next_zxid += 1
        self.in_flight.append(payload)
        self._proposer.append(payload)

    def begin_batch(self) -> None:
        pass

    @property
    def deferred(self) -> int:
        return 0

    @property
    def sync_due(self) -> int:
        return self._syncs[0][0] if self._syncs else 1 << 63

    def committed(self, count: int) -> None:
        for payload in self.in_flight[:count]:
            self._replica.apply(payload)
        del self.in_flight[:count]
        while self._syncs and self._syncs[0][0] <= self._replica.last_zxid:
            self._syncs.pop(0)[1].sync_done()

    def forwarded(self, origin: Origin, session: int, cxid: int, op: int, body: bytes, ids: AuthIds) -> None:
        if op != 9:
            self._append(txn(self._next_zxid, session, cxid, body))
        elif self.in_flight:
            self._syncs.append((zxid_of(self.in_flight[-1]), origin))
        else:
            origin.sync_done()

    def revalidate(self, origin: Origin, session: int, timeout_ms: int) -> bool:
        return not self.refuses_sessions

    def touch(self, session: int, timeout_ms: int) -> None:
        self.touched.append((session, timeout_ms))

    def end_batch(self) -> None:
        self._proposer.flush()


@attrs.define
class FakeLearnerService:
    """Remembers what its leader answered."""

    replica: FakeReplica
    upstream: Upstream
    in_flight: list[bytes] = attrs.field(factory=list)
    syncs_done_at: list[int] = attrs.field(factory=list)  # zxids that were applied by then
    revalidations: list[tuple[int, bool]] = attrs.field(factory=list)
    sessions_left: list[int] = attrs.field(factory=list)
    heard_from: list[tuple[int, int]] = attrs.field(factory=list)

    def begin_batch(self) -> None:
        pass

    def proposed(self, payload: bytes) -> None:
        self.in_flight.append(payload)

    def committed(self, count: int) -> None:
        assert count <= len(self.in_flight)
        for payload in self.in_flight[:count]:
            self.replica.apply(payload)
        del self.in_flight[:count]

    def sync_done(self) -> None:
        self.syncs_done_at.append(self.replica.last_zxid)

    def revalidated(self, session: int, is_valid: bool) -> None:
        self.revalidations.append((session, is_valid))

    def session_left(self, session: int) -> None:
        self.sessions_left.append(session)

    def touched(self) -> list[tuple[int, int]]:
        sessions, self.heard_from = self.heard_from, []
        return sessions

    def end_batch(self) -> None:
        self.upstream.flush()
