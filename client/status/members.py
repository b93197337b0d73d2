"""Who the members of an ensemble are: the server lines of /zookeeper/config and of `conf`.

    server.1=zk1:2888:3888:participant;0.0.0.0:2181

The client's address may be missing from a line, as it is in most static configurations. Then the member is
looked for on its own host, at the port that the server that was asked serves.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import attrs

Address = tuple[str, int]

PORT_MAX = 65535
WILDCARDS = frozenset({"", "0.0.0.0", "::", "0:0:0:0:0:0:0:0"})
_LINE = re.compile(r"^server\.(\d+)=(.*)$", re.MULTILINE)


@attrs.frozen
class Member:
    """A server that belongs, or one that was named on the command line and belongs to nothing known."""

    server_id: int | None
    address: Address | None  # where its clients connect; None: nobody says
    is_observer: bool = False


def parse_members(text: str, asked_port: int) -> list[Member]:
    """The members that a configuration names; none if it is that of a standalone server."""
    lines = [(int(match[1]), match[2]) for match in _LINE.finditer(text)]
    hosts = Counter(_quorum_host(line) for _, line in lines)
    return [
        Member(server_id, _client_address(line, asked_port, hosts), ":observer" in line.partition(";")[0])
        for server_id, line in sorted(lines)
    ]


def _quorum_host(line: str) -> str:
    """The host of the first quorum address; there may be several, divided by |."""
    first = line.partition(";")[0].partition("|")[0]
    bracketed = re.match(r"\[([^\]]+)\]", first)
    return bracketed[1] if bracketed else first.partition(":")[0]


def _client_address(line: str, asked_port: int, hosts: Counter[str]) -> Address | None:
    host = _quorum_host(line)
    _, has_client, client = line.partition(";")
    if not has_client or not client.strip():
        return (host, asked_port) if hosts[host] == 1 else None  # on one host, each has a port of its own
    bind, _, port = client.strip().rpartition(":")
    if not (port.isascii() and port.isdigit()) or not 0 < int(port) <= PORT_MAX:
        return None
    bind = bind.strip("[]")
    return (host if bind in WILDCARDS else bind), int(port)


def place_strangers(members: Sequence[Member], strangers: Mapping[Address, int | None]) -> list[Member]:
    """Give addresses that the configuration does not know to the members that it has no address for.

    By id, where the server told; if as many are left on both sides, those are taken to be the same.
    """
    by_id = {server_id: address for address, server_id in strangers.items() if server_id is not None}
    placed = [
        attrs.evolve(member, address=by_id.get(member.server_id or 0, member.address)) for member in members
    ]
    taken = {member.address for member in placed}
    left = [address for address in strangers if address not in taken]
    homeless = [member for member in placed if member.address is None]
    if left and len(left) == len(homeless):
        server_id = homeless[0].server_id if len(left) == 1 else None
        placed = [member for member in placed if member.address is not None]
        placed += [Member(server_id, address) for address in left]
    else:
        placed += [Member(None, address) for address in left]
    return sorted(placed, key=lambda member: (member.server_id is None, member.server_id))
