"""The pytest plug-in: servers as fixtures.

    def test_election(zookeeper):                    # a part of the tree for this test alone
        client = KazooClient(hosts=zookeeper.hosts)

One server serves a whole run (with xdist, one for each worker), and each test has a namespace of its own in it.
`--zookeeper-hosts` runs the same tests against a server that is there already; tests that need to break
theirs are skipped then.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .ensemble import Ensemble
    from .server import Namespace, Server

_FIXTURES = ("zookeeper_server", "zookeeper_ensemble", "make_zookeeper")
_servers = pytest.StashKey[list[Any]]()


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
        "zookeeper(**options): the options of the servers that this test starts (triokeeper.testing.Server)",
    )
    config.stash[_servers] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[None]:
    """A failed test's report shows what its servers logged while it ran."""
    report = yield
    if report.failed:
        for server, start in item.stash.get(_log_starts, []):
            if lines := server.log[start:]:
                report.sections.append((f"log of the ZooKeeper server {server.hosts}", lines))
    return report


_log_starts = pytest.StashKey[list[tuple[Any, int]]]()


def _watch(request: pytest.FixtureRequest, server: Any) -> None:
    """Show the server's log, from here on, if this test fails."""
    request.node.stash.setdefault(_log_starts, []).append((server, len(server.log)))
