"""Commands that look through subtrees."""

import fnmatch
import re
from functools import partial

import click

from client import requests
from client.paths import parent_of
from client.shell.command_table import json_option, shell_command
from client.shell.commands.walking import tell_denied, walk_with_progress
from client.shell.failures import EXIT_REFUSED, EXIT_USAGE, CommandFailed
from client.shell.output import data_values
from client.shell.shell import Shell
from client.shell.walk import IN_FLIGHT_MAX, ask_each
from client.status.table import size_text

JSON_DEPTH_MAX = 500  # Python's own reader ends at a thousand


@shell_command("tree")
@click.argument("path", default="/")
@click.option("-L", "--depth", "depth_max", type=click.IntRange(1), metavar="N", help="No deeper than this.")
@json_option
async def tree_command(shell: Shell, path: str, depth_max: int | None) -> int:
    """Draw a subtree."""
    found = await walk_with_progress(shell, await shell.session(), path, depth_max)
    children = children_of(list(found.stats), path)
    if shell.wants_json:
        if max((node.count("/") for node in found.stats), default=0) - path.count("/") > JSON_DEPTH_MAX:
            raise CommandFailed(
                f"the tree is deeper than {JSON_DEPTH_MAX} levels, which readers of JSON do not take: "
                f"limit it with --depth {JSON_DEPTH_MAX}, or use find --json"
            )
        shell.out_json(_nested(path, children))
    else:
        shell.out(path)
        for line in drawing(path, children):
            shell.out(line)
    return EXIT_REFUSED if found.denied else 0


def children_of(paths: list[str], root: str) -> dict[str, list[str]]:
    """The paths of the children by parent, in the order given."""
    children: dict[str, list[str]] = {}
    for path in paths:
        if path != root:
            children.setdefault(parent_of(path), []).append(path)
    return children


def drawing(root: str, children: dict[str, list[str]]) -> list[str]:
    """The lines below the root."""
    lines: list[str] = []
    stack = [(path, "", is_last) for path, is_last in reversed(_marked(children.get(root, [])))]
    while stack:
        path, indent, is_last = stack.pop()
        lines.append(f"{indent}{'└── ' if is_last else '├── '}{path.rpartition('/')[2]}")
        deeper = indent + ("    " if is_last else "│   ")
        stack += [(child, deeper, last) for child, last in reversed(_marked(children.get(path, [])))]
    return lines


def _marked(paths: list[str]) -> list[tuple[str, bool]]:
    return [(path, index == len(paths) - 1) for index, path in enumerate(paths)]


def _nested(root: str, children: dict[str, list[str]]) -> dict[str, object]:
    """Each node's children by name; built from the leaves up, as trees may be deeper than Python's stack."""
    built: dict[str, dict[str, object]] = {}
    for path in sorted({root, *children, *(c for cs in children.values() for c in cs)}, reverse=True):
        built[path] = {child.rpartition("/")[2]: built[child] for child in children.get(path, [])}
    return {root: built[root]}


@shell_command("find")
@click.argument("path", default="/")
@click.option("--name", metavar="GLOB", help="The node's name, e.g. 'worker-*'.")
@click.option("--regex", metavar="REGEX", help="Anywhere in the path.")
@click.option("--min-size", type=click.IntRange(0), metavar="BYTES", help="At least so much data.")
@click.option("--ephemeral", "kind", flag_value="ephemeral", help="Only ephemerals.")
@click.option("--persistent", "kind", flag_value="persistent", help="Only those that are none.")
@click.option("--empty", is_flag=True, help="Only those without children and data.")
@json_option
async def find_command(
    shell: Shell,
    path: str,
    name: str | None,
    regex: str | None,
    min_size: int | None,
    kind: str | None,
    empty: bool,
) -> int:
    """List the nodes of a subtree that fit; exit code 1 if none does."""
    pattern = compiled(regex) if regex else None
    found = await walk_with_progress(shell, await shell.session(), path)
    matches = [
        node
        for node, stat in found.stats.items()
        if (name is None or fnmatch.fnmatchcase(node.rpartition("/")[2], name))
        and (pattern is None or pattern.search(node))
        and (min_size is None or stat.data_length >= min_size)
        and (kind is None or (kind == "ephemeral") == bool(stat.ephemeral_owner))
        and (not empty or not (stat.data_length or stat.num_children))
    ]
    if shell.wants_json:
        shell.out_json(matches)
    else:
        for match in matches:
            shell.out(match)
    return EXIT_REFUSED if found.denied or not matches else 0


def compiled(regex: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern, or a usage error."""
    try:
        return re.compile(regex, flags)
    except re.error as problem:
        raise CommandFailed(f"{regex!r} is no regular expression: {problem}", EXIT_USAGE) from None


@shell_command("grep")
@click.argument("regex")
@click.argument("path", default="/")
@click.option("-i", "--ignore-case", is_flag=True)
@click.option("-l", "--paths", "only_paths", is_flag=True, help="Only the paths of nodes that match.")
@json_option
async def grep_command(shell: Shell, regex: str, path: str, ignore_case: bool, only_paths: bool) -> int:
    """Show the lines of nodes' data that match; exit code 1 if none does."""
    pattern = compiled(regex, re.IGNORECASE if ignore_case else 0)
    session = await shell.session()
    found = await walk_with_progress(shell, session, path)
    with_data = [node for node, stat in found.stats.items() if stat.data_length]
    has_match = False
    get_data = partial(requests.get_data, session.chroot, watch=False)
    for start in range(0, len(with_data), IN_FLIGHT_MAX):
        batch = with_data[start : start + IN_FLIGHT_MAX]
        for node, (data, _) in await ask_each(session, batch, get_data, found.denied):
            lines = [
                line for line in (data or b"").decode(errors="replace").splitlines() if pattern.search(line)
            ]
            has_match |= bool(lines)
            _show_match(shell, node, data, lines, only_paths)
    tell_denied(shell, found)
    return EXIT_REFUSED if found.denied or not has_match else 0


def _show_match(shell: Shell, node: str, data: bytes | None, lines: list[str], only_paths: bool) -> None:
    if not lines:
        return
    if shell.wants_json:
        shell.out_json(
            {"path": node, "lines": lines} if not only_paths else {"path": node} | data_values(data)
        )
    elif only_paths:
        shell.out(node)
    else:
        for line in lines:
            shell.out(f"{node}:{line}")


@shell_command("du")
@click.argument("path", default="/")
@click.option(
    "-d",
    "--depth",
    "depth_max",
    default=1,
    show_default=True,
    type=click.IntRange(0),
    help="How deep to list.",
)
@click.option("-b", "--bytes", "in_bytes", is_flag=True, help="Sizes as plain numbers.")
@json_option
async def du_command(shell: Shell, path: str, depth_max: int, in_bytes: bool) -> int:
    """Show how many nodes and how many bytes of data subtrees hold, largest first."""
    found = await walk_with_progress(shell, await shell.session(), path)
    totals = subtree_totals({node: stat.data_length for node, stat in found.stats.items()}, path)
    depth_of_root = 0 if path == "/" else path.count("/")
    rows = [
        (node, count, size)
        for node, (count, size) in totals.items()
        if (0 if node == "/" else node.count("/")) - depth_of_root <= depth_max
    ]
    rows.sort(key=lambda row: (-row[2], -row[1], row[0]))
    if shell.wants_json:
        shell.out_json([{"path": node, "nodes": count, "bytes": size} for node, count, size in rows])
    else:
        for node, count, size in rows:
            shell.out(f"{size if in_bytes else size_text(size):>10}  {count:>8}  {node}")
    return EXIT_REFUSED if found.denied else 0


def subtree_totals(sizes: dict[str, int], root: str) -> dict[str, tuple[int, int]]:
    """For each node: how many nodes its subtree has, itself included, and how many bytes."""
    totals = {node: (1, size) for node, size in sizes.items()}
    for node in sorted(sizes, key=lambda path: path.count("/") if path != "/" else 0, reverse=True):
        parent = parent_of(node)
        if node != root and parent in totals:
            count, size = totals[parent]
            totals[parent] = (count + totals[node][0], size + totals[node][1])
    return totals
