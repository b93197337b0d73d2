"""Connections end as those of a real system do."""

from collections.abc import Awaitable, Callable
from random import Random

import pytest
import trio

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
