"""A client that says exactly what it is told to, right or wrong, and hides nothing of the answer.

The pieces of the wire (numbers, strings, buffers, vectors) as functions, a reader for replies, and a
connection that sends bytes and receives frames. It knows no sessions, keeps no state of watches and never
retries. Strings may be given as bytes where a test wants them malformed.
"""

import contextlib
import socket
from collections.abc import Iterable
from struct import Struct
from typing import Final

_INT = Struct(">i")
_LONG = Struct(">q")
_BYTE = Struct(">B")

NULL: Final = b"\xff\xff\xff\xff"
SILENCE_SECONDS_MAX: Final = 10.0

Text = str | bytes | None


def wire_int(value: int) -> bytes:
    return _INT.pack(value)


def wire_long(value: int) -> bytes:
    return _LONG.pack(value)


def wire_byte(value: int) -> bytes:
    return _BYTE.pack(value)


def wire_buffer(value: bytes | None) -> bytes:
    return NULL if value is None else _INT.pack(len(value)) + value


def wire_string(text: Text) -> bytes:
    return wire_buffer(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)


def wire_vector(items: Iterable[bytes] | None) -> bytes:
    if items is None:
        return NULL
    encoded = list(items)
    return _INT.pack(len(encoded)) + b"".join(encoded)


def wire_frame(payload: bytes) -> bytes:
    return _INT.pack(len(payload)) + payload


class Malformed(Exception):
    """A reply that is not what the protocol says it should be."""


class Reader:
    """Takes a reply apart, one field after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read_int(self) -> int:
        value: int = _INT.unpack(self.take(4))[0]
        return value

    def read_long(self) -> int:
        value: int = _LONG.unpack(self.take(8))[0]
        return value

    def read_bool(self) -> bool:
        return self.take(1) != b"\x00"

    def read_buffer(self) -> bytes | None:
        length = self.read_int()
        return None if length == -1 else self.take(length)

    def take(self, length: int) -> bytes:
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise Malformed(f"{length} bytes wanted at {self._at} of {len(self._data)}")
        taken, self._at = self._data[self._at : end], end
        return taken

    @property
    def rest(self) -> bytes:
        return self._data[self._at :]


class RawConnection:
    """A TCP connection to a server. Once `is_closed`, the server has hung up."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=SILENCE_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self.is_closed = False

    def send(self, data: bytes) -> None:
        """A server that hung up takes nothing any more; that is found out by reading."""
        with contextlib.suppress(OSError):
            self._socket.sendall(data)

    def receive_frame(self) -> bytes | None:
        """The next frame, or None if the server hung up first; TimeoutError if it says nothing at all."""
        while (frame := self._cut_frame()) is None:
            if not self._receive():
                return None
        return frame

    def receive_all(self) -> bytes:
        """Everything until the server hangs up."""
        while self._receive():
            pass
        return self._received

    def _cut_frame(self) -> bytes | None:
        if len(self._received) < 4:
            return None
        end = 4 + _INT.unpack_from(self._received)[0]
        if len(self._received) < end:
            return None
        frame, self._received = self._received[4:end], self._received[end:]
        return frame

    def _receive(self) -> bool:
        try:
            data = self._socket.recv(1 << 16)
        except TimeoutError:
            raise
        except OSError:
            data = b""
        self._received += data
        if not data:
            self.is_closed = True
        return bool(data)

    def hang_up(self) -> None:
        """Close, and return when the server has noticed."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            self.receive_all()
        self._socket.close()
