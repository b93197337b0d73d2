"""The epochs on disk: replaced atomically, checked at start-up."""

import pytest

from persistence.epoch_files import (
    ACCEPTED_EPOCH,
    CURRENT_EPOCH,
    Epochs,
    load_epochs,
    read_epoch,
    write_epoch,
)
from persistence.errors import DataDirError
from tests.persistence.fake_tree import DATA
from tests.persistence.memory_disk import Killed, MemoryDisk


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(DATA)
    return disk


def put(disk: MemoryDisk, accepted: bytes, current: bytes) -> None:
    disk.put(DATA / ACCEPTED_EPOCH, accepted)
    disk.put(DATA / CURRENT_EPOCH, current)


def test_an_epoch_is_decimal_text(disk: MemoryDisk) -> None:
    write_epoch(disk, DATA, ACCEPTED_EPOCH, 17)
    assert disk.get(DATA / "acceptedEpoch") == b"+17\ncrc32 b5b9d2ae\n"
    assert read_epoch(disk, DATA, ACCEPTED_EPOCH) == 17
    assert read_epoch(disk, DATA, CURRENT_EPOCH) is None


@pytest.mark.parametrize("content", [b"17", b"17\n", b"17\nsomething else"])
def test_of_what_apache_writes_only_the_first_line_counts(disk: MemoryDisk, content: bytes) -> None:
    disk.put(DATA / CURRENT_EPOCH, content)
    assert read_epoch(disk, DATA, CURRENT_EPOCH) == 17


@pytest.mark.parametrize("content", [b"", b"abc", b"-1", b"1.5", b"+", b"+17", b"+17\ncrc32 "])
def test_anything_else_is_refused(disk: MemoryDisk, content: bytes) -> None:
    disk.put(DATA / CURRENT_EPOCH, content)
    with pytest.raises(DataDirError, match=r"currentEpoch, byte 0: .* is not an epoch.* Remove it"):
        read_epoch(disk, DATA, CURRENT_EPOCH)


def test_a_crash_leaves_the_old_epoch_or_the_new_one() -> None:
    for budget in range(20):
        disk = MemoryDisk()
        put(disk, b"8", b"8")
        disk.budget = budget
        try:
            write_epoch(disk, DATA, CURRENT_EPOCH, 123456)
        except Killed:
            disk.revive()
        assert read_epoch(disk, DATA, CURRENT_EPOCH) in (8, 123456)


def test_missing_files_are_made_from_the_data(disk: MemoryDisk) -> None:
    assert load_epochs(disk, DATA, 0x3_0000_0009) == Epochs(accepted=3, current=3)
    assert [read_epoch(disk, DATA, name) for name in (ACCEPTED_EPOCH, CURRENT_EPOCH)] == [3, 3]


@pytest.mark.parametrize("zxid", [0, -1])
def test_without_data_the_epoch_is_zero(disk: MemoryDisk, zxid: int) -> None:
    assert load_epochs(disk, DATA, zxid) == Epochs(accepted=0, current=0)


def test_an_accepted_epoch_may_be_ahead(disk: MemoryDisk) -> None:
    put(disk, b"7", b"5")
    assert load_epochs(disk, DATA, 0x5_0000_0001) == Epochs(accepted=7, current=5)


def test_an_accepted_epoch_must_not_be_behind(disk: MemoryDisk) -> None:
    put(disk, b"4", b"5")
    with pytest.raises(DataDirError, match="the accepted epoch 4 is below the current epoch 5"):
        load_epochs(disk, DATA, 0x5_0000_0001)


def test_data_of_a_later_epoch_is_refused(disk: MemoryDisk) -> None:
    put(disk, b"5", b"5")
    with pytest.raises(DataDirError, match="the current epoch 5 is older than the last zxid 0x600000001"):
        load_epochs(disk, DATA, 0x6_0000_0001)


def test_part_of_a_new_leaders_history_is_no_claim_to_its_epoch(disk: MemoryDisk) -> None:
    """The server stopped before it had entered the epoch: whether it was about to makes no difference."""
    put(disk, b"6", b"5")
    disk.put(DATA / "currentEpoch.tmp", b"6")
    assert load_epochs(disk, DATA, 0x6_0000_0001) == Epochs(accepted=6, current=5)
