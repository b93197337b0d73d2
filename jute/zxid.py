"""Helpers on zxids, which are plain ints: the leader's epoch in the high 32 bits, a counter in the low 32.

A zxid is a signed 64-bit number and is compared as one. Counter 0 is never a transaction: it marks the
start of an epoch.
"""

_COUNTER_BITS = 32
_COUNTER_MASK = (1 << _COUNTER_BITS) - 1
_UNSIGNED_MASK = (1 << 64) - 1


def epoch_of(zxid: int) -> int:
    """The epoch of the leader that proposed it."""
    return zxid >> _COUNTER_BITS


def counter_of(zxid: int) -> int:
    """Its place among the proposals of that epoch."""
    return zxid & _COUNTER_MASK


def make_zxid(epoch: int, counter: int) -> int:
    """The zxid of a place in an epoch."""
    assert 0 <= counter <= _COUNTER_MASK
    return epoch << _COUNTER_BITS | counter


def format_zxid(zxid: int) -> str:
    """As ZooKeeper prints it: lower-case hex after 0x, a negative one as its 64-bit complement."""
    return f"{zxid & _UNSIGNED_MASK:#x}"
