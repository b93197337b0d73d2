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
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Literal, get_args

if "rich" not in sys.modules:
    # structlog loads rich, if installed, to draw tracebacks: 40 ms of start-up and 4 MB for nothing here.
    sys.modules["rich"] = None  # type: ignore[assignment]
    import structlog

    del sys.modules["rich"]
else:
    import structlog

Format = Literal["console", "plain", "json"]
EventDict = MutableMapping[str, Any]

LEVELS = {
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


def choose_format(environ: Mapping[str, str], *, is_terminal: bool) -> Format:
    """TRIOKEEPER_LOG names the format; otherwise people get the console, pipes and files the plain lines."""
    wanted = environ.get("TRIOKEEPER_LOG")
    for name in get_args(Format):
        if name == wanted:
            return name  # type: ignore[no-any-return]
    return "console" if is_terminal else "plain"


def choose_level(environ: Mapping[str, str], properties: Mapping[str, str]) -> str:
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


def configure_logging(form: Format, level: str = "info", my_id: int | None = None) -> None:
    """Decide how every logger of this process writes from now on."""
    if getattr(sys, "stdout", None) is None:  # started without one; its number must not go to another file
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    callsite = structlog.processors.CallsiteParameterAdder(
        [structlog.processors.CallsiteParameter.MODULE, structlog.processors.CallsiteParameter.LINENO]
    )
    processors: dict[Format, list[Any]] = {
        "console": [
            structlog.processors.TimeStamper("%H:%M:%S", utc=False),
            structlog.dev.ConsoleRenderer(pad_event_to=0),
        ],
        "plain": [callsite, structlog.processors.format_exc_info, PlainLines(my_id)],
        "json": [
            structlog.processors.TimeStamper("iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ],
    }
    structlog.configure(
        processors=[structlog.processors.add_log_level, *processors[form]],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=_LossyStdout()),  # type: ignore[arg-type]
        cache_logger_on_first_use=True,
    )


class PlainLines:
    """Renders an event as a line of ZooKeeper's log; an exception follows on lines of its own."""

    def __init__(self, my_id: int | None) -> None:
        self._my_id = "" if my_id is None else str(my_id)

    def __call__(self, _logger: object, _method: str, event: EventDict) -> str:
        now = datetime.now()
        level = event.pop("level")
        where = f"main:{event.pop('module')}@{event.pop('lineno')}"
        message = _one_line(str(event.pop("event")))
        exception = event.pop("exception", None)
        fields = "".join(f" {key}={_one_word(value)}" for key, value in event.items())
        head = f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03} [myid:{self._my_id}]"
        line = f"{head} - {APACHE_LEVELS.get(level, level.upper()):<5} [{where}] - {message}{fields}"
        return line if exception is None else f"{line}\n{exception}"


def _one_line(text: str) -> str:
    """No text, whoever it comes from, may begin a line of its own in the log."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _one_word(value: object) -> str:
    text = str(value)
    return text if text.isprintable() and text and " " not in text else repr(text)


class _LossyStdout:
    """Standard output for a log: what cannot be written is dropped.

    A closed pipe or a full disk behind the log must not stop a server that keeps its data elsewhere.
    """

    def write(self, text: str) -> None:
        with _dropping_failures():
            sys.stdout.write(text)

    def flush(self) -> None:
        with _dropping_failures():
            sys.stdout.flush()


@contextmanager
def _dropping_failures() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        # Nobody reads any more. What is still buffered would fail again at exit and change the exit code.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
    except (OSError, ValueError):
        pass  # a full disk, or a character that the terminal's encoding lacks
