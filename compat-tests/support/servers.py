"""Servers as child processes on loopback: the Java one and ours, behind one interface.

    with start_reference() as server:
        client = KazooClient(hosts=server.host_port)

A test or a bench takes either kind (`start_server(kind)`); `ensembles.py` makes ensembles of both. What
always holds: ports are free ones; a server that was returned has answered; a server ends with its `with`
block or, at the latest, with this process; only processes started here are ever signalled.
"""

import atexit
import contextlib
import functools
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from typing import Literal, Self, TypeAlias

import attrs
import javaproperties

from support.patience import Patience
from support.reference import find_reference

Kind: TypeAlias = Literal["reference", "triokeeper"]
Settings: TypeAlias = Mapping[str, object] | str  # the keys of a zoo.cfg, or its text

HOST = "127.0.0.1"
COMPAT_TESTS = Path(__file__).resolve().parents[1]
CHECKOUT = COMPAT_TESTS.parent
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 15.0
POLL_SECONDS = 0.01
PORTS_BELOW_EPHEMERAL = range(10_000, 32_000)
_ports_given: set[int] = set()

DEFAULT_SETTINGS: Mapping[str, object] = {
    "tickTime": 2000,
    "clientPortAddress": HOST,
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "*",
}
OWN_SCRIPT_FLAGS = ("-Xmx1000m",)  # what bin/zkServer.sh gives the Java server
SMALL_FLAGS = ("-Xmx256m", "-XX:TieredStopAtLevel=1")  # for tests: starts sooner, takes less memory


class ServerFailed(Exception):
    """A server ended or stayed silent when it should have answered; the message ends with its log."""


_running: "weakref.WeakSet[Server]" = weakref.WeakSet()


@atexit.register
def _leave_nothing_running() -> None:
    for server in list(_running):
        server.kill9()


@attrs.define(eq=False)
class Server:
    """One server, running or not: the same ports, configuration and data through every restart.

    Its kind may change while it does not run: the other kind then starts on the same data.
    """

    kind: Kind
    jvm_flags: Sequence[str]
    home: Path  # zoo.cfg, java.env and server.log
    data_dir: Path
    port: int
    older: str | None = None  # an earlier release of the Java server
    _process: subprocess.Popen[bytes] | None = None

    @property
    def zoo_cfg(self) -> Path:
        return self.home / "zoo.cfg"

    @property
    def host_port(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was started"
        return self._process.pid

    @property
    def log_text(self) -> str:
        return (self.home / "server.log").read_text(errors="replace")

    def spawn(self) -> None:
        """Start the process and return at once; `wait_until_serving` is the other half of `start`."""
        assert self._process is None, "the server does not run yet"
        with (self.home / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                COMMANDS[self.kind](self),
                cwd=self.home,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        _running.add(self)

    def start(self) -> None:
        self.spawn()
        self.wait_until_serving()

    def wait_until_serving(
        self, seconds: float = START_SECONDS_MAX, poll_seconds: float = POLL_SECONDS
    ) -> None:
        """Return once `srvr` tells of a serving server; raise ServerFailed if it ends or takes too long."""
        patience = Patience(seconds)
        while not self.is_serving():
            if self.has_ended:
                raise self.failure("ended")
            if patience.is_over:
                raise self.failure(f"is silent after {seconds} s")
            time.sleep(poll_seconds)

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    @property
    def ended_by_itself(self) -> bool:
        return self._process is not None and self.has_ended

    def failure(self, how: str) -> ServerFailed:
        """What to raise when it did not do as it should: says how, and ends with its log."""
        return ServerFailed(f"the {self.kind} server {how}; the end of its log:\n{self.log_text[-4000:]}")

    def is_serving(self) -> bool:
        return self.mode is not None

    @property
    def mode(self) -> str | None:
        """What `srvr` calls it: standalone, leader, follower, observer or read-only; None if not serving."""
        return self.srvr().get("Mode")

    def srvr(self) -> dict[str, str]:
        """The lines of `srvr` by what stands before the colon; none if nobody answers."""
        try:  # A server that is about to serve may take a question and never answer it, hence the short wait.
            lines = self.four_letter_word("srvr", seconds=0.5).splitlines()
        except OSError:
            return {}
        return dict(line.split(": ", 1) for line in lines if ": " in line)

    def mntr(self) -> dict[str, str]:
        lines = self.four_letter_word("mntr").splitlines()
        return dict(line.split("\t", 1) for line in lines if "\t" in line)

    def four_letter_word(self, word: str, seconds: float = 10) -> str:
        with socket.create_connection((HOST, self.port), timeout=seconds) as probe:
            probe.sendall(word.encode())
            return b"".join(iter(lambda: probe.recv(65536), b"")).decode()

    def send_signal(self, number: Signals) -> None:
        """Any signal, e.g. SIGSTOP and SIGCONT for a server that hangs for a while."""
        assert self._process is not None, "the server was started"
        self._process.send_signal(number)

    def stop(self) -> int | None:
        """End it as an operator does, by force if it will not; its exit status, None if not running."""
        return self._end(SIGTERM)

    def kill9(self) -> int | None:
        return self._end(SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def _end(self, number: Signals) -> int | None:
        if self._process is None:
            return None
        process, self._process = self._process, None
        _running.discard(self)
        process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    @property
    def rss_bytes(self) -> int:
        pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    @property
    def cpu_seconds(self) -> float:
        """User and system time so far, of children it has waited for too."""
        after_name = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, after_name[11:15])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_reference(
    config: Settings = "",
    *,
    data_dir: Path | None = None,
    jvm_flags: Sequence[str] = OWN_SCRIPT_FLAGS,
    older: str | None = None,
) -> Server:
    """A serving Java server, of an older release if one is named; raises ReferenceUnavailable where there
    is none to be had."""
    return start_server("reference", config, data_dir=data_dir, jvm_flags=jvm_flags, older=older)


def start_triokeeper(config: Settings = "", *, data_dir: Path | None = None) -> Server:
    """A serving Triokeeper, from this checkout and this interpreter."""
    return start_server("triokeeper", config, data_dir=data_dir)


def start_server(
    kind: Kind,
    config: Settings = "",
    *,
    data_dir: Path | None = None,
    jvm_flags: Sequence[str] = OWN_SCRIPT_FLAGS,
    older: str | None = None,
) -> Server:
    server = prepare_server(kind, config, data_dir=data_dir, jvm_flags=jvm_flags)
    server.older = older
    try:
        server.start()
    except BaseException:
        server.kill9()
        raise
    return server


@functools.cache
def triokeeper_version() -> str:
    """What the command says of itself, such as 0.1.0."""
    command = [sys.executable, "-c", "from server.command import main; main()", "--version"]
    said = subprocess.run(command, env=_environment(), check=True, capture_output=True, text=True).stdout
    return said.split()[1]


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.environ.get("TRIOKEEPER_CODE", str(CHECKOUT))}


def prepare_server(
    kind: Kind,
    config: Settings = "",
    *,
    data_dir: Path | None = None,
    jvm_flags: Sequence[str] = OWN_SCRIPT_FLAGS,
) -> Server:
    """A server that was given its place and its zoo.cfg, but not started."""
    home = _temporary_folder()
    data_dir = data_dir or home / "data"
    data_dir.mkdir(exist_ok=True)
    place = {"dataDir": data_dir, "clientPort": free_ports(1)[0]}
    # Of equal keys the last one counts, so the caller has the last word.
    text = as_zoo_cfg(DEFAULT_SETTINGS) + as_zoo_cfg(place) + as_zoo_cfg(config)
    (home / "zoo.cfg").write_text(text)
    properties = " ".join(flag for flag in jvm_flags if flag.startswith("-D"))
    (home / "java.env").write_text(f'SERVER_JVMFLAGS="{properties}"\n')  # read by ours
    port = int(javaproperties.loads(text)["clientPort"])
    return Server(kind, jvm_flags, home, data_dir, port)


def as_zoo_cfg(settings: Settings) -> str:
    if isinstance(settings, str):
        return settings
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, from below the range that outgoing connections are given theirs from; never
    the same twice: a server may be given its ports long before it listens on them."""
    ports: list[int] = []
    while len(ports) < count:
        port = secrets.choice(PORTS_BELOW_EPHEMERAL)
        if port not in _ports_given:
            _ports_given.add(port)
            with contextlib.suppress(OSError), socket.socket() as probe:
                probe.bind((HOST, port))
                ports.append(port)
    return ports


def _temporary_folder() -> Path:
    """A folder that lasts as long as this process, so that logs can be read after a server has ended."""
    folder = tempfile.TemporaryDirectory(prefix="zk-server-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def _reference_command(server: Server) -> list[str]:
    """The command line that bin/zkServer.sh ends in."""
    reference = find_reference(server.older)
    return [
        reference.java,
        f"-Dzookeeper.log.dir={server.home}",
        "-XX:+HeapDumpOnOutOfMemoryError",
        "-XX:OnOutOfMemoryError=kill -9 %p",
        *("-cp", reference.class_path),
        *server.jvm_flags,
        "-Dcom.sun.management.jmxremote",
        "-Dcom.sun.management.jmxremote.local.only=false",
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        str(server.zoo_cfg),
    ]


def _triokeeper_command(server: Server) -> list[str]:
    """What the command `triokeeper` runs, but surely from this checkout, whatever is installed; or from the
    folder in TRIOKEEPER_CODE, such as build/compiled."""
    return [sys.executable, "-c", "from server.command import main; main()", "start", str(server.zoo_cfg)]


COMMANDS: Mapping[Kind, Callable[[Server], list[str]]] = {
    "reference": _reference_command,
    "triokeeper": _triokeeper_command,
}
