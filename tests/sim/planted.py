"""Bugs to be caught: each is put into the running servers for as long as its context lasts.

A simulator that finds nothing proves little. `python -m tests.sim.run --plant NAME` shows how many seeds it
takes until a checker notices.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import trio

import quorum.epochs
from persistence.txn_log import TxnLog
from quorum.broadcast import Broadcast
from quorum.epochs import EpochKeeper
from server.leading import LeadingPipeline
from server.learning import LearningPipeline
from server.replica import Replica
from server.watches import Watches
from tests.sim.disk import Killed


@contextmanager
def replaced(owner: Any, name: str, planted: Callable[..., Any]) -> Iterator[None]:
    """`planted` is called with the original in front of its arguments."""
    original = getattr(owner, name)
    setattr(owner, name, lambda *args, **named: planted(original, *args, **named))
    try:
        yield
    finally:
        setattr(owner, name, original)


def _acks_before_fsync(original: Callable[..., None], log: TxnLog, file: object) -> None:
    """The log is written, but not synced, when its entries are acknowledged."""


def _commits_out_of_order(original: Callable[..., None], pipeline: LearningPipeline, count: int) -> None:
    """A follower that may commit two transactions at once begins with the second."""
    if count > 1:
        first, second = pipeline.in_flight.popleft(), pipeline.in_flight.popleft()
        pipeline.in_flight.extendleft((first, second))
    original(pipeline, count)


def _writes_epoch_late(original: Callable[..., None], *args: Any) -> None:
    """An epoch's file is written a moment after the acknowledgement that relies on it."""

    async def write() -> None:
        await trio.sleep(0.2)
        with suppress(Killed, OSError):  # it may be too late
            original(*args)

    trio.lowlevel.spawn_system_task(write)


def _forgets_accepted_epoch(original: Callable[..., None], keeper: EpochKeeper, epoch: int) -> None:
    """The promise to follow no earlier leader is kept in memory alone."""
    keeper.accepted = epoch


async def _votes_without_its_log(original: Callable[..., Any], replica: Replica) -> None:
    """Between two roles the tree is not brought up to the end of the log (ZOOKEEPER-2845)."""
    read = replica._logged_unapplied
    replica._logged_unapplied = list  # type: ignore[method-assign]
    try:
        await original(replica)
    finally:
        replica._logged_unapplied = read  # type: ignore[method-assign]


def _ignores_touched_sessions(
    original: Callable[..., None], pipeline: LeadingPipeline, session: int, timeout_ms: int
) -> None:
    """What learners heard from their clients does not renew a session."""


def _commits_alone(original: Callable[..., int], broadcast: Broadcast, verifier: object) -> int:
    """One durable log is enough."""
    return max(broadcast._acked.values(), default=0)


async def _keeps_its_log(original: Callable[..., Any], replica: Replica, zxid: int) -> None:
    """A follower told to cut back its log does not."""


def _tells_twice(original: Callable[..., None], watches: Watches, told: object, *event: Any) -> None:
    """Every watcher is told twice."""
    original(watches, told, *event)
    original(watches, told, *event)


_PLANTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "ack-before-fsync": (TxnLog, "_sync", _acks_before_fsync),
    "commit-out-of-order": (LearningPipeline, "committed", _commits_out_of_order),
    "epoch-after-ack": (quorum.epochs, "write_epoch", _writes_epoch_late),
    "accepted-epoch-forgotten": (EpochKeeper, "accept", _forgets_accepted_epoch),
    "vote-without-log": (Replica, "retire", _votes_without_its_log),
    "touches-ignored": (LeadingPipeline, "touch", _ignores_touched_sessions),
    "commit-alone": (Broadcast, "_agreed_by", _commits_alone),
    "truncate-ignored": (Replica, "truncate", _keeps_its_log),
    "watch-fires-twice": (Watches, "_tell", _tells_twice),
}

NAMES = tuple(_PLANTS)


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Put the bug of this name into all servers; None is no bug."""
    if name is None:
        yield
    else:
        with replaced(*_PLANTS[name]):
            yield
