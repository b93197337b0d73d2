"""What a container is asked to run. Pure."""

from collections.abc import Sequence
from pathlib import PurePosixPath

import attrs

BITNAMI_COMMANDS = ("/run.sh", "/opt/bitnami/scripts/zookeeper/run.sh")
CONFLUENT_COMMAND = "/etc/confluent/docker/run"


@attrs.frozen
class Command:
    """A command line.

    `is_server`: it runs a server, so it gets the server's user. `starts`: it does nothing but run one in the
    foreground, with the configuration in `config_file`, or the usual one if that is None. Then no script is
    needed for it.
    """

    words: tuple[str, ...]
    is_server: bool = False
    starts: bool = False
    config_file: str | None = None


def understand(words: Sequence[str]) -> Command:
    command = tuple(words)
    program = PurePosixPath(command[0]).name if command else "zkServer.sh"
    match program, command[1:]:
        case "zkServer.sh", () if not command:
            return Command(("zkServer.sh", "start-foreground"), is_server=True, starts=True)
        case "zkServer.sh", ("start-foreground",):
            return Command(command, is_server=True, starts=True)
        case "triokeeper", ("start", *arguments):
            return Command(command, is_server=True, starts=not arguments)
        case "zkServer.sh", _:
            return Command(command, is_server=True)
        case (("zookeeper-server-start" | "zookeeper-server-start.sh"), (file,)):
            return Command(command, is_server=True, starts=True, config_file=file)
    if command[0] in BITNAMI_COMMANDS or command[0] == CONFLUENT_COMMAND:
        return Command(command, is_server=True, starts=True)
    return Command(command)
