"""Sessions and the ticks at which they expire."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jute.errors import SessionExpired, UnknownSession
from server.client_sessions import Session, Sessions
from tests.server.one_server import OneServer

TICK_MS = 2000


def expired(sessions: Sessions, now_ms: int) -> list[int]:
    return [session.id for session in sessions.expire(now_ms) if session.is_closing]


@pytest.mark.parametrize(
    ("opened_ms", "timeout_ms", "expires_ms"),
    [
        (0, 4000, 6000),
        (1, 4000, 6000),
        (1999, 4000, 6000),
        (2000, 4000, 8000),
        (500, 3500, 6000),
        (0, 1, 2000),
    ],
)
def test_a_session_expires_at_the_end_of_the_tick_of_its_timeout(
    opened_ms: int, timeout_ms: int, expires_ms: int
) -> None:
    """Later than its timeout, by a tick at most."""
    sessions = Sessions(TICK_MS, 1)
    sessions.open(1, timeout_ms, opened_ms)
    assert sessions.next_expiry_ms() == expires_ms
    assert expired(sessions, expires_ms - 1) == []
    assert expired(sessions, expires_ms) == [1]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["open", "hear", "expire", "forget"]), st.integers(1, 3), st.integers(0, 3000)
        )
    )
)
def test_no_session_expires_early_or_is_forgotten(done: list[tuple[str, int, int]]) -> None:
    """Against a version that looks at every session each time."""
    sessions, now_ms = Sessions(TICK_MS, 1), 0
    live: dict[int, Session] = {}
    for what, session_id, ms in done:
        now_ms += ms
        if what == "open" and not (session_id in live and live[session_id].is_closing):
            live[session_id] = sessions.open(session_id, 4000 + ms, now_ms)
        elif what == "hear" and session_id in live:
            live[session_id].heard_ms = now_ms
        elif what == "forget":
            sessions.forget(session_id)
            live.pop(session_id, None)
        else:
            due = {
                each.id
                for each in live.values()
                if not each.is_closing
                and ((each.heard_ms + each.timeout_ms) // TICK_MS + 1) * TICK_MS <= now_ms
            }
            assert set(expired(sessions, now_ms)) == due
            assert all(live[each].is_closing for each in due)
    assert sessions.by_id == live


def test_a_session_comes_back_with_another_timeout() -> None:
    """A shorter one counts at once, a longer one too."""
    sessions = Sessions(TICK_MS, 1)
    sessions.open(1, 40_000, 0)
    sessions.open(1, 4000, 100)
    assert expired(sessions, 6000) == [1]

    sessions.open(2, 4000, 10_000)
    sessions.open(2, 40_000, 10_100)
    assert expired(sessions, 50_000) == []
    assert expired(sessions, 52_000) == [2]


def test_who_is_closing_may_not_write() -> None:
    """Nor does it expire again."""
    sessions = Sessions(TICK_MS, 1)
    sessions.open(1, 4000, 0)
    sessions.check(1)
    assert sessions.is_alive(1)
    sessions.mark_closing(1)
    assert not sessions.is_alive(1)
    with pytest.raises(SessionExpired):
        sessions.check(1)
    assert expired(sessions, 99_000) == []
    sessions.forget(1)
    with pytest.raises(UnknownSession):
        sessions.check(1)
    sessions.forget(1)
    sessions.mark_closing(1)


def test_sessions_expire_in_the_order_they_came() -> None:
    """Whatever their ids: the order is that of the transactions to come."""
    sessions = Sessions(TICK_MS, 1)
    for session_id in (7, 3, 9, 1, 1 << 60, 2):
        sessions.open(session_id, 4000, 0)
    assert expired(sessions, 6000) == [7, 3, 9, 1, 1 << 60, 2]


def test_ids_count_up() -> None:
    """One for each that asks."""
    sessions = Sessions(TICK_MS, 500)
    assert [sessions.new_id() for _ in range(3)] == [500, 501, 502]


def test_sessions_are_dumped_by_the_time_they_would_expire_now() -> None:
    """Not by the bucket they happen to wait in."""
    sessions = Sessions(TICK_MS, 1)
    first = sessions.open(1, 4000, 0)
    sessions.open(2, 4000, 0)
    first.heard_ms = 5000
    assert list(sessions.by_expiry()) == [(10_000, 1), (6000, 2)]


def test_the_stored_timeout_stays_what_the_session_began_with() -> None:
    """Coming back with another changes when it expires here and now, not what a restart will know."""
    server = OneServer()
    client = server.connect(timeout_ms=10_000)
    again = server.connect(timeout_ms=30_000, session_of=client)
    assert again.connection.timeout_ms == 30_000
    assert server.tree.session_timeouts_ms == {client.session_id: 10_000}
    server.pass_time(25_000)
    server.settle()
    assert server.pipeline.sessions.is_alive(client.session_id)
