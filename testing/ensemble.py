"""Several servers as one, for tests."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, TypeVar

from .errors import ServerError
from .relay import HOST, Relay, reserve_port
from .server import Server, Session

LEADER_SECONDS_MAX = 30.0
POLL_SECONDS = 0.01

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
        for option in ("port", "data_dir"):
            if server_options.get(option):
                raise ValueError(f"{option}=: each member has its own, so it cannot be set for an ensemble")
        self._ids = range(1, size + observers + 1)
        self._voters = size
        self._reconfig_enabled = str(config.get("reconfigEnabled", "")).lower() == "true"
        self._ports = {member: (reserve_port(), reserve_port()) for member in self._ids}
        self._links: dict[tuple[int, int], list[Relay]] = {}
        for one, other in itertools.permutations(self._ids, 2):
            self._links[one, other] = [Relay(), Relay()]
            for relay, port in zip(self._links[one, other], self._ports[other], strict=True):
                relay.open(port.getsockname()[1])
        self._members = [
            Server(config={**self._lines(member), **config}, **server_options) for member in self._ids
        ]
        for member, server in zip(self._ids, self._members, strict=True):
            server.data_dir.mkdir(parents=True, exist_ok=True)
            (server.data_dir / "myid").write_text(f"{member}\n")
            server.join(self)

    def _lines(self, member: int) -> dict[str, object]:
        """The servers as one of them sees them: itself at its own ports, the others behind relays."""
        lines: dict[str, object] = {"standaloneEnabled": "false"}
        for each in self._ids:
            if each == member:
                quorum, election = (port.getsockname()[1] for port in self._ports[each])
            else:
                quorum, election = (relay.port for relay in self._links[member, each])
            role = "participant" if each <= self._voters else "observer"
            lines[f"server.{each}"] = f"{HOST}:{quorum}:{election}:{role}"
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
        """The member that leads and serves now."""
        return next(iter(self._in_mode("leader")), None)

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
        self._wait(self._do_all_serve, LEADER_SECONDS_MAX)
        return self

    def _do_all_serve(self) -> bool:
        return all(self._mode(server) for server in self._members)

    def wait_until_serving(self, server: Server) -> None:
        """Wait for one member, unless too few run to serve anybody."""
        running = sum(each.answers for each in self._members[: self._voters])
        if running > self._voters // 2:
            self._wait(lambda: self._mode(server), LEADER_SECONDS_MAX)

    def stop(self) -> None:
        for server in self._members:
            server.stop()

    def close(self) -> None:
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
        named = {id(server) for group in groups for server in group}
        rest = [server for server in self._members if id(server) not in named]
        place = {id(server): number for number, group in enumerate([*groups, rest]) for server in group}
        for one, other in itertools.permutations(self._ids, 2):
            is_cut = place[id(self._members[one - 1])] != place[id(self._members[other - 1])]
            for relay in self._links[one, other]:
                relay.silence(is_cut)

    def heal(self) -> None:
        """Mend all links; what was held back arrives now."""
        for relays in self._links.values():
            for relay in relays:
                relay.silence(False)

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
    def namespace(self) -> Iterator[Any]:
        """As Server.namespace; its `hosts` name all members."""
        with self.wait_for_leader().namespace() as namespace:
            yield type(namespace)(f"{self.hosts}{namespace.path}", namespace.path)
