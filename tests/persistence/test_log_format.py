"""A log file as bytes: written by hand from the format, read whole, in pieces and when broken."""

from zlib import adler32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from persistence.log_format import (
    ENDING_BYTES_MAX,
    FILE_HEADER,
    MARK_BYTES,
    SECTOR_BYTES,
    End,
    EntryScanner,
    claimed_entry_size,
    encode_entries,
    ending_of,
    final_mark,
    follows,
    gap_behind,
    growth_of,
    is_complete,
    is_header,
    mark_behind,
    marked_header,
    sound_entry_size,
    without_marks,
    zero_sectors_of,
    zxid_of,
)
from tests.persistence.fake_tree import payload

GOLDEN_PAYLOAD = bytes.fromhex(
    "0100000000000001"  # session
    "00000003"  # cxid
    "0000000200000005"  # zxid
    "0000018bcfe56800"  # time
    "fffffff5"  # closeSession
)
GOLDEN_ENTRY = bytes.fromhex("000000001eff06a700000020") + GOLDEN_PAYLOAD + b"B"

bodies = st.lists(st.binary(max_size=90), max_size=12)


def scan(data: bytes, step: int) -> tuple[list[bytes], EntryScanner]:
    scanner = EntryScanner(offset=0)
    found: list[bytes] = []
    for start in range(0, len(data), step):
        found += scanner.feed(data[start : start + step])
    scanner.finish()
    return found, scanner


def test_the_header_is_the_one_apache_writes() -> None:
    assert FILE_HEADER.hex() == "5a4b4c47000000020000000000000000"
    assert is_header(FILE_HEADER)
    assert not is_header(FILE_HEADER[:15])
    assert not is_header(b"ZKSN" + FILE_HEADER[4:])


def test_an_entry_is_checksum_length_payload_and_mark() -> None:
    assert adler32(GOLDEN_PAYLOAD) == 0x1EFF06A7
    assert encode_entries([GOLDEN_PAYLOAD]) == GOLDEN_ENTRY
    assert zxid_of(GOLDEN_PAYLOAD) == 0x200000005


@given(bodies, st.integers(1, 200))
def test_what_is_written_is_read_however_it_is_cut(bodies: list[bytes], step: int) -> None:
    written = [payload(zxid, body) for zxid, body in enumerate(bodies, 1)]
    data = encode_entries(written)
    found, scanner = scan(data + bytes(100), step)
    assert found == written
    assert scanner.end is End.CLEAN
    assert scanner.offset == len(data)


@given(bodies, st.data())
def test_a_cut_entry_ends_the_file_behind_the_last_whole_one(
    bodies: list[bytes], data: st.DataObject
) -> None:
    written = [payload(zxid, body) for zxid, body in enumerate(bodies, 1)]
    sizes = [len(encode_entries([entry])) for entry in written]
    cut = data.draw(st.integers(0, sum(sizes)))
    found, scanner = scan(encode_entries(written)[:cut], 64)
    whole = max(count for count in range(len(written) + 1) if sum(sizes[:count]) <= cut)
    assert found == written[:whole]
    assert scanner.offset == sum(sizes[:whole])


@pytest.mark.parametrize(
    ("broken", "end"),
    [
        (b"", End.CLEAN),
        (bytes(5), End.CLEAN),
        (bytes(500), End.CLEAN),
        (GOLDEN_ENTRY[:-1], End.TORN),
        (GOLDEN_ENTRY[:-1] + b"\0", End.TORN),
        (GOLDEN_ENTRY[:3] + b"\1", End.TORN),
        (bytes(11) + b"\5" + bytes(50), End.TORN),
        (bytes(8) + b"\xff\xff\xff\xff" + bytes(50), End.TORN),
        (GOLDEN_ENTRY[:20] + b"\1" + GOLDEN_ENTRY[21:], End.BAD_CHECKSUM),
    ],
    ids=["empty", "few_zeros", "zeros", "short", "no_mark", "short_head", "tiny", "huge", "changed"],
)
def test_how_a_file_can_end(broken: bytes, end: End) -> None:
    found, scanner = scan(GOLDEN_ENTRY + broken, 7)
    assert found == [GOLDEN_PAYLOAD]
    assert scanner.end is end
    assert scanner.offset == len(GOLDEN_ENTRY)


def test_nothing_is_read_behind_a_bad_entry() -> None:
    scanner = EntryScanner()
    assert scanner.feed(GOLDEN_ENTRY[:-1] + b"C" + GOLDEN_ENTRY) == []
    assert scanner.feed(GOLDEN_ENTRY) == []


def test_an_entry_is_sound_only_as_a_whole() -> None:
    assert sound_entry_size(b"x" + GOLDEN_ENTRY, 1) == len(GOLDEN_ENTRY)
    assert all(sound_entry_size(GOLDEN_ENTRY[:cut], 0) is None for cut in range(len(GOLDEN_ENTRY)))
    assert claimed_entry_size(GOLDEN_ENTRY[:12], 0) == len(GOLDEN_ENTRY)
    assert claimed_entry_size(GOLDEN_ENTRY[:11], 0) > 11


@pytest.mark.parametrize(
    ("previous", "zxid", "is_next"),
    [
        (0, 1, True),
        (4, 5, True),
        (4, 6, False),
        (5, 5, False),
        (0x1_0000_0007, 0x2_0000_0001, True),
        (0x1_0000_0007, 0x9_0000_0001, True),
        (0x1_0000_0007, 0x2_0000_0002, False),
        (0x2_0000_0007, 0x1_0000_0001, False),
        (0x2_0000_0000, 0x2_0000_0001, True),
    ],
)
def test_what_can_follow_a_zxid_without_a_hole(previous: int, zxid: int, is_next: bool) -> None:
    assert follows(previous, zxid) is is_next


def test_a_copy_without_marks_is_like_one_of_apaches() -> None:
    """Whatever else a header says stays."""
    assert without_marks(marked_header(64 << 20)) == FILE_HEADER
    assert without_marks(FILE_HEADER) == FILE_HEADER
    other = FILE_HEADER[:8] + b"somebody"
    assert without_marks(other) == other


@pytest.mark.parametrize("end", [5000, *range(10 * SECTOR_BYTES - 13, 10 * SECTOR_BYTES + 2)])
def test_a_mark_holds_at_its_own_place_alone(end: int) -> None:
    """It lies in one sector, and where a reader looks for a length there is zero."""
    batch = encode_entries([payload(1, b"x" * 270)])
    ending = ending_of(batch, end)
    gap = len(ending) - MARK_BYTES
    assert gap == gap_behind(end)
    assert len(ending) <= ENDING_BYTES_MAX
    assert (end + gap) // SECTOR_BYTES == (end + len(ending) - 1) // SECTOR_BYTES
    assert ending[8:12] == bytes(4)
    for rest in (ending, ending.rstrip(b"\0")):
        mark = mark_behind(rest, end)
        assert mark is not None
        assert (mark.start, mark.end) == (end - len(batch), end)
        assert is_complete(rest, end)
        assert mark_behind(rest, end + 1) is None
    found = final_mark(batch[-50:] + ending.rstrip(b"\0"), end - 50)
    assert found is not None
    assert (found.start, found.end) == (end - len(batch), end)
    for at in range(len(ending)):
        changed = bytearray(ending)
        changed[at] ^= 1
        assert not is_complete(bytes(changed), end)
        assert (mark_behind(bytes(changed), end) is None) is (at >= gap)


def test_more_than_gap_and_mark_is_not_complete() -> None:
    ending = ending_of(b"", 5000)
    assert is_complete(ending, 5000)
    assert not is_complete(ending + b"x", 5000)
    assert not is_complete(b"", 5000)


def test_a_mark_tells_how_many_sectors_are_zeros() -> None:
    assert zero_sectors_of(bytes(SECTOR_BYTES), 0) == 1
    assert zero_sectors_of(bytes(SECTOR_BYTES), 10) == 2
    assert zero_sectors_of(bytes(SECTOR_BYTES - 10) + b"B", 10) == 1
    assert zero_sectors_of(b"B" + bytes(3 * SECTOR_BYTES) + b"B", 10) == 2
    assert zero_sectors_of(bytes(3) + b"B" + bytes(7), SECTOR_BYTES - 3) == 1
    assert zero_sectors_of(b"", 5000) == 0


@pytest.mark.parametrize(("count", "told"), [(0, 0), (3, 3), (254, 254), (255, 254), (2000, 254)])
def test_more_zero_sectors_than_a_mark_can_tell_are_told_as_the_most(count: int, told: int) -> None:
    """The batch begins a byte before a sector and ends a byte behind one."""
    batch = b"B" + bytes(count * SECTOR_BYTES) + b"B"
    mark = mark_behind(ending_of(batch, (count + 1) * SECTOR_BYTES + 1), (count + 1) * SECTOR_BYTES + 1)
    assert mark is not None
    assert mark.zero_sectors == told


@pytest.mark.parametrize(
    ("growth_bytes", "told"), [(0, 0), (100, 100), (64 << 20, 64 << 20), (-1, 0), ((1 << 32) + 3072, 0)]
)
def test_a_header_tells_how_its_file_grows(growth_bytes: int, told: int) -> None:
    """Or that its length says nothing, where the number has no room."""
    assert growth_of(marked_header(growth_bytes)) == told
    assert growth_of(FILE_HEADER) is None
    assert is_header(marked_header(growth_bytes))
