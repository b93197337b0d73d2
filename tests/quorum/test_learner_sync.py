"""Sending a learner what it lacks while our own history goes on."""

import errno
from collections.abc import Callable
from functools import partial

import pytest
import trio
import trio.testing

from quorum.errors import PeerError
from quorum.learner_links import LearnerLink
from quorum.learner_sync import LearnerSync, _next_burst
from quorum.packets import COMMIT, DIFF, packet, read_packets
from quorum.peer_stats import PeerStats
from quorum.synchronization import SyncMode
from tests.persistence.fake_tree import inline
from tests.quorum.fake_replica import FakeReplica, txn, txns
from tests.quorum.scripted_peers import settings

E1 = 1 << 32


async def test_an_epoch_may_begin_while_a_learner_is_told_that_it_lacks_nothing() -> None:
    """Its first zxid is no transaction, so neither memory nor disk has one that leads to it; and the first
    that is one may be in memory before it is on disk."""
    replica, forwarded_after = FakeReplica(), list[int]()
    sent, received = trio.testing.MemorySendStream(), trio.testing.MemoryReceiveStream()

    async def begin_epoch() -> None:
        replica.last_zxid = E1
        replica.apply(txn(E1 + 1))

    sent.send_all_hook = begin_epoch
    sync = LearnerSync(settings(), replica, inline, PeerStats(), lambda: False)
    link = LearnerLink(trio.StapledStream(sent, received), data_bytes_max=1 << 20)
    assert await sync.bring_up_to_date(1, link, 0, forwarded_after.append) is SyncMode.DIFF
    assert forwarded_after == [0]
    assert sent.get_data_nowait() == packet(DIFF, 0)


async def test_strangers_share_what_one_member_would_get(autojump_clock: trio.testing.MockClock) -> None:
    """However many pull the tree: so much of the leader's time is theirs, and no member waits longer for it.
    A second one in the name of the same member is a stranger's, too."""
    replica = FakeReplica([txn(E1 + n, body=bytes(70_000)) for n in range(1, 11)])
    sync = LearnerSync(settings(force_snapshot_sync=True), replica, inline, PeerStats(), lambda: True)
    took_s: dict[str, float] = {}

    async def pull(name: str, server_id: int, *, is_member: bool) -> None:
        sent, received = trio.testing.MemorySendStream(), trio.testing.MemoryReceiveStream()
        link = LearnerLink(trio.StapledStream(sent, received), data_bytes_max=1 << 20)
        started_at = trio.current_time()
        await sync.bring_up_to_date(server_id, link, 0, lambda _: None, is_member=is_member)
        took_s[name] = trio.current_time() - started_at

    await pull("alone", 1, is_member=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(pull, "member", 1, is_member=True))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(partial(pull, "impostor", 1, is_member=True))
        for n in range(19):
            nursery.start_soon(partial(pull, f"stranger {n}", 100 + n, is_member=False))
    assert took_s.pop("member") == pytest.approx(took_s.pop("alone"), rel=0.01)
    assert min(took_s.values()) > 15 * 10 * 0.003


@pytest.mark.parametrize("fails_at", ["the first look", "a later one"])
async def test_a_log_that_cannot_be_read_is_no_reason_to_stop_leading(fails_at: str) -> None:
    """The learner gets the tree: at once, or when it comes again."""
    replica = FakeReplica([txn(E1 + n) for n in range(1, 20)], commit_log_count=2)
    looks = 0

    async def offload(fn: Callable[..., object], *args: object) -> object:
        nonlocal looks
        looks += 1
        if looks == (1 if fails_at == "the first look" else 4):
            raise OSError(errno.EIO, "Input/output error")
        return await inline(fn, *args)

    sync = LearnerSync(settings(), replica, offload, PeerStats(), lambda: False)  # type: ignore[arg-type]
    sent, received = trio.testing.MemorySendStream(), trio.testing.MemoryReceiveStream()
    link = LearnerLink(trio.StapledStream(sent, received), data_bytes_max=1 << 20)
    if fails_at == "a later one":
        with pytest.raises(PeerError, match="it will get a snapshot"):
            await sync.bring_up_to_date(1, link, E1 + 1, lambda _: None)
    assert await sync.bring_up_to_date(1, link, E1 + 1, lambda _: None) is SyncMode.SNAP


@pytest.mark.parametrize(
    ("busy_from", "first_bursts", "took_s"),
    [
        (1000, [7, 16, 32, 64, 128, 128], 0.0),
        (0, [7, 8, 8, 8, 8, 8], 63 * 0.003 + 62 * 0.001),
        (2, [7, 16, 32, 16, 8, 8], 56 * 0.003 + 55 * 0.001),
    ],
    ids=["nobody is in a hurry", "the server is busy", "it becomes busy"],
)
async def test_transactions_come_in_bursts_as_large_as_fit_between_requests_of_clients(
    autojump_clock: trio.testing.MockClock, busy_from: int, first_bursts: list[int], took_s: float
) -> None:
    """Of 1 KB each: 8 KB at first, then more, or not; with a pause of 1 ms behind one that took long."""
    replica = FakeReplica([txn(E1 + n, body=bytes(996)) for n in range(1, 503)], commit_log_count=1)
    sent, received = trio.testing.MemorySendStream(), trio.testing.MemoryReceiveStream()
    sizes: list[int] = []

    async def offload(fn: Callable[..., object], *args: object) -> object:
        if fn is _next_burst:
            await trio.sleep(0.003 if len(sizes) > busy_from else 0.0)
        return await inline(fn, *args)

    async def measure() -> None:
        packets, _ = read_packets(bytes(sent.get_data_nowait()), 1 << 20)
        sizes.append(sum(type_ == COMMIT for type_, _, _, _ in packets))

    sent.send_all_hook = measure
    sync = LearnerSync(settings(), replica, offload, PeerStats(), lambda: True)  # type: ignore[arg-type]
    link = LearnerLink(trio.StapledStream(sent, received), data_bytes_max=1 << 20)
    started_at = trio.current_time()
    assert await sync.bring_up_to_date(1, link, E1 + 1, lambda _: None) is SyncMode.DIFF
    assert sizes[1:7] == first_bursts
    assert sum(sizes) == 501
    assert trio.current_time() - started_at == pytest.approx(took_s, abs=0.002)


async def test_a_learner_is_not_held_back_while_as_much_is_written_as_it_gets(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """However busy the server is: it would never catch up."""
    replica = FakeReplica([txn(E1 + n, body=bytes(996)) for n in range(1, 503)], commit_log_count=1)
    bursts = written = 0

    async def offload(fn: Callable[..., object], *args: object) -> object:
        nonlocal bursts, written
        result = await inline(fn, *args)
        if fn is _next_burst and result:
            assert isinstance(result, list)
            bursts += 1
            await trio.sleep(0.003)
            for _ in result if written < 502 else ():
                written += 1
                replica.on_disk.append(txn(replica.last_zxid + 1, body=bytes(996)))
                replica.apply(replica.on_disk[-1])
        return result

    sync = LearnerSync(settings(), replica, offload, PeerStats(), lambda: True)  # type: ignore[arg-type]
    sent, received = trio.testing.MemorySendStream(), trio.testing.MemoryReceiveStream()
    link = LearnerLink(trio.StapledStream(sent, received), data_bytes_max=1 << 20)
    started_at = trio.current_time()
    assert await sync.bring_up_to_date(1, link, E1 + 1, lambda _: None) is SyncMode.DIFF
    paused_s = trio.current_time() - started_at - bursts * 0.003
    assert paused_s == pytest.approx(502 / 8 * 0.001, abs=0.002)  # once nothing more was written


async def test_a_log_that_ends_before_what_is_in_memory_is_not_tried_again() -> None:
    """The learner comes anew, and gets a snapshot then; otherwise it would come for ever."""
    replica = FakeReplica(txns(E1 + 1, E1 + 3))
    for zxid in range(E1 + 4, E1 + 9):
        replica.apply(txn(zxid))
    replica.committed_log.begin(E1 + 8)
    sync = LearnerSync(settings(), replica, inline, PeerStats(), lambda: False)

    async def bring_up_to_date() -> SyncMode:
        sent, received = trio.testing.MemorySendStream(), trio.testing.MemoryReceiveStream()
        link = LearnerLink(trio.StapledStream(sent, received), data_bytes_max=1 << 20)
        return await sync.bring_up_to_date(1, link, E1 + 1, lambda zxid: None)

    with pytest.raises(PeerError, match="it will get a snapshot"):
        await bring_up_to_date()
    assert await bring_up_to_date() is SyncMode.SNAP
