"""How servers reach each other."""

from socket import IPPROTO_TCP, SO_KEEPALIVE, SOL_SOCKET, TCP_USER_TIMEOUT

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from quorum.learner_links import LearnerLink
from quorum.network import (
    NEXT_ADDRESS_AFTER_S,
    RealNetwork,
    address_of,
    dial_any,
    first_answered,
    give_up_after,
)
from tests.quorum.memory_network import MemoryNetwork

NEAR, FAR = ("near", 2888), ("far", 2888)


@pytest.mark.parametrize("host", ["zoo..example", "z" * 64])
async def test_a_name_that_no_host_can_have_is_a_failure_like_any_other(host: str) -> None:
    """Before it is looked up, Python refuses it with an error of another kind."""
    with pytest.raises(OSError, match="is no host name"):
        await RealNetwork().dial(host, 2888)
    with pytest.raises(OSError, match="is no host name"):
        await RealNetwork().listen(host, 2888)


@pytest.mark.parametrize("is_wanted", [False, True])
async def test_both_ends_are_kept_alive_where_that_is_wanted(is_wanted: bool) -> None:
    """tcpKeepAlive: else a link through a firewall that forgets it is dead, and nobody knows."""
    network = RealNetwork(is_wanted)
    [listener] = await network.listen("127.0.0.1", 0)
    assert isinstance(listener, trio.SocketListener)
    port = listener.socket.getsockname()[1]
    dialled = await network.dial("127.0.0.1", port)
    accepted = await listener.accept()
    async with listener, dialled, accepted:
        for stream in (dialled, accepted):
            assert isinstance(stream, trio.SocketStream)
            assert bool(stream.socket.getsockopt(SOL_SOCKET, SO_KEEPALIVE)) is is_wanted
        assert address_of(dialled) == f"127.0.0.1:{port}"


async def test_where_the_other_end_of_a_connection_is() -> None:
    """By name or number, and also where a listener for IPv6 shows an address of IPv4."""
    network = RealNetwork()
    [listener] = await network.listen("127.0.0.1", 0)
    assert isinstance(listener, trio.SocketListener)
    dialled = await network.dial("127.0.0.1", listener.socket.getsockname()[1])
    accepted = await listener.accept()
    async with listener, dialled, accepted:
        for hosts in (["localhost"], ["192.0.2.1", "127.0.0.1"], ["::ffff:127.0.0.1"]):
            assert await network.is_at(accepted, hosts)
        for hosts in ([], ["192.0.2.1"], ["zoo..example"]):
            assert not await network.is_at(accepted, hosts)
    assert not await network.is_at(accepted, ["127.0.0.1"])
    assert not await network.is_at(memory_stream_pair()[0], ["127.0.0.1"])


async def test_an_attempt_that_gets_no_answer_is_followed_by_others_beside_it(
    autojump_clock: MockClock,
) -> None:
    """The network works again after 20.25 s: the next attempt is answered a quarter of a second later."""
    begun: list[float] = []

    async def attempt() -> trio.abc.Stream:
        begun.append(trio.current_time())
        if begun[-1] < 20.25:
            await trio.sleep_forever()
        return memory_stream_pair()[0]

    started_at = trio.current_time()
    assert await first_answered(attempt)
    assert trio.current_time() - started_at == 20.5
    assert len(begun) == 42


async def test_a_dial_is_tried_again_beside_one_that_gets_no_answer(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[float] = []
    ends = trio.socket.socketpair()

    async def open_tcp_stream(host: str, port: int) -> trio.SocketStream:
        begun.append(trio.current_time())
        if len(begun) < 3:
            await trio.sleep_forever()
        return trio.SocketStream(ends[0])

    monkeypatch.setattr(trio, "open_tcp_stream", open_tcp_stream)
    await trio.aclose_forcefully(await RealNetwork().dial("127.0.0.1", 2888))
    ends[1].close()
    assert begun == [begun[0], begun[0] + 0.5, begun[0] + 1]


async def test_what_is_lost_is_repeated_soon_if_the_system_can_do_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever makes a link of a connection asks for it; a system that cannot is no failure."""
    asked: list[tuple[int, int, object]] = []

    def setsockopt(self: trio.SocketStream, level: int, option: int, value: object) -> None:
        asked.append((level, option, value))
        raise OSError(92, "Protocol not available")

    ends = trio.socket.socketpair()
    stream = trio.SocketStream(ends[0])
    monkeypatch.setattr(trio.SocketStream, "setsockopt", setsockopt)
    LearnerLink(stream, data_bytes_max=1)
    assert asked == [(IPPROTO_TCP, 44, 1000)]
    LearnerLink(memory_stream_pair()[0], data_bytes_max=1)
    for end in ends:
        end.close()


async def test_an_attempt_may_be_answered_late(autojump_clock: MockClock) -> None:
    """Those beside it are given up, and one that is answered at the same moment is closed."""
    streams = [memory_stream_pair() for _ in range(8)]
    answers = iter(streams)

    async def attempt() -> trio.abc.Stream:
        await trio.sleep_until(3.5)
        return next(answers)[0]

    assert await first_answered(attempt) is streams[0][0]
    for _, other_end in streams[1:]:
        with trio.move_on_after(1):
            assert await other_end.receive_some(1) == b""


async def test_an_attempt_that_fails_ends_all(autojump_clock: MockClock) -> None:
    async def attempt() -> trio.abc.Stream:
        await trio.sleep(0.5)
        raise ConnectionRefusedError(111, "refused")

    with pytest.raises(ConnectionRefusedError):
        await first_answered(attempt)


async def test_a_connection_whose_other_end_confirms_nothing_is_given_up() -> None:
    """By the system, which alone knows."""
    network = RealNetwork()
    [listener] = await network.listen("127.0.0.1", 0)
    assert isinstance(listener, trio.SocketListener)
    dialled = await network.dial("127.0.0.1", listener.socket.getsockname()[1])
    async with listener, dialled:
        give_up_after(dialled, 3)
        assert isinstance(dialled, trio.SocketStream)
        assert dialled.getsockopt(IPPROTO_TCP, TCP_USER_TIMEOUT) == 3000
    give_up_after(dialled, 3)
    give_up_after(memory_stream_pair()[0], 3)


@pytest.fixture
async def network() -> MemoryNetwork:
    """Only the address `far` answers."""
    network = MemoryNetwork()
    await network.listen(*FAR)
    return network


async def test_an_address_that_refuses_is_followed_by_the_next_at_once(
    network: MemoryNetwork, autojump_clock: MockClock
) -> None:
    await dial_any(network.dial, [NEAR, FAR])
    assert network.dials == [NEAR, FAR]
    assert trio.current_time() == 0


async def test_an_address_that_does_not_answer_is_followed_by_the_next_after_a_while(
    network: MemoryNetwork, autojump_clock: MockClock
) -> None:
    network.silent.add("near")
    await dial_any(network.dial, [NEAR, FAR])
    assert trio.current_time() == NEXT_ADDRESS_AFTER_S


async def test_an_address_that_answers_is_the_only_one_dialled(network: MemoryNetwork) -> None:
    await dial_any(network.dial, [FAR, NEAR])
    assert network.dials == [FAR]


async def test_what_went_wrong_is_told_of_each_address() -> None:
    network = MemoryNetwork()
    with pytest.raises(OSError, match=r"near:2888: .*refused; \[::1\]:7: .*refused"):
        await dial_any(network.dial, [NEAR, ("::1", 7)])
    with pytest.raises(OSError, match="no address is known"):
        await dial_any(network.dial, [])


async def test_of_two_that_answer_at_once_one_is_let_go(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    far_ends = []
    both_dialled = trio.Event()

    async def answer_together(host: str, port: int) -> trio.abc.Stream:
        await both_dialled.wait()
        here, there = memory_stream_pair()
        far_ends.append(there)
        return here

    async def let_both_answer() -> None:
        await trio.sleep(1)
        both_dialled.set()

    nursery.start_soon(let_both_answer)
    await dial_any(answer_together, [NEAR, FAR])
    assert sorted([await _is_closed(end) for end in far_ends]) == [False, True]


async def test_an_answer_that_nobody_waits_for_any_more_is_let_go(autojump_clock: MockClock) -> None:
    far_ends = []

    async def answer_too_late(host: str, port: int) -> trio.abc.Stream:
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
        here, there = memory_stream_pair()
        far_ends.append(there)
        return here

    with trio.move_on_after(0.1):
        await dial_any(answer_too_late, [FAR])
    assert [await _is_closed(end) for end in far_ends] == [True]


async def _is_closed(stream: trio.abc.Stream) -> bool:
    with trio.move_on_after(0.001):
        return await stream.receive_some(1) == b""
    return False
