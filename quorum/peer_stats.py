"""What a peer counts about itself: elections, synchronisations, proposals.

How samples are kept is for those to say who show them (server/server_stats.py); here they are not.
"""

from typing import Protocol

import attrs


class Samples(Protocol):
    """Takes numbers, and each with how often it occurred."""

    def add(self, number: int, count: int = 1) -> None: ...


class Sizes(Protocol):
    """Takes sizes in bytes."""

    def add(self, size: int) -> None: ...

    def reset(self) -> None: ...


class NotKept:
    """Nobody wants to know."""

    def add(self, number: int, count: int = 1) -> None:
        pass

    def reset(self) -> None:
        pass


@attrs.define(kw_only=True)
class PeerStats:
    """Times are in milliseconds."""

    # Elections
    looks: int = 0  # how often there was no leader
    election_times: Samples = attrs.field(factory=NotKept)  # of voters
    unavailable_times: Samples = attrs.field(factory=NotKept)  # without a role in which clients are served
    leader_unavailable_times: Samples = attrs.field(factory=NotKept)  # of these, those that ended in leading

    # Learners that we bring up to date, and how many at a time
    diffs: int = 0
    snapshots: int = 0
    diffs_under_way: Samples = attrs.field(factory=NotKept)
    snapshots_under_way: Samples = attrs.field(factory=NotKept)

    # Being brought up to date
    follower_sync_times: Samples = attrs.field(factory=NotKept)
    observer_sync_times: Samples = attrs.field(factory=NotKept)

    # Leading
    proposals: int = 0
    proposal_sizes: Sizes = attrs.field(factory=NotKept)  # of the present term, or the last one
    commits: int = 0
    revalidations: int = 0

    # Learning
    proposals_received: int = 0
    commits_received: int = 0
