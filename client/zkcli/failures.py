"""How a command ends badly, and what is printed then.

CommandFailed   what zkCli says on stderr, with an exit code; the next command is read
JavaException   what Apache's zkCli does not catch, so that it ends with it and with exit code 1
"""

from client.errors import ServerError

EXIT_FAILED = 1
EXIT_NO_SUCH_COMMAND = 127

NUMBER_FORMAT = "java.lang.NumberFormatException"
ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"

_WORDING_BEFORE_PATH = {
    -101: "Node does not exist: ",
    -108: "Ephemerals cannot have children: ",
    -110: "Node already exists: ",
    -111: "Node not empty: ",
    -119: "Not a read-only call: ",
    -114: "Acl is not valid : ",
    -102: "Insufficient permission : ",
    -8: "Arguments are not valid : ",
    -103: "version No is not valid : ",
    -125: "Quota has exceeded : ",
}
_WORDING = {
    -13: "No quorum of new config is connected and up-to-date with the leader of last commmitted config - try"
    " invoking reconfiguration after new servers are connected and synced",
    -14: "Another reconfiguration is in progress -- concurrent reconfigs not supported (yet)",
}


class CommandFailed(Exception):
    """The command could not be done; its text goes to stderr."""

    def __init__(self, message: str, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class JavaException(Exception):
    """An exception that Apache's zkCli lets through: by the name of its Java class, and its message."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.message = message


def wording_of(error: ServerError) -> str:
    """What zkCli prints for an error of the server's."""
    if error.code in _WORDING_BEFORE_PATH:
        return _WORDING_BEFORE_PATH[error.code] + ("null" if error.path is None else error.path)
    return _WORDING.get(error.code, str(error))
