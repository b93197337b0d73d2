"""Standard streams for a process that was started without some of them (`<&-`, `>&-`)."""

import os
import sys


def open_missing_streams() -> None:
    """Let those that are closed be the null device: else a socket would get their number."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115  # for the rest of the process
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
