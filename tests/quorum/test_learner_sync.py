"""Sending a learner what it lacks while our own history goes on."""

import pytest
import trio
import trio.testing

from quorum.errors import PeerError
from quorum.learner_links import LearnerLink
from quorum.learner_sync import LearnerSync
from quorum.packets import DIFF, packet
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
