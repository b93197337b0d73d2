"""`watch`: changes of a node or a subtree as JSON lines, as they happen."""

import json
import os
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import click
import trio

from client.errors import AuthFailed, ConnectionLost, NoAuth, NoNode, ServerError, SessionExpired
from client.events import EVENT_WORDS, STATE_WORDS, WatchedEvent
from client.session import Session
from client.shell.command_table import shell_command
from client.shell.failures import EXIT_NOBODY_SERVING, CommandFailed
from client.shell.output import data_values
from client.shell.trio_shell import TrioShell
from jute.opcodes import AddWatchMode, EventType, KeeperState, WatcherType

QUEUED_MAX = 100_000
# Reasons why a change is told without data: the node cannot be read, or nobody answers. In that case the
# session's next state is told too.
_WITHOUT_DATA = (NoNode, NoAuth, ConnectionLost, SessionExpired, AuthFailed)
_OVER = (KeeperState.EXPIRED, KeeperState.AUTH_FAILED, KeeperState.CLOSED)


@shell_command("watch")
@click.argument("path", default="/")
@click.option(
    "--node", "only_node", is_flag=True, help="The node and its list of children, not all below it."
)
@click.option("--data", "with_data", is_flag=True, help="The data after each change, too.")
@click.option(
    "--exec", "program", metavar="COMMAND", help="Run this for each change: ZK_TYPE, ZK_PATH, ZK_ZXID."
)
@click.option("-n", "--count", type=click.IntRange(1), metavar="N", help="End after so many changes.")
async def watch_command(
    shell: TrioShell, path: str, only_node: bool, with_data: bool, program: str | None, count: int | None
) -> None:
    """Print a JSON line for each change, until Ctrl-C.

    The session's own changes are told too. What happens while it is Disconnected is not told later, only
    that the connection is back. A change has no data if the node has gone by then, may not be read, or the
    connection is lost at that moment.
    """
    session = await shell.session()
    send, receive = trio.open_memory_channel[WatchedEvent](QUEUED_MAX)

    def hear(event: WatchedEvent) -> None:
        try:
            send.send_nowait(event)
        except trio.WouldBlock:
            send.close()  # and the command ends: better than to leave out a change in silence
        except trio.ClosedResourceError:
            pass  # it is ending

    mode = AddWatchMode.PERSISTENT if only_node else AddWatchMode.PERSISTENT_RECURSIVE
    kind = WatcherType.PERSISTENT if only_node else WatcherType.PERSISTENT_RECURSIVE
    with shell.listening(hear):
        await session.add_watch(path, mode)
        try:
            await _tell_all(shell, session, receive, with_data, program, count)
        finally:
            with trio.move_on_after(1, shield=True), suppress(ServerError):
                if session.state.is_connected:
                    await session.remove_watches(path, kind)


async def _tell_all(
    shell: TrioShell,
    session: Session,
    events: trio.MemoryReceiveChannel[WatchedEvent],
    with_data: bool,
    program: str | None,
    count: int | None,
) -> None:
    told = 0
    async for event in events:
        shell.out(json.dumps(await _values(session, event, with_data)))
        if event.state in _OVER:
            raise CommandFailed("the session is over", EXIT_NOBODY_SERVING)
        if event.type is EventType.NONE:
            continue
        if program is not None:
            await _run(program, event)
        told += 1
        if told == count:
            return
    raise CommandFailed("changes come faster than they are handled")


async def _values(session: Session, event: WatchedEvent, with_data: bool) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if event.type is EventType.NONE:
        return {"time": now, "state": STATE_WORDS[event.state]}
    values: dict[str, Any] = {"time": now, "type": EVENT_WORDS[event.type], "path": event.path}
    if event.zxid >= 0:
        values["zxid"] = f"0x{event.zxid:x}"
    if with_data and event.path is not None and event.type is not EventType.NODE_DELETED:
        try:
            data, stat = await session.get_data(event.path)
        except _WITHOUT_DATA:
            return values
        values |= {**data_values(data), "version": stat.version}
    return values


async def _run(program: str, event: WatchedEvent) -> None:
    """Run the user's command to its end: changes are handled one after the other."""
    environment = {
        "ZK_TYPE": EVENT_WORDS[event.type],
        "ZK_PATH": event.path or "",
        "ZK_ZXID": f"0x{event.zxid:x}" if event.zxid >= 0 else "",
    }
    await trio.run_process(
        ["/bin/sh", "-c", program], stdin=subprocess.DEVNULL, check=False, env=os.environ | environment
    )
