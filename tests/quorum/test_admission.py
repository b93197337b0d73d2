"""Connections of learners that there is room for, and those there is none for."""

import errno
import socket
from contextlib import ExitStack

import pytest
import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from persistence.open_files import files_for_clients, files_for_peers, strangers_max
from quorum.admission import UNFINISHED_MAX, UNLISTED_MAX, Admission
from quorum.errors import PeerError
from quorum.learner_links import LearnerLink
from quorum.network import RealNetwork, serve_peers

LISTED = (1, 2, 3)


def link() -> LearnerLink:
    return LearnerLink(memory_stream_pair()[0], data_bytes_max=100)


def introduced(admission: Admission, *server_ids: int) -> list[LearnerLink]:
    links = [link() for _ in server_ids]
    for each, server_id in zip(links, server_ids, strict=True):
        admission.introduced(each, server_id)
    return links


def test_only_so_many_servers_that_nobody_lists() -> None:
    """Wherever they are in their handshake. Listed ones get in all the same, others once some have left."""
    admission = Admission(lambda: LISTED)
    strangers = introduced(admission, *range(10, 10 + UNLISTED_MAX))
    for each in strangers[::2]:
        admission.entered(each)
    with pytest.raises(PeerError, match="server 9 is not listed, nor are 64 more"):
        admission.introduced(link(), 9)
    introduced(admission, *LISTED)
    admission.left(strangers[0])
    introduced(admission, 9)


def test_who_goes_no_further_gives_way_unless_it_is_a_listed_servers_first() -> None:
    """A flood of handshakes costs no member its place."""
    admission = Admission(lambda: LISTED)
    members = introduced(admission, *LISTED)
    flood = introduced(admission, *[3] * (UNFINISHED_MAX + 2))
    assert not any(each.is_aborted for each in members)
    assert [each.is_aborted for each in flood] == [True, True] + [False] * UNFINISHED_MAX
    admission.entered(members[0])
    assert not introduced(admission, 1)[0].is_aborted


# --- Open files.


def next_file() -> int:
    with socket.socket() as probe:
        return probe.fileno()


async def test_connections_of_peers_leave_files_for_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """On any of their ports, and those we dial ourselves."""
    served: list[int] = []

    async def serve(stream: trio.abc.Stream) -> None:
        assert isinstance(stream, trio.SocketStream)
        served.append(stream.socket.fileno())
        async with stream:
            await stream.receive_some(1)

    network = RealNetwork()
    listeners = await network.listen("127.0.0.1", 0)
    assert isinstance(listeners[0], trio.SocketListener)
    port = listeners[0].socket.getsockname()[1]
    bound = next_file() + 20
    monkeypatch.setattr("quorum.network.files_for_peers", lambda: bound)
    with ExitStack() as strangers:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_peers, serve, listeners)
            for _ in range(30):
                strangers.enter_context(socket.create_connection(("127.0.0.1", port)))
                await wait_all_tasks_blocked(0.001)
            assert 8 <= len(served) <= 20
            assert max(served) < bound
            with pytest.raises(OSError, match="ulimit"):
                await network.dial("127.0.0.1", port)
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("failure", ["the limit is reached", "there is a reserve"])
async def test_a_link_needs_no_second_file(monkeypatch: pytest.MonkeyPatch, failure: str) -> None:
    """What it is told to send leaves all the same. The limit of files once ended the process here."""
    network = RealNetwork()
    [listener] = await network.listen("127.0.0.1", 0)
    assert isinstance(listener, trio.SocketListener)
    dialled = await network.dial("127.0.0.1", listener.socket.getsockname()[1])
    accepted = await listener.accept()
    if failure == "there is a reserve":
        monkeypatch.setattr("quorum.learner_links.files_for_peers", lambda: 0)
    else:
        monkeypatch.setattr("socket.fromfd", _no_more_files)
    link = LearnerLink(accepted, data_bytes_max=100)
    async with listener, dialled, accepted, trio.open_nursery() as nursery:
        nursery.start_soon(link.send_queued)
        link.send(b"hello")
        link.flush()
        assert await dialled.receive_some(100) == b"hello"
        nursery.cancel_scope.cancel()


def _no_more_files(fd: int, family: int, kind: int) -> socket.socket:
    raise OSError(errno.EMFILE, "Too many open files")


def test_clients_leave_files_for_peers_and_strangers_for_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (1024, 1024))
    assert files_for_peers() == files_for_clients(has_peers=False) == 1024 - 32
    assert files_for_clients(has_peers=True) == 1024 - 32 - 256
    assert strangers_max(64) == 32
