"""Apache ZooKeeper and Triokeeper answer alike, except where table.py says otherwise.

These are short runs; `make compat-differential` makes the long one.
"""

import pytest

from protocol.differential.answers import Answer
from protocol.differential.run import both_servers, run_seed, take
from protocol.differential.scenarios import PROFILES, Through
from protocol.differential.sides import Seen
from protocol.differential.steps import Connect, Hello, Request, Send
from protocol.differential.table import DIES, INTENDED, IntendedDifference
from support.reference import ReferenceUnavailable, find_reference

SEEDS = range(100, 103)
OPERATIONS = 150


@pytest.fixture(autouse=True)
def _reference() -> None:
    try:
        find_reference()
    except ReferenceUnavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_requests_are_answered_alike(seed: int) -> None:
    """The same conversation with both servers gives the same replies, events and tree."""
    run = run_seed(seed, OPERATIONS)
    assert run.difference is None, str(run.difference)


@pytest.mark.timeout(600)  # six servers are a load for a busy machine
@pytest.mark.parametrize(
    "through", ["follower", *(pytest.param(each, marks=pytest.mark.long) for each in ("leader", "observer"))]
)
def test_members_of_ensembles_answer_alike(through: Through) -> None:
    """The same of three servers of each kind: what goes by way of the leader comes back the same."""
    run = run_seed(SEEDS[0], OPERATIONS, through)
    assert run.difference is None, str(run.difference)


@pytest.mark.self_check
def test_a_conversation_is_worth_having() -> None:
    """Neither everything nor nothing succeeds, and something is left in the tree."""
    run = run_seed(SEEDS[0], OPERATIONS)
    assert 0.3 < run.share_ok < 0.9
    assert run.audited_nodes > 4


@pytest.mark.parametrize("difference", INTENDED, ids=lambda each: each.what)
def test_what_differs_on_purpose_still_does(difference: IntendedDifference) -> None:
    """Each line of the table is true of both servers."""
    with both_servers(PROFILES[0], may_end=difference.reference == DIES) as sides:
        take(Connect(0, Hello()), sides)
        for xid, (op, body) in enumerate(difference.requests, 1):
            observed = take(Send(0, (Request(xid, op, body, op.name),)), sides)
    reference, triokeeper = (_gist(each.slots[0]) for each in observed)
    assert (reference, triokeeper) == (difference.reference, difference.triokeeper)


def _gist(seen: Seen) -> int | str | bytes:
    """What the table says of a reply."""
    if seen.is_closed:
        return DIES
    (reply,) = seen.frames
    assert isinstance(reply, Answer)
    errors = [reply.err, *(err for _, err, _ in reply.body.get("results", ()))]
    if "acl" in reply.body:
        name: bytes = reply.body["acl"][0][2]
        return name
    return next(filter(None, errors), 0)
