"""How many connections of learners there is room for: each costs memory and an open file, and anybody may
connect and say anything.

What a stranger does must not cost a member its place. So of those that do not go on with their handshake the
oldest gives way to a new one, for a learner speaks at once; but never a listed server's first connection.
"""

from collections.abc import Callable, Collection

from persistence.open_files import strangers_max
from quorum.errors import PeerError
from quorum.learner_links import LearnerLink
from quorum.packets import Packet

SILENT_MAX = 64  # connections that have not said who they are
UNFINISHED_MAX = 64  # those that have, and go no further, beyond one for each listed server
UNLISTED_MAX = 64  # those of servers that no configuration lists
CONNECTIONS_MAX = 8  # of learners that say they are the same server


class Admission:
    """Of one leader, or one observer master. `listed` tells which servers the configuration lists."""

    def __init__(self, listed: Callable[[], Collection[int]]) -> None:
        self._listed = listed
        self._silent: dict[LearnerLink, None] = {}  # oldest first
        self._unfinished: dict[LearnerLink, None] = {}
        self._entered: dict[LearnerLink, None] = {}

    async def first_packet(self, link: LearnerLink) -> Packet:
        self._silent[link] = None
        if len(self._silent) > strangers_max(SILENT_MAX):
            oldest = next(iter(self._silent))
            del self._silent[oldest]
            oldest.abort("too many connect without a word")
        try:
            return await link.receive()
        finally:
            self._silent.pop(link, None)

    def introduced(self, link: LearnerLink, server_id: int) -> None:
        """It has said who it is. Raises PeerError if there is no room for it."""
        link.server_id = server_id
        listed = self._listed()
        unlisted = sum(each.server_id not in listed for each in (*self._unfinished, *self._entered))
        if server_id not in listed and unlisted >= strangers_max(UNLISTED_MAX):
            raise PeerError(f"server {server_id} is not listed, nor are {unlisted} more")
        self._unfinished[link] = None
        superfluous = self._superfluous(listed)
        if len(superfluous) > strangers_max(UNFINISHED_MAX):
            del self._unfinished[superfluous[0]]
            superfluous[0].abort("too many introduce themselves and go no further")

    def _superfluous(self, listed: Collection[int]) -> list[LearnerLink]:
        """Unfinished ones that are not the first of a listed server."""
        first: set[int | None] = set()
        found: list[LearnerLink] = []
        for link in self._unfinished:
            if link.server_id in listed and link.server_id not in first:
                first.add(link.server_id)
            else:
                found.append(link)
        return found

    def entered(self, link: LearnerLink) -> None:
        """It has come to the end of its handshake. Raises PeerError if there are too many of that server."""
        others = sum(each.server_id == link.server_id for each in self._entered)
        if others >= CONNECTIONS_MAX:
            raise PeerError(f"server {link.server_id} has {others} connections already")
        self._unfinished.pop(link, None)
        self._entered[link] = None

    def left(self, link: LearnerLink) -> None:
        self._unfinished.pop(link, None)
        self._entered.pop(link, None)
