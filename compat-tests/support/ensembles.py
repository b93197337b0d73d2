"""Ensembles on loopback, of the Java server, of ours, or of both.

    with start_ensemble(["reference", "triokeeper", "triokeeper"], leader=3) as ensemble:
        client = KazooClient(hosts=ensemble.hosts)
        ensemble[3].kill9()
        ensemble.wait_for_leader()

A server is known by its id: 1, 2, ... in the order of the kinds. Members keep ports, configuration and data
through everything, a change of kind included. Ended by its `with` block, as every server here is.
"""

import contextlib
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import count

import attrs
import javaproperties

from support.raw_client import Malformed
from support.servers import (
    HOST,
    POLL_SECONDS,
    SMALL_FLAGS,
    Kind,
    Server,
    ServerFailed,
    Settings,
    as_zoo_cfg,
    free_ports,
    prepare_server,
)
from support.session_client import Lost, Refused, SessionClient

ENSEMBLE_SETTINGS: Mapping[str, object] = {"initLimit": 10, "syncLimit": 5}
LEADER_SECONDS_MAX = 30.0
EQUAL_SECONDS_MAX = 20.0
BARRIER_SESSION_MS = 4000


@attrs.frozen
class Place:
    """Where a member is reached: its server line."""

    quorum_port: int
    election_port: int
    client_port: int
    is_observer: bool = False

    @classmethod
    def free(cls, *, is_observer: bool = False) -> "Place":
        quorum_port, election_port, client_port = free_ports(3)
        return cls(quorum_port, election_port, client_port, is_observer)

    @property
    def short_line(self) -> str:
        """Without the client's address, as most static configurations have it."""
        role = ":observer" if self.is_observer else ""
        return f"{HOST}:{self.quorum_port}:{self.election_port}{role}"

    @property
    def line(self) -> str:
        role = "observer" if self.is_observer else "participant"
        return f"{HOST}:{self.quorum_port}:{self.election_port}:{role};{HOST}:{self.client_port}"


@attrs.define(eq=False)
class Ensemble:
    """The members by id, and what is done to several of them at once."""

    settings: str
    jvm_flags: Sequence[str]
    servers: dict[int, Server] = attrs.field(factory=dict)
    places: dict[int, Place] = attrs.field(factory=dict)

    def __getitem__(self, server_id: int) -> Server:
        return self.servers[server_id]

    @property
    def ids(self) -> list[int]:
        return list(self.servers)

    @property
    def voters(self) -> list[int]:
        return [server_id for server_id, place in self.places.items() if not place.is_observer]

    @property
    def running(self) -> list[int]:
        return [server_id for server_id, server in self.servers.items() if not server.has_ended]

    @property
    def hosts(self) -> str:
        """The connect string of all members."""
        return ",".join(server.host_port for server in self.servers.values())

    def ids_of(self, kind: Kind) -> list[int]:
        return [server_id for server_id, server in self.servers.items() if server.kind == kind]

    def others(self, *without: int) -> list[int]:
        return [server_id for server_id in self.servers if server_id not in without]

    # -- members

    def add(self, kind: Kind, *, is_observer: bool = False) -> int:
        """One more member, not started; its configuration lists all members up to now and itself."""
        server_id = len(self.servers) + 1
        self.places[server_id] = Place.free(is_observer=is_observer)
        self.prepare(server_id, kind)
        return server_id

    def prepare(
        self, server_id: int, kind: Kind, config: Settings = "", jvm_flags: Sequence[str] = ()
    ) -> None:
        port = {"clientPort": self.places[server_id].client_port}
        text = self.settings + self.lines() + as_zoo_cfg(port) + as_zoo_cfg(config)
        server = prepare_server(kind, text, jvm_flags=(*self.jvm_flags, *jvm_flags))
        (server.data_dir / "myid").write_text(f"{server_id}\n")
        self.servers[server_id] = server

    def lines(self) -> str:
        """All members, as a zoo.cfg has them; with the clients' addresses if those may change."""
        is_dynamic = javaproperties.loads(self.settings).get("reconfigEnabled") == "true"
        return as_zoo_cfg(
            {
                f"server.{server_id}": place.line if is_dynamic else place.short_line
                for server_id, place in self.places.items()
            }
        )

    def begin(self, leader: int | None = None) -> None:
        """Start all members for the first time, so that this one leads."""
        if leader is not None:
            # Among servers that know the same the largest id wins, if nobody larger is there yet.
            smaller = [voter for voter in self.voters if voter < leader]
            needed = len(self.voters) // 2
            if len(smaller) >= needed:
                self.start(leader, *smaller[:needed])
        self.start()
        if leader is not None:
            self.elect(leader)

    def spawn(self, *ids: int) -> None:
        for server_id in ids:
            self.servers[server_id].spawn()

    def start(self, *ids: int) -> None:
        """Start these, all unless told, and wait until each serves."""
        ids = ids or tuple(self.others(*self.running))
        self.spawn(*ids)
        self.wait_until_serving(*ids)

    def wait_until_serving(self, *ids: int) -> None:
        for server_id in ids or self.running:
            self.servers[server_id].wait_until_serving()

    def stop(self, *ids: int) -> None:
        for server_id in ids or self.ids:
            self.servers[server_id].stop()

    def kill9(self, *ids: int) -> None:
        for server_id in ids or self.ids:
            self.servers[server_id].kill9()

    def change_kind(self, server_id: int, kind: Kind) -> None:
        """What a migration does: stop one, and start the other on its configuration and data."""
        self.servers[server_id].stop()
        self.servers[server_id].kind = kind
        self.start(server_id)

    def erase(self, server_id: int) -> None:
        """A member that was stopped loses its disk, but not its id."""
        assert self.servers[server_id].has_ended
        shutil.rmtree(self.servers[server_id].data_dir / "version-2")

    # -- who leads

    def leader(self) -> int | None:
        """Who says so; None if nobody does, or more than one."""
        leaders = [server_id for server_id in self.running if self.servers[server_id].mode == "leader"]
        return leaders[0] if len(leaders) == 1 else None

    def wait_for_leader(self, seconds: float = LEADER_SECONDS_MAX) -> int:
        """Until one of the running members says that it leads."""
        deadline = time.monotonic() + seconds
        while (leader := self.leader()) is None:
            self._fail_if_ended()
            if time.monotonic() > deadline:
                raise self.failure(f"has no leader after {seconds} s")
            time.sleep(POLL_SECONDS)
        return leader

    def followers(self) -> list[int]:
        leader = self.wait_for_leader()
        return [server_id for server_id in self.running if server_id != leader and server_id in self.voters]

    def elect(self, server_id: int) -> None:
        """Make this voter lead, by letting it know more than a quorum does without the others."""
        leader = self.wait_for_leader()
        if leader == server_id:
            return
        rest = [voter for voter in self.voters if voter not in (leader, server_id)]
        behind = rest[: (len(self.voters) - 1) // 2]
        ahead = [voter for voter in self.voters if voter not in (*behind, server_id)]
        self.stop(*behind)
        self.wait_for_leader()
        self.barrier(server_id)
        self.stop(*ahead)
        self.spawn(*behind)
        self.wait_until_serving()
        self.start(*ahead)
        assert self.wait_for_leader() == server_id

    # -- everybody knows the same

    def barrier(self, *through: int) -> int:
        """Commit something new, through one of these members, and wait until every running one has it.

        The zxid that all of them have reached then.
        """
        zxid = self._commit_something(through or tuple(self.running))
        self.wait_until_all_at(zxid)
        return zxid

    def wait_until_all_at(self, zxid: int) -> None:
        """Until every running member has applied this."""
        wait_until(
            lambda: all(self.zxid_of(server_id) >= zxid for server_id in self.running),
            lambda: self.failure(f"is not where it should be, at 0x{zxid:x}"),
            EQUAL_SECONDS_MAX,
        )

    def zxid_of(self, server_id: int) -> int:
        """Of the last transaction it has applied; -1 if it does not serve."""
        return int(self.servers[server_id].srvr().get("Zxid", "-1"), 16)

    def _commit_something(self, through: Collection[int]) -> int:
        deadline = time.monotonic() + LEADER_SECONDS_MAX
        for attempt in count():
            server_id = list(through)[attempt % len(through)]
            try:
                client = SessionClient.open(self.servers[server_id].port, BARRIER_SESSION_MS)
                return client.close().zxid
            except (Lost, Refused, Malformed, TimeoutError):
                if time.monotonic() > deadline:
                    raise self.failure("commits nothing") from None
                time.sleep(POLL_SECONDS)
        raise AssertionError("unreachable")

    # -- when something is wrong

    def failure(self, how: str) -> ServerFailed:
        """Says how, what each member says of itself, and ends with all logs."""
        states = {n: ("ended" if server.has_ended else server.mode) for n, server in self.servers.items()}
        logs = "".join(
            f"\n---- the end of the log of server {n}, {server.kind}:\n{server.log_text[-3000:]}"
            for n, server in self.servers.items()
            if (server.home / "server.log").exists()
        )
        return ServerFailed(f"the ensemble {how}; {states}{logs}")

    def _fail_if_ended(self) -> None:
        for server in self.servers.values():
            if server.ended_by_itself:
                raise server.failure("ended by itself")


@contextlib.contextmanager
def prepare_ensemble(
    kinds: Sequence[Kind],
    config: Settings = "",
    *,
    observers: Collection[int] = (),
    own: Mapping[int, Settings] | None = None,
    jvm_flags: Sequence[str] = SMALL_FLAGS,
    own_flags: Mapping[int, Sequence[str]] | None = None,
) -> Iterator[Ensemble]:
    """Servers 1, 2, ... of the given kinds, none of them started.

    `own` and `own_flags` are what single members have in their zoo.cfg and on their command line besides.
    """
    ensemble = Ensemble(as_zoo_cfg(ENSEMBLE_SETTINGS) + as_zoo_cfg(config), jvm_flags)
    ids = range(1, len(kinds) + 1)
    ensemble.places = {server_id: Place.free(is_observer=server_id in observers) for server_id in ids}
    try:
        for server_id, kind in zip(ids, kinds, strict=True):
            ensemble.prepare(
                server_id, kind, (own or {}).get(server_id, ""), (own_flags or {}).get(server_id, ())
            )
        yield ensemble
    finally:
        ensemble.kill9()


@contextlib.contextmanager
def start_ensemble(
    kinds: Sequence[Kind],
    config: Settings = "",
    *,
    leader: int | None = None,
    observers: Collection[int] = (),
) -> Iterator[Ensemble]:
    """Servers 1, 2, ... of the given kinds as one serving ensemble; `leader` says who is to lead it."""
    with prepare_ensemble(kinds, config, observers=observers) as ensemble:
        ensemble.begin(leader)
        yield ensemble


def wait_until(is_so: Callable[[], bool], failure: Callable[[], Exception], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise failure()
        time.sleep(POLL_SECONDS)
