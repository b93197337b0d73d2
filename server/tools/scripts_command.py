"""`triokeeper scripts` for the help of `triokeeper`; server.command comes to its function without this."""

import sys

import click

from server.tools.scripts import main


@click.command(
    name="scripts",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def scripts(arguments: tuple[str, ...]) -> None:
    """Install ZooKeeper's scripts: zkServer.sh, zkCleanup.sh, the toolkits."""
    sys.exit(main(arguments))
