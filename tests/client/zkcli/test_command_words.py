"""zkCli's own options, and the words of a line."""

import pytest

from client.zkcli.command_words import Invocation, parse_invocation, split_line


def test_options_end_where_the_command_begins() -> None:
    arguments = "-server a:1,b:2/c -timeout 5 -r -waitforconnection -nonsense ls -server x".split()

    assert parse_invocation(arguments) == Invocation(
        server="a:1,b:2/c",
        timeout_ms="5",
        is_read_only_fine=True,
        waits_for_connection=True,
        words=["ls", "-server", "x"],
    )


def test_an_option_without_its_value_is_told() -> None:
    assert parse_invocation(["-server"]).problem == "Error: no argument found for option -server"
    assert parse_invocation([]) == Invocation("localhost:2181", "30000")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ls /", ["ls", "/"]),
        ("  ls \t / ", ["ls", "/"]),
        ('set /a "two words"', ["set", "/a", "two words"]),
        ("set /a 'a \"b\"'", ["set", "/a", 'a "b"']),
        ('set /a a"b"c', ["set", "/a", 'a"b"c']),
        ('set /a ""', ["set", "/a", ""]),
        ('set /a "a"b', ["set", "/a", "a", "b"]),
        ('set /a "open', ["set", "/a", "open"]),
        ("  ", [" "]),
        ("", []),
        ('"', []),
    ],
)
def test_words_of_a_line(line: str, words: list[str]) -> None:
    assert split_line(line) == words
