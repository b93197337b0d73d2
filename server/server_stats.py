"""What the server counts about itself, for four-letter words and metrics.

Counting happens once for a batch of requests, not once for each: see client_protocol.py.
"""

import attrs


@attrs.define
class Latency:
    """Milliseconds from a request's arrival to its reply."""

    min_ms: int | None = None
    max_ms: int = 0
    total_ms: int = 0
    count: int = 0

    def add(self, elapsed_ms: int, count: int = 1) -> None:
        self.count += count
        self.total_ms += elapsed_ms * count
        if elapsed_ms > self.max_ms:
            self.max_ms = elapsed_ms
        if self.min_ms is None or elapsed_ms < self.min_ms:
            self.min_ms = elapsed_ms

    @property
    def average_ms(self) -> float:
        return self.total_ms / self.count if self.count else 0.0


@attrs.define
class ServerStats:
    """Counters since the start, or since the word srst."""

    packets_received: int = 0
    packets_sent: int = 0
    reads: Latency = attrs.field(factory=Latency)
    writes: Latency = attrs.field(factory=Latency)
    connections_rejected: int = 0
    connections_dropped: int = 0
    connections_made: int = 0
    sessions_expired: int = 0
    auth_failures: int = 0
    unrecoverable_errors: int = 0
    large_requests_rejected: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    watches_fired: int = 0
    commits: int = 0
    snapshots: int = 0
    fsyncs: Latency = attrs.field(factory=Latency)
    snapshot_times: Latency = attrs.field(factory=Latency)

    @property
    def requests(self) -> Latency:
        """Reads and writes together, as the words show them."""
        both = (self.reads, self.writes)
        lows = [each.min_ms for each in both if each.min_ms is not None]
        return Latency(
            min(lows, default=None),
            max(each.max_ms for each in both),
            sum(each.total_ms for each in both),
            sum(each.count for each in both),
        )

    def reset(self) -> None:
        self.packets_received = self.packets_sent = 0
        self.reads = Latency()
        self.writes = Latency()
