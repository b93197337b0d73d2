"""Which servers there are, and which of them this one is.

From the server lines of zoo.cfg or of the dynamic file it names, and the number in `dataDir/myid`.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import attrs

from quorum.checked_lines import is_damaged
from quorum.server_lines import (
    ALL_INTERFACES,
    ClientAddress,
    Ensemble,
    Member,
    Role,
    bracketed,
    is_membership_key,
    read_ensemble,
)
from quorum.setting_text import LONG_BITS, BadValue, parse_integer
from server.config import Note, ServerConfig
from server.config_error import EXIT_UNEXPECTED, UNEXPECTED
from server.config_sources import Sources
from server.config_values import true_only

# The top byte of a session's id is its server's; 0xff there marks the owner of a TTL node.
_TTL_SERVER_ID_MAX = 254

_VERSION = re.compile(r"\.(0*[0-7]?[0-9a-fA-F]{1,15})")


def with_ensemble(config: ServerConfig, sources: Sources) -> ServerConfig:
    """The configuration with the members, this server's id, role and client address filled in."""
    config = attrs.evolve(config, multi_address_enabled=_allows_multi_address(config, sources))
    config = attrs.evolve(
        config, ensemble=_read_members(config, sources), my_id=_read_my_id(config.data_dir, sources)
    )
    _check_members(config, sources)
    if config.is_distributed:
        _check_distributed(config, sources)
    me = config.ensemble.members.get(config.my_id) if config.my_id is not None else None
    if me is None:
        _warn_of_unused_client_ports(config, sources)
        return config
    return _with_client_address(_with_role(config, me, sources), me, sources)


def _allows_multi_address(config: ServerConfig, sources: Sources) -> bool:
    """Apache takes several only if the -D flag allows them; the key in zoo.cfg is as clear a wish."""
    flag = sources.flags.properties.get("zookeeper.multiAddress.enabled", "")
    return config.multi_address_enabled or true_only(flag)


def _read_members(config: ServerConfig, sources: Sources) -> Ensemble:
    """The members from zoo.cfg, or from the dynamic file it names; never from both."""
    file = config.dynamic_config_file
    if file is not None:
        listed, version = _read_dynamic_file(file, sources), version_in_name(file)
    else:
        listed, version = sources, 0
    try:
        ensemble = read_ensemble(listed.values, version=version, multi_address=config.multi_address_enabled)
    except BadValue as problem:
        raise listed.error_from(problem) from None
    if config.oracle_path is None or not ensemble.is_hierarchical:
        return ensemble
    sources.warn("group and weight lines have no effect: with oraclePath a majority counts")
    return attrs.evolve(ensemble, groups={}, weights={})


def _read_dynamic_file(file: Path, sources: Sources) -> Sources:
    from server.zoo_cfg_syntax import read_properties  # its library takes 20 ms to import

    for key in filter(is_membership_key, sources.entries):
        wording = f"parameter: {key} must be in a separate dynamic config file"
        raise sources.error(wording, f"move the line to {file}", key)
    try:
        content = file.read_bytes()
        dynamic = Sources(file, read_properties(content), sources.flags)
    except OSError as error:
        wording, remedy = f"{file} ({error.strerror})", "create the file, or list the servers in zoo.cfg"
        raise sources.error(wording, remedy, "dynamicConfigFile") from None
    except BadValue as problem:
        raise attrs.evolve(sources, file=file).error_from(problem) from None
    _check_unchanged(file, content, dynamic)
    for key in dynamic.entries:
        if key == "version":
            wording = "dynamic file shouldn't have version inside"
            raise dynamic.error(wording, "remove the line; the version is in the file's name", key)
        if not is_membership_key(key):
            remedy = "a dynamic file holds server, group and weight lines only; move it to zoo.cfg"
            raise dynamic.error(f"Unrecognised parameter: {key}", remedy, key)
    return dynamic


def _check_unchanged(file: Path, content: bytes, dynamic: Sources) -> None:
    """Refuse a list that a server wrote, and that is not as it was written: with fewer members, or with
    others, quorums would be counted that are none, and without any this server would serve alone."""
    remedy = "copy the lines from a member that serves; if you edited them yourself, remove the line #crc32"
    if is_damaged(content):
        wording = "the members are not those that the server wrote: quorums could be counted without some"
        raise dynamic.error(wording, remedy)
    if not dynamic.entries and version_in_name(file):
        wording = "no members are listed: this server would serve alone, apart from its ensemble"
        raise dynamic.error(wording, remedy)


def version_in_name(file: Path) -> int:
    """The version that a dynamic file's name ends in (hexadecimal), 0 if it ends in something else."""
    match = _VERSION.fullmatch(file.suffix)
    return int(match[1], 16) if match else 0


def _read_my_id(data_dir: Path, sources: Sources) -> int | None:
    """The number in `dataDir/myid`, if there is such a file; its first line and not a blank more."""
    file = data_dir / "myid"
    try:
        lines = file.read_text(encoding="latin-1").splitlines()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise sources.error(f"{file} ({error.strerror})", "let this user read the file") from None
    first = lines[0] if lines else "null"
    try:
        return parse_integer(first, LONG_BITS)
    except BadValue:
        wording = f"serverid {first} is not a number"
        raise sources.error(wording, f"write this server's number, and nothing else, to {file}") from None


def _check_members(config: ServerConfig, sources: Sources) -> None:
    participants = len(config.ensemble.with_role(Role.PARTICIPANT))
    observers = len(config.ensemble.with_role(Role.OBSERVER))
    if participants == 0 and not config.standalone_enabled:
        wording = "standaloneEnabled = false then number of participants should be >0"
        raise sources.error(wording, "add server lines, or remove this one", "standaloneEnabled")
    if participants == 0 and observers:
        wording = "Observers w/o participants is an invalid configuration"
        raise sources.error(wording, "let at least one server be a participant")
    if participants == 1 and config.standalone_enabled:
        sources.notes.append(Note("error", "Invalid configuration, only one server specified (ignoring)"))
        if observers:
            wording = "Observers w/o quorum is an invalid configuration"
            raise sources.error(wording, "add participants, or set standaloneEnabled=false")
    elif 0 < participants <= 2:
        sources.warn("No server failure will be tolerated. You need at least 3 servers.")
    elif participants and participants % 2 == 0:
        sources.warn("Non-optimal configuration, consider an odd number of servers.")
    for one, other, endpoint in _shared_endpoints(config.ensemble):
        sources.warn(f"server.{one} and server.{other} are both at {endpoint}; one of them is wrong")


def _shared_endpoints(ensemble: Ensemble) -> Iterator[tuple[int, int, str]]:
    """Addresses that several server lines name, which is what copying a line and not all of it leads to."""
    owners: dict[tuple[str, int], int] = {}
    for member in ensemble.members.values():
        for address in member.addresses:
            for port in (address.quorum_port, address.election_port):
                owner = owners.setdefault((address.host, port), member.server_id)
                if owner != member.server_id:
                    yield owner, member.server_id, f"{bracketed(address.host)}:{port}"


def _check_distributed(config: ServerConfig, sources: Sources) -> None:
    my_id_file = config.data_dir / "myid"
    limits = (("initLimit", config.init_limit_ticks, 10), ("syncLimit", config.sync_limit_ticks, 5))
    for key, ticks, usual in limits:
        if ticks == 0:
            raise sources.error(f"{key} is not set", f"add a line {key}={usual} (ticks)")
        if ticks < 0:
            raise sources.error(f"{key} must be above zero", f"write ticks, such as {usual}", key)
    if config.my_id is None:
        raise sources.error("myid file is missing", f"write this server's number to {my_id_file}")
    if config.my_id not in config.ensemble.members:
        wording = f"My id {config.my_id} not in the peer list"
        remedy = f"add a line server.{config.my_id}=host:2888:3888, or correct {my_id_file}"
        raise sources.error(wording, remedy, summary=UNEXPECTED, exit_code=EXIT_UNEXPECTED)
    if config.extended_types_enabled and config.my_id > _TTL_SERVER_ID_MAX:
        wording = (
            "extendedTypesEnabled is true but Server ID is too large. Cannot be larger than"
            f" {_TTL_SERVER_ID_MAX}"
        )
        key, remedy = "extendedTypesEnabled", f"choose another id for this server, and correct {my_id_file}"
        raise sources.error(wording, remedy, key, summary=UNEXPECTED, exit_code=EXIT_UNEXPECTED)


def _warn_of_unused_client_ports(config: ServerConfig, sources: Sources) -> None:
    members = config.ensemble.members.values()
    if config.client_port is None and any(member.client is not None for member in members):
        file = config.data_dir / "myid"
        sources.warn(
            f"No client port is opened: server lines name one, but {file} names none of these servers"
        )


def _with_role(config: ServerConfig, me: Member, sources: Sources) -> ServerConfig:
    if me.role is not config.peer_type:
        listed, wanted = me.role.name, config.peer_type.name
        message = f"Peer type from servers list ({listed}) doesn't match peerType ({wanted})."
        sources.warn(f"{message} Defaulting to servers list.")
    return attrs.evolve(config, peer_type=me.role)


def _with_client_address(config: ServerConfig, me: Member, sources: Sources) -> ServerConfig:
    """This server's own line says where clients come in; without a word there, clientPort does."""
    static = None
    if config.client_port is not None:
        static = ClientAddress(config.client_port_address or ALL_INTERFACES, config.client_port)
    if me.client is None:
        members = {
            **config.ensemble.members,
            me.server_id: attrs.evolve(me, client=static, client_is_static=True),
        }
        return attrs.evolve(config, ensemble=attrs.evolve(config.ensemble, members=members))
    if static is not None and not _agree(static, me.client):
        wording = (
            f"client address for this server (id = {me.server_id}) in static config file is {static}"
            f" is different from client address found in dynamic file: {me.client}"
        )
        raise sources.error(wording, "remove clientPort and clientPortAddress from zoo.cfg", "clientPort")
    return attrs.evolve(config, client_port=me.client.port, client_port_address=me.client.host)


def _agree(static: ClientAddress, listed: ClientAddress) -> bool:
    """Whether clientPort fits the server's line; a wildcard address fits any other."""
    return static.port == listed.port and static.host in (ALL_INTERFACES, "::", listed.host)
