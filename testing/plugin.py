"""The pytest plug-in: servers as fixtures.

    def test_election(zookeeper):                    # a part of the tree for this test alone
        client = KazooClient(hosts=zookeeper.hosts)

One server serves a whole run (with xdist, one for each worker), and each test has a namespace of its own in
it. `--zookeeper-hosts` runs the same tests against a server that is there already; tests that need to break
theirs are skipped then.
"""

import contextlib
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .ensemble import Ensemble
    from .server import Namespace, Server

_FIXTURES = {"zookeeper", "zookeeper_server", "zookeeper_ensemble", "make_zookeeper"}

_running = pytest.StashKey["list[Server]"]()  # members of ensembles included
_log_starts = pytest.StashKey[dict[int, int]]()  # by id of the server: how much it had logged before the test


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("zookeeper", "Triokeeper: a ZooKeeper server for tests")
    group.addoption(
        "--zookeeper-hosts",
        metavar="HOST:PORT,...",
        help="use this ZooKeeper instead of starting one; tests that control their server are skipped",
    )
    group.addoption(
        "--zookeeper-keep", action="store_true", help="keep the data and logs of the servers that tests start"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "zookeeper(**options): options of the servers this test starts, those of triokeeper.testing.Server",
    )
    config.stash[_running] = []


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_log_starts] = {id(server): server.log_size for server in item.config.stash[_running]}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows what its servers logged while it ran."""
    report = yield
    if report.failed and not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        starts = item.stash.get(_log_starts, {})
        for server in item.config.stash[_running]:
            title = f"log of ZooKeeper at {server.hosts}"
            if server.keep:
                title += f", its data kept in {server.data_dir}"
            report.sections.append((title, server.log_since(starts.get(id(server), 0))))
    return report


@contextlib.contextmanager
def _started(config: pytest.Config, server: Any) -> Iterator[Any]:
    """Start a Server or an Ensemble for the time of a fixture."""
    running = config.stash[_running]
    members = list(server) if hasattr(server, "__iter__") else [server]
    running.extend(members)
    try:
        with server:
            yield server
    finally:
        for member in members:
            running.remove(member)


def _options(request: pytest.FixtureRequest, **given: Any) -> dict[str, Any]:
    """What the test's marker says, the nearest first; what is given in the call beats it."""
    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("zookeeper"))):
        if marker.args:
            raise pytest.UsageError(f"the marker zookeeper takes options by name alone, not {marker.args}")
        options |= marker.kwargs
    return {"keep": request.config.getoption("--zookeeper-keep")} | options | given


def _need_own_server(request: pytest.FixtureRequest) -> None:
    if hosts := request.config.getoption("--zookeeper-hosts"):
        pytest.skip(f"--zookeeper-hosts={hosts}: this test starts and controls a server of its own")


@pytest.fixture(scope="session")
def zookeeper_server(request: pytest.FixtureRequest) -> "Iterator[Server]":
    """One server for all tests of the run; with xdist, one for each worker."""
    from .server import Server

    _need_own_server(request)
    with _started(request.config, Server(keep=request.config.getoption("--zookeeper-keep"))) as server:
        yield server


@pytest.fixture
def zookeeper(request: pytest.FixtureRequest) -> "Iterator[Namespace]":
    """A part of the tree that this test has to itself: connect to its `hosts`.

    A test with the marker `zookeeper` has a server to itself.
    """
    from .server import Server, namespace_at

    hosts = request.config.getoption("--zookeeper-hosts")
    if hosts and request.node.get_closest_marker("zookeeper") is None:
        with namespace_at(hosts) as namespace:
            yield namespace
    elif request.node.get_closest_marker("zookeeper") is None:
        with request.getfixturevalue("zookeeper_server").namespace() as namespace:
            yield namespace
    else:
        _need_own_server(request)
        with _started(request.config, Server(**_options(request))) as server, server.namespace() as namespace:
            yield namespace


@pytest.fixture
def zookeeper_ensemble(request: pytest.FixtureRequest) -> "Iterator[Ensemble]":
    """Three servers, for this test alone; the marker `zookeeper(size=5)` for more."""
    from .ensemble import Ensemble

    _need_own_server(request)
    with _started(request.config, Ensemble(**_options(request))) as ensemble:
        yield ensemble


@pytest.fixture
def make_zookeeper(request: pytest.FixtureRequest) -> "Iterator[Callable[..., Server]]":
    """Starts as many servers as the test asks for, with the options it gives."""
    from .server import Server

    _need_own_server(request)
    with contextlib.ExitStack() as stack:

        def make(**options: Any) -> Server:
            server: Server = stack.enter_context(
                _started(request.config, Server(**_options(request, **options)))
            )
            return server

        yield make
