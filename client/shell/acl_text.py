"""ACLs as people write them: `world:anyone:cdrwa`, several with commas between."""

from collections.abc import Iterable

from jute.client_records import Acl, Id
from jute.opcodes import Perms

_LETTERS = {"c": Perms.CREATE, "d": Perms.DELETE, "r": Perms.READ, "w": Perms.WRITE, "a": Perms.ADMIN}


class InvalidAclText(ValueError):
    """A text that is no ACL."""


def parse_acl(text: str) -> tuple[Acl, ...]:
    """The id may hold colons: the scheme ends at the first, the permissions begin behind the last."""
    return tuple(_parse_entry(entry) for entry in text.split(","))


def _parse_entry(entry: str) -> Acl:
    scheme, colon, rest = entry.partition(":")
    identity, second_colon, letters = rest.rpartition(":")
    if not colon or not second_colon or not scheme:
        raise InvalidAclText(f"{entry!r} is no ACL: expected scheme:id:perms, e.g. world:anyone:cdrwa")
    unknown = set(letters) - set(_LETTERS)
    if unknown:
        raise InvalidAclText(f"{entry!r}: unknown permission {min(unknown)!r}; there are c, d, r, w and a")
    return Acl(sum(_LETTERS[letter] for letter in set(letters)), Id(scheme, identity))


def format_acl(acl: Iterable[Acl]) -> list[str]:
    """One text for each entry."""
    return [f"{entry.id.scheme}:{entry.id.id}:{_perms(entry.perms)}" for entry in acl]


def _perms(perms: int) -> str:
    return "".join(letter for letter, bit in _LETTERS.items() if perms & bit)
