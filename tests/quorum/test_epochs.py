"""The two promises, at every moment a server can go down."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from persistence.epoch_files import read_epoch
from persistence.errors import DataDirError
from quorum.epochs import EPOCH_MAX, EPOCH_STEP_MAX, EpochKeeper
from tests.persistence.memory_disk import Killed, MemoryDisk

DATA = Path("/data/version-2")


def epochs_on(disk: MemoryDisk, last_zxid: int = 0) -> EpochKeeper:
    return EpochKeeper(disk, DATA, last_zxid)


def fresh() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(DATA)
    return disk


def test_a_new_server_has_promised_nothing() -> None:
    epochs = epochs_on(fresh())
    assert (epochs.accepted, epochs.current) == (0, 0)


def test_promises_are_kept_over_a_restart() -> None:
    disk = fresh()
    epochs = epochs_on(disk)
    epochs.accept(3)
    epochs.enter(3)
    epochs.accept(5)
    disk.lose_power(Random(0))
    epochs = epochs_on(disk)
    assert (epochs.accepted, epochs.current) == (5, 3)
    assert [read_epoch(disk, DATA, name) for name in ("acceptedEpoch", "currentEpoch")] == [5, 3]


def test_an_epoch_is_believed_within_a_bounded_step_and_while_another_can_follow() -> None:
    epochs = epochs_on(fresh())
    assert epochs.can_be_true(EPOCH_STEP_MAX)
    assert not epochs.can_be_true(EPOCH_STEP_MAX + 1)
    assert not epochs.can_be_true(-1)
    epochs.accept(EPOCH_MAX - 2)
    assert epochs.can_be_true(EPOCH_MAX - 1)
    assert not epochs.can_be_true(EPOCH_MAX)


def test_to_enter_the_epoch_one_is_in_writes_nothing() -> None:
    """A follower that comes back to the same leader."""
    disk = fresh()
    epochs = epochs_on(disk)
    epochs.accept(1)
    epochs.enter(1)
    spent = disk.spent
    epochs.enter(1)
    assert disk.spent == spent


@given(st.integers(0, 200), st.randoms(use_true_random=False), st.booleans())
def test_a_promise_is_on_disk_before_it_is_in_memory(budget: int, chance: Random, loses_power: bool) -> None:
    """ZOOKEEPER-2307: after a crash anywhere, a server has promised what it said, or one step more."""
    disk = fresh()
    epochs = epochs_on(disk)
    said = [(0, 0)]
    disk.budget = budget
    try:
        for epoch in (1, 2, 4):
            epochs.accept(epoch)
            said.append((epochs.accepted, epochs.current))
            epochs.enter(epoch)
            said.append((epochs.accepted, epochs.current))
    except Killed:
        pass
    assert (epochs.accepted, epochs.current) == said[-1]
    if loses_power:
        disk.lose_power(chance)
    else:
        disk.revive()
    again = epochs_on(disk)
    steps = [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (4, 2), (4, 4)]
    assert (again.accepted, again.current) in steps[len(said) - 1 : len(said) + 1]


def test_a_disk_that_fails_leaves_the_promise_unmade() -> None:
    disk = fresh()
    epochs = epochs_on(disk)
    disk.faults["sync"] = OSError(28, "No space left on device")
    with pytest.raises(OSError, match="No space"):
        epochs.accept(1)
    assert epochs.accepted == 0


def test_epochs_that_do_not_fit_the_data_are_refused() -> None:
    disk = fresh()
    epochs_on(disk)
    with pytest.raises(DataDirError, match="older than the last zxid"):
        epochs_on(disk, last_zxid=0x100000001)
