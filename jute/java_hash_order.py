"""The order in which Java walks through a HashSet or HashMap: by bucket, and in a bucket by age. Pure.

ZooKeeper's snapshot tools print children and sessions in this order, and people compare their output. What
Java does to a bucket with more than eight entries is left out: it takes names chosen to collide.
"""

from collections.abc import Callable, Iterable
from struct import unpack
from typing import TypeVar

_MASK32 = 0xFFFFFFFF
_LOAD_MAX = 0.75

T = TypeVar("T")


def hash_order(items: Iterable[T], hash_of: Callable[[T], int], buckets: int) -> list[T]:
    """The items, given by age, in Java's order; `buckets` is how many the table starts with."""
    entries = list(items)
    while len(entries) > buckets * _LOAD_MAX:
        buckets *= 2

    def bucket_of(item: T) -> int:
        code = hash_of(item)
        return (code ^ code >> 16) & (buckets - 1)

    return sorted(entries, key=bucket_of)


def string_hash(text: str) -> int:
    """String.hashCode, as 32 unsigned bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for unit in unpack(f">{len(units) // 2}H", units):
        code = 31 * code + unit & _MASK32
    return code


def long_hash(number: int) -> int:
    """Long.hashCode, as 32 unsigned bits."""
    return (number ^ number >> 32) & _MASK32
