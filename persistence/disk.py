"""The few file operations persistence needs, behind one interface that a simulator can fake.

All of them block. What a caller may rely on after a crash, and must not beyond it:

  - bytes written are safe once `sync` of that file has returned;
  - a name made, changed or removed is safe once `sync_directory` of its directory has returned;
  - `rename` is atomic: the new name stands for the old file or for the new one, never for neither.

Any OSError passes through untouched. In particular a failed sync is never repeated: the kernel may have
dropped the pages and would report success the second time.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from stat import S_IMODE
from typing import Protocol

# Small: what is read is taken apart by a thread that keeps the interpreter to itself meanwhile, and a leader
# reads its log for others while it serves. (Reading a log is no slower than with 1 MB.)
READ_CHUNK_BYTES = 64 << 10


class ReadableFile(Protocol):
    """A file read from some offset to its end."""

    def read(self, size: int) -> bytes:
        """The next bytes: as many as asked for unless the file ends first, none at its end."""
        ...

    def close(self) -> None: ...


class WritableFile(Protocol):
    """A file being written by us alone."""

    def write_at(self, offset: int, data: bytes) -> None: ...

    def grow(self, size: int) -> None:
        """Make the file `size` bytes long; what is new reads as zeros."""
        ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Disk(Protocol):
    def names(self, directory: Path) -> list[str]: ...

    def exists(self, path: Path) -> bool: ...

    def is_writable(self, path: Path) -> bool: ...

    def size(self, path: Path) -> int: ...

    def open(self, path: Path, offset: int = 0) -> ReadableFile: ...

    def create(self, path: Path, *, like: Path | None = None) -> WritableFile:
        """A new empty file; one of the same name is emptied. Who may read it is as with `like`, if that is
        there."""
        ...

    def truncate(self, path: Path, size: int, ending: bytes = b"") -> None:
        """Let the file have `size` bytes and these behind them, durably.

        After a crash the file is as it was, or has the ending at its place, and maybe more behind it."""
        ...

    def sync_file(self, path: Path) -> None:
        """Make safe what is in a file, whoever wrote it."""
        ...

    def rename(self, source: Path, target: Path) -> None: ...

    def unlink(self, path: Path) -> None: ...

    def make_directory(self, path: Path) -> None:
        """Make the directory and those above it; not an error if it is there."""
        ...

    def sync_directory(self, path: Path) -> None: ...

    def lock_directory(self, path: Path) -> None:
        """Keep other processes from locking the directory, as long as this one lives; BlockingIOError if
        another has."""
        ...


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


class RealFile:
    """A WritableFile of the operating system."""

    def __init__(self, path: Path, like: Path | None = None) -> None:
        self._path = path
        model = _status(like) if like is not None else None
        mode = 0o644 if model is None else 0o600  # until it is as its model, nobody else may look
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        if model is not None:
            with suppress(PermissionError):  # it was another's: then it becomes ours
                os.fchown(self._fd, model.st_uid, model.st_gid)
            os.fchmod(self._fd, S_IMODE(model.st_mode))

    def write_at(self, offset: int, data: bytes) -> None:
        try:
            written = os.pwrite(self._fd, data, offset)
            while written < len(data):  # a nearly full disk takes a part, and says ENOSPC the next time
                written += os.pwrite(self._fd, memoryview(data)[written:], offset + written)
        except OSError as error:
            raise self._named(error) from error

    def grow(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise self._named(error) from error

    def sync(self) -> None:
        try:
            _sync_data(self._fd)
        except OSError as error:
            raise self._named(error) from error

    def _named(self, error: OSError) -> OSError:
        """The system does not say where. The file may have been renamed since, its directory has not."""
        return OSError(error.errno, error.strerror, str(self._path.parent))

    def close(self) -> None:
        os.close(self._fd)


class RealDisk:
    """The file system."""

    def __init__(self) -> None:
        self._locks: dict[Path, int] = {}

    def names(self, directory: Path) -> list[str]:
        return os.listdir(directory)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def is_writable(self, path: Path) -> bool:
        return os.access(path, os.W_OK)

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def open(self, path: Path, offset: int = 0) -> ReadableFile:
        file = path.open("rb", buffering=0)
        file.seek(offset)
        return file

    def create(self, path: Path, *, like: Path | None = None) -> WritableFile:
        return RealFile(path, like)

    def truncate(self, path: Path, size: int, ending: bytes = b"") -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            if ending:
                os.pwrite(fd, ending, size)
                os.fsync(fd)
            os.ftruncate(fd, size + len(ending))
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_file(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def sync_directory(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock_directory(self, path: Path) -> None:
        if path in self._locks:
            return
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        self._locks[path] = fd  # the lock lasts as long as the descriptor


def _sync_data(fd: int) -> None:
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)  # macOS: it covers more than we ask for


def read_chunks(disk: Disk, path: Path, offset: int = 0) -> Iterator[bytes]:
    """The bytes of a file from `offset` on, a bounded piece at a time."""
    with closing(disk.open(path, offset)) as file:
        while chunk := file.read(READ_CHUNK_BYTES):
            yield chunk


def replace_file(disk: Disk, path: Path, content: bytes, *, like: Path | None = None) -> None:
    """Give the file new content: after a crash it has the old or the new one, once returned the new one. Who
    may read it stays as it was, or as with `like`."""
    unfinished = path.with_name(path.name + ".tmp")
    with closing(disk.create(unfinished, like=like or path)) as file:
        file.write_at(0, content)
        file.sync()
    disk.rename(unfinished, path)
    disk.sync_directory(path.parent)
