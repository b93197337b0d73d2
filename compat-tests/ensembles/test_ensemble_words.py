"""What members of an ensemble tell operators, in each role: the same texts as the Java server, side by side.

Numbers, times, ports and paths differ from run to run, so they are compared as placeholders; names, order and
layout must be equal.
"""

import re

import pytest
from kazoo.client import KazooClient

from support.ensembles import Ensemble, prepare_ensemble, wait_until
from support.servers import SMALL_FLAGS, Kind, Server

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]

ROLES = ("leader", "follower", "observer", "read-only", "not serving")
WORDS = ("srvr", "stat", "conf", "isro", "dump", "cons", "ruok", "wchs", "dirs")
SETTINGS = {"tickTime": 500, "initLimit": 20, "syncLimit": 6}
FLAGS = (*SMALL_FLAGS, "-Dreadonlymode.enabled=true")
READ_ONLY_SECONDS_MAX = 20.0
# Of these there is one for each namespace or learner that anything happened to: what happened differs.
FAMILIES = re.compile(r"_per_namespace$|_learner_handler_qp_")

Shown = dict[tuple[str, str], str]  # by role and word


@pytest.fixture(scope="module")
def texts() -> dict[Kind, Shown]:
    kinds: tuple[Kind, ...] = ("reference", "triokeeper")
    return {kind: shown_by(kind) for kind in kinds}


def shown_by(kind: Kind) -> Shown:
    """All answers of three voters and an observer, then of a voter that is left alone."""
    shown: Shown = {}
    with prepare_ensemble([kind] * 4, SETTINGS, observers=[4], jvm_flags=FLAGS) as ensemble:
        ensemble.start()
        ensemble.barrier()
        leader, followers = ensemble.wait_for_leader(), ensemble.followers()
        for role, server_id in (("leader", leader), ("follower", followers[0]), ("observer", 4)):
            shown |= answers_with_a_client(role, ensemble[server_id])
        left_alone(ensemble, followers[0])
        ensemble[followers[0]].four_letter_word("ruok")
        shown |= answers("not serving", ensemble[followers[0]])
        wait_until(
            lambda: ensemble[followers[0]].mode == "read-only",
            lambda: ensemble.failure("did not become read-only"),
            READ_ONLY_SECONDS_MAX,
        )
        shown |= answers("read-only", ensemble[followers[0]])
    return shown


def left_alone(ensemble: Ensemble, server_id: int) -> None:
    ensemble.kill9(*ensemble.others(server_id))
    wait_until(
        lambda: "not currently serving" in ensemble[server_id].four_letter_word("srvr"),
        lambda: ensemble.failure("goes on without a quorum"),
        READ_ONLY_SECONDS_MAX,
    )


def answers_with_a_client(role: str, server: Server) -> Shown:
    """While a client is connected that owns an ephemeral node."""
    client = KazooClient(hosts=server.host_port)
    client.start()
    try:
        client.create("/words", b"", ephemeral=True)
        client.sync("/")
        return answers(role, server)
    finally:
        client.stop()
        client.close()


def answers(role: str, server: Server) -> Shown:
    return {(role, word): server.four_letter_word(word) for word in (*WORDS, "mntr")}


def layout(text: str) -> list[str]:
    """The text with placeholders for whatever may differ; connections in any order."""
    text = re.sub(r"version: 3\S+, built on .* UTC", "version: V", text)
    text = re.sub(r"0 expire at .*:\n", "", text)  # the original forgets an empty set a little later
    text = re.sub(r"expire at .*:\n", "expire at T:\n", text)
    text = re.sub(r"Sets \(\d+\)", "Sets (N)", text)
    text = re.sub(r"(?m)^(dataDir|dataLogDir)=.*$", r"\1=D", text)
    text = re.sub(r"0x[0-9a-f]+", "0xN", text)
    text = re.sub(r"-?\d+\.\d+\.\d+\.\d+:\d+", "A", text)
    text = re.sub(r"(?m)(?<![\w.])\d+(\.\d+)?$|(?<==)\d+|(?<=: )\d\S*|(?<=:)\d+", "N", text)
    lines = text.split("\n")
    return sorted(lines) if "/A[" in text or "ip: /A" in text else lines


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("role", ROLES)
def test_the_layout_is_the_originals(texts: dict[Kind, Shown], role: str, word: str) -> None:
    """To the last blank."""
    assert layout(texts["triokeeper"][role, word]) == layout(texts["reference"][role, word])


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("role", ROLES)
def test_mntr_has_the_names_of_the_original(texts: dict[Kind, Shown], role: str) -> None:
    """Neither less nor more, before our own. In front stands what is no metric, always in this order."""
    head = ["zk_version", "zk_server_state", "zk_peer_state", "zk_observer_master_id"]
    ours, theirs = (names(texts[kind][role, "mntr"]) for kind in ("triokeeper", "reference"))
    own = [name for name in ours if name.startswith("zk_triokeeper_")]
    assert ours[len(ours) - len(own) :] == own
    assert bool(own) == bool(theirs)  # a server that does not serve tells nothing but that
    ours = ours[: len(ours) - len(own)]
    assert [name for name in ours if name in head] == [name for name in head if name in theirs]
    assert [name for name in ours[: len(head)] if name in head] == [name for name in ours if name in head]
    assert sorted(ours) == sorted(theirs)


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("role", ["leader", "follower", "observer"])
def test_numbers_that_the_situation_settles_are_the_originals(texts: dict[Kind, Shown], role: str) -> None:
    """Who has how many learners, elections, proposals."""
    settled = """
        zk_server_state zk_peer_state zk_quorum_size zk_learners zk_synced_followers zk_synced_observers
        zk_synced_non_voting_followers zk_pending_syncs zk_max_proposal_size zk_looking_count
        zk_cnt_election_time zk_cnt_follower_sync_time zk_cnt_observer_sync_time
        zk_cnt_leader_unavailable_time zk_cnt_unavailable_time zk_global_sessions
        zk_ephemerals_count zk_znode_count
    """.split()
    ours, theirs = (values(texts[kind][role, "mntr"]) for kind in ("triokeeper", "reference"))
    assert {name: ours.get(name) for name in settled} == {name: theirs.get(name) for name in settled}


def names(mntr: str) -> list[str]:
    return [name for name in values(mntr) if not FAMILIES.search(name)]


def values(mntr: str) -> dict[str, str]:
    return dict(line.split("\t", 1) for line in mntr.splitlines() if "\t" in line)
