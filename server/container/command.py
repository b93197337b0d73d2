"""The command `triokeeper entrypoint`."""

from typing import NoReturn

import click


@click.command(
    context_settings={
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        "help_option_names": ["--help"],
    },
    short_help="Configure a server from environment variables, then run a command.",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[CMD ARGS...]")
def entrypoint(words: tuple[str, ...]) -> NoReturn:
    """Configure a server from environment variables, then run CMD: the entry point of a container.

    Understands the variables of the images zookeeper, bitnami/zookeeper and confluentinc/cp-zookeeper; see
    docs/DOCKER-ENVIRONMENT.md. Without CMD it runs a server.

    \b
    Exit codes:
      2    a variable has a wrong value, or asks for TLS or SASL; nothing was written
      3    a directory cannot be written: the message says whose it is, and what helps
      126  CMD cannot be run
      127  there is no such CMD
    Otherwise CMD's own.
    """
    from server.container.entrypoint import main

    main(words)
