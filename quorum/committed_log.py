"""The latest committed transactions, kept in memory: a learner that missed a few is sent just those.

Invariant: gapless. Every transaction that is applied passes through here, in order; so whoever has one of
them has all that came before it, and lacks exactly those behind it. A gap in a log that was read (some
versions of Apache left them) makes it begin again behind the gap.
"""

from collections import deque
from collections.abc import Iterator

from persistence.log_format import follows


class CommittedLog:
    """The last `size` committed transactions, oldest first, as (zxid, payload)."""

    def __init__(self, size: int) -> None:
        self._entries: deque[tuple[int, bytes]] = deque(maxlen=size)
        self._begun_after = 0

    def append(self, zxid: int, payload: bytes) -> None:
        last = self._entries[-1][0] if self._entries else self._begun_after
        if zxid != last + 1 and not follows(last, zxid):
            self.begin(zxid)
        self._entries.append((zxid, payload))

    def begin(self, after: int) -> None:
        """What is known is no longer what was applied: the tree was replaced or cut back, to this zxid."""
        self._entries.clear()
        self._begun_after = after

    @property
    def after(self) -> int:
        """Whoever has everything up to this zxid lacks nothing but what is here."""
        if not self._entries:
            return self._begun_after
        is_full = len(self._entries) == self._entries.maxlen  # and more may have been here
        return self.first_zxid if is_full else self._begun_after

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
