"""Which of the servers this one is, where nobody says so. Pure.

In this order: the server line whose host is this machine's name (or the pod's), the line with 0.0.0.0 for a
host, which people write for the server itself, and the number at the end of a name such as zk-2, which is a
member of a StatefulSet counted from 0. A server line beats that number: among zookeeper-1, zookeeper-2 and
zookeeper-3 the names count from 1.
"""

import re
from collections.abc import Iterable, Mapping

from quorum.server_lines import ALL_INTERFACES, Member

_ORDINAL = re.compile(r".+-(\d{1,9})")


def id_by_name(names: Iterable[str], members: Mapping[int, Member]) -> int | None:
    """The id of the member that one of the names belongs to, the first name first."""
    known = [name.lower().partition(".")[0] for name in names if name]
    for name in known:
        listed = [server_id for server_id, member in members.items() if _is_called(member, name)]
        if len(listed) == 1:
            return listed[0]
    own = [server_id for server_id, member in members.items() if _is_called(member, ALL_INTERFACES)]
    if len(own) == 1:
        return own[0]
    for name in known:
        match = _ORDINAL.fullmatch(name)
        if match and int(match[1]) + 1 in members:
            return int(match[1]) + 1
    return None


def _is_called(member: Member, name: str) -> bool:
    hosts = [address.host.lower() for address in member.addresses]
    return name in hosts or name in [host.partition(".")[0] for host in hosts if not host[0].isdigit()]
