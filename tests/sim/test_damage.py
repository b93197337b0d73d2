"""Damage is done to what is stored, and only there."""

from collections import Counter
from pathlib import Path
from random import Random

from tests.sim.damage import damage, flip_bit
from tests.sim.disk import VirtualDisk

LOG = Path("/data/version-2/log.1")
OTHER = Path("/data/myid")


def disk_with_a_log() -> VirtualDisk:
    disk = VirtualDisk(Random(1))
    disk.put(LOG, bytes(range(1, 256)) * 8)
    disk.put(OTHER, b"1")
    return disk


def content(disk: VirtualDisk, path: Path) -> bytes:
    return bytes(disk.directories[path.parent].names[path.name].content)


def test_one_bit_is_flipped_for_good() -> None:
    """A power loss does not bring it back: the medium has it."""
    disk = disk_with_a_log()
    before = content(disk, LOG)
    assert flip_bit(disk, Random(2)) is not None
    disk.lose_power()
    changed = [a ^ b for a, b in zip(before, content(disk, LOG), strict=True) if a != b]
    assert len(changed) == 1
    assert changed[0].bit_count() == 1
    assert disk.is_damaged


def test_every_kind_changes_the_log_and_nothing_else() -> None:
    """A sector may be put back where it was: so of many tries most, not all, leave a mark."""
    changed = 0
    for seed in range(50):
        disk = disk_with_a_log()
        before = content(disk, LOG)
        damage(disk, Random(seed))
        changed += content(disk, LOG) != before
        assert content(disk, OTHER) == b"1"
    assert changed > 40


def test_an_empty_disk_cannot_be_damaged() -> None:
    disk = VirtualDisk(Random(1))
    assert damage(disk, Random(1)) is None
    assert not disk.is_damaged


def test_most_damage_is_where_the_next_start_reads() -> None:
    hit = Counter[str]()
    for seed in range(100):
        disk = VirtualDisk(Random(1))
        for name in ("log.1", "log.2", "log.10", "snapshot.1", "snapshot.2", "snapshot.f"):
            disk.put(LOG.with_name(name), b"content")
        hit[str(flip_bit(disk, Random(seed))).partition(":")[0]] += 1
    assert {name for name, _ in hit.most_common(2)} == {"log.10", "snapshot.f"}
    assert len(hit) == 6
