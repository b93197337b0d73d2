"""ls, get, stat, getEphemerals, getAllChildrenNumber and sync."""

from client.errors import ServerError, server_error
from client.zkcli.commands.command import Command, watch_old_form
from client.zkcli.commands.subtree import visit_subtree
from client.zkcli.context import Context
from client.zkcli.failures import CommandFailed
from client.zkcli.forms import base64_text, hex_dump, java_sorted, list_text, plain_text, stat_lines
from client.zkcli.options import CommandLine, Option, Options, help_lines

_NO_NODE = -101


async def _ls(context: Context, line: CommandLine) -> None:
    if line.has("?"):
        context.console.out("usage: ls [options] path")
        context.console.out_lines(help_lines(_LS_OPTIONS))
    if len(line.arguments) < 2:
        raise CommandFailed(LS.usage_text)
    path, watch = line.arguments[1], line.has("w")
    if line.has("R"):
        async for visited in visit_subtree(context.session, path, watch=watch):
            context.console.out(visited)
        return
    children, stat = await context.session.get_children(path, watch)
    context.console.out(list_text(java_sorted(children)))
    if line.has("s"):
        context.console.out_lines(stat_lines(stat))


_LS_OPTIONS = Options(
    (Option("?", "help"), Option("s", "stat"), Option("w", "watch"), Option("R", "recurse")),
)
LS = Command(
    "ls",
    "[-s] [-w] [-R] path",
    _ls,
    _LS_OPTIONS,
    old_form=watch_old_form("ls", "ls [-w] path"),
    is_watch_old_form=True,
)


async def _get(context: Context, line: CommandLine) -> None:
    data, stat = await context.session.get_data(line.arguments[1], line.has("w"))
    form = hex_dump if line.has("x") else base64_text if line.has("b") else plain_text
    context.console.out(form(b"null" if data is None else data))
    if line.has("s"):
        context.console.out_lines(stat_lines(stat))


GET = Command(
    "get",
    "[-s] [-w] [-b] [-x] path",
    _get,
    Options(
        (
            Option("s", "Print znode stats additionally"),
            Option("w", "Watch for changes on the znode"),
            Option("b", "Output data in base64 format"),
            Option("x", "Output data in hexdump format"),
        )
    ),
    arguments_min=2,
    shows_options=True,
    old_form=watch_old_form("get", "get [-s] [-w] path"),
    is_watch_old_form=True,
)


async def _stat(context: Context, line: CommandLine) -> None:
    path = line.arguments[1]
    stat = await context.session.exists(path, line.has("w"))
    if stat is None:
        raise server_error(_NO_NODE, path)
    context.console.out_lines(stat_lines(stat))


STAT = Command(
    "stat",
    "[-w] path",
    _stat,
    Options((Option("w", "watch"),)),
    arguments_min=2,
    old_form=watch_old_form("stat", "stat [-w] path"),
    is_watch_old_form=True,
)


async def _get_ephemerals(context: Context, line: CommandLine) -> None:
    """All paths are the server's, even with a chroot: as Java's client has them."""
    prefix = line.arguments[1] if len(line.arguments) > 1 else "/"
    context.console.out(list_text(await context.session.get_ephemerals(prefix, ignores_chroot=True)))


GET_EPHEMERALS = Command("getEphemerals", "path", _get_ephemerals)


async def _get_all_children_number(context: Context, line: CommandLine) -> None:
    context.console.out(str(await context.session.get_all_children_number(line.arguments[1])))


GET_ALL_CHILDREN_NUMBER = Command("getAllChildrenNumber", "path", _get_all_children_number, arguments_min=2)


async def _sync(context: Context, line: CommandLine) -> None:
    try:
        await context.session.sync(line.arguments[1])
    except ServerError as error:
        context.console.out(f"Sync has failed. rc={error.code}")
    else:
        context.console.out("Sync is OK")


SYNC = Command("sync", "path", _sync, arguments_min=2)
