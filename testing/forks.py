"""What a fork of the test's process must let go of.

A fork inherits every open file, and multiprocessing forks. With a copy of its pipe a server would outlive
whoever started it; with copies of a relay's sockets, connections that the test breaks would stay open and
ports would stay taken. So a fork replaces all of them by /dev/null: the numbers stay valid for the objects
that hold them, and nothing has to be locked or waited for. What a fork can use of a server is its address.
"""

import os
from collections.abc import Iterable
from typing import Protocol
from weakref import WeakSet


class Owner(Protocol):
    """Something with open files."""

    def descriptors(self) -> Iterable[int]: ...


owners: "WeakSet[Owner]" = WeakSet()


def _let_go() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for owner in list(owners):
        for descriptor in owner.descriptors():
            if descriptor >= 0:  # not closed
                os.dup2(nowhere, descriptor, inheritable=False)
    os.close(nowhere)
    owners.clear()


os.register_at_fork(after_in_child=_let_go)
