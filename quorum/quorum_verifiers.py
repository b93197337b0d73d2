"""Which servers together are a quorum: any two quorums have a server in common.

Pure, but for the oracle: what it says is read through a function handed in. Only voters count, whoever else
is among the acks.
"""

from collections import Counter
from collections.abc import Callable, Collection
from typing import Protocol

import attrs

from quorum.server_lines import Ensemble


class QuorumVerifier(Protocol):
    @property
    def voters(self) -> frozenset[int]: ...

    def contains_quorum(self, acks: Collection[int]) -> bool:
        """Whether the voters among these servers are a quorum."""
        ...

    def weight_of(self, server_id: int) -> int:
        """What its ack counts; a server that counts nothing is never elected."""
        ...

    def yields_to_a_leader(self) -> bool:
        """Whether a server that says it leads is to be followed without a quorum."""
        ...


@attrs.frozen
class Majority:
    """More than half of the voters."""

    voters: frozenset[int]

    def contains_quorum(self, acks: Collection[int]) -> bool:
        return len(self.voters.intersection(acks)) > len(self.voters) // 2

    def weight_of(self, server_id: int) -> int:
        return 1

    def yields_to_a_leader(self) -> bool:
        return False


@attrs.frozen
class Hierarchical:
    """More than half of the weight in more than half of the groups; a group that weighs nothing is none."""

    voters: frozenset[int]
    group_of: dict[int, int]
    weights: dict[int, int]
    group_weights: Counter[int]

    @classmethod
    def of(cls, ensemble: Ensemble) -> "Hierarchical":
        group_of = {server_id: group for group, ids in ensemble.groups.items() for server_id in ids}
        weights = dict(ensemble.weights)
        return cls(ensemble.voters, group_of, weights, _weight_by_group(group_of, weights, group_of))

    def contains_quorum(self, acks: Collection[int]) -> bool:
        acked = _weight_by_group(self.group_of, self.weights, self.voters.intersection(acks))
        won = sum(acked[group] > weight // 2 for group, weight in self.group_weights.items() if weight)
        groups = sum(weight != 0 for weight in self.group_weights.values())
        return won > groups // 2

    def weight_of(self, server_id: int) -> int:
        """0 for a server that the configuration gives none: Apache would stop at the question."""
        return self.weights.get(server_id, 0)

    def yields_to_a_leader(self) -> bool:
        return False


def _weight_by_group(
    group_of: dict[int, int], weights: dict[int, int], server_ids: Collection[int]
) -> Counter[int]:
    by_group: Counter[int] = Counter()
    for server_id in set(server_ids):
        if server_id in group_of:
            by_group[group_of[server_id]] += weights[server_id]
    return by_group


@attrs.frozen
class WithOracle:
    """Two voters, of which one may go on alone if the oracle, a file somebody keeps, begins with a 1.

    `ask_oracle` says no while the oracle is not needed: a leader whose follower is there waits for its acks
    (see Membership). With more than two voters this is a majority like any other.
    """

    majority: Majority
    ask_oracle: Callable[[], bool]

    @property
    def voters(self) -> frozenset[int]:
        return self.majority.voters

    def contains_quorum(self, acks: Collection[int]) -> bool:
        return self.majority.contains_quorum(acks) or (len(self.voters) <= 2 and self.ask_oracle())

    def weight_of(self, server_id: int) -> int:
        return self.majority.weight_of(server_id)

    def yields_to_a_leader(self) -> bool:
        """Whether one who leads is to be followed without a quorum: the oracle chose it, so it refuses us."""
        return len(self.voters) <= 2 and not self.ask_oracle()


def verifier_of(ensemble: Ensemble, ask_oracle: Callable[[], bool] | None = None) -> QuorumVerifier:
    """How this ensemble counts. `ask_oracle` is there where `oraclePath` is set: does it begin with a 1?

    The original looks at groups only where there is no oracle.
    """
    majority = Majority(ensemble.voters)
    if ask_oracle is not None:
        return WithOracle(majority, ask_oracle)
    return Hierarchical.of(ensemble) if ensemble.is_hierarchical else majority
