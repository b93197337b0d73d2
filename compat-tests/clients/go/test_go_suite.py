"""go-zookeeper/zk's own tests: all that pass on Apache ZooKeeper pass on Triokeeper."""

from collections.abc import Callable
from pathlib import Path

import pytest

from clients.go.suite import run_suite
from clients.programs import ClientUnavailable
from support.servers import Kind

PASSED_MIN = 30  # else the suite did not begin, whatever the servers did
pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]


def test_go_zookeepers_own_suite(
    kind: Kind, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("client", "go-zookeeper/zk 1.0.4")
    try:
        outcomes = run_suite(kind, tmp_path)
    except ClientUnavailable as reason:
        pytest.skip(str(reason))
    assert sum(outcome == "pass" for outcome in outcomes.values()) > PASSED_MIN, outcomes
    failed = {name for name, outcome in outcomes.items() if outcome == "fail"}
    if failed and kind == "triokeeper":
        (tmp_path / "apache").mkdir()
        theirs = run_suite("reference", tmp_path / "apache")
        assert sum(outcome == "pass" for outcome in outcomes.values()) > PASSED_MIN, outcomes
    failed = {name for name in failed if theirs.get(name) == "pass"}
    assert failed == set()
