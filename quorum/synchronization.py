"""Zab's second phase, the leader's choice: how to bring a learner's history to our own.

Pure. The learner says the last zxid of its log, P. Ours ends at `last_zxid`; the newest part of it is in
memory (CommittedLog), most of it on disk.

    DIFF    what it has is a beginning of ours: send the rest
    TRUNC   it has something at its end that nobody committed: it cuts that off, then gets the rest
    SNAP    everything else: send the whole tree

A zxid with counter 0 marks the start of an epoch and is nobody's transaction: a server shows it as its last
after it led, or took a snapshot from one who did, and nothing came after. It is never in a log, so such a P
counts as present if the log has what follows it.

Never TRUNC across the border of an epoch, as the original does not: neither to name what the learner may lack
(it would keep what it should cut), nor to go on behind the cut with another epoch, which takes Apache's
learners down paths that no Apache leader sends them.
"""

import enum
from collections.abc import Iterable

import attrs

from jute.zxid import counter_of, epoch_of
from quorum.committed_log import CommittedLog


class SyncMode(enum.Enum):
    DIFF = "DIFF"
    TRUNC = "TRUNC"
    SNAP = "SNAP"


@attrs.frozen
class Plan:
    """How to begin, the zxid that goes with it, and after which zxid to go on with transactions."""

    mode: SyncMode
    zxid: int
    after: int


def plan_from_memory(
    peer_zxid: int, last_zxid: int, committed: CommittedLog, *, force_snapshot: bool = False
) -> Plan | None:
    """The plan, if what is in memory is enough to make it; None if the log on disk may help."""
    snapshot = Plan(SyncMode.SNAP, last_zxid, last_zxid)
    first, last = (committed.first_zxid, committed.last_zxid) if len(committed) else (last_zxid, last_zxid)
    if force_snapshot:
        return snapshot
    if peer_zxid == last_zxid:
        return Plan(SyncMode.DIFF, peer_zxid, peer_zxid)
    if peer_zxid > last:
        return snapshot if _starts_epoch(peer_zxid) else Plan(SyncMode.TRUNC, last, last)
    if peer_zxid >= first:
        return plan_by_walking(peer_zxid, (zxid for zxid, _ in committed), last) or snapshot
    return None


def plan_by_walking(peer_zxid: int, zxids: Iterable[int], last: int) -> Plan | None:
    """The plan by looking for P among transactions that begin at or before it; None if none can be made."""
    before: int | None = None
    for zxid in zxids:
        if zxid < peer_zxid:
            before = zxid
        elif zxid == peer_zxid:
            return Plan(SyncMode.DIFF, last, peer_zxid)
        elif before is None:
            return None  # we cannot tell what came before
        elif _starts_epoch(peer_zxid):
            return Plan(SyncMode.DIFF, last, peer_zxid)
        elif epoch_of(before) == epoch_of(peer_zxid) == epoch_of(zxid):
            return Plan(SyncMode.TRUNC, before, before)
        else:
            return None
    return None


def _starts_epoch(zxid: int) -> bool:
    return counter_of(zxid) == 0
