"""Snapshot files: taken without stopping the server, atomic, listed, purged."""

import errno
import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from persistence.file_names import Compression, snapshot_name
from persistence.snapshot_format import Node
from persistence.snapshots import (
    SnapshotOptions,
    list_snapshots,
    looks_complete,
    newest_complete,
    purge,
    take_snapshot,
    take_snapshot_now,
)
from tests.persistence.fake_tree import DATA, STAT, FakeTree, inline, recovered
from tests.persistence.memory_disk import MemoryDisk
from tests.persistence.test_snapshot_format import GOLDEN, GOLDEN_PLAIN, golden_tree


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(DATA)
    return disk


def large_tree() -> FakeTree:
    tree = golden_tree()
    tree.nodes += [(b"/n%d" % number, b"\0\0\x01\x2c" + b"d" * 300, 1, STAT) for number in range(5000)]
    return tree


async def all_logged() -> None:
    """For a tree whose log is on disk."""
    await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("compression", Compression)
async def test_a_snapshot_is_read_back(disk: MemoryDisk, compression: Compression) -> None:
    tree = large_tree()
    taken = await take_snapshot(
        disk, inline, DATA, tree, SnapshotOptions(compression=compression), all_logged
    )
    assert disk.names(DATA) == [taken.path.name]
    found, loaded = recovered(disk)
    assert found.snapshot == taken
    assert (found.zxid, loaded.zxid) == (6, 6)
    assert (loaded.sessions, loaded.acls, loaded.nodes) == (tree.sessions, tree.acls, tree.nodes)


@pytest.mark.parametrize(
    ("compression", "name"),
    [
        (Compression.NONE, "snapshot.6"),
        (Compression.GZIP, "snapshot.6.gz"),
        (Compression.SNAPPY, "snapshot.6.snappy"),
    ],
)
def test_the_name_has_the_zxid_and_the_compression(
    disk: MemoryDisk, compression: Compression, name: str
) -> None:
    take_snapshot_now(disk, DATA, golden_tree(), SnapshotOptions(compression=compression))
    assert disk.names(DATA) == [name]
    assert looks_complete(disk, list_snapshots(disk, DATA)[0])


def test_a_plain_snapshot_is_the_format_and_nothing_more(disk: MemoryDisk) -> None:
    take_snapshot_now(disk, DATA, golden_tree(), SnapshotOptions())
    assert disk.get(DATA / "snapshot.6") == GOLDEN
    take_snapshot_now(disk, DATA, golden_tree(), SnapshotOptions(with_digest=False))
    assert disk.get(DATA / "snapshot.6") == GOLDEN_PLAIN


def test_gz_is_gzip(disk: MemoryDisk) -> None:
    take_snapshot_now(disk, DATA, golden_tree(), SnapshotOptions(compression=Compression.GZIP))
    assert gzip.decompress(disk.get(DATA / "snapshot.6.gz")) == GOLDEN


def test_snappy_starts_as_the_java_library_writes_it(disk: MemoryDisk) -> None:
    take_snapshot_now(disk, DATA, golden_tree(), SnapshotOptions(compression=Compression.SNAPPY))
    packed = disk.get(DATA / "snapshot.6.snappy")
    assert packed[:16].hex() == "82534e41505059000000000100000001"
    assert int.from_bytes(packed[16:20], "big") == len(packed) - 20


async def test_the_name_is_from_before_and_the_trailers_from_after(disk: MemoryDisk) -> None:
    """Replay starts at the name; were it any later, what changed meanwhile would be lost."""

    class Moving(FakeTree):
        def snapshot_nodes(self) -> Iterator[Node]:
            for node in super().snapshot_nodes():
                self.zxid += 1
                yield node

    tree = Moving()
    tree.zxid = 10
    tree.nodes *= 5
    taken = await take_snapshot(disk, inline, DATA, tree, SnapshotOptions(), all_logged)
    assert taken.path.name == "snapshot.a"
    assert int.from_bytes(disk.get(taken.path)[-21:-13], "big") == 15


async def test_the_event_loop_gets_its_turn_after_every_slice(
    disk: MemoryDisk, nursery: trio.Nursery
) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    nursery.start_soon(others)
    await take_snapshot(disk, inline, DATA, large_tree(), SnapshotOptions(), all_logged)
    assert turns >= 5000 // 128
    nursery.cancel_scope.cancel()


async def test_a_cancelled_snapshot_leaves_nothing(disk: MemoryDisk) -> None:
    tree = large_tree()
    with trio.CancelScope() as scope:

        class Cancelling(FakeTree):
            def snapshot_nodes(self) -> Iterator[Node]:
                yield from tree.nodes[:3000]
                scope.cancel()
                yield from tree.nodes[3000:]

        await take_snapshot(disk, inline, DATA, Cancelling(), SnapshotOptions(), all_logged)
    assert scope.cancelled_caught
    assert disk.names(DATA) == []


@pytest.mark.parametrize("operation", ["create", "write_at", "sync", "rename"])
async def test_a_failed_snapshot_leaves_nothing_and_tells(disk: MemoryDisk, operation: str) -> None:
    disk.faults[operation] = OSError(errno.ENOSPC, "injected")
    with pytest.raises(OSError, match="injected"):
        await take_snapshot(disk, inline, DATA, large_tree(), SnapshotOptions(), all_logged)
    with pytest.raises(OSError, match="injected"):
        take_snapshot_now(disk, DATA, large_tree(), SnapshotOptions())
    assert disk.names(DATA) == []


def test_only_a_snapshot_asked_to_be_durable_is_synced(disk: MemoryDisk) -> None:
    take_snapshot_now(disk, DATA, golden_tree(), SnapshotOptions(durable=False))
    assert disk.syncs == 0
    take_snapshot_now(disk, DATA, golden_tree(), SnapshotOptions())
    assert disk.syncs == 1


def test_snapshots_are_listed_newest_first_whatever_else_lies_there(disk: MemoryDisk) -> None:
    for name in ("snapshot.9", "snapshot.a.gz", "snapshot.10", "snapshot.b.tmp", "snapshot.c.old", "log.1"):
        disk.put(DATA / name, b"")
    assert [file.path.name for file in list_snapshots(disk, DATA)] == [
        "snapshot.10",
        "snapshot.a.gz",
        "snapshot.9",
    ]


@pytest.mark.parametrize(
    ("name", "content", "complete"),
    [
        ("snapshot.1", GOLDEN, True),
        ("snapshot.1", GOLDEN_PLAIN, True),
        ("snapshot.1", GOLDEN[:-1], False),
        ("snapshot.1", b"", False),
        ("snapshot.1", b"\0\0\0\1/", False),
        ("snapshot.1.gz", b"\x1f\x8b", True),
        ("snapshot.1.gz", GOLDEN, False),
        ("snapshot.1.snappy", b"\x82SNAPPY\0", True),
        ("snapshot.1.snappy", b"\x82SNAPP", False),
    ],
)
def test_a_look_at_one_end_tells_what_a_crash_cut_short(
    disk: MemoryDisk, name: str, content: bytes, complete: bool
) -> None:
    disk.put(DATA / name, content)
    assert looks_complete(disk, list_snapshots(disk, DATA)[0]) is complete
    assert bool(newest_complete(disk, DATA, 1)) is complete


SNAPS, LOGS = Path("/data/version-2"), Path("/logs/version-2")


@pytest.mark.parametrize(
    ("snapshots", "logs", "kept_snapshots", "kept_logs"),
    [
        ("", "1 5", "", "1 5"),
        ("0", "1", "0", "1"),
        ("0 5", "1 6", "0 5", "1 6"),  # fewer than asked for
        ("0 5 9", "1 6 a", "0 5 9", "1 6 a"),
        ("0 5 9 c", "1 6 a d", "5 9 c", "1 6 a d"),  # log.1 may hold what follows 5
        ("0 5 9 c", "1 5 6 a d", "5 9 c", "5 6 a d"),
        ("0 5 9 c 1f", "1 6 a d 20", "9 c 1f", "6 a d 20"),
        ("0 5 9 c 1f", "1", "9 c 1f", "1"),  # one log for all
        ("0 5 9 c! 1f", "1 6 a d 20", "5 9 c! 1f", "1 6 a d 20"),  # a broken one does not count
        ("0! 1! 5 9 c", "1 2 6", "5 9 c", "2 6"),
        ("2! 3!", "1 3", "2! 3!", "1 3"),
    ],
)
def test_purge_keeps_what_the_newest_three_snapshots_need(
    snapshots: str, logs: str, kept_snapshots: str, kept_logs: str
) -> None:
    """Zxids in hexadecimal; a snapshot marked with ! was cut short."""
    disk = MemoryDisk()
    disk.make_directory(SNAPS)
    disk.make_directory(LOGS)
    for zxid in snapshots.split():
        disk.put(SNAPS / f"snapshot.{zxid.rstrip('!')}", b"cut short" if "!" in zxid else GOLDEN)
    for zxid in logs.split():
        disk.put(LOGS / f"log.{zxid}", b"")
    removed = purge(disk, SNAPS, LOGS, 3)
    assert disk.names(SNAPS) == [f"snapshot.{zxid.rstrip('!')}" for zxid in kept_snapshots.split()]
    assert disk.names(LOGS) == [f"log.{zxid}" for zxid in kept_logs.split()]
    assert len(removed) == len((snapshots + " " + logs).split()) - len(
        (kept_snapshots + " " + kept_logs).split()
    )


def test_purge_goes_from_old_to_new_and_logs_last(disk: MemoryDisk) -> None:
    for name in ("log.1", "log.3", "log.5", *(snapshot_name(zxid, Compression.NONE) for zxid in range(6))):
        disk.put(DATA / name, GOLDEN)
    removed = [path.name for path in purge(disk, DATA, DATA, 3)]
    assert removed == ["snapshot.0", "snapshot.1", "snapshot.2", "log.1"]


class OrderOfRemoval(MemoryDisk):
    """Remembers what was removed, and when that was made durable."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    def unlink(self, path: Path) -> None:
        self.order.append(path.name)
        super().unlink(path)

    def sync_directory(self, path: Path) -> None:
        self.order.append(f"sync {path}")
        super().sync_directory(path)


def test_a_loss_of_power_brings_no_snapshot_back_whose_log_was_purged() -> None:
    """With directories of their own, snapshots could come back and logs be gone."""
    disk = OrderOfRemoval()
    for directory in (SNAPS, LOGS):
        disk.make_directory(directory)
    for zxid in range(5):
        disk.put(SNAPS / f"snapshot.{zxid}", GOLDEN)
    for zxid in (0, 1, 2):
        disk.put(LOGS / f"log.{zxid}", b"")
    purge(disk, SNAPS, LOGS, 3)
    assert disk.order == ["snapshot.0", "snapshot.1", f"sync {SNAPS}", "log.0", "log.1"]


def test_purge_never_keeps_fewer_than_three(disk: MemoryDisk) -> None:
    with pytest.raises(ValueError, match="at least 3"):
        purge(disk, DATA, DATA, 2)


def test_purging_takes_what_was_put_aside_in_its_turn(disk: MemoryDisk) -> None:
    for zxid in (10, 20, 30):
        tree = FakeTree()
        tree.zxid = zxid
        take_snapshot_now(disk, DATA, tree, SnapshotOptions())
    for name in ("aside-log.9", "aside-log.a", "aside-snapshot.5", "aside-other", "aside-log.x"):
        disk.put(DATA / name, b"")
    purge(disk, DATA, DATA, 3)
    assert [name for name in sorted(disk.names(DATA)) if name.startswith("aside")] == [
        "aside-log.a",
        "aside-log.x",
        "aside-other",
    ]
