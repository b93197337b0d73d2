"""The members as one server knows them, in memory and on disk."""

import errno
import io
import re
from pathlib import Path
from random import Random
from stat import S_IMODE

import attrs
import javaproperties
import pytest

from persistence.disk import RealDisk, read_chunks
from persistence.errors import DataDirError
from quorum.checked_lines import is_damaged
from quorum.config_files import ConfigFiles, without_members
from quorum.errors import MembersNotSaved
from quorum.membership import Membership
from quorum.server_lines import ClientAddress, Ensemble, Role, read_ensemble
from tests.persistence.memory_disk import Killed, MemoryDisk

F = Path("/etc/zoo.cfg")
STATIC = b"""\
# Our ensemble.
dataDir=/var/zk
server.1=zoo1:2888:3888
server.2=zoo2:2888:3888
server.3=zoo3:2888:3888
clientPort=2181
clientPortListenBacklog=5
peerType=participant
tickTime=2000"""
LISTED = {f"server.{n}": f"zoo{n}:2888:3888" for n in (1, 2, 3)}
FIRST = 0x100000000
SECOND = 0x100000005


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(F.parent)
    disk.put(F, STATIC)
    return disk


def at_start() -> Ensemble:
    """Server 1's view: its client address comes from clientPort."""
    ensemble = read_ensemble(LISTED)
    me = attrs.evolve(ensemble.members[1], client=ClientAddress("0.0.0.0", 2181), client_is_static=True)
    return attrs.evolve(ensemble, members={**ensemble.members, 1: me})


def with_fourth(client: str = ";2181") -> Ensemble:
    lines = {key: line + client for key, line in LISTED.items()}
    return read_ensemble({**lines, "server.4": "zoo4:2888:3888:observer;2181"}, version=SECOND)


def membership_on(disk: MemoryDisk, my_id: int = 1) -> Membership:
    return Membership(my_id, at_start(), reconfig_enabled=True, files=ConfigFiles(disk, F))


def files(disk: MemoryDisk) -> dict[str, str]:
    """What is in them, without the check that is in front of a list of members."""
    contents = {name: disk.get(F.parent / name) for name in disk.names(F.parent)}
    assert not any(map(is_damaged, contents.values()))
    return {
        name: re.sub("^#crc32 .*\n", "", content.decode(), count=1)
        if ".dynamic." in name
        else content.decode()
        for name, content in contents.items()
    }


def test_the_first_version_is_seen_then_in_force(disk: MemoryDisk) -> None:
    """The lines stay what they were, and the static file keeps what only it knows."""
    membership = membership_on(disk)
    membership.give_first_version(FIRST)
    assert membership.committed.version == 0
    assert membership.pending_verifier() is not None
    lines = "server.1=zoo1:2888:3888:participant\nserver.2=zoo2:2888:3888:participant\n"
    lines += "server.3=zoo3:2888:3888:participant"
    assert files(disk) == {"zoo.cfg": STATIC.decode(), "zoo.cfg.dynamic.next": f"{lines}\nversion=100000000"}

    membership.activate(membership.last_seen)
    assert membership.committed.version == FIRST
    assert membership.pending_verifier() is None
    assert files(disk) == {
        "zoo.cfg": "# Our ensemble.\ndataDir=/var/zk\nclientPort=2181\nclientPortListenBacklog=5\n"
        "tickTime=2000\ndynamicConfigFile=/etc/zoo.cfg.dynamic.100000000\n",
        "zoo.cfg.dynamic.100000000": lines,
    }
    membership.give_first_version(SECOND)
    assert membership.last_seen.version == FIRST


def test_a_client_address_in_our_line_takes_the_place_of_clientport(disk: MemoryDisk) -> None:
    membership_on(disk).activate(with_fourth())
    static = files(disk)["zoo.cfg"]
    assert "clientPort=" not in static
    assert "clientPortListenBacklog=5" in static


def test_clientport_is_still_ours_when_the_lines_name_no_client_address(disk: MemoryDisk) -> None:
    membership = membership_on(disk)
    membership.activate(with_fourth(client=""))
    assert membership.me.client == ClientAddress("0.0.0.0", 2181)
    assert "clientPort=2181" in files(disk)["zoo.cfg"]


def test_what_is_proposed_is_found_again_after_a_restart(disk: MemoryDisk) -> None:
    membership_on(disk).see(with_fourth())
    found = ConfigFiles(disk, F).load_next()
    assert found == with_fourth()
    again = Membership(1, at_start(), last_seen=found, reconfig_enabled=True)
    assert again.last_seen.version == SECOND
    next_file = F.with_name("zoo.cfg.dynamic.next")
    for damaged in (b"server.1=nonsense", disk.get(next_file).replace(b"zoo2", b"zoo4")):
        disk.put(next_file, damaged)
        with pytest.raises(DataDirError, match=r"dynamic\.next, byte 0: the members proposed last"):
            ConfigFiles(disk, F).load_next()


def test_what_was_never_agreed_on_gives_way_to_what_a_leader_says(disk: MemoryDisk) -> None:
    membership = membership_on(disk)
    membership.give_first_version(FIRST)
    membership.activate(membership.last_seen)
    established = membership.committed
    membership.see(with_fourth())
    membership.see(established)
    assert membership.last_seen == established
    assert membership.pending_verifier() is None
    assert "zoo.cfg.dynamic.next" not in files(disk)


def test_an_older_configuration_is_never_put_in_force(disk: MemoryDisk) -> None:
    membership = membership_on(disk)
    membership.activate(with_fourth())
    membership.activate(attrs.evolve(at_start(), version=FIRST))
    assert membership.committed.version == SECOND


def test_roles_come_and_go(disk: MemoryDisk) -> None:
    """A server that is not listed any more has its last address, no vote, and is no observer."""
    membership = membership_on(disk, my_id=3)
    changes: list[Role] = []
    membership.on_change(lambda: changes.append(membership.role))
    observing = {**LISTED, "server.3": "elsewhere:2888:3888:observer"}
    membership.activate(read_ensemble(observing, version=FIRST))
    del observing["server.3"]
    membership.activate(read_ensemble(observing, version=SECOND))
    assert changes == [Role.OBSERVER, Role.PARTICIPANT]
    assert not membership.is_voter
    assert membership.me.addresses[0].host == "elsewhere"


def test_without_reconfiguration_nothing_changes(disk: MemoryDisk) -> None:
    membership = Membership(1, at_start(), last_seen=with_fourth(), files=ConfigFiles(disk, F))
    membership.give_first_version(FIRST)
    membership.see(with_fourth())
    membership.activate(with_fourth())
    assert membership.committed == membership.last_seen == at_start()
    assert files(disk) == {"zoo.cfg": STATIC.decode()}


def test_the_operators_file_is_backed_up(disk: MemoryDisk) -> None:
    ConfigFiles(disk, F).back_up()
    assert disk.get(F.with_name("zoo.cfg.bak")) == STATIC


def read_only(disk: MemoryDisk) -> None:
    for operation in ("create", "is_writable"):
        disk.faults[operation] = OSError(errno.EROFS, "read-only file system")


def test_a_configuration_that_cannot_be_written_stops_nobody_while_members_stay(disk: MemoryDisk) -> None:
    """An operator may have good reasons for it."""
    read_only(disk)
    membership = membership_on(disk)
    ConfigFiles(disk, F).back_up()
    membership.give_first_version(FIRST)
    membership.activate(membership.last_seen)
    assert membership.committed.version == FIRST
    assert files(disk) == {"zoo.cfg": STATIC.decode()}


def test_new_members_that_cannot_be_saved_are_not_seen(disk: MemoryDisk) -> None:
    """After a crash this server would count quorums as if it had never heard of them; so it must not let
    anybody rely on it."""
    membership = membership_on(disk)
    read_only(disk)
    with pytest.raises(MembersNotSaved, match="make room there, or let the server write"):
        membership.see(with_fourth())
    with pytest.raises(MembersNotSaved):
        membership.check_savable()
    assert membership.last_seen == at_start()
    disk.faults.clear()
    membership.check_savable()
    membership.see(with_fourth())
    assert membership.last_seen.version == SECOND


def test_members_that_could_not_be_put_in_force_on_disk_stay_proposed_there(disk: MemoryDisk) -> None:
    membership = membership_on(disk)
    membership.see(with_fourth())
    read_only(disk)
    membership.activate(with_fourth())
    assert membership.committed.version == SECOND
    assert ConfigFiles(disk, F).load_next() == with_fourth()


def test_a_file_that_was_spoilt_since_the_start_stops_nobody(disk: MemoryDisk) -> None:
    r"""Such as by a Windows path, whose \\u begins an escape. It is left alone."""
    spoilt = STATIC + b"dataLogDir=C:\\users\n"
    disk.put(F, spoilt)
    membership = membership_on(disk)
    membership.activate(with_fourth())
    assert membership.committed.version == SECOND
    assert disk.get(F) == spoilt


def test_a_folder_may_have_any_name(disk: MemoryDisk) -> None:
    """The file is Latin-1, names are not."""
    file = Path("/conf/é動 \\物/zoo.cfg")
    disk.make_directory(file.parent)
    disk.put(file, STATIC)
    ConfigFiles(disk, file).save_active(with_fourth(), lists_client_address=False)
    read = javaproperties.load(io.BytesIO(disk.get(file)))
    assert disk.exists(Path(read["dynamicConfigFile"]))


@pytest.mark.parametrize("loses_power", [False, True])
def test_a_crash_at_any_moment_leaves_a_file_that_leads_to_the_members(loses_power: bool) -> None:
    """The old ones or the new ones, never none."""
    budget, is_whole = 0, False
    while not is_whole:
        disk = MemoryDisk()
        disk.make_directory(F.parent)
        disk.put(F, STATIC)
        disk.sync_directory(F.parent)
        disk.budget = budget
        try:
            membership_on(disk).activate(with_fourth())
            is_whole = True
        except Killed:
            pass
        disk.revive()
        if loses_power:
            disk.lose_power(Random(budget))
        _assert_leads_to_members(disk)
        budget += 17


def _assert_leads_to_members(disk: MemoryDisk) -> None:
    static = b"".join(read_chunks(disk, F)).decode()
    if static == STATIC.decode():
        return
    *_, last = static.splitlines()
    dynamic = Path(last.removeprefix("dynamicConfigFile="))
    assert disk.get(dynamic).decode().count("server.") == 4


def test_comments_and_continued_lines_stay_as_they_were() -> None:
    content = b"# one\n! two\na=b\\\n  c\nserver.1 = x\\\n  y\n\ngroup.1:1\nweight.1 1\nk=v\r\n"
    assert without_members(content, ("k",)) == b"# one\n! two\na=b\\\n  c\n\n"


def test_what_only_its_owner_may_read_stays_so(tmp_path: Path) -> None:
    """zoo.cfg may hold the digest of the super user."""
    file = tmp_path / "zoo.cfg"
    file.write_bytes(b"dataDir=/data\nserver.1=a:1:2\n")
    file.chmod(0o600)
    ensemble = read_ensemble(LISTED, version=SECOND)
    config_files = ConfigFiles(RealDisk(), file)
    config_files.back_up()
    config_files.save_next(ensemble)
    config_files.save_active(ensemble, lists_client_address=False)
    assert len(list(tmp_path.iterdir())) == 4
    assert {S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()} == {0o600}
