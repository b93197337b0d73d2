"""Who may: access control lists, the schemes that identify a client, and the checks between them.

An ACL stays in wire form (`vector<ACL>`) wherever it is stored or carried; acl_index.py takes it apart once
and remembers. The ids a connection has proven are a tuple of (scheme, id) pairs, replaced and never changed,
so a request that waits keeps the ids it was read with.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from struct import Struct
from struct import error as StructError

import attrs

from jute.client_records import ClientInfo
from jute.errors import AuthFailed, InvalidAcl, MarshallingError, NoAuth
from jute.opcodes import Perms
from jute.primitives import decode_ustring, encode_ustring
from jute.record import DecodeError
from server.acl_index import AclIndex, AclIndexes, Entry, entries_of
from server.ip_ids import network_of

AuthIds = tuple[tuple[str, str], ...]
_Asked = tuple[int, str | None, str | None]  # perms, scheme, id

_INT = Struct(">i")
_PERMS_AND_LENGTH = Struct(">ii")

# Bounds that no honest client meets. Every access asks every entry about every id: without them, a frame of
# a few bytes could keep the server busy for seconds.
ENTRIES_MAX = 1000  # of an ACL
ASKED_ENTRIES_MAX = 4 * ENTRIES_MAX  # where some are there twice
IDS_MAX = 100  # of a connection
ID_CHARACTERS_MAX = 64 << 10  # of all of them
_ADDRESS_CHARACTERS_MAX = 8192  # zeros may lead any number, so none is too long to be an address
_JUDGED_MAX = 1024
_JUDGED_BYTES_MAX = 4 << 20  # of their ACLs, which may be in use nowhere else any more
_IDS_PER_ENTRY = 8  # that are asked in the time in which an entry is read
_REDACTED_MAX = 32  # ACLs that are kept as most may see them
_REDACTED_BYTES_MAX = 128 << 10  # of each


def encode_acl(entries: Sequence[Entry]) -> bytes:
    parts = [_INT.pack(len(entries))]
    for perms, scheme, name in entries:
        scheme_bytes, name_bytes = encode_ustring(scheme), encode_ustring(name)
        head = _PERMS_AND_LENGTH.pack(perms, len(scheme_bytes))
        parts += (head, scheme_bytes, _INT.pack(len(name_bytes)), name_bytes)
    return b"".join(parts)


OPEN_ACL = encode_acl([(Perms.ALL, "world", "anyone")])
READ_ACL = encode_acl([(Perms.READ, "world", "anyone")])
CLOSED_ACL = encode_acl([(0, "world", "anyone")])  # nobody but super


@attrs.frozen
class Scheme:
    """How one scheme validates, proves and matches ids; the base knows none."""

    is_authenticating: bool = False

    def is_valid(self, name: str) -> bool:
        return False

    def granted(self, acl: AclIndex, scheme: str, proven: str) -> int:
        """What an ACL grants to an id of this scheme."""
        return acl.for_id(scheme, proven)

    def prove(self, data: bytes | None, address: str) -> AuthIds:
        raise AuthFailed

    def user_of(self, name: str) -> str:
        return name


@attrs.frozen
class DigestScheme(Scheme):
    """`user:password` is proven; `user:base64(hash(user:password))` is the id."""

    is_authenticating: bool = True
    algorithm: str = "SHA1"
    super_digest: str | None = None

    def __attrs_post_init__(self) -> None:
        digest_id(b"", self.algorithm)  # an unknown algorithm is a ValueError now, not at the first client

    def is_valid(self, name: str) -> bool:
        parts = name.split(":")
        while parts and not parts[-1]:
            parts.pop()
        return len(parts) == 2

    def prove(self, data: bytes | None, address: str) -> AuthIds:
        if data is None:
            raise AuthFailed
        name = digest_id(data, self.algorithm)
        if name == self.super_digest:
            return (("super", ""), ("digest", name))
        return (("digest", name),)

    def user_of(self, name: str) -> str:
        return name.split(":", 1)[0]


def digest_id(data: bytes, algorithm: str = "SHA1") -> str:
    """The id that the credentials `user:password` prove; the hash is of the text, not of malformed bytes."""
    text = decode_ustring(data)
    hashed = hashlib.new(hash_name(algorithm), text.encode(), usedforsecurity=False).digest()
    return f"{text.split(':', 1)[0]}:{base64.b64encode(hashed).decode()}"


def hash_name(algorithm: str) -> str:
    """Python's name of a hash, by Java's: SHA-256 is sha256, SHA3-256 sha3_256, SHA-512/256 sha512_256."""
    name = algorithm.lower().replace("/", "_")
    return name.replace("-", "_") if name.startswith("sha3-") else name.replace("-", "")


@attrs.frozen
class IpScheme(Scheme):
    """See ip_ids.py."""

    def is_valid(self, name: str) -> bool:
        return len(name) <= _ADDRESS_CHARACTERS_MAX and network_of(name) is not None

    def granted(self, acl: AclIndex, scheme: str, proven: str) -> int:
        return acl.for_address(proven)

    def prove(self, data: bytes | None, address: str) -> AuthIds:
        return (("ip", address),)


class Judged:
    """What was found about one set of ids, while the same ones ask: within a frame, and often beyond it.

    A connection that proves another id has another tuple of ids, and a node with another ACL other bytes, so
    nothing that was found is ever out of date.
    """

    __slots__ = ("_bytes", "ids", "permitted")

    def __init__(self) -> None:
        self.ids: AuthIds | None = None
        self.permitted: dict[tuple[bytes, int], bool] = {}
        self._bytes = 0

    def start(self, ids: AuthIds) -> None:
        self.ids = ids
        self.permitted = {}
        self._bytes = 0

    def remember(self, acl: bytes, wanted: int, is_permitted: bool) -> None:
        self._bytes += len(acl)
        if len(self.permitted) >= _JUDGED_MAX or self._bytes > _JUDGED_BYTES_MAX:
            self.permitted.clear()
            self._bytes = len(acl)
        self.permitted[acl, wanted] = is_permitted


@attrs.frozen
class AccessRules:
    """The schemes this server knows and the switches that bend the rules."""

    schemes: dict[str, Scheme] = attrs.field(factory=lambda: {"ip": IpScheme(), "digest": DigestScheme()})
    skip_acl: bool = False
    _indexes: AclIndexes = attrs.field(factory=AclIndexes, init=False, eq=False)
    _judged: "Judged" = attrs.field(factory=lambda: Judged(), init=False, eq=False)
    _redacted: dict[bytes, bytes] = attrs.field(factory=dict, init=False, eq=False)

    def permits(self, acl: bytes, wanted: int, ids: AuthIds) -> bool:
        """Whether these ids hold one of the wanted bits; an empty ACL permits everything."""
        if acl == OPEN_ACL or self.skip_acl:
            return True
        judged = self._judged
        if judged.ids is not ids:
            judged.start(ids)
        found = judged.permitted.get((acl, wanted))
        if found is None:
            found = self._judge(acl, wanted, ids)
            judged.remember(acl, wanted, found)
        return found

    def _judge(self, acl: bytes, wanted: int, ids: AuthIds) -> bool:
        index = self._indexes.of(acl)
        self._indexes.entries_read += len(ids) // _IDS_PER_ENTRY
        if index.is_empty or index.for_anyone & wanted:
            return True
        for scheme, name in ids:
            if scheme == "super":
                return True
            provider = self.schemes.get(scheme)
            if provider is not None and provider.granted(index, scheme, name) & wanted:
                return True
        return False

    @property
    def entries_read(self) -> int:
        """How many entries of ACLs were looked at so far: what they cost (slices.py)."""
        return self._indexes.entries_read

    def check(self, acl: bytes, wanted: int, ids: AuthIds) -> None:
        if not self.permits(acl, wanted, ids):
            raise NoAuth

    def fix_up(self, acl: bytes, ids: AuthIds) -> bytes:
        """The ACL to store for one a client sent: valid, without duplicates, `auth` expanded."""
        if acl == OPEN_ACL:
            return acl
        asked = _asked_entries(acl)
        self._indexes.entries_read += len(asked)
        fixed: list[Entry] = []
        for entry in _without_duplicates(asked):
            fixed += self._fix_entry(entry, ids)
            if len(fixed) > ENTRIES_MAX:  # `auth` may stand for many
                raise InvalidAcl
        if not fixed:
            raise InvalidAcl
        return encode_acl(fixed)

    def _fix_entry(self, entry: _Asked, ids: AuthIds) -> list[Entry]:
        perms, scheme, name = entry
        if scheme is None:
            raise InvalidAcl
        if scheme == "auth":
            return self._expand_auth(perms, ids)
        if name is None and (scheme == "world" or scheme in self.schemes):
            raise MarshallingError("an ACL of this scheme needs an id")
        if scheme == "world" and name == "anyone":
            return [(perms, scheme, name)]
        provider = self.schemes.get(scheme)
        if provider is None or name is None or not provider.is_valid(name):
            raise InvalidAcl
        return [(perms, scheme, name)]

    def _expand_auth(self, perms: int, ids: AuthIds) -> list[Entry]:
        expanded = [(perms, scheme, name) for scheme, name in ids if self._is_authenticating(scheme)]
        if not expanded:
            raise InvalidAcl
        return expanded

    def _is_authenticating(self, scheme: str) -> bool:
        provider = self.schemes.get(scheme)
        return provider is not None and provider.is_authenticating

    def prove(self, scheme: str | None, data: bytes | None, address: str) -> AuthIds:
        """The ids that an auth packet proves, or AuthFailed."""
        provider = self.schemes.get(scheme or "")
        if provider is None:
            raise AuthFailed
        return provider.prove(data, address)

    def redact(self, acl: bytes, ids: AuthIds) -> bytes:
        """The ACL as getACL shows it: without ADMIN, password hashes are hidden."""
        if self.permits(acl, Perms.ADMIN, ids):
            return acl
        shown = self._redacted.get(acl)
        if shown is None:
            entries = entries_of(acl)
            self._indexes.entries_read += len(entries)
            shown = encode_acl(
                [(p, s, _hide_hash(name) if s == "digest" else name) for p, s, name in entries]
            )
            if len(acl) <= _REDACTED_BYTES_MAX:
                if len(self._redacted) >= _REDACTED_MAX:
                    self._redacted.clear()
                self._redacted[acl] = shown
        return shown

    def client_infos(self, ids: AuthIds) -> tuple[ClientInfo, ...]:
        """What whoAmI tells: the user of every id, empty where no scheme can say."""
        return tuple(
            ClientInfo(scheme, self.schemes[scheme].user_of(name) if scheme in self.schemes else "")
            for scheme, name in ids
        )


_HASH = re.compile(":[^\n\r\u0085\u2028\u2029]*")  # to the end of the line, as Java knows lines


def _asked_entries(acl: bytes) -> list[_Asked]:
    """The entries that a client sent, which may lack texts."""
    entries: list[_Asked] = []
    at = 4
    try:
        for _ in range(*_INT.unpack_from(acl)):
            perms, length = _PERMS_AND_LENGTH.unpack_from(acl, at)
            at += 8
            scheme = None if length < 0 else decode_ustring(acl[at : at + length])
            at += max(length, 0)
            (length,) = _INT.unpack_from(acl, at)
            at += 4
            name = None if length < 0 else decode_ustring(acl[at : at + length])
            at += max(length, 0)
            entries.append((perms, scheme, name))
    except StructError:
        raise DecodeError("an ACL ends in the middle of an entry") from None
    return entries


def _without_duplicates(entries: Sequence[_Asked]) -> Sequence[_Asked]:
    """Each entry once. The original compares with each entry before, and breaks off where text is missing."""
    perms_seen: set[int] = set()
    schemes_seen: set[tuple[int, str | None]] = set()
    for perms, scheme, name in entries:
        if (scheme is None and perms in perms_seen) or (name is None and (perms, scheme) in schemes_seen):
            raise MarshallingError("an ACL entry cannot be compared with another")
        perms_seen.add(perms)
        schemes_seen.add((perms, scheme))
    return list(dict.fromkeys(entries))


def _hide_hash(name: str) -> str:
    return _HASH.sub(":x", name)


def add_ids(ids: AuthIds, proven: AuthIds) -> AuthIds:
    """What a connection has proven, and what it proves now; AuthFailed if that is too much."""
    both = tuple(dict.fromkeys(ids + proven))
    if len(both) > IDS_MAX or sum(len(name) for _, name in both) > ID_CHARACTERS_MAX:
        raise AuthFailed
    return both
