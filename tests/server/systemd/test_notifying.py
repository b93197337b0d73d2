"""What systemd is told, by a socket that stands in for its own."""

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from server.pipeline import Pipeline
from server.systemd.notifying import ServiceManager, watchdog_seconds
from support.ensembles import prepare_ensemble
from support.servers import start_server
from tests.captured_logs import capture_logs
from tests.testing.stories import wait_until

Systemd = Callable[[str], socket.socket]
WAIT_SECONDS_MAX = 30.0
CLIENT_SETTINGS = {"tickTime": 200}


@pytest.fixture
def systemd(request: pytest.FixtureRequest) -> Systemd:
    """Listens where it is told, as NOTIFY_SOCKET would say it."""

    def listen(address: str) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        request.addfinalizer(listener.close)
        listener.bind(b"\0" + address[1:].encode() if address.startswith("@") else address)
        listener.settimeout(WAIT_SECONDS_MAX)
        return listener

    return listen


def pipeline(**facts: object) -> Any:
    return cast("Pipeline", SimpleNamespace(**({"is_read_only": False, "mode": "leader"} | facts)))


SERVING = pipeline(is_serving=True)
NOT_SERVING = pipeline(is_serving=False)
READ_ONLY = pipeline(is_serving=True, is_read_only=True)


def manager_of(address: str, **environ: str) -> ServiceManager:
    manager = ServiceManager.of({"NOTIFY_SOCKET": address} | environ, os.getpid())
    assert manager is not None
    return manager


@pytest.mark.parametrize("form", ["path", "path with spaces", "abstract"])
async def test_a_server_that_serves_is_ready(form: str, systemd: Systemd, tmp_path: Path) -> None:
    address = f"@triokeeper-{tmp_path}" if form == "abstract" else str(tmp_path / form)
    listener = systemd(address)

    await manager_of(address).tell("READY=1", "STATUS=ok")

    assert listener.recv(1000) == b"READY=1\nSTATUS=ok"


async def test_a_member_is_ready_once_when_it_first_has_a_quorum(
    systemd: Systemd, tmp_path: Path, autojump_clock: MockClock
) -> None:
    listener = systemd(str(tmp_path / "notify"))
    pipelines = [NOT_SERVING]
    manager = manager_of(str(tmp_path / "notify"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(manager.report, lambda: pipelines[-1])
        for each in (NOT_SERVING, READ_ONLY, SERVING, NOT_SERVING, SERVING):
            pipelines.append(each)
            await trio.sleep(10)
        nursery.cancel_scope.cancel()

    told = [listener.recv(1000) for _ in range(4)]
    assert told == [
        b"STATUS=waiting for a quorum",
        b"READY=1\nSTATUS=serving, mode leader",
        b"STATUS=waiting for a quorum",
        b"STATUS=serving, mode leader",
    ]
    assert is_silent(listener)


def is_silent(listener: socket.socket) -> bool:
    listener.setblocking(False)
    try:
        listener.recv(1000)
    except BlockingIOError:
        return True
    return False


async def test_the_watchdog_hears_of_a_loop_that_turns(
    systemd: Systemd, tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Twice in the time that systemd waits."""
    listener = systemd(str(tmp_path / "notify"))
    manager = manager_of(str(tmp_path / "notify"), WATCHDOG_USEC="3000000")

    with trio.move_on_after(4):
        await manager.report(lambda: SERVING)

    told = [listener.recv(1000) for _ in range(4)]
    assert sorted(told) == [b"READY=1\nSTATUS=serving, mode leader", *[b"WATCHDOG=1"] * 3]
    assert is_silent(listener)


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "500000"}, 0.5),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "7"}, 0.5),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_for_the_process_it_names(environ: dict[str, str], seconds: float | None) -> None:
    assert watchdog_seconds(environ, pid=7) == seconds


@pytest.mark.parametrize("address", ["vsock:2:1234", "notify", "@", "/"])
def test_an_address_that_is_none_is_named(address: str) -> None:
    with capture_logs() as logs:
        assert ServiceManager.of({"NOTIFY_SOCKET": address}, 7) is None

    assert [entry["NOTIFY_SOCKET"] for entry in logs] == [address]


def test_nobody_to_tell() -> None:
    assert ServiceManager.of({}, 7) is None
    assert ServiceManager.of({"NOTIFY_SOCKET": ""}, 7) is None


@pytest.mark.parametrize("address", ["/nowhere/notify", "@nobody-listens-here", "/" + "x" * 200])
async def test_a_socket_that_nobody_listens_on_is_logged_once(address: str) -> None:
    manager = manager_of(address)

    with capture_logs() as logs:
        await manager.tell("READY=1")
        await manager.tell("STOPPING=1")

    assert [entry["event"] for entry in logs] == ["systemd_not_told"]
    assert "Type=notify" in logs[0]["remedy"]


async def test_a_systemd_that_does_not_read_holds_nothing_up(
    systemd: Systemd, tmp_path: Path, autojump_clock: MockClock
) -> None:
    systemd(str(tmp_path / "notify"))
    manager = manager_of(str(tmp_path / "notify"))

    with capture_logs() as logs:
        while not logs:
            await manager.tell("STATUS=still here")

    assert logs[0]["reason"] == "it took nothing for 2 s"


def test_a_real_server_tells_when_it_serves_and_when_it_stops(
    systemd: Systemd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = systemd(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))

    with start_server("triokeeper", CLIENT_SETTINGS) as server:
        assert listener.recv(1000) == b"READY=1\nSTATUS=serving, mode standalone"
        os.kill(server.pid, signal.SIGTERM)
        assert listener.recv(1000) == b"STOPPING=1"


def test_a_real_member_is_ready_when_the_others_are_there(
    systemd: Systemd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = systemd(str(tmp_path / "notify"))
    with prepare_ensemble(["triokeeper"] * 3) as ensemble:
        first, *others = ensemble.ids
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        ensemble.spawn(first)
        assert listener.recv(1000) == b"STATUS=waiting for a quorum"

        monkeypatch.delenv("NOTIFY_SOCKET")
        ensemble.spawn(*others)
        assert listener.recv(1000).startswith(b"READY=1\nSTATUS=serving, mode ")


def test_a_server_goes_on_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/notify")

    with start_server("triokeeper", CLIENT_SETTINGS) as server:
        assert server.mode == "standalone"
        wait_until(lambda: "systemd_not_told" in server.log_text)
