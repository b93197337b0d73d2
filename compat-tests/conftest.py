"""The adapter: what `--server` says the tests run against, as fixtures; and the report of a run.

A test that takes none of `target`, `kind`, `service`, `restartable` and `ensemble` starts servers of its own,
most often one of each kind to compare them, so `--server` does not change it.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from support.fixtures import reference
from support.report import Report
from support.servers import Kind
from support.targets import Address, Service, Target, TargetUnavailable, parse_targets, restore

__all__ = ["reference"]

COMPATIBILITY = Path(__file__).resolve().parents[1] / "docs" / "COMPATIBILITY.md"
TARGETS = pytest.StashKey[list[Target]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("compatibility")
    group.addoption(
        "--server",
        default="triokeeper",
        metavar="TARGET",
        help="triokeeper, reference (Apache ZooKeeper), both, docker:IMAGE or HOST:PORT[,HOST:PORT...]",
    )
    group.addoption(
        "--report",
        type=Path,
        metavar="FOLDER",
        help="write what passed on which server there, as text, HTML and JSON",
    )
    group.addoption(
        "--write-docs",
        action="store_true",
        help="with --report and --server=both: write the counts of folders into docs/COMPATIBILITY.md",
    )


def pytest_configure(config: pytest.Config) -> None:
    try:
        targets = parse_targets(config.getoption("--server"))
    except ValueError as wrong:
        raise pytest.UsageError(f"--server: {wrong}") from None
    for target in targets:
        if isinstance(target, Address):
            try:
                target.check()
            except TargetUnavailable as reason:
                raise pytest.UsageError(str(reason)) from None
    config.stash[TARGETS] = targets
    if folder := config.getoption("--report"):
        docs = COMPATIBILITY if config.getoption("--write-docs") else None
        if docs and {target.kind for target in targets} != {"triokeeper", "reference"}:
            raise pytest.UsageError("--write-docs is about both kinds of servers: --server=both")
        config.pluginmanager.register(Report(folder, targets, docs), "compat-report")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "target" in metafunc.fixturenames:
        targets = metafunc.config.stash[TARGETS]
        ids = [target.name for target in targets]
        metafunc.parametrize("target", targets, ids=ids, indirect=True, scope="module")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what the targets make no difference to, where they are not of the kinds that it starts itself."""
    kinds = {target.kind for target in config.stash[TARGETS]}
    here = Path(__file__).parent
    for item in items:
        if here not in item.path.parents or "target" in getattr(item, "fixturenames", ()):
            continue
        if item.get_closest_marker("triokeeper_alone") and kinds == {"reference"}:
            item.add_marker(pytest.mark.skip("it is about what Triokeeper promises beyond Apache ZooKeeper"))
        if kinds == {None}:
            item.add_marker(
                pytest.mark.skip("it starts servers of its own, so it has nothing to say about the given one")
            )


@pytest.fixture(scope="module")
def target(request: pytest.FixtureRequest) -> Target:
    chosen: Target = request.param
    try:
        chosen.title()
    except TargetUnavailable as reason:
        pytest.skip(str(reason))
    return chosen


@pytest.fixture(scope="module")
def kind(target: Target) -> Kind:
    """The kind of all servers that the test starts."""
    if target.kind is None:
        pytest.skip(f"it starts servers of its own, and {target.name} is none that it could start")
    return target.kind


def _or_skip(start: Callable[[], AbstractContextManager[Service]]) -> Iterator[Service]:
    with ExitStack() as stack:
        try:
            service = stack.enter_context(start())
        except TargetUnavailable as reason:
            pytest.skip(str(reason))
        yield service


@pytest.fixture(scope="module")
def service(target: Target) -> Iterator[Service]:
    """A service that clients may use as they like; the tests of a file share it."""
    yield from _or_skip(target.one)


@pytest.fixture(scope="module")
def _restartable(target: Target) -> Iterator[Service]:
    yield from _or_skip(target.restartable)


@pytest.fixture
def restartable(_restartable: Service) -> Iterator[Service]:
    """One server that the test may end and start; the tests of a file share it."""
    yield _restartable
    restore(_restartable)


@pytest.fixture(scope="module")
def _ensemble(target: Target) -> Iterator[Service]:
    yield from _or_skip(target.ensemble)


@pytest.fixture
def ensemble(_ensemble: Service) -> Iterator[Service]:
    """Three servers that the test may end and start; the tests of a file share them."""
    yield _ensemble
    restore(_ensemble)
