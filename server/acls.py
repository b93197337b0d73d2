"""Who may: access control lists, the schemes that identify a client, and the checks between them.

An ACL stays in wire form (`vector<ACL>`) wherever it is stored or carried; `entries_of` decodes it once and
remembers. The ids a connection has proven are a tuple of (scheme, id) pairs, replaced and never changed, so a
request that waits keeps the ids it was read with.
"""

import base64
import functools
import hashlib
import re
from collections.abc import Sequence

import attrs

from jute.client_records import Acl, ClientInfo, Id
from jute.errors import AuthFailed, InvalidAcl, MarshallingError, NoAuth
from jute.opcodes import Perms
from jute.primitives import Buffer, Int, Vector, decode_ustring
from jute.record import decode, encode, record

AuthIds = tuple[tuple[str, str], ...]
Entry = tuple[int, str, str]  # perms, scheme, id

# Bounds that no honest client meets. Every access asks every entry about every id: without them, a frame of
# a few bytes could keep the server busy for seconds.
ENTRIES_MAX = 1000  # of an ACL
IDS_MAX = 100  # of a connection
ID_CHARACTERS_MAX = 64 << 10  # of all of them
_ADDRESS_CHARACTERS_MAX = 8192  # zeros may lead any number, so none is too long to be an address
_SHORT_ACL_BYTES_MAX = 1024


@record
class AclVector:
    """An ACL on its own, as it stands inside requests, transactions and snapshots."""

    acl: Vector[Acl]


def encode_acl(entries: Sequence[Entry]) -> bytes:
    return encode(AclVector(tuple(Acl(perms, Id(scheme, name)) for perms, scheme, name in entries)))


OPEN_ACL = encode_acl([(Perms.ALL, "world", "anyone")])
READ_ACL = encode_acl([(Perms.READ, "world", "anyone")])
CLOSED_ACL = encode_acl([(0, "world", "anyone")])  # nobody but super


@record
class _StoredAcl:
    """An Acl with its strings as they are stored."""

    perms: Int
    scheme: Buffer
    id: Buffer


@record
class _StoredAclVector:
    acl: Vector[_StoredAcl]


def entries_of(acl: bytes) -> tuple[Entry, ...]:
    """The entries of a stored ACL."""
    return _entries_of_short(acl) if len(acl) <= _SHORT_ACL_BYTES_MAX else _entries_of_long(acl)


def _decode_entries(acl: bytes) -> tuple[Entry, ...]:
    """Null members cannot be stored, except in files we did not write."""
    stored, _ = decode(_StoredAclVector, acl, limit=len(acl))
    return tuple((a.perms, _stored_text(a.scheme), _stored_text(a.id)) for a in stored.acl or ())


# Ordinary ACLs are short; of the others, few are remembered, for they take memory.
_entries_of_short = functools.lru_cache(maxsize=4096)(_decode_entries)
_entries_of_long = functools.lru_cache(maxsize=8)(_decode_entries)


def _stored_text(stored: bytes | None) -> str:
    """A string of a stored ACL. Unlike a client's it may hold surrogates, which is how Java's encoding writes
    what lies beyond the basic plane: they must be the same text again, for somebody may have proven it."""
    try:
        text = (stored or b"").decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return decode_ustring(stored or b"")
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@attrs.frozen
class Scheme:
    """How one scheme validates, proves and matches ids; the base knows none."""

    is_authenticating: bool = False

    def is_valid(self, name: str) -> bool:
        return False

    def matches(self, proven: str, name: str) -> bool:
        return proven == name

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
    """An address, or a network as address/bits; IPv4 and IPv6 never match each other."""

    def is_valid(self, name: str) -> bool:
        return len(name) <= _ADDRESS_CHARACTERS_MAX and _network(name) is not None

    def matches(self, proven: str, name: str) -> bool:
        # Whole addresses are short; others, padded with zeros, must not fill the memory of past answers.
        return _is_in(proven, name) if len(name) <= 64 else _is_in.__wrapped__(proven, name)

    def prove(self, data: bytes | None, address: str) -> AuthIds:
        return (("ip", address),)


# The original's rules for addresses are those of Java's parseInt: signs and leading zeros pass, zones do not.
_INTEGER = re.compile(r"([+-]?)(\d+)")
_HEX_GROUP = re.compile(r"[+-]?[0-9A-Fa-f]+")


@functools.lru_cache(maxsize=4096)
def _is_in(proven: str, name: str) -> bool:
    network, address = _network(name), _address(proven)
    if network is None or address is None:
        return False
    width, bits, number = network
    return address[0] == width and address[1] >> (width - bits) == number >> (width - bits)


def _network(text: str) -> tuple[int, int, int] | None:
    """The network an ip id stands for, as the width of its addresses, how many bits count, and the bits."""
    host, slash, bits_text = text.partition("/")
    address = _address(host)
    if address is None:
        return None
    width, number = address
    bits = _small_int(bits_text) if slash else width
    return None if bits is None or bits > width else (width, bits, number)


def _address(text: str) -> tuple[int, int] | None:
    """An address as its width in bits and its number."""
    if ":" in text:
        return _ipv6(text)
    parts = [_small_int(part) for part in text.split(".")]
    if len(parts) != 4:
        return None
    number = 0
    for part in parts:
        if part is None or part > 255:
            return None
        number = number << 8 | part
    return 32, number


def _ipv6(text: str) -> tuple[int, int] | None:
    head, gap, tail = text.partition("::")
    before, after = (half.split(":") if half else [] for half in (head, tail))
    missing = 8 - len(before) - len(after)
    if missing < 1 if gap else missing != 0:
        return None
    number = 0
    for group in before + ["0"] * missing + after:
        if len(group) > 4 or not _HEX_GROUP.fullmatch(group):
            return None
        number = number << 16 | int(group, 16) & 0xFFFF
    return 128, number


def _small_int(text: str) -> int | None:
    """A number of up to three digits behind its zeros that is not negative."""
    match = _INTEGER.fullmatch(text)
    digits = match[2].lstrip("0") if match else ""
    if match is None or len(digits) > 3 or (digits and match[1] == "-"):
        return None
    return int(digits or "0")


@attrs.frozen
class AccessRules:
    """The schemes this server knows and the switches that bend the rules."""

    schemes: dict[str, Scheme] = attrs.field(factory=lambda: {"ip": IpScheme(), "digest": DigestScheme()})
    skip_acl: bool = False

    def permits(self, acl: bytes, wanted: int, ids: AuthIds) -> bool:
        """Whether these ids hold one of the wanted bits; an empty ACL permits everything."""
        if acl == OPEN_ACL or self.skip_acl:
            return True
        entries = entries_of(acl)
        if not entries or any(scheme == "super" for scheme, _ in ids):
            return True
        return any(self._grants(entry, wanted, ids) for entry in entries)

    def _grants(self, entry: Entry, wanted: int, ids: AuthIds) -> bool:
        perms, scheme, name = entry
        if not perms & wanted:
            return False
        if scheme == "world" and name == "anyone":
            return True
        provider = self.schemes.get(scheme)
        if provider is None:
            return False
        return any(mine == scheme and provider.matches(proven, name) for mine, proven in ids)

    def check(self, acl: bytes, wanted: int, ids: AuthIds) -> None:
        if not self.permits(acl, wanted, ids):
            raise NoAuth

    def fix_up(self, acl: bytes, ids: AuthIds) -> bytes:
        """The ACL to store for one a client sent: valid, without duplicates, `auth` expanded."""
        if acl == OPEN_ACL:
            return acl
        asked, _ = decode(AclVector, acl, limit=len(acl))
        fixed: list[Entry] = []
        for entry in _without_duplicates(asked.acl or ()):
            fixed += self._fix_entry(entry, ids)
            if len(fixed) > ENTRIES_MAX:
                raise InvalidAcl
        if not fixed:
            raise InvalidAcl
        return encode_acl(fixed)

    def _fix_entry(self, entry: Acl, ids: AuthIds) -> list[Entry]:
        scheme, name = entry.id.scheme, entry.id.id
        if scheme is None:
            raise InvalidAcl
        if scheme == "auth":
            return self._expand_auth(entry.perms, ids)
        if name is None and (scheme == "world" or scheme in self.schemes):
            raise MarshallingError("an ACL of this scheme needs an id")
        if scheme == "world" and name == "anyone":
            return [(entry.perms, scheme, name)]
        provider = self.schemes.get(scheme)
        if provider is None or name is None or not provider.is_valid(name):
            raise InvalidAcl
        return [(entry.perms, scheme, name)]

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
        return encode_acl(
            [(p, s, _hide_hash(name) if s == "digest" else name) for p, s, name in entries_of(acl)]
        )

    def client_infos(self, ids: AuthIds) -> tuple[ClientInfo, ...]:
        """What whoAmI tells: the user of every id, empty where no scheme can say."""
        return tuple(
            ClientInfo(scheme, self.schemes[scheme].user_of(name) if scheme in self.schemes else "")
            for scheme, name in ids
        )


_HASH = re.compile(":[^\n\r\u0085\u2028\u2029]*")  # to the end of the line, as Java knows lines


def _without_duplicates(entries: Sequence[Acl]) -> Sequence[Acl]:
    """Each entry once. The original compares with each entry before, and breaks off where text is missing."""
    kept: dict[Acl, None] = {}
    perms: set[int] = set()
    schemes: set[tuple[int, str | None]] = set()
    for entry in entries:
        name, scheme = entry.id, (entry.perms, entry.id.scheme)
        if (name.scheme is None and entry.perms in perms) or (name.id is None and scheme in schemes):
            raise MarshallingError("an ACL entry cannot be compared with another")
        kept[entry] = None
        perms.add(entry.perms)
        schemes.add(scheme)
    return list(kept)


def _hide_hash(name: str) -> str:
    return _HASH.sub(":x", name)


def add_ids(ids: AuthIds, proven: AuthIds) -> AuthIds:
    """What a connection has proven, and what it proves now; AuthFailed if that is too much."""
    both = tuple(dict.fromkeys(ids + proven))
    if len(both) > IDS_MAX or sum(len(name) for _, name in both) > ID_CHARACTERS_MAX:
        raise AuthFailed
    return both
