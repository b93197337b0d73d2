"""What a plan must know of the machine. Pure: the shell tells."""

from typing import Protocol

from server.container.variables import EXIT_DATA_DIR, Refused


class Facts(Protocol):
    """The machine as the user sees it that the server will run as."""

    @property
    def uid(self) -> int: ...

    @property
    def hostname(self) -> str: ...

    def read(self, path: str) -> bytes | None:
        """The contents of a file, None if there is none; OSError if it cannot be read."""

    def can_write(self, directory: str) -> bool:
        """Whether files can be made in a directory; no if there is none."""

    def owner(self, path: str) -> int | None:
        """The user id that a path belongs to, None if there is no such path."""


def read_own(facts: Facts, path: str) -> bytes | None:
    """The contents of a file that the server must be able to read, None if there is none."""
    try:
        return facts.read(path)
    except PermissionError:
        raise not_ours(facts, path, "read") from None
    except OSError as failure:
        raise Refused(
            f"{path} cannot be read ({failure.strerror}): mount a plain file there, or nothing", EXIT_DATA_DIR
        ) from None


def not_ours(facts: Facts, path: str, action: str) -> Refused:
    """One line: what cannot be done with which path, whose it is, who we are, and what helps."""
    owner = facts.owner(path)
    if owner == facts.uid:
        return Refused(
            f"{path} cannot be {action}, though it belongs to uid {owner}: "
            "it is mounted read-only, or its mode forbids it; mount it so that its owner may",
            EXIT_DATA_DIR,
        )
    return Refused(
        f"{path} belongs to uid {owner} and cannot be {action} by uid {facts.uid}: "
        f"on the host, chown -R {facts.uid} what is mounted there, or run the container with --user {owner}",
        EXIT_DATA_DIR,
    )
