"""Where the files are: version-2 under dataDir for snapshots, under dataLogDir for logs.

The messages are Apache's: operators and their tools look for them.
"""

from pathlib import Path

import attrs

from persistence.disk import Disk
from persistence.errors import DataDirError

_VERSION_DIR = "version-2"
_INITIALIZE_MARKER = "initialize"
_FETCH_MARKER = "fetch-from-leader"
_REMEDY_UNUSABLE = (
    "Let the user that runs this server write there (chown), or choose another place "
    "(dataDir and dataLogDir, or --data)"
)


@attrs.frozen
class DataDirs:
    """The two version-2 directories; they may be the same one."""

    snap_dir: Path
    log_dir: Path


def open_data_dirs(disk: Disk, data_dir: Path, data_log_dir: Path, *, autocreate: bool) -> DataDirs:
    """Find or make the directories and make sure that they can be used and are not mixed up."""
    dirs = DataDirs(data_dir / _VERSION_DIR, data_log_dir / _VERSION_DIR)
    _open(disk, dirs.log_dir, "data", autocreate)
    _open(disk, dirs.snap_dir, "snap", autocreate)
    if dirs.log_dir != dirs.snap_dir:
        _refuse_names(disk, dirs.log_dir, "snapshot.", "Log directory has snapshot files.")
        _refuse_names(disk, dirs.snap_dir, "log.", "Snapshot directory has log files.")
    return dirs


def take_initialize_marker(disk: Disk, log_dir: Path) -> bool:
    """Remove the operator's mark that an empty database is meant to be empty; was it there?"""
    marker = log_dir.parent / _INITIALIZE_MARKER
    if not disk.exists(marker):
        return False
    disk.unlink(marker)
    disk.sync_directory(marker.parent)
    return True


def is_to_fetch(disk: Disk, snap_dir: Path) -> bool:
    """Has the operator told this server to take everything from its leader?"""
    return disk.exists(snap_dir.parent / _FETCH_MARKER)


def has_fetched(disk: Disk, snap_dir: Path) -> None:
    """Remove the operator's mark, if it is there: a leader's history is on disk."""
    marker = snap_dir.parent / _FETCH_MARKER
    if disk.exists(marker):
        disk.unlink(marker)
        disk.sync_directory(marker.parent)


def _open(disk: Disk, directory: Path, kind: str, autocreate: bool) -> None:
    if not _is_there(disk, directory, kind):
        if not autocreate:
            raise DataDirError(
                f"Missing {kind} directory {directory}, automatic data directory creation is disabled "
                "(zookeeper.datadir.autocreate is false). Please create this directory manually."
            )
        try:
            disk.make_directory(directory)
            for parent in (directory.parent, directory.parent.parent):
                disk.sync_directory(parent)
        except OSError as error:
            wording = f"Unable to create {kind} directory {directory}: {error}"
            raise DataDirError(wording, remedy=_REMEDY_UNUSABLE) from error
    if not disk.is_writable(directory):
        raise DataDirError(f"Cannot write to {kind} directory {directory}", remedy=_REMEDY_UNUSABLE)
    try:
        disk.lock_directory(directory)
    except BlockingIOError as error:
        raise DataDirError(
            f"another server uses this {kind} directory",
            file=directory,
            remedy="Stop it first, or give this server a dataDir of its own",
        ) from error


def _is_there(disk: Disk, directory: Path, kind: str) -> bool:
    try:
        return disk.exists(directory)
    except PermissionError as error:
        raise DataDirError(
            f"Cannot enter {kind} directory {directory}: {error.strerror}",
            remedy="Let the user that runs this server enter it and every directory above it (chmod, chown)",
        ) from error


def _refuse_names(disk: Disk, directory: Path, prefix: str, problem: str) -> None:
    if any(name.startswith(prefix) for name in disk.names(directory)):
        raise DataDirError(
            f"{problem} Check if dataLogDir and dataDir configuration is correct.", file=directory
        )
