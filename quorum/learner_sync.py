"""Sending a learner what brings its history to ours: the tasks' side of synchronization.py.

The leader does it for all learners, a follower that is an observer master for its observers.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from eventlog import log
from jute.zxid import format_zxid
from persistence.errors import CorruptLog, StorageError
from persistence.log_format import follows, zxid_of
from persistence.offload import Offload
from quorum.errors import PeerError
from quorum.learner_links import LearnerLink, patience
from quorum.packets import COMMIT, DIFF, PROPOSAL, SNAP, TRUNC, packet
from quorum.peer_stats import PeerStats
from quorum.replica import Replica
from quorum.settings import PeerSettings
from quorum.synchronization import Plan, SyncMode, plan_by_walking, plan_from_memory

_QUEUED_BYTES_MAX = 1 << 20  # of what it missed: the queue is for what is new

# Our clients come first: while a tree is made and sent as fast as a learner takes it, their slowest answers
# take more than twice as long. So it is sent so much at a time, with a pause behind it; but without a pause
# once this much of what is new waits for it, or a busy ensemble would never let it in.
_TREE_BURST_BYTES, _TREE_PAUSE_S = 64 << 10, 0.003
# Transactions are more work. How many fit between the requests of clients is found out: a burst that took
# long, its turn in the loop included, was too large or met a busy server: a pause and a smaller one follow;
# one that was done at once is followed by others' turn alone, and a larger one.
_TXNS_BURST_BYTES_MIN, _TXNS_BURST_BYTES_MAX = 8 << 10, 128 << 10
_TXNS_BURST_S, _TXNS_PAUSE_S = 0.002, 0.001
_WAITING_BYTES_CALM = 16 << 20

# Called in one step with the last look at our history: queue what is committed behind the zxid, and from then
# on everything new.
BeginForwarding = Callable[[int], None]
# How many times the usual pause a learner is to wait now.
Pace = Callable[[], int]


class LearnerSync:
    """`bring_up_to_date` sends most of what is missing; the rest is queued on the link when it returns."""

    def __init__(
        self,
        settings: PeerSettings,
        replica: Replica,
        offload: Offload,
        stats: PeerStats,
        has_clients: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._replica = replica
        self._offload = offload
        self._stats = stats
        self._has_clients = has_clients
        self._under_way = Counter[bool]()  # synchronisations, by whether they are a snapshot
        self._members_under_way: set[int] = set()
        self._strangers_under_way = 0  # of servers that are no members, or a member's second at the same time
        self._unreadable_before = 0  # the log is of no use to whoever has less

    async def bring_up_to_date(
        self,
        server_id: int,
        link: LearnerLink,
        peer_zxid: int,
        begin_forwarding: BeginForwarding,
        *,
        is_member: bool = True,
    ) -> SyncMode:
        """Nothing of the link's queue may be sent meanwhile."""
        replica = self._replica
        await replica.caught_up()
        plan = plan_from_memory(
            peer_zxid,
            replica.last_zxid,
            replica.committed_log,
            force_snapshot=self._settings.force_snapshot_sync,
        )
        if plan is None:
            plan = await self._plan_from_disk(peer_zxid)
        log.info(
            "synchronising",
            server=server_id,
            mode=plan.mode.value,
            their_zxid=format_zxid(peer_zxid),
            our_zxid=format_zxid(replica.last_zxid),
        )
        with self._counted(plan.mode), self._paced(server_id, is_member) as pace:
            if plan.mode is SyncMode.SNAP:
                await self._send_snapshot(link, pace, begin_forwarding)
            else:
                await self._send_txns(link, pace, plan, begin_forwarding)
        return plan.mode

    @contextmanager
    def _paced(self, server_id: int, is_member: bool) -> Iterator[Pace]:
        """Members are each sent as much as fits between requests of clients. All others, of which there may
        be many, share what one member would get."""
        if is_member and server_id not in self._members_under_way:
            self._members_under_way.add(server_id)
            try:
                yield lambda: 1
            finally:
                self._members_under_way.remove(server_id)
        else:
            self._strangers_under_way += 1
            try:
                yield lambda: self._strangers_under_way
            finally:
                self._strangers_under_way -= 1

    @contextmanager
    def _counted(self, mode: SyncMode) -> Iterator[None]:
        stats, is_snapshot = self._stats, mode is SyncMode.SNAP
        stats.snapshots += is_snapshot
        stats.diffs += not is_snapshot
        self._under_way[is_snapshot] += 1
        samples = stats.snapshots_under_way if is_snapshot else stats.diffs_under_way
        samples.add(self._under_way[is_snapshot])
        try:
            yield
        finally:
            self._under_way[is_snapshot] -= 1

    async def _send_now(self, link: LearnerLink, data: bytes) -> None:
        with patience(self._settings.init_limit_s):
            await link.send_now(data)

    async def _send_snapshot(self, link: LearnerLink, pace: Pace, begin_forwarding: BeginForwarding) -> None:
        """The tree as it is sent may already contain some of what is queued behind it: that is harmless."""
        await self._replica.caught_up()
        zxid = self._replica.last_zxid
        pieces = self._replica.snapshot_stream()
        begin_forwarding(zxid)
        await self._send_now(link, packet(SNAP, zxid))
        burst_bytes = 0
        for piece in pieces:
            await self._send_now(link, piece)
            burst_bytes += len(piece)
            if burst_bytes >= _TREE_BURST_BYTES:
                burst_bytes = 0
                await self._let_clients_go_first(link, pace() * _TREE_PAUSE_S)

    async def _let_clients_go_first(self, link: LearnerLink, seconds: float) -> None:
        if self._has_clients() and link.queued_bytes < _WAITING_BYTES_CALM:
            await trio.sleep(seconds)

    async def _plan_from_disk(self, peer_zxid: int) -> Plan:
        last = self._replica.last_zxid
        snapshot = Plan(SyncMode.SNAP, last, last)
        if peer_zxid < self._unreadable_before:
            return snapshot
        try:
            payloads = await self._offload(self._replica.logged_after, peer_zxid)
            if payloads is None:
                return snapshot
            return await self._offload(plan_by_walking, peer_zxid, map(zxid_of, payloads), last) or snapshot
        except (StorageError, OSError) as problem:
            log.warning("log_of_no_use_to_a_learner", problem=str(problem))
            return snapshot

    async def _send_txns(
        self, link: LearnerLink, pace: Pace, plan: Plan, begin_forwarding: BeginForwarding
    ) -> None:
        """Send transactions, from the log until those in memory can go on, until few enough to be queued are
        left.

        They are sent as they are read: a learner may be a million behind. Once it has begun there is no way
        back to a snapshot, unless the learner comes anew.
        """
        await self._send_now(link, _opening(plan))
        after = plan.after
        while True:
            if not self._memory_reaches(after):
                after = await self._send_from_disk(link, pace, after)
            elif committed := self._committed_after(after):
                await self._send_now(link, b"".join(map(committed_proposal, committed)))
                after = zxid_of(committed[-1])
            else:
                break
        begin_forwarding(after)

    def _committed_after(self, after: int) -> list[bytes]:
        """The next few transactions in memory; none if they are not worth a piece of their own."""
        committed: list[bytes] = []
        size = 0
        for zxid, payload in self._replica.committed_log:
            if zxid > after:
                committed.append(payload)
                size += len(payload)
                if size > _QUEUED_BYTES_MAX:
                    return committed
        return []

    async def _send_from_disk(self, link: LearnerLink, pace: Pace, after: int) -> int:
        try:
            reached = await self._send_logged(link, pace, after)
        except (StorageError, OSError) as problem:
            self._unreadable_before = self._replica.last_zxid
            raise PeerError(f"the log cannot be read, it will get a snapshot: {problem}") from problem
        if reached == after:
            self._unreadable_before = self._replica.last_zxid
            raise PeerError(
                f"the log on disk ends at {format_zxid(after)}, before what is in memory: "
                "it will get a snapshot"
            )
        return reached

    async def _send_logged(self, link: LearnerLink, pace: Pace, after: int) -> int:
        """Send what is on disk by now, and return how far it led: meanwhile there may be more than memory
        keeps."""
        payloads = await self._offload(self._replica.logged_after, after)
        last = self._replica.last_zxid
        burst_bytes = _TXNS_BURST_BYTES_MIN
        while payloads is not None and not self._memory_reaches(after):
            began_at = trio.current_time()
            burst = await self._offload(_next_burst, payloads, burst_bytes)
            if not burst:
                break
            before, last = last, self._replica.last_zxid
            committed, after = _gapless(after, burst, last)
            packets = b"".join(map(committed_proposal, committed))
            await self._send_now(link, packets)
            if after < zxid_of(burst[-1]):
                break  # not all of it is committed yet
            is_gaining = 2 * (last - before) < len(committed)  # or it would never be up to date
            if trio.current_time() < began_at + _TXNS_BURST_S:
                burst_bytes = min(2 * burst_bytes, _TXNS_BURST_BYTES_MAX)
                pause_s = (pace() - 1) * _TXNS_PAUSE_S
            else:
                burst_bytes = max(burst_bytes // 2, _TXNS_BURST_BYTES_MIN)
                pause_s = pace() * _TXNS_PAUSE_S
            if is_gaining:
                await self._let_clients_go_first(link, pause_s)
        return after

    def _memory_reaches(self, after: int) -> bool:
        return after >= self._replica.committed_log.after


def _next_burst(payloads: Iterator[bytes], size_min: int) -> list[bytes]:
    burst: list[bytes] = []
    size = 0
    for payload in payloads:
        burst.append(payload)
        size += len(payload)
        if size >= size_min:
            break
    return burst


def _opening(plan: Plan) -> bytes:
    return packet(DIFF if plan.mode is SyncMode.DIFF else TRUNC, plan.zxid)


def committed_proposal(payload: bytes) -> bytes:
    """A transaction as it is sent to a learner that missed it."""
    zxid = zxid_of(payload)
    return packet(PROPOSAL, zxid, payload) + packet(COMMIT, zxid)


def _gapless(after: int, payloads: list[bytes], last: int) -> tuple[list[bytes], int]:
    """Those behind `after`, up to `last`, and the zxid they lead to.

    A learner that was sent a history with a hole would never know.
    """
    taken: list[bytes] = []
    for payload in payloads:
        zxid = zxid_of(payload)
        if after < zxid <= last:
            if not follows(after, zxid):
                raise CorruptLog(f"nothing is between {format_zxid(after)} and {format_zxid(zxid)}")
            taken.append(payload)
            after = zxid
    return taken, after
