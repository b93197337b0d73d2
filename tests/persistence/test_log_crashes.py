"""Crashes, everywhere: what was acknowledged is there, and what is there was written."""

from collections.abc import Set
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from persistence.log_format import ENTRY_OVERHEAD_BYTES, FILE_HEADER, SECTOR_BYTES, zxid_of
from persistence.snapshots import SnapshotOptions, take_snapshot_now
from persistence.txn_log import TxnLog
from tests.persistence.fake_tree import DATA, FakeTree, payload, recovered
from tests.persistence.memory_disk import Killed, MemoryDisk


def new_disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(DATA)
    recovered(disk)
    disk.sync_directory(DATA)
    return disk


class Script:
    """Appends batches, with rolls and snapshots in between, and remembers what was acknowledged."""

    def __init__(self, batches: list[list[bytes]], rolls: Set[int], preallocate_bytes: int) -> None:
        self.batches = batches
        self.rolls = rolls
        self.preallocate_bytes = preallocate_bytes
        self.written = [payload for batch in batches for payload in batch]
        self.acknowledged = 0

    def run(self, disk: MemoryDisk) -> None:
        log = TxnLog(disk, DATA, preallocate_bytes=self.preallocate_bytes)
        tree = FakeTree()
        for number, batch in enumerate(self.batches):
            if number in self.rolls:
                log.roll()
                take_snapshot_now(disk, DATA, tree, SnapshotOptions())
            log.append_batch(batch)
            self.acknowledged += len(batch)
            tree.zxid = zxid_of(batch[-1])

    def check(self, disk: MemoryDisk) -> None:
        found, tree = recovered(disk)
        assert self.acknowledged <= found.zxid <= len(self.written)
        assert tree.replayed == self.written[found.zxid - found.txns_replayed : found.zxid]
        self._go_on(disk, found.zxid)

    def _go_on(self, disk: MemoryDisk, zxid: int) -> None:
        """A server that has recovered can write, and recover that too."""
        TxnLog(disk, DATA, preallocate_bytes=self.preallocate_bytes).append_batch(
            [payload(zxid + 1, b"after")]
        )
        found, tree = recovered(disk)
        assert found.zxid == zxid + 1
        assert tree.replayed[-1] == payload(zxid + 1, b"after")


def script(
    sizes: list[int], body_bytes: int = 5, rolls: Set[int] = frozenset(), preallocate_bytes: int = 8 << 10
) -> Script:
    zxid = 0
    batches = []
    for size in sizes:
        batches.append([payload(zxid + number, b"z" * body_bytes) for number in range(1, size + 1)])
        zxid += size
    return Script(batches, rolls, preallocate_bytes)


def test_kill_at_every_byte_and_every_operation() -> None:
    """From the creation of the first file, over a roll with a snapshot, to the second file."""

    def story() -> Script:
        return script([2, 1, 2], rolls={2}, preallocate_bytes=100)

    whole = new_disk()
    before = whole.spent
    story().run(whole)
    for budget in range(whole.spent - before):
        disk = new_disk()
        disk.budget = budget
        interrupted = story()
        with pytest.raises(Killed):
            interrupted.run(disk)
        disk.revive()
        interrupted.check(disk)


batch_sizes = st.lists(st.integers(1, 30), min_size=1, max_size=8)


@given(batch_sizes, st.integers(0, 700), st.sets(st.integers(1, 7)), st.integers(0, 100_000))
def test_kill_leaves_all_that_was_acknowledged(
    sizes: list[int], body_bytes: int, rolls: set[int], budget: int
) -> None:
    disk = new_disk()
    story = script(sizes, body_bytes, rolls)
    disk.budget = budget
    with suppress(Killed):
        story.run(disk)
    disk.revive()
    story.check(disk)


@settings(max_examples=300)
@given(
    batch_sizes,
    st.integers(0, 700),
    st.sets(st.integers(1, 7)),
    st.integers(0, 100_000),
    st.randoms(use_true_random=False),
)
def test_power_loss_leaves_all_that_was_acknowledged(
    sizes: list[int], body_bytes: int, rolls: set[int], budget: int, chance: Random
) -> None:
    """Whichever sectors of the last batch reached the disk, and whichever names."""
    disk = new_disk()
    story = script(sizes, body_bytes, rolls)
    disk.budget = budget
    with suppress(Killed):
        story.run(disk)
    disk.lose_power(chance)
    story.check(disk)


@pytest.mark.parametrize("end", range(SECTOR_BYTES - 13, SECTOR_BYTES + 2))
def test_a_mark_that_is_half_written_over_is_no_damage(end: int) -> None:
    """The next batch begins where the mark stands; wherever that is, any of its sectors may be missing."""
    body_bytes = end - len(FILE_HEADER) - ENTRY_OVERHEAD_BYTES - len(payload(1, b""))
    whole = new_disk()
    before = whole.spent
    script([1, 1], body_bytes).run(whole)
    for seed in range(30):
        disk = new_disk()
        disk.budget = whole.spent - before - 1  # up to the second batch's sync
        story = script([1, 1], body_bytes)
        with pytest.raises(Killed):
            story.run(disk)
        assert story.acknowledged == 1
        disk.lose_power(Random(seed))
        story.check(disk)


def test_what_was_recovered_once_stays() -> None:
    """After kill -9 the log may hold what was never synced; once a server has started from it, it counts."""
    disk = new_disk()
    spent_before = disk.spent
    script([2, 1, 2], preallocate_bytes=0).run(disk)
    for budget in range(disk.spent - spent_before):
        disk = new_disk()
        disk.budget = budget
        with suppress(Killed):
            script([2, 1, 2], preallocate_bytes=0).run(disk)
        disk.revive()
        before, _ = recovered(disk)
        disk.lose_power(Random(budget))
        after, _ = recovered(disk)
        assert after.zxid == before.zxid


@given(st.integers(1, 12), st.data())
def test_a_crash_while_truncating_leaves_a_log_that_ends_later(last: int, data: st.DataObject) -> None:
    disk = new_disk()
    log = TxnLog(disk, DATA, preallocate_bytes=0)
    for zxid in range(1, 13):
        log.append_batch([payload(zxid)])
        if zxid % 3 == 0:
            log.roll()
    disk.budget = data.draw(st.integers(0, 8))
    try:
        log.truncate_after(last)
        expected = {last}
    except Killed:
        expected = set(range(last, 13))
    disk.lose_power(data.draw(st.randoms(use_true_random=False)))
    found, tree = recovered(disk)
    assert found.zxid in expected
    assert tree.replayed_zxids == list(range(1, found.zxid + 1))


def test_leftovers_of_a_crash_are_removed() -> None:
    disk = new_disk()
    for name in ("unfinished-log.1", "snapshot.5.tmp", "snapshot.5.gz.tmp", "currentEpoch.tmp"):
        disk.put(Path(DATA / name), b"partial")
    recovered(disk)
    assert sorted(disk.names(DATA)) == ["currentEpoch.tmp", "snapshot.0"]
