"""The members of an ensemble as zoo.cfg or a dynamic file lists them.

server.<id>=<host>:<quorum port>:<election port>[:<role>][|<more addresses>][;[<client host>:]<client port>]
"""

import enum
from collections.abc import Mapping

import attrs


class Role(enum.Enum):
    """What a member is in the ensemble; observers hear every commit but have no vote."""

    PARTICIPANT = "participant"
    OBSERVER = "observer"


@attrs.frozen
class Address:
    """One network on which a member is reached by the others."""

    host: str
    quorum_port: int
    election_port: int


@attrs.frozen
class ClientAddress:
    """Where a member listens for clients."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@attrs.frozen(kw_only=True)
class Member:
    """One server line. `client_is_static` says that `client` was filled in from clientPort."""

    server_id: int
    addresses: tuple[Address, ...]
    role: Role = Role.PARTICIPANT
    client: ClientAddress | None = None
    client_is_static: bool = False


@attrs.frozen(kw_only=True)
class Ensemble:
    """All members, in the order of their ids; groups and weights only where quorums are hierarchical.

    `version` is the zxid at which this membership was agreed on, 0 before the first agreement.
    """

    members: Mapping[int, Member] = attrs.field(factory=dict)
    groups: Mapping[int, tuple[int, ...]] = attrs.field(factory=dict)
    weights: Mapping[int, int] = attrs.field(factory=dict)
    version: int = 0

    def with_role(self, role: Role) -> list[Member]:
        return [member for member in self.members.values() if member.role is role]
