"""Sessions over memory streams in virtual time, and with a server in a process of its own."""

from collections.abc import Iterator

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from client.errors import AuthFailed, ConnectionLost, NoNode, ServerError, SessionExpired
from client.events import State, WatchedEvent
from client.multi import Create, GetData, SetData
from client.session import Session, open_session
from jute.opcodes import AddWatchMode, CreateMode, EventType, KeeperState, WatcherType
from support.servers import Server, start_server
from tests.client.pure_talk import accepted, answer
from tests.client.stream_servers import Network, Served, be_silent, hang_up, saying

STATES = {KeeperState.SYNC_CONNECTED: "on", KeeperState.DISCONNECTED: "off"}


async def test_requests_wait_for_a_server_and_do_not_wait_for_each_other(nursery: trio.Nursery) -> None:
    network = Network(nursery, a=Served().serve)
    async with open_session("a", connect=network.connect) as session:
        assert state_of(session) is State.CONNECTING
        async with trio.open_nursery() as tasks:
            for path in ("/a", "/b", "/c"):
                tasks.start_soon(session.create, path)
        assert sorted((await session.get_children("/"))[0]) == ["a", "b", "c", "zookeeper"]
    assert state_of(session) is State.CLOSED


def state_of(session: Session) -> State:
    """The state now: it may be another one than a line before."""
    return session.state


async def test_a_closed_session_leaves_nothing_behind(nursery: trio.Nursery) -> None:
    served = Served()
    network = Network(nursery, a=served.serve)
    events: list[WatchedEvent] = []
    async with open_session("a", connect=network.connect, on_event=events.append) as session:
        await session.create("/e", mode=CreateMode.EPHEMERAL)
        assert session.address == ("a", 2181)
    async with open_session("a", connect=network.connect) as other:
        assert await other.exists("/e") is None
    assert events == [WatchedEvent(KeeperState.SYNC_CONNECTED), WatchedEvent(KeeperState.CLOSED)]
    with pytest.raises(SessionExpired):
        await session.get_data("/")


async def test_a_session_may_be_kept(nursery: trio.Nursery) -> None:
    network = Network(nursery, a=Served().serve)
    async with open_session("a", connect=network.connect, keep_session=True) as session:
        await session.create("/e", mode=CreateMode.EPHEMERAL)
    async with open_session("a", connect=network.connect) as other:
        assert await other.exists("/e") is not None


async def test_what_the_block_raises_comes_out_as_it_is(nursery: trio.Nursery) -> None:
    """Neither in a group, nor without closing the session first."""
    network = Network(nursery, a=Served().serve)

    async def fail(how: BaseException | None) -> None:
        async with open_session("a", connect=network.connect) as session:
            assert await session.exists("/e") is None
            await session.create("/e", mode=CreateMode.EPHEMERAL)
            if how is not None:
                raise how
            await session.get_data("/nowhere")

    with pytest.raises(NoNode):
        await fail(None)
    with pytest.raises(KeyboardInterrupt):
        await fail(KeyboardInterrupt())


async def test_the_session_survives_its_connection(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    served = Served()
    network = Network(nursery, a=served.serve, b=served.serve)
    events: list[WatchedEvent] = []
    async with open_session(
        "a,b", connect=network.connect, on_event=events.append, randomize_hosts=False
    ) as session:
        await session.create("/e", mode=CreateMode.EPHEMERAL)
        await session.add_watch("/e", AddWatchMode.PERSISTENT)
        first_id = session.session_id
        served.cut_connections()
        await trio.testing.wait_all_tasks_blocked()
        assert state_of(session) is State.CONNECTING
        assert session.address is None
        await session.set_data("/e", b"again")
        assert (session.session_id, network.tried[-1][0]) == (first_id, "b")
    assert [STATES.get(event.state) for event in events if event.type is EventType.NONE] == [
        "on",
        "off",
        "on",
        None,
    ]
    assert [event.type for event in events if event.path == "/e"] == [
        EventType.NODE_DATA_CHANGED,
        EventType.NODE_DELETED,
    ]


async def test_a_request_under_way_is_lost_with_the_connection(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    network = Network(nursery, a=saying(accepted(), b""))
    async with open_session("a", connect=network.connect) as session:
        with pytest.raises(ConnectionLost):
            await session.create("/a")


async def test_all_servers_are_tried_before_requests_fail(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Two that refuse or hang up do not matter if the third serves; a round in vain does, and is repeated."""
    network = Network(nursery, b=hang_up, c=Served().serve)
    async with open_session("a,b,c", connect=network.connect, randomize_hosts=False) as session:
        await session.create("/a")
        assert [host for host, _ in network.tried] == ["a", "b", "c"]

    network = Network(nursery, b=hang_up)
    async with open_session("a,b", connect=network.connect, randomize_hosts=False) as session:
        for _ in range(2):
            with pytest.raises(ConnectionLost, match="KeeperErrorCode = ConnectionLoss for /a"):
                await session.create("/a")
        start = network.tried[0][1]
        assert [(host, round(at - start, 3)) for host, at in network.tried] == [
            ("a", 0),
            ("b", 0),
            ("a", 1),
            ("b", 1),
        ]
        network.hosts["a"] = Served().serve
        await session.create("/a")


async def test_servers_that_never_answer_are_given_up(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    network = Network(nursery, a=be_silent)
    start = trio.current_time()
    async with open_session("a", timeout_ms=6000, connect=network.connect) as session:
        with pytest.raises(ConnectionLost):
            await session.get_data("/")
        assert trio.current_time() - start == 6


async def test_a_server_that_falls_silent_is_left(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    """After two thirds of the session's time; until then it is pinged."""
    network = Network(nursery, a=saying(accepted(timeout_ms=9000), b""), b=Served().serve)

    async def accept_and_fall_silent(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        await stream.send_all(accepted(timeout_ms=9000))
        await trio.sleep_forever()

    network.hosts["a"] = accept_and_fall_silent
    start = trio.current_time()
    async with open_session("a,b", connect=network.connect, randomize_hosts=False) as session:
        with pytest.raises(ConnectionLost):
            await session.get_data("/")
        assert trio.current_time() - start == 6
        assert "has not been heard for 6.0 s" in str(session.last_problem)


async def test_pings_keep_the_session(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    served = Served()
    network = Network(nursery, a=served.serve)
    events: list[WatchedEvent] = []
    async with open_session("a", timeout_ms=9000, connect=network.connect, on_event=events.append) as session:
        await session.wait_connected(1)
        await trio.sleep(100)
        assert len(network.tried) == 1
        assert state_of(session) is State.CONNECTED


@pytest.mark.parametrize(
    ("nonsense", "words"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "a:2181 does not speak ZooKeeper's protocol: frame length"),
        (accepted() + answer(5), "a:2181 does not speak ZooKeeper's protocol: an answer with xid 5"),
    ],
)
async def test_a_server_of_another_kind_is_left_with_a_reason(
    nursery: trio.Nursery, autojump_clock: MockClock, nonsense: bytes, words: str
) -> None:
    network = Network(nursery, a=saying(nonsense, b""))
    async with open_session("a", connect=network.connect) as session:
        with pytest.raises(ServerError):
            await session.get_data("/")
        assert words in str(session.last_problem)


async def test_waiting_for_a_connection_has_an_end(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with open_session("a,b:9/app", connect=Network(nursery).connect) as session:
        with pytest.raises(
            TimeoutError, match=r"no server of a:2181,b:9/app answered within 5 s: [ab] refuses"
        ):
            await session.wait_connected(5)


async def test_an_expired_session_is_told_so(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    refusal = accepted(timeout_ms=0, session_id=0)
    events: list[WatchedEvent] = []
    network = Network(nursery, a=saying(accepted(), b""))
    async with open_session("a", connect=network.connect, on_event=events.append) as session:
        with pytest.raises(ConnectionLost):
            await session.get_data("/")
        network.hosts["a"] = saying(refusal)
        with pytest.raises(SessionExpired):
            await session.get_data("/")
        with pytest.raises(SessionExpired):
            await session.wait_connected(1)
    assert [event.state for event in events] == [
        KeeperState.SYNC_CONNECTED,
        KeeperState.DISCONNECTED,
        KeeperState.EXPIRED,
        KeeperState.CLOSED,
    ]


async def test_a_read_only_server_is_left_for_one_that_can_write(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Once a server answers `isro` with rw; until then they are asked, more and more rarely."""
    served = Served()
    has_quorum = False
    asked_at: list[float] = []

    async def member(stream: trio.abc.Stream) -> None:
        data = bytes(await stream.receive_some())
        if data == b"isro":
            asked_at.append(trio.current_time())
            await stream.send_all(b"rw" if has_quorum else b"ro")
        elif has_quorum:
            await served.serve(stream, data)
        else:
            await stream.send_all(accepted(read_only=True))
            while await stream.receive_some():
                await stream.send_all(answer(-2, zxid=0))

    network = Network(nursery, a=member)
    states: list[KeeperState] = []
    async with open_session(
        "a", read_only=True, connect=network.connect, on_event=lambda event: states.append(event.state)
    ) as session:
        await session.wait_connected(1)
        start = trio.current_time()
        await trio.sleep(4)
        assert [round(at - start, 1) for at in asked_at] == [0.1, 0.3, 0.7, 1.5, 3.1]
        has_quorum = True
        await trio.sleep(10)
        await session.create("/now")
    assert states == [
        KeeperState.CONNECTED_READ_ONLY,
        KeeperState.DISCONNECTED,
        KeeperState.SYNC_CONNECTED,
        KeeperState.CLOSED,
    ]


async def test_closing_does_not_wait_for_a_dead_server_for_ever(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def accept_and_fall_silent(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        await stream.send_all(accepted(timeout_ms=60_000))
        await trio.sleep_forever()

    network = Network(nursery, a=accept_and_fall_silent)
    async with open_session("a", connect=network.connect) as session:
        await session.wait_connected(1)
        start = trio.current_time()
    assert trio.current_time() - start == 5


async def test_refused_credentials_are_told(nursery: trio.Nursery) -> None:
    network = Network(nursery, a=Served().serve)
    async with open_session("a", connect=network.connect) as session:
        await session.add_auth("digest", b"u:p")
        assert {info.auth_scheme for info in await session.who_am_i()} == {"ip", "digest"}
        with pytest.raises(AuthFailed):
            await session.add_auth("bogus", b"")
        assert session.state is State.AUTH_FAILED


async def test_a_caller_that_gives_up_disturbs_nobody(nursery: trio.Nursery) -> None:
    network = Network(nursery, a=Served().serve)
    async with open_session("a", connect=network.connect) as session:
        await session.wait_connected(10)
        with trio.CancelScope() as scope:
            scope.cancel()
            await session.create("/given-up")
        await session.create("/b")
        assert await session.exists("/given-up") is not None


# --- A server in a process of its own.


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with start_server("triokeeper") as running:
        yield running


async def test_a_session_with_a_real_server(server: Server) -> None:
    events: list[WatchedEvent] = []
    async with open_session(server.host_port, on_event=events.append) as session:
        await session.create("/real", b"1")
        await session.get_data("/real", watch=True)
        await session.set_data("/real", b"2", version=0)
        await session.multi([Create("/real/x"), SetData("/real", b"3")])
        (read,) = await session.multi_read([GetData("/real")])
        assert isinstance(read, tuple)
        assert read[0] == b"3"
        await session.add_watch("/real", AddWatchMode.PERSISTENT_RECURSIVE)
        await session.delete("/real/x")
        await session.remove_watches("/real", WatcherType.ANY)
        await session.sync("/")
    async with open_session(f"{server.host_port}/real") as inside:
        assert (await inside.get_data("/"))[0] == b"3"
        assert (await inside.get_config())[0] == b""
    assert [str(event).split(" zxid")[0] for event in events] == [
        "WatchedEvent state:SyncConnected type:None path:null",
        "WatchedEvent state:SyncConnected type:NodeDataChanged path:/real",
        "WatchedEvent state:SyncConnected type:NodeDeleted path:/real/x",
        "WatchedEvent state:SyncConnected type:PersistentWatchRemoved path:/real",
        "WatchedEvent state:Closed type:None path:null",
    ]


async def test_a_session_survives_a_restart_of_its_server(server: Server) -> None:
    async with open_session(server.host_port) as session:
        path, _ = await session.create("/survivor", mode=CreateMode.EPHEMERAL)
        await trio.to_thread.run_sync(server.restart)
        await session.wait_connected(20)
        await session.set_data(path, b"still here")


async def test_a_request_that_is_cancelled_before_it_is_sent_is_never_sent(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    served = Served()
    network = Network(nursery)
    async with open_session("a,b,c", connect=network.connect) as session:
        with trio.move_on_after(0):
            await session.create("/never")
        network.hosts = dict.fromkeys("abc", served.serve)
        await session.wait_connected(60)
        assert await session.exists("/never") is None
