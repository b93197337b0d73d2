"""Changing a tree for a test, as a client of the server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import trio

from client.errors import NodeExists, NoNode, NotEmpty
from client.session import Session, open_session

CHANGE_SECONDS_MAX = 60.0
CONNECT_SECONDS_MAX = 20.0
SESSION_MS = 30_000


@asynccontextmanager
async def connected(hosts: str) -> AsyncIterator[Session]:
    with trio.fail_after(CHANGE_SECONDS_MAX):
        async with open_session(hosts, timeout_ms=SESSION_MS) as session:
            await session.wait_connected(CONNECT_SECONDS_MAX)
            yield session


async def change(hosts: str, how: str, path: str) -> None:
    """`make` a node, or `remove` it."""
    async with connected(hosts) as session:
        await (put(session, path, b"") if how == "make" else remove(session, path))


async def put(session: Session, path: str, data: bytes) -> None:
    """Create a node with all its parents; one that is there gets the data."""
    for end in (at for at, character in enumerate(path) if character == "/" and at):
        with suppress(NodeExists):
            await session.create(path[:end], b"")
    try:
        await session.create(path, data)
    except NodeExists:
        await session.set_data(path, data)


async def remove(session: Session, path: str) -> None:
    """Delete a node and all that is below it, even if somebody goes on creating there."""
    while True:
        try:
            children, _ = await session.get_children(path)
            for child in children:
                await remove(session, f"{path}/{child}")
            await session.delete(path)
        except NotEmpty:
            continue
        except NoNode:
            pass
        return
