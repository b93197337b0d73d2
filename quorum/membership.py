"""Who is in the ensemble, as far as this server knows: what is agreed on, and what may soon be.

`committed` is in force. `last_seen` is the newest configuration heard of; while a reconfiguration is under
way its version is higher, and what counts quorums must then ask both.
"""

from collections.abc import Callable

from quorum.quorum_verifiers import QuorumVerifier, verifier_of
from quorum.server_lines import Ensemble, Member, Role


class Membership:
    def __init__(
        self, my_id: int, committed: Ensemble, *, ask_oracle: Callable[[], bool] | None = None
    ) -> None:
        self.my_id = my_id
        self.committed = committed
        self.last_seen = committed
        self._ask_oracle = ask_oracle

    @property
    def me(self) -> Member:
        return self.committed.members[self.my_id]

    @property
    def is_voter(self) -> bool:
        return self.my_id in self.committed.voters

    @property
    def role(self) -> Role:
        return self.me.role

    def verifier(self) -> QuorumVerifier:
        """How quorums are counted now."""
        return verifier_of(self.committed, self._ask_oracle)

    def pending_verifier(self) -> QuorumVerifier | None:
        """How they will be counted too, while a reconfiguration is under way."""
        if self.last_seen.version > self.committed.version:
            return verifier_of(self.last_seen, self._ask_oracle)
        return None
