"""Going through a part of the tree, many requests at a time.

A node that goes away meanwhile is passed over: only the root must be there. A node that may not be read is
passed over too, and counted, so that nobody takes the result for the whole.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import attrs
import trio

from client.errors import NoAuth, NoNode
from client.paths import join
from client.session import Session
from client.shell.trees import Node, in_order
from jute.client_records import Stat

T = TypeVar("T")

IN_FLIGHT_MAX = 256
QUOTAS_AND_CONFIG = "/zookeeper"

Advance = Callable[[int], None]


@attrs.define
class Walk:
    """What was found: Stats by path, parents before children."""

    stats: dict[str, Stat] = attrs.field(factory=dict)
    denied: list[str] = attrs.field(factory=list)


def ignore_progress(count: int) -> None:
    """For walks that nobody watches."""


async def walk(
    session: Session, root: str, *, depth_max: int | None = None, advance: Advance = ignore_progress
) -> Walk:
    """The root and what is below it. Raises NoNode or NoAuth only for the root."""
    found = Walk()
    children, found.stats[root] = await session.get_children(root)
    level = [join(root, child) for child in children]
    depth = 0
    while level and (depth_max is None or depth < depth_max):
        depth += 1
        next_level: list[str] = []
        for path, answer in await ask_each(level, session.get_children, found.denied, advance):
            names, found.stats[path] = answer
            next_level += [join(path, name) for name in names]
        level = next_level
    found.stats = {path: found.stats[path] for path in in_order(found.stats)}
    return found


async def ask_each(
    paths: Iterable[str],
    ask: Callable[[str], Awaitable[T]],
    denied: list[str],
    advance: Advance = ignore_progress,
) -> list[tuple[str, T]]:
    """The answers for those nodes that are there and may be read, in the order of the paths."""
    answers: dict[str, T] = {}
    ordered = list(paths)

    async def keep(path: str) -> None:
        try:
            answers[path] = await ask(path)
        except NoNode:
            pass
        except NoAuth:
            denied.append(path)

    for start in range(0, len(ordered), IN_FLIGHT_MAX):
        await all_of([(keep, path) for path in ordered[start : start + IN_FLIGHT_MAX]])
        advance(len(ordered[start : start + IN_FLIGHT_MAX]))
    return [(path, answers[path]) for path in ordered if path in answers]


async def all_of(calls: Iterable[tuple[Callable[[str], Awaitable[None]], str]]) -> None:
    """Do them at the same time. The first error comes out as it is, not in a group."""
    problems: list[Exception] = []

    async def attempt(call: Callable[[str], Awaitable[None]], argument: str) -> None:
        try:
            await call(argument)
        except Exception as problem:
            problems.append(problem)
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for call, argument in calls:
            nursery.start_soon(attempt, call, argument)
    if problems:
        raise problems[0]


async def read_tree(
    session: Session, root: str, *, with_acl: bool, advance: Advance = ignore_progress
) -> tuple[dict[str, Node], Walk]:
    """The nodes below a root by relative path, without ephemerals: those belong to their session.

    The server's own nodes below /zookeeper are left out of a copy of the whole tree.
    """
    found = await walk(session, root, advance=advance)
    paths = [path for path, stat in found.stats.items() if not stat.ephemeral_owner]
    if root == "/":
        paths = [path for path in paths if not f"{path}/".startswith(f"{QUOTAS_AND_CONFIG}/")]

    async def read(path: str) -> Node:
        return await read_node(session, path, with_acl)

    nodes = await ask_each(paths, read, found.denied, advance)
    prefix = "" if root == "/" else root
    return {path.removeprefix(prefix) or "/": node for path, node in nodes}, found


async def read_node(session: Session, path: str, with_acl: bool) -> Node:
    """One node, as it is copied."""
    data, _ = await session.get_data(path)
    acl = tuple((await session.get_acl(path))[0]) if with_acl else None
    return Node(data, acl)
