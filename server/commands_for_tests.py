"""What `triokeeper.testing` runs: a server that a test controls, and a client for servers of others.

Both import what they need when they need it: a test waits for its server.
"""

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from server.replica import Replica


def serve_for_tests(arguments: Sequence[str]) -> int:
    """Run a server that a test controls, with the one configuration file in the arguments."""
    from server.starting import start_server

    [config] = arguments
    answers = os.dup(1)
    os.dup2(2, 1)
    return start_server((config,), beside=partial(_answer_tests, answers), shares_ports=True)


async def _answer_tests(answers: int, server: "Replica", port: int) -> None:
    from server.under_test import answer_tests

    await answer_tests(answers, server, port)


def change_tree_for_tests(arguments: Sequence[str]) -> int:
    """Make or remove the namespace of a test at a server that is there already: HOSTS, how, PATH."""
    import trio

    from client.connect_string import InvalidConnectString
    from client.errors import ServerError
    from server.tree_for_tests import change

    hosts, how, path = arguments
    try:
        trio.run(change, hosts, how, path)
    except (ServerError, InvalidConnectString, TimeoutError, trio.TooSlowError) as failure:
        print(str(failure) or "nobody serves there", file=sys.stderr)
        return 1
    return 0
