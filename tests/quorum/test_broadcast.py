"""Proposing and committing: by scenario, and against a model that keeps a set of acks for every zxid.

The files in testdata/broadcast_*.txt are lists of blocks: commands, a line of dashes, what is committed then.

    lead epoch=4 voters=1,2,3     begin
    propose a b c                 one transaction each
    ack 2 4/3                     server 2 has everything up to there on disk
    gone 2                        it is no longer connected
    members 1,4,5                 what is proposed from now on needs these voters too
    settle                        those are the members now

`pytest --rewrite` writes down what happens now; whoever commits the result has read it.
"""

from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jute.zxid import counter_of, epoch_of, make_zxid
from quorum.broadcast import Broadcast
from quorum.quorum_verifiers import Majority

TESTDATA = Path(__file__).with_name("testdata")
DASHES = "----"


def majority(*voters: int) -> Majority:
    return Majority(frozenset(voters))


# --- By scenario.


@pytest.mark.parametrize("path", sorted(TESTDATA.glob("broadcast_*.txt")), ids=lambda path: path.stem)
def test_commits_come_as_written_down(path: Path, request: pytest.FixtureRequest) -> None:
    written = path.read_text()
    happened = play(written)
    if request.config.getoption("--rewrite"):
        path.write_text(happened)
    else:
        assert happened.splitlines() == written.splitlines()


def play(text: str) -> str:
    """The same text, with what really happens below the dashes."""
    happened: list[str] = []
    broadcast = Broadcast(0, majority())
    for block in text.strip("\n").split("\n\n"):
        commands, _, _ = block.partition(f"\n{DASHES}")
        outputs: list[str] = []
        for line in commands.splitlines():
            if line.startswith("lead "):
                broadcast = _lead(line)
            elif not line.startswith("#"):
                outputs += _carry_out(broadcast, line.split())
        happened.append("\n".join([commands, DASHES, *(outputs or ["ok"])]))
    return "\n\n".join(happened) + "\n"


def _lead(line: str) -> Broadcast:
    options = dict(word.split("=") for word in line.split()[1:])
    return Broadcast(make_zxid(int(options["epoch"]), 0), majority(*_ids(options["voters"])))


def _carry_out(broadcast: Broadcast, words: list[str]) -> list[str]:
    match words:
        case ["propose", *names]:
            return [f"propose {_show(broadcast.propose(name.encode()))} {name}" for name in names]
        case ["ack", server, zxid]:
            epoch, counter = zxid.split("/")
            broadcast.acked(int(server), make_zxid(int(epoch), int(counter)))
        case ["gone", server]:
            broadcast.forget(int(server))
        case ["members", voters]:
            broadcast.propose_members(majority(*_ids(voters)))
        case ["settle"]:
            broadcast.settle_members()
        case _:
            raise ValueError(f"{words} is no command")
    committed = broadcast.commit()
    first = broadcast.last_committed - len(committed) + 1
    return [f"commit {_show(zxid)} {payload.decode()}" for zxid, payload in enumerate(committed, first)]


def _ids(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def _show(zxid: int) -> str:
    return f"{epoch_of(zxid)}/{counter_of(zxid)}"


# --- By property.

EPOCH = make_zxid(4, 0)
SERVERS = range(1, 7)

voters = st.sets(st.sampled_from(SERVERS), min_size=1, max_size=5)
events = st.one_of(
    st.tuples(st.just("propose"), st.integers(1, 3)),
    st.tuples(st.just("ack"), st.sampled_from(SERVERS), st.integers(0, 20)),
    st.tuples(st.just("ack"), st.sampled_from(SERVERS), st.integers(0, 20)),
    st.tuples(st.just("forget"), st.sampled_from(SERVERS)),
    st.tuples(st.just("members"), voters),
)


@attrs.define
class Proposed:
    needs: list[set[int]]  # sets of voters, each of which must have a majority
    acks: set[int] = attrs.field(factory=set)

    def is_agreed_on(self) -> bool:
        return all(2 * len(voters & self.acks) > len(voters) for voters in self.needs)


class AcksByZxid:
    """Too simple to be wrong: every proposal knows who must agree, and who has."""

    def __init__(self, voters: set[int]) -> None:
        self.configs = [voters]  # in force, and proposed
        self.proposed: list[Proposed] = []
        self.committed = 0

    def ack(self, server: int, count: int) -> None:
        for each in self.proposed[:count]:
            each.acks.add(server)

    def forget(self, server: int) -> None:
        for each in self.proposed:
            each.acks.discard(server)

    def commit(self) -> None:
        while self.committed < len(self.proposed) and self.proposed[self.committed].is_agreed_on():
            self.committed += 1


@settings(max_examples=200)
@given(voters, st.lists(events, max_size=40))
def test_the_commit_point_is_where_counting_by_hand_puts_it(
    first: set[int], events: list[tuple[object, ...]]
) -> None:
    """Whoever acks, goes and comes back, and whatever configurations follow one another meanwhile.

    A configuration comes into force once the first proposal that needs it is committed, as a
    reconfiguration does.
    """
    model = AcksByZxid(first)
    broadcast = Broadcast(EPOCH, majority(*first))
    committed: list[bytes] = []
    settles_at: int | None = None
    for event in events:
        match event:
            case ("propose", int(count)):
                for _ in range(count):
                    model.proposed.append(Proposed(list(model.configs)))
                    assert broadcast.propose(b"%d" % len(model.proposed)) == EPOCH + len(model.proposed)
            case ("ack", int(server), int(count)):
                count = min(count, len(model.proposed))
                model.ack(server, count)
                broadcast.acked(server, EPOCH + count)
            case ("forget", int(server)):
                model.forget(server)
                broadcast.forget(server)
            case ("members", set(next_voters)) if settles_at is None:
                broadcast.propose_members(majority(*next_voters))
                model.configs.append(next_voters)
                model.proposed.append(Proposed(list(model.configs)))
                broadcast.propose(b"%d" % len(model.proposed))
                settles_at = len(model.proposed)
        model.commit()
        committed += broadcast.commit()
        if settles_at is not None and model.committed >= settles_at:
            broadcast.settle_members()
            model.configs = model.configs[-1:]
            settles_at = None
        assert broadcast.last_committed == EPOCH + model.committed
        assert committed == [b"%d" % n for n in range(1, model.committed + 1)]
        rest = range(model.committed + 1, len(model.proposed) + 1)
        assert list(broadcast.proposals()) == [(EPOCH + n, b"%d" % n) for n in rest]


@given(st.lists(st.sampled_from([6, 7, 8]), max_size=20))
def test_servers_without_a_vote_commit_nothing(ackers: list[int]) -> None:
    """Observers, and followers that are not in the configuration, may ack as they like (T45)."""
    broadcast = Broadcast(EPOCH, majority(1, 2, 3))
    broadcast.propose(b"a")
    broadcast.acked(1, EPOCH + 1)
    for server in ackers:
        broadcast.acked(server, EPOCH + 1)
        assert broadcast.commit() == []
