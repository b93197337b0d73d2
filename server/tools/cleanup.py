"""zkCleanup.sh: removes old snapshots and logs, as a cron job does where autopurge is off.

It keeps the newest N snapshots that look complete, and every log that one of them needs; which files that
leaves is decided in `persistence.snapshots`, for autopurge and this alike.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from jute.java_text import java_medium_date, parse_java_int
from persistence.disk import RealDisk
from persistence.snapshots import RETAIN_COUNT_MIN, purgeable
from server.tools.zoo_cfg_lines import read_lines

USAGE = """\
Usage:
PurgeTxnLog dataLogDir [snapDir] -n count
\tdataLogDir -- path to the txn log directory
\tsnapDir -- path to the snapshot directory
\tcount -- the number of old snaps/logs you want to keep, value should be greater than or equal to 3"""
COUNT_TOO_SMALL = f"count should be greater than or equal to {RETAIN_COUNT_MIN}"
VERSION_DIR = "version-2"


class Refused(Exception):
    """The arguments make no sense: the message says why, if anything is to be said beyond the usage."""


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run zkCleanup.sh: the directories are those of zoo.cfg, the arguments what comes behind them."""
    config_file = environ["ZOOCFG"]
    try:
        config = read_lines(Path(config_file).read_text(encoding="latin-1"))
    except OSError as problem:
        print(f"{config_file}: {problem.strerror}", file=sys.stderr)
        return 1
    directories = [config[key] for key in ("dataLogDir", "dataDir") if config.get(key)]
    return purge_command([*directories, *arguments])


def purge_command(arguments: Sequence[str]) -> int:
    """PurgeTxnLog's command line: dataLogDir [snapDir] -n count."""
    try:
        log_dir, snap_dir, count = checked(arguments)
    except Refused as reason:
        if str(reason):
            print(reason, file=sys.stderr, flush=True)
        print(USAGE)
        return 1
    try:
        return purge(log_dir / VERSION_DIR, snap_dir / VERSION_DIR, count)
    except OSError as problem:
        print(f"{problem.filename}: {problem.strerror}", file=sys.stderr)
        return 1


def checked(arguments: Sequence[str]) -> tuple[Path, Path, int]:
    """The log directory, the snapshot directory and the number of snapshots to keep."""
    if not 3 <= len(arguments) <= 4:
        raise Refused
    *directories, option, count = arguments
    for directory in directories:
        if not os.path.exists(directory):
            raise Refused(f"Path '{os.path.abspath(directory)}' does not exist. ")
    number = parse_java_int(count)
    if number is None:
        raise Refused(f"'{count}' can not be parsed to integer.")
    if number < RETAIN_COUNT_MIN:
        raise Refused(COUNT_TOO_SMALL)
    if option != "-n":
        raise Refused
    return Path(directories[0]), Path(directories[-1]), number


def purge(log_dir: Path, snap_dir: Path, count: int) -> int:
    for directory in (log_dir, snap_dir):
        directory.mkdir(exist_ok=True)
    if problem := mixed_up(log_dir, snap_dir):
        print(problem, file=sys.stderr)
        return 1
    disk = RealDisk()
    for file in purgeable(disk, snap_dir, log_dir, count):
        changed_ms = int(file.stat().st_mtime * 1000)
        print(f"Removing file: {java_medium_date(changed_ms, None)}\t{file}")
        try:
            disk.unlink(file)
        except OSError:
            print(f"Failed to remove {file}", file=sys.stderr)
    return 0


def mixed_up(log_dir: Path, snap_dir: Path) -> str | None:
    """What is wrong if the two directories are not the same and one holds the other's files."""
    if log_dir == snap_dir:
        return None
    if any(log_dir.glob("snapshot.*")):
        kinds = "Log directory has snapshot files"
    elif any(snap_dir.glob("log.*")):
        kinds = "Snapshot directory has log files"
    else:
        return None
    return f"{kinds}. Check if dataLogDir and dataDir configuration is correct."
