"""The shell that commands run in: what is printed where, and exit codes.

There are two kinds: blocking_shell.py for one command that starts at once, trio_shell.py for everything that
takes its time: people, scripts, watches, locks, several ensembles.
"""

import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any

import attrs
import click

from client.connect_string import ConnectString, InvalidConnectString
from client.errors import ServerError
from client.paths import InvalidPath
from client.printable import printable
from client.requester import Requester
from client.shell.acl_text import InvalidAclText
from client.shell.failures import EXIT_BROKEN_PIPE, EXIT_REFUSED, EXIT_USAGE, CommandFailed, failure_of


@attrs.frozen
class Settings:
    """What the command line says about the shell itself."""

    servers: ConnectString
    wait_s: float
    session_timeout_ms: int
    is_read_only_fine: bool = False
    auths: tuple[tuple[str, bytes], ...] = ()
    as_json: bool = False


class Shell(ABC):
    """One run of `triokeeper cli`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.servers = settings.servers  # of the session that commands mean unless they say otherwise
        self.wants_json = settings.as_json
        self._auths = list(settings.auths)

    @abstractmethod
    def run(self, command: Coroutine[Any, Any, int | None]) -> int:
        """Do a command, close all sessions, and return the exit code."""

    @abstractmethod
    async def session(self, servers: ConnectString | None = None) -> Requester:
        """A session that is connected: the shell's own, or one with other servers.

        Raises CommandFailed if nobody serves in time.
        """

    async def attempt(self, command: Coroutine[Any, Any, int | None]) -> int:
        """Do one command; say what went wrong, and return the exit code."""
        try:
            return await command or 0
        except CommandFailed as failure:
            return self.complain(failure)
        except ServerError as error:
            return self.complain(failure_of(error))
        except (InvalidPath, InvalidConnectString, InvalidAclText) as problem:
            return self.complain(CommandFailed(str(problem), EXIT_USAGE))
        except click.ClickException as problem:
            problem.show()
            return problem.exit_code
        except BrokenPipeError:  # whoever read our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_BROKEN_PIPE
        except OSError as problem:
            return self.complain(CommandFailed(str(problem), EXIT_REFUSED))

    def complain(self, failure: CommandFailed) -> int:
        if str(failure):
            self.note(str(failure))
        return failure.exit_code

    async def add_auth(self, scheme: str, auth: bytes) -> None:
        """Show credentials in this session and in all that are opened later."""
        await (await self.session()).add_auth(scheme, auth)
        self._auths.append((scheme, auth))

    async def connect(self, servers: ConnectString) -> None:
        """Mean other servers from now on, if they can be reached."""
        await self.session(servers)
        self.servers = servers

    # --- Output.

    def out(self, text: str = "") -> None:
        """A line. `color` keeps click from removing escape sequences from what goes into a pipe."""
        click.echo(printable(text) if sys.stdout.isatty() else text, color=True)

    def out_json(self, value: object) -> None:
        """One line, for the next program; over several for a person."""
        click.echo(json.dumps(value, indent=2 if sys.stdout.isatty() else None))

    def out_data(self, data: bytes) -> None:
        """Bytes as they are; on a terminal, harmless text, with the prompt on a line of its own."""
        if sys.stdout.isatty():
            click.echo(printable(data.decode(errors="backslashreplace")), nl=not data.endswith(b"\n"))
        else:
            click.echo(data, nl=False)

    def note(self, text: str) -> None:
        """Something to know that is no result."""
        click.echo(printable(text) if sys.stderr.isatty() else text, err=True)
