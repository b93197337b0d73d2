"""Options are read as Apache Commons CLI reads them; the transcripts hold more cases."""

import pytest

from client.zkcli.failures import CommandFailed
from client.zkcli.options import Option, Options, help_lines, parse

SOME = Options(
    (
        Option("s", "stats"),
        Option("w", "watch"),
        Option("v", "version", takes_value=True),
        Option("add", "servers", takes_value=True),
    )
)
ONE_OF = Options(
    (Option("n", "num", takes_value=True), Option("b", "bytes", takes_value=True)),
    are_exclusive=True,
    is_one_needed=True,
)


@pytest.mark.parametrize(
    ("words", "arguments", "values"),
    [
        ("get /a", ["get", "/a"], {}),
        ("get -s /a -w", ["get", "/a"], {"s": None, "w": None}),
        ("get -sw /a", ["get", "/a"], {"s": None, "w": None}),
        ("get -v 5 /a", ["get", "/a"], {"v": "5"}),
        ("get -v5 /a", ["get", "/a"], {"v": "5"}),
        ("get -v=5 /a", ["get", "/a"], {"v": "5"}),
        ("get -v -5 /a", ["get", "/a"], {"v": "-5"}),
        ("get -v -x /a", ["get", "/a"], {"v": "-x"}),
        ('get -v "5" /a', ["get", "/a"], {"v": "5"}),
        ('get -v "5"" /a', ["get", "/a"], {"v": '"5""'}),
        ("get -sv5 /a", ["get", "/a"], {"s": None, "v": "5"}),
        ("get -v 5 -v 6", ["get"], {"v": "5"}),
        ("get -add x=1", ["get"], {"add": "x=1"}),
        ("get - /a", ["get", "-", "/a"], {}),
        ("get -- -s /a", ["get", "-s", "/a"], {}),
    ],
)
def test_what_is_accepted(words: str, arguments: list[str], values: dict[str, str | None]) -> None:
    line = parse(SOME, words.split())

    assert line.arguments == arguments
    assert {name: line.has(name) for name in "swv"} == {name: name in values for name in "swv"}
    assert [line.value(name) for name, value in values.items() if value] == [v for v in values.values() if v]


@pytest.mark.parametrize(
    ("options", "words", "problem"),
    [
        (SOME, "get -x", "UnrecognizedOptionException: Unrecognized option: -x"),
        (SOME, "get -sx", "UnrecognizedOptionException: Unrecognized option: -sx"),
        (SOME, "get --s", "UnrecognizedOptionException: Unrecognized option: --s"),
        (SOME, "get -s=1", "UnrecognizedOptionException: Unrecognized option: -s=1"),
        (SOME, "get -add=x", "UnrecognizedOptionException: Unrecognized option: -add=x"),
        (SOME, "get -v", "MissingArgumentException: Missing argument for option: v"),
        (SOME, "get -v -s", "MissingArgumentException: Missing argument for option: v"),
        (ONE_OF, "setquota /a", "MissingOptionException: Missing required option: [-n num, -b bytes]"),
        (
            ONE_OF,
            "setquota -n 1 -b 2",
            "AlreadySelectedException: The option 'b' was specified but an option from this group has already"
            " been selected: 'n'",
        ),
    ],
)
def test_what_is_refused(options: Options, words: str, problem: str) -> None:
    with pytest.raises(CommandFailed) as failed:
        parse(options, words.split())

    assert str(failed.value) == f"org.apache.commons.cli.{problem}"


def test_help_is_aligned_and_in_order_whatever_the_case() -> None:
    options = Options(
        (Option("w", "watch"), Option("R", "recurse"), Option("v", "version", takes_value=True))
    )

    assert help_lines(options) == [" -R         recurse", " -v <arg>   version", " -w         watch"]
