"""Length-prefixed frames out of a byte stream that may be cut anywhere.

A frame is an i32 length, which does not count itself, and that many bytes. The client port and the election
port both speak this; the learner port does not.
"""

import struct

_LENGTH = struct.Struct(">i")


class FrameError(ValueError):
    """A length that no frame may have. The stream cannot be read on: the connection must close."""


class FrameBuffer:
    """Bytes fed in, whole frames taken out, in order.

    A bad length is refused as soon as its four bytes are there. So a buffer that is drained after each
    feed never holds more than one frame of the largest size and what was fed last.
    """

    def __init__(self, frame_length_max: int) -> None:
        self._frame_length_max = frame_length_max
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Take in what arrived, however it was cut."""
        self._buffer += data

    def next_frame(self) -> bytes | None:
        """The payload of the next frame, or None until more is fed; an empty frame is b"".

        Raises FrameError if the next length is negative or above the maximum, now and ever after.
        """
        buffer = self._buffer
        if len(buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(buffer)
        if not 0 <= length <= self._frame_length_max:
            raise FrameError(f"frame length {length}: must be 0 to {self._frame_length_max}")
        end = _LENGTH.size + length
        if len(buffer) < end:
            return None
        frame = bytes(buffer[_LENGTH.size : end])
        del buffer[:end]
        return frame


def frame(payload: bytes) -> bytes:
    """The payload with its length in front, as it goes on the wire."""
    return _LENGTH.pack(len(payload)) + payload
