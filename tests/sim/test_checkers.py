"""What servers must not do is noticed: with sessions, writes that come late, and what is on their disks."""

from contextlib import suppress

import pytest

from jute.client_records import DeleteRequest
from jute.errors import BadArguments, NoNode, SessionMoved
from jute.opcodes import OpCode
from jute.record import encode
from jute.txn_records import CloseSessionTxn, CreateSessionTxn, ErrorTxn, TxnHeader
from tests.sim.checkers import STANDALONE_EPOCH, Checker, Conversation, Request, Violation
from tests.sim.model import Node

SESSION, TIMEOUT_S = 0x1001, 10.0


def a_session_last_heard_at(heard_at: float, *, led_from: float) -> Checker:
    """A leader began then, before that another, and the session was created in the first epoch."""
    checker = Checker(lambda: heard_at, lambda: None)
    checker.server_leads("s1", 1, 0)
    zxid, timeout_ms = 0x1_0000_0001, int(1000 * TIMEOUT_S)
    header = TxnHeader(client_id=SESSION, cxid=0, zxid=zxid, time=0, type=OpCode.CREATE_SESSION)
    checker.server_applied("s1", encode(header) + encode(CreateSessionTxn(timeout_ms)))
    checker.session_opened("c1", "s1", SESSION, timeout_ms, heard_at)
    checker.led_from[2] = led_from
    return checker


def test_a_session_that_nobody_uses_must_end() -> None:
    checker = a_session_last_heard_at(5.0, led_from=0.0)
    checker.check_late_sessions(5.0 + TIMEOUT_S + 1.0, 0.0, slack_s=2.0)
    assert not checker.violations
    checker.check_late_sessions(5.0 + TIMEOUT_S + 3.0, 0.0, slack_s=2.0)
    assert len(checker.violations) == 1


def test_a_server_may_have_heard_what_it_answered_to_nobody() -> None:
    """A client that hung up in the middle of its requests."""
    now = 5.0
    checker = a_session_last_heard_at(5.0, led_from=0.0)
    checker._now = lambda: now
    now = 8.0
    checker.session_said(SESSION)
    checker.check_late_sessions(8.0 + TIMEOUT_S + 1.0, 0.0, slack_s=2.0)
    assert not checker.violations
    checker.check_late_sessions(8.0 + TIMEOUT_S + 3.0, 0.0, slack_s=2.0)
    assert len(checker.violations) == 1


def test_a_session_has_its_whole_timeout_when_a_leader_begins() -> None:
    """Also if it is the one that led before: a leader resigns when its epoch is used up."""
    checker = a_session_last_heard_at(5.0, led_from=50.0)
    checker.check_late_sessions(50.0 + TIMEOUT_S + 1.0, 0.0, slack_s=2.0)
    assert not checker.violations
    checker.check_late_sessions(50.0 + TIMEOUT_S + 3.0, 0.0, slack_s=2.0)
    assert len(checker.violations) == 1


def test_a_server_alone_may_have_logged_an_expiry_before_it_was_started_again() -> None:
    """It is judged by when that life began; a zxid that was lost with a life, by the one it is given in."""
    now = 0.0
    checker = Checker(lambda: now, lambda: None)
    header = TxnHeader(client_id=SESSION, cxid=0, zxid=1, time=0, type=OpCode.CREATE_SESSION)
    end = TxnHeader(client_id=SESSION, cxid=0, zxid=2, time=0, type=OpCode.CLOSE_SESSION)
    create = encode(header) + encode(CreateSessionTxn(int(1000 * TIMEOUT_S)))
    close = encode(end) + encode(CloseSessionTxn(()))
    checker.server_leads("s1", STANDALONE_EPOCH, 0)
    checker.server_logged("s1", [create])
    checker.server_applied("s1", create)
    checker.server_logged("s1", [close])  # lost with the power
    now = 50.0
    checker.server_leads("s1", STANDALONE_EPOCH, 1)
    now = 60.0
    checker.server_logged("s1", [close])  # on disk, but applied only by
    now = 65.0
    checker.server_leads("s1", STANDALONE_EPOCH, 2)  # the next life
    assert not checker.violations


@pytest.mark.parametrize(
    ("answers", "is_left", "is_right"),
    [
        ((NoNode.code, NoNode.code), False, True),  # both are done, in the order they were asked for
        ((SessionMoved.code, NoNode.code), False, True),
        ((BadArguments.code, NoNode.code), True, True),
        ((BadArguments.code, NoNode.code), False, False),  # its client is told so, who did nothing wrong
    ],
)
def test_a_write_of_a_connection_that_was_left_may_be_refused(
    answers: tuple[int, int], is_left: bool, is_right: bool
) -> None:
    checker = a_session_last_heard_at(5.0, led_from=0.0)
    zxid = 0x1_0000_0001
    for number, error in enumerate(answers, 1):
        conversation = Conversation("c1", SESSION, number, is_left=is_left and number == 1)
        operation = DeleteRequest("/missing", -1)
        checker.asked(Request(number, OpCode.DELETE, (operation,), "/missing", False, 5.0, 0, conversation))
        header = TxnHeader(client_id=SESSION, cxid=number, zxid=zxid + number, time=0, type=OpCode.ERROR)
        checker.server_applied("s1", encode(header) + encode(ErrorTxn(error)))
    assert (not checker.violations) == is_right


def test_a_write_of_a_connection_that_was_left_must_not_be_done_behind_newer_ones() -> None:
    checker = a_session_last_heard_at(5.0, led_from=0.0)
    old, new = Conversation("c1", SESSION, 1, is_left=True), Conversation("c1", SESSION, 2)
    for number, conversation in enumerate((new, old), 1):
        operation = DeleteRequest("/missing", -1)
        checker.asked(Request(number, OpCode.DELETE, (operation,), "/missing", False, 5.0, 0, conversation))
        header = TxnHeader(
            client_id=SESSION, cxid=number, zxid=0x1_0000_0001 + number, time=0, type=OpCode.ERROR
        )
        checker.server_applied("s1", encode(header) + encode(ErrorTxn(NoNode.code)))
    assert len(checker.violations) == 1


def test_what_a_disk_leads_to_is_judged_if_its_last_transaction_was_committed() -> None:
    checker = a_session_last_heard_at(5.0, led_from=0.0)
    node = Node(b"never committed", 1, 1, 0, 0, 0, 0, 1, 0, frozenset())
    checker.check_loaded("s1", 0x1_0000_0001, {})
    checker.check_loaded("s1", 0x1_0000_0002, {"/n": node})  # not committed yet
    assert not checker.violations
    checker.check_loaded("s1", 0x1_0000_0001, {"/n": node}, is_damaged=True)
    assert len(checker.violations) == 1


def test_a_snapshot_may_be_ahead_of_a_damaged_log() -> None:
    """A zeroed sector in the last batch looks like a write that a crash cut short."""
    checker = a_session_last_heard_at(5.0, led_from=0.0)
    zxid = 0x1_0000_0001
    ahead = {"/n": Node(b"", zxid, zxid + 1, 0, 0, 1, 0, zxid, 0, frozenset())}
    checker.check_loaded("s1", zxid, ahead, is_damaged=True)
    assert not checker.violations
    checker.check_loaded("s1", zxid, ahead)
    assert len(checker.violations) == 1


def test_what_was_cut_off_a_log_is_gone() -> None:
    checker = Checker(lambda: 0.0, lambda: None)
    checker.log_cut("s1", 5, {3, 4, 5})
    assert not checker.violations
    checker.log_cut("s1", 5, {4, 5, 6})
    assert len(checker.violations) == 1


@pytest.mark.parametrize(("disturbed_before_s", "violations"), [(1.0, 0), (3.0, 1)])
def test_a_follower_may_hear_clients_of_which_a_new_leader_does_not(
    disturbed_before_s: float, violations: int
) -> None:
    """Until syncLimit it does not notice that its own leader is gone."""
    now = 5.0
    checker = Checker(lambda: now, lambda: None, sync_limit_s=2.0)
    zxid, timeout_ms = 0x1_0000_0001, int(1000 * TIMEOUT_S)
    header = TxnHeader(client_id=SESSION, cxid=0, zxid=zxid, time=0, type=OpCode.CREATE_SESSION)
    checker.server_applied("s1", encode(header) + encode(CreateSessionTxn(timeout_ms)))
    checker.session_opened("c1", "s1", SESSION, timeout_ms, 5.0)
    now = 5.0 + TIMEOUT_S - 0.05
    checker.disturbed_at = now - 2 * TIMEOUT_S - disturbed_before_s
    with suppress(Violation):
        checker.session_refused(SESSION)
    assert len(checker.violations) == violations


@pytest.mark.parametrize(("clock_drift", "violations"), [(0.0, 1), (0.01, 0)])
def test_a_session_may_be_refused_a_little_early_where_clocks_run_fast(
    clock_drift: float, violations: int
) -> None:
    """Its timeout is over by the leader's clock, not yet by ours."""
    now = 5.0
    checker = Checker(lambda: now, lambda: None, clock_drift=clock_drift)
    zxid, timeout_ms = 0x1_0000_0001, int(1000 * TIMEOUT_S)
    header = TxnHeader(client_id=SESSION, cxid=0, zxid=zxid, time=0, type=OpCode.CREATE_SESSION)
    checker.server_applied("s1", encode(header) + encode(CreateSessionTxn(timeout_ms)))
    checker.session_opened("c1", "s1", SESSION, timeout_ms, 5.0)
    checker.disturbed_at = -100.0
    now = 5.0 + TIMEOUT_S - 0.05
    with suppress(Violation):
        checker.session_refused(SESSION)
    assert len(checker.violations) == violations
