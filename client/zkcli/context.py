"""What a command is given to work with."""

from typing import Protocol

from client.session import Session
from client.zkcli.console import Console
from jute.opcodes import AddWatchMode


class Context(Protocol):
    """The shell, as commands see it."""

    console: Console
    watch_mode: AddWatchMode  # of the next addWatch without -m: that of the last one with it
    is_one_shot: bool  # the only command of its process, which then ends without closing the session

    @property
    def session(self) -> Session: ...
