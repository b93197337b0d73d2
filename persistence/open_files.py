"""Who may have how many of the files that this process may open.

Every connection is one, and without one for the next log or snapshot the server would have to stop. So the
last ones are kept for storage; below these, in an ensemble, some are kept for other servers; the rest is for
clients. The system gives out the lowest number that is free: a file with a number above a bound shows that
there are as many files as that.
"""

import math
import resource

FOR_STORAGE = 32
FOR_PEERS_MAX = 256
_SHARE_OF_STRANGERS = 32  # each kind of stranger may have so small a part of all files


def files_for_peers() -> float:
    """The number below which the files of other servers stay."""
    return _all_but(FOR_STORAGE)


def files_for_clients(*, has_peers: bool) -> float:
    """The number below which the files of clients stay."""
    return _all_but(FOR_STORAGE + (min(FOR_PEERS_MAX, _limit() // 4) if has_peers else 0))


def strangers_max(wanted: float) -> float:
    """How many connections of one kind nobody can vouch for: fewer than wanted where there are few files."""
    return min(wanted, max(_limit() // _SHARE_OF_STRANGERS, 2))


def _all_but(reserved: float) -> float:
    return max(_limit() - reserved, _limit() // 2)


def _limit() -> float:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return math.inf if limit == resource.RLIM_INFINITY else limit
