"""A test case written for Kazoo's harness, with one import changed."""

import threading

from testing.kazoo import KazooTestCase, get_global_cluster


class TestKazooCase(KazooTestCase):
    @classmethod
    def tearDownClass(cls) -> None:
        get_global_cluster().terminate()

    def test_client(self) -> None:
        self.client.create("/a")
        assert self.client.get_children("/") == ["a"]
        assert self.hosts.startswith(self.servers + "/")

    def test_lost_connection(self) -> None:
        self.lose_connection(threading.Event)
        assert self.client.connected

    def test_expired_session(self) -> None:
        session = self.client.client_id[0]
        self.client.create("/mine", ephemeral=True)
        self.expire_session(threading.Event)
        assert self.client.client_id[0] != session
        assert not self.client.exists("/mine")

    def test_a_server_of_the_cluster_can_be_stopped(self) -> None:
        (server,) = self.cluster
        assert self.cluster[0] is server
        server.stop()
        server.start()
        self.client.retry(self.client.create, "/a")
        self.cluster.stop()
        assert not server.is_running
        self.cluster.start()
        assert self.client.retry(self.client.exists, "/a")

    def test_clients_end_with_the_test(self) -> None:
        other = self._get_client()
        other.start()
        unchrooted = self._get_nonchroot_client()
        unchrooted.start()
        assert self.hosts.removeprefix(self.servers) in {f"/{name}" for name in unchrooted.get_children("/")}
        path = self.hosts.removeprefix(self.servers)
        self.teardown_zookeeper()
        assert self.client is None
        assert not other.connected
        assert not unchrooted.connected
        assert path not in self.cluster.servers.tree()
