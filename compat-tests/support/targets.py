"""What the tests are pointed at: `--server=` triokeeper, reference, both, docker:IMAGE or HOST:PORT[,...].

A target starts services, and a test uses them without knowing of which kind they are:

    def test_it(service: Service) -> None:       KazooClient(service.hosts)
    def test_it(restartable: Service) -> None:   the same; restartable.kill9(1) and restartable.start(1) work
    def test_it(ensemble: Service) -> None:      three members that can be killed and started

Started servers have the same settings whatever their kind (SETTINGS, FLAGS), so that a test may rely on them.
Servers at an address were started by somebody else: they are never stopped, and a test gets a part of the
tree of its own, which is removed afterwards.
"""

import secrets
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Final, Protocol, get_args

import attrs
from docker.errors import DockerException
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from scripts.docker_engine import EngineUnavailable, engine
from support.docker_containers import CLIENT_PORT, Box, Lab, open_lab, server_lines
from support.ensembles import Ensemble, prepare_ensemble
from support.patience import Patience
from support.reference import ReferenceUnavailable, find_reference
from support.servers import HOST, SMALL_FLAGS, Kind, Server, free_ports, prepare_server, triokeeper_version
from support.super_user import SUPER_DIGEST

SETTINGS: Final[Mapping[str, object]] = {
    "tickTime": 500,
    "maxSessionTimeout": 40_000,
    "initLimit": 20,
    "syncLimit": 10,
    "maxClientCnxns": 0,
}
FLAGS: Final = (
    "-Dzookeeper.extendedTypesEnabled=true",
    "-Dznode.container.checkIntervalMs=200",
    f"-Dzookeeper.DigestAuthenticationProvider.superDigest={SUPER_DIGEST}",
)
ANSWER_SECONDS_MAX: Final = 10.0
START_SECONDS_MAX: Final = 90.0
POLL_SECONDS: Final = 0.05
OWNER: Final = "ann:secret"  # whoever protects a node does it in this name, so that it can be removed
SHARED_PREFIX: Final = "compat-"  # of the nodes below which tests work on a server that is not theirs


class TargetUnavailable(Exception):
    """The target cannot do this; the message says why, and stands in the report as the reason of a skip."""


class Service(Protocol):
    """One server or several that clients see as one. Members are numbered from 1."""

    @property
    def hosts(self) -> str:
        """The connect string, with a chroot if the service is shared."""

    @property
    def members(self) -> Sequence[int]: ...

    def hosts_of(self, member: int) -> str:
        """The connect string of one member."""

    def kill9(self, member: int) -> None: ...

    def stop(self, member: int) -> None: ...

    def start(self, member: int) -> None:
        """Start a member that was stopped or killed, and wait until it serves."""

    def runs(self, member: int) -> bool: ...


class Target(Protocol):
    """Where services come from."""

    @property
    def name(self) -> str:
        """As short as a column's heading."""

    @property
    def kind(self) -> Kind | None:
        """The kind of servers that tests may start themselves; None if they may not."""

    def title(self) -> str:
        """With the version, where that is known. Raises TargetUnavailable."""

    def one(self) -> AbstractContextManager[Service]:
        """One server that is used, but neither stopped nor killed."""

    def restartable(self) -> AbstractContextManager[Service]:
        """One server for a test that ends and starts it."""

    def ensemble(self) -> AbstractContextManager[Service]:
        """Three servers for a test that ends and starts them."""


def parse_targets(text: str) -> list[Target]:
    """The targets that a value of --server names. Raises ValueError."""
    if text == "both":
        return [OwnServers("triokeeper"), OwnServers("reference")]
    for kind in get_args(Kind):
        if text == kind:
            return [OwnServers(kind)]
    if text.startswith("docker:") and text != "docker:":
        return [Containers(text.removeprefix("docker:"))]
    hosts = [host.rpartition(":") for host in text.split(",")]
    if all(name and port.isdigit() for name, _, port in hosts):
        return [Address(text)]
    raise ValueError(
        f"{text!r} is none of triokeeper, reference, both, docker:IMAGE and HOST:PORT[,HOST:PORT...]"
    )


def leader_of(service: Service) -> int:
    """The member that leads, once there is one."""
    patience = Patience(START_SECONDS_MAX)
    while not patience.is_over:
        for member in service.members:
            if service.runs(member) and _srvr(service.hosts_of(member)).get("Mode") == "leader":
                return member
        time.sleep(POLL_SECONDS)
    raise AssertionError(f"no member of {service.hosts} leads after {START_SECONDS_MAX} s")


def _srvr(host_port: str) -> dict[str, str]:
    host, _, port = host_port.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1) as probe:
            probe.sendall(b"srvr")
            answer = b"".join(iter(lambda: probe.recv(65536), b"")).decode()
    except OSError:
        return {}
    return dict(line.split(": ", 1) for line in answer.splitlines() if ": " in line)


# -- servers as child processes


@attrs.define
class Processes:
    """Servers started by support/servers.py."""

    servers: Mapping[int, Server]

    @property
    def hosts(self) -> str:
        return ",".join(server.host_port for server in self.servers.values())

    @property
    def members(self) -> Sequence[int]:
        return list(self.servers)

    def hosts_of(self, member: int) -> str:
        return self.servers[member].host_port

    def kill9(self, member: int) -> None:
        self.servers[member].kill9()

    def stop(self, member: int) -> None:
        self.servers[member].stop()

    def start(self, member: int) -> None:
        self.servers[member].start()

    def runs(self, member: int) -> bool:
        return not self.servers[member].has_ended


@attrs.frozen
class OwnServers:
    """Servers of either kind, on loopback."""

    kind: Kind

    @property
    def name(self) -> str:
        return self.kind

    def title(self) -> str:
        if self.kind == "triokeeper":
            return f"Triokeeper {triokeeper_version()}"
        try:
            return f"Apache ZooKeeper {find_reference().version}"
        except ReferenceUnavailable as reason:
            raise TargetUnavailable(f"Apache ZooKeeper cannot be run here: {reason}") from None

    @contextmanager
    def one(self) -> Iterator[Service]:
        self.title()
        with prepare_server(self.kind, SETTINGS, jvm_flags=(*SMALL_FLAGS, *FLAGS)) as server:
            server.start()
            yield Processes({1: server})

    def restartable(self) -> AbstractContextManager[Service]:
        return self.one()

    @contextmanager
    def ensemble(self) -> Iterator[Service]:
        self.title()
        ensemble: Ensemble
        with prepare_ensemble([self.kind] * 3, SETTINGS, jvm_flags=(*SMALL_FLAGS, *FLAGS)) as ensemble:
            ensemble.begin()
            yield Processes(ensemble.servers)


# -- containers


@attrs.define
class Boxes:
    """Containers, each with a port of this machine that it keeps through restarts."""

    boxes: Mapping[int, Box]
    ports: Mapping[int, int]

    @property
    def hosts(self) -> str:
        return ",".join(map(self.hosts_of, self.members))

    @property
    def members(self) -> Sequence[int]:
        return list(self.boxes)

    def hosts_of(self, member: int) -> str:
        return f"{HOST}:{self.ports[member]}"

    def kill9(self, member: int) -> None:
        self.boxes[member].kill()

    def stop(self, member: int) -> None:
        self.boxes[member].stop()

    def start(self, member: int) -> None:
        self.boxes[member].start()
        self.boxes[member].wait_until_serving(START_SECONDS_MAX)

    def runs(self, member: int) -> bool:
        return bool(self.boxes[member].state()["Running"])


@attrs.frozen
class Containers:
    """An image that takes the variables of ZooKeeper's official one."""

    image: str
    kind: None = None

    @property
    def name(self) -> str:
        return f"docker:{self.image}"

    def title(self) -> str:
        return f"the image {self.image}"

    def one(self) -> AbstractContextManager[Service]:
        return self._started([1])

    def restartable(self) -> AbstractContextManager[Service]:
        return self._started([1])

    def ensemble(self) -> AbstractContextManager[Service]:
        return self._started([1, 2, 3])

    @contextmanager
    def _started(self, members: Sequence[int]) -> Iterator[Service]:
        with ExitStack() as stack:
            try:
                lab = stack.enter_context(open_lab(stack.enter_context(engine()), self.image))
                lab.client.images.get(self.image)
            except (EngineUnavailable, DockerException) as reason:
                raise TargetUnavailable(f"the image {self.image} cannot be run here: {reason}") from None
            service = self._service(lab, members)
            for box in service.boxes.values():
                box.start()
            for box in service.boxes.values():
                box.wait_until_serving(START_SECONDS_MAX)
            yield service

    def _service(self, lab: Lab, members: Sequence[int]) -> Boxes:
        ports = dict(zip(members, free_ports(len(members)), strict=True))
        network = lab.network()
        names = {member: f"zoo{member}" for member in members}
        boxes = {
            member: lab.create(
                environment=self._environment(member, names),
                network=network,
                aliases=[names[member]],
                hostname=names[member],
                ports={f"{CLIENT_PORT}/tcp": (HOST, ports[member])},
            )
            for member in members
        }
        return Boxes(boxes, ports)

    def _environment(self, member: int, names: Mapping[int, str]) -> dict[str, str]:
        environment = {
            "ZOO_TICK_TIME": str(SETTINGS["tickTime"]),
            "ZOO_INIT_LIMIT": str(SETTINGS["initLimit"]),
            "ZOO_SYNC_LIMIT": str(SETTINGS["syncLimit"]),
            "ZOO_MAX_CLIENT_CNXNS": str(SETTINGS["maxClientCnxns"]),
            "ZOO_CFG_EXTRA": f"maxSessionTimeout={SETTINGS['maxSessionTimeout']}",
            "ZOO_4LW_COMMANDS_WHITELIST": "*",
            "SERVER_JVMFLAGS": " ".join(FLAGS),
        }
        if len(names) == 1:
            return environment
        return environment | {"ZOO_MY_ID": str(member), "ZOO_SERVERS": server_lines(names)}


# -- somebody else's servers


@attrs.frozen
class SharedService:
    """A part of somebody else's tree."""

    address: str
    chroot: str

    @property
    def hosts(self) -> str:
        return self.address + self.chroot

    @property
    def members(self) -> Sequence[int]:
        return range(1, 2 + self.address.count(","))

    def hosts_of(self, member: int) -> str:
        return self.address.split(",")[member - 1] + self.chroot

    def kill9(self, member: int) -> None:
        raise AssertionError("a test that ends servers asks for `restartable` or `ensemble`")

    stop = start = kill9

    def runs(self, member: int) -> bool:
        return True


@attrs.frozen
class Address:
    """Servers that run already."""

    address: str
    kind: None = None

    @property
    def name(self) -> str:
        return self.address

    def title(self) -> str:
        version = _srvr(self.address.partition(",")[0]).get("Zookeeper version", "")
        return f"the servers at {self.address}" + (
            f" (version {version.partition(',')[0]})" if version else ""
        )

    @contextmanager
    def one(self) -> Iterator[Service]:
        chroot = f"/{SHARED_PREFIX}{secrets.token_hex(4)}"
        with self._client() as client:
            client.create(chroot)
        try:
            yield SharedService(self.address, chroot)
        finally:
            with self._client() as client:
                client.add_auth("digest", OWNER)
                client.delete(chroot, recursive=True)

    def restartable(self) -> AbstractContextManager[Service]:
        raise TargetUnavailable(
            f"it needs a server that it may restart and empty, and those at {self.address} are not its own"
        )

    def ensemble(self) -> AbstractContextManager[Service]:
        raise TargetUnavailable(
            f"it kills servers in the middle, and those at {self.address} are not its own"
        )

    def check(self) -> None:
        """Raise TargetUnavailable unless a server answers."""
        with self._client():
            pass

    @contextmanager
    def _client(self) -> Iterator[KazooClient]:
        client = KazooClient(self.address)
        try:
            client.start(ANSWER_SECONDS_MAX)
        except (KazooException, KazooTimeoutError):
            raise TargetUnavailable(
                f"no ZooKeeper server answers at {self.address} within {ANSWER_SECONDS_MAX:.0f} s: "
                "start one there first"
            ) from None
        finally:
            if not client.connected:
                client.stop()
        try:
            yield client
        finally:
            client.stop()
            client.close()


def restore(service: Service) -> None:
    """Start the members that a test has ended."""
    for member in service.members:
        if not service.runs(member):
            service.start(member)
