"""How a learner is brought up to date: every rule of the original, and what they are for.

Zxids are written epoch/counter. The original's rules, in their order:
  1. told to                            SNAP
  2. P is our last                      DIFF, and nothing behind it
  3. P is beyond all we committed       TRUNC to our last, unless P only marks the start of an epoch
  4. P is within what is in memory      by walking it
  5. P is before that                   by walking the log on disk, if it reaches back to P
  6. otherwise                          SNAP
"""

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jute.zxid import counter_of, epoch_of, make_zxid
from quorum.committed_log import CommittedLog
from quorum.synchronization import Plan, SyncMode, plan_by_walking, plan_from_memory

DIFF, TRUNC, SNAP = SyncMode.DIFF, SyncMode.TRUNC, SyncMode.SNAP


def zxid(text: str) -> int:
    epoch, counter = text.split("/")
    return make_zxid(int(epoch), int(counter))


def zxids(text: str) -> list[int]:
    """`1/5-7 2/1-2` is five of them."""
    spans = (word.partition("-") for word in text.split())
    starts = [(zxid(first), int(last) if last else None) for first, _, last in spans]
    return list(
        chain.from_iterable(
            range(first, first + 1 if last is None else make_zxid(epoch_of(first), last) + 1)
            for first, last in starts
        )
    )


def committed_log(entries: list[int], size: int = 500) -> CommittedLog:
    committed = CommittedLog(size)
    for entry in entries:
        committed.append(entry, b"payload of %d" % entry)
    return committed


def plan(mode: SyncMode, named: str, after: str | None = None) -> Plan:
    return Plan(mode, zxid(named), zxid(after or named))


IN_MEMORY = "1/5-9 2/1-4"

# Ours is 2/4, with 1/5-9 and 2/1-4 in memory, unless it says otherwise.
ROWS: dict[str, tuple[str, Plan | None]] = {
    "it has everything": ("2/4", plan(DIFF, "2/4")),
    "it has what nobody committed": ("2/6", plan(TRUNC, "2/4")),
    "it has what nobody committed, of a later epoch": ("3/2", plan(TRUNC, "2/4")),
    "it led, or followed one who did, and nothing came": ("3/0", plan(SNAP, "2/4")),
    "it lacks a few": ("2/1", plan(DIFF, "2/4", "2/1")),
    "it has just the oldest we remember": ("1/5", plan(DIFF, "2/4", "1/5")),
    "it lacks the newest": ("2/3", plan(DIFF, "2/4", "2/3")),
    "it lacks a whole epoch": ("1/9", plan(DIFF, "2/4", "1/9")),
    "it saw the epoch begin and nothing in it": ("2/0", plan(DIFF, "2/4", "2/0")),
    "its last was given up when the epoch ended": ("1/11", plan(SNAP, "2/4")),
    "its last is before what we remember": ("1/4", None),
    "it has nothing": ("0/0", None),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_memory_can_tell(name: str) -> None:
    """None: the log on disk is to be asked."""
    peer, expected = ROWS[name]
    committed = committed_log(zxids(IN_MEMORY))
    assert plan_from_memory(zxid(peer), zxid("2/4"), committed) == expected


def test_a_new_leader_that_has_processed_nothing_yet() -> None:
    """Its last zxid marks its epoch; what it committed ends before that."""
    committed = committed_log(zxids("1/8-12"))
    assert plan_from_memory(zxid("1/12"), zxid("2/0"), committed) == plan(DIFF, "1/12")
    assert plan_from_memory(zxid("1/13"), zxid("2/0"), committed) == plan(TRUNC, "1/12")
    assert plan_from_memory(zxid("2/0"), zxid("2/0"), committed) == plan(DIFF, "2/0")
    assert plan_from_memory(zxid("1/10"), zxid("2/0"), committed) == plan(DIFF, "1/12", "1/10")


def test_with_nothing_in_memory_only_our_last_zxid_counts() -> None:
    nothing = committed_log([])
    assert plan_from_memory(zxid("0/0"), zxid("0/0"), nothing) == plan(DIFF, "0/0")
    assert plan_from_memory(zxid("1/3"), zxid("1/3"), nothing) == plan(DIFF, "1/3")
    assert plan_from_memory(zxid("1/4"), zxid("1/3"), nothing) == plan(TRUNC, "1/3")
    assert plan_from_memory(zxid("2/0"), zxid("1/3"), nothing) == plan(SNAP, "1/3")
    assert plan_from_memory(zxid("1/2"), zxid("1/3"), nothing) is None


@pytest.mark.parametrize("peer", ["0/0", "1/5", "2/4", "2/9", "3/0"])
def test_a_snapshot_can_be_forced(peer: str) -> None:
    """zookeeper.forceSnapshotSync, whatever else would do."""
    committed = committed_log(zxids(IN_MEMORY))
    forced = plan_from_memory(zxid(peer), zxid("2/4"), committed, force_snapshot=True)
    assert forced == plan(SNAP, "2/4")


# P, the log on disk from the file that can hold it, the plan if there is one. Ours is 2/4.
WALKS: dict[str, tuple[str, str, Plan | None]] = {
    "found": ("1/2", "1/1-9 2/1-4", plan(DIFF, "2/4", "1/2")),
    "found at the beginning": ("1/1", "1/1-9 2/1-4", plan(DIFF, "2/4", "1/1")),
    "found at the end": ("2/4", "1/1-9 2/1-4", plan(DIFF, "2/4", "2/4")),
    "the start of an epoch": ("2/0", "1/1-9 2/1-4", plan(DIFF, "2/4", "2/0")),
    "the start of an epoch in which nothing was done": ("2/0", "1/1-9 3/1", plan(DIFF, "2/4", "2/0")),
    "missing from the middle of an epoch": ("1/5", "1/1-4 1/6-9 2/1-4", plan(TRUNC, "1/4")),
    "given up at the end of an epoch": ("1/11", "1/1-9 2/1-4", None),
    "of an epoch we know nothing of": ("2/3", "1/1-9 3/1-2", None),
    "older than the log": ("0/0", "1/1-9 2/1-4", None),
    "older than the log, the start of its epoch": ("1/0", "1/1-9 2/1-4", None),
    "newer than the log": ("2/7", "1/1-9", None),
    "no log": ("1/5", "", None),
}


@pytest.mark.parametrize("name", WALKS)
def test_what_a_walk_through_the_log_can_tell(name: str) -> None:
    """None: a snapshot is sent. No TRUNC crosses the border of an epoch (T14)."""
    peer, log, expected = WALKS[name]
    assert plan_by_walking(zxid(peer), zxids(log), zxid("2/4")) == expected


# --- What it is for.


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], int, list[int], int]:
    """A leader's history and last zxid, a learner's history and last zxid.

    In every epoch the leader of the time proposed 1, 2, 3, ...; some of that was committed. The learner went
    along up to some epoch, of which it has a part, or more than was committed. A last zxid may also be
    the start of an epoch: of a server that led, or took a snapshot from one who did.
    """
    committed = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    ours = [make_zxid(epoch, n) for epoch, last in enumerate(committed, 1) for n in range(1, last + 1)]
    our_last = ours[-1] if ours else 0
    if draw(st.booleans()):
        our_last = max(our_last, make_zxid(len(committed) + 1, 0))
    epoch = draw(st.integers(1, len(committed)))
    count = draw(st.integers(0, committed[epoch - 1] + 2))
    theirs = [each for each in ours if epoch_of(each) < epoch]
    theirs += [make_zxid(epoch, n) for n in range(1, count + 1)]
    their_last = theirs[-1] if theirs else 0
    if count == 0 and draw(st.booleans()):
        their_last = make_zxid(epoch, 0)
    return ours, our_last, theirs, their_last


@settings(max_examples=300)
@given(histories(), st.integers(1, 8), st.integers(0, 30))
def test_whatever_the_plan_the_learner_ends_with_our_history(
    history: tuple[list[int], int, list[int], int], memory_size: int, on_disk_from: int
) -> None:
    """However much of it is in memory, and however far back the log on disk reaches."""
    ours, our_last, theirs, their_last = history
    chosen = plan_from_memory(their_last, our_last, committed_log(ours, memory_size))
    if chosen is None:
        walked = plan_by_walking(their_last, ours[on_disk_from:], our_last)
        chosen = walked or Plan(SNAP, our_last, our_last)
    match chosen.mode:
        case SyncMode.SNAP:
            result = list(ours)
        case SyncMode.DIFF:
            assert chosen.zxid == our_last or chosen.zxid == (ours or [0])[-1]
            result = theirs + [each for each in ours if each > chosen.after]
        case SyncMode.TRUNC:
            # It must have what we name (T15), or nothing behind it: the cut is made after that entry.
            assert chosen.zxid in theirs or counter_of(chosen.zxid) == 0 or chosen.zxid == 0
            kept = [each for each in theirs if each <= chosen.zxid]
            result = kept + [each for each in ours if each > chosen.after]
    assert result == ours


@given(histories(), st.integers(0, 8))
def test_a_learner_that_is_up_to_date_is_sent_nothing(
    history: tuple[list[int], int, list[int], int], memory_size: int
) -> None:
    ours, our_last, _, _ = history
    committed = committed_log(ours, memory_size)
    assert plan_from_memory(our_last, our_last, committed) == Plan(DIFF, our_last, our_last)


# --- The latest transactions, in memory.


def test_only_the_latest_transactions_are_kept() -> None:
    committed = committed_log(zxids("1/1-9"), size=3)
    assert len(committed) == 3
    assert (committed.first_zxid, committed.last_zxid) == (zxid("1/7"), zxid("1/9"))
    assert [each for each, _ in committed] == zxids("1/7-9")
    assert committed.after == zxid("1/7")
    committed.begin(zxid("1/9"))
    assert len(committed) == 0
    assert committed.after == zxid("1/9")
    committed.append(zxid("2/1"), b"")
    assert committed.after == zxid("1/9")


def test_behind_a_gap_only_what_is_kept_is_known() -> None:
    committed = CommittedLog(500)
    committed.begin(zxid("1/3"))
    committed.append(zxid("1/5"), b"")
    assert committed.after == zxid("1/5")
