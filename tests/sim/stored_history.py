"""Does what a disk holds lead from its newest snapshot to its last entry without a gap?

A gap is a committed transaction that is missing, whatever the zxids look like: the first one of an epoch may
follow any other, so only the history tells. Looked at from outside, whenever a machine goes down and whenever
a server begins to serve.

Where Apache's server has left older logs there may be a gap behind them: it was sent a snapshot and kept its
logs. Such a gap does no harm, since nothing is read across it:

  recovery begins with the newest snapshot that can be loaded, and refuses to start unless the log then leads
  to the very transaction of each newer one. What Apache's server was sent is a snapshot whose transaction is
  in no log. So recovery never begins before the newest snapshot of that kind;

  learners are brought up to date from a zxid on that the server knows, `gapless_after`. It is told to us.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from persistence.file_names import LogFile, parse_log, parse_snapshot
from persistence.log_format import FILE_HEADER, EntryScanner, zxid_of
from tests.sim.disk import VirtualDisk


def gap_on(
    disk: VirtualDisk,
    committed: Sequence[int],
    *,
    must_reach_snapshot: bool,
    has_old_logs: bool = False,
    gapless_after: int | None = None,
) -> str | None:
    """What is missing, if anything. `committed` are all zxids of the history, rising. A server that serves
    from this disk brings learners up to date that have everything up to `gapless_after`.

    A log may end before the newest snapshot when a machine goes down: the log of this disk was slower than
    those that committed what the snapshot holds. A server that serves must have put such a log aside.
    """
    snapshots = sorted(_snapshots(disk))
    logged = _logged(disk)
    if not logged:
        return None
    begins = [_oldest_start(snapshots, logged) if has_old_logs else logged[0]]
    begins += snapshots[-1:]
    if gapless_after is not None:
        begins.append(max(gapless_after, logged[0]))  # further back it has no files
    begin = min(begins)
    for before, after in pairwise([begin, *logged[bisect_right(logged, begin) :]]):
        missing = _next(committed, before)
        if missing is not None and missing < after:
            return f"0x{before:x} is followed by 0x{after:x} in the log, 0x{missing:x} is missing"
    missing = _next(committed, logged[-1])
    if must_reach_snapshot and snapshots and missing is not None and missing <= snapshots[-1]:
        return (
            f"the log ends at 0x{logged[-1]:x}, before snapshot 0x{snapshots[-1]:x}: 0x{missing:x} is missing"
        )
    return None


def _oldest_start(snapshots: Sequence[int], logged: Sequence[int]) -> int:
    """The oldest snapshot that recovery could begin with, if all newer ones were damaged."""
    start = logged[0]
    for start in reversed(snapshots):
        if start not in logged:
            break
    return start


def _next(committed: Sequence[int], zxid: int) -> int | None:
    index = bisect_right(committed, zxid)
    return committed[index] if index < len(committed) else None


def _names(disk: VirtualDisk) -> list[Path]:
    return [
        path / name
        for path, directory in disk.directories.items()
        if path.name == "version-2"
        for name in directory.names
    ]


def _snapshots(disk: VirtualDisk) -> list[int]:
    found = (parse_snapshot(path) for path in _names(disk))
    return [snapshot.zxid for snapshot in found if snapshot is not None]


def _logged(disk: VirtualDisk) -> list[int]:
    """The zxids of all entries, rising, as a reader that goes from file to file meets them."""
    files = sorted(file for path in _names(disk) if (file := parse_log(path)) is not None)
    zxids: list[int] = []
    for file in files:
        for zxid in _entries(disk, file):
            if not zxids or zxid > zxids[-1]:
                zxids.append(zxid)
    return zxids


def _entries(disk: VirtualDisk, file: LogFile) -> list[int]:
    return entries_of(bytes(disk.directories[file.path.parent].names[file.path.name].content))


def entries_of(log: bytes) -> list[int]:
    """The zxids in one file."""
    return [zxid_of(payload) for payload in EntryScanner().feed(log[len(FILE_HEADER) :])]


def safe_on(disk: VirtualDisk) -> tuple[int, set[int]]:
    """What a loss of power would leave: the zxid of the newest snapshot, and those of all entries."""
    snapshot, logged = 0, set[int]()
    for path, directory in disk.directories.items():
        for name, inode in directory.safe.items():
            if (found := parse_snapshot(path / name)) is not None:
                snapshot = max(snapshot, found.zxid)
            elif parse_log(path / name) is not None:
                logged.update(entries_of(bytes(inode.safe)))
    return snapshot, logged


def logs_on(disk: VirtualDisk) -> dict[Path, bytes]:
    return {
        path: bytes(disk.directories[path.parent].names[path.name].content)
        for path in _names(disk)
        if parse_log(path) is not None
    }
