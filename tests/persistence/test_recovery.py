"""Start-up: which snapshot, which entries, and when to refuse."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from persistence.data_dirs import has_fetched
from persistence.disk import RealDisk
from persistence.epoch_files import CURRENT_EPOCH, write_epoch
from persistence.errors import CorruptLog, CorruptSnapshot, DataDirError
from persistence.file_names import Compression
from persistence.log_format import FILE_HEADER, encode_entries
from persistence.recovery import RecoveryOptions, recover
from persistence.snapshot_format import Node
from persistence.snapshots import SnapshotOptions, take_snapshot_now
from persistence.txn_log import TxnLog
from tests.captured_logs import capture_logs
from tests.persistence.fake_tree import DATA, FakeTree, payload, payloads, recovered
from tests.persistence.memory_disk import MemoryDisk
from tests.persistence.test_snapshot_format import GOLDEN, golden_tree


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(DATA)
    return disk


def put_log(disk: MemoryDisk, *zxids: int, tail: bytes = bytes(100), name: int | None = None) -> None:
    entries = encode_entries([payload(zxid) for zxid in zxids])
    disk.put(DATA / f"log.{zxids[0] if name is None else name:x}", FILE_HEADER + entries + tail)


def put_snapshot(disk: MemoryDisk, zxid: int) -> None:
    tree = golden_tree()
    tree.zxid = zxid
    tree.digest = (zxid, 77)
    take_snapshot_now(disk, DATA, tree, SnapshotOptions())


def test_an_empty_directory_gets_a_snapshot_first(disk: MemoryDisk) -> None:
    found, _ = recovered(disk)
    assert (found.zxid, found.txns_replayed) == (0, 0)
    assert disk.names(DATA) == ["snapshot.0"]
    assert recovered(disk)[0].zxid == 0


def test_a_snapshot_under_the_name_of_a_later_one_is_not_taken_for_that(disk: MemoryDisk) -> None:
    """A write of the disk that went to the wrong place, or a file that was renamed."""
    put_snapshot(disk, 2)
    put_log(disk, 1, 2, 3, 4)
    put_log(disk, 5, 6)
    disk.put(DATA / "snapshot.4", disk.get(DATA / "snapshot.2"))
    found, tree = recovered(disk)
    assert (found.zxid, tree.replayed_zxids) == (6, [3, 4, 5, 6])


def test_an_empty_directory_may_be_forbidden(disk: MemoryDisk) -> None:
    """Then this server must not vote as if it knew everything."""
    found, _ = recovered(disk, RecoveryOptions(db_autocreate=False))
    assert found.zxid == -1
    assert disk.names(DATA) == []


def test_the_initialize_mark_allows_an_empty_database_once(disk: MemoryDisk) -> None:
    disk.put(DATA.parent / "initialize", b"")
    found, _ = recovered(disk, RecoveryOptions(db_autocreate=False))
    assert found.zxid == 0
    assert not disk.exists(DATA.parent / "initialize")


def test_the_log_is_replayed_over_the_newest_snapshot(disk: MemoryDisk) -> None:
    put_snapshot(disk, 2)
    put_snapshot(disk, 4)
    put_log(disk, 1, 2, 3)
    put_log(disk, 4, 5, 6)
    put_log(disk, 7)
    found, tree = recovered(disk)
    assert found.snapshot is not None
    assert found.snapshot.path == DATA / "snapshot.4"
    assert (found.zxid, found.txns_replayed) == (7, 3)
    assert tree.replayed_zxids == [5, 6, 7]
    assert tree.nodes == golden_tree().nodes
    assert tree.digest == (4, 77)


@pytest.mark.parametrize("zxid", [0x2_0000_0000, 0x2_0000_0005, 5])
def test_a_log_that_ends_before_the_snapshot_is_put_aside(disk: MemoryDisk, zxid: int) -> None:
    """As after a learner was sent a snapshot: what is logged next would seem to follow the old log."""
    put_log(disk, 1, 2)
    put_log(disk, 3, 4)
    put_snapshot(disk, zxid)
    found, tree = recovered(disk)
    assert (found.zxid, tree.replayed, found.gapless_after) == (zxid, [], zxid)
    disk.lose_power(Random(1))
    assert sorted(disk.names(DATA)) == ["aside-log.1", "aside-log.3", f"snapshot.{zxid:x}"]


@pytest.mark.parametrize("seed", range(5))
def test_a_snapshot_that_a_killed_process_left_is_made_safe_before_it_counts(
    disk: MemoryDisk, seed: int
) -> None:
    """Its name may not have reached the disk. A vote is given on it, and logs that end before it are put
    aside for good: a loss of power must not take it away then."""
    put_snapshot(disk, 2)
    disk.faults["sync_directory"] = OSError(5, "I/O error")
    with pytest.raises(OSError, match="I/O error"):
        put_snapshot(disk, 4)
    disk.faults.clear()
    assert recovered(disk)[0].zxid == 4
    disk.lose_power(Random(seed))
    assert recovered(disk)[0].zxid == 4


def test_a_snapshot_bridges_what_the_log_lacks(disk: MemoryDisk) -> None:
    put_log(disk, 1, 2)
    put_snapshot(disk, 50)
    put_log(disk, 51, 52)
    found, tree = recovered(disk)
    assert tree.replayed_zxids == [51, 52]
    assert found.gapless_after == 50
    assert sorted(disk.names(DATA)) == ["aside-log.1", "log.33", "snapshot.32"]


@pytest.mark.parametrize(
    ("zxids", "snapshot", "gapless_after"),
    [
        ([1, 2, 3, 4, 5], 4, 1),
        ([1, 2, 4, 5, 6], 5, 4),  # a gap before the snapshot
        ([1, 2, 3, 5, 6], 2, 5),  # and one behind it
        ([1, 2, 0x1_0000_0001, 0x1_0000_0002], 0x1_0000_0001, 0x1_0000_0001),  # an epoch may hide one before
        ([1, 2, 0x1_0000_0001, 0x1_0000_0002], 2, 1),  # but not behind it
        ([1, 2, 0x2_0000_0001, 0x2_0000_0002], 0x2_0000_0000, 0x2_0000_0000),  # sent by a leader of Apache's
    ],
)
def test_from_where_on_the_log_lacks_nothing(
    disk: MemoryDisk, zxids: list[int], snapshot: int, gapless_after: int
) -> None:
    put_log(disk, *zxids)
    put_snapshot(disk, snapshot)
    assert recovered(disk)[0].gapless_after == gapless_after
    assert disk.exists(DATA / "log.1")


def test_a_log_that_ends_with_the_snapshot_is_kept(disk: MemoryDisk) -> None:
    """As one that was rolled when the snapshot was taken."""
    put_log(disk, 1, 2, 3)
    put_snapshot(disk, 3)
    put_log(disk, 4, 5)
    assert recovered(disk)[0].gapless_after == 1
    assert disk.exists(DATA / "log.1")


@pytest.mark.parametrize("bad", [0x1_0000_0000, 0x1_0000_0003, 0x3_0000_0000])
def test_an_unusable_snapshot_must_be_in_the_log(disk: MemoryDisk, bad: int) -> None:
    """Where the log has no transaction of its zxid, it held what the log does not."""
    put_snapshot(disk, 1)
    put_log(disk, 1, 2, 0x1_0000_0001, 0x1_0000_0002)
    disk.put(DATA / f"snapshot.{bad:x}", b"cut short")
    with pytest.raises(CorruptSnapshot, match=rf"snapshot\.{bad:x}: this snapshot cannot be loaded, and"):
        recovered(disk)


def test_no_gap_is_history_before_an_unusable_snapshot(disk: MemoryDisk) -> None:
    put_snapshot(disk, 1)
    put_log(disk, 1, 2, 5, 6)
    disk.put(DATA / "snapshot.6", b"cut short")
    with pytest.raises(CorruptLog, match=r"what came before ends at zxid 0x2, and log\.1 goes on at 0x5"):
        recovered(disk)


def test_a_new_epoch_starts_anew(disk: MemoryDisk) -> None:
    put_snapshot(disk, 0)
    put_log(disk, 0x1_0000_0001, 0x1_0000_0002)
    put_log(disk, 0x3_0000_0001)
    assert recovered(disk)[0].zxid == 0x3_0000_0001


def test_entries_logged_twice_are_replayed_once(disk: MemoryDisk) -> None:
    put_snapshot(disk, 0)
    put_log(disk, 1, 2, 3, 4)
    put_log(disk, 3, 4, 5)
    assert recovered(disk)[1].replayed_zxids == [1, 2, 3, 4, 5]


def test_a_gap_inside_a_file_is_history(disk: MemoryDisk) -> None:
    put_snapshot(disk, 0)
    put_log(disk, 1, 2, 5, 6)
    assert recovered(disk)[1].replayed_zxids == [1, 2, 5, 6]


def test_a_digest_from_before_the_snapshot_is_not_used(disk: MemoryDisk) -> None:
    """A new leader's snapshot is named by a zxid that no transaction has."""
    tree = golden_tree()
    tree.zxid, tree.digest = 0x2_0000_0000, (0x1_0000_0007, 5)
    take_snapshot_now(disk, DATA, tree, SnapshotOptions())
    assert recovered(disk)[1].digest == (0, 0)


def test_a_corrupt_snapshot_gives_way_to_an_older_one(disk: MemoryDisk) -> None:
    put_snapshot(disk, 2)
    put_snapshot(disk, 4)
    put_log(disk, 1, 2, 3, 4, 5, 6, 7)
    disk._inode(DATA / "snapshot.4").content[100] ^= 1
    disk.put(DATA / "snapshot.5", b"cut short")
    disk.put(DATA / "snapshot.6.gz", b"\x1f\x8b and no more")
    disk.put(DATA / "snapshot.7.snappy", b"\x82SNAPPY\0" + bytes(8) + b"\0\0\0\x04oops")
    found, tree = recovered(disk)
    assert found.snapshot is not None
    assert found.snapshot.zxid == 2
    assert tree.resets == 3
    assert tree.replayed_zxids == [3, 4, 5, 6, 7]


def test_an_older_snapshot_needs_the_log_in_between(disk: MemoryDisk) -> None:
    put_snapshot(disk, 2)
    put_snapshot(disk, 8)
    put_log(disk, 9, 10)
    disk._inode(DATA / "snapshot.8").content[100] ^= 1
    with pytest.raises(CorruptLog, match=r"the snapshot ends at zxid 0x2, and log\.9 goes on at 0x9"):
        recovered(disk)


@pytest.mark.parametrize("names", [["snapshot.3"], ["snapshot.3", "snapshot.5.gz"]])
@pytest.mark.parametrize("content", [GOLDEN[:-6] + b"\1" + GOLDEN[-5:], b"cut short"])
def test_snapshots_of_which_none_can_be_loaded_are_refused(
    disk: MemoryDisk, names: list[str], content: bytes
) -> None:
    """Also without any log: an empty tree would be a silent loss of everything."""
    for name in names:
        disk.put(DATA / name, content)
    with pytest.raises(CorruptSnapshot, match="none of which can be loaded"):
        recovered(disk)


def test_a_broken_first_snapshot_is_no_loss(disk: MemoryDisk) -> None:
    disk.put(DATA / "snapshot.0", b"cut short")
    assert recovered(disk)[0].zxid == 0
    assert recovered(disk)[0].zxid == 0


def test_logs_without_any_snapshot_are_refused(disk: MemoryDisk) -> None:
    put_log(disk, 1, 2, 3)
    with pytest.raises(DataDirError, match="No snapshot found, but there are log entries"):
        recovered(disk)


def test_logs_without_any_snapshot_may_be_trusted(disk: MemoryDisk) -> None:
    put_log(disk, 1, 2, 3)
    found, tree = recovered(disk, RecoveryOptions(trust_empty=True))
    assert (found.zxid, found.snapshot) == (3, None)
    assert tree.replayed_zxids == [1, 2, 3]


def test_a_missing_file_is_a_hole(disk: MemoryDisk) -> None:
    put_snapshot(disk, 0)
    put_log(disk, 1, 2, 3)
    put_log(disk, 6, 7)
    with pytest.raises(
        CorruptLog, match=r"log\.1 and what came before it end at zxid 0x3, and log\.6 goes on at 0x6"
    ):
        recovered(disk)


def test_a_tear_in_an_earlier_file_is_harmless_if_nothing_is_missing(disk: MemoryDisk) -> None:
    put_snapshot(disk, 0)
    put_log(disk, 1, 2, 3, tail=encode_entries([payload(4)])[:30])
    put_log(disk, 4, 5)
    assert recovered(disk)[1].replayed_zxids == [1, 2, 3, 4, 5]


def test_a_tear_in_an_earlier_file_is_damage_if_something_is_missing(disk: MemoryDisk) -> None:
    put_snapshot(disk, 0)
    put_log(disk, 1, 2, 3, tail=encode_entries([payload(4)])[:30])
    put_log(disk, 5, 6)
    with pytest.raises(CorruptLog, match=r"log\.1, byte 163: what follows zxid 0x3 is damaged"):
        recovered(disk)


NEXT_EPOCH = 0x1_0000_0001


def with_forty(disk: MemoryDisk) -> int:
    """40 transactions of 200 bytes in one file, and an epoch that begins in the next; where the tenth is."""
    put_snapshot(disk, 0)
    entries = encode_entries([payload(zxid, b"x" * 200) for zxid in range(1, 41)])
    disk.put(DATA / "log.1", FILE_HEADER + entries + bytes(1000))
    put_log(disk, NEXT_EPOCH, NEXT_EPOCH + 1)
    return len(FILE_HEADER) + 9 * (len(entries) // 40)


@pytest.mark.parametrize("damage", ["length", "no length", "end mark", "sector", "cut", "garbage in zeros"])
def test_damage_before_a_new_epoch_is_refused(disk: MemoryDisk, damage: str) -> None:
    """The next file does not tell that anything is missing: the first zxid of an epoch may follow any."""
    at = with_forty(disk)
    content = disk._inode(DATA / "log.1").content
    match damage:
        case "length":
            content[at + 9] ^= 1
        case "no length":
            content[at + 8 : at + 12] = bytes(4)
        case "end mark":
            content[at + 12 + 232] ^= 1
        case "sector":
            content[2560:3072] = bytes(512)
        case "cut":
            del content[at + 100 :]
        case _:
            content[-10] = 1
    with pytest.raises(CorruptLog, match=r"log\.1, byte \d+: what follows zxid .* is damaged"):
        recovered(disk)


@pytest.mark.parametrize("size", [13, 20, 48])
def test_a_tear_that_apaches_server_left_before_a_new_epoch_is_refused(disk: MemoryDisk, size: int) -> None:
    """It leaves an unfinished write where it is, and came back to another leader. Nobody can tell that from
    damage, until a snapshot makes it superfluous."""
    put_snapshot(disk, 0)
    put_log(disk, 1, 2, 3, tail=encode_entries([payload(4)])[:size].ljust(100, b"\0"))
    put_log(disk, NEXT_EPOCH, NEXT_EPOCH + 1)
    with pytest.raises(CorruptLog, match=r"log\.1, byte 163: what follows zxid 0x3 is damaged"):
        recovered(disk)
    put_snapshot(disk, NEXT_EPOCH)
    assert recovered(disk)[0].zxid == NEXT_EPOCH + 1


def test_so_is_a_tear_of_ours_behind_which_apaches_server_went_on(disk: MemoryDisk) -> None:
    """With the beginning of the batch that a crash interrupted. Our own next start would have cut it off."""
    recovered(disk)
    log = TxnLog(disk, DATA, preallocate_bytes=8192)
    log.append_batch([payload(1)])
    log.append_batch([payload(zxid, bytes([zxid]) * 300) for zxid in (2, 3, 4)])
    log.close()
    torn = disk.get(DATA / "log.1")[:512].ljust(8192, b"\0")
    disk.put(DATA / "log.1", torn)
    put_log(disk, NEXT_EPOCH, NEXT_EPOCH + 1)
    with pytest.raises(CorruptLog, match=r"log\.1, byte \d+: what follows zxid 0x2 is damaged"):
        recovered(disk)
    disk.unlink(DATA / f"log.{NEXT_EPOCH:x}")
    assert recovered(disk)[0].zxid == 2


def test_an_epoch_may_begin_in_a_new_file(disk: MemoryDisk) -> None:
    with_forty(disk)
    assert recovered(disk)[0].zxid == NEXT_EPOCH + 1


def broken_entry(zxid: int) -> bytes:
    entry = encode_entries([payload(zxid)])
    return entry[:20] + bytes([entry[20] ^ 1]) + entry[21:]


@pytest.mark.parametrize("later", [True, False])
def test_a_wrong_checksum_is_refused(disk: MemoryDisk, later: bool) -> None:
    """In an earlier file and at the end of the last: the entry may have been acknowledged."""
    put_snapshot(disk, 0)
    put_log(disk, 1, 2, tail=broken_entry(3) + bytes(50))
    if later:
        put_log(disk, 3, 4)
    with pytest.raises(
        CorruptLog, match=r"log\.1, byte 114: what follows zxid 0x2 is damaged.*truncate -s 114"
    ):
        recovered(disk)


def test_a_damaged_snapshot_and_log_name_the_remedy(disk: MemoryDisk) -> None:
    put_snapshot(disk, 0)
    put_log(disk, 1, 2, tail=broken_entry(3) + encode_entries([payload(4)]))
    with pytest.raises(CorruptLog) as failure:
        recovered(disk)
    assert failure.value.file == DATA / "log.1"
    assert failure.value.offset == 114
    assert "takes everything from its leader" in failure.value.remedy


def test_a_torn_tail_is_cut_and_the_next_entry_goes_elsewhere(disk: MemoryDisk) -> None:
    put_snapshot(disk, 0)
    put_log(disk, 1, 2, tail=encode_entries([payload(3)])[:-5] + bytes(500))
    found, _ = recovered(disk)
    assert found.zxid == 2
    assert disk.get(DATA / "log.1") == FILE_HEADER + encode_entries(payloads(1, 2))


def test_a_clean_tail_is_left_as_it_is(disk: MemoryDisk) -> None:
    put_snapshot(disk, 0)
    put_log(disk, 1, 2, tail=bytes(3 << 20))
    recovered(disk)
    assert disk.size(DATA / "log.1") == 114 + (3 << 20)


def test_bytes_far_behind_the_zeros_are_noticed(disk: MemoryDisk) -> None:
    """A file that lost a stretch in its middle looks, at first, as if it ended there."""
    put_snapshot(disk, 0)
    entries = encode_entries([payload(zxid, b"x" * 1000) for zxid in range(4, 1500)])
    put_log(disk, 1, 2, tail=bytes((2 << 20) - 114) + entries)
    with pytest.raises(CorruptLog, match="damaged"):
        recovered(disk)


def test_an_empty_last_log_is_removed(disk: MemoryDisk) -> None:
    """Apache creates a log before it writes to it."""
    put_snapshot(disk, 0)
    put_log(disk, 1, 2)
    disk.put(DATA / "log.3", b"")
    assert recovered(disk)[0].zxid == 2
    assert not disk.exists(DATA / "log.3")


def test_all_empty_logs_at_the_end_are_removed(disk: MemoryDisk) -> None:
    """A server that is started again after that may begin another one."""
    put_snapshot(disk, 0)
    put_log(disk, 1, 2)
    for name in ("log.3", "log.100000001"):
        disk.put(DATA / name, b"")
    assert recovered(disk)[0].zxid == 2
    assert sorted(disk.names(DATA)) == ["log.1", "snapshot.0"]


@pytest.mark.parametrize("content", [b"Z_LG", FILE_HEADER[:14] + b"\1", bytes(16), bytes(5000)])
def test_a_last_log_that_no_header_begins_with_is_refused(disk: MemoryDisk, content: bytes) -> None:
    put_snapshot(disk, 0)
    put_log(disk, 1, 2)
    disk.put(DATA / "log.3", content)
    with pytest.raises(CorruptLog, match=r"log\.3, byte 0: not a transaction log"):
        recovered(disk)


@pytest.mark.parametrize("content", [b"", b"ZKLG\0\0", FILE_HEADER[:15], b"ZKSN" + FILE_HEADER[4:]])
def test_any_other_file_that_is_no_log_is_refused(disk: MemoryDisk, content: bytes) -> None:
    put_snapshot(disk, 0)
    put_log(disk, 1, 2)
    disk.put(DATA / "log.3", content)
    put_log(disk, 4, 5)
    with pytest.raises(CorruptLog, match=r"log\.3, byte 0: not a transaction log"):
        recovered(disk)


def test_a_log_with_only_a_header_says_nothing(disk: MemoryDisk) -> None:
    put_snapshot(disk, 0)
    put_log(disk, 1, 2)
    disk.put(DATA / "log.3", FILE_HEADER + bytes(1000))
    assert recovered(disk)[0].zxid == 2


def test_progress_reaches_its_total(disk: MemoryDisk) -> None:
    put_snapshot(disk, 2)
    put_log(disk, 1, 2, 3, tail=bytes(3 << 20))
    steps: list[tuple[str, int, int]] = []
    recover(disk, DATA, DATA, FakeTree(), RecoveryOptions(), lambda *step: steps.append(step))
    for what in ("snapshot", "log"):
        done = [step for step in steps if step[0] == what]
        assert done[-1][1] == done[-1][2] > 0
        assert done == sorted(done)


def test_a_snapshot_ahead_of_the_log_is_said_aloud(disk: MemoryDisk) -> None:
    """As when a snapshot alone was copied from a server that was changing meanwhile."""

    class Moving(FakeTree):
        zxids = iter([5, 9])

        def last_zxid(self) -> int:
            return next(self.zxids)

    take_snapshot_now(disk, DATA, Moving(), SnapshotOptions())
    with capture_logs() as lines:
        assert recovered(disk)[0].zxid == 5
    assert {
        "event": "log_ends_before_snapshot",
        "log_zxid": "0x5",
        "snapshot_zxid": "0x9",
        "log_level": "error",
    } in lines


def test_a_tree_may_refuse_what_a_snapshot_says(disk: MemoryDisk) -> None:
    put_snapshot(disk, 2)
    put_snapshot(disk, 4)
    put_log(disk, 1, 2, 3, 4)

    class Choosy(FakeTree):
        def restore_nodes(self, nodes: Iterable[Node]) -> None:
            super().restore_nodes(nodes)
            if not self.resets:
                raise CorruptSnapshot("/a/b has no parent")

    tree = Choosy()
    assert recover(disk, DATA, DATA, tree, RecoveryOptions()).zxid == 4
    assert tree.replayed_zxids == [3, 4]


def test_snappy_without_its_library_says_what_to_install(
    disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_snapshot_now(disk, DATA, golden_tree(), SnapshotOptions(compression=Compression.SNAPPY))
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(DataDirError, match=r"pip install 'triokeeper\[snappy\]'"):
        recovered(disk)


def test_separate_directories(disk: MemoryDisk) -> None:
    logs = Path("/logs/version-2")
    disk.make_directory(logs)
    take_snapshot_now(disk, DATA, golden_tree(), SnapshotOptions(compression=Compression.GZIP))
    disk.put(logs / "log.7", FILE_HEADER + encode_entries(payloads(7, 9)))
    found, tree = recovered(disk, log_dir=logs)
    assert found.zxid == 9
    assert tree.replayed_zxids == [7, 8, 9]


MEMBER = RecoveryOptions(has_leader=True)


def test_a_member_can_be_told_to_fetch_everything(disk: MemoryDisk) -> None:
    """What it has is put aside, its promises are kept, and it does not vote; however often it is started."""
    put_snapshot(disk, 2)
    put_log(disk, 1, 2, tail=broken_entry(3) + encode_entries([payload(4)]))
    disk.put(DATA / "acceptedEpoch", b"7")
    with pytest.raises(CorruptLog, match="create an empty file `fetch-from-leader` in its dataDir"):
        recovered(disk, MEMBER)
    disk.put(DATA.parent / "fetch-from-leader", b"")
    for _ in range(2):
        found, tree = recovered(disk, MEMBER)
        assert (found.zxid, tree.replayed) == (-1, [])
        disk.lose_power(Random(2))
        assert sorted(disk.names(DATA)) == ["acceptedEpoch", "aside-log.1", "aside-snapshot.2"]
    has_fetched(disk, DATA)
    disk.lose_power(Random(2))
    assert not disk.exists(DATA.parent / "fetch-from-leader")


def test_who_is_to_fetch_everything_must_know_what_it_promised(disk: MemoryDisk) -> None:
    """On a new disk it would follow a leader that the others have left for one it has promised to follow."""
    disk.put(DATA.parent / "fetch-from-leader", b"")
    with pytest.raises(DataDirError, match="no acceptedEpoch") as refused:
        recovered(disk, MEMBER)
    assert "highest acceptedEpoch of all members" in (refused.value.remedy or "")
    disk.put(DATA / "acceptedEpoch", b"7\n")
    assert recovered(disk, MEMBER)[0].zxid == -1


def test_a_standalone_server_has_nobody_to_fetch_from(disk: MemoryDisk) -> None:
    """It would start with nothing."""
    put_snapshot(disk, 2)
    disk.put(DATA.parent / "fetch-from-leader", b"")
    with pytest.raises(DataDirError, match="Remove the file"):
        recovered(disk)
    assert disk.names(DATA) == ["snapshot.2"]


@pytest.mark.parametrize("goes_on", [False, True])
def test_our_log_that_apaches_server_cut_back_is_complete(disk: MemoryDisk, goes_on: bool) -> None:
    """Without the mark that was behind it, but with a snapshot that ends where it does."""
    recovered(disk)
    log = TxnLog(disk, DATA)
    log.append_batch(payloads(1, 5))
    log.close()
    entries = encode_entries(payloads(1, 3))
    del disk._inode(DATA / "log.1").content[len(FILE_HEADER) + len(entries) :]
    with pytest.raises(CorruptLog, match="what follows zxid 0x3 is damaged"):
        recovered(disk)
    put_snapshot(disk, 3)
    if goes_on:
        put_log(disk, NEXT_EPOCH, NEXT_EPOCH + 1)
    assert recovered(disk)[0].zxid == (NEXT_EPOCH + 1 if goes_on else 3)


def test_the_remedy_that_gives_up_transactions_works(tmp_path: Path) -> None:
    """As it is printed, in a shell."""
    real = RealDisk()
    take_snapshot_now(real, tmp_path, FakeTree(), SnapshotOptions())
    log = TxnLog(real, tmp_path)
    for zxid in range(1, 6):
        log.append_batch([payload(zxid)])
    log.close()
    with (tmp_path / "log.1").open("r+b") as file:
        file.seek(len(FILE_HEADER) + 3 * 49 + 20)
        file.write(b"\xff")
    with pytest.raises(CorruptLog) as refusal:
        recover(real, tmp_path, tmp_path, FakeTree(), RecoveryOptions())
    command = refusal.value.remedy.split("`")[-2]
    subprocess.run(command, shell=True, check=True, stderr=subprocess.DEVNULL)
    assert recover(real, tmp_path, tmp_path, FakeTree(), RecoveryOptions()).zxid == 3


@pytest.mark.parametrize("at", [2, 20, 40, 70])
def test_damage_to_a_log_that_ends_with_the_snapshot_costs_nothing(disk: MemoryDisk, at: int) -> None:
    """All of it is in the snapshot, and the next log goes on with the very next transaction."""
    put_log(disk, 1, 2, 3)
    put_snapshot(disk, 3)
    put_log(disk, 4, 5)
    disk._inode(DATA / "log.1").content[at] ^= 1
    found, tree = recovered(disk)
    assert (found.zxid, tree.replayed_zxids, found.gapless_after) == (5, [4, 5], 3)
    assert not disk.exists(DATA / "log.1")


def cut_newest_log(disk: MemoryDisk, size: int) -> None:
    newest = max(name for name in disk.names(DATA) if name.startswith("log."))
    disk.put(DATA / newest, disk.get(DATA / newest)[:size])


@pytest.mark.parametrize("size", [0, 5, 8])
def test_a_log_of_our_own_is_never_without_entries(disk: MemoryDisk, size: int) -> None:
    """It gets its name when its first batch is synced, so one that ends in its header has lost something."""
    recovered(disk)
    log = TxnLog(disk, DATA)
    for zxid in (1, 2):
        log.append_batch([payload(zxid)])
        log.roll()
    cut_newest_log(disk, size)
    with pytest.raises(CorruptLog, match="may have been acknowledged") as refused:
        recovered(disk)
    assert refused.value.file == DATA / "log.2"
    assert "may be deleted" in refused.value.remedy


def test_our_epoch_shows_whose_the_only_log_is(disk: MemoryDisk) -> None:
    """An Apache server that joined its leader here would have written the epoch anew."""
    recovered(disk)
    log = TxnLog(disk, DATA)
    log.append_batch([payload(1)])
    log.close()
    write_epoch(disk, DATA, CURRENT_EPOCH, 1)
    cut_newest_log(disk, 0)
    with pytest.raises(CorruptLog, match="may have been acknowledged"):
        recovered(disk)
    disk.put(DATA / CURRENT_EPOCH, b"1\n")
    assert recovered(disk)[0].zxid == 0
    assert not disk.exists(DATA / "log.1")


def put_log_of_ours(disk: MemoryDisk, *zxids: int) -> None:
    log = TxnLog(disk, DATA)
    log.append_batch([payload(zxid) for zxid in zxids])
    log.close()


def test_the_log_before_an_empty_one_shows_whose_that_is(disk: MemoryDisk) -> None:
    """Not what either server wrote before that: the directory may have been handed over."""
    put_snapshot(disk, 0)
    put_log_of_ours(disk, 1, 2)
    put_log(disk, 3, 4)
    disk.put(DATA / "log.5", b"")
    assert recovered(disk)[0].zxid == 4
    assert not disk.exists(DATA / "log.5")
    put_log_of_ours(disk, 5)
    disk.put(DATA / "log.6", b"")
    with pytest.raises(CorruptLog, match=r"log\.6, byte 0"):
        recovered(disk)
