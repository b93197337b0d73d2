"""`triokeeper zkcli` among the commands of `triokeeper`: listed there, but it reads its arguments itself."""

import sys
from typing import NoReturn

import click


class RawCommand(click.Command):
    """A command whose arguments are nobody's but its own: `-r`, `--help` and `--` too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params["arguments"] = args
        return args


@click.command(
    cls=RawCommand,
    short_help="zkCli as Apache ZooKeeper has it: same commands, same output.",
    add_help_option=False,
)
def zkcli(arguments: list[str]) -> NoReturn:
    """Run a command, or read commands from a pipe or a person, as Apache's zkCli does."""
    from client.zkcli.main import main

    sys.exit(main(arguments))
