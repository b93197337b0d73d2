"""What is missing on a disk is noticed, and what is not missing is not."""

from pathlib import Path
from random import Random
from struct import pack

from persistence.log_format import FILE_HEADER, encode_entries
from tests.sim.disk import VirtualDisk
from tests.sim.stored_history import gap_on

VERSION_2 = Path("/data/version-2")
COMMITTED = [0x1_0000_0001, 0x1_0000_0002, 0x1_0000_0003, 0x2_0000_0001, 0x2_0000_0002]


def disk_with(*, snapshot: int, logs: list[list[int]], older: tuple[int, ...] = ()) -> VirtualDisk:
    """Snapshots of these zxids, and log files with entries of these."""
    disk = VirtualDisk(Random(1))
    for zxid in (snapshot, *older):
        disk.put(VERSION_2 / f"snapshot.{zxid:x}", b"ZKSN")
    for zxids in logs:
        entries = encode_entries([pack(">qiqqi", 1, 1, zxid, 0, -1) for zxid in zxids])
        disk.put(VERSION_2 / f"log.{zxids[0]:x}", FILE_HEADER + entries + bytes(100))
    return disk


def test_a_log_that_leads_from_the_snapshot_to_its_end_has_no_gap() -> None:
    """Also across the border of an epoch, and where the log begins long before the snapshot."""
    disk = disk_with(snapshot=COMMITTED[1], logs=[COMMITTED[:3], COMMITTED[3:]])
    assert gap_on(disk, COMMITTED, must_reach_snapshot=True) is None


def test_what_was_never_committed_is_not_missing() -> None:
    """A transaction that another server logged and lost leaves no gap."""
    disk = disk_with(snapshot=0, logs=[[COMMITTED[0], COMMITTED[1]]])
    assert gap_on(disk, [COMMITTED[0], COMMITTED[1]], must_reach_snapshot=True) is None


def test_a_hole_at_the_border_of_an_epoch_is_a_gap() -> None:
    """The first transaction of an epoch does not prove that nothing is missing before it."""
    disk = disk_with(snapshot=0, logs=[COMMITTED[:2], COMMITTED[3:]])
    gap = gap_on(disk, COMMITTED, must_reach_snapshot=False)
    assert gap is not None
    assert "0x100000003 is missing" in gap


def test_a_log_that_goes_on_too_late_behind_the_snapshot_has_a_gap() -> None:
    disk = disk_with(snapshot=COMMITTED[1], logs=[COMMITTED[3:]])
    gap = gap_on(disk, COMMITTED, must_reach_snapshot=False)
    assert gap is not None
    assert "0x100000003 is missing" in gap


def test_a_log_may_end_before_the_snapshot_only_where_nobody_serves() -> None:
    disk = disk_with(snapshot=COMMITTED[3], logs=[COMMITTED[:2]])
    assert gap_on(disk, COMMITTED, must_reach_snapshot=False) is None
    gap = gap_on(disk, COMMITTED, must_reach_snapshot=True)
    assert gap is not None
    assert "ends at 0x100000002" in gap


def test_old_logs_may_end_long_before_the_snapshot_that_was_sent_behind_them() -> None:
    """Apache's server was sent 0x200000001, and its next transaction is in the next log: nothing goes by the
    old one. Without such logs there must be no gap, even where nothing is read."""
    disk = disk_with(snapshot=COMMITTED[4], older=(COMMITTED[3], 0), logs=[COMMITTED[:2], [COMMITTED[4]]])
    assert gap_on(disk, COMMITTED, must_reach_snapshot=True, has_old_logs=True) is None
    assert gap_on(disk, COMMITTED, must_reach_snapshot=True) is not None


def test_old_logs_must_have_no_gap_that_recovery_would_pass() -> None:
    """The newest snapshot may be damaged. If the log holds its transaction, an older one would do."""
    disk = disk_with(snapshot=COMMITTED[4], older=(COMMITTED[0],), logs=[COMMITTED[:2], COMMITTED[3:]])
    assert gap_on(disk, COMMITTED, must_reach_snapshot=True, has_old_logs=True) is not None


def test_there_is_no_gap_in_what_learners_are_sent() -> None:
    """However old the logs are."""
    disk = disk_with(snapshot=COMMITTED[3], logs=[COMMITTED[:2], COMMITTED[4:]])
    assert gap_on(disk, COMMITTED, must_reach_snapshot=True, has_old_logs=True) is None
    gap = gap_on(disk, COMMITTED, must_reach_snapshot=True, has_old_logs=True, gapless_after=COMMITTED[1])
    assert gap is not None
    assert "0x100000003 is missing" in gap
