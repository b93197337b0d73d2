"""The directories at start-up: made, found, or refused in Apache's words."""

import errno
from pathlib import Path

import pytest

from persistence.data_dirs import DataDirs, open_data_dirs
from persistence.errors import DataDirError
from tests.persistence.memory_disk import MemoryDisk

SNAPS, LOGS = Path("/data/version-2"), Path("/logs/version-2")


def test_missing_directories_are_made() -> None:
    disk = MemoryDisk()
    dirs = open_data_dirs(disk, Path("/data"), Path("/logs"), autocreate=True)
    assert dirs == DataDirs(SNAPS, LOGS)
    assert disk.names(SNAPS) == disk.names(LOGS) == []


def test_both_kinds_may_share_a_directory() -> None:
    disk = MemoryDisk()
    disk.put(SNAPS / "log.1", b"")
    disk.put(SNAPS / "snapshot.0", b"")
    assert open_data_dirs(disk, Path("/data"), Path("/data"), autocreate=False) == DataDirs(SNAPS, SNAPS)


def test_a_missing_directory_is_refused_if_none_may_be_made() -> None:
    with pytest.raises(
        DataDirError, match=r"^Missing data directory /logs/version-2, automatic data directory"
    ):
        open_data_dirs(MemoryDisk(), Path("/data"), Path("/logs"), autocreate=False)


def test_a_directory_that_cannot_be_made_is_refused() -> None:
    disk = MemoryDisk()
    disk.faults["make_directory"] = PermissionError(errno.EACCES, "denied")
    with pytest.raises(
        DataDirError, match=r"^Unable to create data directory /logs/version-2: .* denied.*--data"
    ):
        open_data_dirs(disk, Path("/data"), Path("/logs"), autocreate=True)


def test_a_directory_that_cannot_be_written_is_refused() -> None:
    disk = MemoryDisk()
    disk.make_directory(LOGS)
    disk.faults["is_writable"] = PermissionError(errno.EACCES, "denied")
    with pytest.raises(DataDirError, match=r"^Cannot write to data directory /logs/version-2.*--data"):
        open_data_dirs(disk, Path("/data"), Path("/logs"), autocreate=True)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (LOGS / "snapshot.5", "Log directory has snapshot files"),
        (SNAPS / "log.5", "Snapshot directory has log files"),
    ],
)
def test_swapped_directories_are_refused(path: Path, message: str) -> None:
    disk = MemoryDisk()
    disk.put(path, b"")
    with pytest.raises(
        DataDirError, match=f"{message}. Check if dataLogDir and dataDir configuration is correct"
    ):
        open_data_dirs(disk, Path("/data"), Path("/logs"), autocreate=True)
