"""A session on Trio: carries bytes and time between one server after the other and the conversation.

    async with open_session("zk1,zk2:2181/app") as session:
        path, stat = await session.create("/task-", b"", mode=CreateMode.EPHEMERAL_SEQUENTIAL)

Requests of several tasks are sent in the order of the calls, without waiting for each other's answers. While
no server is connected they wait; they fail with ConnectionLost when the connection ends before their answer,
and when all servers were tried in vain.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias, TypeVar

import trio

from client import requests
from client.acls import OPEN_ACL_UNSAFE
from client.connect_string import ConnectString, host_port, parse_connect_string
from client.conversation import Conversation, ServerSilent
from client.errors import NoNode, ProtocolError, server_error
from client.events import State, WatchedEvent
from client.multi import ANY_VERSION, Create, Delete, Read, ReadResult, SetData, Write, WriteResult
from client.paths import Chroot
from client.requests import Request
from client.words import four_letter_word
from jute.client_records import Acl, ClientInfo, Stat
from jute.opcodes import AddWatchMode, CreateMode, WatcherType

T = TypeVar("T")
Address: TypeAlias = tuple[str, int]
Connector: TypeAlias = Callable[[str, int], Awaitable[trio.abc.Stream]]

DEFAULT_TIMEOUT_MS = 30_000
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
    connect: Connector = trio.open_tcp_stream,
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


class Session:
    """What `open_session` gives: the state of the session, and one method for each request."""

    def __init__(
        self,
        servers: ConnectString,
        hosts: list[Address],
        timeout_ms: int,
        read_only: bool,
        on_event: Callable[[WatchedEvent], None] | None,
        connect: Connector,
    ) -> None:
        self.servers = servers
        self.address: Address | None = None  # of the server that is connected
        self._hosts = hosts
        self._next_host = 0
        self._on_event = on_event
        self._connect = connect
        self._conversation = Conversation(
            servers.chroot, timeout_ms=timeout_ms, hosts=len(hosts), is_read_only_fine=read_only
        )
        self._waiting: dict[requests.AnyRequest, trio.Event] = {}
        self._has_news = trio.Event()  # something to send, or another time to wait for
        self._state_changed = trio.Event()
        self._last_problem: Exception | None = None

    # --- How it is.

    @property
    def state(self) -> State:
        return self._conversation.state

    @property
    def session_id(self) -> int:
        return self._conversation.credentials.session_id

    @property
    def password(self) -> bytes:
        return self._conversation.credentials.password

    @property
    def negotiated_timeout_ms(self) -> int:
        """What the server granted; before that, what was asked for."""
        return self._conversation.timeout_ms

    @property
    def last_problem(self) -> Exception | None:
        """Why the latest connection was not made or ended."""
        return self._last_problem

    async def wait_connected(self, timeout_s: float) -> None:
        """Return once a server is connected.

        Raises TimeoutError, or the ServerError of a session that is over.
        """
        with trio.move_on_after(timeout_s):
            while not self.state.is_connected:
                if self.state.is_over:
                    code = -115 if self.state is State.AUTH_FAILED else -112
                    raise server_error(code)
                await self._state_changed.wait()
            return
        why = f": {self._last_problem}" if self._last_problem else ""
        raise TimeoutError(f"no server of {self.servers} answered within {timeout_s:g} s{why}")

    # --- Requests.

    async def create(
        self,
        path: str,
        data: bytes | None = b"",
        acl: Iterable[Acl] = OPEN_ACL_UNSAFE,
        mode: CreateMode = CreateMode.PERSISTENT,
        ttl_ms: int | None = None,
    ) -> tuple[str, Stat]:
        """The path made, with its sequence number if the mode gives one, and the new node's Stat."""
        return await self._ask(requests.create(self._chroot, Create(path, data, tuple(acl), mode, ttl_ms)))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._ask(requests.delete(self._chroot, Delete(path, version)))

    async def exists(self, path: str, watch: bool = False) -> Stat | None:
        try:
            return await self._ask(requests.exists(self._chroot, path, watch))
        except NoNode:
            return None

    async def get_data(self, path: str, watch: bool = False) -> tuple[bytes | None, Stat]:
        return await self._ask(requests.get_data(self._chroot, path, watch))

    async def set_data(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        return await self._ask(requests.set_data(self._chroot, SetData(path, data, version)))

    async def get_children(self, path: str, watch: bool = False) -> tuple[list[str], Stat]:
        return await self._ask(requests.get_children(self._chroot, path, watch))

    async def get_acl(self, path: str) -> tuple[list[Acl], Stat]:
        return await self._ask(requests.get_acl(self._chroot, path))

    async def set_acl(self, path: str, acl: Iterable[Acl], version: int = ANY_VERSION) -> Stat:
        return await self._ask(requests.set_acl(self._chroot, path, tuple(acl), version))

    async def sync(self, path: str) -> None:
        """Return once this server has caught up with what the leader had when asked."""
        await self._ask(requests.sync(self._chroot, path))

    async def get_ephemerals(self, prefix: str = "/") -> list[str]:
        """The paths of this session's ephemerals that start with a text."""
        return await self._ask(requests.get_ephemerals(self._chroot, prefix))

    async def get_all_children_number(self, path: str) -> int:
        """How many nodes are below this one, at any depth."""
        return await self._ask(requests.get_all_children_number(self._chroot, path))

    async def add_watch(self, path: str, mode: AddWatchMode) -> None:
        await self._ask(requests.add_watch(self._chroot, path, mode))

    async def remove_watches(self, path: str, kind: WatcherType, *, local: bool = False) -> None:
        """Remove this session's watches of a kind; with `local`, even if no server can be asked.

        Raises NoWatcher if there are none.
        """
        await self._ask(requests.remove_watches(self._chroot, path, kind, is_local=local))

    async def check_watches(self, path: str, kind: WatcherType) -> None:
        """Raises NoWatcher if the server knows no such watch of this session."""
        await self._ask(requests.check_watches(self._chroot, path, kind))

    async def reconfig(
        self,
        joining: str | None = None,
        leaving: str | None = None,
        new_members: str | None = None,
        from_config: int = ANY_VERSION,
    ) -> tuple[bytes | None, Stat]:
        """Change the members of the ensemble; returns the new configuration."""
        return await self._ask(requests.reconfig(joining, leaving, new_members, from_config))

    async def get_config(self, watch: bool = False) -> tuple[bytes | None, Stat]:
        """The members of the ensemble, whatever the chroot."""
        return await self._ask(requests.get_config(watch))

    async def who_am_i(self) -> list[ClientInfo]:
        return await self._ask(requests.who_am_i())

    async def multi(self, ops: Sequence[Write]) -> list[WriteResult]:
        """Do all of it or nothing: raises MultiFailed then."""
        return await self._ask(requests.multi(self._chroot, ops))

    async def multi_read(self, ops: Sequence[Read]) -> list[ReadResult]:
        """Read many nodes at once; each result may be an error of its own."""
        return await self._ask(requests.multi_read(self._chroot, ops))

    async def add_auth(self, scheme: str, auth: bytes) -> None:
        """Show credentials, now and after each reconnect; return when the server has accepted them."""
        await self._answer(self.show_auth(scheme, auth))

    def show_auth(self, scheme: str, auth: bytes) -> Request[None]:
        """Show credentials without waiting for the answer, as Java's client does."""
        request = self._conversation.add_auth(scheme, auth)
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

    @property
    def _chroot(self) -> Chroot:
        return self._conversation.chroot

    async def _ask(self, request: Request[T]) -> T:
        self._conversation.submit(request)
        return await self._answer(request)

    async def _answer(self, request: Request[T]) -> T:
        await self._answered(request)
        return request.result()

    async def _answered(self, request: Request[T]) -> None:
        self._deliver()
        if request.is_done:
            await trio.lowlevel.checkpoint()
            return
        self._waiting[request] = event = trio.Event()
        try:
            await event.wait()
        finally:
            self._waiting.pop(request, None)

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
            self._last_problem = TimeoutError(f"{host_port(*address)} does not accept connections")
            return False
        except OSError as problem:
            self._last_problem = problem
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
            self._last_problem = problem
        connection.cancel()

    async def _receive(self, stream: trio.abc.Stream, address: Address) -> None:
        while not self.state.is_over:
            data = await stream.receive_some(RECEIVE_BYTES_MAX)
            if not data:
                raise ConnectionError(f"{host_port(*address)} closed the connection")
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
                    answer = await four_letter_word(*address, "isro", 1.0)
                except OSError:
                    continue
                if answer == b"rw":
                    self._next_host = index
                    connection.cancel()
                    return
