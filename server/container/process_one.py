"""What a server does differently as PID 1, which it is in a container.

The kernel does not carry out the default action of a signal for PID 1: without a handler, SIGTERM would be
lost and `docker stop` would take ten seconds. And the orphans of processes that were run in the container
become children of PID 1, which has to take note of their end.

From the first line of the entrypoint to the moment at which the server waits for signals, none is lost: the
entrypoint has a handler, holds the signals back while it becomes the server, and the server lets them in
again once it has a handler of its own.
"""

import os
import signal
from types import FrameType
from typing import NoReturn

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def end_on_signals() -> None:
    """End the process on SIGTERM and SIGINT, as every process but PID 1 does unasked."""
    if os.getpid() == 1:
        for number in STOP_SIGNALS:
            signal.signal(number, _end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(128 + number)


def hold_signals_back() -> None:
    """Keep SIGTERM and SIGINT waiting, across an exec too, until `end_on_signals`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


def take_note_of_orphans() -> None:
    """Let no ended process linger as a zombie. The server starts none whose exit code it would want."""
    if os.getpid() == 1:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
