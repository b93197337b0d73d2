"""One method for each request: what a session offers, whoever carries its bytes.

session.py carries them on Trio, for as long as one likes; blocking_session.py by a plain socket, for one
command.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TypeAlias, TypeVar

from client import requests
from client.acls import OPEN_ACL_UNSAFE
from client.connect_string import ConnectString
from client.conversation import Conversation
from client.errors import NoNode, ServerError
from client.events import State
from client.multi import ANY_VERSION, Create, Delete, Read, ReadResult, SetData, Write, WriteResult
from client.paths import Chroot
from client.requests import AnyRequest, Request
from jute.client_records import Acl, ClientInfo, Stat
from jute.opcodes import AddWatchMode, CreateMode, WatcherType

T = TypeVar("T")
Address: TypeAlias = tuple[str, int]

DEFAULT_TIMEOUT_MS = 30_000


class Requester(ABC):
    """A session: its state, and one method for each request."""

    def __init__(self, servers: ConnectString, timeout_ms: int, read_only: bool) -> None:
        self.servers = servers
        self.address: Address | None = None  # of the server that is connected
        self.last_problem: Exception | None = None  # why the latest connection was not made, or ended
        self._conversation = Conversation(
            servers.chroot,
            timeout_ms=timeout_ms,
            hosts=len(servers.hosts),
            is_read_only_fine=read_only,
        )

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
    def chroot(self) -> Chroot:
        return self._conversation.chroot

    # --- How requests are answered.

    @abstractmethod
    async def _answered(self, *asked: AnyRequest) -> None:
        """Carry on the conversation until these are complete."""

    async def _ask(self, request: Request[T]) -> T:
        self._conversation.submit(request)
        await self._answered(request)
        return request.result()

    async def many(self, asked: Sequence[Request[T]]) -> list[T | ServerError]:
        """Ask all at once, without waiting in between; each result may be an error of its own."""
        for request in asked:
            self._conversation.submit(request)
        await self._answered(*asked)
        return [request.error or request.result() for request in asked]

    async def add_auth(self, scheme: str, auth: bytes | None) -> None:
        """Show credentials, now and after each reconnect; return when the server has accepted them."""
        request = self.show_auth(scheme, auth)
        await self._answered(request)
        request.result()

    def show_auth(self, scheme: str, auth: bytes | None) -> Request[None]:
        """Show credentials without waiting for the answer, as Java's client does."""
        return self._conversation.add_auth(scheme, auth)

    def _not_reached(self, timeout_s: float) -> TimeoutError:
        why = f": {self.last_problem}" if self.last_problem else ""
        return TimeoutError(f"no server of {self.servers} answered within {timeout_s:g} s{why}")

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
        return await self._ask(requests.create(self.chroot, Create(path, data, tuple(acl), mode, ttl_ms)))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._ask(requests.delete(self.chroot, Delete(path, version)))

    async def exists(self, path: str, watch: bool = False) -> Stat | None:
        try:
            return await self._ask(requests.exists(self.chroot, path, watch))
        except NoNode:
            return None

    async def get_data(self, path: str, watch: bool = False) -> tuple[bytes | None, Stat]:
        return await self._ask(requests.get_data(self.chroot, path, watch))

    async def set_data(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        return await self._ask(requests.set_data(self.chroot, SetData(path, data, version)))

    async def get_children(self, path: str, watch: bool = False) -> tuple[list[str], Stat]:
        return await self._ask(requests.get_children(self.chroot, path, watch))

    async def get_acl(self, path: str) -> tuple[list[Acl], Stat]:
        return await self._ask(requests.get_acl(self.chroot, path))

    async def set_acl(self, path: str, acl: Iterable[Acl], version: int = ANY_VERSION) -> Stat:
        return await self._ask(requests.set_acl(self.chroot, path, tuple(acl), version))

    async def sync(self, path: str) -> None:
        """Return once this server has caught up with what the leader had when asked."""
        await self._ask(requests.sync(self.chroot, path))

    async def get_ephemerals(self, prefix: str = "/", *, ignores_chroot: bool = False) -> list[str]:
        """The paths of this session's ephemerals that start with a text; the server's paths, if told so."""
        chroot = Chroot() if ignores_chroot else self.chroot
        return await self._ask(requests.get_ephemerals(chroot, prefix))

    async def get_all_children_number(self, path: str) -> int:
        """How many nodes are below this one, at any depth."""
        return await self._ask(requests.get_all_children_number(self.chroot, path))

    async def add_watch(self, path: str, mode: AddWatchMode) -> None:
        await self._ask(requests.add_watch(self.chroot, path, mode))

    async def remove_watches(self, path: str, kind: WatcherType, *, local: bool = False) -> None:
        """Remove this session's watches of a kind; with `local`, even if no server can be asked.

        Raises NoWatcher if there are none.
        """
        await self._ask(requests.remove_watches(self.chroot, path, kind, is_local=local))

    async def check_watches(self, path: str, kind: WatcherType) -> None:
        """Raises NoWatcher if the server knows no such watch of this session."""
        await self._ask(requests.check_watches(self.chroot, path, kind))

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
        return await self._ask(requests.multi(self.chroot, ops))

    async def multi_read(self, ops: Sequence[Read]) -> list[ReadResult]:
        """Read many nodes at once; each result may be an error of its own."""
        return await self._ask(requests.multi_read(self.chroot, ops))
