"""What persistence relies on holds for the file system as for its stand-in in memory."""

import os
from contextlib import closing
from pathlib import Path
from stat import S_IMODE

import pytest

from persistence.disk import Disk, RealDisk, read_chunks, replace_file
from persistence.txn_log import TxnLog
from tests.persistence.fake_tree import payloads, recovered
from tests.persistence.memory_disk import MemoryDisk


@pytest.fixture(params=["real", "memory"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return RealDisk() if request.param == "real" else MemoryDisk()


@pytest.fixture
def directory(disk: Disk, tmp_path: Path) -> Path:
    directory = tmp_path / "a" / "b"
    disk.make_directory(directory)
    disk.make_directory(directory)
    return directory


def content(disk: Disk, path: Path) -> bytes:
    return b"".join(read_chunks(disk, path))


def test_writing_and_reading_at_offsets(disk: Disk, directory: Path) -> None:
    path = directory / "file"
    with closing(disk.create(path)) as file:
        file.write_at(3, b"defg")
        file.write_at(0, b"abc")
        file.sync()
    disk.sync_directory(directory)
    assert disk.exists(path)
    assert disk.is_writable(directory)
    assert disk.names(directory) == ["file"]
    with closing(disk.open(path, 2)) as reading:
        assert [reading.read(3), reading.read(3), reading.read(3)] == [b"cde", b"fg", b""]


def test_growing_adds_zeros_and_keeps_the_rest(disk: Disk, directory: Path) -> None:
    path = directory / "file"
    with closing(disk.create(path)) as file:
        file.write_at(0, b"abc")
        file.grow(5)
    assert content(disk, path) == b"abc\0\0"
    assert disk.size(path) == 5


def test_creating_empties_what_was_there(disk: Disk, directory: Path) -> None:
    path = directory / "file"
    replace_file(disk, path, b"old")
    disk.create(path).close()
    assert content(disk, path) == b""


def test_cutting_renaming_and_removing(disk: Disk, directory: Path) -> None:
    one, two = directory / "one", directory / "two"
    replace_file(disk, one, b"one and more")
    replace_file(disk, two, b"two")
    disk.truncate(one, 3)
    disk.rename(one, two)
    assert disk.names(directory) == ["two"]
    assert content(disk, two) == b"one"
    disk.unlink(two)
    assert not disk.exists(two)
    with pytest.raises(FileNotFoundError):
        disk.open(two)


def test_a_log_on_the_disk_is_recovered(disk: Disk, directory: Path) -> None:
    recovered(disk, snap_dir=directory, log_dir=directory)
    log = TxnLog(disk, directory, preallocate_bytes=1 << 20)
    for first in range(1, 100, 10):
        log.append_batch(payloads(first, first + 9))
        if first == 51:
            log.roll()
    log.close()
    found, tree = recovered(disk, snap_dir=directory, log_dir=directory)
    assert found.zxid == 100
    assert tree.replayed == payloads(1, 100)


def test_whoever_could_not_read_a_file_cannot_read_what_replaces_it(tmp_path: Path) -> None:
    """Nor what is written beside it with the same content; a new file is for all to read."""
    disk, file = RealDisk(), tmp_path / "zoo.cfg"
    replace_file(disk, file, b"old")
    assert S_IMODE(file.stat().st_mode) == 0o644
    file.chmod(0o600)
    replace_file(disk, file, b"superDigest")
    replace_file(disk, tmp_path / "zoo.cfg.bak", b"superDigest", like=file)
    assert {each.name: S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()} == {
        "zoo.cfg": 0o600,
        "zoo.cfg.bak": 0o600,
    }


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_what_replaces_a_file_is_for_its_readers_from_its_first_byte_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """It is for its owner alone until it is known who else may read it."""
    disk, file = RealDisk(), tmp_path / "zoo.cfg"
    file.write_bytes(b"old")
    file.chmod(mode)
    modes: list[int] = []
    fchmod = os.fchmod

    def noting(fd: int, mode: int) -> None:
        modes.append(S_IMODE(os.fstat(fd).st_mode))
        fchmod(fd, mode)

    monkeypatch.setattr(os, "fchmod", noting)
    replace_file(disk, file, b"superDigest")
    assert modes == [0o600]
    assert S_IMODE(file.stat().st_mode) == mode
