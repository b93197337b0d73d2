"""Connections end as those of a real system do, and clients notice."""

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

import pytest
import trio
import trio.testing

from jute.opcodes import OpCode
from quorum.errors import PeerError
from quorum.learner_links import LearnerLink
from tests.sim.checkers import Checker
from tests.sim.clients import Client, Habits
from tests.sim.network import WINDOW_BYTES, VirtualNetwork, VirtualStream
from tests.sim.virtual_time import VirtualClock, run_repeatably

Test = Callable[[VirtualNetwork, VirtualStream, VirtualStream], Awaitable[None]]


def run(test: Test) -> None:
    """With a connection between hosts a and b: a's end and b's."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock, Random(1), delay_s=0.001, jitter_s=0.0)
        dialling, listening = network.boot("a"), network.boot("b")
        (listener,) = await listening.listen(None, 1)
        stream = await dialling.dial("b", 1)
        with trio.fail_after(100):
            await test(network, stream, await listener.accept())

    run_repeatably(main, 1)


@pytest.mark.parametrize("is_cut", [False, True])
def test_who_waits_for_a_reader_is_told_when_there_will_be_none(is_cut: bool) -> None:
    """Also if the news is lost on its way: whoever has not been heard tries again."""

    async def test(network: VirtualNetwork, stream: VirtualStream, other: VirtualStream) -> None:
        await stream.send_all(bytes(WINDOW_BYTES))
        await trio.sleep(1)
        if is_cut:
            network.cut("b", "a")
            network.clock.call_later(5, lambda: network.restore("b", "a"))
        network.clock.call_later(1, other.close)
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(b"more")

    run(test)


def _boot(network: VirtualNetwork, name: str) -> None:
    network.boot(name)


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("loses_power", [False, True])
def test_who_has_filled_the_window_is_told_that_the_other_end_is_gone(
    is_cut: bool, loses_power: bool
) -> None:
    """It sends nothing more, and yet its system finds out: by repeating what was lost, or asking for room."""

    async def test(network: VirtualNetwork, stream: VirtualStream, other: VirtualStream) -> None:
        if is_cut:
            network.cut("a", "b")
            network.clock.call_later(5, lambda: network.restore("a", "b"))
        await stream.send_all(bytes(WINDOW_BYTES))
        await trio.sleep(1)
        if loses_power:
            network.kill("b", with_machine=True)
            network.clock.call_later(1, partial(_boot, network, "b"))
        else:
            other.connection.reset(other)
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(b"more")

    run(test)


def test_what_was_read_is_no_reason_to_break_a_connection() -> None:
    """It ends in peace, behind what was said last."""

    async def test(network: VirtualNetwork, stream: VirtualStream, other: VirtualStream) -> None:
        await stream.send_all(b"question")
        assert await other.receive_some() == b"question"
        await other.send_all(b"answer")
        await other.aclose()
        assert await stream.receive_some() == b"answer"
        assert await stream.receive_some() == b""

    run(test)


def test_a_link_between_servers_sends_on_the_spot_what_fits_and_the_rest_when_there_is_room() -> None:
    """As over a socket: what is said to a learner is on its way before anything else is done."""

    async def test(network: VirtualNetwork, stream: VirtualStream, other: VirtualStream) -> None:
        link = LearnerLink(stream, data_bytes_max=1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.send_queued)
            await trio.testing.wait_all_tasks_blocked()
            said = b"first" + bytes(WINDOW_BYTES) + b"last"
            link.send(said)
            link.flush()
            assert stream.outgoing.unread_bytes == WINDOW_BYTES
            heard = b""
            while len(heard) < len(said):
                heard += await other.receive_some()
            assert heard == said
            nursery.cancel_scope.cancel()

    run(test)


def test_a_link_between_servers_that_was_reset_ends_when_something_is_sent() -> None:
    async def test(network: VirtualNetwork, stream: VirtualStream, other: VirtualStream) -> None:
        link = LearnerLink(stream, data_bytes_max=1)

        def speak() -> None:
            other.connection.reset(stream)
            link.send(b"never")
            link.flush()

        network.clock.call_later(1, speak)
        with pytest.raises(PeerError):
            await link.send_queued()

    run(test)


def test_a_client_gives_up_a_server_that_takes_nothing_any_more() -> None:
    """Its machine may be gone for good, and nobody says so."""

    async def test(network: VirtualNetwork, stream: VirtualStream, other: VirtualStream) -> None:
        checker = Checker(trio.current_time, lambda: None, has_local_sessions=False, clock_drift=0.0)
        habits = Habits(timeout_ms=6000)
        client = Client(
            "c1", stream.host, ["b"], checker, Random(1), habits, Counter(), lambda who, what: None
        )
        await stream.send_all(bytes(WINDOW_BYTES))
        network.kill("b", with_machine=True)
        before = trio.current_time()
        with pytest.raises(trio.BrokenResourceError):
            await client._send(stream, [(1, OpCode.PING, b"")])
        assert trio.current_time() - before == 4

    run(test)
