"""Starting, stopping, dying, and being asked about it: rows 23, 24, 46, 55 and 56 of the checklist."""

import socket
import time
from contextlib import closing
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from scripts.docker_engine import install_packages
from support import session_client as wire
from support.docker_containers import HOST, Box, Lab, wait_for
from support.session_client import SessionClient

pytestmark = [pytest.mark.long, pytest.mark.timeout(600, func_only=True)]

READY_SECONDS_MAX = 1.0
STOP_SECONDS_MAX = 2.0
SESSION_MS = 4000


def connected(box: Box) -> KazooClient:
    client = KazooClient(box.host_port)
    client.start(timeout=10)
    return client


def test_ready_within_a_second_of_the_start(lab: Lab) -> None:
    """Counted in CPU time, so that other work on this machine does not matter: nothing in a start waits."""
    box = lab.start()
    wait_for(lambda: box.mode is not None, box)
    usage = box.container.stats(stream=False, one_shot=True)["cpu_stats"]["cpu_usage"]["total_usage"]

    assert usage / 1e9 < READY_SECONDS_MAX


def test_row_23_docker_stop_is_quick_and_loses_nothing(lab: Lab) -> None:
    box = lab.run()
    client = connected(box)
    written = [client.create("/n-", b"x" * 100, sequence=True) for _ in range(500)]
    client.create("/gone", ephemeral=True)

    seconds = box.stop()

    client.stop()
    client.close()
    assert seconds < STOP_SECONDS_MAX
    assert box.exit_code in (0, 143)
    box.start()
    box.wait_until_serving()
    client = connected(box)
    assert set(written) <= {f"/{name}" for name in client.get_children("/")}
    client.stop()
    client.close()


def test_docker_stop_right_after_the_start(lab: Lab) -> None:
    """A signal is not lost while the entrypoint still works."""
    for delay in (0.01, 0.05, 0.1, 0.2, 0.4, 0.8):
        box = lab.start()
        time.sleep(delay)
        assert box.stop() < STOP_SECONDS_MAX
        assert box.exit_code in (0, 130, 143)


def test_row_24_kill_9_then_start(lab: Lab) -> None:
    """What was acknowledged is there; a session that nobody continues ends with its ephemeral node.

    Some of it is in a snapshot, and the last of it in the log alone.
    """
    box = lab.run(environment={"ZOO_CFG_EXTRA": "snapCount=50"})
    client = SessionClient.open(box.port, SESSION_MS)
    for number in range(200):
        assert client.call(wire.create(f"/n-{number}", b"x")).err == 0
    wait_for(lambda: snapshots_in(box) > 1, box)
    assert client.call(wire.create("/ephemeral", b"", flags=wire.EPHEMERAL)).err == 0
    box.kill()
    client.drop()

    box.start()
    box.wait_until_serving()

    reader = connected(box)
    assert {f"n-{number}" for number in range(200)} <= set(reader.get_children("/"))
    assert reader.exists("/ephemeral") is not None
    wait_for(lambda: reader.exists("/ephemeral") is None, box, 30)
    reader.stop()
    reader.close()


def test_health_is_service(lab: Lab) -> None:
    """Healthy once it serves; a container without a server is not, nor one whose server hangs."""
    quick = {"test": ["CMD", "triokeeper-healthcheck"], "interval": 10**9, "timeout": 5 * 10**9, "retries": 1}
    box = lab.start(healthcheck=quick)
    wait_for(lambda: box.health == "healthy", box)
    nobody = lab.start("sleep", "60", healthcheck=quick)
    wait_for(lambda: nobody.health == "unhealthy", nobody)

    hung = lab.run("zkServer.sh", "start-foreground", init=True, healthcheck=quick)
    wait_for(lambda: hung.health == "healthy", hung)
    hung.shell("kill -STOP $(pgrep -f '[t]riokeeper start')")

    wait_for(lambda: hung.health == "unhealthy", hung)
    hung.shell("kill -CONT $(pgrep -f '[t]riokeeper start')")
    wait_for(lambda: hung.health == "healthy", hung)


def test_a_member_without_a_quorum_is_not_healthy(lab: Lab) -> None:
    servers = "server.1=localhost:2888:3888;2181 server.2=nowhere-a:2888:3888 server.3=nowhere-b:2888:3888"
    box = lab.start(environment={"ZOO_SERVERS": servers, "ZOO_4LW_COMMANDS_WHITELIST": "*"})
    wait_for(lambda: box.shell("echo ruok | nc localhost 2181").stdout == "imok", box)

    assert box.run("triokeeper-healthcheck").code != 0
    assert "not currently serving" in box.word("srvr")


def test_orphans_do_not_stay_zombies(lab: Lab) -> None:
    box = lab.run()
    for _ in range(10):
        box.shell("(sleep 0.05 &) ; (sh -c 'sleep 0.05 & exit' &)")

    wait_for(lambda: "sleep" not in box.run("ps", "-eo", "args").stdout, box)
    assert "Z" not in {state[0] for state in box.run("ps", "-eo", "stat=").stdout.split()}


def test_row_46_purging_at_the_start(lab: Lab) -> None:
    box = lab.run(environment={"ZOO_AUTOPURGE_PURGEINTERVAL": "1", "ZOO_CFG_EXTRA": "snapCount=20"})
    client = connected(box)
    for _ in range(200):
        client.create("/n-", b"x", sequence=True)
    client.stop()
    client.close()
    wait_for(lambda: snapshots_in(box) > 3, box)
    box.stop()

    box.start()
    box.wait_until_serving()

    wait_for(lambda: snapshots_in(box) <= 3, box)
    assert box.log.count("Purge task started.") == 2


FASTER = 600  # an hour in six seconds
DAY_MS = 86_400_000


def test_row_46_purging_every_hour(lab: Lab) -> None:
    """With a clock that runs faster: what is too old goes while the server runs, again and again.

    As user 1000 from the start, because the library that changes the clock shares memory with its process.
    """
    library = fast_clock()
    box = lab.run(
        user="1000",
        environment={
            "ZOO_AUTOPURGE_PURGEINTERVAL": "1",
            "ZOO_CFG_EXTRA": f"snapCount=20 maxSessionTimeout={DAY_MS}",
            "LD_PRELOAD": "/fast-clock.so",
            "FAKETIME": f"+0 x{FASTER}",
        },
        volumes={str(library): {"bind": "/fast-clock.so", "mode": "ro"}},
    )
    for _ in range(2):
        removed, purges = (box.log.count(said) for said in ("purged", "Purge task completed."))
        with closing(SessionClient.open(box.port, DAY_MS)) as client:
            for _ in range(200):
                assert client.call(wire.create("/n-", b"x", flags=wire.SEQUENTIAL)).err == 0

        wait_for(lambda: box.log.count("Purge task completed.") > purges + 1, box)  # noqa: B023

        assert snapshots_in(box) <= 3
        assert box.log.count("purged") > removed
    assert box.mode == "standalone"


def fast_clock() -> Path:
    """The library that makes a process see time pass faster, installed if it is not there."""
    found = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    if found is None:
        install_packages("libfaketime")
        found = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    return found.resolve()


def snapshots_in(box: Box) -> int:
    return box.run("ls", "/data/version-2").stdout.count("snapshot.")


ONE_TOO_MANY = """
import socket
connections = [socket.create_connection(("localhost", 2181)) for _ in range(60)]
with socket.create_connection(("localhost", 2181), timeout=10) as one_too_many:
    try:
        print("said", one_too_many.recv(1))
    except ConnectionResetError:
        print("refused")
"""


def test_row_55_the_61st_connection_from_one_address(lab: Lab) -> None:
    """Inside the container: the proxy at a published port keeps a reset to itself."""
    box = lab.run()

    assert box.run("python3", "-c", ONE_TOO_MANY).stdout in ("said b''\n", "refused\n")
    assert "max is 60" in box.wait_for_line("Too many connections from ")


def test_row_56_idle_connections_are_closed_without_noise(lab: Lab) -> None:
    box = lab.run()
    noise = len(box.log_lines)
    for _ in range(20):
        assert box.shell("nc -z localhost 2181").code == 0
        assert box.shell("echo > /dev/tcp/localhost/2181").code == 0
    began = time.monotonic()
    with socket.create_connection((HOST, box.port), timeout=30) as idle:
        assert idle.recv(1) == b""
    seconds = time.monotonic() - began

    assert 5 < seconds < 20
    lines = [line for line in box.log_lines[noise:] if " loop_held " not in line]  # of a busy machine
    assert not [line for line in lines if " ERROR " in line or " WARN" in line]
