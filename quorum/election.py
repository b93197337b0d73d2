"""Fast leader election, one notification at a time.

Every voter tells every voter which server it would follow: at first itself, then the best it has heard of.
The best is the one with the latest (epoch, zxid), the highest id among equals. Who sees a quorum with its own
vote is done.

Pure: quorum/elector.py feeds `Election.step` while a leader is looked for, and `reply_to` at all other times,
and carries out the outputs in the order given.

Rules, beyond that:
  1. Votes are counted by rounds. A higher round is entered at once, and the election starts over there with
     our *first* vote; a lower one is told of ours.
  2. Servers that look no longer have decided already. Whom a quorum of them follows is followed, but only if
     that leader says itself that it leads: else all could follow one that is dead.
  3. A quorum of equal votes is what makes it safe. Waiting a little once it is there, for a better candidate
     to be heard of, spares us a leader that would have to be replaced.

Apache ZooKeeper waits there for 200 ms without a word. Here the wait ends as soon as nobody is left to wait
for: each other voter that could win has been heard in this round, or could not be reached in it. A voter that
is merely slow is waited for, and so is one of which we know nothing but a notification that may be old.

And a voter found to vote for less than we do, in our own round, is told our vote again: it was not looking
yet when we told it, and the original would leave it at that for 200 ms.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import assert_never

import attrs

from jute.quorum_records import Notification, ServerState
from quorum.quorum_verifiers import QuorumVerifier, verifier_of
from quorum.server_lines import Ensemble, config_text, read_config_text
from quorum.setting_text import BadValue

NOBODY = -(1 << 63)  # whom a server without a vote votes for; its zxid and epoch in that vote, too
UNKNOWN_ZXID = -1  # of a server that does not trust its own disk: it votes for nobody, nobody votes for it
_ROUND_LAST = (1 << 63) - 1


@attrs.frozen
class Vote:
    """Whom a server would follow, and the reasons: as they were when it was elected, but for the epoch."""

    leader: int
    zxid: int
    election_epoch: int  # the round
    peer_epoch: int  # the currentEpoch of `leader`; once it is followed, the epoch it opened

    @property
    def merit(self) -> tuple[int, int, int]:
        return self.peer_epoch, self.zxid, self.leader


@attrs.frozen
class Electorate:
    """Who elects: the voters of the committed configuration, and of the last one proposed.

    The two differ only while a reconfiguration is under way; then quorums of both are needed.
    """

    committed: Ensemble
    last_seen: Ensemble
    verifiers: tuple[QuorumVerifier, ...]
    voters: frozenset[int]
    text: str  # of the committed configuration, as notifications carry it

    @classmethod
    def of(
        cls, committed: Ensemble, last_seen: Ensemble, ask_oracle: Callable[[], bool] | None = None
    ) -> "Electorate":
        counted = [committed] if last_seen.version <= committed.version else [committed, last_seen]
        return cls(
            committed,
            last_seen,
            tuple(verifier_of(ensemble, ask_oracle) for ensemble in counted),
            committed.voters | last_seen.voters,
            config_text(committed),
        )

    def has_quorum(self, acks: list[int]) -> bool:
        return all(verifier.contains_quorum(acks) for verifier in self.verifiers)

    def can_win(self, server_id: int) -> bool:
        knows = [verifier for verifier in self.verifiers if server_id in verifier.voters]
        return bool(knows) and knows[0].weight_of(server_id) > 0

    def learning_state(self, server_id: int) -> ServerState:
        """What a server does that does not lead; one that is not listed follows, without a vote."""
        is_observer = server_id in self.committed.observers
        return ServerState.OBSERVING if is_observer else ServerState.FOLLOWING


# --- Events.


@attrs.frozen
class Heard:
    """A server's notification. The first on a connection may be an old one, sent again to be sure.

    Anybody can connect and claim an id; `is_at_home` if it comes from an address that we have of that server.
    """

    sid: int
    notification: Notification
    may_be_old: bool = False
    is_at_home: bool = False


@attrs.frozen
class DialFailed:
    """A server could not be reached just now: refused, or not answered in time."""

    sid: int


@attrs.frozen
class LinkLost:
    """The connection to a server ended; what was sent last may not have arrived."""

    sid: int


@attrs.frozen
class TimePassed:
    """`Election.wake_at` has come."""


Event = Heard | DialFailed | LinkLost | TimePassed


# --- Outputs.


@attrs.frozen
class Send:
    to: int
    notification: Notification


@attrs.frozen
class Ignore:
    """A notification says nothing we can use; worth a line in the log."""

    sid: int
    reason: str


@attrs.frozen
class Decide:
    """The election is over."""

    vote: Vote
    state: ServerState  # what this server is from now on


@attrs.frozen
class AdoptConfig:
    """A newer configuration was agreed on while we were away: the election has to start over with it."""

    ensemble: Ensemble


Output = Send | Ignore | Decide | AdoptConfig


@attrs.frozen(kw_only=True)
class ElectionTiming:
    """Of an election; all in milliseconds."""

    resend_min_ms: int = 200  # zookeeper.fastleader.minNotificationInterval
    resend_max_ms: int = 2_000  # zookeeper.fastleader.maxNotificationInterval
    resend_max_without_vote_ms: int = 2_000  # nobody tells such a server of a new leader unless it asks
    finalize_wait_ms: int = 200


def next_round(round_: int) -> int:
    """The one to open after this one. Nobody counts to the last one, but anybody can claim to be there, and
    all who look enter it. So the lowest one follows it, as with the original's. Who is still in the last one
    is in a higher round then, and is joined there."""
    return round_ + 1 if round_ < _ROUND_LAST else -_ROUND_LAST - 1


def say(vote: Vote, state: ServerState, electorate: Electorate) -> Notification:
    return Notification(state, vote.leader, vote.zxid, vote.election_epoch, vote.peer_epoch, electorate.text)


def reply_to(
    heard: Heard, electorate: Electorate, state: ServerState, current_vote: Vote, round_: int
) -> Notification | None:
    """What a server answers that is not looking, or has not begun to.

    Only those who look ask; what others say is an answer, and two servers without a vote would answer each
    other for ever. A voter is told whom we follow. One without a vote is told in any case: it hears nothing
    else.
    """
    if heard.notification.state is not ServerState.LOOKING:
        return None
    if heard.sid not in electorate.voters:
        return say(attrs.evolve(current_vote, election_epoch=round_), state, electorate)
    return say(current_vote, state, electorate) if state is not ServerState.LOOKING else None


@attrs.frozen
class _Ballot:
    """A vote and who cast it: `state` is the sender's, `version` that of its notification's format."""

    vote: Vote
    state: ServerState
    version: int = 0

    def agrees(self, other: "_Ballot") -> bool:
        """While one of the two looks, all must match; else the leader and its epoch.

        Servers that follow one leader may have elected it with different zxids, and in different rounds.
        Those that do not send a version do not tell the epoch reliably, either.
        """
        if ServerState.LOOKING in (self.state, other.state):
            return self.vote == other.vote
        if (self.version > 0) != (other.version > 0):
            return self.vote.leader == other.vote.leader
        return (self.vote.leader, self.vote.peer_epoch) == (other.vote.leader, other.vote.peer_epoch)


class Election:
    """One election, from the moment a server looks for a leader until it has one.

    Invariants:
      1. `proposal.election_epoch` is the round; it never falls, but when we join those who decided already.
      2. `_received` holds votes of this round only, our own included.
      3. `_heard` and `_unreachable` tell of this round only, and no voter is in both.
    """

    def __init__(
        self,
        my_id: int,
        electorate: Electorate,
        *,
        zxid: int,
        peer_epoch: int,
        round_: int,
        current_vote: Vote,
        timing: ElectionTiming,
        reconfig_enabled: bool,
    ) -> None:
        """`round_` is the one to open, behind the last; `current_vote` what the last election came to."""
        learns_only = electorate.learning_state(my_id) is ServerState.OBSERVING
        self.proposal = self._first = Vote(
            my_id if my_id in electorate.committed.voters else NOBODY,
            NOBODY if learns_only else zxid,
            round_,
            NOBODY if learns_only else peer_epoch,
        )
        self._resend_at: float = 0
        self._conclude_at: float = 0  # of use while `_is_finalizing`
        self._my_id = my_id
        self._electorate = electorate
        self._current_vote = current_vote
        self._timing = timing
        self._reconfig_enabled = reconfig_enabled
        self._received: dict[int, _Ballot] = {}
        self._decided: dict[int, _Ballot] = {}  # of servers that look no longer, whatever their round
        self._heard: set[int] = set()
        self._unreachable: set[int] = set()
        self._told_again: set[int] = set()  # since they were heard last
        self._resend_ms = timing.resend_min_ms
        self._is_finalizing = False  # a quorum votes as we do: waiting for somebody better

    @property
    def wake_at(self) -> float:
        return self._conclude_at if self._is_finalizing else self._resend_at

    def start(self, now: float) -> list[Output]:
        """Tell all whom we vote for. Times are in seconds, of any clock that only runs forward."""
        self._resend_at = now + self._resend_ms / 1000
        return self._tell_all() + self._conclude(now)

    def step(self, event: Event, now: float) -> list[Output]:
        match event:
            case Heard():
                return self._on_heard(event, now)
            case DialFailed(sid):
                self._unreachable |= {sid} - self._heard
                return self._conclude(now)
            case LinkLost(sid):
                return self._tell_again(sid)
            case TimePassed():
                return self._on_time(now)
            case _:
                assert_never(event)

    # -- time

    def _on_time(self, now: float) -> list[Output]:
        if now < self.wake_at:
            return []
        if self._is_finalizing:
            return self._conclude(now)
        self._resend_ms = min(2 * self._resend_ms, self._resend_max_ms)
        self._resend_at = now + self._resend_ms / 1000
        return self._tell_all() + self._conclude(now)

    @property
    def _resend_max_ms(self) -> int:
        timing = self._timing
        if self._has_vote:
            return timing.resend_max_ms
        return min(timing.resend_max_ms, timing.resend_max_without_vote_ms)

    # -- what is said

    def _tell_all(self) -> list[Output]:
        if self._counts(self._my_id, self.proposal):
            self._received[self._my_id] = _Ballot(self.proposal, ServerState.LOOKING)
        others = sorted(self._electorate.voters - {self._my_id})
        return [Send(sid, self._say_proposal()) for sid in others]

    def _say_proposal(self) -> Notification:
        return say(self.proposal, ServerState.LOOKING, self._electorate)

    def _tell_again(self, sid: int) -> list[Output]:
        """Once until it is heard again: whoever closes on every message is not told for ever."""
        if sid not in self._electorate.voters or sid in self._told_again:
            return []
        self._told_again.add(sid)
        return [Send(sid, self._say_proposal())]

    # -- what is heard

    def _on_heard(self, heard: Heard, now: float) -> list[Output]:
        sid, notification = heard.sid, heard.notification
        outputs = self._read_config(heard)
        if any(isinstance(output, AdoptConfig) for output in outputs):
            return outputs
        if sid not in self._electorate.voters:
            return outputs + self._answer_one_without_a_vote(sid, notification)
        if notification.leader not in self._electorate.voters:
            return [*outputs, Ignore(sid, f"votes for {notification.leader}, which is no voter")]
        self._told_again.discard(sid)
        vote = _vote_in(notification)
        if notification.state is ServerState.LOOKING:
            outputs += self._on_looking(heard, vote)
        elif notification.state is not ServerState.OBSERVING:
            decision = self._on_decided(heard, vote)
            if decision is not None:
                return [*outputs, decision]
        return outputs + self._conclude(now)

    @property
    def _has_vote(self) -> bool:
        return self._my_id in self._electorate.voters

    def _answer_one_without_a_vote(self, sid: int, notification: Notification) -> list[Output]:
        """If it asks, and can make use of the answer: our vote, if we have one, or a newer configuration."""
        is_of_use = self._has_vote or self._is_older(notification.config)
        if notification.state is not ServerState.LOOKING or not is_of_use:
            return []
        vote = attrs.evolve(self._current_vote, election_epoch=self.proposal.election_epoch)
        return [Send(sid, say(vote, ServerState.LOOKING, self._electorate))]

    def _is_older(self, text: str | None) -> bool:
        read = _read_config_once(text) if text is not None else ""
        return isinstance(read, Ensemble) and read.version < self._electorate.committed.version

    def _read_config(self, heard: Heard) -> list[Output]:
        text = heard.notification.config
        if text is None or text == self._electorate.text:
            return []
        read = _read_config_once(text)
        if isinstance(read, str):
            return [Ignore(heard.sid, f"its configuration: {read}")]
        if read.version <= self._electorate.committed.version or not self._reconfig_enabled:
            return []
        if not heard.is_at_home:
            return [Ignore(heard.sid, "its configuration is newer, but it is not where we know that server")]
        return [AdoptConfig(read)]

    def _on_looking(self, heard: Heard, vote: Vote) -> list[Output]:
        sid = heard.sid
        if vote.election_epoch < self.proposal.election_epoch:
            return self._correct(sid)
        if not self._counts(sid, vote):
            return []
        outputs: list[Output] = []
        if vote.election_epoch > self.proposal.election_epoch:
            if self._can_do_without(sid, vote):
                return []
            outputs = self._enter_round(vote)
        elif self._beats(vote, self.proposal):
            outputs = self._propose(vote)
        elif self._beats(self.proposal, vote):
            outputs = self._correct(sid)
        self._received[sid] = _Ballot(vote, ServerState.LOOKING)
        self._note(heard)
        return outputs

    def _correct(self, sid: int) -> list[Output]:
        """Tell one that is behind. Not if we have no vote: it would answer with the same, for ever."""
        return [Send(sid, self._say_proposal())] if self._has_vote else []

    def _can_do_without(self, sid: int, vote: Vote) -> bool:
        """Whether a quorum agrees as it is, and a server of a higher round has nobody better for it.

        Then it will follow whom we agreed on. To enter its round would leave those who go on without us too
        few, and they cannot be told: they are waiting only for better votes.
        """
        if not self._is_finalizing or self._beats(vote, self.proposal) or sid == self.proposal.leader:
            return False
        self._received.pop(sid, None)  # if it voted as we do before, it does no longer
        self._heard.discard(sid)
        return self._has_quorum(self._received, _Ballot(self.proposal, ServerState.LOOKING))

    def _counts(self, sid: int, vote: Vote) -> bool:
        is_known = UNKNOWN_ZXID not in (vote.zxid, self._first.zxid)
        return is_known and {sid, vote.leader} <= self._electorate.voters

    def _note(self, heard: Heard) -> None:
        self._unreachable.discard(heard.sid)
        if not heard.may_be_old:
            self._heard.add(heard.sid)

    def _beats(self, new: Vote, old: Vote) -> bool:
        return self._electorate.can_win(new.leader) and new.merit > old.merit

    def _enter_round(self, vote: Vote) -> list[Output]:
        self._received.clear()
        self._heard.clear()
        self._unreachable.clear()
        first = attrs.evolve(self._first, election_epoch=vote.election_epoch)
        return self._propose(vote if self._beats(vote, first) else first)

    def _propose(self, vote: Vote) -> list[Output]:
        self.proposal = vote
        self._told_again.clear()
        return self._tell_all()

    def _on_decided(self, heard: Heard, vote: Vote) -> Decide | None:
        """Someone follows or leads. If a quorum agrees with it, and its leader leads, so do we."""
        sid, notification = heard.sid, heard.notification
        state = notification.state
        ballot = _Ballot(vote, state, notification.version)
        if vote.election_epoch == self.proposal.election_epoch:
            self._received[sid] = _Ballot(vote, state)
            if vote.leader == self.proposal.leader:
                self._note(heard)
            else:
                self._heard.discard(sid)  # a quorum chose another: somebody we count on must have changed
            if self._is_established(self._received, ballot):
                return self._decide(vote)
        self._decided[sid] = ballot
        if self._is_established(self._decided, ballot):
            return self._decide(vote)
        if self._is_our_leader(heard, vote) and self._is_followed(
            {**self._decided, self._my_id: ballot}, ballot
        ):
            return self._decide(vote)
        if state is ServerState.LEADING and self._electorate.verifiers[0].yields_to_a_leader():
            return self._decide(vote)
        return None

    def _is_our_leader(self, heard: Heard, vote: Vote) -> bool:
        """Whether it still leads whom we followed a moment ago, in the same epoch: then we can go back to it.

        We count for the quorum that follows it then. Where it is just one, there would have to be an election
        instead, for which it has to give up first.
        """
        is_sure = heard.is_at_home and not heard.may_be_old
        ours = (self._current_vote.leader, self._current_vote.peer_epoch)
        return (
            is_sure
            and heard.notification.state is ServerState.LEADING
            and heard.sid == vote.leader != self._my_id
            and (vote.leader, vote.peer_epoch) == ours
        )

    def _is_established(self, ballots: Mapping[int, _Ballot], ballot: _Ballot) -> bool:
        return self._is_followed(ballots, ballot) and self._leads(ballots, ballot.vote)

    def _is_followed(self, ballots: Mapping[int, _Ballot], ballot: _Ballot) -> bool:
        """Whether a quorum of the members in force follows the leader. Members that are only proposed are not
        asked: if nobody else has heard of them, the leader goes on without, and they may need our vote."""
        agreeing = [sid for sid, other in ballots.items() if ballot.agrees(other)]
        return self._electorate.verifiers[0].contains_quorum(agreeing)

    def _has_quorum(self, ballots: Mapping[int, _Ballot], ballot: _Ballot) -> bool:
        return self._electorate.has_quorum([sid for sid, other in ballots.items() if ballot.agrees(other)])

    def _leads(self, ballots: Mapping[int, _Ballot], vote: Vote) -> bool:
        if vote.leader == self._my_id:
            return vote.election_epoch == self.proposal.election_epoch
        leader = ballots.get(vote.leader)
        return leader is not None and leader.state is ServerState.LEADING

    # -- the end

    def _conclude(self, now: float) -> list[Output]:
        """Decide if a quorum votes as we do and waiting is over."""
        was_finalizing = self._is_finalizing
        self._is_finalizing = self._has_quorum(self._received, _Ballot(self.proposal, ServerState.LOOKING))
        if not self._is_finalizing:
            return []
        if not was_finalizing:
            self._conclude_at = now + self._timing.finalize_wait_ms / 1000
        if now >= self._conclude_at or not self._awaited():
            return [self._decide(self.proposal)]
        return []

    def _awaited(self) -> set[int]:
        """Voters that might yet propose somebody better."""
        others = self._electorate.voters - self._heard - self._unreachable - {self._my_id}
        return {sid for sid in others if self._electorate.can_win(sid)}

    def _decide(self, vote: Vote) -> Decide:
        is_me = vote.leader == self._my_id
        state = ServerState.LEADING if is_me else self._electorate.learning_state(self._my_id)
        return Decide(vote, state)


def _vote_in(notification: Notification) -> Vote:
    return Vote(notification.leader, notification.zxid, notification.election_epoch, notification.peer_epoch)


@lru_cache(maxsize=16)
def _read_config_once(text: str) -> Ensemble | str:
    """The ensemble, or what is wrong with the text: most notifications carry one of very few."""
    try:
        return read_config_text(text, multi_address=True)
    except BadValue as problem:
        return problem.wording
