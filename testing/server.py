"""One server for tests."""

import base64
import contextlib
import os
import re
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
LOADED_AT_ONCE = 500  # nodes of one request: each is answered within the time that a server has for it
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
        if not tick_time > 0:
            raise ValueError(f"tick_time={tick_time}: a tick takes more than 0 seconds")
        given = dict(config or {})
        self._owner_pid = os.getpid()
        self.keep = keep
        with contextlib.ExitStack() as undo:
            self._relay = Relay(_port(given.pop("clientPort", port)))
            undo.callback(self._relay.close)
            self._home = Path(tempfile.mkdtemp(prefix="triokeeper-"))
            undo.callback(shutil.rmtree, self._home, ignore_errors=True)
            given["dataDir"] = self.data_dir = _folder(
                given.get("dataDir") or data_dir or self._home / "data"
            )
            self._data_dirs = [self.data_dir]
            if "dataLogDir" in given:
                given["dataLogDir"] = log_dir = _folder(given["dataLogDir"])
                self._data_dirs.append(log_dir)
            self._held_data_before = any(map(_has_content, self._data_dirs))
            undo.pop_all()
        self._settings = server_settings(given.get("tickTime"), tick_time) | given
        self._child: Child | None = None
        self._target_port = 0  # where it listens, once it does
        self._refusals = self._silences = 0  # blocks of `refused` and `silent` that have not ended
        self._is_closed = False
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
        return self.log_since(0)

    @property
    def log_size(self) -> int:
        """How many bytes it has logged so far."""
        path = self._home / "server.log"
        return path.stat().st_size if path.exists() else 0

    def log_since(self, size: int) -> str:
        """What it has logged since `log_size` was this."""
        path = self._home / "server.log"
        if not path.exists():
            return ""
        with path.open("rb") as file:
            file.seek(size)
            return file.read().decode(errors="replace")

    @property
    def is_running(self) -> bool:
        child = self._child
        return child is not None and child.is_alive

    @property
    def _is_paused(self) -> bool:
        child = self._child
        return child is not None and child.is_paused

    @property
    def answers(self) -> bool:
        """Whether its process runs and is not paused."""
        return self.is_running and not self._is_paused

    def join(self, ensemble: "Ensemble", member: int) -> None:
        """Be this member from now on."""
        self._ensemble = ensemble
        self.data_dir.mkdir(parents=True)
        (self.data_dir / "myid").write_text(f"{member}\n")

    def __repr__(self) -> str:
        return f"<Server {self.hosts} {'running' if self.is_running else 'down'}>"

    # -- life

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """In this block no other thread changes the server."""
        self._check_process()
        with self._lock:
            yield

    def _check_process(self) -> None:
        if os.getpid() != self._owner_pid:
            raise ServerError(
                f"this server belongs to process {self._owner_pid}, of which this one is a fork: "
                "use its hosts here, or make another server"
            )

    def start(self) -> Self:
        """Start the server, unless it runs, and wait until it serves (in an ensemble, if others run)."""
        with self._held():
            self.spawn()
            self.wait_until_up()
            if self._ensemble is not None:
                self._ensemble.wait_until_serving(self)
        return self

    def spawn(self) -> None:
        """Begin to start the server; `wait_until_up` must follow."""
        with self._held():
            if self._is_closed:
                raise ServerError("this server was closed, and its port given back: make another")
            if self.is_running:
                return
            if self._child is not None:
                self.kill()
            try:
                self.data_dir.mkdir(parents=True, exist_ok=True)
                config = self._home / "zoo.cfg"
                config.write_text(properties_text(self._settings), encoding="ascii")
                self._child = Child(config, self._home / "server.log")
            except OSError as failure:
                raise ServerError(f"cannot start a server on {self.data_dir}: {failure}") from failure

    def wait_until_up(self) -> None:
        with self._held():
            child = self._running()
            if not self._target_port:
                self._target_port = child.wait_ready()
                self._tell_relay()

    def _tell_relay(self) -> None:
        """Let clients in, and what they say through, as far as nothing is against it."""
        self._relay.silence(self._silences > 0 or self._is_paused)
        if self._child is not None and self._target_port and not self._refusals:
            self._relay.open(self._target_port, self._child.pid)
        else:
            self._relay.refuse()

    def stop(self) -> None:
        """Stop the server in good order; nothing if it does not run."""
        self._end(kindly=True)

    def kill(self) -> None:
        """Kill the server, as kill -9 does; nothing if it does not run."""
        self._end(kindly=False)

    def _end(self, *, kindly: bool) -> None:
        with self._held():
            child, self._child, self._target_port = self._child, None, 0
            if child is None:
                return
            try:
                if kindly and child.is_alive:
                    child.resume()
                    child.stop()
                else:
                    child.kill()
            finally:
                self._tell_relay()

    def restart(self) -> None:
        """Stop the server, if it runs, and start it."""
        with self._held():
            self.stop()
            self.start()

    def reset(self) -> None:
        """Start again with nothing; sessions and nodes are gone, the port stays."""
        if self._held_data_before:
            raise ServerError(f"{self.data_dir} held data before this server used it: not emptied")
        if self._ensemble is not None:
            raise ServerError("a member of an ensemble would get its data back from the others: not emptied")
        with self._held():
            self.stop()
            for folder in self._data_dirs:
                if (folder / "version-2").exists():  # there is nothing of the server's elsewhere
                    shutil.rmtree(folder / "version-2")
            self.start()

    def pause(self) -> None:
        """Stop the process (SIGSTOP): connections stay open, and nothing is answered."""
        with self._held():
            child = self._running()
            if child.is_paused:
                return
            self._relay.silence(True)
            try:
                child.ask("settle")
                child.pause()
            finally:
                self._tell_relay()

    def resume(self) -> None:
        """Let it go on. Sessions whose timeout passed meanwhile have expired."""
        with self._held():
            if self._is_paused:
                child = self._running()
                child.resume()
                try:
                    child.ask("judge")
                finally:
                    self._tell_relay()

    def close(self) -> None:
        """Stop the server, give its port back and, unless `keep` is set, delete its files."""
        if os.getpid() != self._owner_pid:
            return  # a fork of the process that it belongs to ends
        with self._held(), contextlib.ExitStack() as stack:
            self._is_closed = True
            if not self.keep:
                stack.callback(shutil.rmtree, self._home, ignore_errors=True)
            stack.callback(self._relay.close)
            stack.callback(self.stop)

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
        if not isinstance(session, int):
            raise TypeError(f"session={session!r}: a session's id is an int, Kazoo's client.client_id[0]")
        owner = self._ensemble.wait_for_leader() if self._ensemble is not None else self
        owner.ask("expire", session=session)

    def drop_connections(self) -> None:
        """Break all connections of clients; they may come back at once."""
        with self._held():
            self._relay.drop()

    @contextlib.contextmanager
    def refused(self) -> Iterator[None]:
        """In this block clients are disconnected, and new connections are refused."""
        self._count_refusals(1)
        try:
            yield
        finally:
            self._count_refusals(-1)

    def _count_refusals(self, change: int) -> None:
        with self._held():
            self._refusals += change
            self._tell_relay()

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """In this block nothing reaches the server and nothing leaves it, but connections stay open."""
        self._count_silences(1)
        try:
            yield
        finally:
            self._count_silences(-1)

    def _count_silences(self, change: int) -> None:
        with self._held():
            self._silences += change
            self._tell_relay()

    @contextlib.contextmanager
    def delayed(self, seconds: float) -> Iterator[None]:
        """In this block everything arrives so much later, in each direction. Nested blocks add up."""
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"seconds={seconds}: a delay is 0 or more")
        self._add_delay(seconds)
        try:
            yield
        finally:
            self._add_delay(-seconds)

    def _add_delay(self, seconds: float) -> None:
        with self._held():
            self._relay.delay(max(0.0, self._relay.delay_seconds + seconds))

    # -- content

    def tree(self, path: str = "/") -> dict[str, bytes]:
        """The data of a node and of all below it, by full path; without /zookeeper."""
        return {node: base64.b64decode(data) for node, data in self.ask("tree", path=path).items()}

    def load(self, nodes: Mapping[str, str | bytes]) -> None:
        """Create nodes, their parents included; those that exist get the data."""
        encoded = [(path, base64.b64encode(_as_bytes(data)).decode()) for path, data in nodes.items()]
        for at in range(0, len(encoded), LOADED_AT_ONCE):
            self.ask("load", nodes=dict(encoded[at : at + LOADED_AT_ONCE]))

    def sessions(self) -> list[Session]:
        """All sessions that the server knows of."""
        return [
            Session(each["id"], each["timeout_ms"] / 1000, each["address"], each["ephemerals"])
            for each in self.ask("sessions")
        ]

    @contextlib.contextmanager
    def namespace(self) -> Iterator[Namespace]:
        """A fresh part of the tree for one test, removed with all that is in it at the end of the block."""
        path = fresh_path()
        self.load({path: b""})
        try:
            yield Namespace(f"{self.hosts}{path}", path)
        finally:
            if self.answers:
                self.ask("remove", path=path)

    def ask(self, what: str, **arguments: object) -> Any:
        self._check_process()
        return self._running().ask(what, **arguments)

    def _running(self) -> Child:
        child = self._child
        if child is None:
            raise ServerError("the server is not running: start it first")
        return child


def server_settings(configured_tick_ms: object, tick_time: float) -> dict[str, object]:
    """What zoo.cfg says unless the test does; a tick that the server will refuse counts for nothing here."""
    tick_ms = max(1, round(tick_time * 1000))
    if re.fullmatch("[1-9][0-9]{0,8}", str(configured_tick_ms)):
        tick_ms = int(str(configured_tick_ms))
    return {
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


def properties_text(settings: Mapping[str, object]) -> str:
    """A zoo.cfg that says this, whatever characters are in it."""
    return "".join(f"{_key(key)}={_value(value)}\n" for key, value in settings.items())


def _key(key: str) -> str:
    return re.sub(r"([=: #!])", r"\\\1", _value(key))


def _value(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return re.sub(r"^ |[^ -~]|\\", _escape, text)


def _escape(match: re.Match[str]) -> str:
    if match[0] in " \\":
        return f"\\{match[0]}"
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _port(port: object) -> int:
    if not isinstance(port, int | str) or not re.fullmatch("[0-9]{1,5}", str(port)) or int(port) > 0xFFFF:
        raise ValueError(f"port={port}: a port is a number from 0, for any free one, to 65535")
    return int(port)


def _folder(path: object) -> Path:
    return Path(str(path)).absolute()


def _has_content(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _as_bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def fresh_path() -> str:
    return f"/test-{uuid.uuid4().hex[:12]}"


@contextlib.contextmanager
def namespace_at(hosts: str) -> Iterator[Namespace]:
    """A namespace on a server that is there already, of whatever kind. `hosts` may end in a chroot."""
    path = fresh_path()
    change_tree(hosts, "make", path)
    try:
        yield Namespace(f"{hosts.rstrip('/')}{path}", path)
    finally:
        change_tree(hosts, "remove", path)
