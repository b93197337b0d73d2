"""ACLs as they are typed: `scheme:id:perms`, several of them with commas between."""

from collections.abc import Callable

from jute.client_records import Acl, Id
from jute.opcodes import Perms

_PERMS = {"r": Perms.READ, "w": Perms.WRITE, "c": Perms.CREATE, "d": Perms.DELETE, "a": Perms.ADMIN}


def parse_acl(text: str, complain: Callable[[str], None]) -> list[Acl]:
    """What can be made of it; of the rest `complain` is told, and zkCli goes on without."""
    acl = []
    for entry in _java_split(text):
        if entry.count(":") < 2:
            complain(f"{entry} does not have the form scheme:id:perm")
            continue
        scheme, _, rest = entry.partition(":")
        identity, _, letters = rest.rpartition(":")
        acl.append(Acl(_parse_perms(letters, complain), Id(scheme, identity)))
    return acl


def _java_split(text: str) -> list[str]:
    """String.split(","): empty parts at the end are dropped, but an empty text is one part."""
    parts = text.split(",")
    while parts and not parts[-1] and text:
        parts.pop()
    return parts


def _parse_perms(letters: str, complain: Callable[[str], None]) -> int:
    perms = 0
    for letter in letters:
        if letter in _PERMS:
            perms |= _PERMS[letter]
        else:
            complain(f"Unknown perm type: {letter}")
    return perms
