"""The one way to log: `log.info("learner_synced", server=3, mode="DIFF")`.

An event is one of the original's well-known sentences, or a short name with fields. Which events are
written, how and where to is decided once for the whole process (server/logging_setup.py). Nothing here reads
a clock or touches the world, so that pure modules may log as well.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

Level: TypeAlias = Literal["debug", "info", "warning", "error", "critical"]
Sink: TypeAlias = Callable[[Level, str, Mapping[str, object]], None]

_SEVERITY: Final[Mapping[Level, int]] = {"debug": 0, "info": 1, "warning": 2, "error": 3, "critical": 4}


def print_event(level: Level, event: str, fields: Mapping[str, object]) -> None:
    """Where events go until a process decides otherwise."""
    print(f"[{level}] {event}", *(f"{key}={value}" for key, value in fields.items()))


class Logger:
    """Hands events to the sink, except those below the least level."""

    def __init__(self) -> None:
        self.sink: Sink = print_event
        self.least: Level = "debug"

    def debug(self, event: str, /, **fields: object) -> None:
        self.at("debug", event, **fields)

    def info(self, event: str, /, **fields: object) -> None:
        self.at("info", event, **fields)

    def warning(self, event: str, /, **fields: object) -> None:
        self.at("warning", event, **fields)

    def error(self, event: str, /, **fields: object) -> None:
        self.at("error", event, **fields)

    def at(self, level: Level, event: str, /, **fields: object) -> None:
        """Log at a level that is known only now."""
        if _SEVERITY[level] >= _SEVERITY[self.least]:
            self.sink(level, event, fields)


log: Final = Logger()
