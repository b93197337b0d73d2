"""Who may: access control lists, the schemes that identify a client, and the checks between them.

An ACL stays in wire form (`vector<ACL>`) wherever it is stored or carried; `entries_of` decodes it once and
remembers. The ids a connection has proven are a tuple of (scheme, id) pairs, replaced and never changed, so a
request that waits keeps the ids it was read with.
"""

import base64
import functools
import hashlib
import ipaddress
import re
from collections.abc import Sequence

import attrs

from jute.client_records import Acl, ClientInfo, Id
from jute.errors import AuthFailed, InvalidAcl, MarshallingError, NoAuth
from jute.opcodes import Perms
from jute.record import decode, encode, record
from jute.primitives import Vector

AuthIds = tuple[tuple[str, str], ...]
Entry = tuple[int, str, str]  # perms, scheme, id


@record
class AclVector:
    """An ACL on its own, as it stands inside requests, transactions and snapshots."""

    acl: Vector[Acl]


def encode_acl(entries: Sequence[Entry]) -> bytes:
    return encode(AclVector(tuple(Acl(perms, Id(scheme, name)) for perms, scheme, name in entries)))


OPEN_ACL = encode_acl([(Perms.ALL, "world", "anyone")])
READ_ACL = encode_acl([(Perms.READ, "world", "anyone")])
CLOSED_ACL = encode_acl([(0, "world", "anyone")])  # nobody but super


@functools.lru_cache(maxsize=4096)
def entries_of(acl: bytes) -> tuple[Entry, ...]:
    """The entries of a stored ACL. Null members cannot be stored, except in files we did not write."""
    vector, _ = decode(AclVector, acl)
    return tuple((a.perms, a.id.scheme or "", a.id.id or "") for a in vector.acl or ())


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
    """The id that the credentials `user:password` prove."""
    hashed = hashlib.new(algorithm.replace("-", ""), data, usedforsecurity=False).digest()
    user = data.split(b":", 1)[0].decode("utf-8", "replace")
    return f"{user}:{base64.b64encode(hashed).decode()}"


@attrs.frozen
class IpScheme(Scheme):
    """An address, or a network as address/bits; IPv4 and IPv6 never match each other."""

    def is_valid(self, name: str) -> bool:
        return _network(name) is not None

    def matches(self, proven: str, name: str) -> bool:
        network, address = _network(name), _network(proven)
        if network is None or address is None or network.version != address.version:
            return False
        return address.network_address in network

    def prove(self, data: bytes | None, address: str) -> AuthIds:
        return (("ip", address),)


_IPV4 = re.compile(r"\+?\d+(\.\+?\d+){3}\Z")


@functools.lru_cache(maxsize=4096)
def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """The network an ip id stands for, by the original's rules: leading zeros pass, zones do not."""
    address, slash, bits = text.partition("/")
    if slash and not re.fullmatch(r"[+-]?\d+", bits):
        return None
    if _IPV4.match(address):
        address = ".".join(str(int(part)) for part in address.split("."))
    try:
        host = ipaddress.ip_address(address)
        if "%" in address or (slash and not 0 <= int(bits) <= host.max_prefixlen):
            return None
        return ipaddress.ip_network((host, int(bits) if slash else host.max_prefixlen), strict=False)
    except ValueError:
        return None


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
        asked, _ = decode(AclVector, acl)
        fixed: list[Entry] = []
        for entry in dict.fromkeys(asked.acl or ()):
            fixed += self._fix_entry(entry, ids)
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
        return encode_acl([(p, s, _hide_hash(name) if s == "digest" else name) for p, s, name in entries_of(acl)])

    def client_infos(self, ids: AuthIds) -> tuple[ClientInfo, ...]:
        """What whoAmI tells: the user of every id, empty where no scheme can say."""
        return tuple(
            ClientInfo(scheme, self.schemes[scheme].user_of(name) if scheme in self.schemes else "")
            for scheme, name in ids
        )


def _hide_hash(name: str) -> str:
    return re.sub(":.*", ":x", name)


def add_ids(ids: AuthIds, proven: AuthIds) -> AuthIds:
    return tuple(dict.fromkeys(ids + proven))
