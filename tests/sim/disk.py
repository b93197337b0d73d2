"""A virtual disk that knows what is written from what is safe, fails on request, and outlives its process.

What a restarted server finds depends on how it went down:

  kill -9     everything written so far; the write under way in part (`die_after`)
  power loss  of what was not synced, any sector may be lost, or all but a prefix; of the changes to the names
              in a directory, any suffix

Faults: no space left, errors of any operation (what a failed sync covered may be lost for good, as the
kernel drops the pages), syncs that take long, and damage to what is stored (`damage.py`). `VirtualOffload`
makes slow syncs felt: it runs a function on the spot, but lets the disk's time pass before or after it. A
sync in the event loop's own thread holds up the whole process for as long as it takes (`on_loop_held`).

A process reaches the disk through its own `MountedDisk`. Once that process is dead, everything it still tries
raises Killed and has no effect.
"""

import errno
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TypeVar, TypeVarTuple

import outcome
import trio

from persistence.errors import StorageError
from tests.sim.virtual_time import VirtualClock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

SECTOR_BYTES = 512
_WRITES_REMEMBERED = 16


class Killed(BaseException):
    """The process ended here. Not an Exception: nothing may handle it."""


class Inode:
    """A file's content as readers see it, and as it is on the platter."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.safe = bytearray()
        self.unsafe: list[tuple[int, bytes]] = []  # writes since the last sync
        self.unsafe_size: int | None = None  # the file was made longer since the last sync
        self.writes: deque[tuple[int, int]] = deque(maxlen=_WRITES_REMEMBERED)  # offset and size of the last

    def write_at(self, offset: int, data: bytes) -> None:
        _write(self.content, offset, data)
        self.writes.append((offset, len(data)))
        self.unsafe.append((offset, data))

    def grow(self, size: int) -> None:
        _lengthen(self.content, size)
        self.unsafe_size = size

    def sync(self) -> None:
        for offset, data in self.unsafe:
            _write(self.safe, offset, data)
        if self.unsafe_size is not None:
            _lengthen(self.safe, self.unsafe_size)
        self._all_safe()

    def truncate(self, size: int) -> None:
        del self.content[size:]
        self.safe = bytearray(self.content)
        self._all_safe()

    def lose_power(self, chance: Random) -> None:
        """What was not synced is kept by sectors: all, none, any, or those before some moment."""
        if self.unsafe or self.unsafe_size is not None:
            sectors = [sector for offset, data in self.unsafe for sector in _sectors(offset, data)]
            for offset, data in _spared(sectors, chance):
                _write(self.safe, offset, data)
            if self.unsafe_size is not None and chance.random() < 0.5:
                _lengthen(self.safe, self.unsafe_size)
            self.content = bytearray(self.safe)
            self._all_safe()

    def spoil(self, offset: int, data: bytes) -> None:
        """What is stored there is something else from now on; what was not synced yet will replace it."""
        for stored in (self.content, self.safe):
            within = max(0, min(len(data), len(stored) - offset))
            stored[offset : offset + within] = data[:within]

    def cut(self, size: int) -> None:
        """What is stored ends here."""
        del self.content[size:]
        del self.safe[size:]

    def drop_pages(self, chance: Random) -> None:
        """A sync failed: what it covered is lost or not, and will not be tried again."""
        self.lose_power(chance)

    def _all_safe(self) -> None:
        self.unsafe.clear()
        self.unsafe_size = None


def _write(content: bytearray, offset: int, data: bytes) -> None:
    _lengthen(content, offset)
    content[offset : offset + len(data)] = data


def _lengthen(content: bytearray, size: int) -> None:
    if len(content) < size:
        content.extend(bytes(size - len(content)))


def _sectors(offset: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    """In pieces that a disk writes at once, so that each can be lost alone."""
    start = 0
    while start < len(data):
        end = min(len(data), start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES)
        yield offset + start, data[start:end]
        start = end


def _spared(sectors: list[tuple[int, bytes]], chance: Random) -> list[tuple[int, bytes]]:
    match chance.randrange(4):
        case 0:
            return []
        case 1:
            return sectors[: chance.randint(0, len(sectors))]
        case 2:
            share = chance.random()
            return [sector for sector in sectors if chance.random() < share]
        case _:
            return sectors


Names = dict[str, Inode]


class Directory:
    def __init__(self) -> None:
        self.names: Names = {}
        self.safe: Names = {}
        self.unsafe: list[Callable[[Names], None]] = []

    def change(self, change: Callable[[Names], None]) -> None:
        change(self.names)
        self.unsafe.append(change)

    def sync(self) -> None:
        self.safe = dict(self.names)
        self.unsafe.clear()

    def lose_power(self, chance: Random) -> None:
        for change in self.unsafe[: chance.randint(0, len(self.unsafe))]:
            change(self.safe)
        self.unsafe.clear()
        self.names = dict(self.safe)


class VirtualDisk:
    """One machine's disk, and what is wrong with it."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.directories: dict[Path, Directory] = {Path("/"): Directory()}
        self.failing: dict[str, int] = {}  # errno by operation
        self.die_after: int | None = None  # how many more operations the process lives
        self.on_death: Callable[[], None] = _nothing
        self.sync_s = (0.0002, 0.002)  # how long a sync takes, at least and at most
        self.stall_s = 0.0  # what comes on top of it now
        self.busy_s = 0.0  # what all syncs together took
        self.faults_met = 0
        self.wipes = 0  # how often an empty one took its place
        self.is_damaged = False  # something that it had stored is not what was written
        self.damages = 0  # how often something was
        self.has_damaged_epochs = False

    def mount(self) -> "MountedDisk":
        """For the next process."""
        self.die_after = None
        return MountedDisk(self)

    def lose_power(self) -> None:
        for directory in self.directories.values():
            directory.lose_power(self.chance)
            for inode in directory.names.values():
                inode.lose_power(self.chance)

    def wipe(self, kept: Path) -> None:
        """As `replace`, and with it go the promises that its server has given."""
        self.wipes += 1
        self.replace(kept)

    def replace(self, kept: Path) -> None:
        """A new disk takes its place; only this directory is restored."""
        root = Path("/")
        self.is_damaged = self.has_damaged_epochs = False
        self.directories = {path: self.directories[path] for path in (root, kept)}

    def put(self, path: Path, content: bytes) -> None:
        """Somebody else has left a file there, durably."""
        inode = Inode()
        inode.content, inode.safe = bytearray(content), bytearray(content)
        directory = self.directories.setdefault(path.parent, Directory())
        directory.names[path.name] = directory.safe[path.name] = inode

    def mend(self) -> None:
        self.failing.clear()
        self.stall_s = 0.0

    def draw_sync_s(self) -> float:
        """Most syncs take about the shortest time, a few take long."""
        shortest, longest = self.sync_s
        return shortest + (longest - shortest) * self.chance.random() ** 4 + self.stall_s


class MountedDisk:
    """The disk as one process sees it. Meets persistence.disk.Disk."""

    def __init__(self, disk: VirtualDisk) -> None:
        self.disk = disk
        self.is_alive = True
        self.is_offloaded = False  # whatever is done now is done by another thread
        self.on_loop_held: Callable[[float], None] = _hold_nobody  # told for how long the loop stands still

    def names(self, directory: Path) -> list[str]:
        self._act("names")
        if directory not in self.disk.directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", str(directory))
        return list(self.disk.directories[directory].names)

    def exists(self, path: Path) -> bool:
        self._act("exists")
        if path in self.disk.directories:
            return True
        directory = self.disk.directories.get(path.parent)
        return directory is not None and path.name in directory.names

    def is_writable(self, path: Path) -> bool:
        self._act("is_writable")
        return True

    def size(self, path: Path) -> int:
        self._act("size")
        return len(self._inode(path).content)

    def open(self, path: Path, offset: int = 0) -> "OpenedForReading":
        self._act("open")
        return OpenedForReading(self, self._inode(path), offset)

    def create(self, path: Path, *, like: Path | None = None) -> "OpenedForWriting":
        self._act("create")
        inode = Inode()
        self._directory(path).change(lambda names: names.__setitem__(path.name, inode))
        return OpenedForWriting(self, inode)

    def truncate(self, path: Path, size: int, ending: bytes = b"") -> None:
        inode = self._inode(path)
        if ending:
            self._act("truncate")
            inode.write_at(size, ending)
            inode.sync()
        self._act("truncate")
        inode.truncate(size + len(ending))

    def sync_file(self, path: Path) -> None:
        self._act("sync_file")
        self._inode(path).sync()

    def rename(self, source: Path, target: Path) -> None:
        self._act("rename")
        self._inode(source)
        assert source.parent == target.parent, "a rename between directories is not one change"
        self._directory(source).change(lambda names: names.__setitem__(target.name, names.pop(source.name)))

    def unlink(self, path: Path) -> None:
        self._act("unlink")
        self._inode(path)
        self._directory(path).change(lambda names: names.__delitem__(path.name))

    def make_directory(self, path: Path) -> None:
        self._act("make_directory")
        for each in (path, *path.parents):
            self.disk.directories.setdefault(each, Directory())

    def sync_directory(self, path: Path) -> None:
        self._act("sync_directory")
        self.disk.directories[path].sync()

    def lock_directory(self, path: Path) -> None:
        """One process uses a disk at a time here."""

    def _directory(self, path: Path) -> Directory:
        return self.disk.directories[path.parent]

    def _inode(self, path: Path) -> Inode:
        directory = self.disk.directories.get(path.parent)
        if directory is None or path.name not in directory.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return directory.names[path.name]

    def _act(self, operation: str, half_done: Callable[[], None] | None = None) -> None:
        """Refuse the operation, done by half, if the process is to die in it or the disk to fail."""
        disk = self.disk
        if not self.is_alive:
            raise Killed
        if disk.die_after is not None:
            disk.die_after -= 1
            if disk.die_after < 0:
                if half_done is not None:
                    half_done()
                disk.on_death()
                raise Killed
        if operation in disk.failing:
            disk.faults_met += 1
            if half_done is not None:
                half_done()
            code = disk.failing[operation]
            raise OSError(code, f"simulated {errno.errorcode[code]}")


class OpenedForReading:
    def __init__(self, mounted: MountedDisk, inode: Inode, offset: int) -> None:
        self._mounted = mounted
        self._inode = inode
        self._offset = offset

    def read(self, size: int) -> bytes:
        self._mounted._act("read")
        data = bytes(self._inode.content[self._offset : self._offset + size])
        self._offset += len(data)
        return data

    def close(self) -> None:
        pass


class OpenedForWriting:
    def __init__(self, mounted: MountedDisk, inode: Inode) -> None:
        self._mounted = mounted
        self._inode = inode

    def write_at(self, offset: int, data: bytes) -> None:
        def write_a_part() -> None:
            end = offset + self._mounted.disk.chance.randint(0, len(data))
            self._inode.write_at(offset, data[: max(0, end - end % SECTOR_BYTES - offset)])

        self._mounted._act("write_at", write_a_part)
        self._inode.write_at(offset, data)

    def grow(self, size: int) -> None:
        self._mounted._act("grow")
        self._inode.grow(size)

    def sync(self) -> None:
        disk = self._mounted.disk
        try:
            self._mounted._act("sync")
        except OSError:
            self._inode.drop_pages(disk.chance)
            raise
        took_s = disk.draw_sync_s()
        disk.busy_s += took_s
        if not self._mounted.is_offloaded:
            self._mounted.on_loop_held(took_s)
        self._inode.sync()

    @property
    def is_safe(self) -> bool:
        """Is all of it on the platter, and its name too?"""
        has_name = any(self._inode in each.safe.values() for each in self._mounted.disk.directories.values())
        return not self._inode.unsafe and has_name

    def close(self) -> None:
        pass


class VirtualOffload:
    """Meets persistence.offload.Offload without a thread: the disk's time passes before or after the work."""

    def __init__(self, mounted: MountedDisk, clock: VirtualClock, slower_s: float = 0.0) -> None:
        self._mounted = mounted
        self._clock = clock
        self._slower_s = slower_s
        self._is_busy = False
        self._queue = trio.lowlevel.ParkingLot()
        self._waiting: trio.lowlevel.Task | None = None  # until the disk's time has passed

    def run_now(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        self._mounted.is_offloaded = True
        try:
            return fn(*args)
        finally:
            self._mounted.is_offloaded = False

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        if self._is_busy:
            await self._queue.park()
        self._is_busy = True
        disk = self._mounted.disk
        try:
            delay = disk.draw_sync_s() + self._slower_s
            if disk.chance.random() < 0.5:
                await self._pass(delay)
                return self.run_now(fn, *args)
            result = self.run_now(fn, *args)
            await self._pass(delay)
            return result
        finally:
            self._is_busy = bool(self._queue)
            self._queue.unpark()

    async def _pass(self, seconds: float) -> None:
        """Let time pass, whoever is cancelled meanwhile; `die` cuts it short."""
        if not self._mounted.is_alive:
            raise Killed
        task = self._waiting = trio.lowlevel.current_task()

        def go_on() -> None:
            if self._waiting is task:
                self._waiting = None
                trio.lowlevel.reschedule(task)

        self._clock.call_later(seconds, go_on)
        await trio.lowlevel.wait_task_rescheduled(_cannot_be_cancelled)

    def begin(self, seconds: float, fn: Callable[[], None]) -> "BegunVirtually":
        """Meets persistence.offload.Begin: a sync that is quick enough is over at once, in no time."""
        return BegunVirtually(self, fn, is_done=self._mounted.disk.draw_sync_s() <= seconds)

    def die(self) -> None:
        """The process is dead, and nothing is waited for any more."""
        task, self._waiting = self._waiting, None
        if task is not None:
            trio.lowlevel.reschedule(task, outcome.Error(Killed()))


class BegunVirtually:
    """Meets persistence.offload.Begun. Work that takes longer than a moment is done when it is waited for."""

    def __init__(self, offload: VirtualOffload, fn: Callable[[], None], *, is_done: bool) -> None:
        self.is_done = is_done
        self._offload = offload
        self._fn = fn
        self._failure: OSError | StorageError | None = None
        if is_done:
            self._run()

    def _run(self) -> None:
        try:
            self._offload.run_now(self._fn)
        except (OSError, StorageError) as failure:
            self._failure = failure

    async def finished(self) -> None:
        await self._offload(self._run)

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure


def _cannot_be_cancelled(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED


def _nothing() -> None:
    pass


def _hold_nobody(seconds: float) -> None:
    """Where nobody models the event loop's thread."""
