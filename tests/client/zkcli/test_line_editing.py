"""Lines come to zkCli as JLine hands them over; the cases are from the transcripts of Apache's."""

import pytest

from client.zkcli.line_editing import added, edited

HISTORY = ["create /h one", "get /h", "set /h two"]


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("!!", "set /h two"),
        ("!1", "create /h one"),
        ("!-2", "get /h"),
        ("!get", "get /h"),
        ("!?one?", "create /h one"),
        ("ls !$", "ls two"),
        ("a !#", "a a "),
        ("^two^three", "set /h three"),
        ("say !!", "say set /h two"),
        ("say '!!'", "say '!!'"),
        (r"say \!!", "say !!"),
        ("say !", "say !"),
        ("say ! x", "say ! x"),
        ("!nothing", "!nothing"),
        ("!9", "!9"),
        ("!0", "!0"),
        ("!-9", "!-9"),
        ("!?nothing?", "!?nothing?"),
        (r"a\b\\c", r"ab\c"),
    ],
)
def test_what_becomes_of_a_line(typed: str, line: str) -> None:
    assert edited(typed, HISTORY)[1] == line


def test_without_a_history_there_are_no_events() -> None:
    assert edited("!!", [])[1] == "!!"
    assert edited("^a^b", [])[1] == "^a^b"


def test_the_history_keeps_backslashes_and_leaves_out_repetitions_and_indented_lines() -> None:
    kept, _ = edited(r"set /h a\b", HISTORY)

    assert added(HISTORY, kept) == [*HISTORY, r"set /h a\b"]
    assert added(HISTORY, HISTORY[-1]) == HISTORY
    assert added(HISTORY, " ls /") == HISTORY
    assert added([], "ls /") == ["ls /"]
