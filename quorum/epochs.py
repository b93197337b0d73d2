"""The two promises a peer keeps on disk, and in memory only after that."""

import math
from pathlib import Path

from persistence.disk import Disk
from persistence.epoch_files import ACCEPTED_EPOCH, CURRENT_EPOCH, load_epochs, write_epoch

EPOCH_MAX = 0x7FFFFFFF  # a zxid has 64 bits, and a sign
# A server accepts an epoch only if a quorum was there to propose it, so nobody gets further ahead than by the
# proposals that failed. A larger step is a lie, and a few of those would use up all epochs there are.
EPOCH_STEP_MAX = 1024
CLAIMS_APART_S = 60.0


class EpochKeeper:
    """acceptedEpoch: no leader of an earlier epoch will be followed. currentEpoch: whose history we have.

    Invariant: current <= accepted, and both only rise. Setting one blocks until it is durable; both happen
    once in an election.

    `heard` is no promise: the latest epoch that a server claimed to have accepted when it was too late to
    lead it. The next one we propose is above that too.
    """

    def __init__(self, disk: Disk, directory: Path, last_zxid: int) -> None:
        self._disk = disk
        self._directory = directory
        known = load_epochs(disk, directory, last_zxid)
        self.accepted = known.accepted
        self.current = known.current
        self.heard = 0
        self._believed_at = -math.inf

    def accept(self, epoch: int) -> None:
        assert epoch > self.accepted
        write_epoch(self._disk, self._directory, ACCEPTED_EPOCH, epoch)
        self.accepted = epoch

    def can_be_true(self, accepted: int) -> bool:
        """Whether a server may have accepted this epoch, as far as we can tell."""
        return 0 <= accepted < EPOCH_MAX and accepted <= max(self.accepted, self.heard) + EPOCH_STEP_MAX

    def believes_claim(self, now: float) -> bool:
        """Whether a leader may make way for a later epoch: that costs the ensemble its leader, and anybody
        can claim one: not again soon."""
        return now >= self._believed_at + CLAIMS_APART_S

    def believe_claim(self, accepted: int, now: float) -> None:
        self.heard = max(self.heard, accepted)
        self._believed_at = now

    def enter(self, epoch: int) -> None:
        """The history of this epoch's leader is ours, on disk."""
        assert self.current <= epoch <= self.accepted
        if epoch != self.current:
            write_epoch(self._disk, self._directory, CURRENT_EPOCH, epoch)
            self.current = epoch
