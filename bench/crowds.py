"""Thousands of clients at the same moment: `python -m bench.crowds --how new --clients 10000`.

What every fail-over brings. `new`: all connect. `returning`: all lost their connections, and come back with
their sessions. `failover`: they are spread over three servers whose leader is killed. `event`: all watch one
node, and it changes. Prints how long it took until the first half, and until each of them, had what it waited
for, and for how long Triokeeper's loop was held meanwhile.

The clients are one process with an epoll set. It and the server need an open file for each (ulimit -n).
"""

import argparse
import json
import select
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from struct import pack, unpack_from
from typing import Literal, TypeAlias, get_args

from bench.load import LoadFailed
from support.ensembles import start_ensemble
from support.servers import HOST, Kind, Server, start_server

How: TypeAlias = Literal["new", "returning", "failover", "event"]

SESSION_MS = 40_000
SECONDS_MAX = 120.0
RETRY_SECONDS = 0.02  # before a client that was turned away tries the next server
_SET_DATA, _EXISTS, _SET_WATCHES = 5, 3, 101
# The same for both: what the system allows is Triokeeper's default, and the Java server's is 50.
BACKLOG = int(Path("/proc/sys/net/core/somaxconn").read_text())
SETTINGS = {"maxClientCnxns": 0, "clientPortListenBacklog": BACKLOG}


def text(value: bytes) -> bytes:
    return pack(">i", len(value)) + value


def _frame(op: int, body: bytes) -> bytes:
    return text(pack(">ii", 1, op) + body)


def watching(paths: int) -> bytes:
    """A setWatches of so many paths that nobody creates, for whoever comes back."""
    lists = pack(">i", paths) + b"".join(text(b"/nothing/%d" % n) for n in range(paths))
    return pack(">qi", 0, 0) + lists + pack(">i", 0)


class Client:
    """A session, on one connection after another."""

    __slots__ = ("incoming", "is_heard", "outgoing", "port_index", "secret", "session", "socket")

    def __init__(self, port_index: int) -> None:
        self.port_index = port_index
        self.session, self.secret = 0, bytes(16)
        self.socket: socket.socket | None = None
        self.outgoing = self.incoming = b""
        self.is_heard = False


class Crowd:
    """Clients that all do the same, as fast as they can."""

    def __init__(self, ports: Sequence[int], count: int, session_ms: int = SESSION_MS) -> None:
        self.ports = list(ports)
        self._session_ms = session_ms
        self.clients = [Client(n % len(ports)) for n in range(count)]
        self._poll = select.epoll()
        self._by_fd: dict[int, Client] = {}
        self._again: list[tuple[float, Client]] = []  # in the order of their times
        self._more = b""  # that each sends once it has its session

    def close(self) -> None:
        """Without a word: the sessions live on."""
        for client in self.clients:
            self._hang_up(client)

    def connect(self, watches: int = 0) -> list[float]:
        """Get a session for each, or its own back, and set watches; the seconds that each had to wait."""
        began = time.monotonic()
        self._more = _frame(_SET_WATCHES, watching(watches)) if watches else b""
        for client in self.clients:
            self._dial(client)
        return self._until_all_are_heard(began)

    def reconnect(self, ports: Sequence[int], watches: int = 0) -> list[float]:
        """The same for clients whose servers went away: each notices that, and tries the others."""
        began = time.monotonic()
        self.ports = list(ports)
        self._more = _frame(_SET_WATCHES, watching(watches)) if watches else b""
        for client in self.clients:
            client.is_heard = False
        return self._until_all_are_heard(began)

    def ask(self, op: int, body: bytes) -> list[float]:
        """Each asks the same; the seconds until its answer."""
        began = time.monotonic()
        frame = _frame(op, body)
        for client in self.clients:
            client.is_heard = False
            if client.socket is None:
                raise LoadFailed("the server hung up on a client that had its session")
            client.socket.send(frame)
        return self._until_all_are_heard(began)

    def hear_an_event(self, cause: Callable[[], object]) -> list[float]:
        """Bring about what all of them watch; the seconds until each is told."""
        for client in self.clients:
            client.is_heard = False
        began = time.monotonic()
        cause()
        return self._until_all_are_heard(began)

    # -- one client

    def _dial(self, client: Client) -> None:
        client.is_heard, client.incoming = False, b""
        handshake = pack(">iqiq", 0, 0, self._session_ms, client.session) + text(client.secret) + b"\0"
        client.outgoing = text(handshake)
        client.socket = socket.socket()
        client.socket.setblocking(False)
        client.socket.connect_ex((HOST, self.ports[client.port_index % len(self.ports)]))
        self._by_fd[client.socket.fileno()] = client
        self._poll.register(client.socket, select.EPOLLOUT)

    def _hang_up(self, client: Client) -> None:
        if client.socket is not None:
            del self._by_fd[client.socket.fileno()]
            client.socket.close()
            client.socket = None

    def _lost(self, client: Client) -> None:
        """Try the next server, unless the client has what it waited for."""
        self._hang_up(client)
        if not client.is_heard:
            client.port_index += 1
            self._again.append((time.monotonic() + RETRY_SECONDS, client))

    def _until_all_are_heard(self, began: float) -> list[float]:
        waits: list[float] = []
        while len(waits) < len(self.clients):
            now = time.monotonic()
            if now > began + SECONDS_MAX:
                raise LoadFailed(f"after {SECONDS_MAX:.0f} s only {len(waits)} clients have what they want")
            while self._again and self._again[0][0] <= now:
                self._dial(self._again.pop(0)[1])
            for fd, event in self._poll.poll(RETRY_SECONDS, 1024):
                client = self._by_fd.get(fd)
                if client is None:
                    continue
                was_heard = client.is_heard
                self._serve(client, event)
                if client.is_heard and not was_heard:
                    waits.append(time.monotonic() - began)
        return waits

    def _serve(self, client: Client, event: int) -> None:
        assert client.socket is not None
        try:
            if client.outgoing and event & select.EPOLLOUT:
                sent = client.socket.send(client.outgoing)
                client.outgoing = client.outgoing[sent:]
                if not client.outgoing:
                    self._poll.modify(client.socket, select.EPOLLIN)
            elif event & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                received = client.socket.recv(65536)
                client.incoming += received
                self._take(client)
                if not received:
                    self._lost(client)
        except BlockingIOError:
            return
        except OSError:
            self._lost(client)

    def _take(self, client: Client) -> None:
        while len(client.incoming) >= 4:
            end = 4 + unpack_from(">i", client.incoming)[0]
            if len(client.incoming) < end:
                return
            frame, client.incoming = client.incoming[4:end], client.incoming[end:]
            self._hear(client, frame)

    def _hear(self, client: Client, frame: bytes) -> None:
        is_connect_response = len(frame) in (36, 37) and unpack_from(">i", frame)[0] == 0
        if not is_connect_response:
            client.is_heard = True
            return
        session = unpack_from(">q", frame, 8)[0]
        if not session:
            raise LoadFailed("a session was gone")
        client.session, client.secret = session, frame[20:36]
        if self._more:
            client.outgoing = self._more
            assert client.socket is not None
            self._poll.modify(client.socket, select.EPOLLOUT)
        else:
            client.is_heard = True


def measure(kind: Kind, how: How, count: int, watches: int) -> dict[str, object]:
    with ExitStack() as over:
        if how == "failover":
            ensemble = over.enter_context(start_ensemble([kind] * 3, SETTINGS))
            leader = ensemble.wait_for_leader()
            servers = [ensemble[server_id] for server_id in ensemble.ids]
        else:
            servers = [over.enter_context(start_server(kind, SETTINGS))]
        crowd = Crowd([server.port for server in servers], count)
        over.callback(crowd.close)
        waits = crowd.connect(0 if how != "new" else watches)
        if how == "returning":
            crowd.close()
            waits = crowd.connect(watches)
        elif how == "failover":
            ensemble[leader].kill9()
            servers = [ensemble[server_id] for server_id in ensemble.running]
            waits = crowd.reconnect([server.port for server in servers], watches)
        elif how == "event":
            waits = change_what_all_watch(crowd, servers[0])
        return {
            "kind": kind,
            "how": how,
            "clients": count,
            "watches of each": watches,
            "median s": round(median(waits), 3),
            "last s": round(waits[-1], 3),
            **longest_holds(servers),
            "RSS MB": [round(server.rss_bytes / 1e6) for server in servers],
        }


def change_what_all_watch(crowd: Crowd, server: Server) -> list[float]:
    crowd.ask(_EXISTS, text(b"/zookeeper") + b"\1")
    writer = Crowd([server.port], 1)
    try:
        writer.connect()
        change = text(b"/zookeeper") + text(b"x") + pack(">i", -1)
        return crowd.hear_an_event(lambda: writer.ask(_SET_DATA, change))
    finally:
        writer.close()


def longest_holds(servers: Sequence[Server]) -> dict[str, object]:
    """Of the loops of Triokeeper's servers; the Java server has none."""
    holds = [server.mntr().get("zk_triokeeper_loop_held_us_max") for server in servers]
    return {"loop held ms": [round(float(us) / 1000) for us in holds if us is not None]}


def main() -> None:
    parser = argparse.ArgumentParser(description="See how soon a crowd is served.")
    parser.add_argument("--kind", choices=get_args(Kind), default="triokeeper")
    parser.add_argument("--how", choices=get_args(How), default="new")
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--watches", type=int, default=0, help="that each sets when it is there")
    options = parser.parse_args()
    result = measure(options.kind, options.how, options.clients, options.watches)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
