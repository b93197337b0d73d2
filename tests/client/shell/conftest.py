"""A server for the tests of the shell, and a part of its tree for each of them."""

from collections.abc import Iterator
from itertools import count

import pytest

from support.servers import Server, start_server
from tests.client.shell.cli_runner import Cli

_numbers = count(1)


@pytest.fixture(scope="session")
def shell_server() -> Iterator[Server]:
    with start_server("triokeeper", {"extendedTypesEnabled": "true"}) as running:
        yield running


@pytest.fixture
def cli(shell_server: Server) -> Cli:
    """A shell in a chroot of its own."""
    chroot = f"/test-{next(_numbers)}"
    Cli(shell_server.host_port).ok("create", chroot)
    return Cli(shell_server.host_port + chroot)
