"""Where time comes from: read once for a batch of events and handed to everything that follows from them."""

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds that never go back: for timeouts and latencies."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970: for what clients see as the time of a change."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
