"""Transcripts: text files with what is said to zkCli and what Apache's answered, recorded from it.

    # Comments and blank lines stay where they are.
    $ zkCli -server 127.0.0.1:{port}
    | Connecting to 127.0.0.1:{port}
    [zk: 127.0.0.1:{port}(CONNECTED) 0] create /a
    ! Created /a
    [zk: 127.0.0.1:{port}(CONNECTED) 1] <end of input>
    = 0

`$` starts a zkCli, with the arguments behind it; lines that begin with a prompt are entered into it, `|` is
stdout, `!` stderr, `=` the exit code, `~` a watch event (all of a run's, in order, before its exit code). A
line of output ends with `\\` if it has no end of line, with `⏎` if it ends with blanks. A new line to be
entered may be written `> ls /`: recording puts the prompt there.

What can never be equal is masked: `{port}` and the like are ports, `<date>` a date in Java's form, zxids and
session ids are numbered in the order in which they first appear.
"""

import difflib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import attrs

from tools.zkcli.processes import Answer, Start

END_OF_INPUT = "<end of input>"
ENTERED = re.compile(r"(?:\[zk: .*?\] |> )(.*)")
DATE = re.compile(r"\b[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d UTC \d{4}\b")
EPOCH = "Thu Jan 01 00:00:00 UTC 1970"
ZXID = re.compile(r"(?:(?<=[cmp]Zxid = )0x[0-9a-f]+|(?<= zxid: )-?\d+)")
SESSION = re.compile(r"(?<=ephemeralOwner = )0x[0-9a-f]+")
CONFIG_VERSION = re.compile(r"(?<=^version=)[0-9a-f]+|^[0-9a-f]+(?= [\w.:{}]+:)", re.MULTILINE)
REVISION = re.compile(r"(?<=CLI version: )(\d[\w.]*)-[0-9a-f]{40}, built on \d{4}-\d\d-\d\d \d\d:\d\d UTC")
# Logging by JLine, about the terminal it does not find, and the lines of a Java stack.
NOT_OUTPUT = re.compile(
    r"^\w{3} \d+, \d{4} .* org\.jline\.utils\.Log logr\n|^WARNING: .*dumb terminal.*\n"
    r"|^\t(?:at |\.\.\. \d+).*\n",
    re.MULTILINE,
)


@attrs.frozen
class Run:
    """One zkCli and what is entered into it; no lines at all is a one-shot command."""

    arguments: list[str]
    lines: list[str]


@attrs.define
class Mask:
    """Replaces what differs from run to run, the same value always by the same name."""

    names: Mapping[str, str]  # of ports and files, by value
    _zxids: dict[int, str] = attrs.field(factory=dict)
    _sessions: dict[str, str] = attrs.field(factory=dict)

    def __call__(self, text: str) -> str:
        text = NOT_OUTPUT.sub("", text)
        for value, name in self.names.items():
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\d)", name, text)
        text = DATE.sub(lambda found: found[0] if found[0] == EPOCH else "<date>", text)
        text = REVISION.sub(r"\1-<revision>, built on <date>", text)
        text = ZXID.sub(lambda found: self._zxid(int(found[0], 0)), text)
        text = SESSION.sub(lambda found: self._session(found[0]), text)
        return CONFIG_VERSION.sub("<version>", text)

    def _zxid(self, zxid: int) -> str:
        return str(zxid) if zxid <= 0 else self._zxids.setdefault(zxid, f"<zxid {len(self._zxids) + 1}>")

    def _session(self, owner: str) -> str:
        return (
            owner
            if owner == "0x0"
            else self._sessions.setdefault(owner, f"<session {len(self._sessions) + 1}>")
        )


def runs_of(text: str) -> Iterator[Run]:
    """The runs of a transcript, without what was answered."""
    run: Run | None = None
    for line in text.splitlines():
        if line.startswith("$ zkCli"):
            if run:
                yield run
            run = Run(shlex.split(line)[2:], [])
        elif run and (found := ENTERED.fullmatch(line)):
            run.lines.append(found[1])
    if run:
        yield run


def transcribe(text: str, names: Mapping[str, str], start: Start) -> str:
    """The same transcript as a zkCli answers now; comments stay where they are."""
    answered = (line for run in runs_of(text) for line in _perform(start, run, names))
    return "".join(f"{line}\n" for line in _with_comments(text, answered))


def _perform(start: Start, run: Run, names: Mapping[str, str]) -> Iterator[str]:
    """The lines of one run, the one that starts it included."""
    places = {name.strip("{}"): value for value, name in names.items()}
    mask = Mask(names)

    def fill(text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: places.get(found[1], found[0]), text)

    yield " ".join(["$ zkCli", *map(_quoted, run.arguments)])
    with start([fill(argument) for argument in run.arguments], not run.lines) as process:
        answer = process.read_start() if run.lines else process.end_input()
        yield from _output(answer, mask)
        for line in run.lines:
            if answer.prompt is None:
                break
            yield _prompt(answer.prompt, mask) + line
            whole, ends, _ = fill(line).partition(END_OF_INPUT)
            answer = process.end_input(whole) if ends else process.enter(whole)
            yield from _output(answer, mask)
        assert answer.prompt is None, f"{run.lines[-1]} leaves it waiting for input"
        for event in _events(process.events, is_one_shot=not run.lines):
            yield f"~ {mask(event)}"
        yield f"= {process.exit_code()}"


def _quoted(argument: str) -> str:
    return argument if re.fullmatch(r"[\w{}./:,;=-]+", argument) else shlex.quote(argument)


def _events(events: list[str], *, is_one_shot: bool) -> list[str]:
    """Without what is a matter of luck: whether Java connects before it ends with a mistake in the command,
    whether it still writes that the session is over when it ends, and in which order it tells of watches
    that were removed together."""
    if is_one_shot:
        return [event for event in events if " type:None " not in event]
    while events and re.search("state:(Closed|AuthFailed)", events[-1]):
        events = events[:-1]
    groups = groupby(events, key=lambda event: "WatchRemoved" in event)
    return [event for is_removal, group in groups for event in (sorted(group) if is_removal else group)]


def _prompt(prompt: str, mask: Mask) -> str:
    """Whether the connection, or the refusal of credentials, is there before the prompt is luck."""
    return re.sub(r"\((CONNECTING|AUTH_FAILED)\) (?=\d+\] $)", "(CONNECTED) ", mask(prompt))


def _output(answer: Answer, mask: Mask) -> Iterator[str]:
    for mark, text in (("|", mask(answer.out)), ("!", mask(answer.err))):
        for line in text.splitlines(keepends=True):
            yield f"{mark} {_visible(line)}".rstrip(" ")


def _visible(line: str) -> str:
    """The line without its end, unless that is missing or blanks stand before it."""
    text = line.removesuffix("\n")
    if text == line:
        return f"{text}\\"
    return f"{text}⏎" if text.endswith((" ", "\t")) else text


def _with_comments(text: str, answered: Iterable[str]) -> Iterator[str]:
    """Put comments and blank lines before the entered or started lines that they stood before."""
    starts: list[tuple[list[str], bool]] = []
    pending: list[str] = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            pending.append(line)
        elif line.startswith("$ zkCli") or ENTERED.fullmatch(line):
            starts.append((pending, line.startswith("$ zkCli")))
            pending = []
    place = iter(starts)
    for line in answered:
        is_run = line.startswith("$ zkCli")
        if is_run or ENTERED.fullmatch(line):
            comments, starts_run = next(place)
            while is_run and not starts_run:  # lines that could not be entered: the process had ended
                yield from comments
                comments, starts_run = next(place)
            yield from comments
        yield line
    yield from pending


def assert_equal(apache: str, ours: str) -> None:
    difference = difflib.unified_diff(apache.splitlines(), ours.splitlines(), "Apache's", "ours", lineterm="")
    assert apache == ours, "\n".join(difference)
