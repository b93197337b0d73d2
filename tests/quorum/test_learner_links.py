"""The connection between a leader and a learner: nothing is lost, doubled or out of order."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from quorum.errors import PeerError
from quorum.learner_links import LearnerLink, patience
from quorum.packets import ACK, PING, PROPOSAL, Packet, packet

LIMIT = 1 << 20


def link_over(stream: trio.abc.Stream, queued_bytes_max: int | None = None) -> LearnerLink:
    return LearnerLink(stream, data_bytes_max=LIMIT, queued_bytes_max=queued_bytes_max)


def numbered(count: int, size: int = 20) -> list[Packet]:
    return [(PROPOSAL, n, bytes(size), None) for n in range(count)]


def written(packets: list[Packet]) -> bytes:
    return b"".join(packet(type_, zxid, data) for type_, zxid, data, _ in packets)


async def test_what_is_lost_on_a_link_is_to_be_repeated_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a learner is taken for dead after the network works again."""
    repeated_soon: list[trio.abc.Stream] = []
    monkeypatch.setattr("quorum.learner_links.repeat_soon", repeated_soon.append)
    here, _ = memory_stream_pair()
    link_over(here)
    assert repeated_soon == [here]


# --- Receiving.


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from(["one", "batch", "raw"]), max_size=12), st.lists(st.integers(1, 90), min_size=1)
)
def test_however_it_is_cut_and_taken_all_arrives_once_in_order(takes: list[str], sizes: list[int]) -> None:
    """One packet, all there are, or raw bytes of which those behind a snapshot are put back."""
    sent = numbered(12)
    data = written(sent)

    async def play() -> None:
        here, there = memory_stream_pair()
        link = link_over(here)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_send_in_pieces, there, data, sizes)
            received: list[Packet] = []
            for take in takes:
                if len(received) == len(sent):
                    break
                if take == "one":
                    received.append(await link.receive())
                elif take == "batch":
                    received += await link.receive_batch()
                else:
                    link.put_back(await link.receive_raw())
            while len(received) < len(sent):
                received.append(await link.receive())
            assert received == sent
            with pytest.raises(PeerError, match="closed"):
                await link.receive()

    trio.run(play)


async def _send_in_pieces(stream: trio.abc.Stream, data: bytes, sizes: list[int]) -> None:
    at = 0
    while at < len(data):
        size = sizes[at % len(sizes)]
        await stream.send_all(data[at : at + size])
        await trio.lowlevel.checkpoint()
        at += size
    await stream.aclose()


async def test_what_follows_a_packet_is_left_alone() -> None:
    """After SNAP come bytes that are no packets."""
    here, there = memory_stream_pair()
    link = link_over(here)
    stream = b"\xff" * 40
    await there.send_all(packet(ACK, 1) + stream)
    assert await link.receive() == (ACK, 1, None, None)
    assert await link.receive_raw() == stream


@pytest.mark.parametrize("data", [packet(ACK, 1)[:-1], b"", packet(ACK, 1)[:-8] + b"\xff\xff\xff\xfe" * 2])
async def test_a_stream_that_ends_or_makes_no_sense_is_the_other_sides_fault(data: bytes) -> None:
    here, there = memory_stream_pair()
    link = link_over(here)
    await there.send_all(data)
    await there.aclose()
    with pytest.raises(PeerError):
        await link.receive()
    with pytest.raises(PeerError):
        await link.receive_batch()


async def test_a_wait_that_was_given_up_loses_nothing(autojump_clock: MockClock) -> None:
    """Half a packet was there, and some before it had been taken."""
    here, there = memory_stream_pair()
    link = link_over(here)
    data = written(numbered(3))
    await there.send_all(data[:100])
    received = [await link.receive(), await link.receive()]
    with trio.move_on_after(1):
        await link.receive()
    await there.send_all(data[100:])
    assert [*received, await link.receive()] == numbered(3)


# --- Sending.


@asynccontextmanager
async def socket_pair() -> AsyncIterator[tuple[trio.SocketStream, trio.SocketStream]]:
    ends = [trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in socket.socketpair()]
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    async with ends[0], ends[1]:
        yield ends[0], ends[1]


async def test_what_a_socket_does_not_take_at_once_follows_in_order() -> None:
    """Sent on the spot as far as it goes, then by the task, while more is queued."""
    sent = numbered(400, size=300)
    async with socket_pair() as (here, there):
        link, other = link_over(here), link_over(there)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.send_queued)
            for each in sent[:200]:
                link.send(written([each]))
                link.flush()
            for each in sent[200:]:
                link.send(written([each]))
            link.flush()
            assert [await other.receive() for _ in sent] == sent
            nursery.cancel_scope.cancel()
        await link.close()
        await other.close()


async def test_what_is_said_last_is_read_whatever_is_still_coming() -> None:
    """A link that is closed with unread input is reset, and what was said last may be lost."""
    async with socket_pair() as (here, there):
        link, other = link_over(here), link_over(there)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.send_queued)
            link.send(packet(PING, 1))
            await there.send_all(bytes(3000))
            async with trio.open_nursery() as leaving:
                leaving.start_soon(link.say_last)
                assert (await other.receive())[1] == 1
                assert await there.receive_some() == b""
                await there.send_all(bytes(3000))
                await there.send_eof()
            nursery.cancel_scope.cancel()
        await link.close()
        await other.close()


async def test_nobody_waits_long_for_the_other_side_to_close(autojump_clock: MockClock) -> None:
    here, there = memory_stream_pair()
    link = link_over(here)
    link.send(packet(PING, 1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.send_queued)
        await link.say_last()
        nursery.cancel_scope.cancel()
    assert trio.current_time() == 1
    assert await there.receive_some() == packet(PING, 1)


async def test_what_is_queued_waits_for_a_flush() -> None:
    async with socket_pair() as (here, there):
        link, other = link_over(here), link_over(there)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.send_queued)
            link.send(packet(PING, 1))
            await wait_all_tasks_blocked()
            with trio.move_on_after(0) as nothing_comes:
                await other.receive()
            assert nothing_comes.cancelled_caught
            link.send(packet(PING, 2))
            link.flush()
            assert [(await other.receive())[1] for _ in range(2)] == [1, 2]
            nursery.cancel_scope.cancel()
        await link.close()
        await other.close()


async def test_the_task_finds_out_that_the_other_side_is_gone() -> None:
    async with socket_pair() as (here, there):
        link = link_over(here)
        await there.aclose()
        link.send(packet(PING, 1))
        link.flush()
        with pytest.raises(PeerError):
            await link.send_queued()
        await link.close()


async def test_too_much_that_waits_ends_the_link() -> None:
    """The first reason is the one that counts."""
    here, _ = memory_stream_pair()
    link = link_over(here, queued_bytes_max=100)

    async def conversation() -> None:
        for _ in range(20):
            link.send(packet(PING, 1))
        link.abort("another reason")
        await trio.sleep_forever()

    assert await link.carry_on(conversation) == "120 bytes wait to be taken"


async def test_a_conversation_ends_with_what_the_other_side_did_wrong() -> None:
    """One reason is enough; the link is closed."""
    here, there = memory_stream_pair()

    async def conversation() -> None:
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [PeerError("why"), PeerError("also")])])

    assert await link_over(here).carry_on(conversation) == "why"
    assert await there.receive_some() == b""


async def test_a_conversation_may_come_to_its_end() -> None:
    here, _ = memory_stream_pair()
    assert await link_over(here).carry_on(trio.lowlevel.checkpoint) == ""


# --- Time.


async def test_patience_ends(autojump_clock: MockClock) -> None:
    with pytest.raises(PeerError, match="longer than 5 s"), patience(5):
        await trio.sleep_forever()
    assert trio.current_time() == 5
