"""Elections: by scenario, and of whole ensembles whose messages arrive as chance will have it."""

from pathlib import Path
from random import Random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jute.quorum_records import Notification, ServerState
from quorum.election import (
    NOBODY,
    Decide,
    DialFailed,
    Election,
    ElectionTiming,
    Electorate,
    Heard,
    Output,
    Send,
    TimePassed,
    Vote,
    reply_to,
    say,
)
from tests.quorum.election_scenario import ensemble_of, play

TESTDATA = Path(__file__).with_name("testdata")


@pytest.mark.parametrize("path", sorted(TESTDATA.glob("election_*.txt")), ids=lambda path: path.stem)
def test_election_goes_as_written_down(path: Path, request: pytest.FixtureRequest) -> None:
    """What the server says and decides is what the file says."""
    written = path.read_text()
    happened = play(written)
    if request.config.getoption("--rewrite"):
        path.write_text(happened)
    else:
        assert happened.splitlines() == written.splitlines()


# --- Answers of those who do not look.

THREE = ensemble_of([1, 2, 3], [4])
ELECTORATE = Electorate.of(THREE, THREE)
ELECTED = Vote(leader=3, zxid=7, election_epoch=5, peer_epoch=2)
ASKS = Notification(ServerState.LOOKING, 1, 0, 1, 0, "")


@pytest.mark.parametrize("state", [ServerState.FOLLOWING, ServerState.LEADING, ServerState.OBSERVING])
def test_a_voter_that_looks_is_told_whom_we_elected(state: ServerState) -> None:
    assert reply_to(Heard(1, ASKS), ELECTORATE, state, ELECTED, 6) == say(ELECTED, state, ELECTORATE)


def test_a_voter_that_does_not_look_is_told_nothing() -> None:
    heard = Heard(1, attrs.evolve(ASKS, state=ServerState.FOLLOWING))
    assert reply_to(heard, ELECTORATE, ServerState.LEADING, ELECTED, 6) is None


@pytest.mark.parametrize("state", ServerState)
@pytest.mark.parametrize("sid", [4, 77])
def test_one_without_a_vote_is_told_our_vote_and_our_present_round(sid: int, state: ServerState) -> None:
    heard = Heard(sid, ASKS)
    expected = say(attrs.evolve(ELECTED, election_epoch=6), state, ELECTORATE)
    assert reply_to(heard, ELECTORATE, state, ELECTED, 6) == expected


# --- Whole ensembles.


@attrs.define
class Server:
    """One voter: it looks, then it answers."""

    election: Election
    outcome: Decide | None = None


class Chance:
    """An ensemble whose links hold one message each way, the newest, and deliver in any order.

    `dead` servers refuse to be dialled. Time passes only when nothing else is left to happen.
    """

    def __init__(
        self, merits: dict[int, tuple[int, int]], dead: set[int], rounds: dict[int, int], seed: int
    ) -> None:
        self.random = Random(seed)
        self.dead = dead
        self.under_way: dict[tuple[int, int], Notification | None] = {}  # None: the dial is refused
        self.now = 0.0
        ensemble = ensemble_of(sorted(merits))
        self.electorate = Electorate.of(ensemble, ensemble)
        self.servers = {
            sid: Server(
                Election(
                    sid,
                    self.electorate,
                    zxid=zxid,
                    peer_epoch=epoch,
                    round_=rounds[sid],
                    current_vote=Vote(sid, zxid, -1, epoch),
                    timing=ElectionTiming(),
                    reconfig_enabled=False,
                )
            )
            for sid, (epoch, zxid) in merits.items()
            if sid not in dead
        }

    def run(self) -> None:
        for sid in self.random.sample(sorted(self.servers), len(self.servers)):
            self._carry_out(sid, self.servers[sid].election.start(self.now))
        for _ in range(10_000):
            if self.under_way:
                self._deliver()
            elif any(server.outcome is None for server in self.servers.values()):
                self._wake()
            else:
                return
        raise AssertionError("the election does not end")

    def _deliver(self) -> None:
        source, target = self.random.choice(sorted(self.under_way))
        notification = self.under_way.pop((source, target))
        if notification is None:
            self._step(source, DialFailed(target))
        elif self.servers[target].outcome is None:
            self._step(target, Heard(source, notification))
        else:
            self._answer(target, Heard(source, notification))

    def _wake(self) -> None:
        looking = {sid: server for sid, server in self.servers.items() if server.outcome is None}
        sid = min(looking, key=lambda sid: (looking[sid].election.wake_at, sid))
        self.now = max(self.now, looking[sid].election.wake_at)
        self._step(sid, TimePassed())
        assert looking[sid].outcome is not None or looking[sid].election.wake_at > self.now

    def _step(self, sid: int, event: Heard | DialFailed | TimePassed) -> None:
        server = self.servers[sid]
        if server.outcome is None:
            self._carry_out(sid, server.election.step(event, self.now))

    def _answer(self, sid: int, heard: Heard) -> None:
        outcome = self.servers[sid].outcome
        assert outcome is not None
        vote = outcome.vote
        reply = reply_to(heard, self.electorate, outcome.state, vote, vote.election_epoch)
        if reply is not None:
            self.under_way[sid, heard.sid] = reply

    def _carry_out(self, sid: int, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, Send):
                message = None if output.to in self.dead else output.notification
                self.under_way[sid, output.to] = message
            elif isinstance(output, Decide):
                self.servers[sid].outcome = output


@st.composite
def ensembles(draw: st.DrawFn) -> Chance:
    size = draw(st.integers(1, 7))
    merits = {sid: (draw(st.integers(0, 1)), draw(st.integers(0, 2))) for sid in range(1, size + 1)}
    dead = draw(st.sets(st.integers(1, size), max_size=(size - 1) // 2))
    rounds = {sid: draw(st.integers(1, 3)) for sid in merits}
    return Chance(merits, dead, rounds, draw(st.integers(0, 2**32)))


@given(ensembles())
def test_all_who_live_agree_on_one_leader_that_is_as_good_as_a_quorum(ensemble: Chance) -> None:
    """However messages overtake each other: one leader, who knows that it leads, and nobody else does.

    It has all that a quorum has; so nothing that was ever committed is missing.
    """
    ensemble.run()
    outcomes = {sid: server.outcome for sid, server in ensemble.servers.items()}
    leaders = {outcome.vote.leader for outcome in outcomes.values() if outcome is not None}
    assert len(leaders) == 1
    (leader,) = leaders
    for sid, outcome in outcomes.items():
        assert outcome is not None
        assert (outcome.state is ServerState.LEADING) is (sid == leader)
    merit = ensemble.servers[leader].election._first.merit
    not_better = [s for s, server in ensemble.servers.items() if server.election._first.merit <= merit]
    assert ensemble.electorate.has_quorum(not_better)


@given(ensembles().filter(lambda ensemble: len(ensemble.servers) > 1))
def test_where_all_answer_nobody_waits(ensemble: Chance) -> None:
    """With every voter heard or refused in the same round, no time goes by at all."""
    for server in ensemble.servers.values():
        first = attrs.evolve(server.election.proposal, election_epoch=1)
        server.election.proposal = server.election._first = first
    ensemble.run()
    assert ensemble.now == 0


# --- When it ends.

FIVE = ensemble_of([1, 2, 3, 4, 5])
BEST = Vote(leader=3, zxid=7, election_epoch=1, peer_epoch=2)


def one_of_five() -> Election:
    electorate = Electorate.of(FIVE, FIVE)
    return looking(1, config=electorate)


def says(sid: int, vote: Vote, state: ServerState = ServerState.LOOKING) -> Heard:
    return Heard(sid, say(vote, state, ELECTORATE))


def test_a_wait_ends_when_it_is_over_whenever_our_vote_is_due_again() -> None:
    """Before that, and long before it: 200 ms are waited."""
    for begun in (0.15, 10.0):
        election = one_of_five()
        election.start(0)
        while election.wake_at < begun:
            election.step(TimePassed(), election.wake_at)
        for sid in (2, 3):
            election.step(says(sid, BEST), begun)
        assert election.wake_at == pytest.approx(begun + 0.2)
        assert election.step(TimePassed(), election.wake_at) == [Decide(BEST, ServerState.FOLLOWING)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([4, 5]),
            st.builds(Vote, st.integers(1, 5), st.integers(-1, 7), st.integers(0, 3), st.integers(0, 1)),
            st.sampled_from(ServerState),
        ),
        max_size=30,
    )
)
def test_nobody_puts_off_an_election_by_speaking_for_servers_that_are_gone(
    lies: list[tuple[int, Vote, ServerState]],
) -> None:
    """Three of five agree, and a stranger says something else every 10 ms in the name of another."""
    election = one_of_five()
    outputs = election.start(0)
    for sid in (2, 3):
        outputs = election.step(says(sid, BEST), 0)
    for number, (sid, vote, state) in enumerate(lies):
        if not any(isinstance(each, Decide) for each in outputs):
            outputs = election.step(says(sid, vote, state), number / 100)
    if not any(isinstance(each, Decide) for each in outputs):
        assert election.wake_at == pytest.approx(0.2)
        outputs = election.step(TimePassed(), election.wake_at)
    assert outputs[-1] == Decide(BEST, ServerState.FOLLOWING)


def test_an_oracle_is_asked_again() -> None:
    """It may choose us while we look, and nobody tells us."""
    two = ensemble_of([1, 2])
    is_chosen = False
    election = looking(1, config=Electorate.of(two, two, lambda: is_chosen))
    election.start(0)
    for _ in range(5):
        outputs = election.step(TimePassed(), election.wake_at)
        assert [type(each) for each in outputs] == [Send]
    is_chosen = True
    chosen_at = election.wake_at
    election.step(TimePassed(), chosen_at)
    assert election.wake_at == pytest.approx(chosen_at + 0.2)
    assert [type(each) for each in election.step(TimePassed(), election.wake_at)] == [Decide]


# --- Observers.


def test_an_observer_that_asks_learns_the_leader() -> None:
    """Nobody tells it anything unasked."""
    election = Election(
        4,
        ELECTORATE,
        zxid=5,
        peer_epoch=1,
        round_=1,
        current_vote=ELECTED,
        timing=ElectionTiming(),
        reconfig_enabled=False,
    )
    asked = election.start(0)
    assert {output.to for output in asked if isinstance(output, Send)} == {1, 2, 3}
    assert election.proposal == Vote(NOBODY, NOBODY, 1, NOBODY)
    outputs: list[Output] = []
    for sid, state in [(1, ServerState.FOLLOWING), (3, ServerState.LEADING)]:
        reply = reply_to(Heard(4, ASKS), ELECTORATE, state, ELECTED, 5)
        assert reply is not None
        outputs = election.step(Heard(sid, reply), 0)
    assert outputs == [Decide(ELECTED, ServerState.OBSERVING)]


# --- Nobody talks for ever.


def looking(my_id: int, *, round_: int = 1, config: Electorate = ELECTORATE) -> Election:
    return Election(
        my_id,
        config,
        zxid=5,
        peer_epoch=1,
        round_=round_,
        current_vote=ELECTED,
        timing=ElectionTiming(),
        reconfig_enabled=False,
    )


@pytest.mark.parametrize(
    ("first", "second"), [((4, 3), (1, 2)), ((4, 2), (1, 3)), ((4, 1), (5, 1)), ((4, 2), (1, 2))]
)
def test_two_that_look_fall_silent(first: tuple[int, int], second: tuple[int, int]) -> None:
    """An observer whose round is higher than a voter's, lower, the same; and two without a vote: each is an
    id and a round. In its round the observer knows of a better vote than the voter's last one."""
    ensemble = ensemble_of([1, 2, 3], [4, 5])
    both = {
        my_id: looking(my_id, round_=round_, config=Electorate.of(ensemble, ensemble))
        for my_id, round_ in (first, second)
    }
    better = attrs.evolve(ELECTED, election_epoch=first[1], zxid=ELECTED.zxid + 1)
    both[4].step(Heard(2, say(better, ServerState.LOOKING, ELECTORATE)), 0)
    under_way = [(first[0], Send(second[0], both[first[0]]._say_proposal()))]
    for _ in range(10):
        sender, message = under_way.pop()
        outputs = both[message.to].step(Heard(sender, message.notification), 0)
        under_way += [(message.to, each) for each in outputs if isinstance(each, Send) and each.to == sender]
        if not under_way:
            return
    pytest.fail(f"they go on with {under_way}")


@pytest.mark.parametrize("state", [ServerState.FOLLOWING, ServerState.LEADING, ServerState.OBSERVING])
def test_an_answer_is_not_answered(state: ServerState) -> None:
    """A server without a vote that has a leader asks for nothing: what it says is an answer."""
    heard = Heard(4, say(ELECTED, state, ELECTORATE))
    assert reply_to(heard, ELECTORATE, ServerState.FOLLOWING, ELECTED, 6) is None
    election = looking(1)
    election.start(0)
    assert election.step(heard, 0) == []


def test_whoever_has_no_vote_passes_on_a_newer_configuration() -> None:
    """It is all that others can learn from it."""
    newer = attrs.evolve(THREE, version=9)
    election = looking(4, config=Electorate.of(newer, newer))
    election.start(0)
    behind = say(ELECTED, ServerState.LOOKING, ELECTORATE)
    assert [type(output) for output in election.step(Heard(5, behind), 0)] == [Send]
    level = say(ELECTED, ServerState.LOOKING, Electorate.of(newer, newer))
    assert election.step(Heard(5, level), 0) == []


# --- A connection to the leader that was lost for a moment.


def looking_after(followed: Vote) -> Election:
    """Server 1, which followed, and whose fellow server 2 is down."""
    election = Election(
        1,
        ELECTORATE,
        zxid=9,
        peer_epoch=2,
        round_=6,
        current_vote=followed,
        timing=ElectionTiming(),
        reconfig_enabled=False,
    )
    election.start(0)
    return election


def leads(vote: Vote = ELECTED, **more: bool) -> Heard:
    return Heard(3, say(vote, ServerState.LEADING, ELECTORATE), **{"is_at_home": True, **more})


def test_a_leader_that_was_lost_for_a_moment_is_followed_again_at_once() -> None:
    """It and we are a quorum, a bare one. Without that it would have to give up, and be elected again."""
    [decision] = looking_after(ELECTED).step(leads(), 0)
    assert decision == Decide(ELECTED, ServerState.FOLLOWING)


@pytest.mark.parametrize(
    ("followed", "heard"),
    [
        (attrs.evolve(ELECTED, leader=2), leads()),
        (attrs.evolve(ELECTED, peer_epoch=1), leads()),
        (ELECTED, leads(is_at_home=False)),
        (ELECTED, leads(may_be_old=True)),
        (ELECTED, Heard(2, say(ELECTED, ServerState.FOLLOWING, ELECTORATE), is_at_home=True)),
    ],
    ids=["another leader", "another epoch", "a stranger", "an old message", "a fellow's word"],
)
def test_only_the_leader_itself_is_believed_that_it_still_leads(followed: Vote, heard: Heard) -> None:
    assert not [each for each in looking_after(followed).step(heard, 0) if isinstance(each, Decide)]
