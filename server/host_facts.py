"""What the operating system and the interpreter say about this process, for envi, conf, dirs and metrics."""

import getpass
import os
import platform
import resource
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from jute.zookeeper_version import FULL_VERSION
from server import VERSION

UNKNOWN: Final = "<NA>"
_OPEN_FILES: Final = (Path("/proc/self/fd"), Path("/dev/fd"))
_CGROUP_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_JAVA_NAMES_OF_MACHINES: Final = {"x86_64": "amd64", "arm64": "aarch64"}
_MEGABYTE: Final = 1 << 20


class RealHost:
    """This machine (server.metrics.Host)."""

    def open_files(self) -> int:
        """-1 where the system does not tell. Looking opens a file too, which does not count."""
        for directory in _OPEN_FILES:
            with suppress(OSError):
                return len(os.listdir(directory)) - 1
        return -1

    def open_files_max(self) -> int:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    def directory_bytes(self, directory: Path) -> int:
        total = 0
        for folder, _, names in os.walk(directory):
            for name in names:
                with suppress(OSError):  # purged while we look
                    total += os.stat(os.path.join(folder, name)).st_size
        return total

    def environment(self) -> Mapping[str, str]:
        """The keys of the original, those of the JVM with the nearest thing we have; then our own version.

        Of memory, free is what the machine has left, max what this process may use, total the most it used.
        """
        return {
            "zookeeper.version": FULL_VERSION,
            "host.name": socket.gethostname() or UNKNOWN,
            "java.version": f"Python {platform.python_version()}",
            "java.vendor": platform.python_implementation(),
            "java.home": sys.prefix,
            "java.class.path": os.pathsep.join(sys.path),
            "java.library.path": UNKNOWN,
            "java.io.tmpdir": tempfile.gettempdir(),
            "java.compiler": UNKNOWN,
            "os.name": platform.system(),
            "os.arch": _JAVA_NAMES_OF_MACHINES.get(platform.machine(), platform.machine()),
            "os.version": platform.release(),
            "user.name": _user_name(),
            "user.home": os.path.expanduser("~"),
            "user.dir": _working_directory(),
            "os.memory.free": _megabytes(_memory_bytes("SC_AVPHYS_PAGES")),
            "os.memory.max": _megabytes(_memory_bytes_max()),
            "os.memory.total": _megabytes(_peak_memory_bytes()),
            "triokeeper.version": VERSION,
        }


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number without a name
        return "?"


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return UNKNOWN


def _megabytes(size: int) -> str:
    return f"{size // _MEGABYTE}MB"


def _memory_bytes(pages_name: str) -> int:
    try:
        return os.sysconf(pages_name) * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):  # not known to this system
        return 0


def _memory_bytes_max() -> int:
    """The limit of our container, or all the memory there is."""
    limits = [_memory_bytes("SC_PHYS_PAGES")]
    for path in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # no such file, or the word "max"
            limits.append(int(path.read_text()))
    return min(limits)


def _peak_memory_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
