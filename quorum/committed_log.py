"""The latest committed transactions, kept in memory: a learner that missed a few is sent just those.

Invariant: gapless. Every transaction that is applied passes through here, in order; so whoever has one of
them has all that came before it, and lacks exactly those behind it.
"""

from collections import deque
from collections.abc import Iterator


class CommittedLog:
    """The last `size` committed transactions, oldest first, as (zxid, payload)."""

    def __init__(self, size: int) -> None:
        self._entries: deque[tuple[int, bytes]] = deque(maxlen=size)

    def append(self, zxid: int, payload: bytes) -> None:
        self._entries.append((zxid, payload))

    def clear(self) -> None:
        """What is known is no longer what was applied: the tree was replaced or cut back."""
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return iter(self._entries)

    @property
    def first_zxid(self) -> int:
        return self._entries[0][0]

    @property
    def last_zxid(self) -> int:
        return self._entries[-1][0]
