"""Whatever several clients do at once: the tree stays sound, and its history leads to the same tree again."""

from hypothesis import given, settings

from server.apply_txn import apply_txn
from server.changes import Change
from server.data_tree import DataTree
from server.txns import decode_txn
from tests.server.busy_server import BusyServer
from tests.server.one_server import smallest_slices
from tests.server.request_strategies import Release, Step, write_steps
from tests.server.tree_checks import assert_same, assert_sound

_MASK64 = (1 << 64) - 1


@settings(max_examples=120)
@given(write_steps())
def test_the_tree_is_sound_whenever_nothing_is_pending(done: list[Step]) -> None:
    """Stats, owners, counts and digests agree, and what was prepared is what has happened."""
    server = BusyServer()
    for step in done:
        server.take(step)
        if isinstance(step, Release) and not server.sink.undurable:
            assert_settled(server)
    server.settle()
    assert_settled(server)


@settings(max_examples=60, deadline=None)
@given(write_steps())
def test_the_smallest_slices_lead_to_the_same_history(done: list[Step]) -> None:
    """Transaction by transaction, whatever is interrupted on the way; so does what clients hear."""
    at_once, sliced = BusyServer(), BusyServer()
    for step in done:
        at_once.take(step, receive=False)
    with smallest_slices():
        for step in done:
            sliced.take(step, receive=False)
            sliced.work_off()
        sliced.settle()
    at_once.settle()
    assert sliced.sink.payloads == at_once.sink.payloads
    assert sliced.tree.bodies == at_once.tree.bodies
    assert [client.frames() for client in sliced.everyone] == [client.frames() for client in at_once.everyone]
    assert_settled(sliced)


def told_by(change: Change) -> tuple[object, ...]:
    """All but which transaction made it so, and the digest, which is not always asked for."""
    return (change.path, change.body, change.creates, change.children, change.acl, change.owner)


def assert_settled(server: BusyServer) -> None:
    tree, preparer = server.tree, server.pipeline.preparer
    assert_sound(tree)
    assert not preparer.pending
    for path, known in preparer._known.items():
        assert told_by(known) == told_by(preparer._from_tree(path))
        assert known.digest == tree.digest_of(path)
    assert preparer.zxid == tree.last_zxid
    assert preparer.digest & _MASK64 == tree.digest == tree.compute_digest()
    assert not server.pipeline.in_flight
    assert server.pipeline.queued_reads == 0


@settings(max_examples=80)
@given(write_steps())
def test_the_log_leads_to_the_same_tree(done: list[Step]) -> None:
    """Every transaction, read back from its bytes, brings another tree to the digest that it carries."""
    server = BusyServer()
    for step in done:
        server.take(step)
    server.settle()
    replayed = DataTree(extended_types=True)
    for payload in server.sink.payloads:
        txn = decode_txn(payload)
        apply_txn(replayed, txn)
        assert txn.digest is None or txn.digest & _MASK64 == replayed.digest
    assert_same(replayed, server.tree)
    assert_sound(replayed)
    assert replayed.bodies == server.tree.bodies
    assert replayed.data_bytes == server.tree.data_bytes
