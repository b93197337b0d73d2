"""Going through a subtree for a command: with a progress bar, and a word about what could not be read."""

from client.errors import ServerError
from client.requester import Requester
from client.shell.progress import progress_bar
from client.shell.shell import Shell
from client.shell.trees import Node
from client.shell.walk import Walk, read_tree, walk


async def walk_with_progress(
    shell: Shell, session: Requester, root: str, depth_max: int | None = None
) -> Walk:
    """Everything below a root."""
    with progress_bar(f"looking at {root}", await _total(session, root)) as advance:
        found = await walk(session, root, depth_max=depth_max, advance=advance)
    tell_denied(shell, found)
    return found


async def read_tree_with_progress(
    shell: Shell, session: Requester, root: str, *, with_acl: bool = False
) -> tuple[dict[str, Node], Walk]:
    """Everything below a root, with its data."""
    total = await _total(session, root)
    with progress_bar(f"reading {root}", None if total is None else 2 * total) as advance:
        nodes, found = await read_tree(session, root, with_acl=with_acl, advance=advance)
    tell_denied(shell, found)
    return nodes, found


async def _total(session: Requester, root: str) -> int | None:
    """How many there are, if the server says: older ones cannot count."""
    try:
        return await session.get_all_children_number(root)
    except ServerError:
        return None


def tell_denied(shell: Shell, found: Walk) -> None:
    if found.denied:
        more = f" and {len(found.denied) - 1} more" if len(found.denied) > 1 else ""
        shell.note(f"not allowed by the ACL: {min(found.denied)}{more}")
