"""How log lines look, and from which level on.

    console   for people at a terminal
    plain     the shape of ZooKeeper's own log, which tools search:
              2026-01-01 12:00:00,123 [myid:1] - INFO  [main:server.run@45] - Starting server key=value
    json      one object a line

An event is either one of the original's well-known sentences or a short name with fields. All lines go to
stdout.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from threading import RLock
from typing import Literal, TypeAlias, get_args

import eventlog
from eventlog import Level, log

Format = Literal["console", "plain", "json"]
Renderer: TypeAlias = Callable[[Level, str, Mapping[str, object]], str]

LEVELS: Mapping[str, Level] = {
    "all": "debug",
    "trace": "debug",
    "debug": "debug",
    "info": "info",
    "warn": "warning",
    "warning": "warning",
    "error": "error",
    "fatal": "critical",
    "off": "critical",
}
APACHE_LEVELS = {"warning": "WARN", "critical": "ERROR"}

# What terminals make of them: bold, faint, colours.
_RESET, _BOLD, _FAINT = "\033[0m", "\033[1m", "\033[2m"
_RED, _GREEN, _YELLOW, _MAGENTA, _CYAN = (f"\033[{number}m" for number in (31, 32, 33, 35, 36))
_LEVEL_COLOURS: Mapping[Level, str] = {
    "debug": _GREEN,
    "info": _GREEN,
    "warning": _YELLOW,
    "error": _RED,
    "critical": _RED,
}
_LEVEL_WIDTH = 9
_NEEDS_QUOTES = frozenset(" =\"'")


def choose_format(environ: Mapping[str, str], *, is_terminal: bool) -> Format:
    """TRIOKEEPER_LOG names the format; otherwise people get the console, pipes and files the plain lines."""
    wanted = environ.get("TRIOKEEPER_LOG")
    for name in get_args(Format):
        if name == wanted:
            return name  # type: ignore[no-any-return]
    return "console" if is_terminal else "plain"


def choose_level(environ: Mapping[str, str], properties: Mapping[str, str]) -> Level:
    """TRIOKEEPER_LOG_LEVEL, or the level that ZooKeeper's logging properties ask for, or info."""
    candidates = (
        environ.get("TRIOKEEPER_LOG_LEVEL"),
        properties.get("zookeeper.console.threshold"),
        properties.get("zookeeper.root.logger", "").partition(",")[0],
    )
    for candidate in candidates:
        if candidate and candidate.strip().lower() in LEVELS:
            return LEVELS[candidate.strip().lower()]
    return "info"


def unknown_choices(environ: Mapping[str, str]) -> list[str]:
    """What the environment asks of the log and does not get."""
    known = {"TRIOKEEPER_LOG": get_args(Format), "TRIOKEEPER_LOG_LEVEL": tuple(LEVELS)}
    return [
        f"{name}={environ[name]} has no effect: known are {', '.join(values)}"
        for name, values in known.items()
        if environ.get(name) and environ[name].strip().lower() not in values
    ]


def configure_logging(form: Format, level: Level = "info", my_id: int | None = None) -> None:
    """Decide how everything that this process logs is written from now on."""
    if getattr(sys, "stdout", None) is None:  # started without one; its number must not go to another file
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    renderers: Mapping[Format, Renderer] = {
        "console": console_line,
        "plain": PlainLines(my_id),
        "json": json_line,
    }
    log.sink = LossyStdout(renderers[form])
    log.least = level


def console_line(level: Level, event: str, fields: Mapping[str, object]) -> str:
    head = (
        f"{_FAINT}{time.strftime('%H:%M:%S')}{_RESET} "
        f"[{_LEVEL_COLOURS[level]}{_BOLD}{level:<{_LEVEL_WIDTH}}{_RESET}] {_BOLD}{_one_line(event)}{_RESET}"
    )
    pairs = (
        f" {_CYAN}{key}{_RESET}={_MAGENTA}{_quoted(value)}{_RESET}" for key, value in sorted(fields.items())
    )
    return head + "".join(pairs)


def _quoted(value: object) -> str:
    is_plain = isinstance(value, str) and value.isprintable() and _NEEDS_QUOTES.isdisjoint(value)
    return str(value) if is_plain else _one_line(repr(value))


def json_line(level: Level, event: str, fields: Mapping[str, object]) -> str:
    import json

    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    timestamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanoseconds // 1000:06}Z"
    return json.dumps({**fields, "event": event, "level": level, "timestamp": timestamp}, default=str)


class PlainLines:
    """Renders an event as a line of ZooKeeper's log."""

    def __init__(self, my_id: int | None) -> None:
        self._my_id = "" if my_id is None else str(my_id)

    def __call__(self, level: Level, event: str, fields: Mapping[str, object]) -> str:
        seconds, nanoseconds = divmod(time.time_ns(), 10**9)
        when = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(seconds))},{nanoseconds // 10**6:03}"
        pairs = "".join(f" {key}={_one_word(value)}" for key, value in fields.items())
        return (
            f"{when} [myid:{self._my_id}] - {APACHE_LEVELS.get(level, level.upper()):<5} "
            f"[main:{_caller()}] - {_one_line(event)}{pairs}"
        )


def _caller() -> str:
    """The file and line that logged; of a compiled module, the nearest caller that is not compiled."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__") in (__name__, eventlog.__name__) and frame.f_back is not None:
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename).removesuffix('.py')}@{frame.f_lineno}"


def _one_line(text: str) -> str:
    """No text, whoever it comes from, may begin a line of its own in the log, or command the terminal."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _one_word(value: object) -> str:
    text = str(value)
    return text if text.isprintable() and text and " " not in text else repr(text)


class LossyStdout:
    """Writes lines to standard output; what cannot be written is dropped.

    A closed pipe or a full disk behind the log must not stop a server that keeps its data elsewhere.
    """

    def __init__(self, render: Renderer) -> None:
        self._render = render
        self._lock = RLock()  # threads log as well, and so may a signal handler

    def __call__(self, level: Level, event: str, fields: Mapping[str, object]) -> None:
        line = self._render(level, event, fields) + "\n"
        with self._lock:
            try:
                sys.stdout.write(line)
                sys.stdout.flush()
            except BrokenPipeError:
                # Nobody reads any more. What is still buffered would fail again at exit and change its code.
                with open(os.devnull, "wb") as nowhere:
                    os.dup2(nowhere.fileno(), sys.stdout.fileno())
            except (OSError, ValueError):
                pass  # a full disk, or a character that the terminal's encoding lacks
