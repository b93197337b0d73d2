"""What a container is asked to run. Pure."""

from collections.abc import Sequence
from pathlib import PurePosixPath

import attrs

BITNAMI_COMMANDS = ("/run.sh", "/opt/bitnami/scripts/zookeeper/run.sh")
CONFLUENT_COMMAND = "/etc/confluent/docker/run"


@attrs.frozen
class Command:
    """A command line.

    `is_server`: it runs a server, so it gets the server's user. `becomes_server`: the process that runs it is
    the server in the end. `starts`: it does nothing else, with the usual configuration, so that no script is
    needed for it.
    """

    words: tuple[str, ...]
    is_server: bool = False
    becomes_server: bool = False
    starts: bool = False


def understand(words: Sequence[str]) -> Command:
    """What to do about a command line; without one, run a server."""
    command = tuple(words) or ("zkServer.sh", "start-foreground")
    if command[0] in BITNAMI_COMMANDS or command[0] == CONFLUENT_COMMAND:
        return Command(command, is_server=True, becomes_server=True, starts=True)
    match PurePosixPath(command[0]).name, *command[1:]:
        case ("zkServer.sh", "start-foreground") | ("triokeeper", "start"):
            return Command(command, is_server=True, becomes_server=True, starts=True)
        case ("zkServer.sh", *arguments):
            return Command(command, is_server=True, becomes_server="start-foreground" in arguments)
        case ("triokeeper", "start", *_):
            return Command(command, is_server=True, becomes_server=True)
        case ("zookeeper-server-start" | "zookeeper-server-start.sh", *arguments):
            return Command(command, is_server=True, becomes_server="-daemon" not in arguments)
    return Command(command)
