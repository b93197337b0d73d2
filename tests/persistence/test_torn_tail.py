"""Torn or damaged: what recovery may cut off, and what it must refuse."""

import pytest

from persistence.log_format import encode_entries, sound_entry_size
from persistence.torn_tail import UNSYNCED_ENTRIES_MAX, is_torn_write, sound_entries
from tests.persistence.fake_tree import payload

LAST = 9  # the zxid before the tail
AT = 1000  # where the tail starts: 24 bytes before a sector ends
FIRST_SECTOR_END = 24


def batch(count: int, body: bytes = b"x" * 300) -> bytes:
    return encode_entries([payload(LAST + number, body) for number in range(1, count + 1)])


def without_sector(tail: bytes, number: int) -> bytes:
    """The tail as it is if the sector was never written; 0 is the one in which the tail starts."""
    start = 0 if number == 0 else FIRST_SECTOR_END + 512 * (number - 1)
    end = FIRST_SECTOR_END + 512 * number
    return (tail[:start] + bytes(min(end, len(tail)) - start) + tail[end:]).rstrip(b"\0")


def changed(tail: bytes, at: int) -> bytes:
    return tail[:at] + bytes([tail[at] ^ 0x40]) + tail[at + 1 :]


def is_torn(tail: bytes) -> bool:
    """What the judgement is when reading has come as far as it can."""
    at, last = 0, LAST
    while size := sound_entry_size(tail, at):
        at, last = at + size, last + 1
    assert at < len(tail), "nothing is wrong with this tail"
    return is_torn_write(tail[at:], AT + at, last)


def test_a_write_that_stopped_anywhere_is_torn() -> None:
    for cut in range(1, len(batch(1))):
        tail = batch(1)[:cut].rstrip(b"\0")
        assert not tail or is_torn(tail)


@pytest.mark.parametrize("number", range(8))
def test_a_batch_that_lost_any_sector_is_torn(number: int) -> None:
    """Also when sound entries of the same batch follow."""
    assert is_torn(without_sector(batch(10), number))


def test_sound_entries_are_found_behind_the_tear() -> None:
    """Sector 2 takes the end of the second entry, all of the third and the first bytes of the fourth."""
    size = len(batch(1))
    assert list(sound_entries(without_sector(batch(5), 0), LAST)) == [size, 2 * size, 3 * size, 4 * size]
    assert list(sound_entries(without_sector(batch(5), 2), LAST)) == [4 * size]


@pytest.mark.parametrize("at", [4, 11, 12, 100, len(batch(1)) - 1])
def test_a_changed_byte_is_damage(at: int) -> None:
    """Checksum, length, payload, end mark: with sound entries behind it no byte changes by a crash."""
    assert not is_torn(changed(batch(3), at))


@pytest.mark.parametrize("at", [4, 12, 100])
def test_a_changed_byte_in_the_very_last_entry_is_damage(at: int) -> None:
    assert not is_torn(changed(batch(1), at))


def test_more_entries_behind_the_tear_than_a_batch_has_is_damage() -> None:
    """An fsync must have come in between, so what is bad now was once acknowledged."""
    small = b"y" * 20
    assert is_torn(without_sector(batch(UNSYNCED_ENTRIES_MAX, small), 0))
    assert not is_torn(without_sector(batch(UNSYNCED_ENTRIES_MAX + 30, small), 0))


def test_zeros_that_any_entry_starts_with_prove_nothing() -> None:
    """The entry starts four bytes before a sector ends, and those are zero in every entry."""
    tail = changed(batch(1), 100)
    assert not is_torn_write(tail, 512 - 4, LAST)
