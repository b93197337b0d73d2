"""Latency while a snapshot is written, apart from latency while none is."""

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from bench.load import Histogram, LoadResult, joined

Span: TypeAlias = tuple[float, float]  # from and until, as time.monotonic tells it

LOOK_SECONDS = 0.01
PREPARING_SECONDS = 0.25  # what a server may do for a snapshot before its file can be seen
PAUSE_SECONDS_MAX = 0.3  # a file that did not grow for so long is done


@contextlib.contextmanager
def watch_snapshots(folder: Path) -> Iterator[list[Span]]:
    """The list of spans, filled meanwhile, in which some snapshot file was seen to appear or to grow."""
    spans: list[Span] = []
    is_over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(folder, spans, is_over))
    watcher.start()
    try:
        yield spans
    finally:
        is_over.set()
        watcher.join()


def _watch(folder: Path, spans: list[Span], is_over: threading.Event) -> None:
    sizes = snapshot_sizes(folder)
    while not is_over.wait(LOOK_SECONDS):
        before, sizes = sizes, snapshot_sizes(folder)
        if sizes != before:
            note_growth(spans, time.monotonic())


def note_growth(spans: list[Span], now: float) -> None:
    if spans and now - spans[-1][1] < PAUSE_SECONDS_MAX:
        spans[-1] = (spans[-1][0], now)
    else:
        spans.append((now, now))


def snapshot_sizes(folder: Path) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for path in folder.glob("*snapshot*"):
        try:
            sizes[path.name] = path.stat().st_size
        except FileNotFoundError:  # renamed or purged just now
            continue
    return sizes


def split_windows(result: LoadResult, spans: Iterable[Span]) -> tuple[Histogram, Histogram]:
    """Latencies of the windows that a snapshot touches, and of the others."""
    busy = [(begin - PREPARING_SECONDS, end) for begin, end in spans]

    def is_busy(number: int) -> bool:
        begin = result.started_at + number * result.window_seconds
        return any(begin < span_end and begin + result.window_seconds > at for at, span_end in busy)

    numbered = list(enumerate(result.windows))
    return (
        joined(window for number, window in numbered if is_busy(number)),
        joined(window for number, window in numbered if not is_busy(number)),
    )
