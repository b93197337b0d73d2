"""The cross-check between two real servers, with a liar in front of the second one.

The client must get the first server's answers whatever the second one does.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from signal import SIGCONT, SIGSTOP

import attrs
import pytest
import trio
import trio.testing

from client.connecting import open_tcp
from client.crosscheck.findings import Findings
from client.crosscheck.mirror import Mirror
from client.crosscheck.proxy import Proxy
from client.errors import ServerError
from client.multi import Create
from client.session import Session, open_session
from jute.client_records import GetDataResponse, ReplyHeader, RequestHeader
from jute.framing import FrameBuffer, frame
from jute.opcodes import NOTIFICATION_XID, CreateMode, OpCode
from jute.record import decode, encode
from support.servers import Server, start_server

HOST = "127.0.0.1"
Lie = Callable[[int, bytes], bytes | None]  # the opcode and the reply, to what is sent instead of it


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    with start_server("triokeeper") as first, start_server("triokeeper") as second:
        yield first, second


@attrs.define
class Liar:
    """Stands before the second server, and changes what it says."""

    server: Server
    lie: Lie
    is_there: bool = True
    goes_on: trio.Event = attrs.field(factory=trio.Event)

    def __attrs_post_init__(self) -> None:
        self.goes_on.set()

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        if not self.is_there:
            raise ConnectionRefusedError("nobody listens")
        stream = await open_tcp(HOST, self.server.port)
        return LyingStream(stream, self)


@attrs.define(eq=False)
class LyingStream(trio.abc.Stream):
    """A connection whose frames are changed on their way to us."""

    stream: trio.abc.Stream
    liar: Liar
    _frames: FrameBuffer = attrs.field(factory=lambda: FrameBuffer(1 << 24))
    _asked: list[tuple[int, int]] = attrs.field(factory=list)
    _is_greeted: bool = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        buffer = FrameBuffer(1 << 24)
        buffer.feed(bytes(data))
        while (payload := buffer.next_frame()) is not None:
            header = decode(RequestHeader, payload)[0]
            self._asked.append((header.xid, header.type))
        await self.stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        said = b""
        while not said:
            await self.liar.goes_on.wait()
            data = await self.stream.receive_some(max_bytes)
            if not data:
                return b""
            self._frames.feed(bytes(data))
            while (payload := self._frames.next_frame()) is not None:
                said += self._changed(payload)
        return said

    def _changed(self, payload: bytes) -> bytes:
        if not self._is_greeted:
            self._is_greeted = True
            return frame(payload)
        xid = decode(ReplyHeader, payload)[0].xid
        op = next((op for asked, op in self._asked if asked == xid), 0)
        changed = self.liar.lie(op, payload)
        return b"" if changed is None else frame(changed)

    async def aclose(self) -> None:
        await self.stream.aclose()


@attrs.define
class Check:
    """A cross-check that runs, and what it has told."""

    hosts: str
    mirror: Mirror
    lines: list[str]

    @property
    def differences(self) -> list[str]:
        return [line for line in self.lines if line.startswith("difference: ")]

    async def says(self, beginning: str) -> None:
        """Return once there is a line that begins so."""
        while not any(line.startswith(beginning) for line in self.lines):
            await trio.testing.wait_all_tasks_blocked(0.01)

    async def settle(self) -> None:
        with trio.fail_after(20):
            await self.mirror.catch_up()
        self.mirror.finish()


@asynccontextmanager
async def crosscheck(first: Server, liar: Liar) -> AsyncIterator[Check]:
    lines: list[str] = []
    findings = Findings(first.host_port, liar.server.host_port, lines.append)
    mirror = Mirror((HOST, liar.server.port), findings, liar.connect)
    proxy = Proxy(((HOST, first.port),), mirror, open_tcp)
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host=HOST)
        nursery.start_soon(trio.serve_listeners, proxy.serve, listeners)
        nursery.start_soon(mirror.run)
        yield Check(f"{HOST}:{listeners[0].socket.getsockname()[1]}", mirror, lines)
        nursery.cancel_scope.cancel()


def honest(op: int, reply: bytes) -> bytes:
    return reply


def wrong_version(op: int, reply: bytes) -> bytes:
    if op != OpCode.GET_DATA:
        return reply
    header, at = decode(ReplyHeader, reply)
    said = decode(GetDataResponse, reply, at)[0]
    wrong = {name: getattr(said.stat, name) for name in said.stat.__match_args__}
    wrong["version"] += 7
    return encode(header) + encode(GetDataResponse(said.data, type(said.stat)(**wrong)))


async def story(session: Session, top: str) -> None:
    """Requests of most kinds, with their errors, stats and events."""
    await session.create(top, b"")
    await session.exists(f"{top}/a", watch=True)
    await session.create(f"{top}/a", b"one", mode=CreateMode.EPHEMERAL)
    for number in range(3):
        path, _ = await session.create(f"{top}/n-", b"", mode=CreateMode.PERSISTENT_SEQUENTIAL)
        assert path == f"{top}/n-{number + 1:010}"
    await session.get_data(f"{top}/a", watch=True)
    await session.set_data(f"{top}/a", b"two")
    await session.get_children(top)
    await session.multi([Create(f"{top}/m"), Create(f"{top}/m/n")])
    with pytest.raises(ServerError):
        await session.create(f"{top}/a", b"")
    with pytest.raises(ServerError):
        await session.delete(f"{top}/nobody")


async def tell(servers: tuple[Server, Server], lie: Lie, top: str) -> Check:
    async with crosscheck(servers[0], Liar(servers[1], lie)) as check:
        async with open_session(check.hosts) as session:
            await story(session, top)
        await check.settle()
    return check


async def test_two_equal_servers_do_not_differ(servers: tuple[Server, Server]) -> None:
    check = await tell(servers, honest, "/equal")
    assert check.lines == []
    counts = check.mirror.findings.counts
    assert counts["requests"] > 12
    assert counts["events"] == 2
    assert check.mirror.is_complete


async def test_a_changed_error_code_is_told_with_its_request(servers: tuple[Server, Server]) -> None:
    def lie(op: int, reply: bytes) -> bytes:
        header, at = decode(ReplyHeader, reply)
        err = -110 if header.err == -101 else header.err
        return encode(ReplyHeader(header.xid, header.zxid, err)) + reply[at:]

    check = await tell(servers, lie, "/error")
    first, second = (server.host_port for server in servers)
    assert len(check.differences) == 2  # the exists of a node that is not there yet is the other one
    assert (
        f": delete /error/nobody version=-1: error -101 at {first}, -110 at {second}" in check.differences[-1]
    )


async def test_a_missing_event_is_told_with_the_write_that_caused_it(servers: tuple[Server, Server]) -> None:
    def lie(op: int, reply: bytes) -> bytes | None:
        is_change = decode(ReplyHeader, reply)[0].xid == NOTIFICATION_XID and b"/missing/a" in reply
        return None if is_change else reply

    check = await tell(servers, lie, "/missing")
    assert len(check.differences) == 2
    assert "event NodeCreated /missing/a: sent by" in check.differences[0]
    assert check.differences[0].endswith("after create2 /missing/a flags=1")
    assert check.differences[1].endswith("after setData /missing/a version=-1")


async def test_a_wrong_version_in_a_stat_is_told(servers: tuple[Server, Server]) -> None:
    check = await tell(servers, wrong_version, "/stat")
    (difference,) = check.differences
    assert ": getData /stat/a watch: stat.version 0 at " in difference


async def test_a_wrong_version_in_a_container_is_told(servers: tuple[Server, Server]) -> None:
    """Recipes of Curator keep their nodes in containers, which servers remove when they get round to it."""
    async with crosscheck(servers[0], Liar(servers[1], wrong_version)) as check:
        async with open_session(check.hosts) as session:
            await session.create("/locks", b"", mode=CreateMode.CONTAINER)
            await session.create("/locks/one", b"", mode=CreateMode.EPHEMERAL)
            await session.get_data("/locks/one")
        await check.settle()
    (difference,) = check.differences
    assert ": getData /locks/one: stat.version 0 at " in difference


async def test_an_event_that_only_the_second_server_sends_is_told(servers: tuple[Server, Server]) -> None:
    def lie(op: int, reply: bytes) -> bytes:
        if decode(ReplyHeader, reply)[0].xid == NOTIFICATION_XID and b"/extra/a" in reply:
            return reply.replace(b"/extra/a", b"/extra/b")
        return reply

    check = await tell(servers, lie, "/extra")
    assert any("event NodeCreated /extra/b: sent by" in line for line in check.differences)


async def test_two_clients_that_write_at_once_are_repeated_in_the_first_servers_order(
    servers: tuple[Server, Server],
) -> None:
    async def write(session: Session) -> None:
        for _ in range(30):
            await session.create("/both/n-", b"", mode=CreateMode.PERSISTENT_SEQUENTIAL)
            await session.get_children("/both")

    async with crosscheck(servers[0], Liar(servers[1], honest)) as check:
        async with open_session(check.hosts) as one, open_session(check.hosts) as other:
            await one.create("/both", b"")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(write, one)
                nursery.start_soon(write, other)
        await check.settle()
    assert check.differences == []


async def test_a_slow_second_server_slows_nobody_else(servers: tuple[Server, Server]) -> None:
    liar = Liar(servers[1], honest)
    liar.goes_on = trio.Event()
    async with crosscheck(servers[0], liar) as check:
        async with open_session(check.hosts) as session:
            await story(session, "/slow")
            assert check.mirror.findings.counts["requests"] == 0
        liar.goes_on.set()
        await check.settle()
    assert check.differences == []


async def test_a_second_server_that_hangs_is_waited_for(
    servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note says so, and another one that it is back; the client has noticed nothing."""
    monkeypatch.setattr("client.crosscheck.second_session.SILENCE_SECONDS_MAX", 0.1)
    first, second = servers
    async with crosscheck(first, Liar(second, honest)) as check:
        second.send_signal(SIGSTOP)
        try:
            async with open_session(check.hosts) as session:
                await story(session, "/hangs")
            assert not check.mirror.is_complete
            with trio.fail_after(20):
                await check.says(f"note: {second.host_port} does not answer: nothing was heard for")
        finally:
            second.send_signal(SIGCONT)
        await check.settle()
    assert check.differences == []
    assert f"note: {second.host_port} answers again" in check.lines
    assert check.mirror.findings.counts["requests"] > 12


async def test_a_second_server_that_is_killed_and_comes_back() -> None:
    with start_server("triokeeper") as first, start_server("triokeeper") as second:
        async with crosscheck(first, Liar(second, honest)) as check:
            async with open_session(check.hosts) as session:
                await story(session, "/before")
                await check.mirror.catch_up()
                await trio.to_thread.run_sync(second.kill9)
                await story(session, "/meanwhile")
                await trio.to_thread.run_sync(second.start)
                await story(session, "/after")
            await check.settle()
    assert check.differences == []
    assert any(line.startswith(f"note: {second.host_port} does not answer") for line in check.lines)
    assert f"note: {second.host_port} answers again" in check.lines


async def test_a_second_server_that_never_comes_ends_the_comparison_and_nothing_else(
    servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("client.crosscheck.mirror.QUEUE_BYTES_MAX", 5_000)
    nobody = Liar(servers[1], honest, is_there=False)
    async with crosscheck(servers[0], nobody) as check, open_session(check.hosts) as session:
        await story(session, "/alone")
        assert check.mirror.is_over
        assert not check.mirror.is_complete
        await session.set_data("/alone", b"still served")
    assert any("nothing is compared any more" in line for line in check.lines)


async def test_four_letter_words_are_handed_on(servers: tuple[Server, Server]) -> None:
    async with crosscheck(servers[0], Liar(servers[1], honest)) as check:
        host, _, port = check.hosts.rpartition(":")
        async with await trio.open_tcp_stream(host, int(port)) as probe:
            await probe.send_all(b"ruok")
            assert await probe.receive_some() == b"imok"
    assert check.lines == []
