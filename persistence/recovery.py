"""From the files back to the tree: the newest sound snapshot, then the log replayed over it.

What always holds when `recover` returns: every transaction that was ever acknowledged has been replayed or
was in the snapshot, in order, none left out. Where the files show otherwise, it raises instead. Everything in
the log is replayed, whether it was committed or not: a quorum peer settles that with its leader.

The log need not lead up to the snapshot. Apache keeps its old log when its leader sends it a snapshot, a
crash may come between the two, and a server may have saved what the others' acks had committed before its own
disk had logged it. Such a log is put aside, durably, before anybody is served: what follows it on disk from
now on would look as if it followed it in history (the first zxid of an epoch may follow any), and its end may
never have been committed. `Recovered.gapless_after` says from where on the log is known to have no gaps.

A member of an ensemble whose data is damaged can be told to take everything from its leader (`is_to_fetch`).
What it has is put aside then, but its epochs stay: it keeps its promises. Until a leader's tree is on its
disk it is like a server whose empty database must not be trusted, whenever it is started: it has no vote,
since it may have acknowledged what it no longer has.

A snapshot that cannot be loaded is no loss if an older one and the log lead up to it; the log must then hold
the very transaction it is named by.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Protocol

import attrs

from eventlog import log
from persistence.data_dirs import is_to_fetch, take_initialize_marker
from persistence.disk import Disk, read_chunks
from persistence.epoch_files import ACCEPTED_EPOCH, CURRENT_EPOCH, is_checked
from persistence.errors import RESYNC_OR_RESTORE, CorruptLog, CorruptSnapshot, DataDirError
from persistence.file_names import LogFile, SnapshotFile, aside_name, is_unfinished
from persistence.log_format import FILE_HEADER, follows, is_complete, zxid_of
from persistence.log_reader import (
    LogReader,
    Tail,
    cut_log,
    damaged,
    hole,
    list_logs,
    logs_holding,
    marked_growth,
    read_to_last_nonzero,
)
from persistence.snapshot_compression import unpacked
from persistence.snapshot_format import Acl, FileDecoder, Node, Session, SnapshotSource, Trailers
from persistence.snapshots import SnapshotOptions, list_snapshots, looks_complete, take_snapshot_now
from persistence.torn_tail import is_torn_batch, is_torn_write, sound_entries

_CANDIDATES_MAX = 100
_NO_DATA = -1

Progress = Callable[[str, int, int], None]  # what is read ("snapshot" or "log"), bytes done, bytes in all


class Restorable(Protocol):
    """What is restored. Content it cannot accept, such as a node without a parent, is a CorruptSnapshot."""

    def reset(self) -> None:
        """Forget everything: the snapshot turned out bad, an older one follows."""
        ...

    def restore_sessions(self, sessions: Iterable[Session]) -> None: ...

    def restore_acls(self, acls: Iterable[Acl]) -> None: ...

    def restore_nodes(self, nodes: Iterable[Node]) -> None: ...

    def restore_digest(self, zxid: int, digest: int) -> None:
        """What the tree's digest (unsigned) will be once it has reached `zxid`."""
        ...

    def restored(self, zxid: int) -> None:
        """The snapshot is complete and sound, and holds at least everything up to `zxid`."""
        ...

    def replay(self, payload: bytes) -> None:
        """Apply a logged transaction, which the snapshot may have held already."""
        ...

    def caught_up(self) -> None:
        """That was the last transaction on disk."""
        ...

    def view(self) -> SnapshotSource:
        """To take a snapshot of it."""
        ...


@attrs.frozen(kw_only=True)
class RecoveryOptions:
    """The names in zoo.cfg are in the comments."""

    has_leader: bool = False  # it is a member of an ensemble
    trust_empty: bool = False  # snapshot.trust.empty
    db_autocreate: bool = True  # db.autocreate
    snapshots: SnapshotOptions = attrs.field(factory=SnapshotOptions)


@attrs.frozen(kw_only=True)
class Recovered:
    """What was found. `zxid` is -1 for an empty database that must not be trusted to be complete.

    Whoever has everything up to `gapless_after`, or to a later transaction of the log, can be brought up to
    date from the log.
    """

    zxid: int
    snapshot: SnapshotFile | None
    txns_replayed: int
    gapless_after: int = 0


def ignore_progress(what: str, bytes_done: int, bytes_total: int) -> None:
    """The default for `progress`."""


def recover(
    disk: Disk,
    snap_dir: Path,
    log_dir: Path,
    target: Restorable,
    options: RecoveryOptions,
    progress: Progress = ignore_progress,
) -> Recovered:
    """Bring `target`, fresh and empty, to the last transaction on disk."""
    _remove_leftovers(disk, snap_dir, log_dir)
    if is_to_fetch(disk, snap_dir):
        return _forget_everything(disk, snap_dir, log_dir, options)
    may_be_empty = take_initialize_marker(disk, log_dir) or options.db_autocreate
    snapshot = _load_newest(disk, snap_dir, target, progress)
    if snapshot is None:
        logs = list_logs(disk, log_dir)
        if not logs:
            return _start_empty(disk, snap_dir, target, options, may_be_empty)
        if not options.trust_empty:
            raise DataDirError(
                f"No snapshot found, but there are log entries ({logs[0].path.name} to {logs[-1].path.name})",
                file=log_dir,
                remedy=f"Check dataDir, {snap_dir} has no snapshot. {RESYNC_OR_RESTORE}. When upgrading from "
                "3.4, set zookeeper.snapshot.trust.empty=true for one start",
            )
        log.warning("snapshot_missing_trusted", logs=len(logs))
        target.restored(0)
    if snapshot is not None:
        _make_snapshot_safe(disk, snapshot.file)
    start = snapshot.file.zxid if snapshot is not None else 0
    replayed = _replay(disk, log_dir, start, target, [] if snapshot is None else snapshot.unusable, progress)
    target.caught_up()
    if snapshot is not None:
        _warn_if_log_is_short(snapshot, replayed.zxid)
    return Recovered(
        zxid=replayed.zxid,
        snapshot=None if snapshot is None else snapshot.file,
        txns_replayed=replayed.count,
        gapless_after=replayed.gapless_after,
    )


def check_leads_to(disk: Disk, snap_dir: Path, log_dir: Path, zxid: int) -> None:
    """Raise StorageError unless recovery would end at `zxid` if nothing later were on disk.

    Not so where logs were put aside, or purged: what is left of them may begin behind the snapshot before.
    """
    snapshots = [each for each in list_snapshots(disk, snap_dir) if each.zxid <= zxid]
    start = next((each.zxid for each in snapshots if looks_complete(disk, each)), 0)
    if start == zxid:
        return
    files = [file for file in logs_holding(list_logs(disk, log_dir), start) if file.zxid <= zxid]
    if files and files[0].zxid > start and not follows(start, files[0].zxid):
        raise hole("the snapshot ends", start, files[0], files[0].zxid)
    payloads = takewhile(lambda payload: zxid_of(payload) <= zxid, LogReader(disk, files, after=start))
    if all(zxid_of(payload) != zxid for payload in payloads):
        raise DataDirError(f"zxid {zxid:#x} is not in the log", file=log_dir, remedy=RESYNC_OR_RESTORE)


def _remove_leftovers(disk: Disk, snap_dir: Path, log_dir: Path) -> None:
    """Remove what a crash left unfinished; none of it was ever relied upon."""
    for directory in dict.fromkeys((snap_dir, log_dir)):
        for name in disk.names(directory):
            if is_unfinished(name):
                log.info("leftover_removed", file=str(directory / name))
                disk.unlink(directory / name)
    logs = list_logs(disk, log_dir)
    while logs and _ends_in_its_header(disk, logs[-1]):
        *earlier, newest = logs
        if _was_left_by_us(disk, snap_dir, earlier):
            break  # its reader refuses it
        log.warning("empty_log_removed", file=str(newest.path))
        disk.unlink(newest.path)
        logs = earlier


def _ends_in_its_header(disk: Disk, file: LogFile) -> bool:
    """Apache creates a log before it writes the header, of which a full disk may take only a part."""
    if disk.size(file.path) >= len(FILE_HEADER):
        return False
    return FILE_HEADER.startswith(b"".join(read_chunks(disk, file.path)))


def _was_left_by_us(disk: Disk, snap_dir: Path, earlier: list[LogFile]) -> bool:
    """Does anything show that the last log is our own? Those get their name when their first batch is synced:
    one without any was damaged, and what it held had been acknowledged."""
    has_mark = bool(earlier) and marked_growth(disk, earlier[-1]) is not None
    return has_mark or is_checked(disk, snap_dir, CURRENT_EPOCH)


def _forget_everything(disk: Disk, snap_dir: Path, log_dir: Path, options: RecoveryOptions) -> Recovered:
    if not options.has_leader:
        raise DataDirError(
            "fetch-from-leader is there, and a standalone server has no leader",
            file=snap_dir.parent,
            remedy="Remove the file. Damaged data of a standalone server needs a backup",
        )
    if not disk.exists(snap_dir / ACCEPTED_EPOCH):
        raise DataDirError(
            "fetch-from-leader is there, and no acceptedEpoch. Promises to other servers could be broken",
            file=snap_dir / ACCEPTED_EPOCH,
            remedy="Write the highest acceptedEpoch of all members into it, as a plain number",
        )
    log.warning("everything_will_be_fetched", directory=str(snap_dir))
    for snapshot in list_snapshots(disk, snap_dir):
        _rename_aside(disk, snapshot.path)
    for file in list_logs(disk, log_dir):
        _rename_aside(disk, file.path)
    for directory in dict.fromkeys((snap_dir, log_dir)):
        disk.sync_directory(directory)
    return Recovered(zxid=_NO_DATA, snapshot=None, txns_replayed=0)


def _start_empty(
    disk: Disk, snap_dir: Path, target: Restorable, options: RecoveryOptions, may_be_empty: bool
) -> Recovered:
    """A new database. Its snapshot comes first: logs without any would be refused at the next start."""
    if not may_be_empty:
        log.warning("database_unexpectedly_empty")
        return Recovered(zxid=_NO_DATA, snapshot=None, txns_replayed=0)
    target.restored(0)
    snapshot = take_snapshot_now(disk, snap_dir, target.view(), options.snapshots)
    return Recovered(zxid=0, snapshot=snapshot, txns_replayed=0)


@attrs.frozen
class _Loaded:
    file: SnapshotFile
    trailers: Trailers
    unusable: list[SnapshotFile]  # newer ones


def _load_newest(disk: Disk, snap_dir: Path, target: Restorable, progress: Progress) -> _Loaded | None:
    """Load the newest snapshot that can be. None only if there was never one worth the name."""
    snapshots = list_snapshots(disk, snap_dir)
    problem = ""  # of the newest
    for number, snapshot in enumerate(snapshots[:_CANDIDATES_MAX]):
        if not looks_complete(disk, snapshot):
            problem = problem or "its end is missing"
            log.warning("snapshot_incomplete", file=str(snapshot.path))
            continue
        try:
            trailers = load_snapshot(disk, snapshot, target, progress)
            return _Loaded(snapshot, trailers, snapshots[:number])
        except CorruptSnapshot as error:
            problem = problem or str(error)
            log.error("snapshot_unusable", file=str(snapshot.path), problem=str(error))
            target.reset()
    # snapshot.0 holds nothing: Apache may leave a broken one behind if it is stopped at its first start.
    if any(snapshot.zxid > 0 for snapshot in snapshots):
        raise CorruptSnapshot(
            f"this is the newest of {len(snapshots)} snapshots, none of which can be loaded: {problem}. What "
            "they hold may have been acknowledged",
            file=snapshots[0].path,
            remedy=RESYNC_OR_RESTORE,
        )
    return None


def load_snapshot(
    disk: Disk, snapshot: SnapshotFile, target: Restorable, progress: Progress = ignore_progress
) -> Trailers:
    """Load one snapshot into `target`, which is of no use if this raises."""
    file = _counted(read_chunks(disk, snapshot.path), disk.size(snapshot.path), progress)
    decoder = FileDecoder(unpacked(file, snapshot.compression))
    target.restore_sessions(decoder.sessions())
    target.restore_acls(decoder.acls())
    target.restore_nodes(decoder.nodes())
    trailers = decoder.trailers()
    if trailers.last_zxid is not None and trailers.last_zxid < snapshot.zxid:
        raise CorruptSnapshot(
            f"it holds what there was at {trailers.last_zxid:#x}, and is named after {snapshot.zxid:#x}: it "
            "stands in the place of another",
            file=snapshot.path,
            remedy=RESYNC_OR_RESTORE,
        )
    # A digest from before the snapshot began belongs to a new leader, whose zxid is no transaction's.
    if trailers.digest is not None and trailers.digest[0] >= max(snapshot.zxid, 1):
        target.restore_digest(*trailers.digest)
    target.restored(snapshot.zxid)
    return trailers


def _counted(chunks: Iterable[bytes], total: int, progress: Progress) -> Iterator[bytes]:
    done = 0
    for chunk in chunks:
        done += len(chunk)
        progress("snapshot", done, total)
        yield chunk


@attrs.frozen
class _Replayed:
    zxid: int  # of the last transaction
    count: int
    gapless_after: int


def _replay(
    disk: Disk,
    log_dir: Path,
    start: int,
    target: Restorable,
    unusable: list[SnapshotFile],
    progress: Progress,
) -> _Replayed:
    """Replay everything after zxid `start`, and see that it leads to every snapshot that was of no use."""
    every = list_logs(disk, log_dir)
    files = logs_holding(every, start)
    if files and files[0].zxid > start and not follows(start, files[0].zxid):
        raise hole("the snapshot ends", start, files[0], files[0].zxid)
    total = sum(disk.size(file.path) for file in files)
    done = 0

    def on_read(size: int) -> None:
        nonlocal done
        done += size
        progress("log", done, total)

    missing = {snapshot.zxid: snapshot for snapshot in unusable if snapshot.zxid > start}
    read = partial(LogReader, disk, after=start, on_read=on_read, gapless_until=max(missing, default=-1))
    reader, payloads = _first_read(read, files, start)
    count = 0
    first: int | None = None
    for payload in payloads:
        target.replay(payload)
        count += 1
        first = zxid_of(payload) if first is None else first
        missing.pop(zxid_of(payload), None)
    for snapshot in missing.values():
        raise _not_replaced(snapshot, start, reader.last_zxid)
    if reader.tail is not None:
        if not reader.ends_with_start(reader.tail.file, reader.tail.offset):
            _settle_tail(disk, reader.tail, reader.last_zxid)
        _make_safe(disk, reader.tail)
        progress("log", total, total)
    if not reader.reaches_start:
        _put_aside(disk, log_dir, _ended_before(every, start, first), start)
    return _Replayed(reader.last_zxid, count, reader.gapless_after)


def _first_read(
    read: Callable[[Sequence[LogFile]], LogReader], files: Sequence[LogFile], start: int
) -> tuple[LogReader, Iterator[bytes]]:
    """Read up to the first payload behind the snapshot. Damage in a file that ends with the snapshot costs
    nothing: that file was only to show that the log leads up to it."""
    reader = read(files)
    payloads = iter(reader)
    try:
        first = list(islice(payloads, 1))
    except CorruptLog as problem:
        if len(files) < 2 or files[1].zxid != start + 1:
            raise
        log.warning("log_before_snapshot_damaged", problem=str(problem))
        reader = read(files[1:])
        payloads, first = iter(reader), []
    return reader, chain(first, payloads)


def _not_replaced(snapshot: SnapshotFile, start: int, last_zxid: int) -> CorruptSnapshot:
    return CorruptSnapshot(
        f"this snapshot cannot be loaded, and what is there without it does not lead up to it: an older "
        f"snapshot ends at {start:#x}, and the log at {last_zxid:#x}, without its zxid {snapshot.zxid:#x}. "
        "Transactions up to that may have been acknowledged",
        file=snapshot.path,
        remedy=RESYNC_OR_RESTORE,
    )


def _ended_before(files: Sequence[LogFile], start: int, first: int | None) -> list[LogFile]:
    """The logs without an entry behind the snapshot, of which the first one is `first`."""
    if first is None:
        return [file for file in files if file.zxid <= start]
    return list(files[: files.index(logs_holding(files, first)[0])])


def _put_aside(disk: Disk, log_dir: Path, files: list[LogFile], snapshot_zxid: int) -> None:
    for file in files:
        log.warning("log_put_aside", file=str(file.path), ends_before_snapshot=hex(snapshot_zxid))
        _rename_aside(disk, file.path)
    if files:
        disk.sync_directory(log_dir)


def _rename_aside(disk: Disk, path: Path) -> None:
    disk.rename(path, path.with_name(aside_name(path.name)))


def _make_snapshot_safe(disk: Disk, snapshot: SnapshotFile) -> None:
    """A killed process may have left it, or its name, in memory alone. It counts from now on: a vote will be
    given on it, and logs that end before it are put aside for good."""
    disk.sync_file(snapshot.path)
    disk.sync_directory(snapshot.path.parent)


def _make_safe(disk: Disk, tail: Tail) -> None:
    """A killed process may have left entries, and the name of their file, that never reached the disk. They
    count from now on: a vote and answers will be given on them, and the next log goes on behind them."""
    disk.sync_file(tail.file.path)
    disk.sync_directory(tail.file.path.parent)


def _settle_tail(disk: Disk, tail: Tail, last_zxid: int) -> None:
    """Cut off what a crash left of an unfinished write, so that no other reader stumbles over it."""
    path = tail.file.path
    rest = read_to_last_nonzero(disk, path, tail.offset)
    growth_bytes = marked_growth(disk, tail.file)
    if growth_bytes is None:
        if not rest:
            return
        is_torn = is_torn_write(rest, tail.offset, last_zxid)
    else:
        if is_complete(rest, tail.offset):
            return
        is_torn = is_torn_batch(
            rest,
            tail.offset,
            growth_bytes=growth_bytes,
            file_bytes=disk.size(path),
            before=partial(_read_before, disk, path, tail.offset),
        )
    if not is_torn:
        raise damaged(tail.file, tail.offset, last_zxid)
    log.warning(
        "log_torn_tail_cut",
        file=str(path),
        offset=tail.offset,
        bytes=len(rest),
        entries_behind_the_tear=sum(1 for _ in sound_entries(rest, last_zxid)),
        last_zxid=hex(last_zxid),
    )
    cut_log(disk, tail.file, tail.offset)


def _read_before(disk: Disk, path: Path, offset: int, size: int) -> bytes:
    with closing(disk.open(path, offset - size)) as file:
        return file.read(size)


def _warn_if_log_is_short(snapshot: _Loaded, zxid: int) -> None:
    """The tree held transactions that the log does not: as when only a snapshot was copied."""
    last = snapshot.trailers.last_zxid
    if last is not None and last > zxid:
        log.error("log_ends_before_snapshot", log_zxid=hex(zxid), snapshot_zxid=hex(last))
