"""zkCli's own command line, and how a line that is typed becomes a command and its arguments."""

import re
from collections.abc import Sequence

import attrs

DEFAULT_SERVER = "localhost:2181"
DEFAULT_TIMEOUT_MS = "30000"

# A word, or a text between two quotes of either kind; a quote inside of a word is a character like others.
_WORD = re.compile(r"""\s*([^"']\S*|"[^"]*"|'[^']*')\s*""", re.ASCII)
_QUOTED = re.compile(r"""(['"]).*\1""")


@attrs.define
class Invocation:
    """What zkCli was started with. `words` is the one-shot command, empty if there is none."""

    server: str = DEFAULT_SERVER
    timeout_ms: str = DEFAULT_TIMEOUT_MS  # read as a number only when a session is opened
    is_read_only_fine: bool = False
    waits_for_connection: bool = False
    client_configuration: str | None = None
    words: list[str] = attrs.field(factory=list)
    problem: str | None = None  # of the options: said on stderr, and then zkCli goes on with what it has


_WITH_VALUE = {
    "-server": "server",
    "-timeout": "timeout_ms",
    "-client-configuration": "client_configuration",
}
_FLAGS = {"-r": "is_read_only_fine", "-waitforconnection": "waits_for_connection"}


def parse_invocation(arguments: Sequence[str]) -> Invocation:
    """Options up to the first argument that is none; those that nobody knows are skipped."""
    invocation = Invocation()
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            invocation.words = [word, *rest]
            break
        if word in _FLAGS:
            setattr(invocation, _FLAGS[word], True)
        elif word in _WITH_VALUE and rest:
            setattr(invocation, _WITH_VALUE[word], rest.pop(0))
        elif word in _WITH_VALUE:
            invocation.problem = f"Error: no argument found for option {word}"
    return invocation


def split_line(line: str) -> list[str]:
    """The words of a line. A text between quotes is one word, without the quotes."""
    words = [found[1] for found in _WORD.finditer(line)]
    return [word[1:-1] if _QUOTED.fullmatch(word) and len(word) > 1 else word for word in words]
