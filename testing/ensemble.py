"""Several servers as one, for tests."""

import contextlib
import itertools
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, TypeVar

from . import forks
from .child import log_tail
from .errors import ServerError
from .relay import HOST, Relay, reserve_port
from .server import Namespace, Server, Session, fresh_path

LEADER_SECONDS_MAX = 30.0
POLL_SECONDS = 0.01
ANY_ADDRESS = "0.0.0.0"

T = TypeVar("T")


class Ensemble:
    """Servers that vote, then `observers` that do not; other options are those of each `Server`.

    Members reach each other through relays of this process, one for each direction of each pair, so that
    `partition` can cut any of them.
    """

    def __init__(self, size: int = 3, observers: int = 0, **server_options: Any) -> None:
        if size < 1 or observers < 0:
            raise ValueError(f"size={size}, observers={observers}: at least one server must vote")
        config: Mapping[str, object] = server_options.pop("config", None) or {}
        for option in ("port", "data_dir", "clientPort", "dataDir", "dataLogDir"):
            if server_options.get(option) or config.get(option):
                raise ValueError(f"{option}: each member has its own, so it cannot be set for an ensemble")
        self._ids = range(1, size + observers + 1)
        self._voters = size
        self._reconfig_enabled = str(config.get("reconfigEnabled", "")).lower() == "true"
        self._has_majorities = not any(key.startswith(("group.", "weight.")) for key in config)
        self._group_of = dict.fromkeys(self._ids, 0)  # members of different groups do not reach each other
        self._ports: dict[int, tuple[socket.socket, socket.socket]] = {}
        self._links: dict[tuple[int, int], list[Relay]] = {}
        self._members: list[Server] = []
        self._pid = os.getpid()
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            self._make_links()
            for member in self._ids:
                self._members.append(Server(config={**self._lines(member), **config}, **server_options))
                self._members[-1].join(self, member)
            undo.pop_all()
        forks.owners.add(self)

    def _make_links(self) -> None:
        for member in self._ids:
            self._ports[member] = (reserve_port(), reserve_port())
        for one, other in itertools.permutations(self._ids, 2):
            self._links[one, other] = [Relay(), Relay()]
            for relay, port in zip(self._links[one, other], self._ports[other], strict=True):
                relay.open(port.getsockname()[1])

    def descriptors(self) -> Iterator[int]:
        """What is open; see forks.py."""
        return (port.fileno() for ports in self._ports.values() for port in ports)

    def _lines(self, member: int) -> dict[str, object]:
        """The servers as one of them sees them: itself at its own ports, the others behind relays.

        A member tells the others where to call it back, and they would go there past the relays. So it says
        "at any address", which is no place to go to; it listens on this machine alone nevertheless.
        """
        own_host = HOST if self._reconfig_enabled else ANY_ADDRESS
        lines: dict[str, object] = {"standaloneEnabled": "false"}
        for each in self._ids:
            if each == member:
                host, ports = own_host, [port.getsockname()[1] for port in self._ports[each]]
            else:
                host, ports = HOST, [relay.port for relay in self._links[member, each]]
            role = "participant" if each <= self._voters else "observer"
            lines[f"server.{each}"] = f"{host}:{ports[0]}:{ports[1]}:{role}"
        if member > self._voters:
            lines["peerType"] = "observer"
        return lines

    def __iter__(self) -> Iterator[Server]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, index: int) -> Server:
        return self._members[index]

    # -- facts

    @property
    def hosts(self) -> str:
        """What a client is given to connect to any of them."""
        return ",".join(server.hosts for server in self._members)

    @property
    def leader(self) -> Server | None:
        """The member that leads and serves now; not one that `partition` has cut off from a majority."""
        leaders = [server for server in self._in_mode("leader") if self._may_lead(server)]
        return next(iter(leaders), None)

    def _may_lead(self, server: Server) -> bool:
        """Whether it reaches most of the voters. One that does not gives up, but only after a while."""
        group = self._group_of[self._members.index(server) + 1]
        reached = sum(self._group_of[voter] == group for voter in self._ids[: self._voters])
        return reached > self._voters // 2 or not self._has_majorities

    @property
    def followers(self) -> list[Server]:
        return self._in_mode("follower")

    @property
    def observers(self) -> list[Server]:
        return self._members[self._voters :]

    @property
    def log(self) -> str:
        return "".join(f"==== {server.hosts}\n{server.log}" for server in self._members)

    def _in_mode(self, mode: str) -> list[Server]:
        return [server for server in self._members if self._mode(server) == mode]

    def _mode(self, server: Server) -> str | None:
        """What a member is, or None while it is not up, is paused, or serves nobody."""
        if not server.answers:
            return None
        try:
            state = server.ask("state")
        except ServerError:
            return None  # it ended meanwhile
        return str(state["mode"]) if state["is_serving"] else None

    # -- life

    def start(self) -> Self:
        """Start the members that do not run, and wait until all serve."""
        for server in self._members:
            server.spawn()
        for server in self._members:
            server.wait_until_up()
        self._wait_or_fail(self._do_all_serve)
        return self

    def _do_all_serve(self) -> bool:
        return all(self._mode(server) for server in self._members)

    def wait_until_serving(self, server: Server) -> None:
        """Wait for one member, unless too few run to serve anybody."""
        running = sum(each.answers for each in self._members[: self._voters])
        if running > self._voters // 2:
            self._wait_or_fail(lambda: self._mode(server))

    def _wait_or_fail(self, condition: Callable[[], object]) -> None:
        try:
            self._wait(condition, LEADER_SECONDS_MAX)
        except TimeoutError as failure:
            raise ServerError(f"{failure}. The end of their logs:\n{self._log_tails()}") from None

    def _log_tails(self) -> str:
        return "\n".join(f"{server.hosts}\n{log_tail(server.log)}" for server in self._members)

    def stop(self) -> None:
        for server in self._members:
            server.stop()

    def close(self) -> None:
        """Stop all members, give their ports back and, unless `keep` is set, delete their files."""
        if os.getpid() != self._pid:
            return  # a fork of the process that they belong to ends
        with contextlib.ExitStack() as stack:
            for relays in self._links.values():
                for relay in relays:
                    stack.callback(relay.close)
            for ports in self._ports.values():
                for port in ports:
                    stack.callback(port.close)
            for server in self._members:
                stack.callback(server.close)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_for_leader(self, timeout: float = LEADER_SECONDS_MAX) -> Server:
        """The leader, as soon as there is one. Raises TimeoutError."""
        return self._wait(lambda: self.leader, timeout)

    def _wait(self, condition: Callable[[], T | None], timeout: float) -> T:
        deadline = time.monotonic() + timeout
        while True:
            if value := condition():
                return value
            if time.monotonic() > deadline:
                states = ", ".join(f"{server.hosts} {self._mode(server)}" for server in self._members)
                raise TimeoutError(f"no quorum within {timeout} s: {states}")
            time.sleep(POLL_SECONDS)

    # -- faults and content

    def partition(self, *groups: list[Server] | tuple[Server, ...]) -> None:
        """Cut the links between the groups; members not named form one more. Clients reach all of them."""
        if self._reconfig_enabled:
            raise ServerError(
                "with reconfigEnabled members write down the addresses they were given, "
                "and each was given others: no partitions"
            )
        place: dict[int, int] = {}
        for number, group in enumerate(groups, start=1):
            for server in group:
                if server not in self._members:
                    raise ValueError(f"{server} is no member of this ensemble")
                member = self._members.index(server) + 1
                if place.setdefault(member, number) != number:
                    raise ValueError(f"{server} cannot be in two groups")
        self._cut({member: place.get(member, 0) for member in self._ids})

    def _cut(self, group_of: dict[int, int]) -> None:
        self._group_of = group_of
        for (one, other), relays in self._links.items():
            for relay in relays:
                relay.silence(group_of[one] != group_of[other])

    def heal(self) -> None:
        """Mend all links; what was held back arrives now."""
        self._cut(dict.fromkeys(self._ids, 0))

    def expire(self, session: int) -> None:
        self._members[0].expire(session)

    def tree(self, path: str = "/") -> dict[str, bytes]:
        """What the leader has."""
        return self.wait_for_leader().tree(path)

    def load(self, nodes: Mapping[str, str | bytes]) -> None:
        self.wait_for_leader().load(nodes)

    def sessions(self) -> list[Session]:
        return self.wait_for_leader().sessions()

    @contextlib.contextmanager
    def namespace(self) -> Iterator[Namespace]:
        """As Server.namespace; its `hosts` name all members, and whoever leads in the end removes it."""
        path = fresh_path()
        self.load({path: b""})
        try:
            yield Namespace(f"{self.hosts}{path}", path)
        finally:
            if sum(server.answers for server in self._members[: self._voters]) > self._voters // 2:
                self.wait_for_leader().ask("remove", path=path)
