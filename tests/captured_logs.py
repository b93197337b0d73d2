"""What is logged while a test looks, and a log that is as before when a test ends."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from eventlog import Level, log


@contextmanager
def capture_logs() -> Iterator[list[dict[str, Any]]]:
    """The events logged inside the block, each with its fields and its `log_level`; they go nowhere else."""
    captured: list[dict[str, Any]] = []

    def keep(level: Level, event: str, fields: Mapping[str, object]) -> None:
        captured.append({**fields, "event": event, "log_level": level})

    with logging_restored():
        log.sink = keep
        yield captured


@contextmanager
def logging_restored() -> Iterator[None]:
    """Whatever the block does to the log of this process is undone."""
    before = log.sink, log.least
    try:
        yield
    finally:
        log.sink, log.least = before
