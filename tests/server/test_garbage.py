"""Full collections of Python's garbage are never left to chance: they would hold the loop."""

import gc
from collections.abc import Iterator

import pytest

from server.garbage import GarbageCollector


class Circle:
    """What only the collector can free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collector() -> Iterator[GarbageCollector]:
    thresholds = gc.get_threshold()
    collector = GarbageCollector()
    collector.start()
    yield collector
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def full_collections() -> int:
    return int(gc.get_stats()[2]["collections"])


def circles() -> int:
    return sum(isinstance(each, Circle) for each in gc.get_objects())


def test_many_that_stay_are_never_looked_at_by_chance(collector: GarbageCollector) -> None:
    before = full_collections()
    kept = [[n] for n in range(1_000_000)]
    assert full_collections() == before
    collector.turn()
    assert gc.get_freeze_count() >= len(kept)
    assert gc.get_count()[2] == 0


def test_garbage_that_has_grown_old_is_collected_in_the_next_turn(collector: GarbageCollector) -> None:
    garbage = [Circle() for _ in range(60_000)]
    assert gc.get_count()[2]
    del garbage
    collector.turn()
    assert circles() == 0


def test_a_turn_without_anything_new_costs_nothing(collector: GarbageCollector) -> None:
    before = full_collections()
    collector.turn()
    assert full_collections() == before


def test_what_was_made_permanent_is_looked_at_now_and_then(
    collector: GarbageCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.garbage._PERMANENT_AFFORDED", gc.get_freeze_count() + 100_000)
    garbage = [Circle() for _ in range(60_000)]
    collector.turn()
    del garbage
    collector.turn()
    for _ in range(200):
        collector.turn()
    assert circles() == 0
