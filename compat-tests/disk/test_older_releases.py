"""Data directories of earlier Apache releases, taken over and given back."""

from contextlib import closing
from pathlib import Path

import pytest

from disk.test_disk_exchange import NEVER_REAP, SETTINGS
from support import session_client as wire
from support.reference import OLDER_RELEASES, ReferenceUnavailable, find_reference
from support.sample_data import SESSION_MS, authenticate, catalogue
from support.servers import SMALL_FLAGS, Kind, Server, start_server
from support.session_client import SessionClient
from support.whole_tree import Seen, differences, read_tree

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.mark.parametrize("release", OLDER_RELEASES)
def test_data_of_an_older_release_there_and_back(tmp_path: Path, release: str) -> None:
    """The older server writes and is killed; ours serves that and writes; the older one serves all of it."""
    try:
        find_reference(release)
    except ReferenceUnavailable as reason:
        pytest.skip(str(reason))
    with started("reference", tmp_path, release) as server:
        with closing(SessionClient.open(server.port, SESSION_MS)) as client:
            authenticate(client)
            list(client.call_all(list(catalogue())))
        by_apache = everything(server.port)
        server.kill9()
    assert len(by_apache) > 100

    with started("triokeeper", tmp_path) as server:
        assert differences(by_apache, everything(server.port)) == []
        with closing(SessionClient.open(server.port, SESSION_MS)) as client:
            for number in range(500):
                assert client.call(wire.create(f"/ours-{number}", b"x" * number)).err == 0
        by_ours = everything(server.port)
        server.kill9()

    with started("reference", tmp_path, release) as server:
        assert differences(by_ours, everything(server.port)) == []


def started(kind: Kind, data_dir: Path, release: str | None = None) -> Server:
    flags = (*SMALL_FLAGS, NEVER_REAP)
    return start_server(kind, SETTINGS, data_dir=data_dir, jvm_flags=flags, older=release)


def everything(port: int) -> dict[str, Seen]:
    with closing(SessionClient.open(port, SESSION_MS)) as client:
        authenticate(client)
        return read_tree(client)
