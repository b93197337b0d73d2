"""Commands that look at single nodes."""

from functools import partial

import click

from client import requests
from client.errors import NoNode
from client.paths import join
from client.requester import Requester
from client.shell.command_table import json_option, shell_command
from client.shell.failures import EXIT_REFUSED
from client.shell.output import data_values, stat_lines, stat_values
from client.shell.shell import Shell
from jute.client_records import Stat


@shell_command("ls")
@click.argument("path", default="/")
@click.option(
    "-l", "--long", "is_long", is_flag=True, help="With version, size, children and time of change."
)
@click.option("-R", "--recursive", is_flag=True, help="Everything below it, as full paths.")
@json_option
async def ls_command(shell: Shell, path: str, is_long: bool, recursive: bool) -> int:
    """List the children of a node."""
    session = await shell.session()
    if recursive:
        from client.shell.commands.walking import walk_with_progress  # a plain list starts sooner without

        found = await walk_with_progress(shell, session, path)
        _show(shell, dict(found.stats), is_long)
        return EXIT_REFUSED if found.denied else 0
    names, _ = await session.get_children(path)
    if is_long:
        _show(shell, await _stats_of(session, path, names), is_long)
    elif shell.wants_json:
        shell.out_json(sorted(names))
    else:
        for name in sorted(names):
            shell.out(name)
    return 0


async def _stats_of(session: Requester, parent: str, names: list[str]) -> dict[str, Stat]:
    from client.shell.walk import ask_each

    paths = [join(parent, name) for name in sorted(names)]
    found = await ask_each(session, paths, partial(requests.exists, session.chroot, watch=False), [])
    return {path.rpartition("/")[2]: stat for path, stat in found}


def _show(shell: Shell, stats: dict[str, Stat], is_long: bool) -> None:
    if shell.wants_json and is_long:
        shell.out_json([{"name": name, **stat_values(stat)} for name, stat in stats.items()])
    elif shell.wants_json:
        shell.out_json(list(stats))
    else:
        for name, stat in stats.items():
            shell.out(f"{_long_columns(stat)}  {name}" if is_long else name)


def _long_columns(stat: Stat) -> str:
    kind = "e" if stat.ephemeral_owner else "-"
    changed = stat_values(stat)["mtime"]
    return f"{kind} v{stat.version:<5} {stat.data_length:>9} {stat.num_children:>7}  {changed}"


@shell_command("get")
@click.argument("path")
@click.option("--stat", "with_stat", is_flag=True, help="The bookkeeping too.")
@json_option
async def get_command(shell: Shell, path: str, with_stat: bool) -> None:
    """Write out a node's data, byte for byte."""
    data, stat = await (await shell.session()).get_data(path)
    if shell.wants_json:
        values = {"path": path, **data_values(data)}
        shell.out_json(values | ({"stat": stat_values(stat)} if with_stat else {}))
        return
    shell.out_data(data or b"")
    if with_stat:
        for line in stat_lines(stat):
            shell.note(line)


@shell_command("stat")
@click.argument("path")
@json_option
async def stat_command(shell: Shell, path: str) -> None:
    """Show a node's bookkeeping: zxids, times, versions, owner, sizes."""
    stat = await (await shell.session()).exists(path)
    if stat is None:
        raise NoNode(-101, path)
    if shell.wants_json:
        shell.out_json(stat_values(stat))
    else:
        for line in stat_lines(stat):
            shell.out(line)


@shell_command("exists")
@click.argument("path")
@json_option
async def exists_command(shell: Shell, path: str) -> int:
    """End with exit code 0 if the node is there, else with 1; print nothing."""
    stat = await (await shell.session()).exists(path)
    if shell.wants_json:
        shell.out_json(stat is not None)
    return EXIT_REFUSED if stat is None else 0


@shell_command("count")
@click.argument("path", default="/")
@json_option
async def count_command(shell: Shell, path: str) -> None:
    """Count the nodes below a node, at any depth."""
    count = await (await shell.session()).get_all_children_number(path)
    shell.out(str(count))


@shell_command("ephemerals")
@click.argument("prefix", default="/")
@json_option
async def ephemerals_command(shell: Shell, prefix: str) -> None:
    """List this session's ephemerals whose path starts with a text."""
    paths = sorted(await (await shell.session()).get_ephemerals(prefix))
    if shell.wants_json:
        shell.out_json(paths)
    else:
        for path in paths:
            shell.out(path)


@shell_command("sync")
@click.argument("path", default="/")
async def sync_command(shell: Shell, path: str) -> None:
    """Wait until the connected server has caught up with the leader."""
    await (await shell.session()).sync(path)
