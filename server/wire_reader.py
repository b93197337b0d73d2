"""Cuts a jute record into slices, where decoding whole records would only cost time.

Strings come out as bytes, buffers and ACLs stay in wire form, with their lengths in front. Whoever needs a declared
record uses jute.record.decode; the two are tested to agree.
"""

from struct import Struct

from jute.record import DecodeError

_INT = Struct(">i")
_LONG = Struct(">q")
_NULL = b"\xff\xff\xff\xff"


class WireReader:
    """Reads one field after another; DecodeError when the bytes end too early or a length is impossible."""

    __slots__ = ("data", "offset")

    def __init__(self, data: bytes, offset: int = 0) -> None:
        self.data = data
        self.offset = offset

    def read_bool(self) -> bool:
        return self._take(1) != b"\x00"

    def read_int(self) -> int:
        value: int = _INT.unpack(self._take(4))[0]
        return value

    def read_long(self) -> int:
        value: int = _LONG.unpack(self._take(8))[0]
        return value

    def read_string(self) -> bytes | None:
        text = self.read_buffer()
        return None if text == _NULL else text[4:]

    def read_buffer(self) -> bytes:
        """A jute buffer with its length in front."""
        start = self.offset
        length = self.read_int()
        if length > 0:
            self._take(length)
        elif length < -1:
            raise DecodeError(f"a length of {length} is impossible")
        return self.data[start : self.offset]

    def read_acl(self) -> bytes:
        """A vector of ACLs with its count in front."""
        start = self.offset
        for _ in range(self.read_int()):
            self._take(4)
            self.read_buffer()
            self.read_buffer()
        return self.data[start : self.offset]

    def _take(self, length: int) -> bytes:
        start, self.offset = self.offset, self.offset + length
        if self.offset > len(self.data):
            raise DecodeError("the record ends in the middle of a field")
        return self.data[start : self.offset]
