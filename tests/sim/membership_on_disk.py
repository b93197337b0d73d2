"""What the operator of a simulated server does with its configuration file before each start."""

import re
from functools import lru_cache
from pathlib import Path

import attrs

from persistence.disk import Disk, read_chunks, replace_file
from quorum.server_lines import Address, ClientAddress, Ensemble, Member, Role, config_text, read_config_text
from server.ensemble_loading import version_in_name
from tests.sim.clients import CLIENT_PORT, server_line
from tests.sim.scenario import Scenario

CONFIG_FILE = Path("/conf/zoo.cfg")
_DYNAMIC = re.compile(rb"^dynamicConfigFile=(.*)$", re.MULTILINE)


@attrs.frozen
class Found:
    ensemble: Ensemble
    dynamic_file: Path | None


def first_members(scenario: Scenario) -> Ensemble:
    lines = [
        server_line(number, "participant" if number <= scenario.voters else "observer")
        for number in range(1, scenario.voters + scenario.observers + 1)
    ]
    return members_of("\n".join([*lines, *scenario.group_lines]))


@lru_cache(maxsize=100)
def members_of(text: str) -> Ensemble:
    """Read a configuration; the same few are looked at again and again."""
    return read_config_text(text)


def prepare_members(disk: Disk, scenario: Scenario, my_id: int) -> Found:
    """Read the configuration, or write the first one; a server that was removed asks to be let in again."""
    if not disk.exists(CONFIG_FILE):
        disk.make_directory(CONFIG_FILE.parent)
        _write(disk, first_members(scenario))
    found = _read(disk)
    if my_id not in found.ensemble.members:
        me = Member(
            server_id=my_id,
            addresses=(Address(f"s{my_id}", 2888, 3888),),
            role=Role.OBSERVER,
            client=ClientAddress(f"s{my_id}", CLIENT_PORT),
        )
        _write(disk, attrs.evolve(found.ensemble, members={**found.ensemble.members, my_id: me}))
        found = _read(disk)
    return found


def removed_in(disk: Disk, my_id: int) -> int | None:
    """The version of the members that are in force, if this server is none of them."""
    if not disk.exists(CONFIG_FILE):
        return None
    ensemble = _read(disk).ensemble
    return None if my_id in ensemble.members else ensemble.version


def _read(disk: Disk) -> Found:
    text = b"".join(read_chunks(disk, CONFIG_FILE))
    named = _DYNAMIC.search(text)
    if named is None:
        return Found(members_of(text.decode()), None)
    file = Path(named[1].decode())
    ensemble = members_of(b"".join(read_chunks(disk, file)).decode())
    return Found(attrs.evolve(ensemble, version=version_in_name(file)), file)


def _write(disk: Disk, ensemble: Ensemble) -> None:
    text, _, _ = config_text(ensemble).rpartition("\nversion=")
    replace_file(disk, CONFIG_FILE, text.encode() + b"\n")
