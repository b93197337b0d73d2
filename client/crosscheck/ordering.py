"""Puts what was seen on several connections into the order in which the first server did it.

A reply's zxid is that of the write it answers, or that of the last write which a read has seen. Replies on
different connections may reach us in another order than they were sent in, so each is held back for a moment
and those with smaller zxids go first. On one connection the order stays as it is.
"""

import heapq
from typing import Final, Generic, TypeVar

import attrs

T = TypeVar("T")

HOLD_SECONDS: Final = 0.05


@attrs.define(order=True)
class _Held(Generic[T]):
    zxid: int
    is_read: bool
    number: int
    arrived: float = attrs.field(order=False)
    size: int = attrs.field(order=False)
    item: T = attrs.field(order=False)


@attrs.define
class Order(Generic[T]):
    """What waits to be repeated; `size` is how much memory it takes, about."""

    size: int = 0
    _heap: list[_Held[T]] = attrs.field(factory=list)
    _count: int = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: T, *, zxid: int, is_write: bool, now: float, size: int) -> None:
        self._count += 1
        self.size += size
        heapq.heappush(self._heap, _Held(zxid, not is_write, self._count, now, size, item))

    def due(self) -> float:
        """When the next one may go; never, if there is none."""
        return self._heap[0].arrived + HOLD_SECONDS if self._heap else float("inf")

    def take(self) -> tuple[int, T]:
        """The next one, with its zxid."""
        held = heapq.heappop(self._heap)
        self.size -= held.size
        return held.zxid, held.item

    def clear(self) -> None:
        self._heap.clear()
        self.size = 0
