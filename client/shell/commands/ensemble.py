"""Commands about the ensemble itself."""

import click

from client.connect_string import parse_connect_string
from client.multi import ANY_VERSION
from client.shell.command_table import json_option, shell_command
from client.shell.shell import Shell


@shell_command("config")
@json_option
async def config_command(shell: Shell) -> None:
    """Show the members: nothing on a standalone server."""
    data, _ = await (await shell.session()).get_config()
    _show(shell, data)


def _show(shell: Shell, data: bytes | None) -> None:
    lines = (data or b"").decode(errors="replace").splitlines()
    if shell.wants_json:
        shell.out_json(dict(line.split("=", 1) for line in lines if "=" in line))
    else:
        for line in lines:
            shell.out(line)


@shell_command("reconfig")
@click.option(
    "--add", "joining", multiple=True, metavar="server.N=...", help="A server that joins; repeatable."
)
@click.option(
    "--remove", "leaving", multiple=True, metavar="N", help="The id of one that leaves; repeatable."
)
@click.option(
    "--members", "members", metavar="LINES", help="All members of the new ensemble, with commas between."
)
@click.option(
    "-v", "--version", "from_config", default=str(ANY_VERSION), metavar="HEX", help="Only from this one."
)
@json_option
async def reconfig_command(
    shell: Shell, joining: tuple[str, ...], leaving: tuple[str, ...], members: str | None, from_config: str
) -> None:
    """Change the members, and show the new configuration."""
    if members and (joining or leaving):
        raise click.UsageError("choose --members, or --add and --remove")
    if not (members or joining or leaving):
        raise click.UsageError("say what to change: --add, --remove or --members")
    try:
        version = int(from_config, 16)
    except ValueError:
        raise click.UsageError(f"{from_config!r} is no version: expected hexadecimal digits") from None
    session = await shell.session()
    data, _ = await session.reconfig(",".join(joining) or None, ",".join(leaving) or None, members, version)
    _show(shell, data)


@shell_command("connect")
@click.argument("servers", metavar="HOST:PORT,.../CHROOT")
async def connect_command(shell: Shell, servers: str) -> None:
    """Mean other servers from now on; the session with these stays until the end."""
    await shell.connect(parse_connect_string(servers))
