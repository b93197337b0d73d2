"""Is the bad end of the last log file a write that a crash interrupted, or damage?

A crash can only harm what no fsync had covered: the last batch written, of which nothing was acknowledged.
Cutting that off is right. Damage may have hit entries that were acknowledged, and cutting those off would
lose writes in silence, so the server must refuse to start. The bytes tell the two apart:

  1. An area is all zeros before an entry is written to it (the log never writes twice in one place), and a
     disk writes whole sectors. So what a crash leaves of a batch is, sector by sector, either all there or
     still zero. A bad entry in which no sector is zero was written whole and changed later: damage.
  2. If nothing sound follows and the entry claims to reach past the last byte that is not zero, its end was
     never written: the ordinary tear.
  3. Sectors reach the disk in any order, so sound entries may follow a torn one, but only from the same
     batch. A batch has at most UNSYNCED_ENTRIES_MAX entries; if more follow, an fsync lies in between and
     the bad entry had been acknowledged: damage.

Apache cuts in (2), refuses some of (3) and silently drops any number of entries in the rest of it.

In our own files a mark follows the last batch (log_format.py), and more can be told:

  4. A mark right behind the last sound entry: that batch is complete. What follows is one batch of which not
     even the first sector was written. (Or it was cut off on purpose, if the mark is of a batch of nothing.)
  5. A mark at the end: the last batch was written to its end. What is bad before that batch was synced:
     damage. In that batch a sector is zero that was not written as zeros, or all of it was written: damage.
  6. No mark, and nothing else behind the last sound entry: there was one, so something was lost, unless it
     would stand in the next sector. The same if the file ends where it was never made to end, or within an
     entry, or has no sound entry at all: it gets its name when its first batch is synced.
  7. No mark at the end: the end of a batch was never written. Nobody asks there whether sound entries follow:
     clients choose what is in a payload, and may put there what looks like entries.

What remains are sectors of the last batch, and those behind them, if all of each is zero: that looks like a
tear, and is cut.
"""

import re
from collections.abc import Callable, Iterator

from persistence.log_format import (
    FILE_HEADER,
    SECTOR_BYTES,
    Mark,
    claimed_entry_size,
    final_mark,
    gap_behind,
    is_whole_but_for_its_length,
    mark_behind,
    sound_entry_size,
    zero_sectors_of,
    zxid_of,
)

UNSYNCED_ENTRIES_MAX = 1000  # Apache's zookeeper.maxBatchSize, and the most TxnLog writes before a sync

# The upper half of a checksum is zero, so up to this many zeros at the start of an entry prove nothing.
_ZEROS_ALWAYS = 4
_HEAD_BYTES = 12
_LOOKS_LIKE_AN_ENTRY = re.compile(rb"(?s)\0{4}(?!\0{4}).{4}(?!\0{4})")


def is_torn_write(tail: bytes, offset: int, last_zxid: int) -> bool:
    """May `tail`, the bytes after the last sound entry without the zeros at their end, be cut off?

    `offset` is where the tail starts in the file, `last_zxid` that of the entry before it.
    """
    sound = sound_entries(tail, last_zxid)
    first = next(sound, None)
    if first is None:
        if claimed_entry_size(tail, 0) > len(tail):
            return not is_whole_but_for_its_length(tail)
        return _has_unwritten_sector(tail, offset)
    following = 1 + sum(1 for _ in sound)
    return following <= UNSYNCED_ENTRIES_MAX and _has_unwritten_sector(tail[:first], offset)


def is_torn_batch(
    tail: bytes, offset: int, *, growth_bytes: int, file_bytes: int, before: Callable[[int], bytes]
) -> bool:
    """The same for a file with marks, which grows by `growth_bytes` at a time. `before` reads so many bytes
    that are before the tail."""
    if offset == len(FILE_HEADER):
        return False
    if not tail and offset % SECTOR_BYTES and not gap_behind(offset):
        return False
    if mark_behind(tail, offset) is not None:
        return is_unfinished(tail, offset)
    if (mark := final_mark(tail, offset)) is not None:
        if mark.start > offset:
            return False
        batch = before(offset - mark.start) + tail[: mark.end - offset]
        return _has_lost_sector(batch, mark)
    if not _was_made_so_long(file_bytes, growth_bytes):
        return False
    claimed_bytes = claimed_entry_size(tail, 0)
    if growth_bytes and len(tail) >= _HEAD_BYTES and offset + claimed_bytes > file_bytes:
        return False  # the file is made long enough before anything is written
    if claimed_bytes > len(tail):
        return not is_whole_but_for_its_length(tail)
    return _has_unwritten_sector(tail, offset)


def is_unfinished(tail: bytes, offset: int) -> bool:
    """Is `tail`, in a file with marks, what a crash left of one batch behind one that is complete, or what
    was to be cut off?"""
    behind = mark_behind(tail, offset)
    if behind is None:
        return False
    final = final_mark(tail, offset)
    return behind.batch_bytes == 0 or final is None or final.start == offset or final.end == offset


def _has_lost_sector(batch: bytes, mark: Mark) -> bool:
    """Is there a zero sector more than were written? Not those that this batch shares with the mark behind
    it, which is there, or with the mark before it, which would be there if the sector had been lost."""
    start, end = mark.start, mark.end
    if not gap_behind(start):
        start += SECTOR_BYTES - start % SECTOR_BYTES
    if not gap_behind(end):
        end -= end % SECTOR_BYTES
    if start >= end:
        return False
    return zero_sectors_of(batch[start - mark.start : end - mark.start], start) > mark.zero_sectors


def _was_made_so_long(file_bytes: int, growth_bytes: int) -> bool:
    """A crash may undo the last growth of a file, but leaves one of the lengths it had."""
    if growth_bytes == 0:
        return True
    return file_bytes % growth_bytes in (0, len(FILE_HEADER) % growth_bytes)


def sound_entries(tail: bytes, last_zxid: int) -> Iterator[int]:
    """Where sound entries newer than `last_zxid` start, behind the bad one at the very start."""
    at = 1
    while match := _LOOKS_LIKE_AN_ENTRY.search(tail, at):
        at = match.start()
        size = sound_entry_size(tail, at)
        if size is not None and zxid_of(tail[at + _HEAD_BYTES : at + size]) > last_zxid:
            yield at
            at += size
        else:
            at += 1


def _has_unwritten_sector(region: bytes, offset: int) -> bool:
    """Is what `region` has of some sector all zeros, where a written entry could not be?"""
    start = 0
    end = SECTOR_BYTES - offset % SECTOR_BYTES
    if end <= _ZEROS_ALWAYS:
        start, end = end, end + SECTOR_BYTES
    while start < len(region):
        if not any(region[start:end]):
            return True
        start, end = end, end + SECTOR_BYTES
    return False
