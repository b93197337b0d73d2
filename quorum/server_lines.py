"""The members of an ensemble as zoo.cfg or a dynamic file lists them.

    server.<id>=<address>[|<address>...][;[<client host>:]<client port>]
    <address>   <host>:<quorum port>:<election port>[:<role>]
    group.<id>=<server id>:<server id>...
    weight.<server id>=<votes>

The same lines and `version=<hexadecimal>` are the config text: the data of `/zookeeper/config`, and how
servers tell each other of the members.

Pure. A mistake is a `BadValue` that carries the key.
"""

import enum
import re
from collections.abc import Mapping

import attrs

from jute.properties_text import MalformedEscape, read_properties
from quorum.setting_text import LONG_BITS, BadValue, parse_integer, port_in_range, trimmed

ALL_INTERFACES = "0.0.0.0"
WRONG_FORM = (
    " does not have the form server_config or server_config;client_config where server_config is the pipe"
    " separated list of host:port:port or host:port:port:type and client_config is port or host:port"
)
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{1,16}")
EXAMPLE_LINE = "write it like zoo1.example.org:2888:3888:participant;2181"


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

    def __str__(self) -> str:
        return f"{bracketed(self.host)}:{self.quorum_port}:{self.election_port}"


@attrs.frozen
class ClientAddress:
    """Where a member listens for clients."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{bracketed(self.host)}:{self.port}"


@attrs.frozen(kw_only=True)
class Member:
    """One server line. `client_is_static` says that `client` was filled in from clientPort."""

    server_id: int
    addresses: tuple[Address, ...]
    role: Role = Role.PARTICIPANT
    client: ClientAddress | None = None
    client_is_static: bool = False

    def __str__(self) -> str:
        """The canonical text, as `/zookeeper/config` and the dynamic file hold it.

        A client address that came from clientPort stays out of it: it is this server's own affair.
        """
        addresses = sorted(self.addresses, key=lambda address: address.host)
        server = "|".join(map(str, addresses)) + f":{self.role.value}"
        return server if self.client is None or self.client_is_static else f"{server};{self.client}"


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

    @property
    def voters(self) -> frozenset[int]:
        return frozenset(member.server_id for member in self.with_role(Role.PARTICIPANT))

    @property
    def observers(self) -> frozenset[int]:
        return frozenset(member.server_id for member in self.with_role(Role.OBSERVER))

    @property
    def is_hierarchical(self) -> bool:
        return bool(self.groups or self.weights)


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def is_membership_key(key: str) -> bool:
    """Whether a key describes the ensemble. Apache looks at the first letters only, and so do we."""
    return key.startswith(("server.", "group", "weight"))


def read_role(text: str) -> Role:
    try:
        return Role(trimmed(text).lower())
    except ValueError as error:
        raise BadValue(f"Unrecognised peertype: {text}", "write participant or observer") from error


def read_ensemble(lines: Mapping[str, str], *, version: int = 0, multi_address: bool = False) -> Ensemble:
    """The ensemble that all membership keys together describe; other keys are passed over."""
    members: dict[int, Member] = {}
    groups: dict[int, tuple[int, ...]] = {}
    weights: dict[int, int] = {}
    for key, text in lines.items():
        try:
            if key.startswith("server."):
                server_id = _id_in(key)
                members[server_id] = read_member(server_id, text, multi_address=multi_address)
            elif key.startswith("group"):
                groups[_id_in(key)] = tuple(parse_integer(part, LONG_BITS) for part in text.split(":"))
            elif key.startswith("weight"):
                weights[_id_in(key)] = parse_integer(text, LONG_BITS)
        except BadValue as problem:
            raise attrs.evolve(problem, key=key) from None
    ensemble = Ensemble(
        members=dict(sorted(members.items())), groups=groups, weights=weights, version=version
    )
    if not ensemble.is_hierarchical:
        return ensemble
    _check_groups(members, groups)
    all_weights = {**dict.fromkeys(ensemble.voters, 1), **weights}
    _check_weights(all_weights, groups)
    return attrs.evolve(ensemble, weights=dict(sorted(all_weights.items())))


def _id_in(key: str) -> int:
    return parse_integer(key.partition(".")[2], LONG_BITS)


def _check_groups(members: Mapping[int, Member], groups: Mapping[int, tuple[int, ...]]) -> None:
    """Every participant is in exactly one group, or its vote would count twice or not at all."""
    grouped = [server_id for group in groups.values() for server_id in group]
    for server_id in grouped:
        if grouped.count(server_id) > 1:
            raise BadValue(f"Server {server_id} is in multiple groups", "list each server in one group only")
    for member in members.values():
        if member.role is Role.PARTICIPANT and member.server_id not in grouped:
            wording = f"Server {member.server_id} is not in a group"
            raise BadValue(wording, "list every participant in one group.<id>=<server>:<server> line")


def _check_weights(weights: Mapping[int, int], groups: Mapping[int, tuple[int, ...]]) -> None:
    for server_id in (server_id for group in groups.values() for server_id in group):
        if server_id not in weights:
            wording = f"Server {server_id} is in a group, but has no weight"
            raise BadValue(wording, f"add a line server.{server_id}=... or take it out of its group")


def config_text(ensemble: Ensemble) -> str:
    """The ensemble as `/zookeeper/config`, NEWLEADER and notifications carry it.

    By rising ids; the original writes them in the order of a hash map, which is the same up to id 15.
    """
    lines = [f"server.{member.server_id}={member}" for member in ensemble.members.values()]
    for group, server_ids in sorted(ensemble.groups.items()):
        lines.append(f"group.{group}={':'.join(map(str, sorted(server_ids)))}")
    lines += [f"weight.{server_id}={weight}" for server_id, weight in sorted(ensemble.weights.items())]
    return "\n".join([*lines, f"version={ensemble.version:x}"])


def read_config_text(text: str, *, multi_address: bool = False) -> Ensemble:
    """The ensemble that another server, or a client that reconfigures, describes; no version means 0."""
    lines = _read_properties(text)
    version = lines.pop("version", "0")
    for key in lines:
        if not is_membership_key(key):
            raise BadValue(f"Unrecognised parameter: {key}", "list servers, groups and weights only", key)
    ensemble = read_ensemble(lines, version=_read_version(version), multi_address=multi_address)
    if not ensemble.voters:
        raise BadValue("there is no participant", "let at least one server be a participant")
    return ensemble


def _read_properties(text: str) -> dict[str, str]:
    try:
        return read_properties(text)
    except MalformedEscape as error:
        raise BadValue(f"Malformed \\uxxxx encoding: {error.escape}", "write four digits") from error


def _read_version(text: str) -> int:
    if not _HEXADECIMAL.fullmatch(text) or int(text, 16) >= 1 << LONG_BITS - 1:
        raise BadValue(f'For input string: "{text}"', "write a hexadecimal number", "version")
    return int(text, 16)


def is_same_config(one: Ensemble, other: Ensemble) -> bool:
    """Whether nothing changes by taking one for the other: the same version, or all the same members."""
    if one.is_hierarchical != other.is_hierarchical:
        return False
    return one.version == other.version or _compared(one) == _compared(other)


def _compared(ensemble: Ensemble) -> object:
    members = {
        member.server_id: (member.role, frozenset(member.addresses), member.client)
        for member in ensemble.members.values()
    }
    group_of = {server_id: group for group, ids in ensemble.groups.items() for server_id in ids}
    return members, group_of, dict(ensemble.weights)


def read_member(server_id: int, text: str, *, multi_address: bool = False) -> Member:
    """The member that the value of `server.<server_id>` describes."""
    parts = _split(text, ";")
    if len(parts) not in (1, 2):
        raise BadValue(text + WRONG_FORM, EXAMPLE_LINE)
    client = _read_client_address(parts[1], text) if len(parts) == 2 else None
    servers = _split(parts[0], "|")
    if len(servers) > 1 and not multi_address:
        wording = (
            f"Multiple address feature is disabled, but multiple addresses were specified for sid {server_id}"
        )
        raise BadValue(wording, "set multiAddress.enabled=true, or keep one address")
    addresses, roles = [], []
    for server in servers:
        address, role = _read_server_address(server, server_id, text)
        addresses.append(address)
        roles.append(role)
    return Member(server_id=server_id, addresses=tuple(addresses), role=_common_role(roles), client=client)


def _common_role(roles: list[Role | None]) -> Role:
    named = {role for role in roles if role is not None}
    if len(named) > 1:
        wording = "Multiple addresses should have similar roles: PARTICIPANT vs OBSERVER"
        raise BadValue(wording, "give all addresses of a server the same role")
    return named.pop() if named else Role.PARTICIPANT


def _read_client_address(text: str, line: str) -> ClientAddress:
    parts = host_and_ports(text)
    if len(parts) > 2:
        raise BadValue(line + WRONG_FORM, EXAMPLE_LINE)
    host = _host(parts[0]) if len(parts) == 2 else ALL_INTERFACES
    return ClientAddress(host, _port(host, parts[-1]))


def _read_server_address(text: str, server_id: int, line: str) -> tuple[Address, Role | None]:
    parts = host_and_ports(text)
    if len(parts) not in (3, 4):
        raise BadValue(line + WRONG_FORM, EXAMPLE_LINE)
    host = _host(parts[0])
    address = Address(host, _port(host, parts[1]), _port(host, parts[2]))
    if address.quorum_port == address.election_port:
        wording = (
            "Client and election port must be different! Please update the configuration file on"
            f" server.{server_id}"
        )
        raise BadValue(wording, "choose two ports, such as 2888 and 3888")
    return address, read_role(parts[3]) if len(parts) == 4 else None


def host_and_ports(text: str) -> list[str]:
    """Split at colons, taking an IPv6 address in brackets as one part."""
    if not text.startswith("["):
        return _split(text, ":")
    host, bracket, rest = text[1:].partition("]")
    if not bracket:
        raise BadValue(
            f"{text} starts with '[' but has no matching ']:'", "close the bracket after the address"
        )
    if rest == ":":
        raise BadValue(f"{text} doesn't have a port after colon", "write a port after the last colon")
    return [host, *_split(rest[1:], ":")] if rest else [host]


def _split(text: str, separator: str) -> list[str]:
    """Java's split: empty parts at the end do not count."""
    parts = text.split(separator)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def _host(text: str) -> str:
    """A line break or an escape in it would make another line of it for whoever reads the text next."""
    if not text or not text.isprintable() or " " in text or "\\" in text:
        raise BadValue(f"{text!r} is no host", EXAMPLE_LINE)
    return text


def _port(host: str, text: str) -> int:
    try:
        number = parse_integer(text)
    except BadValue:
        raise BadValue(f"Address unresolved: {host}:{text}", EXAMPLE_LINE) from None
    return port_in_range(number)
