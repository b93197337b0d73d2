"""Kazoo's test harness on this server: change one import, and tests written for `kazoo.testing` run here.

    from triokeeper.testing.kazoo import KazooTestCase

One server (or, with ZOOKEEPER_CLUSTER_SIZE=3 in the environment, an ensemble) serves all test cases of the
process; each test has a chroot of its own. `expire_session` is an expiry at the server, where Kazoo's own
harness only tells the client of one.
"""

import atexit
import os
import unittest
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.protocol.states import KazooState

from .ensemble import Ensemble
from .server import Server

LOST_SECONDS_MAX = 10
BACK_SECONDS_MAX = 30

_clusters: "list[Cluster]" = []


class Cluster:
    """The servers of all test cases."""

    def __init__(self, size: int) -> None:
        self._servers: Server | Ensemble = Server() if size == 1 else Ensemble(size)

    def start(self) -> None:
        self._servers.start()

    def stop(self) -> None:
        self._servers.stop()

    def terminate(self) -> None:
        """Stop, and forget everything."""
        self._servers.close()
        _clusters.clear()

    @property
    def hosts(self) -> str:
        return self._servers.hosts

    @property
    def servers(self) -> Server | Ensemble:
        return self._servers

    def __iter__(self) -> Iterator[Server]:
        return iter([self._servers] if isinstance(self._servers, Server) else self._servers)

    def __getitem__(self, index: int) -> Server:
        return list(self)[index]


def get_global_cluster() -> Cluster:
    """The cluster of this process, made when it is first asked for."""
    if not _clusters:
        _clusters.append(Cluster(int(os.environ.get("ZOOKEEPER_CLUSTER_SIZE", "1"))))
        atexit.register(_clusters[0].terminate)
    return _clusters[0]


class KazooTestHarness(unittest.TestCase):
    """Call `setup_zookeeper` before a test and `teardown_zookeeper` after it."""

    DEFAULT_CLIENT_TIMEOUT = 15

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.client: Any = None
        self.hosts = ""
        self._clients: list[Any] = []
        self._namespace = ExitStack()

    @property
    def cluster(self) -> Cluster:
        return get_global_cluster()

    @property
    def servers(self) -> str:
        """Where the servers are, without the test's chroot."""
        return self.cluster.hosts

    def setup_zookeeper(self, **client_options: Any) -> None:
        """Start the servers, unless they run, and a client with a chroot for this test."""
        self.cluster.start()
        self.hosts = self._namespace.enter_context(self.cluster.servers.namespace()).hosts
        self.client = self._get_client(**client_options)
        self.client.start()

    def teardown_zookeeper(self) -> None:
        """Stop all clients of the test and remove what it left behind."""
        while self._clients:
            client = self._clients.pop()
            try:
                client.stop()
            except KazooException:
                pass  # its session is over already
            finally:
                client.close()
        self.client = None
        self._namespace.close()

    def _get_client(self, **client_options: Any) -> Any:
        return self._new_client(self.hosts, **{"timeout": self.DEFAULT_CLIENT_TIMEOUT, **client_options})

    def _get_nonchroot_client(self) -> Any:
        return self._new_client(self.servers)

    def _new_client(self, hosts: str, **options: Any) -> Any:
        client = KazooClient(hosts, **options)
        self._clients.append(client)
        return client

    def lose_connection(self, event_factory: Callable[[], Any]) -> None:
        """Break the connections of all clients, and wait until `client` is back."""
        self._break(self._drop_connections, KazooState.SUSPENDED, event_factory)

    def expire_session(self, event_factory: Callable[[], Any]) -> None:
        """Expire the session of `client` at the server, and wait until it has a new one."""
        self._break(self._expire, KazooState.LOST, event_factory)

    def _drop_connections(self) -> None:
        for server in self.cluster:
            server.drop_connections()

    def _expire(self) -> None:
        self.cluster.servers.expire(self.client.client_id[0])

    def _break(self, how: Callable[[], None], wanted: str, event_factory: Callable[[], Any]) -> None:
        lost, back = event_factory(), event_factory()

        def watch(state: str) -> bool | None:
            if state == wanted:
                lost.set()
            elif lost.is_set() and state == KazooState.CONNECTED:
                back.set()
                return True
            return None

        self.client.add_listener(watch)
        how()
        for event, seconds, what in (
            (lost, LOST_SECONDS_MAX, f"the client did not become {wanted}"),
            (back, BACK_SECONDS_MAX, "the client did not come back"),
        ):
            event.wait(seconds)
            if not event.is_set():
                raise AssertionError(f"{what} within {seconds} s")
        self.client.retry(self.client.get, "/")


class KazooTestCase(KazooTestHarness):
    """A test case with a client and a chroot of its own."""

    def setUp(self) -> None:
        self.setup_zookeeper()

    def tearDown(self) -> None:
        self.teardown_zookeeper()
