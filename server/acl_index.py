"""A stored ACL taken apart, so that it tells what an id may without looking at its entries one by one.

Every access to a node asks its ACL, and one frame can ask tens of thousands of times. With an ACL of 1,000
entries and a client of 100 ids, comparing each with each took 10 ms a time; an index takes 10 us, and a few
ms to be made. Those used last are kept; `entries_read` counts the entries of those that had to be made, and
of ACLs that clients want to store: what they cost (slices.py).
"""

from struct import Struct
from struct import error as StructError
from typing import Final

from jute.primitives import decode_ustring
from jute.record import DecodeError
from server.ip_ids import address_of, network_of

Entry = tuple[int, str, str]  # perms, scheme, id

_INT: Final = Struct(">i")
_PERMS_AND_LENGTH: Final = Struct(">ii")
_KEPT_BYTES_MAX: Final = 4 << 20  # of ACLs; their indexes take up to ten times as much


def entries_of(acl: bytes) -> tuple[Entry, ...]:
    """The entries of a stored ACL. Null members cannot be stored, except in files we did not write."""
    entries, at = [], 4
    try:
        for _ in range(*_INT.unpack_from(acl)):
            (perms, length) = _PERMS_AND_LENGTH.unpack_from(acl, at)
            id_at = at + 8 + max(length, 0)
            scheme, id_length = acl[at + 8 : id_at], *_INT.unpack_from(acl, id_at)
            at = id_at + 4 + max(id_length, 0)
            entries.append((perms, _stored_text(scheme), _stored_text(acl[id_at + 4 : at])))
    except StructError:
        raise DecodeError("an ACL ends in the middle of an entry") from None
    if at > len(acl):
        raise DecodeError("an ACL ends in the middle of an id")
    return tuple(entries)


def _stored_text(stored: bytes) -> str:
    """A string of a stored ACL. Unlike a client's it may hold surrogates, which is how Java's encoding writes
    what lies beyond the basic plane: they must be the same text again, for somebody may have proven it."""
    if stored.isascii():
        return stored.decode("ascii")
    try:
        text = stored.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return decode_ustring(stored)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class AclIndex:
    """What the entries of one ACL grant, by id and by network."""

    __slots__ = ("_by_id", "_networks", "for_anyone", "is_empty")

    def __init__(self, acl: bytes) -> None:
        entries = entries_of(acl)
        self.is_empty = not entries
        self.for_anyone = 0
        self._by_id: dict[tuple[str, str], int] = {}
        self._networks: dict[tuple[int, int], dict[int, int]] = {}  # by width and counting bits: those bits
        for perms, scheme, name in entries:
            if scheme == "world" and name == "anyone":
                self.for_anyone |= perms
            self._by_id[scheme, name] = self._by_id.get((scheme, name), 0) | perms
            if scheme == "ip":
                self._add_network(name, perms)

    def _add_network(self, name: str, perms: int) -> None:
        network = network_of(name)
        if network is not None:
            width, bits, number = network
            same_kind = self._networks.setdefault((width, bits), {})
            prefix = number >> (width - bits)
            same_kind[prefix] = same_kind.get(prefix, 0) | perms

    def for_id(self, scheme: str, name: str) -> int:
        """What is granted to this very id."""
        return self._by_id.get((scheme, name), 0)

    def for_address(self, text: str) -> int:
        """What is granted to the networks that an address is in."""
        address = address_of(text) if self._networks else None
        if address is None:
            return 0
        granted = 0
        for (width, bits), networks in self._networks.items():
            if width == address[0]:
                granted |= networks.get(address[1] >> (width - bits), 0)
        return granted


class AclIndexes:
    """The indexes of the ACLs that were asked last, in the order of asking."""

    def __init__(self) -> None:
        self.entries_read = 0
        self._kept: dict[bytes, AclIndex] = {}
        self._kept_bytes = 0

    def of(self, acl: bytes) -> AclIndex:
        index = self._kept.pop(acl, None)
        if index is None:
            index = AclIndex(acl)
            self.entries_read += int.from_bytes(acl[:4], "big", signed=True)
            self._kept_bytes += len(acl)
            while self._kept and self._kept_bytes > _KEPT_BYTES_MAX:
                oldest = next(iter(self._kept))
                del self._kept[oldest]
                self._kept_bytes -= len(oldest)
        self._kept[acl] = index
        return index
