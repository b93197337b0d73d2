"""The log being written: names, sizes, order of syncs, and what must never happen to an entry."""

import errno
from pathlib import Path

import pytest

from persistence.errors import CorruptLog, DataDirError
from persistence.log_format import FILE_HEADER, encode_entries, ending_of, marked_header, zxid_of
from persistence.torn_tail import UNSYNCED_ENTRIES_MAX
from persistence.txn_log import TxnLog, grown_size
from tests.persistence.fake_tree import DATA, payload, payloads
from tests.persistence.memory_disk import MemoryDisk

STEP = 64 << 10


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(DATA)
    return disk


@pytest.fixture
def log(disk: MemoryDisk) -> TxnLog:
    return TxnLog(disk, DATA, preallocate_bytes=STEP)


def file_of(batch: list[bytes], *, growth_bytes: int = STEP, batch_bytes: int | None = None) -> bytes:
    """A file with these entries, the last `batch_bytes` of them, or all, written at once."""
    entries = encode_entries(batch)
    size = len(entries) if batch_bytes is None else batch_bytes
    return (
        marked_header(growth_bytes)
        + entries
        + ending_of(entries[len(entries) - size :], len(FILE_HEADER) + len(entries))
    )


def zxids(log: TxnLog, start: int) -> list[int]:
    return [zxid_of(payload) for payload in log.read_from(start)]


@pytest.mark.parametrize(
    ("position", "size", "grown"),
    [
        (16, 16, 16 + STEP),  # the first time
        (100, 16 + STEP, 16 + STEP),
        (16 + STEP - 4097, 16 + STEP, 16 + STEP),
        (16 + STEP - 4096, 16 + STEP, 16 + 2 * STEP),
        (16 + STEP, 16 + STEP, 16 + 2 * STEP),
        (16 + STEP + 1, 16 + STEP, 2 * STEP),  # a batch went past the end
        (5 * STEP, STEP, 6 * STEP),
    ],
)
def test_files_grow_by_the_rule_of_the_original(position: int, size: int, grown: int) -> None:
    assert grown_size(position, size, STEP) == grown
    assert grown_size(position, size, 0) == size


def test_a_file_is_named_by_its_first_zxid_and_padded_with_zeros(disk: MemoryDisk, log: TxnLog) -> None:
    batch = payloads(0x1_0000_00AB, 0x1_0000_00AD)
    log.append_batch(batch)
    assert disk.names(DATA) == ["log.1000000ab"]
    assert disk.get(DATA / "log.1000000ab") == file_of(batch).ljust(16 + STEP, b"\0")


def test_a_batch_costs_one_sync_and_a_new_file_one_more_of_the_directory(
    disk: MemoryDisk, log: TxnLog
) -> None:
    log.append_batch(payloads(1, 50))
    log.append_batch(payloads(51, 100))
    assert disk.syncs == 2


def test_a_huge_batch_is_synced_in_parts(disk: MemoryDisk, log: TxnLog) -> None:
    """A tear is told from damage by how many entries can have been unsynced at once."""
    log.append_batch(payloads(1, 2 * UNSYNCED_ENTRIES_MAX + 1))
    assert disk.syncs == 3 + 1  # and one for the file, which grows by one step
    assert zxids(log, 1) == list(range(1, 2 * UNSYNCED_ENTRIES_MAX + 2))


def test_an_empty_batch_does_nothing(disk: MemoryDisk, log: TxnLog) -> None:
    log.append_batch([])
    assert disk.names(DATA) == []


def test_a_large_batch_may_pass_the_reserved_end(disk: MemoryDisk, log: TxnLog) -> None:
    log.append_batch([payload(1, bytes(3 * STEP))])
    log.append_batch([payload(2)])
    assert zxids(log, 1) == [1, 2]
    assert disk.size(DATA / "log.1") % STEP == 0


def test_without_preallocation_a_file_ends_with_its_last_entry(disk: MemoryDisk) -> None:
    TxnLog(disk, DATA, preallocate_bytes=0).append_batch(payloads(1, 3))
    assert disk.get(DATA / "log.1") == file_of(payloads(1, 3), growth_bytes=0)


def test_after_a_roll_the_next_append_starts_a_file(disk: MemoryDisk, log: TxnLog) -> None:
    log.append_batch(payloads(1, 2))
    log.roll()
    log.roll()
    assert disk.names(DATA) == ["log.1"]
    log.append_batch(payloads(3, 4))
    assert disk.names(DATA) == ["log.1", "log.3"]
    assert zxids(log, 1) == [1, 2, 3, 4]


def test_a_file_above_the_size_limit_is_the_last_batch_of_its_file(disk: MemoryDisk) -> None:
    log = TxnLog(disk, DATA, preallocate_bytes=STEP, size_limit_bytes=200)
    for zxid in range(1, 8):
        log.append_batch([payload(zxid, bytes(55))])
    assert disk.names(DATA) == ["log.1", "log.3", "log.5", "log.7"]


def test_reading_starts_in_the_file_that_can_hold_the_zxid(disk: MemoryDisk, log: TxnLog) -> None:
    for first in (1, 4, 7):
        log.append_batch(payloads(first, first + 2))
        log.roll()
    disk.put(DATA / "log.1", b"unreadable, and not needed")
    assert zxids(log, 5) == [5, 6, 7, 8, 9]
    assert zxids(log, 9) == [9]
    assert zxids(log, 10) == []


def test_reading_sees_what_is_durable_and_not_what_is_being_written(log: TxnLog) -> None:
    log.append_batch(payloads(1, 3))
    assert log._file is not None
    log._write(log._file, b"", encode_entries(payloads(4, 4)))
    assert zxids(log, 2) == [2, 3]


def test_reading_goes_on_with_what_becomes_durable_meanwhile(disk: MemoryDisk, log: TxnLog) -> None:
    """Behind where it is, in the same file and in later ones: nothing is read again."""
    log.append_batch(payloads(1, 3))
    reading = log.read_from(2)
    seen = [zxid_of(next(reading)), zxid_of(next(reading))]
    disk._inode(DATA / "log.1").content[40] ^= 1  # what was read is not looked at again
    log.append_batch(payloads(4, 5))
    seen.append(zxid_of(next(reading)))
    log.roll()
    log.append_batch(payloads(6, 6))
    seen += [zxid_of(payload) for payload in reading]
    assert seen == [2, 3, 4, 5, 6]


def test_damage_to_the_log_being_written_shows_when_it_is_read(disk: MemoryDisk, log: TxnLog) -> None:
    log.append_batch(payloads(1, 3))
    disk._inode(DATA / "log.1").content[40] ^= 1
    with pytest.raises(CorruptLog, match=r"log\.1, byte 16: .* up to byte 163"):
        zxids(log, 1)


def test_damage_to_an_earlier_file_shows_when_it_is_read(disk: MemoryDisk, log: TxnLog) -> None:
    """Also where the next file begins an epoch: a learner is sent nothing that has a hole."""
    log.append_batch(payloads(1, 3))
    log.roll()
    log.append_batch(payloads(0x1_0000_0001, 0x1_0000_0002))
    disk._inode(DATA / "log.1").content[16 + 49 + 9] ^= 1  # the second entry's length
    with pytest.raises(CorruptLog, match=r"log\.1, byte 65: what follows zxid 0x1 is damaged"):
        zxids(log, 1)


def test_an_older_log_than_asked_for_is_not_an_error(log: TxnLog) -> None:
    """Whoever asks compares the first zxid it gets with the one it needs."""
    log.append_batch(payloads(50, 52))
    assert zxids(log, 3) == [50, 51, 52]


def test_entries_are_never_overwritten(disk: MemoryDisk, log: TxnLog) -> None:
    log.append_batch(payloads(5, 6))
    restarted = TxnLog(disk, DATA)
    with pytest.raises(DataDirError, match=r"log\.5: a transaction with zxid 0x5 is already logged"):
        restarted.append_batch(payloads(5, 5))
    assert zxids(log, 1) == [5, 6]


@pytest.mark.parametrize("leftover", [FILE_HEADER, FILE_HEADER + bytes(500)])
def test_a_file_without_entries_gives_way(disk: MemoryDisk, log: TxnLog, leftover: bytes) -> None:
    """As a crash of Apache, or a truncation, leaves it."""
    disk.put(DATA / "log.5", leftover)
    log.append_batch(payloads(5, 6))
    assert zxids(log, 1) == [5, 6]


@pytest.mark.parametrize("operation", ["create", "grow", "write_at", "sync", "rename", "sync_directory"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_failing_disk_stops_the_log_for_good(
    disk: MemoryDisk, log: TxnLog, operation: str, number: int
) -> None:
    """Nothing may be written behind an entry of which nobody knows whether it is there."""
    disk.faults[operation] = OSError(number, "injected")
    with pytest.raises(OSError, match="injected") as failure:
        log.append_batch(payloads(1, 3))
    assert failure.value.errno == number
    disk.faults.clear()
    log.roll()
    with pytest.raises(OSError, match="failed before"):
        log.append_batch(payloads(4, 4))


def test_slow_syncs_are_reported(disk: MemoryDisk) -> None:
    times = iter([0.0, 0.5, 10.0, 12.5])
    reports: list[tuple[float, int]] = []
    log = TxnLog(
        disk,
        DATA,
        preallocate_bytes=STEP,
        clock=lambda: next(times),
        on_slow_sync=lambda elapsed_ms, size: reports.append((elapsed_ms, size)),
    )
    log.append_batch(payloads(1, 1))
    assert log.last_sync_ms == 500
    log.append_batch(payloads(2, 2))
    assert reports == [(2500, 16 + STEP)]


def test_force_sync_off_means_no_sync_at_all(disk: MemoryDisk) -> None:
    TxnLog(disk, DATA, force_sync=False).append_batch(payloads(1, 3))
    assert disk.syncs == 0
    assert disk.names(DATA) == ["log.1"]


def three_files(log: TxnLog) -> None:
    """1 to 3, 4 to 6 and 7 to 9, each with room behind it."""
    for first in (1, 4, 7):
        log.append_batch(payloads(first, first + 2))
        log.roll()


@pytest.mark.parametrize(
    ("zxid", "last", "names"),
    [
        (9, 9, ["log.1", "log.4", "log.7"]),
        (8, 8, ["log.1", "log.4", "log.7"]),
        (7, 7, ["log.1", "log.4", "log.7"]),
        (6, 6, ["log.1", "log.4"]),
        (5, 5, ["log.1", "log.4"]),
        (1, 1, ["log.1"]),
        (0, None, []),
        (100, 9, ["log.1", "log.4", "log.7"]),
    ],
)
def test_truncation_leaves_nothing_above_the_zxid(
    disk: MemoryDisk, log: TxnLog, zxid: int, last: int | None, names: list[str]
) -> None:
    three_files(log)
    assert log.truncate_after(zxid) == last
    assert disk.names(DATA) == names
    assert zxids(log, 1) == list(range(1, (last or 0) + 1))


def test_truncation_between_zxids_keeps_none_above(log: TxnLog) -> None:
    log.append_batch([payload(zxid) for zxid in (0x1_0000_0001, 0x1_0000_0002, 0x2_0000_0001)])
    assert log.truncate_after(0x1_0000_0009) == 0x1_0000_0002
    assert zxids(log, 0) == [0x1_0000_0001, 0x1_0000_0002]


def test_after_a_truncation_new_entries_go_into_a_new_file(disk: MemoryDisk, log: TxnLog) -> None:
    log.append_batch(payloads(1, 5))
    log.truncate_after(3)
    assert disk.get(DATA / "log.1") == file_of(payloads(1, 3), batch_bytes=0)
    log.append_batch(payloads(4, 4))
    assert disk.names(DATA) == ["log.1", "log.4"]
    assert zxids(log, 1) == [1, 2, 3, 4]


def test_without_a_log_there_is_nothing_to_truncate(log: TxnLog) -> None:
    with pytest.raises(DataDirError, match="there is none"):
        log.truncate_after(7)


def test_other_files_are_no_logs(disk: MemoryDisk, log: TxnLog) -> None:
    for name in ("log.2.bak", "log.", "log.xyz", "unfinished-log.3", "log.ffffffffffffffff", "snapshot.0"):
        disk.put(Path(DATA / name), b"")
    log.append_batch(payloads(1, 1))
    assert zxids(log, 0) == [1]
