"""Damage to what a disk has stored: what a medium, a controller or a firmware does, not a process.

Each kind changes one place of one file, also of what was synced long ago:

  flipped bit        anywhere in what was written
  zeroed sector      512 bytes read as zeros
  lost write         one of the last writes never reached the medium, though it was synced
  misdirected write  a sector of one file stands in another place, or in another file; not all of a file,
                     which without digests nothing tells
  cut file           the file ends too soon

The files are those of the data directories, most often the two that the next start reads. Of the epochs'
files, which have no checksum, only those forms of damage are used that can be told from a number.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

from persistence.file_names import parse_log, parse_snapshot
from tests.sim.disk import SECTOR_BYTES, Inode, VirtualDisk

_DATA = ("log.", "snapshot.")
_EPOCHS = ("acceptedEpoch", "currentEpoch")
_NEWEST = 0.6  # of the damage hits what the next start reads
Found = list[tuple[Path, Inode]]


def flip_bit(disk: VirtualDisk, chance: Random) -> str | None:
    """Spoil a bit; says which, or None if there is none."""
    return _spoil(disk, chance, _flip)


def damage(disk: VirtualDisk, chance: Random) -> str | None:
    """Spoil anything of what a server finds when it starts; says what, or None if there is nothing.

    Not for a running server: zeros in the last thousand entries look like a write that a crash cut short, and
    what is logged behind them goes with them.
    """
    epochs = _stored(disk, _EPOCHS)
    if epochs and chance.random() < 0.05:
        path, inode = chance.choice(epochs)
        disk.has_damaged_epochs = True
        _damaged(disk)
        return f"{path.name}: {_zero(inode, epochs, chance)}"
    return _spoil(disk, chance, chance.choice((_flip, _flip, _zero, _lose_write, _misdirect, _cut)))


def _spoil(disk: VirtualDisk, chance: Random, kind: "Kind") -> str | None:
    stored = _stored(disk, _DATA)
    if not stored:
        return None
    _damaged(disk)
    path, inode = chance.choice(_newest(stored) if chance.random() < _NEWEST else stored)
    return f"{path.name}: {kind(inode, stored, chance)}"


def _damaged(disk: VirtualDisk) -> None:
    disk.is_damaged = True
    disk.damages += 1


def _newest(stored: Found) -> Found:
    """The last snapshot and the last log: what the next start reads."""
    snapshots = [each for each in stored if parse_snapshot(each[0]) is not None]
    logs = [each for each in stored if parse_log(each[0]) is not None]
    newest = [max(each, key=lambda found: _zxid_in(found[0])) for each in (snapshots, logs) if each]
    return newest or stored


def _zxid_in(path: Path) -> int:
    named = parse_snapshot(path) or parse_log(path)
    return -1 if named is None else named.zxid


def _stored(disk: VirtualDisk, prefixes: tuple[str, ...]) -> Found:
    return [
        (path / name, inode)
        for path, directory in disk.directories.items()
        for name, inode in directory.names.items()
        if name.startswith(prefixes) and inode.content.rstrip(b"\0")
    ]


def _used(inode: Inode) -> int:
    """How far anything was written."""
    return len(inode.content.rstrip(b"\0"))


def _flip(inode: Inode, stored: Found, chance: Random) -> str:
    offset = chance.randrange(_used(inode))
    inode.spoil(offset, bytes([inode.content[offset] ^ 1 << chance.randrange(8)]))
    return f"a bit of byte {offset} is flipped"


def _zero(inode: Inode, stored: Found, chance: Random) -> str:
    offset = _draw_sector(inode, chance)
    inode.spoil(offset, bytes(SECTOR_BYTES))
    return f"the sector at {offset} is zero"


def _lose_write(inode: Inode, stored: Found, chance: Random) -> str:
    if not inode.writes:
        return _zero(inode, stored, chance)
    offset, size = chance.choice(inode.writes)
    inode.spoil(offset, bytes(size))
    return f"the write of {size} bytes at {offset} is lost"


def _misdirect(inode: Inode, stored: Found, chance: Random) -> str:
    source, other = chance.choice(stored)
    taken_from, offset = _draw_sector(other, chance), _draw_sector(inode, chance)
    if max(_used(inode), _used(other)) <= SECTOR_BYTES:  # all of a file would stand for another
        return _flip(inode, stored, chance)
    inode.spoil(offset, bytes(other.content[taken_from : taken_from + SECTOR_BYTES]))
    return f"at {offset} stands what belongs to {source.name} at {taken_from}"


def _cut(inode: Inode, stored: Found, chance: Random) -> str:
    size = chance.randrange(_used(inode))
    inode.cut(size)
    return f"it ends at {size}"


def _draw_sector(inode: Inode, chance: Random) -> int:
    return chance.randrange(_used(inode)) // SECTOR_BYTES * SECTOR_BYTES


Kind = Callable[[Inode, Found, Random], str]
