"""`lock`: a command that runs on one machine at a time.

The lock is Kazoo's recipe, and Kazoo's locks on the same path exclude ours: every contender has an ephemeral
sequential node below the path; the one with the smallest number holds the lock, each other waits for the one
before it. If the session is lost the lock is lost, so the command is ended. A session without a connection
counts as lost after a while: a quorum elsewhere gives the lock to the next one, and cannot tell us.
"""

import os
import re
import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial

import click
import trio

from client.errors import NoNode, ServerError
from client.option_types import Seconds
from client.paths import join
from client.session import Session
from client.shell.command_table import shell_command
from client.shell.commands.writing import create_parents
from client.shell.failures import EXIT_NO_SUCH_COMMAND, EXIT_NOBODY_SERVING, CommandFailed
from client.shell.trio_shell import TrioShell
from jute.opcodes import CreateMode

_SEQUENCE = re.compile(r"(-?\d{10})\Z")
SIGNAL_EXIT_BASE = 128
TERMINATION_S = 10.0
RELEASE_S = 2.0


@shell_command("lock", context_settings={"ignore_unknown_options": True})
@click.argument("path")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--timeout", "timeout_s", type=Seconds(0), metavar="SECONDS", help="Give up then: exit code 1.")
async def lock_command(shell: TrioShell, path: str, command: tuple[str, ...], timeout_s: float | None) -> int:
    """Run COMMAND while holding the lock PATH, and end with its exit code.

    \b
    triokeeper cli lock /locks/backup -- ./backup.sh --full
    """
    session = await shell.session()
    await create_parents(session, join(path, "lock"))
    changed = _Bell()
    with shell.listening(lambda event: changed.set()):
        node, _ = await session.create(
            join(path, f"{uuid.uuid4().hex}__lock__"),
            os.uname().nodename.encode(),
            mode=CreateMode.EPHEMERAL_SEQUENTIAL,
        )
        try:
            with trio.move_on_after(float("inf") if timeout_s is None else timeout_s) as waiting:
                await _wait_for_turn(session, path, node, changed)
            if waiting.cancelled_caught:
                raise CommandFailed(f"{path}: somebody else held the lock for {timeout_s:g} s")
            return await _run(command, session, changed)
        finally:
            with trio.CancelScope(shield=True):
                await _release(session, node)


class _Bell:
    """Rings for everybody who waits, each time anew."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def set(self) -> None:
        self._event.set()
        self._event = trio.Event()

    async def wait(self) -> None:
        await self._event.wait()


async def _wait_for_turn(session: Session, path: str, node: str, changed: _Bell) -> None:
    """Return once no other contender has a smaller number."""
    own = node.rpartition("/")[2]
    while True:
        children, _ = await session.get_children(path)
        queue = sorted((name for name in children if _SEQUENCE.search(name)), key=_number)
        if own not in queue:
            raise CommandFailed(f"{path}: the place in the queue was lost", EXIT_NOBODY_SERVING)
        before = queue.index(own) - 1
        if before < 0:
            return
        if await session.exists(join(path, queue[before]), watch=True) is not None:
            await changed.wait()


def _number(name: str) -> int:
    found = _SEQUENCE.search(name)
    assert found is not None
    return int(found[1])


async def _until_lost(session: Session, changed: _Bell) -> None:
    """Return once the session is over, or may be.

    The connection is given up after two thirds of the session's time, so a third of it is left to reconnect.
    """
    while not session.state.is_over:
        if session.state.is_connected:
            await changed.wait()
            continue
        with trio.move_on_after(session.negotiated_timeout_ms / 1000 / 3) as without_connection:
            await changed.wait()
        if without_connection.cancelled_caught:
            return


async def _run(command: tuple[str, ...], session: Session, changed: _Bell) -> int:
    """The command's exit code. It is ended if the lock is lost, and never outlives it.

    Signals that would end us are passed on to it.
    """
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as signals:
        try:
            process = await trio.lowlevel.open_process(list(command), stdin=None)
        except OSError as problem:
            raise CommandFailed(
                f"cannot run {command[0]}: {problem.strerror}", EXIT_NO_SUCH_COMMAND
            ) from None
        try:
            code = await _wait_for(process, signals, partial(_until_lost, session, changed))
        finally:
            with trio.CancelScope(shield=True):
                await _end(process)
    if code is None:
        said = "the session, and with it the lock, was lost: the command was ended"
        raise CommandFailed(said, EXIT_NOBODY_SERVING)
    return code if code >= 0 else SIGNAL_EXIT_BASE - code


async def _wait_for(
    process: trio.Process, signals: AsyncIterator[int], until_lost: Callable[[], Awaitable[None]]
) -> int | None:
    """Its exit code once it ends, or None when the lock is lost."""
    code: int | None = None

    async def pass_on() -> None:
        async for number in signals:
            process.send_signal(number)

    async def heed_loss() -> None:
        await until_lost()
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pass_on)
        nursery.start_soon(heed_loss)
        try:
            code = await process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            code = await process.wait()
        nursery.cancel_scope.cancel()
    return code


async def _end(process: trio.Process) -> None:
    """Politely, then by force."""
    if process.returncode is None:
        process.terminate()
        with trio.move_on_after(TERMINATION_S):
            await process.wait()
        process.kill()
        await process.wait()


async def _release(session: Session, node: str) -> None:
    """Delete the node or, if that cannot be done now, end the session that it belongs to."""
    with trio.move_on_after(RELEASE_S), suppress(ServerError):
        with suppress(NoNode):
            await session.delete(node)
        return
    await session.close()
