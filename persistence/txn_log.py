"""The transaction log being written.

Invariants:
  1. When `append_batch` returns, every payload of the batch is on disk, in a file that a crash cannot lose.
  2. `log.N` starts with a whole header and its first entry has zxid N: it is written and synced under another
     name first. So a crash at any moment leaves a directory that starts again.
  3. No byte of an entry is ever written over, only the mark of a batch, by the next one. A new start, a
     roll and a truncation all go on in a new file.
  4. After an error nothing more is written: what reached the disk is then unknown, and an entry put behind
     the unknown could never be read.

Everything here blocks; log_writer.py calls it away from the event loop. `read_from` may run in another thread
than the appends.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, takewhile
from pathlib import Path

from eventlog import log
from persistence.disk import Disk, WritableFile
from persistence.errors import RESYNC_OR_RESTORE, DataDirError
from persistence.file_names import LogFile, log_name, unfinished_log_name
from persistence.log_format import (
    ENTRY_OVERHEAD_BYTES,
    FILE_HEADER,
    EntryScanner,
    encode_entries,
    ending_of,
    marked_header,
    zxid_of,
)
from persistence.log_reader import LogReader, cut_log, list_logs, logs_holding, scan
from persistence.torn_tail import UNSYNCED_ENTRIES_MAX

# Growing starts when this little is left: the original's number, so that files have the sizes it would give.
_ROOM_LEFT_BYTES_MIN = 4096
# Zeros written ahead of the entries, so that most syncs find their blocks allocated and write no metadata.
_ZEROED_AHEAD_BYTES = 256 << 10

SlowSync = Callable[[float, int], None]


def grown_size(position: int, size: int, preallocate_bytes: int) -> int:
    """How long the file should be before an entry is written at `position`.

    Apache's rule: one step more when the end is near; if a large batch has already passed the end, up to the
    last multiple of the step that is within one step of it.
    """
    if preallocate_bytes <= 0 or position + _ROOM_LEFT_BYTES_MIN < size:
        return size
    if position <= size:
        return size + preallocate_bytes
    return (position + preallocate_bytes) // preallocate_bytes * preallocate_bytes


def ignore_slow_sync(elapsed_ms: float, file_bytes: int) -> None:
    """The default for `on_slow_sync`."""


class TxnLog:
    """The log files of one directory, and the one being written.

    `on_slow_sync` is told, in the thread that appends, how many milliseconds a sync took and how large the
    file was; `last_sync_ms` is the time of the latest sync, slow or not.
    """

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        *,
        preallocate_bytes: int = 64 << 20,
        force_sync: bool = True,
        size_limit_bytes: int | None = None,
        slow_sync_ms: float = 1000,
        on_slow_sync: SlowSync = ignore_slow_sync,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.last_sync_ms = 0.0
        self._disk = disk
        self._directory = directory
        self._preallocate_bytes = preallocate_bytes
        self._force_sync = force_sync
        self._size_limit_bytes = size_limit_bytes
        self._slow_sync_ms = slow_sync_ms
        self._on_slow_sync = on_slow_sync
        self._clock = clock
        self._last_zxid = -1
        self._failed = False
        self._file: WritableFile | None = None
        self._position = 0  # where the next entry goes
        self._reserved = 0  # how long the file was made; a large batch may have passed that
        self._zeroed_to = 0
        # The file being written and how much of it is durable: one value, so that a reader in another
        # thread sees both change at once.
        self._durable: tuple[LogFile, int] | None = None

    def append_batch(self, payloads: Sequence[bytes]) -> None:
        """Write the payloads behind all earlier ones and return once they are durable.

        One sync, or one for every UNSYNCED_ENTRIES_MAX of them: recovery relies on that bound.
        """
        for start in range(0, len(payloads), UNSYNCED_ENTRIES_MAX):
            self._append(payloads[start : start + UNSYNCED_ENTRIES_MAX])

    def _append(self, payloads: Sequence[bytes]) -> None:
        if self._failed:
            raise OSError("the transaction log failed before; what it holds is unknown until a restart")
        self._failed = True
        self._warn_if_not_rising(payloads)
        entries = encode_entries(payloads)
        if self._file is None:
            self._start_file(zxid_of(payloads[0]), entries)
        else:
            self._write(self._file, b"", entries)
            self._sync(self._file)
            assert self._durable is not None
            self._durable = (self._durable[0], self._position)
        self._failed = False
        if self._size_limit_bytes is not None and self._position > self._size_limit_bytes:
            self.roll()

    def roll(self) -> None:
        """Let the next append start a new file."""
        file, self._file, self._durable = self._file, None, None
        if file is not None:
            file.close()

    def close(self) -> None:
        self.roll()

    def read_from(self, zxid: int) -> Iterator[bytes]:
        """All durable payloads with this zxid or a later one, what becomes durable meanwhile included.

        Reaches back only as far as the files do.
        """
        after, start = zxid - 1, len(FILE_HEADER)
        while True:
            reader = self._reader(zxid, after, start)
            yield from reader
            if reader.last_zxid == after or reader.tail is None:
                return
            zxid, after, start = reader.tail.file.zxid, reader.last_zxid, reader.tail.offset

    def _reader(self, zxid: int, after: int, start: int) -> LogReader:
        """Of all that is durable now: above `after`, from `start` on in the file that can hold `zxid`."""
        durable = self._durable
        files = logs_holding(list_logs(self._disk, self._directory), zxid)
        live_end = None
        if durable is not None:
            newest, live_end = durable
            files = [file for file in files if file.zxid <= newest.zxid]
        return LogReader(self._disk, files, after=after, start=start, live_end=live_end)

    def truncate_after(self, zxid: int) -> int | None:
        """Remove every entry above `zxid`, durably; return the last zxid still in the log, if any.

        The newest goes first, so that a crash in between leaves a log that merely ends later.
        """
        self.roll()
        files = list_logs(self._disk, self._directory)
        if not files:
            raise DataDirError(
                f"the log cannot be truncated to zxid {zxid:#x}: there is none",
                file=self._directory,
                remedy=f"Check dataLogDir. {RESYNC_OR_RESTORE}",
            )
        self._last_zxid = -1
        for file in reversed(files):
            if file.zxid > zxid:
                log.info("log_removed", file=str(file.path), truncating_to=hex(zxid))
                self._disk.unlink(file.path)
                self._disk.sync_directory(self._directory)
            elif (last := self._cut_after(file, zxid)) is not None:
                return last
        return None

    def _cut_after(self, file: LogFile, zxid: int) -> int | None:
        """Cut the file behind its last entry up to `zxid`, and return that entry's zxid."""
        end, last = len(FILE_HEADER), None
        payloads = chain.from_iterable(found for _, found in scan(self._disk, file, EntryScanner()))
        for payload in takewhile(lambda payload: zxid_of(payload) <= zxid, payloads):
            end += ENTRY_OVERHEAD_BYTES + len(payload)
            last = zxid_of(payload)
        log.info("log_cut", file=str(file.path), offset=end, truncating_to=hex(zxid))
        cut_log(self._disk, file, end)
        return last

    def _start_file(self, zxid: int, entries: bytes) -> None:
        path = self._directory / log_name(zxid)
        self._refuse_to_replace_entries(path)
        unfinished = self._directory / unfinished_log_name(zxid)
        self._file = self._disk.create(unfinished)
        header = marked_header(self._preallocate_bytes)
        self._position, self._reserved, self._zeroed_to = 0, len(header), 0
        self._write(self._file, header, entries)
        self._sync(self._file)
        self._disk.rename(unfinished, path)
        if self._force_sync:
            self._disk.sync_directory(self._directory)
        self._durable = (LogFile(zxid, path), self._position)
        log.info("log_file_created", file=str(path))

    def _write(self, file: WritableFile, header: bytes, batch: bytes) -> None:
        """Write a batch and its mark behind it, behind the header if that is due."""
        end = self._position + len(header) + len(batch)
        data = header + batch + ending_of(batch, end)
        marked_end = self._position + len(data)
        reserved = grown_size(self._position, self._reserved, self._preallocate_bytes)
        if marked_end > reserved:
            reserved = grown_size(marked_end, reserved, self._preallocate_bytes)
        if reserved != self._reserved:
            file.grow(reserved)
            self._reserved = reserved
            if self._force_sync and self._position:
                file.sync()  # before anything is written there: a crash leaves one of these lengths
        if marked_end > self._zeroed_to:
            self._zeroed_to = max(marked_end, min(marked_end + _ZEROED_AHEAD_BYTES, reserved))
            data += bytes(self._zeroed_to - marked_end)
        file.write_at(self._position, data)
        self._position = end

    def _sync(self, file: WritableFile) -> None:
        if not self._force_sync:
            return
        started = self._clock()
        file.sync()
        self.last_sync_ms = 1000 * (self._clock() - started)
        if self.last_sync_ms > self._slow_sync_ms:
            self._on_slow_sync(self.last_sync_ms, max(self._reserved, self._position))

    def _warn_if_not_rising(self, payloads: Sequence[bytes]) -> None:
        first = zxid_of(payloads[0])
        if first <= self._last_zxid:
            log.warning("log_zxid_not_rising", zxid=hex(first), last=hex(self._last_zxid))
        self._last_zxid = max(self._last_zxid, zxid_of(payloads[-1]))

    def _refuse_to_replace_entries(self, path: Path) -> None:
        """A file of this name may stay behind a crash, but then without entries.

        One with entries means that the same zxid is being logged twice, and those entries may have been
        acknowledged. Apache would overwrite them.
        """
        if not self._disk.exists(path):
            return
        for _, payloads in scan(self._disk, LogFile(0, path), EntryScanner()):
            if payloads:
                raise DataDirError(
                    f"a transaction with zxid 0x{path.suffix[1:]} is already logged and stays",
                    file=path,
                    remedy=f"Two servers may be using this directory. {RESYNC_OR_RESTORE}",
                )
