"""How long to wait for a server on a machine that may be busy with something else, or suspended."""

import time
from collections.abc import Callable

STEP_SECONDS_MAX = 1.0  # what one look may count: the rest of the time this process was held up itself


class Patience:
    """A time limit that does not run while whoever waits does not run either.

    A server that is given a minute gets a minute in which it can be looked at, not one in which everything
    stood still. For loops that look more often than once a second.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._left_s, self._clock, self._looked_s = seconds, clock, clock()

    @property
    def is_over(self) -> bool:
        now = self._clock()
        self._left_s -= min(now - self._looked_s, STEP_SECONDS_MAX)
        self._looked_s = now
        return self._left_s < 0
