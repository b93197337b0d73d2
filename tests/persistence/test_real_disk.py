"""What the operating system is asked for, in which order: the promises of disk.py, kept by the real disk.

No other test would notice a sync that is left out: without a loss of power a file holds what was written.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from persistence.disk import RealDisk, RealFile, replace_file
from persistence.epoch_files import CURRENT_EPOCH, write_epoch
from persistence.file_names import SnapshotFile
from persistence.recovery import RecoveryOptions, recover
from persistence.snapshots import SnapshotOptions, take_snapshot_now
from persistence.txn_log import TxnLog
from tests.persistence.fake_tree import FakeTree, payloads

SYNC = "fdatasync" if hasattr(os, "fdatasync") else "fsync"


class Calls:
    """The calls that change something, as (name, file); a file is called by the last name it got here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._made: list[tuple[str, int]] = []
        for name in ("pwrite", "ftruncate", "fsync", SYNC):
            self._watch(monkeypatch, name)
        self._watch_names(monkeypatch, "replace", lambda source, target: os.stat(source).st_ino)
        self._watch_names(monkeypatch, "unlink", lambda path: os.stat(path).st_ino)

    def _watch(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        original = getattr(os, name)

        def watched(fd: int, *args: Any) -> Any:
            self._made.append((name, os.fstat(fd).st_ino))
            return original(fd, *args)

        monkeypatch.setattr(os, name, watched)

    def _watch_names(self, monkeypatch: pytest.MonkeyPatch, name: str, inode_of: Callable[..., int]) -> None:
        original = getattr(os, name)

        def watched(*args: Any) -> None:
            self._made.append((name, inode_of(*args)))
            original(*args)

        monkeypatch.setattr(os, name, watched)

    def take(self, *files: Path) -> list[str]:
        """What was done to these files and directories since the last time, in order."""
        names = {os.stat(file).st_ino: file.name for file in files}
        made, self._made = self._made, []
        return [f"{call} {names[inode]}" for call, inode in made if inode in names]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def test_a_sync_of_a_file_is_one(calls: Calls, folder: Path) -> None:
    file = RealFile(folder / "file")
    file.write_at(0, b"content")
    file.sync()
    file.close()
    assert calls.take(folder / "file") == ["pwrite file", f"{SYNC} file"]


def test_a_file_that_somebody_wrote_is_synced_whole(calls: Calls, folder: Path) -> None:
    (folder / "file").write_bytes(b"content")
    RealDisk().sync_file(folder / "file")
    assert calls.take(folder / "file") == ["fsync file"]


def test_a_directory_is_synced(calls: Calls, folder: Path) -> None:
    RealDisk().sync_directory(folder)
    assert calls.take(folder) == ["fsync data"]


def test_a_cut_is_durable(calls: Calls, folder: Path) -> None:
    (folder / "file").write_bytes(b"content")
    RealDisk().truncate(folder / "file", 3)
    assert calls.take(folder / "file") == ["ftruncate file", "fsync file"]
    assert (folder / "file").read_bytes() == b"con"


def test_a_rename_is_one_step(calls: Calls, folder: Path) -> None:
    """Not a removal and a new name: in between there would be neither."""
    (folder / "old").write_bytes(b"old")
    (folder / "new").write_bytes(b"new")
    RealDisk().rename(folder / "new", folder / "old")
    assert calls.take(folder / "old") == ["replace old"]
    assert (folder / "old").read_bytes() == b"new"


def test_a_file_is_replaced_by_one_that_is_safe(calls: Calls, folder: Path) -> None:
    (folder / "file").write_bytes(b"old")
    replace_file(RealDisk(), folder / "file", b"new")
    expected = ["pwrite file", f"{SYNC} file", "replace file", "fsync data"]
    assert calls.take(folder / "file", folder) == expected


def test_a_promised_epoch_is_safe(calls: Calls, folder: Path) -> None:
    write_epoch(RealDisk(), folder, CURRENT_EPOCH, 7)
    made = calls.take(folder / CURRENT_EPOCH, folder)
    assert made[-3:] == [f"{SYNC} currentEpoch", "replace currentEpoch", "fsync data"]


def test_a_logged_batch_is_safe(calls: Calls, folder: Path) -> None:
    """The first one of a file with the file's name, every further one by one sync behind its last write."""
    log = TxnLog(RealDisk(), folder)
    log.append_batch(payloads(1, 3))
    path = folder / "log.1"
    assert calls.take(path, folder) == [
        "ftruncate log.1",
        "pwrite log.1",
        f"{SYNC} log.1",
        "replace log.1",
        "fsync data",
    ]
    log.append_batch(payloads(4, 6))
    assert calls.take(path, folder) == ["pwrite log.1", f"{SYNC} log.1"]
    log.close()


def test_without_force_sync_nothing_is_synced(calls: Calls, folder: Path) -> None:
    log = TxnLog(RealDisk(), folder, force_sync=False)
    log.append_batch(payloads(1, 3))
    log.close()
    assert calls.take(folder / "log.1", folder) == ["ftruncate log.1", "pwrite log.1", "replace log.1"]


def test_a_truncated_log_is_safe(calls: Calls, folder: Path) -> None:
    """The newest file goes first, and its name durably, before an older one is cut."""
    log = TxnLog(RealDisk(), folder)
    log.append_batch(payloads(1, 3))
    log.roll()
    log.append_batch(payloads(4, 6))
    calls.take(folder)
    log.truncate_after(2)
    assert calls.take(folder / "log.1", folder) == [
        "fsync data",
        "pwrite log.1",  # the mark behind what stays,
        "fsync log.1",
        "ftruncate log.1",  # and only then the rest goes
        "fsync log.1",
    ]


def saved(folder: Path) -> SnapshotFile:
    return take_snapshot_now(RealDisk(), folder, FakeTree(), SnapshotOptions())


def test_a_snapshot_is_safe_before_it_has_its_name(calls: Calls, folder: Path) -> None:
    saved(folder)
    made = calls.take(folder / "snapshot.0", folder)
    assert made == ["pwrite snapshot.0", f"{SYNC} snapshot.0", "replace snapshot.0", "fsync data"]


def test_what_is_recovered_is_safe_from_then_on(calls: Calls, folder: Path) -> None:
    saved(folder)
    log = TxnLog(RealDisk(), folder)
    log.append_batch(payloads(1, 3))
    log.close()
    calls.take(folder)
    recover(RealDisk(), folder, folder, FakeTree(), RecoveryOptions())
    made = calls.take(folder / "snapshot.0", folder / "log.1", folder)
    assert made == ["fsync snapshot.0", "fsync data", "fsync log.1", "fsync data"]
