"""Commands that copy and compare: between nodes, ensembles and files."""

from contextlib import suppress
from functools import partial

import click

from client import requests
from client.acls import OPEN_ACL_UNSAFE
from client.errors import NodeExists, NoNode, ServerError
from client.multi import ANY_VERSION, Create, Delete, SetData
from client.option_types import VERSION
from client.paths import Chroot, join
from client.requester import Requester
from client.requests import AnyRequest
from client.shell.command_table import json_option, shell_command
from client.shell.commands.walking import read_tree_with_progress
from client.shell.commands.writing import create_parents
from client.shell.failures import EXIT_REFUSED, EXIT_USAGE, CommandFailed
from client.shell.files import is_there, read_bytes, read_text, write_bytes
from client.shell.output import data_values
from client.shell.places import FilePlace, NodePlace, parse_place
from client.shell.progress import progress_bar
from client.shell.shell import Shell
from client.shell.trees import (
    InvalidTreeFile,
    Kind,
    Node,
    Step,
    from_json,
    has_sequential,
    in_levels,
    missing_parents,
    plan,
    to_json,
)
from client.shell.walk import IN_FLIGHT_MAX, ask_each
from jute.opcodes import OpCode

PLACES = "A place: /path, zk://HOST:PORT,.../path, NAME or file:/NAME of a JSON file, - for stdin or stdout."
COUNTERS_NOTE = "note: sequence counters are not copied; a snapshot of the server keeps them"


@shell_command("cp", epilog=PLACES)
@click.argument("source")
@click.argument("target")
@click.option("-r", "--recursive", is_flag=True, help="All of the subtree.")
@click.option("-f", "--force", is_flag=True, help="Replace the data of nodes that are there.")
@click.option("--acl", "with_acl", is_flag=True, help="Copy the ACLs too.")
async def cp_command(
    shell: Shell, source: str, target: str, recursive: bool, force: bool, with_acl: bool
) -> int:
    """Copy a node or a subtree. Ephemerals stay behind."""
    origin, goal = parse_place(source), parse_place(target)
    if isinstance(origin, NodePlace) and not recursive:
        tree, is_whole = await _read_one(await shell.session(origin.servers), origin.path, with_acl), True
    else:
        tree, is_whole = await read_place(shell, origin, with_acl=with_acl)
    if len(tree) > 1 and not recursive:
        raise CommandFailed(f"{origin} holds {len(tree)} nodes; use cp -r", EXIT_USAGE)
    if isinstance(goal, FilePlace):
        if not force and is_there(goal.name):
            raise CommandFailed(f"{goal} is there already; use -f to replace it")
        write_bytes(goal.name, to_json(tree).encode())
    else:
        session = await shell.session(goal.servers)
        present = await _present(session, goal.path, tree) if force else {}
        await apply_steps(session, goal.path, plan(tree, present, deletes=False), is_new=not force)
        if has_sequential(tree):
            shell.note(COUNTERS_NOTE)
    return 0 if is_whole else EXIT_REFUSED


async def _read_one(session: Requester, path: str, with_acl: bool) -> dict[str, Node]:
    data, _ = await session.get_data(path)
    acl = tuple((await session.get_acl(path))[0]) if with_acl else None
    return {"/": Node(data, acl)}


async def _present(session: Requester, root: str, tree: dict[str, Node]) -> dict[str, Node]:
    """Those of the nodes to be copied that are there, with other data, so that theirs is replaced."""
    there = {_under(root, path): path for path in tree}
    found = await ask_each(session, there, partial(requests.exists, session.chroot, watch=False), [])
    return {there[path]: _unlike(tree[there[path]]) for path, _ in found}


def _unlike(node: Node) -> Node:
    return Node(b"" if node.data is None else None, node.acl)


@shell_command("diff", epilog=PLACES)
@click.argument("first")
@click.argument("second")
@click.option("--acl", "with_acl", is_flag=True, help="Compare the ACLs too.")
@json_option
async def diff_command(shell: Shell, first: str, second: str, with_acl: bool) -> int:
    """Compare two subtrees: what would have to be created (+), changed (~) or deleted (-) in SECOND.

    Exit code 1 if they differ.
    """
    here, is_whole_here = await read_place(shell, parse_place(first), with_acl=with_acl)
    there, is_whole_there = await read_place(shell, parse_place(second), with_acl=with_acl, may_lack=True)
    steps = plan(here, there, deletes=True)
    _show_steps(shell, steps)
    return EXIT_REFUSED if steps or not (is_whole_here and is_whole_there) else 0


@shell_command("mirror", epilog=PLACES)
@click.argument("source")
@click.argument("target")
@click.option("-n", "--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--keep", is_flag=True, help="Delete nothing that only the target has.")
@click.option("--acl", "with_acl", is_flag=True, help="ACLs too.")
@json_option
async def mirror_command(
    shell: Shell, source: str, target: str, dry_run: bool, keep: bool, with_acl: bool
) -> int:
    """Make TARGET equal to SOURCE, and show each step: + created, ~ changed, - deleted.

    Ephemerals are neither copied nor deleted.
    """
    origin, goal = parse_place(source), parse_place(target)
    if isinstance(origin, NodePlace) and isinstance(goal, NodePlace):
        _refuse_overlap(shell, origin, goal)
    tree, is_whole = await read_place(shell, origin, with_acl=with_acl)
    if not is_whole and not keep:
        raise CommandFailed("the source could not be read as a whole; --keep copies what can be read")
    present, is_goal_whole = await read_place(shell, goal, with_acl=with_acl, may_lack=True)
    steps = plan(tree, present, deletes=not keep)
    _show_steps(shell, steps)
    if dry_run:
        return 0
    if isinstance(goal, FilePlace):
        write_bytes(goal.name, to_json({**present, **tree} if keep else tree).encode())
    else:
        await apply_steps(await shell.session(goal.servers), goal.path, steps, is_new=False)
        if has_sequential(step.path for step in steps if step.kind is Kind.CREATE):
            shell.note(COUNTERS_NOTE)
    return 0 if is_whole and is_goal_whole else EXIT_REFUSED


def _refuse_overlap(shell: Shell, origin: NodePlace, goal: NodePlace) -> None:
    """A mirror into its own source would grow with each run; one onto its parent would delete the source."""
    servers = [place.servers or shell.servers for place in (origin, goal)]
    if not set(servers[0].hosts) & set(servers[1].hosts):
        return
    paths = [at.chroot.to_server(place.path) for at, place in zip(servers, (origin, goal), strict=True)]
    inner, outer = (f"{path.rstrip('/')}/" for path in sorted(paths, key=len, reverse=True))
    if inner.startswith(outer):
        raise CommandFailed(f"{origin} and {goal}: one is a part of the other; cp -r copies", EXIT_USAGE)


def _show_steps(shell: Shell, steps: list[Step]) -> None:
    for step in steps:
        if shell.wants_json:
            data = {} if step.node is None else data_values(step.node.data)
            shell.out_json({"change": step.kind.name.lower(), "path": step.path, **data})
        else:
            shell.out(str(step))


async def read_place(
    shell: Shell, place: NodePlace | FilePlace, *, with_acl: bool, may_lack: bool = False
) -> tuple[dict[str, Node], bool]:
    """The tree at a place, and whether all of it could be read. A place that may be missing is empty then."""
    if isinstance(place, NodePlace):
        session = await shell.session(place.servers)
        try:
            tree, found = await read_tree_with_progress(shell, session, place.path, with_acl=with_acl)
        except NoNode:
            if may_lack:
                return {}, True
            raise
        return tree, not found.denied
    try:
        return from_json(read_text(place.name)), True
    except FileNotFoundError:
        if may_lack:
            return {}, True
        raise CommandFailed(f"{place}: no such file") from None
    except InvalidTreeFile as problem:
        raise CommandFailed(f"{place}: {problem}") from None


async def apply_steps(session: Requester, root: str, steps: list[Step], *, is_new: bool) -> None:
    """Do what was planned: level by level, and what is on one level at the same time.

    If it `is_new`, a node that is there already is an error.
    """
    created = {step.path: step.node for step in steps if step.kind is Kind.CREATE and step.node}
    if created:
        await create_parents(session, root)
    for path in missing_parents(created):
        with suppress(NodeExists):
            await session.create(_under(root, path))
    with progress_bar(f"writing {root}", len(steps)) as advance:
        for level in in_levels(steps):
            for start in range(0, len(level), IN_FLIGHT_MAX):
                batch = level[start : start + IN_FLIGHT_MAX]
                await _apply(session, root, batch, is_new)
                advance(len(batch))


async def _apply(session: Requester, root: str, steps: list[Step], is_new: bool) -> None:
    asked = [request for step in steps for request in _requests_of(session.chroot, root, step)]
    for request, answer in zip(asked, await session.many(asked), strict=True):
        is_done_already = (request.op is OpCode.DELETE and isinstance(answer, NoNode)) or (
            isinstance(answer, NodeExists) and not is_new
        )
        if isinstance(answer, ServerError) and not is_done_already:
            raise answer


def _requests_of(chroot: Chroot, root: str, step: Step) -> list[AnyRequest]:
    path, node = _under(root, step.path), step.node
    if step.kind is Kind.DELETE:
        return [requests.delete(chroot, Delete(path))]
    assert node is not None
    if step.kind is Kind.CREATE:
        return [requests.create(chroot, Create(path, node.data, node.acl or OPEN_ACL_UNSAFE))]
    changes: list[AnyRequest] = []
    if step.changes_data:
        changes.append(requests.set_data(chroot, SetData(path, node.data)))
    if step.changes_acl and node.acl is not None:
        changes.append(requests.set_acl(chroot, path, node.acl, ANY_VERSION))
    return changes


def _under(root: str, path: str) -> str:
    return root if path == "/" else join(root, path.lstrip("/"))


@shell_command("export")
@click.argument("path")
@click.argument("file")
async def export_command(shell: Shell, path: str, file: str) -> None:
    """Write a node's data to a file, byte for byte; - is standard output."""
    data, _ = await (await shell.session()).get_data(path)
    write_bytes(file, data or b"")


@shell_command("import")
@click.argument("file")
@click.argument("path")
@click.option("-v", "--version", default=ANY_VERSION, type=VERSION, help="Only if the node has this version.")
@click.option("-c", "--create", is_flag=True, help="Create the node if it is not there.")
async def import_command(shell: Shell, file: str, path: str, version: int, create: bool) -> None:
    """Replace a node's data by a file's, byte for byte; - is standard input."""
    data = read_bytes(file)
    session = await shell.session()
    try:
        await session.set_data(path, data, version)
    except NoNode:
        if not create:
            raise
        await session.create(path, data)
