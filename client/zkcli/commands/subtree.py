"""Going through a part of the tree."""

from collections import deque
from collections.abc import AsyncGenerator

from client.errors import NoNode
from client.paths import join, validate_path
from client.requester import Requester
from client.zkcli.forms import java_sorted


async def visit_subtree(session: Requester, root: str, *, watch: bool = False) -> AsyncGenerator[str, None]:
    """The node, all its children, then the same for what is below each child.

    A node that goes away meanwhile is passed over, but the first one must be there.
    """
    validate_path(root)
    await session.get_data(root, watch)
    yield root
    stack = [root]
    while stack:
        path = stack.pop()
        try:
            children, _ = await session.get_children(path, watch)
        except NoNode:
            continue
        paths = [join(path, child) for child in java_sorted(children)]
        for child_path in paths:
            yield child_path
        stack += reversed(paths)


async def list_subtree(session: Requester, root: str) -> list[str]:
    """The node and everything below it, parents before children."""
    validate_path(root)
    found = [root]
    queue = deque(found)
    while queue:
        path = queue.popleft()
        children, _ = await session.get_children(path)
        paths = [join(path, child) for child in children]
        found += paths
        queue += paths
    return found
