"""Zab's third phase, the leader's side: propose in order, commit in order, each with a quorum's consent.

Pure. quorum/leader.py carries out what follows.

Invariants:
  1. Commits come in zxid order, without gaps, however the acks of different voters interleave.
  2. Nothing commits before a quorum of the voters has it on disk, in every configuration that was in force
     or proposed when it was proposed. The leader's own ack is an ack like any other: it comes after its
     fsync, not when it proposes.
  3. Acks of servers that have no vote change nothing.

One zxid for each voter is enough to know (2): a voter logs and acks in the order it was sent.
"""

from collections import deque
from collections.abc import Iterator, Mapping

import attrs

from quorum.quorum_verifiers import QuorumVerifier

FOR_EVER = 1 << 63


@attrs.define
class Rule:
    """From `since` to `until`, both included, nothing commits without a quorum of these voters."""

    verifier: QuorumVerifier
    since: int
    until: int = FOR_EVER


class Broadcast:
    """Proposals of one leader in one epoch, from `zxid` on, which counts as committed."""

    def __init__(self, zxid: int, verifier: QuorumVerifier) -> None:
        self.last_proposed = zxid
        self.last_committed = zxid
        self.outstanding: deque[bytes] = deque()  # payloads of last_committed + 1 .. last_proposed
        self._acked: dict[int, int] = {}  # by server: how far its log on disk reaches
        self._rules = [Rule(verifier, zxid + 1)]

    def propose(self, payload: bytes) -> int:
        self.last_proposed += 1
        self.outstanding.append(payload)
        return self.last_proposed

    def proposals(self) -> Iterator[tuple[int, bytes]]:
        """Those that are not committed yet."""
        return enumerate(self.outstanding, self.last_committed + 1)

    def acked(self, server_id: int, zxid: int) -> None:
        """A server has everything up to `zxid` on disk."""
        if zxid > self._acked.get(server_id, 0):
            self._acked[server_id] = zxid

    def forget(self, server_id: int) -> None:
        """A server is gone; when it comes back it acks anew."""
        self._acked.pop(server_id, None)

    @property
    def logged(self) -> Mapping[int, int]:
        """By server that is here: how far its log on disk reaches."""
        return self._acked

    def commit(self, up_to: int = FOR_EVER) -> list[bytes]:
        """The payloads that can be committed now, oldest first; none after `up_to`."""
        reached = min(up_to, self._committable())
        committed: list[bytes] = []
        while self.last_committed < reached:
            self.last_committed += 1
            committed.append(self.outstanding.popleft())
        return committed

    def _committable(self) -> int:
        """The highest zxid up to which all quorums agree."""
        reached = min(self.last_proposed, max(self._acked.values(), default=0))
        for rule in self._rules:
            if reached >= rule.since:
                agreed = self._agreed_by(rule.verifier)
                if agreed < min(reached, rule.until):
                    reached = max(agreed, rule.since - 1)
        return reached

    def _agreed_by(self, verifier: QuorumVerifier) -> int:
        """The highest zxid that a quorum of these voters has on disk."""
        voters = verifier.voters
        for zxid in sorted({zxid for sid, zxid in self._acked.items() if sid in voters}, reverse=True):
            if verifier.contains_quorum({sid for sid, has in self._acked.items() if has >= zxid}):
                return zxid
        return 0

    # -- reconfiguration

    def propose_members(self, verifier: QuorumVerifier) -> None:
        """What is proposed from now on needs these voters' consent too."""
        self._rules.append(Rule(verifier, self.last_proposed + 1))

    def settle_members(self) -> None:
        """The newest configuration is in force: what is proposed from now on needs no other's consent.

        What is outstanding was proposed under both, and still needs both.
        """
        for rule in self._rules[:-1]:
            rule.until = min(rule.until, self.last_proposed)
        self._rules = [rule for rule in self._rules if rule.until > self.last_committed]
