"""A OneServer kept busy by the steps of request_strategies.py."""

from typing import Any, assert_never

from jute.client_records import Acl, CreateRequest, Id
from jute.opcodes import OpCode
from server.client_protocol import OPEN
from tests.server.one_server import Client, OneServer
from tests.server.request_strategies import CLIENTS, Ask, Close, PassTime, Release, Step

PLANTED = ("/a", "/a/b", "/d", "/zookeeper/quota/a")  # without them, most of what is asked would fail


class BusyServer(OneServer):
    """Takes steps; whoever's session ends is replaced by a new client."""

    def __init__(self, **preparing: Any) -> None:
        super().__init__(ttl_nodes=True, **preparing)
        self.everyone: list[Client] = []
        self._present = [self._newcomer() for _ in range(CLIENTS)]
        for path in PLANTED:
            request = CreateRequest(path, b"", (Acl(31, Id("world", "anyone")),), 0)
            self._present[0].ask(OpCode.CREATE, request)

    def take(self, step: Step, *, receive: bool = True) -> None:
        match step:
            case Ask(index, (op, body)):
                self.present(index).send(1, op, body)
            case Release(count):
                self.release(min(count, self.sink.undurable))
            case Close(index):
                self.present(index).send(1, OpCode.CLOSE_SESSION)
            case PassTime(ms):
                self.pass_time(ms)
            case _:
                assert_never(step)
        if receive:
            for client in self.everyone:
                client.receive()

    def present(self, index: int) -> Client:
        """The client at this place; a new one if the last has gone or is about to."""
        if self._present[index].connection.state != OPEN:
            self._present[index] = self._newcomer()
        return self._present[index]

    def _newcomer(self) -> Client:
        client = self.connect(timeout_ms=4000)
        self.everyone.append(client)
        return client
