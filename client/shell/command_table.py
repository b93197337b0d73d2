"""Where each command lives, and what it is for. A command is imported when it is asked for."""

from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, TypeAlias

import click

from client.shell.failures import EXIT_NO_SUCH_COMMAND

CommandFunction: TypeAlias = Callable[..., Coroutine[Any, Any, int | None]]  # returns the exit code

# Name: module in client/shell/commands, and what the list of commands says.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "ls": ("reading", "the children of a node"),
    "get": ("reading", "a node's data"),
    "stat": ("reading", "a node's bookkeeping"),
    "exists": ("reading", "exit code 0 if a node is there, else 1"),
    "count": ("reading", "how many nodes are below a node"),
    "ephemerals": ("reading", "this session's ephemerals"),
    "sync": ("reading", "let the server catch up with the leader"),
    "create": ("writing", "create a node"),
    "set": ("writing", "replace a node's data"),
    "rm": ("writing", "delete a node, or with -r all of a subtree"),
    "edit": ("editing", "edit a node's data in your editor"),
    "getacl": ("acls", "a node's ACL"),
    "setacl": ("acls", "replace a node's ACL"),
    "addauth": ("acls", "show credentials, e.g. digest user:password"),
    "whoami": ("acls", "who the server takes this session for"),
    "tree": ("searching", "a subtree as a drawing"),
    "find": ("searching", "nodes by name, size or kind"),
    "grep": ("searching", "nodes whose data matches"),
    "du": ("searching", "count and bytes of subtrees, largest first"),
    "cp": ("copying", "copy a node or, with -r, a subtree"),
    "diff": ("copying", "compare two subtrees; exit code 1 if they differ"),
    "mirror": ("copying", "make one subtree equal to another"),
    "export": ("copying", "write one node's data to a file"),
    "import": ("copying", "read one node's data from a file"),
    "watch": ("watching", "changes as JSON lines, as they happen"),
    "lock": ("locking", "run a command while holding a lock"),
    "config": ("ensemble", "the members of the ensemble"),
    "reconfig": ("ensemble", "change the members of the ensemble"),
    "connect": ("ensemble", "go on with other servers"),
    "listquota": ("quotas", "a subtree's limits and use"),
    "setquota": ("quotas", "limit the nodes or bytes of a subtree"),
    "delquota": ("quotas", "lift the limits of a subtree"),
}
# zkCli's names, for fingers that know them.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "delete": ("rm",),
    "deleteall": ("rm", "-r"),
    "rmr": ("rm", "-r"),
    "getAcl": ("getacl",),
    "setAcl": ("setacl",),
    "getEphemerals": ("ephemerals",),
    "getAllChildrenNumber": ("count",),
    "whoAmI": ("whoami",),
}


# These wait for something or mean several ensembles, so they need Trio, which takes a while to import.
_ON_TRIO = frozenset({"copying", "editing", "locking", "watching"})


def takes_its_time(name: str) -> bool:
    """Whether a command needs a shell that can wait."""
    return name in COMMANDS and COMMANDS[name][0] in _ON_TRIO


class NoSuchCommand(click.UsageError):
    """Neither a command nor an alias."""

    exit_code = EXIT_NO_SUCH_COMMAND


class ShellCommands(click.Group):
    """The commands of the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"client.shell.commands.{COMMANDS[cmd_name][0]}")
        command = getattr(module, f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        args = [*ALIASES.get(args[0], (args[0],)), *args[1:]]
        if args[0] not in COMMANDS:
            raise NoSuchCommand(f"there is no command {args[0]}; --help lists them", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Without importing them all."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])


def shell_command(name: str, **settings: Any) -> Callable[[CommandFunction], click.Command]:
    """Declare a command: an async function that is given the shell and its parameters."""

    def declare(function: CommandFunction) -> click.Command:
        return click.command(name, cls=click.Command, **settings)(_given_shell(function))

    return declare


def _given_shell(function: CommandFunction) -> CommandFunction:
    """A function that is given the shell first: whoever runs commands puts it into click's context."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Coroutine[Any, Any, int | None]:
        return function(click.get_current_context().obj, *args, **kwargs)

    return call


def _remember_json(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        ctx.obj.wants_json = True


json_option = click.option(
    "--json", is_flag=True, expose_value=False, callback=_remember_json, help="The result as JSON."
)
