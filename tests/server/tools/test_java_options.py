"""Command lines as ZooKeeper's tools read them; compat-tests run the same against Apache's."""

import pytest

from server.tools.java_options import Option, OptionError, parse, usage

OPTIONS = [
    Option("l", "left", "One.", value="LEFT", is_required=True),
    Option("n", "nodes", "Nodes.", value="N"),
    Option("d", "debug", "Say more."),
    Option("y", "yes", "Do not ask."),
    Option("i", "in", "In."),
    Option("t", "interactive", "Ask."),
]


@pytest.mark.parametrize(
    ("line", "options", "words"),
    [
        ("-l x", {"l": "x"}, []),
        ("-lx", {"l": "x"}, []),
        ("-l=x", {"l": "x"}, []),
        ("--left x", {"l": "x"}, []),
        ("--left=x=y", {"l": "x=y"}, []),
        ("--le x", {"l": "x"}, []),
        ("-left x", {"l": "x"}, []),
        ("-left=x", {"l": "x"}, []),
        ("a -l x b", {"l": "x"}, ["a", "b"]),
        ("-l x -dy", {"l": "x", "d": "", "y": ""}, []),
        ("-l x -dn5 b", {"l": "x", "d": "", "n": "5"}, ["b"]),
        ("-l -5", {"l": "-5"}, []),
        ("-l -unknown", {"l": "-unknown"}, []),
        ("-l x -- -d --left", {"l": "x"}, ["-d", "--left"]),
        ("-l x -", {"l": "x"}, ["-"]),
        ('-l "x"', {"l": "x"}, []),
        ('-l "x"y"', {"l": '"x"y"'}, []),
        ('-l "', {"l": '"'}, []),
        ('-l="x"', {"l": '"x"'}, []),
        ("-l x --in", {"l": "x", "i": ""}, []),
    ],
)
def test_every_way_to_give_an_option(line: str, options: dict[str, str], words: list[str]) -> None:
    parsed = parse(line.split(), OPTIONS)

    assert (parsed.options, parsed.words) == (options, words)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "Missing required option: l"),
        ("-l", "Missing argument for option: l"),
        ("-l -d", "Missing argument for option: l"),
        ("-l -- x", "Missing argument for option: l"),
        ("-l x -q", "Unrecognized option: -q"),
        ("-l x -dq", "Unrecognized option: -dq"),
        ("-l x --quiet", "Unrecognized option: --quiet"),
        ("-l x --debug=1", "Unrecognized option: --debug=1"),
        ("-l x -d=1", "Unrecognized option: -d=1"),
        ("-l x --i", "Ambiguous option: '--i'  (could be: 'in', 'interactive')"),
    ],
)
def test_what_makes_no_sense(line: str, message: str) -> None:
    with pytest.raises(OptionError) as error:
        parse(line.split(), OPTIONS)
    assert str(error.value) == message


def test_several_options_may_be_missing() -> None:
    required = [Option(letter, letter * 2, "", value="X", is_required=True) for letter in "ab"]

    with pytest.raises(OptionError, match="Missing required options: a, b"):
        parse([], required)


def test_usage_has_a_line_for_each_option_sorted_by_letter() -> None:
    assert usage("Tool [-l]", OPTIONS[:3]) == (
        "usage: Tool [-l]\n"
        " -d,--debug         Say more.\n"
        " -l,--left <LEFT>   One.\n"
        " -n,--nodes <N>     Nodes."
    )
