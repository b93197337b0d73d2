r"""What JLine, which reads the lines of Apache's zkCli, makes of a line before zkCli sees it.

Events of the history are put in (`!!`, `!3`, `!-2`, `!ls`, `!?text?`, `!$`, `!#`, `^old^new`), but not behind
a backslash or between single quotes; where there is no such event the line stays as it is. Then each
backslash goes and keeps the character behind it.
"""

import re
from collections.abc import Sequence


class _NoSuchEvent(Exception):
    """The history has nothing of the kind."""


def edited(line: str, history: Sequence[str]) -> tuple[str, str]:
    """The line for the history, and the line for zkCli."""
    try:
        expanded = _expand(line, history)
    except _NoSuchEvent:
        expanded = line
    return expanded, re.sub(r"\\(.?)", r"\1", expanded)


def added(history: Sequence[str], line: str) -> list[str]:
    """The history with one more line, unless it is the same again or begins with a blank."""
    if not line or line.startswith(" ") or line == (history[-1] if history else None):
        return list(history)
    return [*history, line]


def _expand(line: str, history: Sequence[str]) -> str:
    if line.startswith("^") and (found := re.match(r"\^([^^]*)\^([^^]*)(?:\^.?)?", line)):
        return _latest(history).replace(found[1], found[2]) + _expand_rest(line[found.end() :], history)
    return _expand_rest(line, history)


def _expand_rest(line: str, history: Sequence[str]) -> str:
    expanded = ""
    at = 0
    while at < len(line):
        skipped = re.compile(r"\\u.{0,4}|\\.?|'[^']*'?", re.DOTALL).match(line, at)
        if skipped:
            expanded += skipped[0]
            at = skipped.end()
        elif line[at] == "!" and at + 1 < len(line):
            text, at = _event(line, at + 1, expanded, history)
            expanded += text
        else:
            expanded += line[at]
            at += 1
    return expanded


def _event(line: str, at: int, before: str, history: Sequence[str]) -> tuple[str, int]:
    """What stands for the designator whose character behind `!` is at `at`, and where it ends."""
    letter = line[at]
    if letter == "!":
        return _latest(history), at + 1
    if letter == "#":
        return before, at + 1
    if letter == "$":
        return _latest(history).strip().rpartition(" ")[2], at + 1
    if letter in " \t":
        return f"!{letter}", at + 1
    if letter == "?":
        end = line.find("?", at + 1)
        end = len(line) if end < 0 else end
        text = line[at + 1 : end]
        return _latest([event for event in history if text in event]), end + 1
    if found := re.compile(r"-?\d+|-").match(line, at):
        return _numbered(found[0], history), found.end() + 1  # the character behind it is lost, as in JLine
    return _latest([event for event in history if event.startswith(line[at:])]), len(line)


def _numbered(digits: str, history: Sequence[str]) -> str:
    number = int(digits) if digits != "-" else 0
    index = len(history) + number if digits.startswith("-") else number - 1
    if not 0 <= index < len(history):
        raise _NoSuchEvent
    return history[index]


def _latest(events: Sequence[str]) -> str:
    if not events:
        raise _NoSuchEvent
    return events[-1]
