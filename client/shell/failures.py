"""How commands fail: a line for people, an exit code for scripts."""

from client.errors import ServerError

EXIT_REFUSED = 1  # the server said no, nothing matches, it differs
EXIT_USAGE = 2
EXIT_NOBODY_SERVING = 3
EXIT_NO_SUCH_COMMAND = 127
EXIT_INTERRUPTED = 130  # 128 and the signal's number, as a shell has it
EXIT_BROKEN_PIPE = 141

CONNECTION_LOSS = -4

_WORDING = {
    -8: "the server takes this for bad arguments",
    -13: "too few servers of the new ensemble are connected and up to date",
    -14: "another reconfiguration is under way",
    -101: "no such node",
    -102: "not allowed by the ACL; see addauth",
    -103: "the node has another version",
    -108: "an ephemeral node has no children",
    -110: "the node exists already",
    -111: "the node has children; rm -r deletes them too",
    -112: "the session has expired",
    -114: "the server does not accept this ACL",
    -115: "the server refused the credentials",
    -119: "this server is read-only: it has no quorum",
    -123: "reconfiguration is switched off; see reconfigEnabled",
    -125: "a hard quota would be exceeded",
}


class CommandFailed(Exception):
    """The command cannot be done; the text says why."""

    def __init__(self, text: str, exit_code: int = EXIT_REFUSED) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def failure_of(error: ServerError) -> CommandFailed:
    """What to tell of an answer that is an error."""
    if error.code == CONNECTION_LOSS:
        return CommandFailed("the connection was lost before the answer came", EXIT_NOBODY_SERVING)
    wording = _WORDING.get(error.code, error.wording)
    return CommandFailed(f"{error.path}: {wording}" if error.path else wording)
