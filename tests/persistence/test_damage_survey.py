"""Damage everywhere: each class of bytes of each file flipped, zeroed or cut.

Whatever was acknowledged is there after a start, or the server refuses to start and says which file, where,
what could be lost and what can be done. testdata/damage_survey.txt holds what happens, a line for each class
of bytes and each kind of damage; `pytest --rewrite` writes it again, to be reviewed. What is neither "whole"
nor "refused" there is excused by name (`is_excused`), and told to operators in docs/OPERATING.md.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import attrs
import pytest

from persistence.epoch_files import ACCEPTED_EPOCH, CURRENT_EPOCH, read_epoch, write_epoch
from persistence.errors import CorruptLog, StorageError
from persistence.file_names import Compression
from persistence.log_format import ENTRY_OVERHEAD_BYTES, FILE_HEADER, MARK_BYTES, encode_entries
from persistence.snapshot_format import TREE_END
from persistence.snapshots import SnapshotOptions, take_snapshot_now
from persistence.txn_log import TxnLog
from quorum.config_files import ConfigFiles
from quorum.server_lines import Ensemble, read_config_text
from server.config_error import ConfigError
from server.config_loading import load_config
from tests.captured_logs import capture_logs
from tests.persistence.fake_tree import DATA, STAT, FakeTree, payload, recovered
from tests.persistence.memory_disk import SECTOR_BYTES, MemoryDisk

SURVEY = Path(__file__).with_name("testdata") / "damage_survey.txt"
GROWTH_BYTES = 8 << 10
PER_FILE = 15
FILES = {"first log": "log.100000001", "middle log": "log.200000001", "last log": "log.300000001"}
ZXIDS = [(epoch << 32) + counter for epoch in (1, 2, 3) for counter in range(1, PER_FILE + 1)]
SNAPSHOT_ZXID = ZXIDS[PER_FILE + 4]  # in the middle of the second log
ENTRY_BYTES = len(encode_entries([payload(1, b"x" * 120)]))
ENTRIES_END = len(FILE_HEADER) + PER_FILE * ENTRY_BYTES
WHOLE_OR_REFUSED = "whole or refused"
CONSEQUENCE = re.compile("may have been acknowledged|could be broken|could be counted")

# Of the newest snapshot; what one node holds looks like the end of a tree.
NODES = [
    (b"/", b"\0\0\0\0", -1, STAT),
    (b"/a", b"\0\0\0\5" + TREE_END, -1, STAT),
    (b"/b", b"\0\0\0\1x", -1, STAT),
]
SESSIONS = [(77, 4000), (78, 5000)]

Damage = Callable[[bytearray, int], None]


def flip_low(content: bytearray, at: int) -> None:
    content[at] ^= 0x01


def flip_high(content: bytearray, at: int) -> None:
    content[at] ^= 0x80


def zero(content: bytearray, at: int) -> None:
    content[at] = 0


def zero_sector(content: bytearray, at: int) -> None:
    start = at - at % SECTOR_BYTES
    content[start : start + SECTOR_BYTES] = bytes(min(SECTOR_BYTES, len(content) - start))


def cut(content: bytearray, at: int) -> None:
    del content[at:]


DAMAGES: list[Damage] = [flip_low, flip_high, zero, zero_sector, cut]


@attrs.frozen
class Case:
    """One byte of one file, and what to do with all files once it is damaged: say how the start went."""

    file: str
    kind: str  # of byte
    at: int
    content: bytes
    start: Callable[[bytes], str]


def refused(failure: StorageError | ConfigError) -> str:
    """It says where, what could be lost, and what can be done."""
    assert failure.remedy
    if isinstance(failure, ConfigError):  # a configuration that makes no sense is refused for that alone
        assert failure.place.file
        return "refused"
    assert failure.file is not None
    assert CONSEQUENCE.search(failure.problem), failure.problem
    if isinstance(failure, CorruptLog) and "hole" not in failure.problem:
        assert failure.offset is not None
    return "refused"


# -- logs and snapshots


def story(compression: Compression = Compression.NONE) -> MemoryDisk:
    """A snapshot of nothing, three logs, each of which begins an epoch, and a snapshot in the second."""
    disk = MemoryDisk()
    disk.make_directory(DATA)
    tree = FakeTree()
    take_snapshot_now(disk, DATA, tree, SnapshotOptions())
    tree.nodes, tree.sessions = NODES, SESSIONS
    log = TxnLog(disk, DATA, preallocate_bytes=GROWTH_BYTES)
    for zxid in ZXIDS:
        if zxid & 0xFFFF_FFFF == 1:
            log.roll()
        log.append_batch([payload(zxid, b"x" * 120)])  # every transaction was acknowledged by itself
        if zxid == SNAPSHOT_ZXID:
            tree.zxid = zxid
            take_snapshot_now(disk, DATA, tree, SnapshotOptions(compression=compression))
    return disk


def starting(disk: MemoryDisk, name: str, without: Iterable[str] = ()) -> Callable[[bytes], str]:
    """How a server starts whose file `name` has other content, and which does not have some files."""
    stored = {each: disk.get(DATA / each) for each in disk.names(DATA) if each not in without}

    def start(content: bytes) -> str:
        damaged = MemoryDisk()
        for each, before in stored.items():
            damaged.put(DATA / each, content if each == name else before)
        try:
            with capture_logs():
                found, tree = recovered(damaged)
        except StorageError as failure:
            return refused(failure)
        assert found.snapshot is not None
        if found.snapshot.zxid:
            assert tree.nodes == NODES
            assert tree.sessions == SESSIONS
        assert tree.replayed_zxids == [zxid for zxid in ZXIDS if found.snapshot.zxid < zxid <= found.zxid]
        missing = len([zxid for zxid in ZXIDS if zxid > found.zxid])
        return "whole" if not missing else f"{missing} missing"

    return start


def log_places() -> Iterator[tuple[str, int]]:
    """Each byte of: the header, the first, a middle and the last entry, the mark; some of the padding."""
    for at in range(len(FILE_HEADER)):
        yield "header", at
    for number in (0, PER_FILE // 2, PER_FILE - 1):
        start = len(FILE_HEADER) + number * ENTRY_BYTES
        for at in range(ENTRY_BYTES):
            yield entry_class(at), start + at
    for at in range(MARK_BYTES):
        yield "mark", ENTRIES_END + at
    yield "padding", ENTRIES_END + 100
    yield "padding", GROWTH_BYTES


def entry_class(at: int) -> str:
    if at < 8:
        return "checksum"
    if at < 12:
        return "length"
    return "payload" if at < ENTRY_BYTES - 1 else "end mark"


def log_cases() -> Iterator[Case]:
    disk = story()
    newest = f"snapshot.{SNAPSHOT_ZXID:x}"
    for file, name in FILES.items():
        # Without the newest snapshot the first log is needed too.
        start = starting(disk, name, [newest] if file == "first log" else [])
        for kind, at in log_places():
            yield Case(file, kind, at, disk.get(DATA / name), start)


def snapshot_cases() -> Iterator[Case]:
    for compression, suffix in ((Compression.NONE, ""), (Compression.GZIP, ".gz")):
        disk = story(compression)
        name = f"snapshot.{SNAPSHOT_ZXID:x}{suffix}"
        content = disk.get(DATA / name)
        alone = starting(disk, name, ["snapshot.0", FILES["first log"]])
        for file, start in (("newest of two", starting(disk, name)), ("only", alone)):
            for at in range(len(content)):
                kind = "header" if at < 16 else "content" if at < len(content) - 21 else "end"
                if suffix:  # where a changed byte matters depends on the version of zlib
                    yield Case(
                        f"{file} snapshot{suffix}", "any", at, content, partial(whole_or_refused, start)
                    )
                else:
                    yield Case(f"{file} snapshot", kind, at, content, start)


def whole_or_refused(start: Callable[[bytes], str], content: bytes) -> str:
    outcome = start(content)
    return WHOLE_OR_REFUSED if outcome in ("whole", "refused") else outcome


# -- epochs


def epoch_cases() -> Iterator[Case]:
    for name in (ACCEPTED_EPOCH, CURRENT_EPOCH):
        for epoch in (0, 7, 12, 20_480):
            disk = MemoryDisk()
            disk.make_directory(DATA)
            write_epoch(disk, DATA, name, epoch)
            content = disk.get(DATA / name)
            for at in range(len(content)):
                yield Case(name, "content", at, content, reading_epoch(name, epoch))


def reading_epoch(name: str, epoch: int) -> Callable[[bytes], str]:
    def start(content: bytes) -> str:
        disk = MemoryDisk()
        disk.put(DATA / name, content)
        try:
            found = read_epoch(disk, DATA, name)
        except StorageError as failure:
            return refused(failure)
        return "whole" if found == epoch else "another epoch"

    return start


# -- members


MEMBERS = "server.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n"
STATIC = "dataDir={dir}/data\nclientPort=2181\ninitLimit=10\nsyncLimit=5\nautopurge.purgeInterval=1\n"
FIRST = 0x100000000


def ensemble() -> Ensemble:
    return read_config_text(f"{MEMBERS}version={FIRST:x}")


def written_members() -> dict[str, bytes]:
    """What a server writes: the members that were proposed, then those in force."""
    disk = MemoryDisk()
    disk.put(Path("/etc/zoo.cfg"), STATIC.encode())
    files = ConfigFiles(disk, Path("/etc/zoo.cfg"))
    files.save_next(ensemble())
    assert files.save_active(ensemble(), lists_client_address=False)
    return {name: disk.get(Path("/etc") / name) for name in disk.names(Path("/etc"))}


def member_cases(directory: Path) -> Iterator[Case]:
    written = written_members()
    dynamic = f"zoo.cfg.dynamic.{FIRST:x}"
    plain = written[dynamic].partition(b"\n")[2]
    (directory / "data").mkdir()
    for name, content, start in (
        ("zoo.cfg.dynamic.N", written[dynamic], loading(directory, dynamic)),
        ("zoo.cfg.dynamic.N of Apache's", plain, loading(directory, dynamic)),
        ("zoo.cfg.dynamic.next", written["zoo.cfg.dynamic.next"], loading_next),
        ("myid", b"2\n", loading(directory, "data/myid")),
    ):
        for at in range(len(content)):
            in_check = content.startswith(b"#") and at <= content.index(b"\n")
            yield Case(name, "check" if in_check else "content", at, content, start)


def loading(directory: Path, name: str) -> Callable[[bytes], str]:
    dynamic = directory / f"zoo.cfg.dynamic.{FIRST:x}"

    def start(content: bytes) -> str:
        dynamic.write_text(MEMBERS)
        (directory / "data" / "myid").write_text("2\n")
        static = f"{STATIC.format(dir=directory)}dynamicConfigFile={dynamic}\n"
        (directory / "zoo.cfg").write_text(static)
        (directory / name).write_bytes(content)
        try:
            config = load_config(directory / "zoo.cfg", {}).config
        except ConfigError as failure:
            return refused(failure)
        if config.my_id != 2:
            return "another's id"
        lines = {each: str(member).split(";")[0] for each, member in config.ensemble.members.items()}
        expected = {each: str(member) for each, member in ensemble().members.items()}
        return "whole" if lines == expected else "other members"

    return start


def loading_next(content: bytes) -> str:
    disk = MemoryDisk()
    disk.put(Path("/etc/zoo.cfg"), STATIC.encode())
    disk.put(Path("/etc/zoo.cfg.dynamic.next"), content)
    try:
        found = ConfigFiles(disk, Path("/etc/zoo.cfg")).load_next()
    except StorageError as failure:
        return refused(failure)
    return "whole" if found == ensemble() else "other members"


# -- the table


def is_excused(case: Case, damage: Damage, outcome: str) -> bool:
    """What cannot be told from what a crash, Apache or an operator may do."""
    if case.file == "last log":
        return damage is zero_sector and case.at >= ENTRIES_END - ENTRY_BYTES - SECTOR_BYTES
    return case.file in ("zoo.cfg.dynamic.N of Apache's", "myid")


def surveyed(cases: Iterable[Case]) -> list[str]:
    """A line for each class of bytes and each damage: how starts went."""
    seen: dict[tuple[str, str, Damage], set[str]] = {}
    for case in cases:
        for damage in DAMAGES:
            content = bytearray(case.content)
            damage(content, case.at)
            if content == case.content:
                continue
            outcome = case.start(bytes(content))
            if outcome not in ("whole", "refused", WHOLE_OR_REFUSED):
                assert is_excused(case, damage, outcome), (case.file, case.kind, case.at, damage, outcome)
            seen.setdefault((case.file, case.kind, damage), set()).add(outcome)
    return [
        f"{file:<29} {kind:<9} {damage.__name__:<12} {', '.join(sorted(outcomes))}"
        for (file, kind, damage), outcomes in sorted(seen.items(), key=in_order)
    ]


def in_order(line: tuple[tuple[str, str, Damage], set[str]]) -> tuple[str, str, int]:
    file, kind, damage = line[0]
    return file, kind, DAMAGES.index(damage)


def test_the_survey_is_as_it_was_reviewed(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    lines = [
        *surveyed(log_cases()),
        *surveyed(snapshot_cases()),
        *surveyed(epoch_cases()),
        *surveyed(member_cases(tmp_path)),
    ]
    survey = "\n".join([f"{'file':<29} {'bytes':<9} {'damage':<12} what happens", *lines, ""])
    if request.config.getoption("--rewrite"):
        SURVEY.write_text(survey)
    else:
        assert survey.splitlines() == SURVEY.read_text().splitlines()


def test_a_batch_before_the_last_is_never_taken_for_torn() -> None:
    """Each sector of the last log that does not hold its end."""
    disk = story()
    name = FILES["last log"]
    for at in range(SECTOR_BYTES, ENTRIES_END - ENTRY_BYTES - SECTOR_BYTES, SECTOR_BYTES):
        content = bytearray(disk.get(DATA / name))
        zero_sector(content, at)
        assert starting(disk, name)(bytes(content)) == "refused"


def test_an_entry_has_the_classes_that_are_surveyed() -> None:
    assert {entry_class(at) for at in range(ENTRY_BYTES)} == {"checksum", "length", "payload", "end mark"}
    assert len(payload(1, b"x" * 120)) + ENTRY_OVERHEAD_BYTES == ENTRY_BYTES
