"""Snapshot files: taking, listing, loading, and purging what newer ones have made superfluous.

A snapshot is fuzzy: the tree goes on changing while it is written. It is named by the last zxid applied when
it began, and replaying the log from there on brings it to any later state.

Better than the original in one point: a snapshot is written under another name, synced, and only then given
its own. So a crash never leaves a broken snapshot in the place of a good one.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import attrs
import trio

from eventlog import log
from persistence.disk import Disk, WritableFile
from persistence.file_names import (
    UNFINISHED_SUFFIX,
    Compression,
    SnapshotFile,
    parse_aside,
    parse_snapshot,
    snapshot_name,
)
from persistence.log_reader import list_logs, logs_holding
from persistence.offload import Offload
from persistence.snapshot_compression import GZIP_MAGIC, SNAPPY_MAGIC, compressor
from persistence.snapshot_format import TREE_END, SnapshotSource, file_chunks

RETAIN_COUNT_MIN = 3

_WRITE_BYTES = 256 << 10
# Every write is synced at once: the log's own syncs have to wait behind it. With 8 MB the slowest hundredth
# of the answers took 6 to 14 times as long while a snapshot was written, with this two to three times.
_SYNC_EVERY_BYTES = _WRITE_BYTES
_SIZE_MIN = 10


@attrs.frozen(kw_only=True)
class SnapshotOptions:
    """How snapshots are written. The names in zoo.cfg are in the comments."""

    compression: Compression = Compression.NONE  # snapshot.compression.method
    with_digest: bool = True  # digest.enabled
    with_last_zxid: bool = True  # serializeLastProcessedZxid.enabled
    durable: bool = True


class _Writing:
    """A snapshot file on its way. All its methods block."""

    def __init__(self, disk: Disk, directory: Path, zxid: int, options: SnapshotOptions) -> None:
        self.path = directory / snapshot_name(zxid, options.compression)
        self._unfinished = self.path.with_name(self.path.name + UNFINISHED_SUFFIX)
        self._disk = disk
        self._is_durable = options.durable
        self._compressor = compressor(options.compression)
        self._file: WritableFile | None = None
        self._written = 0
        self._synced = 0

    def start(self) -> None:
        self._file = self._disk.create(self._unfinished)

    def write(self, data: bytes) -> None:
        self._write(self._compressor.pack(data))
        if self._is_durable and self._written - self._synced >= _SYNC_EVERY_BYTES:
            self._sync()

    def commit(self) -> None:
        """Give the file its name. From here on it counts."""
        self._write(self._compressor.finish())
        if self._is_durable:
            self._sync()
        self._close()
        self._disk.rename(self._unfinished, self.path)
        if self._is_durable:
            self._disk.sync_directory(self.path.parent)

    def abandon(self) -> None:
        self._close()
        if self._disk.exists(self._unfinished):
            self._disk.unlink(self._unfinished)

    def _write(self, packed: bytes) -> None:
        assert self._file is not None
        if packed:
            self._file.write_at(self._written, packed)
            self._written += len(packed)

    def _sync(self) -> None:
        assert self._file is not None
        self._file.sync()
        self._synced = self._written

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


async def take_snapshot(
    disk: Disk,
    offload: Offload,
    directory: Path,
    source: SnapshotSource,
    options: SnapshotOptions,
    until_logged: Callable[[], Awaitable[None]],
) -> SnapshotFile:
    """Write a snapshot while the server goes on; return it once it is durable (unless told otherwise).

    The event loop is held up only for the encoding of one slice at a time; packing and writing happen in
    `offload`. If it fails or is cancelled, nothing of it is left behind. Only one may be taken at a time.

    `until_logged` returns once everything in it is in the log, durably: only then it gets its name. Whatever
    is lost in a crash, the log reaches the snapshot, and what came into it while it was written.
    """
    zxid = source.last_zxid()
    writing = _Writing(disk, directory, zxid, options)
    try:
        await offload(writing.start)
        for piece in _pieces(source, options):
            if piece:
                await offload(writing.write, piece)
            else:
                await trio.lowlevel.checkpoint()
        await until_logged()
        await offload(writing.commit)
    except BaseException:
        with trio.CancelScope(shield=True):
            await offload(writing.abandon)
        raise
    log.info("snapshot_taken", file=str(writing.path))
    return SnapshotFile(zxid, writing.path, options.compression)


def take_snapshot_now(
    disk: Disk, directory: Path, source: SnapshotSource, options: SnapshotOptions
) -> SnapshotFile:
    """The same while nobody else is served: at start-up and after a learner's synchronisation."""
    zxid = source.last_zxid()
    writing = _Writing(disk, directory, zxid, options)
    try:
        writing.start()
        for piece in _pieces(source, options):
            writing.write(piece)
        writing.commit()
    except BaseException:
        writing.abandon()
        raise
    log.info("snapshot_taken", file=str(writing.path))
    return SnapshotFile(zxid, writing.path, options.compression)


def _pieces(source: SnapshotSource, options: SnapshotOptions) -> Iterator[bytes]:
    """The file in pieces large enough to write, and b"" after each slice that was only collected."""
    slices: list[bytes] = []
    size = 0
    for data in file_chunks(source, with_digest=options.with_digest, with_last_zxid=options.with_last_zxid):
        slices.append(data)
        size += len(data)
        if size < _WRITE_BYTES:
            yield b""
        else:
            yield b"".join(slices)
            slices, size = [], 0
    yield b"".join(slices)


def list_snapshots(disk: Disk, directory: Path) -> list[SnapshotFile]:
    """All snapshot files, newest first, sound or not."""
    files = (parse_snapshot(directory / name) for name in disk.names(directory))
    found = [file for file in files if file is not None]
    return sorted(found, key=lambda file: (file.zxid, file.path.name), reverse=True)


def looks_complete(disk: Disk, snapshot: SnapshotFile) -> bool:
    """A quick look at one end of the file, as Apache does to tell the snapshots that a crash cut short."""
    match snapshot.compression:
        case Compression.GZIP:
            return _read_at(disk, snapshot.path, 0, len(GZIP_MAGIC)) == GZIP_MAGIC
        case Compression.SNAPPY:
            return _read_at(disk, snapshot.path, 0, len(SNAPPY_MAGIC)) == SNAPPY_MAGIC
        case Compression.NONE:
            size = disk.size(snapshot.path)
            return size >= _SIZE_MIN and _read_at(disk, snapshot.path, size - 5, 5) == TREE_END


def _read_at(disk: Disk, path: Path, offset: int, size: int) -> bytes:
    with closing(disk.open(path, offset)) as file:
        return file.read(size)


def newest_complete(disk: Disk, directory: Path, count: int) -> list[SnapshotFile]:
    """The `count` newest snapshots that look complete, newest first."""
    complete: Iterable[SnapshotFile] = (
        snapshot for snapshot in list_snapshots(disk, directory) if looks_complete(disk, snapshot)
    )
    return [snapshot for _, snapshot in zip(range(count), complete, strict=False)]


def purgeable(disk: Disk, snap_dir: Path, log_dir: Path, retain_count: int) -> list[Path]:
    """What is superfluous if the newest `retain_count` complete snapshots and every log they need are kept.

    The newest log that starts at or before the oldest kept snapshot stays: it may hold what comes after it.
    Oldest first, snapshots before logs, so that an interrupted purge leaves nothing without its log.
    """
    if retain_count < RETAIN_COUNT_MIN:
        raise ValueError(f"autopurge.snapRetainCount={retain_count}: must be at least {RETAIN_COUNT_MIN}")
    kept = newest_complete(disk, snap_dir, retain_count)
    if not kept:
        return []
    oldest = kept[-1].zxid
    logs = list_logs(disk, log_dir)
    needed = logs_holding(logs, oldest)
    snapshots = reversed(list_snapshots(disk, snap_dir))
    removable = [snapshot.path for snapshot in snapshots if snapshot.zxid < oldest]
    removable += [file.path for file in logs if file not in needed]
    for directory in dict.fromkeys((snap_dir, log_dir)):
        removable += _put_aside_before(disk, directory, oldest)
    return removable


def purge(disk: Disk, snap_dir: Path, log_dir: Path, retain_count: int) -> list[Path]:
    """Keep the newest `retain_count` complete snapshots and every log they need; remove what is older.

    A loss of power must not bring back a snapshot whose log is gone: if newer ones were damaged, the first
    log of a later epoch would seem to follow it.
    """
    removable = purgeable(disk, snap_dir, log_dir, retain_count)
    are_snapshots_gone = False
    for path in removable:
        if not are_snapshots_gone and parse_snapshot(path) is None:
            disk.sync_directory(snap_dir)
            are_snapshots_gone = True
        log.info("purged", file=str(path))
        disk.unlink(path)
    return removable


def _put_aside_before(disk: Disk, directory: Path, zxid: int) -> list[Path]:
    paths = [directory / name for name in sorted(disk.names(directory))]
    return [path for path in paths if (aside := parse_aside(path)) is not None and aside < zxid]
