"""Changing the members while they serve: what a client may ask for, and what follows for each server.

Pure. A reconfiguration is a transaction like any other, but that it, and everything proposed until it is
committed, needs a quorum of the old voters and one of the new (broadcast.py). Its zxid is the new
configuration's version. One at a time.

    asked for    next_ensemble: the members to be, or a ZkError, in the order the original checks
    proposed     whoever hears of it keeps it as the last configuration seen (membership.py)
    committed    the leader names who leads from now on: itself if it can, else designated_leader
    in force     departure_after: whether a server must leave its role, and whom it follows then
"""

from collections.abc import Callable, Collection, Mapping
from ipaddress import ip_address

import attrs

from jute.errors import BadArguments, BadVersion, NewConfigNoQuorum, ReconfigInProgress
from jute.opcodes import OpCode
from jute.record import DecodeError, decode
from jute.txn_records import SetDataTxn
from persistence.log_format import TXN_HEADER_BYTES
from quorum.errors import PeerError
from quorum.quorum_verifiers import QuorumVerifier
from quorum.server_lines import (
    Ensemble,
    Member,
    Role,
    is_same_config,
    read_config_text,
    read_member,
)
from quorum.setting_text import LONG_BITS, BadValue, parse_integer, trimmed

ANY_VERSION = -1
_LINES_MAX = 600  # there are 255 ids for servers, which may have weights
_CHARACTERS_MAX = 32 << 10
_RECONFIG = int(OpCode.RECONFIG).to_bytes(4, "big")


@attrs.frozen(kw_only=True)
class Reconfiguration:
    """What a client asks for: servers to join and leave, or all members anew, on top of which version."""

    joining: str | None = None
    leaving: str | None = None
    new_members: str | None = None
    from_version: int = ANY_VERSION


@attrs.frozen(kw_only=True)
class ReconfigRules:
    voters_min: int = 2  # 1 where a single server may be an ensemble (standaloneEnabled=false)
    multi_address: bool = False


def next_ensemble(
    asked: Reconfiguration,
    committed: Ensemble,
    last_seen: Ensemble,
    *,
    version: int,
    rules: ReconfigRules,
    verifier_of: Callable[[Ensemble], QuorumVerifier],
    synced: Collection[int],
) -> Ensemble:
    """The members to propose, as `version`. Raises the ZkError that refuses it."""
    if last_seen.version != committed.version:
        raise ReconfigInProgress
    if asked.from_version not in (ANY_VERSION, last_seen.version):
        raise BadVersion
    _check_size(asked)
    try:
        if asked.new_members is not None:
            text = asked.new_members.replace(",", "\n")
            proposed = read_config_text(text, multi_address=rules.multi_address)
        else:
            proposed = _changed(last_seen, asked, rules)
    except BadValue as problem:
        raise BadArguments(problem.wording) from problem
    if len(proposed.voters) < rules.voters_min:
        raise BadArguments(f"the new configuration must include at least {rules.voters_min} participants")
    if not verifier_of(proposed).contains_quorum(synced):
        raise NewConfigNoQuorum
    return attrs.evolve(proposed, version=version)


def _check_size(asked: Reconfiguration) -> None:
    """Whoever may not reconfigure is told so when all else is known: that must not take long to find out."""
    texts = [text or "" for text in (asked.joining, asked.leaving, asked.new_members)]
    lines = sum(text.count(",") + text.count("\n") for text in texts)
    if lines > _LINES_MAX or sum(map(len, texts)) > _CHARACTERS_MAX:
        raise BadArguments(
            f"more than {_LINES_MAX} lines or {_CHARACTERS_MAX} characters describe no ensemble"
        )


def _changed(before: Ensemble, asked: Reconfiguration, rules: ReconfigRules) -> Ensemble:
    if before.is_hierarchical:
        raise BadArguments("with groups or weights, all members must be given anew")
    members = dict(before.members)
    for leaving in _split(asked.leaving, ","):
        members.pop(parse_integer(leaving, LONG_BITS), None)
    owners: dict[tuple[str, int], set[int]] = {}
    for member in members.values():
        _own(owners, member)
    for line in _split(asked.joining, ","):
        joining = _read_joining(line, rules)
        _check_apart(joining, owners)
        if joining.server_id in members:
            for endpoint in _endpoints(members[joining.server_id]):
                owners[endpoint].discard(joining.server_id)
        members[joining.server_id] = joining
        _own(owners, joining)
    return attrs.evolve(before, members=dict(sorted(members.items())))


def _split(text: str | None, separator: str) -> list[str]:
    """The parts that are not blank, without the blanks around them."""
    parts = map(trimmed, (text or "").split(separator))
    return [part for part in parts if part]


def _read_joining(line: str, rules: ReconfigRules) -> Member:
    parts = _split(line, "=")
    if len(parts) != 2:
        raise BadArguments(f"{line} is not a server line")
    server_id = parse_integer(parts[0].rpartition(".")[2], LONG_BITS)
    member = read_member(server_id, parts[1], multi_address=rules.multi_address)
    if member.client is None:
        raise BadArguments(f"{line} names no client port")
    return member


def _own(owners: dict[tuple[str, int], set[int]], member: Member) -> None:
    for endpoint in _endpoints(member):
        owners.setdefault(endpoint, set()).add(member.server_id)


def _check_apart(joining: Member, owners: Mapping[tuple[str, int], set[int]]) -> None:
    """No two servers on one address, unless it is one that means another machine to each of them."""
    for host, port in _endpoints(joining):
        others = owners.get((host, port), set()) - {joining.server_id}
        if others:
            raise BadArguments(f"{host}:{port} of server.{joining.server_id} is server.{min(others)}'s")


def _endpoints(member: Member) -> set[tuple[str, int]]:
    endpoints = {(address.host, address.quorum_port) for address in member.addresses}
    endpoints |= {(address.host, address.election_port) for address in member.addresses}
    if member.client is not None:
        endpoints.add((member.client.host, member.client.port))
    return {(host, port) for host, port in endpoints if not _is_relative(host)}


def _is_relative(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_unspecified or address.is_loopback


def is_reconfiguration(payload: bytes) -> bool:
    return payload[TXN_HEADER_BYTES - 4 : TXN_HEADER_BYTES] == _RECONFIG


def config_in(payload: bytes) -> Ensemble | None:
    """The configuration that a transaction proposes, if it is one that does. Raises PeerError."""
    if not is_reconfiguration(payload):
        return None
    try:
        data = decode(SetDataTxn, payload, TXN_HEADER_BYTES)[0].data
        return read_config_text((data or b"").decode(), multi_address=True)
    except (DecodeError, UnicodeDecodeError, BadValue) as failure:
        raise PeerError(f"a reconfiguration is not understood: {failure}") from failure


# --- When it is committed.


def designated_leader(
    leader: int, before: Ensemble, now: Ensemble, logged: Mapping[int, int], zxid: int
) -> int:
    """Who leads once `now`, proposed as `zxid`, is in force; `logged` says how far each server's log goes.

    The leader itself, if it is still a voter at the same address. Else the voter that has most of what is
    proposed, for the rest is lost; of equals the lowest id. If no other voter has the configuration at all,
    the leader is alone with itself, and begins anew at its new address.
    """
    if keeps_leading(leader, before, now):
        return leader
    others = sorted(sid for sid in now.voters if sid != leader and logged.get(sid, 0) >= zxid)
    return max(others, key=lambda sid: logged[sid], default=leader)


def keeps_leading(leader: int, before: Ensemble, now: Ensemble) -> bool:
    """Whether it is still a voter, and its followers find it where they are connected."""
    return leader in now.voters and _addresses(leader, before) == _addresses(leader, now)


@attrs.frozen
class Departure:
    """The role must end. `next_leader` is followed, or leads, without an election; None: there is one."""

    next_leader: int | None


def departure_after(
    my_id: int, leader: int, before: Ensemble, now: Ensemble, designated: int | None
) -> Departure | None:
    """What a server that has `leader` does once `now` has come into force in place of `before`.

    `designated` is who leads from now on, if the old leader had the time to say.
    """
    if now.version <= before.version or is_same_config(before, now):
        return None
    has_changed_role = role_of(my_id, before) is not role_of(my_id, now)
    if designated is not None:
        is_major = has_changed_role or designated != leader
        return Departure(designated) if is_major else None
    stays = leader in before.voters and keeps_leading(leader, before, now)
    return Departure(None) if has_changed_role or not stays else None


def role_of(server_id: int, ensemble: Ensemble) -> Role:
    """A server that is not listed follows, without a vote."""
    return Role.OBSERVER if server_id in ensemble.observers else Role.PARTICIPANT


def _addresses(server_id: int, ensemble: Ensemble) -> set[tuple[str, int]]:
    """Where its learners find it."""
    member = ensemble.members.get(server_id)
    return set() if member is None else {(each.host, each.quorum_port) for each in member.addresses}
