"""A server's voice in elections: looks for a leader when told to, and answers those who look at all times.

The shell around quorum/election.py, over the connections of quorum/election_links.py. Nothing here waits but
`run` and `look`: a message is dealt with, and answered, in the moment it arrives.
"""

from collections.abc import Callable
from typing import assert_never

import attrs
import trio

from eventlog import log
from jute.quorum_records import ServerState, decode_notification, encode_notification
from jute.record import DecodeError
from quorum.election import (
    UNKNOWN_ZXID,
    AdoptConfig,
    Decide,
    DialFailed,
    Election,
    ElectionTiming,
    Electorate,
    Event,
    Heard,
    Ignore,
    LinkLost,
    Output,
    Send,
    TimePassed,
    Vote,
    next_round,
    reply_to,
)
from quorum.election_links import ElectionLinks, LinkSettings
from quorum.network import Network
from quorum.server_lines import Ensemble


@attrs.frozen
class ConfigAdopted:
    """Instead of a leader, a newer configuration was heard of: store it, set it, and look again."""

    ensemble: Ensemble


@attrs.frozen(kw_only=True)
class ElectionSettings:
    timing: ElectionTiming = attrs.field(factory=ElectionTiming)
    links: LinkSettings = attrs.field(factory=LinkSettings)
    reconfig_enabled: bool = False


class Elector:
    """The peer sets `state` as its role changes; `look` sets it, and `current_vote`, when it succeeds."""

    def __init__(
        self,
        my_id: int,
        network: Network,
        settings: ElectionSettings,
        committed: Ensemble,
        *,
        last_seen: Ensemble | None = None,
        ask_oracle: Callable[[], bool] | None = None,
    ) -> None:
        self.state = ServerState.LOOKING
        self.current_vote = Vote(my_id, UNKNOWN_ZXID, -1, -1)  # of no use to anybody, before we looked
        self._my_id = my_id
        self._settings = settings
        self._ask_oracle = ask_oracle
        self._links = ElectionLinks(my_id, network, settings.links, self)
        self._round = 0
        self._election: Election | None = None
        self._outcome: Vote | ConfigAdopted | None = None
        self._is_over = trio.Event()
        self._waiting = trio.CancelScope()  # until the election is to be told the time
        self._early: dict[int, Heard] = {}  # votes that came while we were about to look
        self.set_members(committed, committed if last_seen is None else last_seen)

    @property
    def committed(self) -> Ensemble:
        return self._electorate.committed

    @property
    def last_seen(self) -> Ensemble:
        return self._electorate.last_seen

    def set_members(self, committed: Ensemble, last_seen: Ensemble) -> None:
        """The configuration in force, and the newest proposed. An election under way is not touched."""
        self._electorate = Electorate.of(committed, last_seen, self._ask_oracle)
        self._links.set_members(committed, last_seen)

    def update_vote_epoch(self, epoch: int) -> None:
        """The leader we elected has opened this epoch: newcomers must hear the same from all of us."""
        self.current_vote = attrs.evolve(self.current_vote, peer_epoch=epoch)

    def appoint(self, leader: int, zxid: int) -> Vote:
        """A reconfiguration, with this zxid, has made a server leader: there is no election."""
        self.current_vote = Vote(leader, zxid, -1, -1)
        is_me = leader == self._my_id
        self.state = ServerState.LEADING if is_me else self._electorate.learning_state(self._my_id)
        log.info("leader_appointed", leader=leader, state=self.state.name)
        return self.current_vote

    def reach(self) -> tuple[list[int], dict[int, str]]:
        """Servers there is an election link with, and members there is none with, by reason."""
        return self._links.reachable(), self._links.unreachable()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve the election port until cancelled; started once it is bound. Raises CannotListen."""
        await self._links.run(task_status=task_status)

    async def look(self, my_zxid: int, my_peer_epoch: int) -> Vote | ConfigAdopted:
        """Find the leader, or have it found; returns whom to follow, which may be this server itself."""
        assert self._election is None, "one election at a time"
        self.state = ServerState.LOOKING
        self._outcome, self._is_over = None, trio.Event()
        self._round = next_round(self._round)
        election = self._election = Election(
            self._my_id,
            self._electorate,
            zxid=my_zxid,
            peer_epoch=my_peer_epoch,
            round_=self._round,
            current_vote=self.current_vote,
            timing=self._settings.timing,
            reconfig_enabled=self._settings.reconfig_enabled,
        )
        started_at = trio.current_time()
        log.info(f"New election. My id = {self._my_id}, proposed zxid=0x{my_zxid:x}")
        log.info("election_started", round=self._round, zxid=hex(my_zxid), epoch=my_peer_epoch)
        try:
            self._carry_out(election.start(started_at))
            self._catch_up()
            outcome = await self._until_over(election)
        finally:
            self._election = None
        if isinstance(outcome, Vote):
            _log_elected(outcome, self.state, trio.current_time() - started_at)
        return outcome

    def _catch_up(self) -> None:
        early, self._early = self._early, {}
        for heard in early.values():
            self._step(heard)

    async def _until_over(self, election: Election) -> Vote | ConfigAdopted:
        while self._outcome is None:
            with trio.CancelScope(deadline=election.wake_at) as self._waiting:
                await self._is_over.wait()
            self._step(TimePassed())
        return self._outcome

    # -- what the links tell

    def received(self, sid: int, message: bytes, *, is_first: bool, is_at_home: bool) -> None:
        try:
            heard = Heard(sid, decode_notification(message), may_be_old=is_first, is_at_home=is_at_home)
        except DecodeError as error:
            log.warning("notification_ignored", server=sid, reason=str(error))
            return
        if self._is_looking():
            self._step(heard)
        else:
            self._answer(heard)

    def dial_failed(self, sid: int) -> None:
        self._step(DialFailed(sid))

    def link_lost(self, sid: int) -> None:
        self._step(LinkLost(sid))

    def _is_looking(self) -> bool:
        return self._election is not None and self._outcome is None

    def _answer(self, heard: Heard) -> None:
        if self.state is ServerState.LOOKING and heard.sid in self._electorate.voters:
            self._early[heard.sid] = heard
            return
        reply = reply_to(heard, self._electorate, self.state, self.current_vote, self._round)
        if reply is not None:
            self._links.send(heard.sid, encode_notification(reply))

    # -- the election under way

    def _step(self, event: Event) -> None:
        if self._election is not None and self._outcome is None:
            before = self._election.proposal
            self._carry_out(self._election.step(event, trio.current_time()))
            _log_change(before, self._election.proposal)
            self._waiting.deadline = self._election.wake_at  # it may be sooner now
            if self._outcome is None:
                self._round = self._election.proposal.election_epoch

    def _carry_out(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Send(to, notification):
                    self._links.send(to, encode_notification(notification))
                case Ignore(sid, reason):
                    log.warning("notification_ignored", server=sid, reason=reason)
                case Decide(vote, state):
                    self.state, self.current_vote, self._round = state, vote, vote.election_epoch
                    self._end(vote)
                case AdoptConfig(ensemble):
                    log.info("newer_config_heard_of", version=hex(ensemble.version))
                    self._end(ConfigAdopted(ensemble))
                case _:
                    assert_never(output)

    def _end(self, outcome: Vote | ConfigAdopted) -> None:
        self._outcome = outcome
        self._is_over.set()


def _log_change(before: Vote, now: Vote) -> None:
    if before != now:
        log.info(
            "vote_changed",
            leader=now.leader,
            zxid=hex(now.zxid),
            epoch=now.peer_epoch,
            round=now.election_epoch,
            was=before.leader,
        )


def _log_elected(vote: Vote, state: ServerState, took_s: float) -> None:
    log.info(
        "leader_elected",
        leader=vote.leader,
        state=state.name,
        round=vote.election_epoch,
        zxid=hex(vote.zxid),
        epoch=vote.peer_epoch,
        took_ms=round(took_s * 1000),
    )
