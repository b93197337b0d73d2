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
