"""How a member that was away was brought up to date, and how to make the leader choose each way.

The servers' own logs tell which way it was: the learner's always, an Apache leader's too.
"""

import re
from collections.abc import Callable, Mapping
from signal import SIGSTOP
from typing import Final, Literal, TypeAlias

from ensembles.load import assert_all_equal
from support import session_client as wire
from support.ensembles import Ensemble, wait_until
from support.raw_client import Reader
from support.servers import Kind, Server
from support.session_client import SessionClient

SyncMode: TypeAlias = Literal["DIFF", "TRUNC", "SNAP"]

SESSION_MS: Final = 40_000
LOGGED_SECONDS_MAX: Final = 5.0
FEW: Final = 20
MANY: Final = 700  # more than the 500 transactions that a leader keeps in memory
ORPHAN: Final = b"a write that only its leader ever logged"

_MODES: Final[tuple[SyncMode, ...]] = ("DIFF", "TRUNC", "SNAP")
_LEARNER_SAYS: Mapping[Kind, dict[str, SyncMode]] = {
    "reference": {
        "Getting a diff from the leader": "DIFF",
        "Getting a snapshot from leader": "SNAP",
        "Truncating log to get in sync with the leader": "TRUNC",
    },
    "triokeeper": {rf"synchronising leader=.* mode={mode}\b": mode for mode in _MODES},
}


def told_mode(leader: Server, learner: Server, learner_id: int, since: tuple[int, int]) -> SyncMode:
    """The last way in which the learner was synchronised since its and the leader's log were so long."""
    of_leader, of_learner = leader.log_text[since[0] :], learner.log_text[since[1] :]
    mode = _told_by_learner(of_learner, learner.kind)
    if leader.kind == "reference":
        assert _told_by_apache_leader(of_leader, learner_id) == mode
    return mode


def _told_by_learner(text: str, kind: Kind) -> SyncMode:
    told = {
        found.start(): mode
        for pattern, mode in _LEARNER_SAYS[kind].items()
        for found in re.finditer(pattern, text)
    }
    assert told, f"the learner says nothing:\n{text[-3000:]}"
    return told[max(told)]


def _told_by_apache_leader(text: str, learner_id: int) -> SyncMode:
    """A truncation to the end of what is committed is not told, but neither is anything else then."""
    _, synchronizing, said = text.rpartition(f"Synchronizing with Learner sid: {learner_id} ")
    assert synchronizing, f"the leader says nothing:\n{text[-3000:]}"
    for mode in _MODES:
        if re.search(rf"Sending {mode} zxid=0x[0-9a-f]+ +for peer sid: {learner_id}\b", said):
            return mode
    return "SNAP" if "Sending snapshot last zxid of peer" in said else "TRUNC"


def come_back(ensemble: Ensemble, learner: int, situation: "Situation", expected: SyncMode) -> None:
    """The learner comes back out of the situation, in this way; then from its own disk; then it leads."""
    situation(ensemble, learner)
    leader = ensemble.wait_for_leader()
    lengths = len(ensemble[leader].log_text), len(ensemble[learner].log_text)
    ensemble.start(learner)
    assert told_mode(ensemble[leader], ensemble[learner], learner, lengths) == expected
    assert_all_equal(ensemble)
    if expected == "TRUNC":
        assert not holds_orphan(ensemble[learner])

    ensemble[learner].kill9()
    ensemble.start(learner)
    assert_all_equal(ensemble)

    ensemble.elect(learner)
    assert_all_equal(ensemble)
    with SessionClient.open(ensemble[learner].port, SESSION_MS) as client:
        names = wire.read_names(Reader(client.call(wire.get_children("/")).body))
        assert "orphan" not in names
        client.close()


# -- situations: each leaves the learner stopped, and the others serving without it


def miss_some(ensemble: Ensemble, learner: int) -> None:
    ensemble.barrier()
    ensemble[learner].stop()
    _write(ensemble, FEW)


def miss_many(ensemble: Ensemble, learner: int) -> None:
    """More than a leader keeps in memory: the rest comes out of its log."""
    ensemble.barrier()
    ensemble[learner].stop()
    _write(ensemble, MANY)


def lose_the_disk(ensemble: Ensemble, learner: int) -> None:
    ensemble[learner].stop()
    ensemble.erase(learner)
    _write(ensemble, FEW)


def know_too_much(ensemble: Ensemble, learner: int) -> None:
    """As leader, log a write that no one else ever hears of; then the others go on, without a new write."""
    leave_an_orphan(ensemble, learner)
    ensemble.start(*ensemble.others(learner))


def know_another_past(ensemble: Ensemble, learner: int) -> None:
    """The same, but the others write in their new epoch: what is to go lies behind its beginning."""
    know_too_much(ensemble, learner)
    _write(ensemble, FEW)


Situation: TypeAlias = Callable[[Ensemble, int], None]
SITUATIONS: Mapping[Situation, SyncMode] = {
    miss_some: "DIFF",
    miss_many: "DIFF",
    lose_the_disk: "SNAP",
    know_too_much: "TRUNC",
    know_another_past: "SNAP",
}


BEGUN_AS_LEADER = frozenset({know_too_much, know_another_past})


def leave_an_orphan(ensemble: Ensemble, leader: int) -> None:
    """All members are killed, and the leader's log alone holds one more write."""
    ensemble.elect(leader)
    ensemble.barrier()
    client = SessionClient.open(ensemble[leader].port, SESSION_MS)
    ensemble.barrier()
    for server_id in ensemble.others(leader):
        ensemble[server_id].send_signal(SIGSTOP)
    client.send([wire.create("/orphan", ORPHAN)])
    wait_until(
        lambda: holds_orphan(ensemble[leader]),
        lambda: ensemble.failure("does not log what it proposes"),
        LOGGED_SECONDS_MAX,
    )
    ensemble.kill9()
    client.drop()


def holds_orphan(server: Server) -> bool:
    logs = (server.data_dir / "version-2").glob("log.*")
    return any(ORPHAN in log.read_bytes() for log in logs)


def _write(ensemble: Ensemble, count: int) -> None:
    with SessionClient.open(ensemble[ensemble.wait_for_leader()].port, SESSION_MS) as client:
        client.call(wire.create("/missed", b""))
        for reply in client.call_all([wire.set_data("/missed", b"%d" % number) for number in range(count)]):
            assert reply.err == 0
        client.close()
