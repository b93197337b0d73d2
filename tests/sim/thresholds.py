"""Sizes that matter only when something is large: each seed makes some of them small.

What happens at the end of a burst, when a queue is full or a file begins is rare in a simulated minute, and
that is where bugs are. A name is that of a module's constant, or of a setting of zoo.cfg behind SETTING.
"""

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from random import Random

SETTING = "setting "
_SHARE = 0.25  # how many of them are small in a seed that has small ones

_CHOICES: dict[str, tuple[int, ...]] = {
    "quorum.learner_sync._TREE_BURST_BYTES": (64, 512, 4096),
    "quorum.learner_sync._TXNS_BURST_BYTES_MIN": (64, 512),
    "quorum.learner_sync._TXNS_BURST_BYTES_MAX": (64, 512),
    "quorum.learner_sync._QUEUED_BYTES_MAX": (64, 1024),
    "quorum.learner_sync._WAITING_BYTES_CALM": (256, 4096),
    "quorum.learner_links.QUEUED_BYTES_MAX": (30_000, 200_000),
    "quorum.learner_links._RECEIVE_BYTES": (16, 256),
    "quorum.learner._SYNC_EVERY_BYTES": (100, 1000),
    "quorum.leader.BACKLOG_BYTES_MAX": (20_000, 200_000),
    "persistence.disk.READ_CHUNK_BYTES": (300, 2000),
    "persistence.log_reader.READ_CHUNK_BYTES": (300, 2000),
    "persistence.txn_log.UNSYNCED_ENTRIES_MAX": (1, 3),
    "persistence.txn_log._ZEROED_AHEAD_BYTES": (0, 600),
    "persistence.log_writer.OFFLOADED_IN_A_ROW_MIN": (1, 4),
    "persistence.snapshot_format.SLICE_NODES_MAX": (1, 3, 10),
    "persistence.snapshots._WRITE_BYTES": (100, 1000),
    "persistence.snapshots._SYNC_EVERY_BYTES": (100, 1000),
    "server.pipeline.OUTSTANDING_BYTES_MAX": (300, 3000),
    "server.slices.STEPS_PER_SLICE": (1, 1, 20),
    "server.ordering.LONG_MULTI_BYTES": (0, 0, 100),
    "server.ordering.SHORT_ACLS_BYTES": (0, 0, 100),
    "server.learning.LONG_MULTI_BYTES": (0, 0, 100),
    "server.txns._LONG_BYTES": (0, 0, 100),
    "server.watches.TOLD_AT_ONCE_MAX": (0, 1),
    "tests.sim.network.WINDOW_BYTES": (200, 5000),
    SETTING + "preallocate_bytes": (0, 1024),
    SETTING + "observer_master_size_limit_bytes": (1, 1 << 22),
    SETTING + "global_outstanding_limit": (1, 1, 3),
}


def draw_thresholds(chance: Random) -> tuple[tuple[str, int], ...]:
    if chance.random() < 0.4:
        return ()
    return tuple(
        (name, chance.choice(values)) for name, values in _CHOICES.items() if chance.random() < _SHARE
    )


@contextmanager
def shrunk(thresholds: Iterable[tuple[str, int]]) -> Iterator[None]:
    """Give constants these values for as long as this lasts. One that is not there any more is an error."""
    before = []
    for name, value in thresholds:
        if not name.startswith(SETTING):
            module_name, _, constant = name.rpartition(".")
            module = importlib.import_module(module_name)
            before.append((module, constant, getattr(module, constant)))
            setattr(module, constant, value)
    try:
        yield
    finally:
        for module, constant, value in before:
            setattr(module, constant, value)
