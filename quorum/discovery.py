"""Zab's first phase, the leader's side: agree on an epoch that is newer than any a quorum has promised.

Pure. Two steps, each complete once a quorum of voters, the leader among them, has taken it:
  1. every server that connects says which epoch it has accepted; the new epoch is above them all;
  2. every server that was told the new epoch acknowledges it and says how far its history goes.

Whoever never let itself be counted twice for one epoch (it answers -1 the second time) cannot help two
leaders of that epoch into office. Observers raise the epoch, but are not counted (ZOOKEEPER-2959); nor is who
says that it observes and has a voter's id: it does not log what it acknowledges.
"""

import attrs

from quorum.errors import PeerError
from quorum.quorum_verifiers import QuorumVerifier

ALREADY_ACCEPTED = -1


@attrs.frozen(order=True)
class Summary:
    """How far a server's history goes; compared in this order (ZOOKEEPER-1082)."""

    current_epoch: int
    last_zxid: int


class EpochAgreement:
    """Which epoch the leader begins, and who is with it."""

    def __init__(self, my_id: int, mine: Summary, verifier: QuorumVerifier) -> None:
        self._my_id = my_id
        self._mine = mine
        self._verifier = verifier
        self._connected: set[int] = set()
        self._acked: set[int] = set()
        self._lost: set[int] = set()
        self.epoch = -1
        self.is_proposed = False  # step 1 is complete: the epoch will not change any more
        self.is_accepted = False  # step 2 is complete

    def connected(self, server_id: int, accepted_epoch: int, *, is_observer: bool = False) -> bool:
        """A server, or we ourselves, takes step 1. True if that completes it."""
        if self.is_proposed:
            return False
        self.epoch = max(self.epoch, accepted_epoch + 1)
        if server_id in self._verifier.voters and not is_observer:
            self._connected.add(server_id)
        self.is_proposed = self._my_id in self._connected and self._verifier.contains_quorum(self._connected)
        return self.is_proposed

    def acked(self, server_id: int, theirs: Summary, *, is_observer: bool = False) -> bool:
        """A server, or we ourselves, takes step 2. True if that completes it.

        Raises PeerError for a server that has more history than we: while there is no quorum without it, we
        must not lead it. Once there is, what it has more was never committed.
        """
        if self.is_accepted:
            return False
        if theirs.current_epoch == ALREADY_ACCEPTED:
            if not is_observer:
                self._lost.add(server_id)
        else:
            if theirs > self._mine:
                if not is_observer:
                    self._lost.add(server_id)
                raise PeerError(
                    f"server {server_id} is ahead of its leader: epoch {theirs.current_epoch}, "
                    f"zxid {theirs.last_zxid:#x}"
                )
            if theirs.last_zxid != -1 and server_id in self._verifier.voters and not is_observer:
                self._acked.add(server_id)
        self.is_accepted = self._my_id in self._acked and self._verifier.contains_quorum(self._acked)
        return self.is_accepted

    @property
    def with_us(self) -> frozenset[int]:
        """Who has taken step 2."""
        return frozenset(self._acked)

    @property
    def lost(self) -> frozenset[int]:
        """Who made its promise, as far as was said, and will not be counted for it: it has more history than
        we, or had made the promise on a connection that broke before we knew."""
        return frozenset(self._lost - self._acked)
