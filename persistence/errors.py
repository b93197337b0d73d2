"""What can be wrong with a data directory. Each error names the file, the place and a way out."""

from pathlib import Path

RESYNC_OR_RESTORE = (
    "If this server belongs to an ensemble, create an empty file `fetch-from-leader` in its dataDir and "
    "start it: it takes everything from its leader, and does not vote before; a standalone server needs a "
    "backup"
)


class StorageError(Exception):
    """The bytes on disk are not what they must be. Never raised for a failing disk: that is an OSError."""

    def __init__(
        self, problem: str, *, file: Path | None = None, offset: int | None = None, remedy: str = ""
    ) -> None:
        self.problem = problem
        self.file = file
        self.offset = offset
        self.remedy = remedy
        super().__init__(self._message())

    def _message(self) -> str:
        place = "" if self.file is None else f"{self.file}: "
        if self.offset is not None:
            place = f"{self.file}, byte {self.offset}: "
        return f"{place}{self.problem}" + (f". {self.remedy}." if self.remedy else "")


class CorruptLog(StorageError):
    """A transaction log has lost something that may have been acknowledged."""


class CorruptSnapshot(StorageError):
    """A snapshot cannot be trusted. An older one, with the log, may still give everything back."""


class DataDirError(StorageError):
    """The data directories are missing, mixed up or not ours to write."""
