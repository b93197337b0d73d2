"""A disk in memory that knows what is written from what is safe, and can crash in between.

Two ways to go down, and both leave `disk` as a restarted process would find it:

  kill -9     everything written so far stays, and of the write under way its first sectors (`budget`, then
              `revive`)
  power loss  of what was not synced, any sector may be lost; of the changes to names, any suffix
              (`lose_power`)
"""

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

SECTOR_BYTES = 512


class Killed(BaseException):
    """The process ended here. Not an Exception: nothing may handle it."""


class Inode:
    def __init__(self) -> None:
        self.content = bytearray()
        self.safe = b""
        self.unsafe: list[Callable[[bytearray], None]] = []  # what happened to `content` since `safe`

    def change(self, change: Callable[[bytearray], None]) -> None:
        change(self.content)
        self.unsafe.append(change)

    def write_at(self, offset: int, data: bytes) -> None:
        """In pieces that a disk writes at once, so that each can be lost alone."""
        start = 0
        while start < len(data):
            end = min(len(data), start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES)
            self.change(Piece(offset + start, data[start:end]))
            start = end

    def make_safe(self) -> None:
        self.safe = bytes(self.content)
        self.unsafe.clear()

    def lose_power(self, chance: Random, sector_bytes: int) -> None:
        content = bytearray(self.safe)
        share = chance.choice([0.0, 0.5, 0.9, 1.0])
        is_kept: dict[int, bool] = {}  # by sector, as long as its pieces are of the same write
        last = -1
        for change in self.unsafe:
            sector = change.offset // sector_bytes if isinstance(change, Piece) else -1
            if sector < max(last, 0):
                is_kept.clear()
            last = sector
            if is_kept.setdefault(sector, chance.random() < share):
                change(content)
        self.content = content
        self.make_safe()


def whole_sectors(offset: int, size: int) -> int:
    """How much of a write that stopped after `size` bytes is there: the system writes sectors, or more."""
    return max(0, size - (offset + size) % SECTOR_BYTES)


class Piece:
    def __init__(self, offset: int, data: bytes) -> None:
        self.offset = offset
        self.data = data

    def __call__(self, content: bytearray) -> None:
        content.extend(bytes(max(0, self.offset - len(content))))
        content[self.offset : self.offset + len(self.data)] = self.data


class Growth:
    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, content: bytearray) -> None:
        content.extend(bytes(max(0, self.size - len(content))))


class Cut:
    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, content: bytearray) -> None:
        del content[self.size :]


Names = dict[Path, Inode]


class MemoryDisk:
    def __init__(self) -> None:
        self.budget: int | None = None  # how much may still happen: a byte written, or one other change
        self.spent = 0
        self.syncs = 0
        self.faults: dict[str, OSError] = {}  # by operation
        self._directories: set[Path] = {Path("/")}
        self._names: Names = {}
        self._safe_names: Names = {}
        self._unsafe_changes: list[Callable[[Names], None]] = []

    def names(self, directory: Path) -> list[str]:
        if directory not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", str(directory))
        return [path.name for path in self._names if path.parent == directory]

    def exists(self, path: Path) -> bool:
        return path in self._names or path in self._directories

    def is_writable(self, path: Path) -> bool:
        return "is_writable" not in self.faults

    def size(self, path: Path) -> int:
        return len(self._inode(path).content)

    def open(self, path: Path, offset: int = 0) -> "MemoryReader":
        self._act("open", cost=0)
        return MemoryReader(self._inode(path), offset)

    def create(self, path: Path, *, like: Path | None = None) -> "MemoryFile":
        self._act("create")
        inode = Inode()
        self._change_names(lambda names: names.__setitem__(path, inode))
        return MemoryFile(self, inode)

    def truncate(self, path: Path, size: int, ending: bytes = b"") -> None:
        inode = self._inode(path)
        if ending:
            self._act("truncate")
            inode.write_at(size, ending)
            self._act("truncate")
            inode.make_safe()
        self._act("truncate")
        inode.change(Cut(size + len(ending)))
        self._act("truncate")
        inode.make_safe()

    def sync_file(self, path: Path) -> None:
        self._act("sync_file")
        self._inode(path).make_safe()

    def rename(self, source: Path, target: Path) -> None:
        self._act("rename")
        self._inode(source)
        self._change_names(lambda names: names.__setitem__(target, names.pop(source)))

    def unlink(self, path: Path) -> None:
        self._act("unlink")
        self._inode(path)
        self._change_names(lambda names: names.__delitem__(path))

    def make_directory(self, path: Path) -> None:
        self._act("make_directory")
        self._directories |= {path, *path.parents}

    def lock_directory(self, path: Path) -> None:
        """One disk serves one server at a time here."""

    def sync_directory(self, path: Path) -> None:
        self._act("sync_directory")
        self._safe_names = dict(self._names)
        self._unsafe_changes.clear()

    # For tests

    def put(self, path: Path, content: bytes) -> None:
        """A file that was always there."""
        inode = Inode()
        inode.content[:] = content
        inode.make_safe()
        self._names[path] = self._safe_names[path] = inode
        self._directories |= set(path.parents)

    def get(self, path: Path) -> bytes:
        return bytes(self._inode(path).content)

    def revive(self) -> None:
        """A new process after kill -9."""
        self.budget = None

    def lose_power(self, chance: Random, sector_bytes: int = SECTOR_BYTES) -> None:
        """Keep what was synced; of the rest, what `chance` spares. The disk writes sectors of this size."""
        self.budget = None
        kept = self._unsafe_changes[: chance.randint(0, len(self._unsafe_changes))]
        names = self._safe_names
        for change in kept:
            change(names)
        for inode in names.values():
            inode.lose_power(chance, sector_bytes)
        self._names, self._safe_names = dict(names), dict(names)
        self._unsafe_changes.clear()

    def _act(self, operation: str, cost: int = 1) -> int:
        """Pay for an operation; return how much of its cost was left to pay with."""
        fault = self.faults.get(operation)
        if fault is not None:
            raise fault
        affordable = cost if self.budget is None else min(cost, self.budget)
        self.spent += affordable
        if self.budget is not None:
            self.budget -= affordable
        if affordable < cost and operation != "write_at":
            raise Killed
        return affordable

    def _change_names(self, change: Callable[[Names], None]) -> None:
        change(self._names)
        self._unsafe_changes.append(change)

    def _inode(self, path: Path) -> Inode:
        try:
            return self._names[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path)) from None


class MemoryReader:
    def __init__(self, inode: Inode, offset: int) -> None:
        self._inode = inode
        self._offset = offset

    def read(self, size: int) -> bytes:
        data = bytes(self._inode.content[self._offset : self._offset + size])
        self._offset += len(data)
        return data

    def close(self) -> None:
        pass


class MemoryFile:
    def __init__(self, disk: MemoryDisk, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode

    def write_at(self, offset: int, data: bytes) -> None:
        written = self._disk._act("write_at", cost=len(data))
        if written < len(data):
            self._inode.write_at(offset, data[: whole_sectors(offset, written)])
            raise Killed
        self._inode.write_at(offset, data)

    def grow(self, size: int) -> None:
        self._disk._act("grow")
        self._inode.change(Growth(size))

    def sync(self) -> None:
        self._disk._act("sync")
        self._disk.syncs += 1
        self._inode.make_safe()

    def close(self) -> None:
        pass
