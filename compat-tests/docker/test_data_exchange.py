"""Volumes taken over from Apache's server and given back: row 25 of the checklist."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from support import session_client as wire
from support.docker_containers import Lab
from support.reference import OLDER_RELEASES
from support.sample_data import SESSION_MS, authenticate, catalogue
from support.servers import SMALL_FLAGS, start_reference
from support.session_client import SessionClient
from support.super_user import SUPER_DIGEST
from support.whole_tree import Seen, differences, read_tree

pytestmark = [pytest.mark.long, pytest.mark.timeout(600, func_only=True)]

SETTINGS = {
    "snapCount": "300",
    "maxSessionTimeout": str(SESSION_MS),
    "extendedTypesEnabled": "true",
    "DigestAuthenticationProvider.superDigest": SUPER_DIGEST,
}
NEVER_REAP = "-Dznode.container.checkIntervalMs=100000000"


def everything(port: int) -> dict[str, Seen]:
    with closing(SessionClient.open(port, SESSION_MS)) as client:
        authenticate(client)
        return read_tree(client)


def fill(port: int) -> None:
    with closing(SessionClient.open(port, SESSION_MS)) as client:
        authenticate(client)
        list(client.call_all(list(catalogue())))


@pytest.mark.parametrize("older", [None, *OLDER_RELEASES])
def test_row_25_apaches_data_there_and_back(lab: Lab, tmp_path: Path, older: str | None) -> None:
    """Apache's server fills a directory, the image serves it and writes, and Apache's serves that."""
    data, log = tmp_path / "data", tmp_path / "datalog"
    data.mkdir()
    settings = SETTINGS | {"dataLogDir": str(log)}
    flags = (*SMALL_FLAGS, NEVER_REAP)
    with start_reference(settings, data_dir=data, jvm_flags=flags, older=older) as server:
        fill(server.port)
        by_apache = everything(server.port)
    assert len(by_apache) > 100

    extra = " ".join(f"{key}={value}" for key, value in SETTINGS.items())
    volumes = {str(data): {"bind": "/data"}, str(log): {"bind": "/datalog"}}
    box = lab.run(environment={"ZOO_CFG_EXTRA": extra, "JVMFLAGS": NEVER_REAP}, volumes=volumes)
    assert differences(by_apache, everything(box.port)) == []
    with closing(SessionClient.open(box.port, SESSION_MS)) as client:
        for number in range(500):
            assert client.call(wire.create(f"/by-container-{number}", b"x" * number)).err == 0
    by_container = everything(box.port)
    box.stop()

    own(tmp_path)
    with start_reference(settings, data_dir=data, jvm_flags=flags, older=older) as server:
        assert differences(by_container, everything(server.port)) == []


def own(folder: Path) -> None:
    """Take the files back that the container's user was given."""
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, os.geteuid(), os.getegid())
