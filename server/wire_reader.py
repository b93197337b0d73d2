"""Cuts a jute record into slices, where decoding whole records would only cost time.

Strings come out as bytes, buffers and ACLs stay in wire form, with their lengths in front. Whoever needs a
declared record uses jute.record.decode; the two are tested to agree.
"""

from typing import Final

from librt.strings import read_i32_be, read_i64_be

from jute.record import DecodeError
from server.acls import OPEN_ACL

_NULL: Final = b"\xff\xff\xff\xff"
_UNLIMITED: Final = 1 << 62


class WireReader:
    """Reads one field after another; DecodeError when the bytes end too early or a length is impossible."""

    __slots__ = ("acl_entries", "data", "offset")

    def __init__(self, data: bytes, offset: int = 0) -> None:
        self.data = data
        self.offset = offset
        self.acl_entries = 0  # that were read so far, but for those of the open ACL: what they cost

    def read_bool(self) -> bool:
        at = self.offset
        if at >= len(self.data):
            raise _cut_short()
        self.offset = at + 1
        return self.data[at] != 0

    def read_int(self) -> int:
        at = self.offset
        if at + 4 > len(self.data):
            raise _cut_short()
        self.offset = at + 4
        return read_i32_be(self.data, at)

    def read_long(self) -> int:
        at = self.offset
        if at + 8 > len(self.data):
            raise _cut_short()
        self.offset = at + 8
        return read_i64_be(self.data, at)

    def read_string(self) -> bytes | None:
        text = self.read_buffer()
        return None if text == _NULL else text[4:]

    def read_buffer(self) -> bytes:
        """A jute buffer with its length in front."""
        start = self.offset
        length = self.read_int()
        if length < -1:
            raise DecodeError(f"a length of {length} is impossible")
        if length > 0:
            self.offset += length
            if self.offset > len(self.data):
                raise _cut_short()
        return self.data[start : self.offset]

    def read_acl(self, entries_max: int = _UNLIMITED) -> bytes:
        """A vector of ACLs with its count in front; nearly always it is the open one."""
        start = self.offset
        if self.data.startswith(OPEN_ACL, start):
            self.offset = start + len(OPEN_ACL)
            return OPEN_ACL
        count = self.read_int()
        if count > entries_max:
            raise DecodeError(f"an ACL has {count} entries, which is more than {entries_max}")
        for _ in range(count):
            self.acl_entries += 1
            self.read_int()
            self.read_buffer()
            self.read_buffer()
        return self.data[start : self.offset]


def _cut_short() -> DecodeError:
    return DecodeError("the record ends in the middle of a field")
