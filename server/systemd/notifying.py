"""Telling systemd how the server is doing: ready, serving or not, stopping, and that its loop turns.

systemd names a Unix socket in NOTIFY_SOCKET, by path or, after an `@`, in the abstract namespace. Each
message is one datagram of lines such as READY=1 (sd_notify(3)). With WATCHDOG_USEC it wants to hear from the
server within that time, and restarts it otherwise (sd_watchdog_enabled(3)). A message that cannot be sent is
logged once, and stops nothing.
"""

import os
import socket
from collections.abc import Callable, Mapping
from typing import Self

import trio

from eventlog import log
from server.pipeline import Pipeline

SEND_SECONDS_MAX = 2.0
POLL_SECONDS = 0.1


class ServiceManager:
    """The systemd that started this server."""

    def __init__(self, address: str, watchdog_seconds: float | None = None) -> None:
        self._address = address
        self._watchdog_seconds = watchdog_seconds
        self._has_failed = False

    @classmethod
    def of(cls, environ: Mapping[str, str], pid: int) -> Self | None:
        """The one that the environment names; None if there is none, or its address cannot be used."""
        address = environ.get("NOTIFY_SOCKET")
        if not address:
            return None
        if address[0] not in "/@" or len(address) == 1:
            log.warning(
                "notify_socket_unusable", NOTIFY_SOCKET=address, remedy="name a path, or a name after an @"
            )
            return None
        return cls(address, watchdog_seconds(environ, pid))

    async def report(self, pipeline: Callable[[], Pipeline]) -> None:
        """Tell of every change of the server's role, and READY=1 when it first serves clients; never ends."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell_of_roles, pipeline)
            if self._watchdog_seconds is not None:
                nursery.start_soon(self._show_life, self._watchdog_seconds / 2)

    async def _tell_of_roles(self, pipeline: Callable[[], Pipeline]) -> None:
        told, is_ready = "", False
        while True:
            current = pipeline()
            serves = current.is_serving and not current.is_read_only
            status = f"serving, mode {current.mode}" if serves else "waiting for a quorum"
            if status != told:
                await self.tell(*(["READY=1"] if serves and not is_ready else []), f"STATUS={status}")
                told, is_ready = status, is_ready or serves
            await trio.sleep(POLL_SECONDS)

    async def _show_life(self, seconds: float) -> None:
        """Each message shows that the event loop turns, and with it everything that clients wait for."""
        while True:
            await self.tell("WATCHDOG=1")
            await trio.sleep(seconds)

    async def tell(self, *lines: str) -> None:
        path = os.fsencode(self._address)
        if path.startswith(b"@"):
            path = b"\0" + path[1:]
        with trio.move_on_after(SEND_SECONDS_MAX) as sending:
            try:
                with trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as messages:
                    await messages.connect(path)
                    await messages.send("\n".join(lines).encode())
            except OSError as failure:
                self._warn(failure.strerror or str(failure))
        if sending.cancelled_caught:
            self._warn(f"it took nothing for {SEND_SECONDS_MAX:g} s")

    def _warn(self, reason: str) -> None:
        if not self._has_failed:
            log.warning(
                "systemd_not_told",
                NOTIFY_SOCKET=self._address,
                reason=reason,
                remedy="start the server as a unit with Type=notify, or unset NOTIFY_SOCKET",
            )
        self._has_failed = True


def watchdog_seconds(environ: Mapping[str, str], pid: int) -> float | None:
    """Within which time systemd wants to hear from this process; None if it does not."""
    if environ.get("WATCHDOG_PID", str(pid)) != str(pid):
        return None
    microseconds = environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1e6 if microseconds.isdecimal() and int(microseconds) > 0 else None
