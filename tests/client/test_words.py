"""Four-letter words, asked of servers that answer, break off, stay silent or never stop."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from client import words
from client.words import four_letter_word
from tests.client.stream_servers import Network, be_silent


def replying(*parts: bytes) -> Callable[[trio.abc.Stream], Awaitable[None]]:
    async def serve(stream: trio.abc.Stream) -> None:
        assert await stream.receive_some() == b"srvr"
        for part in parts:
            await stream.send_all(part)

    return serve


async def test_the_answer_is_all_there_is_until_the_end(nursery: trio.Nursery) -> None:
    network = Network(nursery, a=replying(b"Zoo", b"keeper"), b=replying())
    assert await four_letter_word("a", 1, "srvr", 1, network.connect) == b"Zookeeper"
    assert await four_letter_word("b", 1, "srvr", 1, network.connect) == b""


async def test_a_silent_server_is_not_waited_for(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    with pytest.raises(TimeoutError, match="a:1: no answer to srvr within 2 s"):
        await four_letter_word("a", 1, "srvr", 2, Network(nursery, a=be_silent).connect)


async def test_nobody_there(nursery: trio.Nursery) -> None:
    with pytest.raises(ConnectionRefusedError):
        await four_letter_word("a", 1, "srvr", 2, Network(nursery).connect)


async def test_an_answer_that_does_not_end_is_cut_off(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "ANSWER_BYTES_MAX", 10)
    network = Network(nursery, a=replying(b"x" * 11))
    with pytest.raises(OSError, match="a:1: the answer to srvr does not end"):
        await four_letter_word("a", 1, "srvr", 2, network.connect)
