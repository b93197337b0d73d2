"""A small language for elections as one server lives through them, spoken by testdata/election_*.txt.

A file is a list of blocks: commands, a line of dashes, and what the server does then. Lines that begin with #
are comments. Commands:

    server 2 voters=1,2,3 observers=4 zxid=1/5 epoch=1 round=1     start an election as server 2
                          also groups=1:2|3:4, weights=1:0, version=7, next=1,2,5 (voters proposed, not
                          committed), reconfig, oracle=1
    hear 3 LOOKING 3 1/5 epoch=1 round=1      a notification; also version= of its format, config=7 (version),
                                              and old: the first on a connection
    refused 3                                 a dial to server 3 failed
    lost 3                                    the connection to it ended
    pass 200                                  milliseconds go by

A vote reads: leader, zxid as epoch/counter, the leader's currentEpoch, the round.
"""

import math
from collections.abc import Callable

import attrs

from jute.quorum_records import Notification, ServerState
from jute.zxid import counter_of, epoch_of, make_zxid
from quorum.election import (
    NOBODY,
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
)
from quorum.server_lines import Ensemble, config_text, read_ensemble

DASHES = "----"


def ensemble_of(
    voters: list[int],
    observers: list[int] | None = None,
    *,
    groups: str = "",
    weights: str = "",
    version: int = 0,
) -> Ensemble:
    """`groups` as 1:2|3:4, `weights` as 1:0,2:5."""
    lines = {f"server.{sid}": f"zoo{sid}:2888:3888" for sid in voters}
    lines |= {f"server.{sid}": f"zoo{sid}:2888:3888:observer" for sid in observers or []}
    lines |= {f"group.{n}": group for n, group in enumerate(groups.split("|")) if group}
    lines |= {
        f"weight.{sid}": weight for sid, _, weight in (w.partition(":") for w in weights.split(",")) if sid
    }
    return read_ensemble(lines, version=version)


@attrs.define
class Scenario:
    """An election under way; `ensemble` is what the server knows to be committed."""

    election: Election
    ensemble: Ensemble
    now: float = 0.0

    def step(self, event: Event) -> list[Output]:
        return self.election.step(event, self.now)


def play(text: str) -> str:
    """The same text, with what really happens below the dashes."""
    heard: list[str] = []
    scenario: Scenario | None = None
    for block in text.strip("\n").split("\n\n"):
        commands, _, _ = block.partition(f"\n{DASHES}")
        outputs: list[str] = []
        for line in commands.splitlines():
            if line.startswith("server "):
                scenario, done = _begin(line.split()[1:])
                outputs += map(_show, done)
            elif line and not line.startswith("#"):
                assert scenario is not None
                outputs += map(_show, _command(scenario, line.split()))
        heard.append("\n".join([commands, DASHES, *(outputs or ["nothing"])]))
    return "\n\n".join(heard) + "\n"


def _begin(words: list[str]) -> tuple[Scenario, list[Output]]:
    my_id, options = int(words[0]), _options(words[1:])
    committed = ensemble_of(
        _ids(options["voters"]),
        _ids(options.get("observers", "")),
        groups=options.get("groups", ""),
        weights=options.get("weights", ""),
        version=int(options.get("version", "0")),
    )
    last_seen = committed
    if "next" in options:
        last_seen = ensemble_of(_ids(options["next"]), version=committed.version + 1)
    oracle: Callable[[], bool] | None = None
    if "oracle" in options:
        oracle = lambda: options["oracle"] == "1"  # noqa: E731
    election = Election(
        my_id,
        Electorate.of(committed, last_seen, oracle),
        zxid=_zxid(options.get("zxid", "0/0")),
        peer_epoch=int(options.get("epoch", "0")),
        round_=int(options.get("round", "1")),
        current_vote=Vote(my_id, _zxid(options.get("zxid", "0/0")), -1, 0),
        timing=ElectionTiming(),
        reconfig_enabled="reconfig" in options,
    )
    scenario = Scenario(election, committed)
    return scenario, election.start(scenario.now)


def _command(scenario: Scenario, words: list[str]) -> list[Output]:
    match words:
        case ["hear", sid, state, leader, zxid, *more]:
            notification = _notification(scenario, state, leader, zxid, _options(more))
            return scenario.step(
                Heard(int(sid), notification, may_be_old="old" in more, is_at_home="elsewhere" not in more)
            )
        case ["refused", sid]:
            return scenario.step(DialFailed(int(sid)))
        case ["lost", sid]:
            return scenario.step(LinkLost(int(sid)))
        case ["pass", ms]:
            scenario.now = round(scenario.now + int(ms) / 1000, 3)
            if math.isclose(scenario.now, scenario.election.wake_at):
                scenario.now = scenario.election.wake_at
            return scenario.step(TimePassed())
    raise ValueError(f"{words} is no command")


def _notification(
    scenario: Scenario, state: str, leader: str, zxid: str, options: dict[str, str]
) -> Notification:
    config = scenario.ensemble
    if options.get("config", "").isdigit():
        config = attrs.evolve(config, version=int(options["config"]))
    text = config_text(config) if options.get("config", "0").isdigit() else options["config"]
    return Notification(
        ServerState[state],
        NOBODY if leader == "nobody" else int(leader),
        _zxid(zxid),
        int(options.get("round", "1")),
        int(options.get("epoch", "0")),
        text,
        int(options.get("version", "2")),
    )


def _options(words: list[str]) -> dict[str, str]:
    return {key: value for key, _, value in (word.partition("=") for word in words)}


def _ids(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word]


def _zxid(text: str) -> int:
    if text in ("none", "unknown"):
        return NOBODY if text == "none" else -1
    epoch, counter = text.split("/")
    return make_zxid(int(epoch), int(counter))


def _show(output: Output) -> str:
    match output:
        case Send(to, notification):
            vote = Vote(
                notification.leader, notification.zxid, notification.election_epoch, notification.peer_epoch
            )
            return f"to {to}: {notification.state.name} {_show_vote(vote)}"
        case Decide(vote, state):
            return f"{state.name}: {_show_vote(vote)}"
        case AdoptConfig(ensemble):
            return f"adopt version {ensemble.version} of {sorted(ensemble.voters)}"
        case Ignore(sid, reason):
            return f"ignored {sid}: {reason}"


def _show_vote(vote: Vote) -> str:
    def name(number: int) -> str:
        return "none" if number == NOBODY else str(number)

    zxid = name(vote.zxid) if vote.zxid < 0 else f"{epoch_of(vote.zxid)}/{counter_of(vote.zxid)}"
    return f"{name(vote.leader)} {zxid} epoch={name(vote.peer_epoch)} round={vote.election_epoch}"
