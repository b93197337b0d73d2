"""Damage everywhere: each class of bytes of each file flipped, zeroed or cut.

Whatever was acknowledged is there after a start, or the server refuses to start and says which file, where,
what could be lost and what can be done. Two things cannot be told from what a crash leaves, and are cut off:
the sector at the very end of the newest log, if all of it is zero (a batch of which nothing was written but
its beginning), and a newest log shorter than its header (Apache creates a log before it writes to it).
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from persistence.epoch_files import ACCEPTED_EPOCH, CURRENT_EPOCH, read_epoch, write_epoch
from persistence.errors import CorruptLog, DataDirError, StorageError
from persistence.file_names import Compression
from persistence.log_format import ENTRY_OVERHEAD_BYTES, FILE_HEADER, MARK_BYTES, encode_entries
from persistence.snapshots import SnapshotOptions, take_snapshot_now
from persistence.txn_log import TxnLog
from tests.persistence.fake_tree import DATA, FakeTree, payload, recovered
from tests.persistence.memory_disk import SECTOR_BYTES, MemoryDisk

GROWTH_BYTES = 8 << 10
PER_FILE = 15
FILES = ("log.100000001", "log.200000001", "log.300000001")  # each begins an epoch
ZXIDS = [(epoch << 32) + counter for epoch in (1, 2, 3) for counter in range(1, PER_FILE + 1)]
ENTRY_BYTES = len(encode_entries([payload(1, b"x" * 120)]))
ENTRIES_END = len(FILE_HEADER) + PER_FILE * ENTRY_BYTES
LAST_BATCH = 1  # every transaction was acknowledged by itself

Damage = Callable[[bytearray, int], None]


def flip_low(content: bytearray, at: int) -> None:
    content[at] ^= 0x01


def flip_high(content: bytearray, at: int) -> None:
    content[at] ^= 0x80


def zero(content: bytearray, at: int) -> None:
    content[at] = 0


def zero_sector(content: bytearray, at: int) -> None:
    start = at - at % SECTOR_BYTES
    content[start : start + SECTOR_BYTES] = bytes(min(SECTOR_BYTES, len(content) - start))


def cut(content: bytearray, at: int) -> None:
    del content[at:]


DAMAGES = [flip_low, flip_high, zero, zero_sector, cut]


def story(compression: Compression = Compression.NONE) -> MemoryDisk:
    """A snapshot of nothing, three logs, and a snapshot in the middle of the second."""
    disk = MemoryDisk()
    disk.make_directory(DATA)
    tree = FakeTree()
    take_snapshot_now(disk, DATA, tree, SnapshotOptions())
    log = TxnLog(disk, DATA, preallocate_bytes=GROWTH_BYTES)
    for zxid in ZXIDS:
        if zxid & 0xFFFF_FFFF == 1:
            log.roll()
        log.append_batch([payload(zxid, b"x" * 120)])
        if zxid == ZXIDS[PER_FILE + 4]:
            tree.zxid = zxid
            take_snapshot_now(disk, DATA, tree, SnapshotOptions(compression=compression))
    return disk


def places() -> Iterator[tuple[str, int]]:
    """Each byte of: the header, the first, a middle and the last entry, the mark; some of the padding."""
    for at in range(len(FILE_HEADER)):
        yield "header", at
    for number in (0, PER_FILE // 2, PER_FILE - 1):
        start = len(FILE_HEADER) + number * ENTRY_BYTES
        for at in range(ENTRY_BYTES):
            yield entry_class(at), start + at
    for at in range(MARK_BYTES):
        yield "mark", ENTRIES_END + at
    yield "padding", ENTRIES_END + 100
    yield "padding", GROWTH_BYTES


def entry_class(at: int) -> str:
    if at < 8:
        return "checksum"
    if at < 12:
        return "length"
    return "payload" if at < ENTRY_BYTES - 1 else "end mark"


def outcome(disk: MemoryDisk, file: Path) -> str:
    """Whole, refused, or how many transactions are missing."""
    try:
        with capture_logs():
            found, tree = recovered(disk)
    except StorageError as failure:
        check_refusal(failure, file)
        return "refused"
    assert found.snapshot is not None
    assert tree.replayed_zxids == [zxid for zxid in ZXIDS if found.snapshot.zxid < zxid <= found.zxid]
    missing = len([zxid for zxid in ZXIDS if zxid > found.zxid])
    return "whole" if not missing else f"{missing} missing"


def check_refusal(refusal: StorageError, file: Path) -> None:
    """It says where, and what can be done."""
    assert refusal.file is not None
    assert refusal.remedy
    if isinstance(refusal, CorruptLog) and "hole" not in refusal.problem:
        assert refusal.file == file
        assert refusal.offset is not None


def damaged_at(damage: Damage, name: str, at: int, *, from_the_start: bool) -> str:
    disk = story()
    if from_the_start:
        disk.unlink(DATA / f"snapshot.{ZXIDS[PER_FILE + 4]:x}")  # the first log is needed then
    damage(disk._inode(DATA / name).content, at)
    return outcome(disk, DATA / name)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_log_costs_nothing_in_silence(name: str, damage: Damage) -> None:
    is_last = name == FILES[-1]
    seen: Counter[tuple[str, str]] = Counter()
    step = 1 if damage in (flip_low, zero, cut) else 7
    for kind, at in list(places())[::step]:
        result = damaged_at(damage, name, at, from_the_start=name == FILES[0])
        seen[kind, result] += 1
        if result not in ("whole", "refused"):
            # Only what a crash could have done to the last batch.
            lost_at = ENTRIES_END - LAST_BATCH * ENTRY_BYTES
            is_excused = is_last and damage is zero_sector and at >= lost_at - SECTOR_BYTES
            is_short = damage is cut and is_last and at < len(FILE_HEADER)
            assert is_excused or is_short, (kind, at, result)
    assert any(result == "refused" for _, result in seen)


def test_a_batch_before_the_last_is_never_taken_for_torn() -> None:
    """Each sector of the last log that does not hold its end."""
    for at in range(SECTOR_BYTES, ENTRIES_END - ENTRY_BYTES - SECTOR_BYTES, SECTOR_BYTES):
        assert damaged_at(zero_sector, FILES[-1], at, from_the_start=False) == "refused"


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_snapshot_costs_nothing(damage: Damage, compression: Compression) -> None:
    """The older one and the logs give everything back."""
    name = story(compression).names(DATA)[-2]
    assert name.startswith("snapshot.")
    size = story(compression).size(DATA / name)
    for at in range(size):
        disk = story(compression)
        damage(disk._inode(DATA / name).content, at)
        assert outcome(disk, DATA / name) == "whole"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_snapshot_without_an_older_one_is_refused(damage: Damage) -> None:
    """Unless what is left of it is all of the tree: trailers are optional, at the end of the file."""
    name = f"snapshot.{ZXIDS[PER_FILE + 4]:x}"
    for at in range(story().size(DATA / name)):
        disk = story()
        disk.unlink(DATA / "snapshot.0")
        disk.unlink(DATA / FILES[0])
        damage(disk._inode(DATA / name).content, at)
        assert outcome(disk, DATA / name) in ("whole", "refused")


@pytest.mark.parametrize("name", [ACCEPTED_EPOCH, CURRENT_EPOCH])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("epoch", [0, 7, 12, 20_480])
def test_a_damaged_epoch_is_refused(name: str, damage: Damage, epoch: int) -> None:
    disk = MemoryDisk()
    disk.make_directory(DATA)
    write_epoch(disk, DATA, name, epoch)
    for at in range(disk.size(DATA / name)):
        write_epoch(disk, DATA, name, epoch)
        content = disk._inode(DATA / name).content
        before = bytes(content)
        damage(content, at)
        if bytes(content) != before:
            with pytest.raises(DataDirError, match="is not an epoch"):
                read_epoch(disk, DATA, name)


def test_an_entry_has_the_classes_that_are_surveyed() -> None:
    assert {entry_class(at) for at in range(ENTRY_BYTES)} == {"checksum", "length", "payload", "end mark"}
    assert len(payload(1, b"x" * 120)) + ENTRY_OVERHEAD_BYTES == ENTRY_BYTES
