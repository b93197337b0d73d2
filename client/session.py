"""A session on Trio: carries bytes and time between one server after the other and the conversation.

    async with open_session("zk1,zk2:2181/app") as session:
        path, stat = await session.create("/task-", b"", mode=CreateMode.EPHEMERAL_SEQUENTIAL)

Requests of several tasks are sent in the order of the calls, without waiting for each other's answers. While
no server is connected they wait, and one that is cancelled then is never sent; they fail with ConnectionLost
when the connection ends before their answer, and when all servers were tried in vain.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from client.connect_string import ConnectString, host_port, parse_connect_string
from client.connecting import open_tcp
from client.conversation import ServerSilent
from client.errors import ProtocolError, server_error
from client.events import State, WatchedEvent
from client.requester import DEFAULT_TIMEOUT_MS, Address, Requester
from client.requests import AnyRequest, Request
from client.words import Connector, four_letter_word

RECEIVE_BYTES_MAX = 65536
ROUND_PAUSE_S = 1.0  # after all servers were tried in vain
RECONNECT_PAUSE_S_MAX = 1.0  # so that the clients of a server that died do not all come at once
CLOSE_TIMEOUT_S_MAX = 5.0
READ_WRITE_SEARCH_S_MIN = 0.1
READ_WRITE_SEARCH_S_MAX = 60.0


@asynccontextmanager
async def open_session(
    servers: str | ConnectString,
    *,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
    read_only: bool = False,
    on_event: Callable[[WatchedEvent], None] | None = None,
    keep_session: bool = False,
    randomize_hosts: bool = True,
    connect: Connector = open_tcp,
) -> AsyncIterator["Session"]:
    """A session for the time of the block, closed at its end.

    `read_only`: a server without a quorum will do. `on_event` is called with every event, in order, in the
    Trio loop. `keep_session`: leave without closing the session: its ephemerals live until it expires.
    """
    if isinstance(servers, str):
        servers = parse_connect_string(servers)
    hosts = list(servers.hosts)
    if randomize_hosts:
        random.shuffle(hosts)
    session = Session(servers, hosts, timeout_ms, read_only, on_event, connect)
    problem: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session._run)
        try:
            yield session
        except trio.Cancelled:
            raise
        except BaseException as error:
            problem = error  # raised again outside, where no nursery wraps it in a group
        finally:
            if keep_session:
                session._leave()
            else:
                with trio.CancelScope(shield=True):
                    await session.close()
        nursery.cancel_scope.cancel()
    if problem is not None:
        raise problem


class Session(Requester):
    """What `open_session` gives. The requests are in requester.py."""

    def __init__(
        self,
        servers: ConnectString,
        hosts: list[Address],
        timeout_ms: int,
        read_only: bool,
        on_event: Callable[[WatchedEvent], None] | None,
        connect: Connector,
    ) -> None:
        super().__init__(servers, timeout_ms, read_only)
        self._hosts = hosts
        self._next_host = 0
        self._on_event = on_event
        self._connect = connect
        self._waiting: dict[AnyRequest, trio.Event] = {}
        self._has_news = trio.Event()  # something to send, or another time to wait for
        self._state_changed = trio.Event()

    async def wait_connected(self, timeout_s: float) -> None:
        """Return once a server is connected.

        Raises TimeoutError, or the ServerError of a session that is over.
        """
        with trio.move_on_after(timeout_s):
            while not self.state.is_connected:
                if self.state.is_over:
                    raise server_error(-115 if self.state is State.AUTH_FAILED else -112)
                await self._state_changed.wait()
            return
        raise self._not_reached(timeout_s)

    def show_auth(self, scheme: str, auth: bytes | None) -> Request[None]:
        request = super().show_auth(scheme, auth)
        self._deliver()
        return request

    async def close(self) -> None:
        """End the session on the server too, if one is connected and answers in time."""
        request = self._conversation.close()
        if request is not None:
            with trio.move_on_after(min(CLOSE_TIMEOUT_S_MAX, self.negotiated_timeout_ms / 1000)):
                await self._answered(request)
        self._leave()

    # --- How it works.

    async def _answered(self, *asked: AnyRequest) -> None:
        self._deliver()
        if all(request.is_done for request in asked):
            await trio.lowlevel.checkpoint()
            return
        events = [self._waiting.setdefault(request, trio.Event()) for request in asked if not request.is_done]
        try:
            for event in events:
                await event.wait()
        finally:
            for request in asked:
                self._waiting.pop(request, None)
                self._conversation.withdraw(request)  # which does nothing unless this task was cancelled

    def _leave(self) -> None:
        self._conversation.abandon()
        self._deliver()

    def _deliver(self) -> None:
        """Hand out answers and events, and wake whoever waits for something new."""
        for output in self._conversation.take_outputs():
            if isinstance(output, WatchedEvent):
                if self._on_event is not None:
                    self._on_event(output)
            elif output in self._waiting:
                self._waiting[output].set()
        self._has_news.set()
        self._has_news = trio.Event()
        self._state_changed.set()
        self._state_changed = trio.Event()

    async def _run(self) -> None:
        """Connect to one server after the other until the session is over."""
        tried_in_vain = 0
        while not self.state.is_over:
            address = self._hosts[self._next_host]
            self._next_host = (self._next_host + 1) % len(self._hosts)
            if await self._serve_at(address):
                tried_in_vain = 0
                pause_s = random.uniform(0, RECONNECT_PAUSE_S_MAX)
            else:
                tried_in_vain += 1
                is_round_over = tried_in_vain % len(self._hosts) == 0
                if is_round_over:
                    self._conversation.fail_queued()
                pause_s = ROUND_PAUSE_S if is_round_over else 0
            self._deliver()
            await self._pause(pause_s)

    async def _pause(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            while not self.state.is_over:
                await self._state_changed.wait()

    async def _serve_at(self, address: Address) -> bool:
        """Stay with one server as long as that goes well; whether it ever accepted the session."""
        try:
            with trio.fail_after(self._conversation.connect_timeout_s):
                stream = await self._connect(*address)
        except trio.TooSlowError:
            self.last_problem = TimeoutError(f"{host_port(*address)}: does not accept connections")
            return False
        except OSError as problem:
            self.last_problem = problem
            return False
        async with stream:
            return await self._converse(stream, address)

    async def _converse(self, stream: trio.abc.Stream, address: Address) -> bool:
        conversation = self._conversation
        if self.state.is_over:  # closed while this connection was made
            return False
        conversation.connection_made(trio.current_time())
        async with trio.open_nursery() as nursery:
            connection = nursery.cancel_scope
            nursery.start_soon(self._until_broken, connection, self._send, stream)
            nursery.start_soon(self._until_broken, connection, self._keep_time)
            nursery.start_soon(self._until_broken, connection, self._receive, stream, address)
            nursery.start_soon(self._look_for_quorum, connection)
        was_accepted = self.address is not None
        self.address = None
        conversation.connection_lost()
        return was_accepted

    async def _until_broken(
        self, connection: trio.CancelScope, carry: Callable[..., Awaitable[None]], *arguments: object
    ) -> None:
        """One of the tasks of a connection: when it ends, so does the connection."""
        try:
            await carry(*arguments)
        except (OSError, trio.BrokenResourceError, ServerSilent, ProtocolError) as problem:
            self.last_problem = problem
        connection.cancel()

    async def _receive(self, stream: trio.abc.Stream, address: Address) -> None:
        while True:
            data = await stream.receive_some(RECEIVE_BYTES_MAX)
            if self.state.is_over:  # perhaps even before the handshake was answered
                return
            if not data:
                raise ConnectionError(f"{host_port(*address)}: closed the connection")
            try:
                self._conversation.received(bytes(data), trio.current_time())
            except ProtocolError as problem:
                raise ProtocolError(
                    f"{host_port(*address)} does not speak ZooKeeper's protocol: {problem}"
                ) from problem
            if self.state.is_connected:
                self.address = address
            self._deliver()

    async def _send(self, stream: trio.abc.Stream) -> None:
        while True:
            news = self._has_news
            data = self._conversation.bytes_to_send(trio.current_time())
            if data:
                await stream.send_all(data)
            else:
                await news.wait()

    async def _keep_time(self) -> None:
        """Ping when it is time to, and give up a server that stays silent."""
        while True:
            news = self._has_news
            with trio.move_on_at(self._conversation.due_s):
                await news.wait()
            if not news.is_set():
                self._conversation.pass_time(trio.current_time())
                self._deliver()

    async def _look_for_quorum(self, connection: trio.CancelScope) -> None:
        """Leave a read-only server as soon as another one can write."""
        while self.state is not State.CONNECTED_READ_ONLY:
            await self._state_changed.wait()
        pause_s = READ_WRITE_SEARCH_S_MIN
        while True:
            await trio.sleep(pause_s)
            pause_s = min(pause_s * 2, READ_WRITE_SEARCH_S_MAX)
            for index, address in enumerate(self._hosts):
                try:
                    answer = await four_letter_word(*address, "isro", 1.0, self._connect)
                except OSError:
                    continue
                if answer == b"rw":
                    self._next_host = index
                    connection.cancel()
                    return
