"""A transaction log file as bytes.

    file     header entry* gap mark zeros
    header   "ZKLG"  i32 version 2  i64 database
    entry    i64 Adler-32 of the payload  i32 length  payload  "B"
    payload  i64 session  i32 cxid  i64 zxid  i64 time  i32 type  record...
    mark     check of the rest and of the batch's end (3 bytes)  i32 size of the last batch
             u8 1 + how many of that batch's sectors are zeros  i32 0

All integers are big-endian. The zeros are space reserved ahead of the entries, so a length of zero means
"nothing was written here". The checksum covers the payload alone: a wrong length shows only by a missing "B".

Apache's files have no mark, and 0 for the database, which nobody reads. Ours say there that they are marked,
and by how much they grow. The mark is written with each batch, behind it, and written over by the next: where
a checksum would be, in front of a length of zero, so that for Apache the file ends there. It shows that the
last batch was written to its end, and where that batch began; without it nobody could tell entries that were
synced and lost from those of a write that a crash interrupted.

A mark lies in one sector: a crash may leave one in two half written over. Where it does not fit behind the
batch there is a gap of zeros, long enough for a length of zero too, and it stands in the next sector.

Pure: bytes in, entries out. What an ill-formed end means is decided in torn_tail.py and by the readers.
"""

from collections.abc import Sequence
from enum import Enum, auto
from struct import Struct
from typing import Final
from zlib import adler32, crc32

from librt.strings import BytesWriter, read_i64_be, write_i32_be, write_i64_be

FILE_HEADER: Final = b"ZKLG" + Struct(">iq").pack(2, 0)

ENTRY_OVERHEAD_BYTES: Final = 13
TXN_HEADER_BYTES: Final = 32
PAYLOAD_BYTES_MAX: Final = 256 << 20  # far above any jute.maxbuffer in use: a larger length is not a length

_entry_head: Final = Struct(">QI")
_ZXID_OFFSET: Final = 12
_END_MARK: Final = 0x42


SECTOR_BYTES: Final = 512  # what a disk writes whole or not at all
MARK_BYTES: Final = 12
ENDING_BYTES_MAX: Final = 35  # a gap and a mark
_MARK_SHOWN_BYTES: Final = 8  # the rest is zeros, which cannot be told from those behind them
_MARKED: Final = b"TK\0\2"
_ZERO_SECTORS_MAX: Final = 254  # stands for "so many or more"


class End(Enum):
    """Why a scan stopped."""

    CLEAN = auto()  # a zero length, or the file ends after an entry
    TORN = auto()  # the file ends inside an entry, or an entry has no length or end mark that could be right
    BAD_CHECKSUM = auto()  # all of an entry is there, and its bytes are not the ones that were written


def zxid_of(payload: bytes) -> int:
    return read_i64_be(payload, _ZXID_OFFSET)


def follows(previous: int, zxid: int) -> bool:
    """Can nothing lie between the two? True for the next zxid, and for the first one of any later epoch."""
    return zxid == previous + 1 or (zxid > previous and zxid & 0xFFFF_FFFF == 1)


def is_header(head: bytes) -> bool:
    return head[:8] == FILE_HEADER[:8] and len(head) >= len(FILE_HEADER)


def marked_header(preallocate_bytes: int) -> bytes:
    """The header of a file with marks that grows by so much at a time, or as it is written."""
    growth_bytes = preallocate_bytes if 0 < preallocate_bytes < 1 << 32 else 0
    return FILE_HEADER[:8] + _MARKED + growth_bytes.to_bytes(4, "big")


def growth_of(head: bytes) -> int | None:
    """By how much the file with this header grows at a time, 0 if that says nothing of its length; None if
    it has no marks."""
    return int.from_bytes(head[12:16], "big") if head[8:12] == _MARKED else None


def without_marks(head: bytes) -> bytes:
    """The header for a copy of the file that has its entries alone: like one of Apache's."""
    return head[:8] + FILE_HEADER[8:] if growth_of(head) is not None else head


class Mark:
    """What a mark tells of a batch; the offsets are those in the file."""

    def __init__(self, end: int, batch_bytes: int, zero_sectors: int) -> None:
        self.end = end
        self.batch_bytes = batch_bytes
        self.zero_sectors = zero_sectors

    @property
    def start(self) -> int:
        return self.end - self.batch_bytes


def gap_behind(offset: int) -> int:
    """How many zeros are between a batch that ends at `offset` and its mark."""
    room = SECTOR_BYTES - offset % SECTOR_BYTES
    return 0 if room >= MARK_BYTES else room + MARK_BYTES


def ending_of(batch: bytes, end: int) -> bytes:
    """What follows a batch that ends at `end`: gap and mark."""
    size, zero_sectors = len(batch), zero_sectors_of(batch, end - len(batch))
    return bytes(gap_behind(end)) + _encode_mark(size, min(zero_sectors, _ZERO_SECTORS_MAX), end)


def _encode_mark(batch_bytes: int, zero_sectors: int, end: int) -> bytes:
    shown = batch_bytes.to_bytes(4, "big") + (1 + zero_sectors).to_bytes(1, "big")
    return crc32(shown, end & 0xFFFF_FFFF).to_bytes(4, "big")[:3] + shown + bytes(4)


def zero_sectors_of(data: bytes, offset: int) -> int:
    """How many sectors there are of which `data`, which starts at `offset`, has a part, all of it zeros. On
    the path of every write: about 20 ns a sector, compiled."""
    count = 0
    start, size = 0, len(data)
    end = SECTOR_BYTES - offset % SECTOR_BYTES
    while start < size:
        last = end - 1 if end < size else size - 1
        if data[last] == 0 and not data[start:end].strip(b"\0"):
            count += 1
        start, end = end, end + SECTOR_BYTES
    return count


def mark_behind(rest: bytes, offset: int) -> Mark | None:
    """The mark of the batch that ends at `offset`, where `rest` starts; whatever there is in the gap."""
    at = gap_behind(offset)
    return _decode_mark(rest[at : at + MARK_BYTES], offset)


def _decode_mark(data: bytes, end: int) -> Mark | None:
    if len(data) < _MARK_SHOWN_BYTES or data[7] == 0:
        return None
    batch_bytes, zero_sectors = int.from_bytes(data[3:7], "big"), data[7] - 1
    if data.ljust(MARK_BYTES, b"\0") != _encode_mark(batch_bytes, zero_sectors, end):
        return None
    return Mark(end, batch_bytes, zero_sectors)


def is_complete(rest: bytes, offset: int) -> bool:
    """Is `rest`, without the zeros at its end, gap and mark of a batch that ends at `offset`, and no more?"""
    at = gap_behind(offset)
    return (
        len(rest) <= at + MARK_BYTES and not rest[:at].strip(b"\0") and mark_behind(rest, offset) is not None
    )


def final_mark(rest: bytes, offset: int) -> Mark | None:
    """The mark at the end of `rest`, which has no zeros at its end and starts at `offset`."""
    at = len(rest) - _MARK_SHOWN_BYTES
    if at < 0:
        return None
    place = offset + at
    ends = [place]
    if place % SECTOR_BYTES == MARK_BYTES:
        ends += range(place - 2 * MARK_BYTES + 1, place - MARK_BYTES)
    for end in ends:
        if end + gap_behind(end) == place and (mark := _decode_mark(rest[at:], end)) is not None:
            return mark
    return None


def encode_entries(payloads: Sequence[bytes]) -> bytes:
    """The entries of a batch, back to back. On the path of every write: about 0.4 us an entry."""
    entries = BytesWriter()
    for payload in payloads:
        write_i64_be(entries, adler32(payload))
        write_i32_be(entries, len(payload))
        entries.write(payload)
        entries.append(_END_MARK)
    return entries.getvalue()


def sound_entry_size(data: bytes, at: int) -> int | None:
    """The size of the entry that starts at `at`, or None unless all of it is there and right."""
    if len(data) - at < ENTRY_OVERHEAD_BYTES + TXN_HEADER_BYTES:
        return None
    checksum, length = _entry_head.unpack_from(data, at)
    end = at + _entry_head.size + length
    if length < TXN_HEADER_BYTES or end >= len(data) or data[end] != _END_MARK:
        return None
    if adler32(data[at + _entry_head.size : end]) != checksum:
        return None
    return ENTRY_OVERHEAD_BYTES + int(length)


def claimed_entry_size(data: bytes, at: int) -> int:
    """How long the entry at `at` says it is; at least the whole of `data` if even that is cut off."""
    if len(data) - at < _entry_head.size:
        return len(data) - at + 1
    return ENTRY_OVERHEAD_BYTES + int(_entry_head.unpack_from(data, at)[1])


def is_whole_but_for_its_length(data: bytes) -> bool:
    """Do all but the length of an entry, which must be wrong, stand in `data` from its start to its end?"""
    if len(data) < ENTRY_OVERHEAD_BYTES + TXN_HEADER_BYTES or data[-1] != _END_MARK:
        return False
    return adler32(data[_entry_head.size : -1]) == int(_entry_head.unpack_from(data)[0])


class EntryScanner:
    """Finds the entries of one file whose bytes, after the header, come in chunks cut anywhere.

    Every payload handed out has passed its checksum. After the first entry that is not sound nothing more is
    handed out, and `end` says what was found at `offset`.
    """

    def __init__(self, offset: int = len(FILE_HEADER)) -> None:
        self.offset = offset  # in the file: where the last sound entry ends
        self.end: End | None = None
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads that this chunk completes."""
        payloads: list[bytes] = []
        if self.end is not None:
            return payloads
        buffer = self._rest + chunk if self._rest else chunk
        size = len(buffer)
        unpack = _entry_head.unpack_from
        start = 0
        while size - start >= _entry_head.size:
            checksum, length = unpack(buffer, start)
            if not TXN_HEADER_BYTES <= length <= PAYLOAD_BYTES_MAX:
                self.end = End.TORN if length else End.CLEAN
                break
            end = start + 12 + length
            if end >= size:
                break
            payload = buffer[start + 12 : end]
            if buffer[end] != _END_MARK:
                self.end = End.TORN
                break
            if adler32(payload) != checksum:
                self.end = End.BAD_CHECKSUM
                break
            payloads.append(payload)
            start = end + 1
        self.offset += start
        self._rest = buffer[start:]
        return payloads

    def finish(self) -> End:
        """The file ends here: say how."""
        if self.end is None:
            self.end = End.TORN if self._rest.strip(b"\0") else End.CLEAN
        return self.end
