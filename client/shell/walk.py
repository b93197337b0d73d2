"""Going through a part of the tree, many requests at a time.

A node that goes away meanwhile is passed over: only the root must be there. A node that may not be read is
passed over too, and counted, so that nobody takes the result for the whole.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

import attrs

from client import requests
from client.errors import NoAuth, NoNode, ServerError
from client.paths import join
from client.requester import Requester
from client.requests import Request
from client.shell.trees import Node, in_order
from jute.client_records import Stat

T = TypeVar("T")

IN_FLIGHT_MAX = 256
SERVERS_OWN = "/zookeeper"

Advance = Callable[[int], None]


@attrs.define
class Walk:
    """What was found: Stats by path, parents before children."""

    stats: dict[str, Stat] = attrs.field(factory=dict)
    denied: list[str] = attrs.field(factory=list)


def ignore_progress(count: int) -> None:
    """For walks that nobody watches."""


async def walk(
    session: Requester, root: str, *, depth_max: int | None = None, advance: Advance = ignore_progress
) -> Walk:
    """The root and what is below it. Raises NoNode or NoAuth only for the root."""
    found = Walk()
    children, found.stats[root] = await session.get_children(root)
    level = [join(root, child) for child in children]
    depth = 0
    while level and (depth_max is None or depth < depth_max):
        depth += 1
        next_level: list[str] = []
        ask = partial(requests.get_children, session.chroot, watch=False)
        for path, answer in await ask_each(session, level, ask, found.denied, advance):
            names, found.stats[path] = answer
            next_level += [join(path, name) for name in names]
        level = next_level
    found.stats = {path: found.stats[path] for path in in_order(found.stats)}
    return found


async def ask_each(
    session: Requester,
    paths: Iterable[str],
    make_request: Callable[[str], Request[T]],
    denied: list[str],
    advance: Advance = ignore_progress,
) -> list[tuple[str, T]]:
    """The answers for those nodes that are there and may be read, in the order of the paths."""
    answers: list[tuple[str, T]] = []
    ordered = list(paths)
    for start in range(0, len(ordered), IN_FLIGHT_MAX):
        batch = ordered[start : start + IN_FLIGHT_MAX]
        results = await session.many([make_request(path) for path in batch])
        for path, answer in zip(batch, results, strict=True):
            if isinstance(answer, NoAuth):
                denied.append(path)
            elif isinstance(answer, NoNode):
                continue
            elif isinstance(answer, ServerError):
                raise answer
            else:
                answers.append((path, answer))
        advance(len(batch))
    return answers


async def read_tree(
    session: Requester, root: str, *, with_acl: bool, advance: Advance = ignore_progress
) -> tuple[dict[str, Node], Walk]:
    """The nodes below a root by relative path, without ephemerals: those belong to their session.

    The server's own nodes below /zookeeper are left out of a copy of the whole tree.
    """
    found = await walk(session, root, advance=advance)
    paths = [path for path, stat in found.stats.items() if not stat.ephemeral_owner]
    if root == "/":
        paths = [path for path in paths if not f"{path}/".startswith(f"{SERVERS_OWN}/")]
    prefix = "" if root == "/" else root
    nodes = await read_nodes(session, paths, with_acl=with_acl, denied=found.denied, advance=advance)
    return {path.removeprefix(prefix) or "/": node for path, node in nodes.items()}, found


async def read_nodes(
    session: Requester,
    paths: Iterable[str],
    *,
    with_acl: bool,
    denied: list[str],
    advance: Advance = ignore_progress,
) -> dict[str, Node]:
    """Nodes as they are copied."""
    get_data = partial(requests.get_data, session.chroot, watch=False)
    read = await ask_each(session, paths, get_data, denied, advance)
    nodes = {path: Node(data) for path, (data, _) in read}
    if with_acl:
        for path, (acl, _) in await ask_each(
            session, nodes, partial(requests.get_acl, session.chroot), denied
        ):
            nodes[path] = Node(nodes[path].data, tuple(acl))
    return nodes
