"""The names of the files in a version-2 directory, and the zxid each one carries."""

import re
from enum import Enum
from pathlib import Path

import attrs

ZXID_MAX = (1 << 63) - 1

_LOG = re.compile(r"log\.([0-9a-fA-F]{1,16})")
_SNAPSHOT = re.compile(r"snapshot\.([0-9a-fA-F]{1,16})(?:\.(gz|snappy))?")

UNFINISHED_LOG_PREFIX = "unfinished-"
UNFINISHED_SUFFIX = ".tmp"
_ASIDE_PREFIX = "aside-"


class Compression(Enum):
    """How a snapshot file is packed; the value is the file's extension and the setting's name."""

    NONE = ""
    GZIP = "gz"
    SNAPPY = "snappy"


@attrs.frozen(order=True)
class LogFile:
    """A transaction log; `zxid` is that of its first transaction."""

    zxid: int
    path: Path


@attrs.frozen
class SnapshotFile:
    """A snapshot; it holds at least everything up to `zxid`."""

    zxid: int
    path: Path
    compression: Compression


def log_name(zxid: int) -> str:
    return f"log.{zxid:x}"


def unfinished_log_name(zxid: int) -> str:
    """A log not yet complete enough to be called one.

    Apache takes any name that starts with `log.` and a number for a log, so the mark must come first.
    """
    return UNFINISHED_LOG_PREFIX + log_name(zxid)


def aside_name(name: str) -> str:
    """Of a log or snapshot that no server is to read any more, and somebody may still want to look at."""
    return _ASIDE_PREFIX + name


def parse_aside(path: Path) -> int | None:
    """The zxid of a log or snapshot that was put aside; None if this is none."""
    if not path.name.startswith(_ASIDE_PREFIX):
        return None
    original = path.with_name(path.name.removeprefix(_ASIDE_PREFIX))
    found = parse_log(original) or parse_snapshot(original)
    return None if found is None else found.zxid


def snapshot_name(zxid: int, compression: Compression) -> str:
    extension = compression.value
    return f"snapshot.{zxid:x}.{extension}" if extension else f"snapshot.{zxid:x}"


def parse_log(path: Path) -> LogFile | None:
    match = _LOG.fullmatch(path.name)
    if match is None or int(match[1], 16) > ZXID_MAX:
        return None
    return LogFile(int(match[1], 16), path)


def parse_snapshot(path: Path) -> SnapshotFile | None:
    match = _SNAPSHOT.fullmatch(path.name)
    if match is None or int(match[1], 16) > ZXID_MAX:
        return None
    return SnapshotFile(int(match[1], 16), path, Compression(match[2] or ""))


def is_unfinished(name: str) -> bool:
    """Is this a log or a snapshot that a crash interrupted? Epoch files keep theirs: they have a meaning."""
    if name.startswith(UNFINISHED_LOG_PREFIX + "log."):
        return True
    return name.startswith("snapshot.") and name.endswith(UNFINISHED_SUFFIX)
