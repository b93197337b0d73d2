"""Everything a server has to do with besides its clients: real, or a test's."""

import time
from collections.abc import Callable
from random import Random

import attrs

from persistence.disk import Disk
from persistence.offload import Begin, Offload
from server.clock import Clock


@attrs.frozen(kw_only=True)
class World:
    """Where disk, threads, chance and time come from: nothing else in the server touches them."""

    disk: Disk
    log_offload: Offload
    log_begin: Begin | None = None  # of the same thread
    snapshot_offload: Offload
    random: Random
    clock: Clock
    stopwatch: Callable[[], float] = time.perf_counter  # seconds, to measure how long things take
    cpu_clock: Callable[[], float] | None = time.thread_time  # seconds that this thread was running
