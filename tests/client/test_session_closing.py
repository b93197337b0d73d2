"""Sessions that are closed at an awkward moment, and what is asked outside of a chroot."""

import trio
import trio.testing

from client.events import State
from client.session import open_session
from jute.opcodes import CreateMode
from tests.client.pure_talk import accepted
from tests.client.stream_servers import Network, Served


async def test_closed_before_the_handshake_is_answered(nursery: trio.Nursery) -> None:
    """The answer comes when nobody waits for it any more."""
    is_closed = trio.Event()

    async def answer_late(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        await is_closed.wait()
        await stream.send_all(accepted())
        await trio.sleep_forever()

    network = Network(nursery, a=answer_late)
    async with open_session("a", connect=network.connect) as session:
        await trio.testing.wait_all_tasks_blocked()
        await session.close()
        is_closed.set()
        await trio.testing.wait_all_tasks_blocked()
        assert session.state is State.CLOSED
    nursery.cancel_scope.cancel()


async def test_ephemerals_by_the_servers_names(nursery: trio.Nursery) -> None:
    network = Network(nursery, a=Served().serve)
    async with open_session("a", connect=network.connect) as session:
        await session.create("/app")
    async with open_session("a/app", connect=network.connect) as session:
        await session.create("/e", mode=CreateMode.EPHEMERAL)
        assert await session.get_ephemerals() == ["/e"]
        assert await session.get_ephemerals(ignores_chroot=True) == ["/app/e"]
        assert await session.get_ephemerals("/b", ignores_chroot=True) == []
