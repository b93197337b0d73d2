"""`make compat-kazoo`: what passes of Kazoo's own tests on Apache ZooKeeper must pass on Triokeeper.

What passes there was recorded once (`--record`), in kazoo_passes_on_apache.txt, so a run needs no Java. Tests
that wait for something this version does not serve are listed by name in docs/COMPATIBILITY.md, and are left
out. Ends with exit code 1 if a test that should pass does not.
"""

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import attrs
import click

from clients.kazoo.suite import Outcome, Results, SuiteUnavailable, run_suite
from support.reference import ReferenceUnavailable
from support.servers import Kind

RECORD = Path(__file__).with_name("passes_on_apache.txt")
COMPATIBILITY = Path(__file__).resolve().parents[3] / "docs" / "COMPATIBILITY.md"
HARNESS_SERVERS = 3  # what the harness starts when nobody says otherwise

# These stop servers, change members, or look for another server: with one of Apache's they fail, too.
# All others run with one server, because they are about clients and start sooner so.
NEED_SEVERAL_SERVERS = frozenset(
    {
        "test_client.py::TestClient::test_update_host_list",
        "test_eventlet_handler.py::TestEventletClient::test_update_host_list",
        "test_gevent_handler.py::TestGeventClient::test_update_host_list",
        "test_client.py::TestReconfig::test_add_remove_observer",
        "test_client.py::TestReconfig::test_bad_input",
        "test_client.py::TestReconfig::test_no_super_auth",
        "test_connection.py::TestReadOnlyMode::test_read_only",
    }
)

Waiting: TypeAlias = Mapping[str, str]  # a test's name, and what it waits for

_WAITING_ROW = re.compile(r"^\| `(test_\w+\.py::[^`]+)` \| (.+?) \|$", re.MULTILINE)


def read_record() -> frozenset[str]:
    """The tests that pass on Apache ZooKeeper."""
    lines = RECORD.read_text().splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def read_waiting() -> Waiting:
    """The tests that docs/COMPATIBILITY.md lists as waiting."""
    return dict(_WAITING_ROW.findall(COMPATIBILITY.read_text()))


@attrs.frozen
class Verdict:
    """One run, held against the record: every test of it that was asked for is in one of the first three."""

    passed: frozenset[str]  # on both servers
    failed: frozenset[str]  # only on Apache
    waiting: Waiting  # left out, and why
    second_try: frozenset[str] = frozenset()  # of those that passed

    @property
    def is_good(self) -> bool:
        return bool(self.passed) and not self.failed


def judge(record: Collection[str], waiting: Waiting, first: Results, second: Results) -> Verdict:
    expected = frozenset(record) - waiting.keys()
    passed = {name for name in expected if "passed" in (first.get(name), second.get(name))}
    return Verdict(
        passed=frozenset(passed),
        failed=expected - passed,
        waiting={name: waiting[name] for name in waiting if name in record},
        second_try=frozenset(name for name in passed if first.get(name) != "passed"),
    )


def is_among(name: str, tests: Collection[str]) -> bool:
    """Whether a test was asked for, by its own name, its class's or its file's; no names ask for all."""
    return not tests or any(name == test or name.startswith(f"{test}::") for test in tests)


def run_and_judge(tests: Collection[str] = (), *, kind: Kind = "triokeeper", quiet: bool = False) -> Verdict:
    """Run against one kind of server. What failed is run once more, by itself: many of the tests are races
    against a clock, and a busy machine may lose one; the verdict tells which needed it."""
    waiting = read_waiting() if kind == "triokeeper" else {}
    record = {name for name in read_record() if is_among(name, tests)}
    first = run_in_two_parts(kind, record - waiting.keys(), tests, without=waiting, quiet=quiet)
    again = judge(record, waiting, first, {}).failed
    second = run_in_two_parts(kind, again, sorted(again), without=(), quiet=quiet) if again else {}
    return judge(record, waiting, first, second)


def run_in_two_parts(
    kind: Kind, expected: Collection[str], tests: Collection[str], *, without: Iterable[str], quiet: bool
) -> Results:
    """With one server, and then those of the expected tests that need several, with as many as they like."""
    several = sorted(NEED_SEVERAL_SERVERS & frozenset(expected))
    alone = [name for name in tests if name not in NEED_SEVERAL_SERVERS]
    results: dict[str, Outcome] = {}
    if alone or not tests:
        left_out = {*without, *NEED_SEVERAL_SERVERS}
        # The record was made with three servers of Apache's; with one, a few of the tests fail there.
        servers = 1 if kind == "triokeeper" else HARNESS_SERVERS
        results |= run_suite(kind, servers=servers, tests=alone, without=left_out, quiet=quiet)
    if several:
        results |= run_suite(kind, servers=HARNESS_SERVERS, tests=several, quiet=quiet)
    return results


def table(verdict: Verdict) -> Iterable[str]:
    """The summary, by file, and then every test that did not simply pass on both, by name."""
    columns = (verdict.passed, verdict.failed, verdict.waiting.keys())
    counts = [Counter(name.partition("::")[0] for name in names) for names in columns]
    header = f"{'':28}{'passed on both':>16}{'only on Apache':>16}{'waiting':>10}"
    yield header
    for file in sorted(counts[0] + counts[1] + counts[2]):
        yield f"{file:28}{counts[0][file]:16}{counts[1][file]:16}{counts[2][file]:10}"
    yield f"{'all':28}{len(verdict.passed):16}{len(verdict.failed):16}{len(verdict.waiting):10}"
    for name, reason in sorted(verdict.waiting.items()):
        yield f"waiting: {name}: {reason}"
    for name in sorted(verdict.second_try):
        yield f"passed at the second try: {name}"
    for name in sorted(verdict.failed):
        yield f"ONLY ON APACHE: {name}"


def record_apache() -> None:
    """Run everything against Apache ZooKeeper and write down what passes, at the second try if need be."""
    first = run_suite("reference", servers=HARNESS_SERVERS)
    failed = sorted(name for name, outcome in first.items() if outcome == "failed")
    second = run_suite("reference", servers=HARNESS_SERVERS, tests=failed) if failed else {}
    names = sorted(name for name in first if "passed" in (first[name], second.get(name)))
    head = "# Tests of Kazoo 2.11.0 that pass on Apache ZooKeeper 3.9.5, by make compat-kazoo ARGS=--record\n"
    RECORD.write_text(head + "".join(f"{name}\n" for name in names))
    click.echo(f"{len(names)} tests pass on Apache ZooKeeper, of {len(first)}")


@click.command(help=__doc__)
@click.argument("tests", nargs=-1)
@click.option("--record", is_flag=True, help="Run against Apache ZooKeeper instead, and record what passes.")
@click.option(
    "--on", type=click.Choice(["triokeeper", "reference"]), help="Only run the tests, and show their output."
)
@click.option("--servers", default=1, show_default=True, help="With --on: how many the harness is to start.")
def main(tests: tuple[str, ...], record: bool, on: Kind | None, servers: int) -> None:
    try:
        if record:
            record_apache()
        elif on is not None:
            run_suite(on, servers=servers, tests=tests)
        else:
            verdict = run_and_judge(tests)
            click.echo("\n".join(table(verdict)))
            sys.exit(not verdict.is_good)
    except (SuiteUnavailable, ReferenceUnavailable) as unavailable:
        raise click.ClickException(str(unavailable)) from None


if __name__ == "__main__":
    main()
