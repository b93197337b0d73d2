"""Freed memory goes back to the system, also after a crowd of large replies.

glibc maps large blocks by themselves, and gives them back when they are freed. But each time it frees one it
takes that size for a usual one, and has the next ones, up to 32 MiB, share its heap: there a single small
block keeps everything below it. So the size from which blocks are mapped is fixed here. What is freed in the
heap itself is given back when the server holds a tenth more, or less, than when that was last done.
"""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

_M_MMAP_THRESHOLD: Final = -3  # of mallopt
_LARGE_BYTES: Final = 256 << 10
_STATM: Final = Path("/proc/self/statm")


class FreedMemory:
    """The C library's heap, as far as it can be told what to do; elsewhere than with glibc it cannot."""

    def __init__(self) -> None:
        self._trim: Callable[[int], int] | None = None
        self._trimmed_pages = 0
        try:
            library = ctypes.CDLL(None)
            library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
            self._trim = library.malloc_trim
            self._trimmed_pages = _resident_pages()
        except (OSError, AttributeError):
            pass

    def turn(self) -> bool:
        """Give back what is free, if that may be much; whether it was done. It takes a few ms at most: small
        objects, of which there are many, are not in this heap."""
        if self._trim is None or 0.9 <= _resident_pages() / self._trimmed_pages <= 1.1:
            return False
        self._trim(0)
        self._trimmed_pages = _resident_pages()
        return True


def _resident_pages() -> int:
    return int(_STATM.read_text().split()[1])


def resident_bytes() -> int:
    return _resident_pages() * os.sysconf("SC_PAGESIZE")
