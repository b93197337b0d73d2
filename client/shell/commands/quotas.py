"""Commands about quotas, which mean what zkCli's do; only what is printed is ours."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from client.errors import NoNode
from client.shell.command_table import json_option, shell_command
from client.shell.failures import EXIT_USAGE, CommandFailed
from client.shell.shell import Shell
from client.zkcli import failures as zkcli_failures
from client.zkcli.commands.quotas import (
    check_may_have_quota,
    create_quota_parents,
    delete_quota,
    lift_limits,
    read_quota,
    write_limits,
)
from client.zkcli.quota_text import QUOTA_ROOT, Figures

# Our options, and the names in the nodes' data.
LIMITS = {"count": "count", "bytes": "bytes", "hard_count": "countHardLimit", "hard_bytes": "byteHardLimit"}


@contextmanager
def _quota_errors(shell: Shell, path: str) -> Iterator[None]:
    if shell.servers.chroot.prefix:
        raise CommandFailed("quotas are kept at the root: leave the chroot out", EXIT_USAGE)
    try:
        yield
    except NoNode:
        raise CommandFailed(f"{path}: there is no quota") from None
    except (zkcli_failures.CommandFailed, zkcli_failures.JavaException) as problem:
        raise CommandFailed(str(problem)) from None


@shell_command("listquota")
@click.argument("path")
@json_option
async def listquota_command(shell: Shell, path: str) -> None:
    """Show a node's limits, and what its subtree uses."""
    with _quota_errors(shell, path):
        limits, use = await read_quota(await shell.session(), path)
    values = {name: limits[key] for name, key in LIMITS.items() if limits[key] >= 0}
    if shell.wants_json:
        shell.out_json({"limits": values, "use": {"count": use["count"], "bytes": use["bytes"]}})
        return
    for name, value in values.items():
        shell.out(f"{name} limit = {value}")
    shell.out(f"count = {use['count']}")
    shell.out(f"bytes = {use['bytes']}")


@shell_command("setquota")
@click.argument("path")
@click.option("--count", type=click.IntRange(1), help="Warn in the server's log above so many nodes.")
@click.option("--bytes", type=click.IntRange(0), help="Warn above so many bytes of data.")
@click.option(
    "--hard-count", type=click.IntRange(1), help="Refuse writes above so many nodes; see enforceQuota."
)
@click.option("--hard-bytes", type=click.IntRange(0), help="Refuse writes above so many bytes.")
async def setquota_command(shell: Shell, path: str, **limits: int | None) -> None:
    """Limit a subtree, or change its limits."""
    wanted = {LIMITS[name]: value for name, value in limits.items() if value is not None}
    if not wanted:
        raise click.UsageError("name a limit: --count, --bytes, --hard-count or --hard-bytes")
    if path.startswith(QUOTA_ROOT):
        raise CommandFailed(f"{path}: the quotas themselves cannot have one")
    with _quota_errors(shell, path):
        session = await shell.session()
        await check_may_have_quota(session, path)
        await create_quota_parents(session, path)
        for warning in await write_limits(
            session, path, Figures(dict.fromkeys(LIMITS.values(), -1) | wanted)
        ):
            shell.note(warning)


@shell_command("delquota")
@click.argument("path")
@click.option("--count", is_flag=True, help="Only this limit, as of all options.")
@click.option("--bytes", is_flag=True)
@click.option("--hard-count", is_flag=True)
@click.option("--hard-bytes", is_flag=True)
async def delquota_command(shell: Shell, path: str, **limits: bool) -> None:
    """Lift the limits of a subtree: all, or those named."""
    names = [LIMITS[name] for name, is_named in limits.items() if is_named]
    with _quota_errors(shell, path):
        session = await shell.session()
        if names:
            await lift_limits(session, path, names)
        else:
            await delete_quota(session, path)
