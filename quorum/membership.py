"""Who is in the ensemble, as far as this server knows: what is in force, and what may soon be.

`committed` is in force. `last_seen` is the newest configuration heard of; while a reconfiguration is under
way its version is higher, and what counts quorums must then ask both. Unlike `committed` it may be taken
back: what was never agreed on gives way to what a leader says.

Without reconfig_enabled both are what the configuration file says, for ever.
"""

from collections.abc import Callable
from functools import partial

import attrs

from eventlog import log
from quorum.config_files import ConfigFiles
from quorum.errors import MembersNotSaved
from quorum.quorum_verifiers import QuorumVerifier, verifier_of
from quorum.reconfiguration import role_of
from quorum.server_lines import Ensemble, Member, Role


class Membership:
    """`files` are there unless everything is to be forgotten at the end."""

    def __init__(
        self,
        my_id: int,
        committed: Ensemble,
        *,
        last_seen: Ensemble | None = None,
        reconfig_enabled: bool = False,
        files: ConfigFiles | None = None,
        ask_oracle: Callable[[], bool] | None = None,
    ) -> None:
        self.my_id = my_id
        self.committed = committed
        self.last_seen = committed
        if last_seen is not None and last_seen.version > committed.version and reconfig_enabled:
            self.last_seen = last_seen
        self.reconfig_enabled = reconfig_enabled
        self._files = files
        self._ask_oracle = None if ask_oracle is None else partial(self._ask_if_alone, ask_oracle)
        self.has_ready_follower = False  # while we lead: then what it acks counts, and no oracle is asked
        self._me = committed.members[my_id]
        self._listeners: list[Callable[[], None]] = []

    @property
    def me(self) -> Member:
        """Our own line; the last one there was, if we are no longer listed."""
        return self._me

    @property
    def is_voter(self) -> bool:
        return self.my_id in self.committed.voters

    @property
    def role(self) -> Role:
        return role_of(self.my_id, self.committed)

    def verifier(self) -> QuorumVerifier:
        """How quorums are counted now."""
        return self.verifier_of(self.committed)

    def pending_verifier(self) -> QuorumVerifier | None:
        """How they will be counted too, while a reconfiguration is under way."""
        if self.last_seen.version > self.committed.version:
            return self.verifier_of(self.last_seen)
        return None

    def verifier_of(self, ensemble: Ensemble) -> QuorumVerifier:
        return verifier_of(ensemble, self._ask_oracle)

    def _ask_if_alone(self, ask_oracle: Callable[[], bool]) -> bool:
        return not self.has_ready_follower and ask_oracle()

    # -- changes

    def on_change(self, listener: Callable[[], None]) -> None:
        """Whom to tell, at once, that `committed` or `last_seen` is another."""
        self._listeners.append(listener)

    def see(self, ensemble: Ensemble) -> None:
        """A configuration is proposed, or a leader says which one it completes. When this returns it is on
        disk; raises MembersNotSaved."""
        if not self.reconfig_enabled or ensemble.version == self.last_seen.version:
            return
        if ensemble.version <= self.committed.version:
            self._take_back()
            return
        log.info("members_proposed", version=hex(ensemble.version), servers=list(ensemble.members))
        proposed = self._with_static_client(ensemble)
        self._save_next(proposed)
        self.last_seen = proposed
        self._tell()

    def check_savable(self) -> None:
        """Raises MembersNotSaved if new members could not be written down."""
        if self._files is not None:
            self._files.check_writable()

    def _save_next(self, proposed: Ensemble) -> None:
        """Where the members stay the same, and where we have no vote, nothing depends on it."""
        if self._files is None:
            return
        try:
            self._files.save_next(proposed)
        except MembersNotSaved as failure:
            is_same = attrs.evolve(proposed, version=self.committed.version) == self.committed
            if not is_same and self.my_id in proposed.voters | self.committed.voters:
                raise
            log.error("members_not_saved", reason=str(failure))

    def _take_back(self) -> None:
        """Nothing is proposed that is not in force."""
        if self.last_seen.version == self.committed.version:
            return
        log.warning("proposed_members_dropped", version=hex(self.last_seen.version))
        self.last_seen = self.committed
        if self._files is not None:
            self._files.forget_next()
        self._tell()

    def activate(self, ensemble: Ensemble) -> None:
        """A configuration is agreed on. One that is not newer than ours changes nothing."""
        if not self.reconfig_enabled or ensemble.version <= self.committed.version:
            return
        log.info("members_changed", version=hex(ensemble.version), servers=list(ensemble.members))
        self.committed = self._with_static_client(ensemble)
        if ensemble.version > self.last_seen.version:
            self.last_seen = self.committed
        self._me = self.committed.members.get(self.my_id, self._me)
        self._save()
        self._tell()

    def give_first_version(self, zxid: int) -> None:
        """The configuration every server started with gets a version, by agreement like any other.

        So it takes precedence over what a server believes that wants to join (ZOOKEEPER-1783).
        """
        if self.committed.version == 0 == self.last_seen.version:
            self.see(attrs.evolve(self.committed, version=zxid))

    def _with_static_client(self, ensemble: Ensemble) -> Ensemble:
        """A client address from clientPort is our own affair: no text that comes to us tells it."""
        me = ensemble.members.get(self.my_id)
        if me is None or me.client is not None or not self._me.client_is_static:
            return ensemble
        mine = attrs.evolve(me, client=self._me.client, client_is_static=True)
        return attrs.evolve(ensemble, members={**ensemble.members, self.my_id: mine})

    def _save(self) -> None:
        if self._files is None:
            return
        listed = self.committed.members.get(self.my_id)
        lists_client = listed is not None and listed.client is not None and not listed.client_is_static
        is_saved = self._files.save_active(self.committed, lists_client_address=lists_client)
        if is_saved and self.last_seen.version == self.committed.version:
            self._files.forget_next()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
