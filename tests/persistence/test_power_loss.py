"""A hostile disk: power lost at any moment, again and again, in recovery too; then damage to what was synced.

Two promises. After a loss of power the server starts, with everything that was synced: what a crash leaves is
never taken for damage. And damage to what was synced is never passed over: the server starts with everything,
or refuses. What cannot be told from a crash (docs/OPERATING.md) is excused here by name.
"""

from collections.abc import Callable
from contextlib import suppress
from random import Random

import attrs
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from persistence.errors import StorageError
from persistence.log_format import (
    FILE_HEADER,
    MARK_BYTES,
    SECTOR_BYTES,
    encode_entries,
    ending_of,
    gap_behind,
    marked_header,
    zxid_of,
)
from persistence.log_reader import list_logs
from persistence.snapshots import SnapshotOptions, take_snapshot_now
from persistence.txn_log import TxnLog
from tests.captured_logs import capture_logs
from tests.persistence.fake_tree import DATA, FakeTree, payload, recovered
from tests.persistence.memory_disk import Killed, MemoryDisk

EPOCH = 1 << 32
LOOKS_LIKE_ENTRIES = encode_entries([payload(number << 40, b"a client's") for number in range(1, 9)])
GROWTHS = [0, 100, 4096, 8 << 10, 64 << 10]


@attrs.frozen
class Append:
    """A batch of payloads with these bodies."""

    bodies: list[bytes]


@attrs.frozen
class Roll:
    """A new file, with a snapshot, or at the beginning of an epoch."""

    begins_epoch: bool


@attrs.frozen
class CutBack:
    """What a leader asks for: the last transactions go."""

    count: int


Step = Append | Roll | CutBack

bodies = st.one_of(
    st.integers(0, 1200).map(lambda size: b"z" * size),
    st.integers(440, 540).map(lambda size: b"y" * size),  # entries that end near a sector's end
    st.integers(0, 3000).map(bytes),
    st.integers(1, 20).map(lambda times: times * LOOKS_LIKE_ENTRIES),
)
appends = st.lists(bodies, min_size=1, max_size=8).map(Append)
steps = st.lists(
    st.one_of(
        appends, appends, appends, st.builds(Roll, st.booleans()), st.builds(CutBack, st.integers(1, 9))
    ),
    min_size=1,
    max_size=8,
)


class Server:
    """One server from one crash to the next. What is on its disk is a beginning of `history`, at least up to
    `floor`."""

    def __init__(self, growth_bytes: int) -> None:
        self.disk = MemoryDisk()
        self.disk.make_directory(DATA)
        self.growth_bytes = growth_bytes
        self.history: list[bytes] = []
        self.floor = 0
        self.last_batch: tuple[int, int] = (0, 0)  # where in its file
        recovered(self.disk)
        self.disk.sync_directory(DATA)

    def live(self, steps: list[Step]) -> None:
        log = TxnLog(self.disk, DATA, preallocate_bytes=self.growth_bytes)
        zxid = zxid_of(self.history[-1]) if self.history else 0
        for step in steps:
            match step:
                case Append(bodies):
                    batch = [payload(zxid + number, body) for number, body in enumerate(bodies, 1)]
                    zxid += len(batch)
                    self.history += batch
                    log.append_batch(batch)
                    self.floor = len(self.history)
                    self.last_batch = (log._position - len(encode_entries(batch)), log._position)
                case Roll(begins_epoch):
                    log.roll()
                    if begins_epoch:
                        zxid = (zxid // EPOCH + 1) * EPOCH
                    elif self.history:
                        tree = FakeTree()
                        tree.zxid = zxid_of(self.history[-1])
                        take_snapshot_now(self.disk, DATA, tree, SnapshotOptions())
                case CutBack(count):
                    zxid = self._cut_back(log, count, zxid)

    def _cut_back(self, log: TxnLog, count: int, zxid: int) -> int:
        """Not to before a snapshot: those would have to go first, which is not this test's."""
        left = self.history[: max(len(self.history) - count, 0)]
        snapshots = [int(name[9:], 16) for name in self.disk.names(DATA) if name.startswith("snapshot.")]
        if not left or zxid_of(left[-1]) <= max(snapshots):
            return zxid
        self.floor = len(left)
        log.truncate_after(zxid_of(left[-1]))
        self.history = left
        return zxid_of(left[-1])

    def start(self) -> None:
        """What is found is what was written, and nothing that was synced is missing."""
        found, tree = recovered(self.disk)
        zxids = [zxid_of(each) for each in self.history]
        count = zxids.index(found.zxid) + 1 if found.zxid else 0
        assert self.floor <= count
        assert tree.replayed == self.history[count - found.txns_replayed : count]
        self.history = self.history[:count]
        self.floor = count


@attrs.frozen
class Life:
    """What a server does until the power fails, after so much has happened; and how it fails."""

    steps: list[Step]
    budget: int | None
    is_power_lost: bool
    sector_bytes: int
    recovery_budgets: list[int]  # the power fails in recovery too, after so many operations


lives = st.builds(
    Life,
    steps,
    st.one_of(st.none(), st.integers(0, 20_000)),
    st.booleans(),
    st.sampled_from([SECTOR_BYTES, SECTOR_BYTES, 4096]),
    st.lists(st.integers(0, 12), max_size=2),
)


def crash(server: Server, life: Life, chance: Random) -> None:
    if life.is_power_lost:
        server.disk.lose_power(chance, life.sector_bytes)
    else:
        server.disk.revive()


def live_through(server: Server, life: Life, chance: Random) -> None:
    server.disk.budget = life.budget
    with suppress(Killed):
        server.live(life.steps)
    crash(server, life, chance)
    for budget in life.recovery_budgets:
        server.disk.budget = budget
        try:
            recovered(server.disk)
            server.disk.revive()
        except Killed:
            crash(server, life, chance)
    server.start()


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(lives, min_size=1, max_size=3), st.sampled_from(GROWTHS), st.randoms(use_true_random=False))
def test_a_loss_of_power_never_looks_like_damage_and_costs_nothing_that_was_synced(
    lives: list[Life], growth_bytes: int, chance: Random
) -> None:
    with capture_logs():
        server = Server(growth_bytes)
        for life in lives:
            live_through(server, life, chance)


# -- damage


@attrs.frozen
class Hit:
    """Where a file was damaged, and whether whole sectors now look as if they had never been written."""

    start: int
    end: int
    is_unwritten: bool


Damage = Callable[[bytearray, int], Hit]


def flip(content: bytearray, at: int) -> Hit:
    content[at] ^= 1 << at % 8
    return Hit(at, at + 1, False)


def zero_byte(content: bytearray, at: int) -> Hit:
    content[at] = 0
    return Hit(at, at + 1, False)


def garble_sector(content: bytearray, at: int) -> Hit:
    start = at - at % SECTOR_BYTES
    end = min(start + SECTOR_BYTES, len(content))
    content[start:end] = Random(at).randbytes(end - start)
    return Hit(start, end, False)


def zero_sector(content: bytearray, at: int) -> Hit:
    start = at - at % SECTOR_BYTES
    end = min(start + SECTOR_BYTES, len(content))
    content[start:end] = bytes(end - start)
    return Hit(start, end, True)


def zero_block(content: bytearray, at: int) -> Hit:
    start = at - at % 4096
    end = min(start + 4096, len(content))
    content[start:end] = bytes(end - start)
    return Hit(start, end, True)


def cut(content: bytearray, at: int) -> Hit:
    end = len(content)
    del content[at:]
    return Hit(at, end, False)


def is_excused(server: Server, hit: Hit, is_newest: bool, size: int) -> bool:
    """May what was hit be taken for what a crash leaves of the last batch, or of a file of Apache's?"""
    if not is_newest:
        return False
    if hit.is_unwritten and hit.end > server.last_batch[0]:
        return True
    start = server.last_batch[0]
    if gap_behind(start) and start <= hit.start < start + gap_behind(start) - MARK_BYTES:
        return True  # all that the last batch has of the sector in which it begins is these few bytes
    is_cut = hit.end == size and not hit.is_unwritten and hit.start < size
    if is_cut and hit.start <= 8:
        return True
    # A file has one of these lengths while it grows, or any if it is not lengthened ahead.
    growth_bytes = server.growth_bytes
    return is_cut and (growth_bytes == 0 or hit.start % growth_bytes in (0, len(FILE_HEADER)))


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(steps, min_size=1, max_size=2),
    st.sampled_from(GROWTHS),
    st.sampled_from([flip, zero_byte, garble_sector, zero_sector, zero_block, cut]),
    st.randoms(use_true_random=False),
)
def test_damage_to_what_was_synced_is_never_passed_over(
    lives: list[list[Step]], growth_bytes: int, damage: Damage, chance: Random
) -> None:
    with capture_logs():
        server = Server(growth_bytes)
        for steps in lives:
            server.start()
            server.live(steps)
        files = list_logs(server.disk, DATA)
        if not files:
            return
        file = chance.choice(files)
        content = server.disk._inode(file.path).content
        written = len(bytes(content).rstrip(b"\0"))
        size = len(content)
        hit = damage(content, min(chance.randrange(written + 40), size - 1))
        outcome = start_again(server)
    event(outcome)
    assert outcome in ("whole", "refused", "short")
    if outcome == "short":
        assert is_excused(server, hit, file == files[-1], size), (damage.__name__, hit)


def start_again(server: Server) -> str:
    """Whether all is there, or some is missing, or the server refuses to start and says where and why."""
    try:
        found, _ = recovered(server.disk)
    except StorageError as refusal:
        return "refused" if refusal.file and refusal.remedy else "refused without a word"
    return "whole" if not server.history or found.zxid == zxid_of(server.history[-1]) else "short"


def test_the_tests_themselves_notice_a_loss() -> None:
    server = Server(8 << 10)
    server.live([Append([b"one"]), Append([b"two"])])
    content = server.disk._inode(list_logs(server.disk, DATA)[-1].path).content
    content[len(FILE_HEADER) :] = bytes(len(content) - len(FILE_HEADER))
    with suppress(StorageError):
        server.start()
        raise AssertionError("nothing was noticed")


def test_a_file_cut_within_an_entry_where_it_once_ended_is_damage() -> None:
    """It was made longer, and synced, before that entry was written."""
    server = Server(4096)
    server.live([Append([b"z" * 300] * 5), Append([b"z" * 3000]), Append([b"end"])])
    content = server.disk._inode(list_logs(server.disk, DATA)[-1].path).content
    assert len(content) > 4096 + len(FILE_HEADER)
    cut(content, 4096 + len(FILE_HEADER))
    assert start_again(server) == "refused"


# -- what the draws found, or would find only now and then

SYNCED = Append([b"z" * 100])
NEAR_SECTOR_ENDS = range(2 * SECTOR_BYTES - 13, 2 * SECTOR_BYTES + 2)


def newest(server: Server) -> bytearray:
    return server.disk._inode(list_logs(server.disk, DATA)[-1].path).content


def ending_at(end: int, *, behind: list[Append]) -> Append:
    """A batch of one that ends there in the first file, behind these."""
    bodies = [body for append in behind for body in append.bodies]
    begun = len(FILE_HEADER) + sum(len(encode_entries([payload(1, body)])) for body in bodies)
    return Append([b"e" * (end - begun - len(encode_entries([payload(1, b"")])))])


def killed_at_every_point_of(server: Callable[[], Server], steps: list[Step], sector_bytes: int) -> int:
    """Lose power after each operation, some with several results; return how many operations there were."""
    budget = 0
    while True:
        for seed in range(4):
            each = server()
            each.disk.budget = budget
            try:
                each.live(steps)
            except Killed:
                each.disk.lose_power(Random(seed), sector_bytes)
                each.start()
            else:
                return budget
        budget += 1


@pytest.mark.parametrize("budget", range(8000, 17_000, 500))
def test_what_a_client_writes_is_not_taken_for_what_the_server_wrote(budget: int) -> None:
    """Sound entries behind a bad one would be damage; but these are in a payload, and its end is missing."""
    server = Server(8 << 10)
    server.live([SYNCED])
    server.disk.budget = budget
    with suppress(Killed):
        server.live([SYNCED, Append([b"first", 16 * LOOKS_LIKE_ENTRIES])])
    server.disk.revive()
    server.start()


def test_a_changed_bit_among_zeros_is_damage() -> None:
    """The last batch has sectors of zeros; but no more than it was written with."""
    server = Server(8 << 10)
    server.live([SYNCED, Append([bytes(3000)])])
    content = newest(server)
    flip(content, server.last_batch[0] + 9)
    assert start_again(server) == "refused"


@pytest.mark.parametrize("end", [3 * SECTOR_BYTES + 1, 3 * SECTOR_BYTES + 3])
def test_a_zero_byte_is_no_lost_sector_where_the_mark_is_there(end: int) -> None:
    """It may be all that a batch has of a sector: its last byte, in front of the mark."""
    server = Server(8 << 10)
    batch = ending_at(end, behind=[SYNCED])
    server.live([SYNCED, batch])
    content = newest(server)
    content[3 * SECTOR_BYTES : end] = bytes(end - 3 * SECTOR_BYTES)
    assert start_again(server) == "refused"


def test_a_zero_head_is_no_lost_sector() -> None:
    """If the sector had been lost, the mark that was there before would be there."""
    server = Server(8 << 10)
    server.live([SYNCED, Append([b"z" * 2000])])
    start = server.last_batch[0]
    end = start + SECTOR_BYTES - start % SECTOR_BYTES
    newest(server)[start:end] = bytes(end - start)
    assert start_again(server) == "refused"


def test_a_sector_of_zeros_among_zeros_is_a_tear() -> None:
    server = Server(8 << 10)
    server.live([SYNCED, Append([b"z" * 600 + bytes(3000)])])
    server.floor = 1
    zero_sector(newest(server), server.last_batch[0] + SECTOR_BYTES)
    server.start()


@pytest.mark.parametrize("end", NEAR_SECTOR_ENDS)
def test_a_zero_sector_before_the_last_batch_is_damage_wherever_that_ends(end: int) -> None:
    """Also where there is no room for a mark in the sector in which it ends."""
    server = Server(8 << 10)
    begun: list[Append] = [SYNCED] * 10
    server.live([*begun, ending_at(end + 2 * SECTOR_BYTES, behind=begun)])
    assert server.last_batch[0] > 2 * SECTOR_BYTES
    server.start()
    zero_sector(newest(server), SECTOR_BYTES)
    assert start_again(server) == "refused"


@pytest.mark.parametrize("end", NEAR_SECTOR_ENDS)
@pytest.mark.parametrize("sector_bytes", [SECTOR_BYTES, 4096])
def test_a_crash_while_a_log_is_cut_back_is_no_damage_wherever_it_is_cut(end: int, sector_bytes: int) -> None:
    """What is cut off are several batches, so it looks like no unfinished write."""

    def written() -> Server:
        server = Server(8 << 10)
        server.live([SYNCED, ending_at(end, behind=[SYNCED]), *[Append([b"z" * 40])] * 3])
        return server

    assert killed_at_every_point_of(written, [CutBack(3)], sector_bytes) >= 4


@pytest.mark.parametrize("end", NEAR_SECTOR_ENDS)
def test_a_write_that_never_reached_the_disk_is_damage_if_others_followed(end: int) -> None:
    """The sector is as it was before: with the mark of the batch that came before it."""
    begun: list[Append] = [SYNCED]
    server = Server(8 << 10)
    server.live([*begun, ending_at(end, behind=begun)])
    before = bytes(newest(server))
    server = Server(8 << 10)
    steps: list[Step] = [*begun, ending_at(end, behind=begun), Append([b"l" * 1500]), SYNCED]
    server.live(steps)
    content = newest(server)
    start = end - end % SECTOR_BYTES
    stale = slice(start, start + 2 * SECTOR_BYTES)
    content[stale] = before[stale]
    assert start_again(server) == "refused"


@pytest.mark.parametrize("is_apaches", [False, True])
def test_an_unfinished_write_in_an_earlier_log_is_apaches_to_leave(is_apaches: bool) -> None:
    """It never cuts off what a crash left, and its next log may begin an epoch. Ours always does."""
    server = Server(8 << 10)
    server.live([SYNCED, Append([b"l" * 2000])])
    content = newest(server)
    before = bytes(content[: server.last_batch[0]])
    content[:SECTOR_BYTES] = (before + ending_of(encode_entries(server.history[:1]), len(before))).ljust(
        SECTOR_BYTES, b"\0"
    )
    following = payload(EPOCH + 1)
    header = FILE_HEADER if is_apaches else marked_header(8 << 10)
    entries = encode_entries([following])
    ending = b"" if is_apaches else ending_of(entries, len(header) + len(entries))
    server.disk.put(DATA / f"log.{EPOCH + 1:x}", header + entries + ending)
    server.history = [server.history[0], following]
    server.floor = 2
    if is_apaches:
        server.start()
    else:
        assert start_again(server) == "refused"
