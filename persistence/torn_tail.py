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

  4. A mark right behind the last sound entry: that batch is complete. What follows it belongs to a batch of
     which not even the first sector was written.
  5. A mark at the end: the last batch was written to its end, so (2) is out of the question; and what is bad
     before that batch was synced: damage.
  6. No mark, and nothing else behind the last sound entry: there was one, so something was lost, unless it
     would stand in the next sector or in two. The same if the file ends where it was never made to end, or
     has no sound entry at all: it gets its name when its first batch is synced.

What remains is the sector with the end of the last batch, or one within that batch, if all of it is zero:
that looks like a tear, and is cut.
"""

import re
from collections.abc import Iterator

from persistence.log_format import (
    FILE_HEADER,
    SECTOR_BYTES,
    claimed_entry_size,
    final_mark,
    has_room_for_mark,
    is_whole_but_for_its_length,
    marked_batch_bytes,
    sound_entry_size,
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


def is_torn_batch(tail: bytes, offset: int, last_zxid: int, *, growth_bytes: int, file_bytes: int) -> bool:
    """The same for a file with marks, which grows by `growth_bytes` at a time."""
    if offset == len(FILE_HEADER):
        return False
    if not tail and has_room_for_mark(offset) and offset % SECTOR_BYTES:
        return False
    if marked_batch_bytes(tail, offset) is not None:
        return True
    if (mark := final_mark(tail, offset)) is not None:
        end, batch_bytes = mark
        first = next(sound_entries(tail[:end], last_zxid), end)
        return end <= batch_bytes and _has_unwritten_sector(tail[:first], offset)
    if not _was_made_so_long(file_bytes, growth_bytes):
        return False
    return not tail or is_torn_write(tail, offset, last_zxid)


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
