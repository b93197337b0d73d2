"""The two promises a quorum peer keeps on disk: acceptedEpoch and currentEpoch.

`acceptedEpoch` is the highest epoch this server has promised to follow, `currentEpoch` that of the last
leader whose history it took over. Both are decimal text in the snapshot directory. A promise is written here
before it is made: file first, memory and network after.

A promise that a damaged disk changes is one that is broken. Apache reads the first line alone, as Java reads
a number, so ours says `+7` and has a second line with a check of the first; without the `+` there is none.
"""

from pathlib import Path
from zlib import crc32

import attrs

from eventlog import log
from persistence.disk import Disk, read_chunks, replace_file
from persistence.errors import RESYNC_OR_RESTORE, DataDirError

ACCEPTED_EPOCH = "acceptedEpoch"
CURRENT_EPOCH = "currentEpoch"


_REMEDIES = {
    ACCEPTED_EPOCH: "Write the highest acceptedEpoch of all members into it, as a plain number",
    CURRENT_EPOCH: "Remove it: the epoch of the last transaction takes its place",
}


@attrs.frozen
class Epochs:
    accepted: int
    current: int


def read_epoch(disk: Disk, snap_dir: Path, name: str) -> int | None:
    """The epoch in the file, or None if there is no file."""
    path = snap_dir / name
    if not disk.exists(path):
        return None
    content = b"".join(read_chunks(disk, path))
    line = content.split(b"\n", 1)[0].strip()
    number = line.removeprefix(b"+")
    is_damaged = number != line and content != _checked(line)
    if is_damaged or not number.isdigit():
        raise DataDirError(
            f"{content[:40]!r} is not an epoch. Promises to other servers could be broken without it",
            file=path,
            offset=0,
            remedy=_REMEDIES[name],
        )
    return int(number)


def is_checked(disk: Disk, snap_dir: Path, name: str) -> bool:
    """Is there such a file, of our own? Apache's server makes it its own when it joins a leader."""
    path = snap_dir / name
    return disk.exists(path) and b"".join(read_chunks(disk, path)).startswith(b"+")


def _checked(line: bytes) -> bytes:
    return line + b"\ncrc32 %08x\n" % crc32(line)


def write_epoch(disk: Disk, snap_dir: Path, name: str, epoch: int) -> None:
    """Replace the epoch, atomically and durably."""
    replace_file(disk, snap_dir / name, _checked(b"+%d" % epoch))


def load_epochs(disk: Disk, snap_dir: Path, last_zxid: int) -> Epochs:
    """The epochs at start-up, checked against the data and against each other.

    A missing file is made from the last zxid: an old installation had none. If the data is of a later epoch
    than currentEpoch says, the server stopped while it took over the history of a leader whose epoch it had
    accepted: it has part of that history, perhaps all, and does not claim to. Otherwise the directory is not
    from one server at one time.
    """
    epoch_of_data = max(last_zxid, 0) >> 32
    current = _read_or_create(disk, snap_dir, CURRENT_EPOCH, epoch_of_data)
    accepted = _read_or_create(disk, snap_dir, ACCEPTED_EPOCH, max(epoch_of_data, current))
    if epoch_of_data > max(current, accepted):
        raise DataDirError(
            f"the current epoch {current} is older than the last zxid {last_zxid:#x}",
            file=snap_dir / CURRENT_EPOCH,
            remedy=f"Logs and epochs were not copied together. {RESYNC_OR_RESTORE}",
        )
    if epoch_of_data > current:
        log.info("taking_over_history_was_interrupted", current_epoch=current, epoch_of_data=epoch_of_data)
    if accepted < current:
        raise DataDirError(
            f"the accepted epoch {accepted} is below the current epoch {current}",
            file=snap_dir / ACCEPTED_EPOCH,
            remedy=f"The two files were not copied together. {RESYNC_OR_RESTORE}",
        )
    return Epochs(accepted, current)


def _read_or_create(disk: Disk, snap_dir: Path, name: str, default: int) -> int:
    epoch = read_epoch(disk, snap_dir, name)
    if epoch is None:
        log.info("epoch_file_created", name=name, epoch=default)
        write_epoch(disk, snap_dir, name, default)
        return default
    return epoch
