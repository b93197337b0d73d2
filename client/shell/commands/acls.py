"""Commands about who may do what."""

from functools import partial

import click

from client import requests
from client.multi import ANY_VERSION
from client.shell.acl_text import format_acl, parse_acl
from client.shell.command_table import json_option, shell_command
from client.shell.commands.walking import walk_with_progress
from client.shell.failures import EXIT_REFUSED
from client.shell.shell import Shell
from client.shell.walk import ask_each


@shell_command("getacl")
@click.argument("path")
@json_option
async def getacl_command(shell: Shell, path: str) -> None:
    """Show a node's ACL, one entry a line, as setacl takes it."""
    acl, _ = await (await shell.session()).get_acl(path)
    if shell.wants_json:
        shell.out_json(format_acl(acl))
    else:
        for entry in format_acl(acl):
            shell.out(entry)


@shell_command("setacl")
@click.argument("path")
@click.argument("acl_text", metavar="ACL")
@click.option("-R", "--recursive", is_flag=True, help="Of all nodes below it, too.")
@click.option("-v", "--version", default=ANY_VERSION, help="Only if the ACL has this version.")
async def setacl_command(shell: Shell, path: str, acl_text: str, recursive: bool, version: int) -> int:
    """Replace a node's ACL, e.g. by world:anyone:r,auth::cdrwa."""
    acl = parse_acl(acl_text)
    session = await shell.session()
    if not recursive:
        await session.set_acl(path, acl, version)
        return 0
    found = await walk_with_progress(shell, session, path)
    denied = list(found.denied)
    set_acl = partial(requests.set_acl, session.chroot, acl=acl, version=version)
    await ask_each(session, found.stats, set_acl, denied)
    for node in denied:
        shell.note(f"{node}: not allowed by the ACL")
    return EXIT_REFUSED if denied else 0


@shell_command("addauth")
@click.argument("scheme")
@click.argument("credentials", default="")
async def addauth_command(shell: Shell, scheme: str, credentials: str) -> None:
    """Show credentials, e.g. digest user:password, for the rest of this shell."""
    await shell.add_auth(scheme, credentials.encode())


@shell_command("whoami")
@json_option
async def whoami_command(shell: Shell) -> None:
    """Show the identities of this session."""
    identities = await (await shell.session()).who_am_i()
    if shell.wants_json:
        shell.out_json([{"scheme": info.auth_scheme, "user": info.user} for info in identities])
    else:
        for info in identities:
            shell.out(f"{info.auth_scheme}: {info.user}")
