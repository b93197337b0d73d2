"""Where transcripts take place: one server or three, and the tree made empty again after each of them."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import attrs
from kazoo.client import KazooClient
from zk_ensembles import Ensemble, start_ensemble
from zk_servers import Kind, free_ports, start_server

WorldKind: TypeAlias = Literal["standalone", "ensemble"]

FOLDER = Path(__file__).with_name("zkcli")
SUPER = "super:super"
SETTINGS = {
    "extendedTypesEnabled": "true",
    "enforceQuota": "true",
    "DigestAuthenticationProvider.superDigest": "super:gG7s8t3oDEtIqF6DM9LlI/R+9Ss=",
}
ENSEMBLE_SETTINGS = {**SETTINGS, "reconfigEnabled": "true", "standaloneEnabled": "false"}
RESERVED = {"/zookeeper", "/zookeeper/config", "/zookeeper/quota"}


@attrs.frozen
class World:
    """Servers that zkCli can be pointed at, with the names that transcripts have for their ports."""

    hosts: str
    names: Mapping[str, str]  # e.g. {"23456": "{port}"}

    def reset(self) -> None:
        """Delete everything, ACLs or not, ephemerals of sessions that were left open included."""
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
    else:
        with (
            start_ensemble([kind] * 3, ENSEMBLE_SETTINGS, leader=2) as ensemble,
            _file(ensemble.lines()) as dynamic,
        ):
            yield World(ensemble.hosts, {**_ports(ensemble), str(dynamic): "{dynamic}", **nobody})


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
