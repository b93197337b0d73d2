"""getAcl, setAcl, addauth and whoami."""

from contextlib import suppress

import trio

from client.errors import ServerError, server_error
from client.paths import validate_path
from client.session import Session
from client.zkcli.acl_text import parse_acl
from client.zkcli.commands.command import Command
from client.zkcli.commands.subtree import visit_subtree
from client.zkcli.commands.writing import version_of
from client.zkcli.context import Context
from client.zkcli.forms import acl_lines, stat_lines
from client.zkcli.options import CommandLine, Option, Options
from jute.client_records import Acl, Stat

AUTH_ANSWER_S_MAX = 1.0

_INVALID_ACL = -114


async def _get_acl(context: Context, line: CommandLine) -> None:
    acl, stat = await context.session.get_acl(line.arguments[1])
    context.console.out_lines(acl_lines(acl))
    if line.has("s"):
        context.console.out_lines(stat_lines(stat))


GET_ACL = Command("getAcl", "[-s] path", _get_acl, Options((Option("s", "stats"),)), arguments_min=2)


async def _set_acl(context: Context, line: CommandLine) -> None:
    _, path, text, *_ = line.arguments
    acl = parse_acl(text, context.console.err)
    version = version_of(line)
    if line.has("R"):
        async for visited in visit_subtree(context.session, path):
            try:
                await _set_one_acl(context.session, visited, acl, version)
            except ServerError as error:
                context.console.out_text(str(error))
        return
    stat = await _set_one_acl(context.session, path, acl, version)
    if line.has("s"):
        context.console.out_lines(stat_lines(stat))


async def _set_one_acl(session: Session, path: str, acl: list[Acl], version: int) -> Stat:
    validate_path(path)
    if not acl:
        raise server_error(_INVALID_ACL)
    return await session.set_acl(path, acl, version)


SET_ACL = Command(
    "setAcl",
    "[-s] [-v version] [-R] path acl",
    _set_acl,
    Options(
        (Option("s", "stats"), Option("v", "version", takes_value=True), Option("R", "recursive")),
    ),
    arguments_min=3,
)


async def _add_auth(context: Context, line: CommandLine) -> None:
    """Java does not wait for the answer. Here a prompt does, so that it tells how the session is now."""
    scheme = line.arguments[1]
    auth = line.arguments[2].encode(errors="replace") if len(line.arguments) > 2 else None
    if context.is_one_shot or not context.session.state.is_connected:
        context.session.show_auth(scheme, auth)
        return
    with trio.move_on_after(AUTH_ANSWER_S_MAX), suppress(ServerError):
        await context.session.add_auth(scheme, auth)


ADD_AUTH = Command("addauth", "scheme auth", _add_auth, arguments_min=2)


async def _who_am_i(context: Context, line: CommandLine) -> None:
    """An error means no identities, as in Java."""
    try:
        identities = await context.session.who_am_i()
    except ServerError:
        identities = []
    context.console.out("Auth scheme: User")
    context.console.out_lines(f"{identity.auth_scheme}: {identity.user}" for identity in identities)


WHO_AM_I = Command("whoami", "", _who_am_i, options=None)
