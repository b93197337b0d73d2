"""Lines from the standard input, while the session goes on beside.

A thread waits in read(2) itself: unlike a file object of Python's it holds no lock that would be in the way
at the end of the process.
"""

import os

import trio

READ_BYTES_MAX = 65536


class InputLines:
    """The lines of a file descriptor."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._read = bytearray()

    async def next_line(self) -> str | None:
        """A line without its end; None at the end of the input. A last line that has no end is dropped."""
        while (end := self._read.find(b"\n")) < 0:
            data = await trio.to_thread.run_sync(
                os.read, self._descriptor, READ_BYTES_MAX, abandon_on_cancel=True
            )
            if not data:
                return None
            self._read += data
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        return line.decode(errors="replace").removesuffix("\r")
