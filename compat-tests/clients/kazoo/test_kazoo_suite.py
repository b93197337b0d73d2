"""A minute of Kazoo's own test suite; `make compat-kazoo` runs all of it."""

from collections.abc import Callable

import pytest

from clients.kazoo.run_suite import Verdict, judge, read_record, read_waiting, run_and_judge, table
from clients.kazoo.suite import SuiteUnavailable, suite_python
from support.servers import Kind

RECIPES = (
    "test_barrier.py",
    "test_election.py",
    "test_lease.py",
    "test_lock.py::TestSemaphore",
    "test_queue.py",
    "test_watchers.py::KazooDataWatcherTests",
)


@pytest.mark.timeout(600)  # the first run installs the suite
def test_recipes_of_kazoo_pass(kind: Kind) -> None:
    """Locks, elections, queues and watchers behave as Kazoo's authors expect of a ZooKeeper server."""
    try:
        suite_python()
    except SuiteUnavailable as unavailable:
        pytest.skip(str(unavailable))
    verdict = run_and_judge(RECIPES, kind=kind, quiet=True)
    assert verdict.is_good, "\n".join(table(verdict))


@pytest.mark.self_check
def test_every_waiting_test_is_one_that_apache_passes() -> None:
    """A name in docs/COMPATIBILITY.md that no test has would excuse nothing, and hide a renamed test."""
    assert read_waiting()
    assert read_waiting().keys() <= read_record()


@pytest.mark.self_check
def test_a_test_that_was_not_seen_to_pass_has_failed() -> None:
    """Nothing gets lost between the record and the verdict: neither by a crash nor by skipping."""
    first = judge({"a", "b", "c", "d"}, {"d": "TLS"}, {"a": "passed", "b": "skipped"}, {})
    assert first == Verdict(frozenset("a"), frozenset("bc"), {"d": "TLS"})
    assert not first.is_good


@pytest.mark.self_check
def test_a_second_try_counts_and_is_told() -> None:
    verdict = judge({"a", "b"}, {}, {"a": "passed", "b": "failed"}, {"b": "passed"})
    assert verdict.is_good
    assert "passed at the second try: b" in table(verdict)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("file", sorted({name.partition("::")[0] for name in read_record()}))
def test_kazoos_own_suite(file: str, kind: Kind, record_property: Callable[[str, object], None]) -> None:
    """What passed on Apache ZooKeeper when it was recorded passes here, and there still."""
    record_property("client", "Kazoo 2.11.0, its own suite")
    try:
        suite_python()
    except SuiteUnavailable as unavailable:
        pytest.skip(str(unavailable))
    verdict = run_and_judge([file], kind=kind, quiet=True)
    record_property("tests", len(verdict.passed))
    assert not verdict.failed, "\n".join(table(verdict))


@pytest.mark.long
@pytest.mark.triokeeper_alone
@pytest.mark.parametrize("name", read_waiting())
def test_kazoos_own_suite_waits(name: str, record_property: Callable[[str, object], None]) -> None:
    """Not skipped in silence: what is not built yet stands in the report."""
    record_property("client", "Kazoo 2.11.0, its own suite")
    pytest.skip(f"{read_waiting()[name]} is not built yet")
