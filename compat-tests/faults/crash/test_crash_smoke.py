"""A few kills under load, and tests of the checks that `make crash` relies on."""

import random
import shutil
import time
from contextlib import closing
from pathlib import Path

import pytest

from faults.crash.run import SETTINGS, CrashTest, run
from support.servers import Kind, prepare_server
from support.write_model import (
    CloseSession,
    Create,
    Delete,
    Enqueue,
    Model,
    Multi,
    Node,
    Queued,
    SetData,
    Violation,
    Write,
    settle,
)

KILLS = 6
SEED = 7
ROOT = "/w"
SESSION = 5


def test_nothing_acknowledged_is_lost_by_a_few_kills(kind: Kind) -> None:
    """A short run of `make crash`, which at least has killed, written and found everything again."""
    report = run(kind, KILLS, SEED)
    assert report["kills"] >= KILLS
    assert report["writes acknowledged"] > 500
    assert report["snapshots taken"] > 3 or kind == "reference"  # Apache's log does not name them so
    assert report["audits"] >= 4


@pytest.mark.self_check
def test_a_server_that_forgot_is_found_out(tmp_path: Path) -> None:
    """With an older copy of its data a server starts, but the audit fails."""
    with (
        prepare_server("triokeeper", SETTINGS) as server,
        closing(CrashTest(server, random.Random(SEED))) as crash_test,
    ):
        crash_test.begin()
        server.kill9()
        shutil.copytree(server.data_dir, tmp_path / "older")
        server.start()
        crash_test.audit(time.monotonic())
        with crash_test.under_load():
            while not any(writer.acked_count for writer in crash_test.writers):
                time.sleep(0.01)
            server.kill9()
        shutil.rmtree(server.data_dir)
        shutil.copytree(tmp_path / "older", server.data_dir)
        server.start()
        with pytest.raises(Violation, match="does not know of zxid"):
            crash_test.audit(time.monotonic())


def known() -> Model:
    """What a client knows to be there: its own node, a register and one node in the shared directory."""
    nodes = {ROOT: Node(b"", 1, 1, 2, creates=1), f"{ROOT}/r": Node(b"old", 2, 2, 2)}
    return Model(ROOT, nodes, {b"q1": Queued("/q/n-0000000001", 3)}, SESSION)


def found_after(*happened: tuple[Write, int]) -> Model:
    """What the server shows if these writes happened, with these zxids."""
    model = known()
    for write, zxid in happened:
        model.apply(write, zxid)
    return model


SET = SetData(f"{ROOT}/r", b"new")
MAKE = Create(f"{ROOT}/t", b"t")
REMOVE = Delete(f"{ROOT}/t")
QUEUE = Enqueue(b"q2")
BOTH = Multi((SetData(f"{ROOT}/r", b"newer"), Create(f"{ROOT}/s-", b"s", sequential=True)))


@pytest.mark.self_check
@pytest.mark.parametrize("happened", range(5))
def test_any_number_of_the_writes_in_flight_may_have_happened(happened: int) -> None:
    """But always the first ones, in their order."""
    in_flight: list[Write] = [SET, MAKE, BOTH, REMOVE]
    found = found_after(*zip(in_flight[:happened], range(10, 20), strict=False))
    outcome = settle(known(), in_flight, found, after=9)
    assert outcome.happened == happened
    assert outcome.model == found


def assert_refused(in_flight: list[Write], found: Model, *, saying: str) -> None:
    with pytest.raises(Violation, match=saying):
        settle(known(), in_flight, found, after=9)


@pytest.mark.self_check
def test_a_lost_write_is_found_out() -> None:
    found = known()
    del found.nodes[f"{ROOT}/r"]
    assert_refused([MAKE], found, saying="/w/r: Node.*expected, None found")


@pytest.mark.self_check
def test_a_write_done_twice_is_found_out() -> None:
    """Its version tells."""
    assert_refused([SET], found_after((SET, 10), (SET, 11)), saying="/w/r")


@pytest.mark.self_check
def test_a_write_that_overtook_another_is_found_out() -> None:
    assert_refused([SET, MAKE], found_after((MAKE, 10)), saying="/w")


@pytest.mark.self_check
def test_half_a_multi_is_found_out() -> None:
    assert_refused([BOTH], found_after((BOTH.parts[0], 10)), saying="/w")


@pytest.mark.self_check
def test_a_multi_with_two_zxids_is_found_out() -> None:
    assert_refused([BOTH], found_after((BOTH.parts[0], 10), (BOTH.parts[1], 11)), saying="/w")


@pytest.mark.self_check
def test_a_write_in_flight_from_before_an_acknowledged_one_is_found_out() -> None:
    assert_refused([SET], found_after((SET, 8)), saying="0x8, not after 0x9")


@pytest.mark.self_check
def test_writes_in_flight_in_the_wrong_order_are_found_out() -> None:
    assert_refused([SET, QUEUE], found_after((SET, 12), (QUEUE, 11)), saying="0xb, not after 0xc")


@pytest.mark.self_check
def test_a_queued_node_that_changed_its_number_is_found_out() -> None:
    found = known()
    found.queued[b"q1"].path = "/q/n-0000000002"
    assert_refused([], found, saying="queued b'q1'")


@pytest.mark.self_check
def test_a_session_that_is_gone_is_found_out() -> None:
    """Unless its end was in flight; then its ephemeral nodes are gone as well."""
    found = known()
    found.session_id = 0
    assert_refused([SET], found, saying="session 0x5 expected, 0x0 found")
    assert settle(known(), [CloseSession()], found, after=9).happened == 1
