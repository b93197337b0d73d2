"""Reading the transaction log, across its files.

A server that restarts after a crash never writes into an old file, and this one cuts off an unfinished write
before it begins the next file. Apache does not, so bytes may lie behind the last sound entry of a file that
is not the newest. They are harmless exactly when the next file goes on with the very next zxid. Anything else
is damage, also where the next file begins an epoch: nobody can tell what is missing then. Like a hole between
two files it is refused: replaying what lies beyond would give a tree that never existed.

A gap *inside* a file is not loss but history (some versions of Apache left transactions out when they
synchronised a follower, and none begins a new file when it was sent a snapshot); those are read on with a
warning, as Apache does. But from what lies before a gap nobody may be brought up to date. Behind a snapshot
the first zxid of an epoch leaves no gap: a server that was sent more than it logged has a snapshot of that.
Before the snapshot it may hide one, so there only the very next zxid leaves none.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import attrs

from eventlog import log
from persistence.disk import READ_CHUNK_BYTES, Disk, read_chunks
from persistence.errors import RESYNC_OR_RESTORE, CorruptLog
from persistence.file_names import LogFile, parse_log
from persistence.log_format import (
    FILE_HEADER,
    MARK_BYTES,
    End,
    EntryScanner,
    ending_of,
    follows,
    growth_of,
    is_complete,
    is_header,
    zxid_of,
)
from persistence.torn_tail import is_unfinished


def list_logs(disk: Disk, directory: Path) -> list[LogFile]:
    """The log files, oldest first."""
    files = (parse_log(directory / name) for name in disk.names(directory))
    return sorted(file for file in files if file is not None)


def logs_holding(files: Sequence[LogFile], zxid: int) -> list[LogFile]:
    """Of `files`, oldest first, those that can hold `zxid` or later: the last that starts by then, and on."""
    earlier = sum(1 for file in files if file.zxid <= zxid)
    return list(files[max(earlier - 1, 0) :])


def scan(
    disk: Disk, file: LogFile, scanner: EntryScanner, *, end: int | None = None
) -> Iterator[tuple[int, list[bytes]]]:
    """Feed a file to `scanner` from where it stands; yield, chunk by chunk, bytes read and payloads found.

    `end` is where to stop in a file that is still being written.
    """
    start = scanner.offset
    with closing(disk.open(file.path, 0 if start == len(FILE_HEADER) else start)) as source:
        if start == len(FILE_HEADER):
            check_header(source.read(start), file)
        left = (disk.size(file.path) if end is None else end) - start
        while left > 0 and scanner.end is None and (chunk := source.read(min(left, READ_CHUNK_BYTES))):
            left -= len(chunk)
            yield len(chunk), scanner.feed(chunk)
    scanner.finish()


def check_header(head: bytes, file: LogFile) -> None:
    if not is_header(head):
        raise CorruptLog(
            f"not a transaction log: it starts with {head.hex() or 'nothing'}. What it holds may have been "
            "acknowledged, and a server that starts without it would lose it",
            file=file.path,
            offset=0,
            remedy=f"{RESYNC_OR_RESTORE}. If it is the newest log and holds nothing, it may be deleted",
        )


@attrs.frozen
class Tail:
    """Where reading ended in the last file: just behind the last sound entry."""

    file: LogFile
    offset: int


class LogReader:
    """All payloads with a zxid above `after`, in rising order, each once; in the first file from `start` on.

    Once exhausted, `last_zxid` is that of the newest entry (or `after`), and `tail` tells where the last
    file's entries end; what lies beyond is for the caller to judge. `live_end`, if given, is how much of the
    last file is durable: all of that must be sound. Up to `gapless_until` no gap is history.

    `gapless_after` is then the zxid from which on the log is known to lack nothing, and `reaches_start` says
    whether the entry `after` is among those read.
    """

    def __init__(
        self,
        disk: Disk,
        files: Sequence[LogFile],
        *,
        after: int,
        start: int = len(FILE_HEADER),
        live_end: int | None = None,
        gapless_until: int = -1,
        on_read: Callable[[int], None] = lambda bytes_read: None,
    ) -> None:
        self.last_zxid = after
        self.gapless_after = after
        self.reaches_start = False
        self.tail: Tail | None = None
        self._after = after
        self._gapless_until = gapless_until
        self._run_last = -1  # the last entry up to `after`,
        self._run_first = -1  # and the first of those that lead to it one by one
        self._disk = disk
        self._files = files
        self._start = start
        self._live_end = live_end
        self._on_read = on_read

    def __iter__(self) -> Iterator[bytes]:
        previous: LogFile | None = None
        for number, file in enumerate(self._files, 1):
            is_last = number == len(self._files)
            scanner = EntryScanner(len(FILE_HEADER) if previous is not None else self._start)
            yield from self._read_file(file, scanner, previous, self._live_end if is_last else None)
            if is_last:
                self.tail = Tail(file, scanner.offset)
                self._check_live_end(file, scanner)
            else:
                self._check_earlier_end(file, scanner, self._files[number])
            previous = file

    def _read_file(
        self, file: LogFile, scanner: EntryScanner, previous: LogFile | None, end: int | None
    ) -> Iterator[bytes]:
        is_first = True
        for size, payloads in scan(self._disk, file, scanner, end=end):
            self._on_read(size)
            for payload in payloads:
                zxid = zxid_of(payload)
                if zxid > self.last_zxid:
                    if not follows(self.last_zxid, zxid):
                        self._note_gap(file, zxid, is_first, previous)
                    self.last_zxid = zxid
                    yield payload
                elif zxid <= self._after:
                    self._note_before_start(zxid)
                is_first = False

    def _note_before_start(self, zxid: int) -> None:
        if zxid != self._run_last + 1:
            self._run_first = zxid
        self._run_last = zxid
        if zxid == self._after:
            self.reaches_start = True
            self.gapless_after = self._run_first

    def _note_gap(self, file: LogFile, zxid: int, is_first: bool, previous: LogFile | None) -> None:
        if is_first and previous is not None:
            raise hole(f"{previous.path.name} and what came before it end", self.last_zxid, file, zxid)
        if self.last_zxid < self._gapless_until:
            raise hole("what came before ends", self.last_zxid, file, zxid)
        log.warning("log_skips_zxids", file=str(file.path), after=hex(self.last_zxid), next=hex(zxid))
        self.gapless_after = zxid

    def _check_earlier_end(self, file: LogFile, scanner: EntryScanner, following: LogFile) -> None:
        """What lies behind the last sound entry must be the mark of its batch, or nothing where there are no
        marks; or something the next file repeats; or, if Apache's server went on, what a crash left."""
        offset = scanner.offset
        rest = read_to_last_nonzero(self._disk, file.path, offset)
        if marked_growth(self._disk, file) is None:
            is_whole = is_settled = not rest
        else:
            is_whole = is_complete(rest, offset)
            is_settled = is_unfinished(rest, offset) and marked_growth(self._disk, following) is None
        if is_whole or self.ends_with_start(file, offset):
            return
        is_repeated = scanner.end is not End.BAD_CHECKSUM and following.zxid <= self.last_zxid + 1
        if not is_repeated and not is_settled:
            raise damaged(file, offset, self.last_zxid)
        log.warning("log_torn_in_earlier_file", file=str(file.path), offset=offset)

    def ends_with_start(self, file: LogFile, offset: int) -> bool:
        """Is the entry `after` the last one of the file, which ends with it, at `offset`?

        So Apache's server leaves a log of ours when its leader tells it to cut that back: without a mark, but
        it takes a snapshot that ends with the same transaction."""
        is_last = self.reaches_start and self.last_zxid == self._after >= file.zxid
        return is_last and self._disk.size(file.path) == offset

    def _check_live_end(self, file: LogFile, scanner: EntryScanner) -> None:
        if self._live_end is not None and scanner.offset != self._live_end:
            raise CorruptLog(
                f"entries end here, but the log was written and synced up to byte {self._live_end}",
                file=file.path,
                offset=scanner.offset,
                remedy=RESYNC_OR_RESTORE,
            )


def marked_growth(disk: Disk, file: LogFile) -> int | None:
    """By how much the file grows at a time; None if it has no marks."""
    with closing(disk.open(file.path)) as source:
        return growth_of(source.read(len(FILE_HEADER)))


def cut_log(disk: Disk, file: LogFile, offset: int) -> None:
    """Let the file end behind the entry that ends at `offset`, durably, and show that it is meant to."""
    if marked_growth(disk, file) is None:
        disk.truncate(file.path, offset)
        return
    ending = ending_of(b"", offset)
    gap_bytes = len(ending) - MARK_BYTES
    if gap_bytes:  # first the mark, which is in one sector: a crash leaves all of it, or all as it was
        disk.truncate(file.path, offset + gap_bytes, ending[gap_bytes:])
    disk.truncate(file.path, offset, ending)


def read_to_last_nonzero(disk: Disk, path: Path, offset: int) -> bytes:
    """The rest of the file without the zeros at its end, of which there may be far more than of anything."""
    rest = bytearray()
    zeros = 0
    for chunk in read_chunks(disk, path, offset):
        if chunk == bytes(len(chunk)):
            zeros += len(chunk)
            continue
        written = chunk.rstrip(b"\0")
        rest += bytes(zeros) + written
        zeros = len(chunk) - len(written)
    return bytes(rest)


def hole(what_ends: str, last_zxid: int, file: LogFile, zxid: int) -> CorruptLog:
    return CorruptLog(
        f"the log has a hole: {what_ends} at zxid {last_zxid:#x}, and {file.path.name} goes on at {zxid:#x}. "
        "What is missing may have been acknowledged",
        file=file.path,
        remedy=f"Put the missing log file back. {RESYNC_OR_RESTORE}",
    )


def damaged(file: LogFile, offset: int, last_zxid: int) -> CorruptLog:
    path = file.path
    return CorruptLog(
        f"what follows zxid {last_zxid:#x} is damaged; a write cut short by a crash does not look like this. "
        "It may have been acknowledged, and a server that starts without it would lose it",
        file=path,
        offset=offset,
        remedy=f"{RESYNC_OR_RESTORE}. To give up every transaction after {last_zxid:#x}, remove all later "
        f"logs and let this one end here, as one of Apache's: `truncate -s {offset} {path} && "
        f"head -c 8 /dev/zero | dd of={path} bs=1 seek=8 conv=notrunc`",
    )
