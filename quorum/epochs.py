"""The two promises a peer keeps on disk, and in memory only after that."""

from pathlib import Path

from persistence.disk import Disk
from persistence.epoch_files import ACCEPTED_EPOCH, CURRENT_EPOCH, load_epochs, write_epoch


class EpochKeeper:
    """acceptedEpoch: no leader of an earlier epoch will be followed. currentEpoch: whose history we have.

    Invariant: current <= accepted, and both only rise. Setting one blocks until it is durable; both happen
    once in an election.

    `heard` is no promise: the latest epoch that a server was found to have accepted when it was too late to
    lead it. The next one we propose is above that too.
    """

    def __init__(self, disk: Disk, directory: Path, last_zxid: int) -> None:
        self._disk = disk
        self._directory = directory
        known = load_epochs(disk, directory, last_zxid)
        self.accepted = known.accepted
        self.current = known.current
        self.heard = 0

    def accept(self, epoch: int) -> None:
        assert epoch > self.accepted
        write_epoch(self._disk, self._directory, ACCEPTED_EPOCH, epoch)
        self.accepted = epoch

    def enter(self, epoch: int) -> None:
        """The history of this epoch's leader is ours, on disk."""
        assert self.current <= epoch <= self.accepted
        if epoch != self.current:
            write_epoch(self._disk, self._directory, CURRENT_EPOCH, epoch)
            self.current = epoch
