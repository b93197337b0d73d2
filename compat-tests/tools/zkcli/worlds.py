"""Where transcripts take place: one server, three, or one of three that can only be read.

The tree is made empty again after each transcript.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import attrs
from kazoo.client import KazooClient

from support.ensembles import Ensemble, prepare_ensemble, start_ensemble
from support.servers import SMALL_FLAGS, Kind, free_ports, start_server

WorldKind: TypeAlias = Literal["standalone", "ensemble", "readonly"]

WORLD_KINDS: tuple[WorldKind, ...] = get_args(WorldKind)
FOLDER = Path(__file__).with_name("recordings")
TRANSCRIPTS = sorted(FOLDER.glob("*/*.txt"))
SUPER = "super:super"
SETTINGS = {
    "extendedTypesEnabled": "true",
    "enforceQuota": "true",
    "DigestAuthenticationProvider.superDigest": "super:gG7s8t3oDEtIqF6DM9LlI/R+9Ss=",
}
ENSEMBLE_SETTINGS = {**SETTINGS, "reconfigEnabled": "true", "standaloneEnabled": "false"}
READ_ONLY_SETTINGS = {**ENSEMBLE_SETTINGS, "tickTime": 500, "localSessionsEnabled": "true"}
READ_ONLY_FLAGS = (*SMALL_FLAGS, "-Dreadonlymode.enabled=true")
RESERVED = {"/zookeeper", "/zookeeper/config", "/zookeeper/quota"}


@attrs.frozen
class World:
    """Servers that zkCli can be pointed at, with the names that transcripts have for their ports."""

    hosts: str
    names: Mapping[str, str]  # e.g. {"23456": "{port}"}
    is_read_only: bool = False

    def reset(self) -> None:
        """Delete everything, ACLs or not, ephemerals of sessions that were left open included."""
        if self.is_read_only:
            return
        client = KazooClient(hosts=self.hosts, auth_data=[("digest", SUPER)])
        client.start()
        try:
            client.sync("/")
            for path in reversed(list(_below(client, "/"))):
                client.delete(path)
        finally:
            client.stop()
            client.close()


def _below(client: KazooClient, path: str) -> Iterator[str]:
    for child in client.get_children(path):
        child_path = f"{path.rstrip('/')}/{child}"
        if child_path not in RESERVED:
            yield child_path
        yield from _below(client, child_path)


@contextlib.contextmanager
def start_world(world_kind: WorldKind, kind: Kind = "triokeeper") -> Iterator[World]:
    nobody = {str(free_ports(1)[0]): "{nobody}"}
    if world_kind == "standalone":
        with start_server(kind, SETTINGS) as server, _file("zookeeper.request.timeout=0\n") as properties:
            yield World(
                server.host_port, {str(server.port): "{port}", str(properties): "{properties}", **nobody}
            )
    elif world_kind == "readonly":
        with prepare_ensemble([kind] * 3, READ_ONLY_SETTINGS, jvm_flags=READ_ONLY_FLAGS) as ensemble:
            ensemble[1].start()
            yield World(ensemble[1].host_port, {**_ports(ensemble), **nobody}, is_read_only=True)
    else:
        with (
            start_ensemble([kind] * 3, ENSEMBLE_SETTINGS, leader=2) as ensemble,
            _file(ensemble.lines()) as dynamic,
        ):
            yield World(ensemble.hosts, {**_ports(ensemble), str(dynamic): "{dynamic}", **nobody})


@attrs.frozen
class Worlds:
    """All kinds of worlds, of one kind of server, each started when it is first asked for."""

    server_kind: Kind
    _stack: contextlib.ExitStack
    _started: dict[str, World] = attrs.field(factory=dict)

    def of(self, file: Path) -> World:
        """The world that a transcript is about, by its folder."""
        return self[file.parent.name]

    def __getitem__(self, name: str) -> World:
        if name not in self._started:
            kind = next(kind for kind in WORLD_KINDS if kind == name)
            self._started[name] = self._stack.enter_context(start_world(kind, self.server_kind))
        return self._started[name]


@contextlib.contextmanager
def worlds_of(server_kind: Kind) -> Iterator[Worlds]:
    with contextlib.ExitStack() as stack:
        yield Worlds(server_kind, stack)


def _ports(ensemble: Ensemble) -> dict[str, str]:
    return {
        str(getattr(place, f"{name}_port")): f"{{{name}{server_id}}}"
        for server_id, place in ensemble.places.items()
        for name in ("client", "quorum", "election")
    }


@contextlib.contextmanager
def _file(text: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="zkcli-") as folder:
        file = Path(folder, "file.cfg")
        file.write_text(text)
        yield file
