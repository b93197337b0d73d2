"""go-zookeeper/zk's own tests: all that pass on Apache ZooKeeper pass on Triokeeper."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import pytest

from clients.go.suite import run_suite
from clients.programs import ClientUnavailable
from support.servers import Kind

PASSED_MIN = 30  # else the suite did not begin, whatever the servers did
pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]


def failed_in(outcomes: Mapping[str, str]) -> set[str]:
    return {name for name, outcome in outcomes.items() if outcome == "fail"}


def run_fairly(kind: Kind, folder: Path, only: Collection[str] = ()) -> dict[str, str]:
    """Run it, and what failed once more alone: its tests give a server a few seconds of a busy machine."""
    outcomes = run_suite(kind, folder, only)
    if failed := failed_in(outcomes):
        outcomes |= run_suite(kind, folder / "again", {name.partition("/")[0] for name in failed})
    return outcomes


def test_go_zookeepers_own_suite(
    kind: Kind, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("client", "go-zookeeper/zk 1.0.4")
    try:
        outcomes = run_fairly(kind, tmp_path / "suite")
    except ClientUnavailable as reason:
        pytest.skip(str(reason))
    assert Counter(outcomes.values())["pass"] > PASSED_MIN, outcomes
    record_property("tests", Counter(outcomes.values())["pass"])
    failed = failed_in(outcomes)
    print(f"{len(outcomes)} tests: {dict(Counter(outcomes.values()))}; failed: {sorted(failed)}")
    if failed and kind == "triokeeper":
        failed -= failed_in(run_fairly("reference", tmp_path / "apache", failed))
    assert failed == set()
