"""`triokeeper dev`: a whole ensemble on this machine, to try things out with.

Every member is a child process, `triokeeper start` with a zoo.cfg of its own in a folder of its own, so that
one can be killed while the others go on. Commands come in lines on standard input. What always holds:

  1. No member outlives this process: members are stopped when it ends in order, and the kernel ends them when
     it does not (PR_SET_PDEATHSIG; that is why they are started from the main thread, which stays).
  2. Ports and data of a member stay the same through all its restarts.
"""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs
import trio

from jute.properties_text import escaped

HOST = "127.0.0.1"
QUORUM_OFFSET = 700  # from the client port: 2181, 2881 and 3881 unless told otherwise
ELECTION_OFFSET = 1700

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 10.0
ANSWER_SECONDS_MAX = 1.0
POLL_SECONDS = 0.05

SETTINGS = """\
tickTime=2000
initLimit=10
syncLimit=5
clientPortAddress=127.0.0.1
maxClientCnxns=0
4lw.commands.whitelist=*
admin.enableServer=false
"""
# Run in the child, before it becomes the server. SIGTERM: it shall still flush and say goodbye. The kernel
# tells only of a parent that ends from now on; one that has ended already is not our parent any more.
CHILD_PROGRAM = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv.pop(1)):
    sys.exit("triokeeper dev has ended")
sys.path.insert(0, sys.argv.pop(1))
from server.cli import main
main()
"""
HELP = """\
status      what every member does
leader      who leads
kill N      kill -9
stop N      as an operator does
start N     start it again, on the same data
restart N   stop, then start
help        this
quit        stop all members and end; Ctrl-C does the same"""

Say = Callable[[str], None]


class DevError(Exception):
    """The ensemble cannot be started; the message says why and what would help."""


# -- the members and their configuration


@attrs.frozen
class Member:
    """Where one member lives."""

    server_id: int
    client_port: int
    is_observer: bool
    folder: Path  # zoo.cfg, server.log and data

    @property
    def server_line(self) -> str:
        ports = f"{self.client_port + QUORUM_OFFSET}:{self.client_port + ELECTION_OFFSET}"
        role = ":observer" if self.is_observer else ""
        return f"server.{self.server_id}={HOST}:{ports}{role}"

    @property
    def ports(self) -> tuple[int, ...]:
        return tuple(self.client_port + offset for offset in (0, QUORUM_OFFSET, ELECTION_OFFSET))

    @property
    def log_file(self) -> Path:
        return self.folder / "server.log"


def plan_members(servers: int, observers: int, base_port: int, folder: Path) -> list[Member]:
    """Voters first, then observers; client ports are base_port and those that follow it."""
    return [
        Member(number, base_port + number - 1, number > servers, folder / f"server.{number}")
        for number in range(1, servers + observers + 1)
    ]


def zoo_cfg_of(member: Member, members: Sequence[Member]) -> str:
    data_dir = escaped(str(member.folder / "data"))
    own = f"dataDir={data_dir}\nclientPort={member.client_port}\n"
    if len(members) > 1:  # else one voter with observers would be refused
        own += "standaloneEnabled=false\n"
    lines = [each.server_line for each in members]
    return SETTINGS + own + "".join(f"{line}\n" for line in lines)


def connect_string(members: Sequence[Member]) -> str:
    return ",".join(f"{HOST}:{member.client_port}" for member in members)


def prepare_folders(members: Sequence[Member]) -> None:
    for member in members:
        data = member.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(f"{member.server_id}\n")
        (member.folder / "zoo.cfg").write_text(zoo_cfg_of(member, members))


def refuse_taken_ports(members: Sequence[Member]) -> None:
    for port in (port for member in members for port in member.ports):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except (OSError, OverflowError) as problem:
                raise DevError(
                    f"port {port} cannot be used ({problem}): choose another --base-port"
                ) from None


# -- one child process


@attrs.define(eq=False)
class Child:
    """A member's process, running or not. `ending` is how it was last ended, empty if it never was."""

    member: Member
    command: Sequence[str]
    ending: str = ""
    _process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self.is_running else None

    def start(self) -> None:
        assert not self.is_running
        environment = {**os.environ, "TRIOKEEPER_LOG": os.environ.get("TRIOKEEPER_LOG", "plain")}
        with self.member.log_file.open("ab") as output:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,  # Ctrl-C at the terminal is for us alone
            )

    async def end(self, number: signal.Signals) -> None:
        """Send it the signal and wait; after too long a wait kill it."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        self.ending = "killed" if number == signal.SIGKILL else "stopped"
        process.send_signal(number)
        with trio.move_on_after(STOP_SECONDS_MAX) as patience:
            await _exit_of(process)
        if patience.cancelled_caught:
            self.ending = "killed, because it did not stop"
            process.kill()
            await _exit_of(process)

    def note_own_end(self) -> bool:
        """Whether it has ended without being asked to, since it was last looked at."""
        if self._process is None or (code := self._process.poll()) is None:
            return False
        self._process = None
        self.ending = f"ended by itself with exit code {code}, see {self.member.log_file}"
        return True


async def _exit_of(process: subprocess.Popen[bytes]) -> None:
    watched = os.pidfd_open(process.pid)
    try:
        await trio.lowlevel.wait_readable(watched)
    finally:
        os.close(watched)
    process.wait()


def server_command(member: Member) -> list[str]:
    """`triokeeper start` from where this very code comes from, be it a checkout or an installation."""
    code = Path(__file__).resolve().parent.parent
    arguments = [str(os.getpid()), str(code), "start", str(member.folder / "zoo.cfg")]
    return [sys.executable, "-c", CHILD_PROGRAM, *arguments]


# -- the ensemble


@attrs.define(eq=False)
class DevEnsemble:
    """All children, and the commands that can be given."""

    children: Mapping[int, Child]

    @classmethod
    def of(cls, members: Sequence[Member]) -> "DevEnsemble":
        return cls({member.server_id: Child(member, server_command(member)) for member in members})

    def start_all(self) -> None:
        for child in self.children.values():
            child.start()

    async def stop_all(self) -> None:
        async with trio.open_nursery() as nursery:
            for child in self.children.values():
                nursery.start_soon(child.end, signal.SIGTERM)

    async def wait_until_serving(self, *children: Child) -> None:
        """Until these have a role, or have ended, or it takes too long."""
        with trio.move_on_after(START_SECONDS_MAX):
            for child in children or self.children.values():
                # Asked again and again, because a process of its own cannot set a trio.Event.
                while child.is_running and "Mode" not in await ask_srvr(child.member):  # noqa: ASYNC110
                    await trio.sleep(POLL_SECONDS)

    async def status(self) -> list[str]:
        """A line for each member, in order."""
        lines: dict[int, str] = {}

        async def describe(server_id: int, child: Child) -> None:
            lines[server_id] = await status_line(child)

        async with trio.open_nursery() as nursery:
            for server_id, child in self.children.items():
                nursery.start_soon(describe, server_id, child)
        return [lines[server_id] for server_id in self.children]

    async def leader(self) -> list[str]:
        leading = [line for line in await self.status() if " leader " in line]
        return leading or ["nobody leads"]

    async def execute(self, line: str) -> list[str]:
        """One command; what to tell about it."""
        match line.partition("#")[0].split():
            case []:
                return []
            case ["status"]:
                return await self.status()
            case ["leader"]:
                return await self.leader()
            case ["help"]:
                return HELP.splitlines()
            case [("kill" | "stop" | "start" | "restart") as verb, number]:
                return await self._act(verb, number)
            case _:
                return [f"not understood: {line.strip()}", *HELP.splitlines()]

    async def _act(self, verb: str, number: str) -> list[str]:
        child = self.children.get(int(number)) if number.isdecimal() else None
        if child is None:
            return [f"there is no server {number}; there are {', '.join(map(str, self.children))}"]
        if verb == "start" and child.is_running:
            return [f"server {number} runs already"]
        if verb in ("kill", "stop") and not child.is_running:
            return [f"server {number} does not run"]
        if verb != "start":
            await child.end(signal.SIGKILL if verb == "kill" else signal.SIGTERM)
        if verb in ("start", "restart"):
            child.start()
            await self.wait_until_serving(child)
        return [await status_line(child)]


async def status_line(child: Child) -> str:
    member = child.member
    head = f"server {member.server_id}  {HOST}:{member.client_port}  "
    if not child.is_running:
        return head + (child.ending or "not started")
    told = await ask_srvr(member)
    if "Mode" not in told:
        return f"{head}{'not serving':12} pid {child.pid}"
    return (
        f"{head}{told['Mode']:12} pid {child.pid}  zxid {told['Zxid']}  {told['Node count']} znodes  "
        f"{told['Connections']} connections"
    )


async def ask_srvr(member: Member) -> dict[str, str]:
    """The lines of the four-letter word `srvr`; none if nobody answers in time."""
    text = b""
    with trio.move_on_after(ANSWER_SECONDS_MAX), suppress(OSError, trio.BrokenResourceError):
        async with await trio.open_tcp_stream(HOST, member.client_port) as stream:
            await stream.send_all(b"srvr")
            async for part in stream:
                text += part
    lines = (line.partition(": ") for line in text.decode(errors="replace").splitlines())
    return {key: value for key, colon, value in lines if colon}


# -- the program


async def run_dev(members: Sequence[Member], read_line: Callable[[], Awaitable[str]], say: Say) -> None:
    """Start all members, obey commands, and stop all members on `quit`, Ctrl-C, SIGTERM or SIGHUP."""
    ensemble = DevEnsemble.of(members)
    try:
        with trio.open_signal_receiver(*_signals_to_end_at()) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_at_signal, signals, nursery.cancel_scope)
                nursery.start_soon(_tell_of_ends, ensemble, say)
                await _begin(ensemble, members, say)
                await _obey(ensemble, read_line, say)
                nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await ensemble.stop_all()


def _signals_to_end_at() -> list[signal.Signals]:
    """SIGHUP, when the terminal closes, is one of them unless somebody wants us to stay (nohup)."""
    is_to_stay = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([] if is_to_stay else [signal.SIGHUP])]


async def _begin(ensemble: DevEnsemble, members: Sequence[Member], say: Say) -> None:
    ensemble.start_all()
    await ensemble.wait_until_serving()
    for line in await ensemble.status():
        say(line)
    say(f"logs and data: {members[0].folder.parent}")
    say(f"connect to: {connect_string(members)}")


async def _obey(ensemble: DevEnsemble, read_line: Callable[[], Awaitable[str]], say: Say) -> None:
    """Until `quit`; the end of the input is a `quit` only at a terminal."""
    while line := await read_line():
        if line.split() == ["quit"]:
            return
        for told in await ensemble.execute(line):
            say(told)
    if not sys.stdin.isatty():
        await trio.sleep_forever()


async def _tell_of_ends(ensemble: DevEnsemble, say: Say) -> None:
    while True:
        for server_id, child in ensemble.children.items():
            if child.note_own_end():
                say(f"server {server_id} {child.ending}")
        await trio.sleep(POLL_SECONDS)


async def _cancel_at_signal(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    async for _ in signals:
        scope.cancel()


@attrs.define
class InputLines:
    """The lines of a file descriptor, terminal or not; an empty one after the last.

    Read in a thread, which is left behind when we end while it waits. Python's own stdin would hold a lock
    there that the interpreter needs to exit.
    """

    descriptor: int
    _received: bytes = b""

    async def read(self) -> str:
        while b"\n" not in self._received:
            more = b""
            with suppress(OSError):  # the terminal has gone
                more = await trio.to_thread.run_sync(os.read, self.descriptor, 4096, abandon_on_cancel=True)
            if not more:
                break
            self._received += more
        line, newline, self._received = self._received.partition(b"\n")
        return (line + newline).decode(errors="replace")


@contextmanager
def data_folder(wanted: Path | None) -> Iterator[Path]:
    """The folder asked for, which stays, or one that goes away again."""
    if wanted is not None:
        wanted.mkdir(parents=True, exist_ok=True)
        with (wanted / "dev.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise DevError(f"another triokeeper dev uses {wanted}: give --data another folder") from None
            yield wanted.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="triokeeper-dev-") as folder:
        yield Path(folder)


def run_until_told(servers: int, observers: int, base_port: int, data: Path | None, say: Say) -> None:
    """What the command does. Raises DevError."""
    with data_folder(data) as folder:
        members = plan_members(servers, observers, base_port, folder)
        refuse_taken_ports(members)
        prepare_folders(members)
        trio.run(run_dev, members, InputLines(sys.stdin.fileno()).read, say)
