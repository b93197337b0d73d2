"""What a server holds, seen from outside: its own counts, its open files, its memory, its log."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from support.servers import Server

SETTLE_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.1

_LINE = re.compile(r"^\S+ \S+ \[myid:\d*\] - (?P<level>\w+) +\[\S+\] - (?P<text>.*)$")
# Judged by the server's own processor time: how long a busy machine lets it wait says nothing. On such a
# machine the same work takes longer even so, hence twice the 50 ms that nothing may hold the loop for.
_LOOP_HELD = re.compile(r"loop_held .*\bcpu_ms=(?P<cpu_ms>\d+)")
_HELD_CPU_MS_MAX = 100
_EXPECTED_WARNINGS = re.compile(
    r"loop_held |frame_refused |request_refused |Len error\. |authentication_failed "
    r"|Too many connections from |client_does_not_read |fsync-ing the write ahead log "
    r"|autopurge\.purgeInterval=0"
)


@attrs.frozen
class Vitals:
    """What must come back to where it was. Of the connections, one is the question's own."""

    connections: int
    sessions: int
    watches: int
    ephemerals: int
    outstanding: int
    znodes: int
    files: int

    @classmethod
    def of(cls, server: Server) -> "Vitals":
        lines = server.four_letter_word("mntr", seconds=60).splitlines()
        counts = dict(line.split("\t", 1) for line in lines if "\t" in line)
        return cls(
            connections=int(counts["zk_num_alive_connections"]),
            sessions=int(counts["zk_global_sessions"]),
            watches=int(counts["zk_watch_count"]),
            ephemerals=int(counts["zk_ephemerals_count"]),
            outstanding=int(counts["zk_outstanding_requests"]),
            znodes=int(counts["zk_znode_count"]),
            files=len(list(Path(f"/proc/{server.pid}/fd").iterdir())),
        )


def wait_until(server: Server, expected: Vitals, seconds: float = SETTLE_SECONDS_MAX) -> Vitals:
    """Wait for a server to hold what it should; what it holds in the end, right or not."""
    deadline = time.monotonic() + seconds
    while (seen := Vitals.of(server)) != expected and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return seen


@attrs.define
class Peak:
    rss_bytes: int = 0


@contextmanager
def watched_memory(server: Server) -> Iterator[Peak]:
    """Looks at the server's memory many times a second, for the most it ever is."""
    peak, over = Peak(), threading.Event()

    def look() -> None:
        while not over.wait(0.02) and not server.has_ended:
            peak.rss_bytes = max(peak.rss_bytes, server.rss_bytes)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def faults_in(log_text: str) -> list[str]:
    """Lines that no client, however hostile, should be able to bring about."""
    return [line for line in log_text.splitlines() if not _is_expected(line)]


def long_holds_in(log_text: str) -> list[str]:
    """Lines that tell of a turn of the loop with more work than a client may cause."""
    holds = [(line, _LOOP_HELD.search(line)) for line in log_text.splitlines()]
    return [line for line, held in holds if held is not None and int(held["cpu_ms"]) > _HELD_CPU_MS_MAX]


def _is_expected(line: str) -> bool:
    match = _LINE.match(line)
    if match is None:
        return False  # of a traceback, or of something that does not log
    if match["level"] == "WARN":
        return _EXPECTED_WARNINGS.match(match["text"]) is not None
    return match["level"] in ("INFO", "DEBUG")
