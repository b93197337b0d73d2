"""Commands that create, change and delete nodes."""

from contextlib import suppress

import click

from client import requests
from client.acls import OPEN_ACL_UNSAFE
from client.errors import NoAuth, NodeExists, NoNode, NotEmpty
from client.multi import ANY_VERSION, Delete
from client.option_types import MILLISECONDS, VERSION
from client.paths import parent_of, validate_path
from client.requester import Requester
from client.requests import Request
from client.shell.acl_text import parse_acl
from client.shell.command_table import json_option, shell_command
from client.shell.commands.walking import walk_with_progress
from client.shell.failures import EXIT_REFUSED, EXIT_USAGE, CommandFailed
from client.shell.files import STANDARD, read_bytes
from client.shell.output import stat_values
from client.shell.shell import Shell
from client.shell.walk import ask_each
from jute.opcodes import CreateMode

SERVERS_OWN = frozenset({"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"})


@shell_command("create")
@click.argument("path")
@click.argument("data", default="")
@click.option("-e", "--ephemeral", is_flag=True, help="It goes when this session ends: with the shell.")
@click.option("-s", "--sequential", is_flag=True, help="A number is added to the name.")
@click.option("-c", "--container", is_flag=True, help="It goes when its last child has gone.")
@click.option(
    "-t", "--ttl", "ttl_ms", type=MILLISECONDS, metavar="MS", help="It goes when unchanged for so long."
)
@click.option("-p", "--parents", is_flag=True, help="Create what is missing above it, too.")
@click.option("--acl", "acl_text", metavar="ACL", help="E.g. world:anyone:r,digest:user:hash:cdrwa")
@json_option
async def create_command(
    shell: Shell,
    path: str,
    data: str,
    ephemeral: bool,
    sequential: bool,
    container: bool,
    ttl_ms: int | None,
    parents: bool,
    acl_text: str | None,
) -> None:
    """Create a node and print its path. DATA of - is read from standard input."""
    mode = create_mode(ephemeral, sequential, container, ttl_ms is not None)
    acl = parse_acl(acl_text) if acl_text else OPEN_ACL_UNSAFE
    session = await shell.session()
    if parents:
        await create_parents(session, path)
    made, stat = await session.create(path, read_data(data), acl, mode, ttl_ms)
    if shell.wants_json:
        shell.out_json({"path": made, "stat": stat_values(stat)})
    else:
        shell.out(made)


def create_mode(ephemeral: bool, sequential: bool, container: bool, ttl: bool) -> CreateMode:
    """The mode for a combination of options, if there is one."""
    modes = {
        (False, False, False, False): CreateMode.PERSISTENT,
        (True, False, False, False): CreateMode.EPHEMERAL,
        (False, True, False, False): CreateMode.PERSISTENT_SEQUENTIAL,
        (True, True, False, False): CreateMode.EPHEMERAL_SEQUENTIAL,
        (False, False, True, False): CreateMode.CONTAINER,
        (False, False, False, True): CreateMode.PERSISTENT_WITH_TTL,
        (False, True, False, True): CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL,
    }
    mode = modes.get((ephemeral, sequential, container, ttl))
    if mode is None:
        raise CommandFailed(
            "there is no such kind of node: -e, -c and -t exclude each other, -c and -s too", EXIT_USAGE
        )
    return mode


async def create_parents(session: Requester, path: str) -> None:
    """Create the nodes above a path that are missing."""
    validate_path(path, is_sequential=True)  # which may end in a slash
    missing = []
    above = parent_of(path)
    while above != "/" and await session.exists(above) is None:
        missing.append(above)
        above = parent_of(above)
    for parent in reversed(missing):
        with suppress(NodeExists):  # somebody else did it
            await session.create(parent)


def read_data(argument: str) -> bytes:
    """What an argument means as data: its bytes, whether they are UTF-8 or not."""
    return read_bytes(STANDARD) if argument == STANDARD else argument.encode(errors="surrogateescape")


@shell_command("set")
@click.argument("path")
@click.argument("data")
@click.option("-v", "--version", default=ANY_VERSION, type=VERSION, help="Only if the node has this version.")
@json_option
async def set_command(shell: Shell, path: str, data: str, version: int) -> None:
    """Replace a node's data. DATA of - is read from standard input."""
    stat = await (await shell.session()).set_data(path, read_data(data), version)
    if shell.wants_json:
        shell.out_json(stat_values(stat))


@shell_command("rm")
@click.argument("path")
@click.option("-r", "--recursive", is_flag=True, help="All of the subtree.")
@click.option("-f", "--force", is_flag=True, help="No error if it is not there.")
@click.option("-v", "--version", default=ANY_VERSION, type=VERSION, help="Only if the node has this version.")
async def rm_command(shell: Shell, path: str, recursive: bool, force: bool, version: int) -> int:
    """Delete a node."""
    session = await shell.session()
    try:
        if recursive:
            return await _delete_subtree(shell, session, path, version)
        await session.delete(path, version)
    except NoNode:
        if not force:
            raise
    return 0


async def _delete_subtree(shell: Shell, session: Requester, root: str, version: int) -> int:
    """The deepest first. What goes away by itself is no error; what comes meanwhile is looked for again."""
    for _ in range(100):
        found = await walk_with_progress(shell, session, root)
        if found.denied:
            return EXIT_REFUSED
        paths = [path for path in found.stats if path != root and path not in SERVERS_OWN]
        try:
            await delete_all(session, paths)
            if root != "/":
                await session.delete(root, version)
        except NotEmpty:
            continue
        return 0
    raise CommandFailed(f"{root}: somebody creates nodes as fast as they are deleted")


async def delete_all(session: Requester, paths: list[str]) -> None:
    """Level by level, the deepest first. What has gone already is no error."""
    denied: list[str] = []

    def delete(path: str) -> Request[None]:
        return requests.delete(session.chroot, Delete(path))

    for depth in sorted({path.count("/") for path in paths}, reverse=True):
        await ask_each(session, [path for path in paths if path.count("/") == depth], delete, denied)
        if denied:
            raise NoAuth(-102, denied[0])
