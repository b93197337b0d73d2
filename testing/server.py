"""One server for tests."""

import base64
import contextlib
import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from .child import Child, change_tree
from .errors import ServerError
from .relay import HOST, Relay

if TYPE_CHECKING:
    from .ensemble import Ensemble

SESSION_SECONDS_MAX = 60
INIT_SECONDS, SYNC_SECONDS = 10, 4
TLS_NOT_SERVED = "tls=True: this version of Triokeeper does not serve TLS; leave it out"


@dataclass(frozen=True)
class Session:
    """A client's session as the server knows it; `timeout` in seconds, `address` while connected here."""

    id: int
    timeout: float
    address: str | None
    ephemerals: list[str]


@dataclass(frozen=True)
class Namespace:
    """A part of a server's tree that one test has to itself: clients of `hosts` see it as the root."""

    hosts: str
    path: str


class Server:
    """A server in a process of its own, on a free port of this machine, with its data in a temporary folder.

    `config` holds keys of zoo.cfg, which beat the other arguments; `tick_time` is in seconds. The port and
    the data stay the same from the first start to `close`, whatever happens to the process in between.
    Any thread may call any method; failures raise ServerError with the end of the server's log.
    """

    admin_url: str | None = None  # not served by this version
    certs: object | None = None  # nor is TLS

    def __init__(
        self,
        *,
        config: Mapping[str, object] | None = None,
        tick_time: float = 0.2,
        port: int = 0,
        data_dir: str | os.PathLike[str] | None = None,
        tls: bool = False,
        keep: bool = False,
    ) -> None:
        if tls:
            raise ValueError(TLS_NOT_SERVED)
        self._home = Path(tempfile.mkdtemp(prefix="triokeeper-"))
        self.data_dir = Path(data_dir).absolute() if data_dir is not None else self._home / "data"
        self.keep = keep
        self._held_data_before = _has_content(self.data_dir)
        self._relay = Relay(port)
        self._settings = server_settings(tick_time, self.data_dir) | dict(config or {})
        self._child: Child | None = None
        self._lock = threading.RLock()
        self._ensemble: Ensemble | None = None

    # -- facts

    @property
    def port(self) -> int:
        return self._relay.port

    @property
    def hosts(self) -> str:
        """What a client is given to connect."""
        return f"{HOST}:{self.port}"

    @property
    def log(self) -> str:
        """All that the server has logged so far, over all its starts."""
        path = self._home / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.is_alive

    @property
    def _is_paused(self) -> bool:
        return self._child is not None and self._child.is_paused

    @property
    def answers(self) -> bool:
        """Whether its process runs and is not paused."""
        return self.is_running and not self._is_paused

    def join(self, ensemble: "Ensemble") -> None:
        """Be a member from now on."""
        self._ensemble = ensemble

    def __repr__(self) -> str:
        return f"<Server {self.hosts} {'running' if self.is_running else 'down'}>"

    # -- life

    def start(self) -> Self:
        """Start the server, unless it runs, and wait until it serves (in an ensemble, if others run)."""
        with self._lock:
            self.spawn()
            self.wait_until_up()
            if self._ensemble is not None:
                self._ensemble.wait_until_serving(self)
        return self

    def spawn(self) -> None:
        """Begin to start the server; `wait_until_up` must follow."""
        if self.is_running:
            return
        if self._child is not None:
            self._child.kill()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        config = self._home / "zoo.cfg"
        config.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        self._child = Child(config, self._home / "server.log")

    def wait_until_up(self) -> None:
        child = self._running()
        if not self._relay.is_open:
            self._relay.open(child.wait_ready())

    def stop(self) -> None:
        """Stop the server in good order; nothing if it does not run."""
        self._end(kindly=True)

    def kill(self) -> None:
        """Kill the server, as kill -9 does; nothing if it does not run."""
        self._end(kindly=False)

    def _end(self, *, kindly: bool) -> None:
        with self._lock:
            if self._child is None:
                return
            if kindly and self._is_paused:
                self.resume()
            child, self._child = self._child, None
            try:
                child.stop() if kindly and child.is_alive else child.kill()
            finally:
                self._relay.refuse()
                self._relay.silence(False)

    def restart(self) -> None:
        """Stop the server, if it runs, and start it."""
        with self._lock:
            self.stop()
            self.start()

    def reset(self) -> None:
        """Start again with nothing; sessions and nodes are gone, the port stays."""
        if self._held_data_before:
            raise ServerError(f"{self.data_dir} held data before this server used it: not emptied")
        if self._ensemble is not None:
            raise ServerError("a member of an ensemble would get its data back from the others: not emptied")
        with self._lock:
            self.stop()
            shutil.rmtree(self.data_dir, ignore_errors=True)
            self.start()

    def pause(self) -> None:
        """Stop the process (SIGSTOP): connections stay open, and nothing is answered."""
        with self._lock:
            child = self._running()
            self._relay.silence(True)
            if not child.is_paused:
                child.ask("settle")
                child.pause()

    def resume(self) -> None:
        """Let it go on. Sessions whose timeout passed meanwhile have expired."""
        with self._lock:
            if self._is_paused:
                child = self._running()
                child.resume()
                child.ask("judge")
                self._relay.silence(False)

    def close(self) -> None:
        """Stop the server, give its port back and, unless `keep` is set, delete its files."""
        with self._lock:
            try:
                self.stop()
            finally:
                self._relay.close()
                if not self.keep:
                    shutil.rmtree(self._home, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- faults

    def expire(self, session: int) -> None:
        """Expire a session now, whatever its timeout: its client learns of it as of any expiry."""
        owner = self._ensemble.wait_for_leader() if self._ensemble is not None else self
        owner.ask("expire", session=session)

    def drop_connections(self) -> None:
        """Break all connections of clients; they may come back at once."""
        self._relay.drop()

    @contextlib.contextmanager
    def refused(self) -> Iterator[None]:
        """In this block clients are disconnected, and new connections are refused."""
        target = self._relay.target_port
        self._relay.refuse()
        try:
            yield
        finally:
            if self.is_running:
                self._relay.open(target)

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """In this block nothing reaches the server and nothing leaves it, but connections stay open."""
        self._relay.silence(True)
        try:
            yield
        finally:
            self._relay.silence(self._is_paused)

    @contextlib.contextmanager
    def delayed(self, seconds: float) -> Iterator[None]:
        """In this block everything arrives so much later, in each direction."""
        before = self._relay.delay_seconds
        self._relay.delay(seconds)
        try:
            yield
        finally:
            self._relay.delay(before)

    # -- content

    def tree(self, path: str = "/") -> dict[str, bytes]:
        """The data of a node and of all below it, by full path; without /zookeeper."""
        return {node: base64.b64decode(data) for node, data in self.ask("tree", path=path).items()}

    def load(self, nodes: Mapping[str, str | bytes]) -> None:
        """Create nodes, their parents included; those that exist get the data."""
        encoded = {path: base64.b64encode(_as_bytes(data)).decode() for path, data in nodes.items()}
        self.ask("load", nodes=encoded)

    def sessions(self) -> list[Session]:
        """All sessions that the server knows of."""
        return [
            Session(each["id"], each["timeout_ms"] / 1000, each["address"], each["ephemerals"])
            for each in self.ask("sessions")
        ]

    @contextlib.contextmanager
    def namespace(self) -> Iterator[Namespace]:
        """A fresh part of the tree for one test, removed with all that is in it at the end of the block."""
        path = f"/test-{uuid.uuid4().hex[:12]}"
        self.load({path: b""})
        try:
            yield Namespace(f"{self.hosts}{path}", path)
        finally:
            if self.answers:
                self.ask("remove", path=path)

    def ask(self, what: str, **arguments: object) -> Any:
        return self._running().ask(what, **arguments)

    def _running(self) -> Child:
        if self._child is None:
            raise ServerError("the server is not running: start it first")
        return self._child


def server_settings(tick_time: float, data_dir: Path) -> dict[str, object]:
    """What zoo.cfg says unless the test does."""
    tick_ms = max(1, round(tick_time * 1000))
    return {
        "dataDir": data_dir,
        "clientPort": 0,
        "clientPortAddress": HOST,
        "tickTime": tick_ms,
        "minSessionTimeout": 2 * tick_ms,
        "maxSessionTimeout": max(SESSION_SECONDS_MAX * 1000, 2 * tick_ms),
        "initLimit": max(1, INIT_SECONDS * 1000 // tick_ms),
        "syncLimit": max(1, SYNC_SECONDS * 1000 // tick_ms),
        "maxClientCnxns": 0,
        "4lw.commands.whitelist": "*",
        "admin.enableServer": "false",
        "preAllocSize": 1024,
    }


def _has_content(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _as_bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


@contextlib.contextmanager
def namespace_at(hosts: str) -> Iterator[Namespace]:
    """A namespace on a server that is there already, of whatever kind. `hosts` may end in a chroot."""
    path = f"/test-{uuid.uuid4().hex[:12]}"
    change_tree(hosts, "make", path)
    try:
        yield Namespace(f"{hosts.rstrip('/')}{path}", path)
    finally:
        change_tree(hosts, "remove", path)
