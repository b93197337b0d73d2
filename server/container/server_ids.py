"""Which of the servers this one is: the file myid, the variable, or names.

Where nobody says so, in this order: the server line whose host is this machine's name (or the pod's), the
line with 0.0.0.0 for a host, which people write for the server itself, and the number at the end of a name
such as zk-2, which is a member of a StatefulSet counted from 0. A server line beats that number: among
zookeeper-1, zookeeper-2 and zookeeper-3 the names count from 1.

Pure.
"""

import re
from collections.abc import Iterable, Mapping

from quorum.server_lines import ALL_INTERFACES, Member
from quorum.setting_text import LONG_BITS, BadValue, parse_integer
from server.config import Note
from server.container.draft import Draft
from server.container.facts import Facts, read_own
from server.container.variables import Refused, Variables

_ORDINAL = re.compile(r".+-(\d{1,9})")


def id_path(draft: Draft) -> str:
    return f"{draft.data_dir}/myid"


def choose_id(
    draft: Draft, variables: Variables, facts: Facts, members: Mapping[int, Member]
) -> tuple[int | None, list[Note]]:
    """This server's id, and what the log should say about it; None if it is not to have one."""
    wanted = _wanted_id(draft, variables)
    stored = _stored_id(draft, facts)
    if None not in (stored, wanted) and stored != wanted:
        raise Refused(
            f"{variables.shown(draft.id_variable)}, but {id_path(draft)} says {stored}: these are the data "
            f"of server {stored}; mount this server's own, or set {draft.id_variable}={stored}"
        )
    if stored is not None:
        return stored, []
    if wanted is not None:
        return wanted, []
    if len(members) <= 1:
        return next(iter(members), 1 if draft.needs_id else None), []
    return _guessed_id(draft, variables, facts, members)


def _stored_id(draft: Draft, facts: Facts) -> int | None:
    content = read_own(facts, id_path(draft))
    if content is None:
        return None
    text = content.decode("latin-1").partition("\n")[0].strip()
    number = _number(text)
    if number is None:
        raise Refused(
            f"serverid {text} is not a number: "
            f"write this server's number, and nothing else, to {id_path(draft)}"
        )
    return number


def _wanted_id(draft: Draft, variables: Variables) -> int | None:
    if not draft.my_id:
        return None
    number = _number(draft.my_id)
    if number is None:
        raise Refused(
            f"{variables.shown(draft.id_variable)} is not a server's number; "
            f"write it like {draft.id_variable}=1"
        )
    return number


def _number(text: str) -> int | None:
    try:
        number = parse_integer(text, LONG_BITS)
    except BadValue:
        return None
    return number if number >= 0 else None


def _guessed_id(
    draft: Draft, variables: Variables, facts: Facts, members: Mapping[int, Member]
) -> tuple[int, list[Note]]:
    name = variables.get("POD_NAME") or facts.hostname
    found = id_by_name((variables.get("POD_NAME"), facts.hostname), members)
    if found is not None:
        note = f"{draft.id_variable} is not set: by its name, {name}, this is server {found}"
        return found, [Note("info", note)]
    note = (
        f"{draft.id_variable} is not set, and no server line has the host {name}: this is server 1; "
        f"set {draft.id_variable} to a different number for each server"
    )
    return 1, [Note("warning", note)]


def id_by_name(names: Iterable[str], members: Mapping[int, Member]) -> int | None:
    """The id of the member that one of the names belongs to, the first name first."""
    known = [name.lower().partition(".")[0] for name in names if name]
    for name in [*known, ALL_INTERFACES]:
        listed = [server_id for server_id, member in members.items() if _is_called(member, name)]
        if len(listed) == 1:
            return listed[0]
    for name in known:
        match = _ORDINAL.fullmatch(name)
        if match and int(match[1]) + 1 in members:
            return int(match[1]) + 1
    return None


def _is_called(member: Member, name: str) -> bool:
    """Whether a member's host is a name, or begins with it and a dot."""
    hosts = [address.host.lower() for address in member.addresses]
    return any(host == name or host.startswith(f"{name}.") for host in hosts)
