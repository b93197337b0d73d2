"""Errors have Java's words."""

import pytest

from client.errors import MultiFailed, NoNode, ServerError, code_wording, server_error
from client.events import State, WatchedEvent
from jute.opcodes import EventType, KeeperState


@pytest.mark.parametrize(
    ("code", "path", "text"),
    [
        (-101, "/a", "KeeperErrorCode = NoNode for /a"),
        (-4, "/", "KeeperErrorCode = ConnectionLoss for /"),
        (-111, "/a", "KeeperErrorCode = Directory not empty for /a"),
        (-123, None, "KeeperErrorCode = Reconfig is disabled"),
        (-115, "", "KeeperErrorCode = AuthFailed"),
        (-4711, "/a", "KeeperErrorCode = Unknown error -4711 for /a"),
    ],
)
def test_an_error_reads_as_javas(code: int, path: str | None, text: str) -> None:
    error = server_error(code, path)
    assert str(error) == text
    assert (error.code, error.path) == (code, path)


def test_a_code_with_a_class_of_its_own_can_be_caught_by_it() -> None:
    assert isinstance(server_error(-101), NoNode)
    assert type(server_error(-8)) is ServerError


def test_a_failed_multi_names_the_operation_that_failed() -> None:
    error = MultiFailed((0, -103, -2), "/b")
    assert (error.code, error.index, error.wording) == (-103, 1, "BadVersion")


def test_codes_that_java_has_no_words_for() -> None:
    assert code_wording(-122) == "Unknown error -122"


def test_events_read_as_javas() -> None:
    fired = WatchedEvent(KeeperState.SYNC_CONNECTED, EventType.NODE_DATA_CHANGED, "/a", 7)
    assert str(fired) == "WatchedEvent state:SyncConnected type:NodeDataChanged path:/a zxid: 7"
    lost = WatchedEvent(KeeperState.DISCONNECTED)
    assert str(lost) == "WatchedEvent state:Disconnected type:None path:null zxid: -1"


def test_states_have_the_words_of_zkclis_prompt() -> None:
    assert [state.word for state in State] == [
        "CONNECTING",
        "CONNECTED",
        "CONNECTEDREADONLY",
        "CLOSED",
        "AUTH_FAILED",
        "CLOSED",
    ]
