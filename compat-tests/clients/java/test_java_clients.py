"""Stock Java clients see no difference: the same program on both servers, and equal output.

Curator's recipes and zkCli run as they are released; `*.java` is what they are made to do. What must differ
(times, ports) and what nobody promises (the order of ids and of ephemeral nodes) is taken out first.
"""

import functools
import re
import subprocess
from collections.abc import Mapping

import pytest

from clients.java.programs import RUN_SECONDS_MAX, SOURCES, java_command, run_java
from support.reference import ReferenceUnavailable, find_reference
from support.servers import SMALL_FLAGS, Kind, Server, prepare_server

pytestmark = pytest.mark.timeout(900)  # the first run fetches the libraries

CONTAINERS_OFTEN = "-Dznode.container.checkIntervalMs=200"
RECIPES = re.findall(r'tales\.put\("(.+?)"', (SOURCES / "CuratorRecipes.java").read_text())
ZKCLI_LINES = [
    line
    for line in (SOURCES / "zkcli_session.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


@pytest.fixture(scope="module", autouse=True)
def _java() -> None:
    try:
        find_reference()
        java_command("any")
    except ReferenceUnavailable as unavailable:
        pytest.skip(str(unavailable))


def start(kind: Kind) -> Server:
    """A server with nodes that have a time to live; it looks for what is to go every 200 ms."""
    settings = {"extendedTypesEnabled": "true"}
    server = prepare_server(kind, settings, jvm_flags=(*SMALL_FLAGS, CONTAINERS_OFTEN))
    server.start()
    return server


@functools.cache
def told_by_curator(kind: Kind) -> Mapping[str, str]:
    """What each recipe said, by its heading: all of them run in one JVM, which is slow to start."""
    with start(kind) as server:
        output = run_java("CuratorRecipes", server.host_port)
    parts = re.split(r"^== (.+)\n", output, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("recipe", RECIPES)
def test_curator_recipe(recipe: str) -> None:
    told = told_by_curator("triokeeper")[recipe]
    assert told == told_by_curator("reference")[recipe]
    assert not re.search("BROKE OFF|NEVER|NO EVENT", told), told


def told_across_a_restart(kind: Kind) -> str:
    with start(kind) as server:
        command = java_command("SurvivesRestart", server.host_port)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdin
            assert client.stdout
            assert client.stdout.readline() == "READY\n"
            server.restart()
            told, _ = client.communicate("the server is back\n", timeout=RUN_SECONDS_MAX)
    return told


def test_session_ephemeral_node_and_watches_outlive_a_restart() -> None:
    """Watches of all five kinds are set anew by the client, and each fires as often as it should."""
    told = told_across_a_restart("triokeeper")
    assert told == told_across_a_restart("reference")
    assert "the session is the same true" in told
    assert told.endswith("further events: []\n== end\n")


def told_by_zkcli(kind: Kind) -> list[str]:
    with start(kind) as server:
        flags = ("-waitforconnection", "-server", server.host_port)
        return comparable(run_java("org.apache.zookeeper.ZooKeeperMain", *flags, lines=ZKCLI_LINES))


def comparable(output: str) -> list[str]:
    """The lines of a zkCli session, then its watch events in order: they are printed by another thread."""
    output = re.sub(r"(?m)^Connecting to .*$", "Connecting", output)
    output = re.sub(r"(?m)^([cm]time) = .* 20\d\d$", r"\1 = now", output)
    output = re.sub(r"(?m)^\[/.*\]$", lambda ephemerals: f"{sorted(ephemerals[0][1:-1].split(', '))}", output)
    output = re.sub(r"(?m)^(ip: .*)\n(digest: .*)$", r"\2\n\1", output)
    lines = [line for line in output.splitlines() if line and line != "WATCHER::"]
    events = [line for line in lines if line.startswith("WatchedEvent ")]
    return [line for line in lines if line not in events] + events


def test_zkcli() -> None:
    """Every command of zkCli, with good and bad arguments; zxids, versions and counts included."""
    told = told_by_zkcli("triokeeper")
    assert told == told_by_zkcli("reference")
    assert sum(line.startswith("WatchedEvent ") for line in told) > 10
