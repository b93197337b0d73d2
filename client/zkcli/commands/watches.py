"""addWatch and removewatches."""

from client.paths import InvalidPath
from client.zkcli.commands.command import Command
from client.zkcli.context import Context
from client.zkcli.failures import ILLEGAL_ARGUMENT, CommandFailed, JavaException
from client.zkcli.options import CommandLine, Option, Options
from jute.opcodes import AddWatchMode, WatcherType

_MODES = ", ".join(mode.name for mode in AddWatchMode)
_KINDS = {  # the first one given counts
    "c": WatcherType.CHILDREN,
    "d": WatcherType.DATA,
    "p": WatcherType.PERSISTENT,
    "r": WatcherType.PERSISTENT_RECURSIVE,
}


async def _add_watch(context: Context, line: CommandLine) -> None:
    if line.has("m"):
        try:
            context.watch_mode = AddWatchMode[line.value("m").upper()]
        except KeyError:
            raise CommandFailed(ADD_WATCH.usage_text) from None
    try:
        await context.session.add_watch(line.arguments[1], context.watch_mode)
    except InvalidPath as problem:
        raise JavaException(ILLEGAL_ARGUMENT, str(problem)) from None


ADD_WATCH = Command(
    "addWatch",
    f"[-m mode] path # optional mode is one of [{_MODES}] - default is PERSISTENT_RECURSIVE",
    _add_watch,
    Options((Option("m", "", takes_value=True),)),
    arguments_min=2,
    arguments_max=2,
)


async def _remove_watches(context: Context, line: CommandLine) -> None:
    kind = next((kind for letter, kind in _KINDS.items() if line.has(letter)), WatcherType.ANY)
    await context.session.remove_watches(line.arguments[1], kind, local=line.has("l"))


REMOVE_WATCHES = Command(
    "removewatches",
    "path [-c|-d|-a] [-l]",
    _remove_watches,
    Options(
        (
            Option("c", "child watcher type"),
            Option("d", "data watcher type"),
            Option("p", "persistent watcher type"),
            Option("r", "persistent recursive watcher type"),
            Option("a", "any watcher type"),
            Option("l", "remove locally when there is no server connection"),
        )
    ),
    arguments_min=2,
)
