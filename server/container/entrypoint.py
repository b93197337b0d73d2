"""What `triokeeper entrypoint` does: the environment of a container becomes files and a server.

It runs once and then becomes the command it was given. As root, it lets the server's user have the data
directories and becomes that user, if the command is a server.
"""

import errno
import os
import pwd
import signal
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import attrs

from server.container.commands import Command, understand
from server.container.plan import Plan, WriteFile, draft_for, refuse_bad_values, settle
from server.container.process_one import end_on_signals, hold_signals_back
from server.container.variables import EXIT_DATA_DIR, Refused, read_variables

SERVER_USER = "zookeeper"
SERVER_UID = 1000
EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND = 126, 127


def main(words: Sequence[str]) -> NoReturn:
    """Configure a server from the environment, then become the command in `words`."""
    if list(words) == ["--help"]:
        from server.container.command import entrypoint

        entrypoint.main(["--help"], prog_name="triokeeper entrypoint")
    end_on_signals()
    command = understand(words)
    machine = Machine()
    try:
        plan = prepare(command, os.environ, machine)
    except Refused as refusal:
        _complain(f"Invalid environment, exiting abnormally\n{refusal}")
        sys.exit(refusal.exit_code)
    say(plan)
    become(plan, machine)


def _complain(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


@attrs.define
class Machine:
    """The facts that a plan needs; `root` is put before every path, for tests."""

    root: str = ""
    hostname: str = attrs.field(factory=lambda: os.uname().nodename)

    @property
    def uid(self) -> int:
        return os.geteuid()

    def real(self, path: str) -> Path:
        return Path(f"{self.root}{path}" if path.startswith("/") else path)

    def read(self, path: str) -> bytes | None:
        try:
            return read_file(self.real(path))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def can_write(self, directory: str) -> bool:
        return os.path.isdir(self.real(directory)) and os.access(self.real(directory), os.W_OK | os.X_OK)

    def owner(self, path: str) -> int | None:
        try:
            return os.stat(self.real(path)).st_uid
        except OSError:
            return None


def read_file(path: Path) -> bytes:
    """The contents of a regular file, or of a link to one, as Kubernetes mounts its secrets.

    Everything else raises OSError, because it can make a start wait for ever (a FIFO) or have no end (a
    device); only /dev/null is taken for an empty file.
    """
    with open(path, "rb", opener=_open_without_waiting) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) and not os.path.samestat(found, os.stat(os.devnull)):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read()


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def prepare(command: Command, environ: Mapping[str, str], machine: Machine) -> Plan:
    """Find out what to do and do it, up to running the command."""
    variables = read_variables(environ, lambda path: read_file(machine.real(path)).decode())
    draft = draft_for(command, variables)
    refuse_bad_values(draft, variables, machine)
    if command.is_server:
        directories = [machine.real(directory) for directory in draft.directories]
        _make(directories)
        if os.geteuid() == 0:
            become_user(directories)
        elif os.getegid() == 0:
            os.umask(
                0o002
            )  # a user by number alone: the next one, of the same group, may have another number
    plan = settle(command, draft, variables, machine)
    for file in plan.files:
        _write(file, machine, is_server=command.is_server)
    if plan.link is not None:
        _link(*(machine.real(path) for path in plan.link))
    return plan


def _make(directories: Iterable[Path]) -> None:
    for directory in directories:
        with suppress(OSError):  # the server says which one it misses
            directory.mkdir(parents=True, exist_ok=True)


def become_user(directories: Iterable[Path]) -> None:
    """Hand the directories to the server's user, and become that user."""
    name, uid, gid, home = _server_user()
    for directory in directories:
        _hand_over(directory, uid, gid)
    try:
        if name is not None:
            os.initgroups(name, gid)
        else:
            os.setgroups([gid])
        os.setgid(gid)
        os.setuid(uid)
    except PermissionError:
        raise Refused(
            f"root may not become uid {uid} here: run the container with --user {uid}, "
            "or let it have the capabilities SETUID and SETGID",
            EXIT_NOT_EXECUTABLE,
        ) from None
    os.environ["HOME"] = home


def _server_user() -> tuple[str | None, int, int, str]:
    try:
        entry = pwd.getpwnam(SERVER_USER)
    except KeyError:
        return None, SERVER_UID, SERVER_UID, "/"
    return SERVER_USER, entry.pw_uid, entry.pw_gid, entry.pw_dir


def _hand_over(directory: Path, uid: int, gid: int) -> None:
    """Change the owner of a directory and of all in it, as far as the system lets us.

    A volume may hold links to anywhere, and others may put some there at this moment: every change is made
    within a folder that is open, and to a link itself, not to where it leads.
    """
    with suppress(OSError, RecursionError):
        for _, folders, files, folder in os.fwalk(directory):
            for name in [".", *folders, *files]:
                _give(name, folder, uid, gid)


def _give(name: str, folder: int, uid: int, gid: int) -> None:
    with suppress(OSError):  # a read-only or remote file system; what matters is whether it can be written
        if os.lstat(name, dir_fd=folder).st_uid != uid:
            os.chown(name, uid, gid, dir_fd=folder, follow_symlinks=False)


def _write(file: WriteFile, machine: Machine, *, is_server: bool) -> None:
    """Put a file in place. Only a server cannot do without."""
    try:
        _put(file, machine.real(file.path))
    except OSError as failure:
        if is_server:
            raise _not_written(file.path, failure, machine) from None
        _complain(f"{file.path} is not written: {failure.strerror}")


def _put(file: WriteFile, path: Path) -> None:
    """Whole or not at all, whenever the machine goes down: the next start believes what it finds."""
    beside = path.with_name(f".{path.name}.new")
    path.parent.mkdir(exist_ok=True)
    beside.unlink(missing_ok=True)  # of a start that was cut short, or a link that somebody laid
    try:
        new = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file.mode)
        with open(new, "wb") as out:
            os.fchmod(new, file.mode)
            out.write(file.content)
            out.flush()
            os.fsync(new)
        beside.rename(path)
    except OSError:
        with suppress(OSError):
            beside.unlink()
        raise
    _sync(path.parent)


def _sync(directory: Path) -> None:
    folder = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _not_written(path: str, failure: OSError, machine: Machine) -> Refused:
    remedy = "mount a volume there that belongs to this user, or run the container as the user it belongs to"
    if failure.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = "make room on that volume"
    elif os.path.isdir(machine.real(path)):
        remedy = "a directory is in its place, which Docker makes where a file to be mounted does not exist"
    reason = f"{path} cannot be written by uid {machine.uid} ({failure.strerror})"
    return Refused(f"{reason}: {remedy}", EXIT_DATA_DIR)


def _link(where: Path, to: Path) -> None:
    """Let those who look in the usual place find the configuration."""
    with suppress(OSError):  # something is there, or nothing can be
        where.symlink_to(to)


def say(plan: Plan) -> None:
    """Notes begin a server's log; beside another command's output, warnings go to standard error."""
    if plan.command.is_server and plan.notes:
        from eventlog import log  # most starts have nothing to say
        from server.logging_setup import choose_format, choose_level, configure_logging

        environ = {**os.environ, **plan.exports}
        configure_logging(choose_format(environ, is_terminal=sys.stdout.isatty()), choose_level(environ, {}))
        for note in plan.notes:
            log.at(note.level, note.message)
        sys.stdout.flush()
    elif not plan.command.is_server:
        for note in plan.notes:
            if note.level != "info":
                _complain(note.message)


def become(plan: Plan, machine: Machine) -> NoReturn:
    """Run the command in the place of this process."""
    environ = {**os.environ, **plan.exports}
    if plan.command.becomes_server:
        hold_signals_back()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and that would be handed on
        signal.signal(number, signal.SIG_DFL)
    failure = OSError()
    for words in _commands(plan, machine):
        try:
            os.execvpe(words[0], words, environ)
        except OSError as problem:
            failure = problem
    _complain(f"{plan.command.words[0]}: {failure.strerror}")
    sys.exit(EXIT_NOT_FOUND if isinstance(failure, FileNotFoundError) else EXIT_NOT_EXECUTABLE)


def _commands(plan: Plan, machine: Machine) -> Iterator[list[str]]:
    """What to run, the first one first; a server without a detour through the script if nobody needs that."""
    if plan.config_file is None:
        yield list(plan.command.words)
        return
    config_file = str(machine.real(plan.config_file))
    if plan.needs_shell:
        yield ["zkServer.sh", "start-foreground", config_file]
    _complain(f"Using config: {config_file}")
    yield [_this_program(), "start", config_file]


def _this_program() -> str:
    """The command that this process was started as, which is `triokeeper` wherever it is installed."""
    own = os.path.abspath(sys.argv[0])
    return own if os.path.isfile(own) and os.access(own, os.X_OK) else "triokeeper"
