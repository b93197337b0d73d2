"""Digests of the tree that were seen, so that two servers can be compared.

Every 128th transaction is kept, the same ones on every server: a difference tells between which two
transactions they parted.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

INTERVAL: Final = 128
KEPT_MAX: Final = 1024


class DigestHistory:
    """The latest (zxid, digest) pairs, oldest first."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, int]] = deque(maxlen=KEPT_MAX)

    def note(self, zxid: int, digest: int) -> None:
        """The tree has this digest once the transaction is applied."""
        if zxid % INTERVAL == 0:
            self._kept.append((zxid, digest))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._kept)
