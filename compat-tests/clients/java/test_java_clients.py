"""Stock Java clients see no difference: the same program on a server and on Apache's, and equal output.

Curator's recipes and zkCli run as they are released; `*.java` is what they are made to do. What must differ
(times, ports) and what nobody promises (the order of ids and of ephemeral nodes) is taken out first.
"""

import functools
import re
import subprocess
from collections.abc import Callable, Mapping

import pytest

from clients.java.programs import POM, RUN_SECONDS_MAX, SOURCES, java_command, run_java
from support.reference import ReferenceUnavailable, find_reference
from support.targets import Address, OwnServers, Service, Target, TargetUnavailable, leader_of

pytestmark = pytest.mark.timeout(900)  # the first run fetches the libraries

RECIPES = re.findall(r'tales\.put\("(.+?)"', (SOURCES / "CuratorRecipes.java").read_text())
ZKCLI_LINES = [
    line
    for line in (SOURCES / "zkcli_session.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
REAPED = ("ttl and container nodes", "persistent node with a time to live")
APACHE = OwnServers("reference")
CURATOR = f"Curator {re.findall(r'>curator-recipes<.*?<version>(.+?)<', POM.read_text(), re.DOTALL)[0]}"


@pytest.fixture(scope="module", autouse=True)
def _java() -> None:
    try:
        find_reference()
        java_command("any")
    except ReferenceUnavailable as unavailable:
        pytest.skip(str(unavailable))


def told_by_curator(hosts: str) -> Mapping[str, str]:
    """What each recipe said, by its heading: all of them run in one JVM, which is slow to start.

    Some answers have whole paths in them, with the client's chroot; that is taken out, and so is the address
    at which the server sees the client: through a network it is another than on one machine.
    """
    _, slash, chroot = hosts.partition("/")
    output = run_java("CuratorRecipes", hosts)
    output = output.replace(f"{slash}{chroot}/", "/") if chroot else output
    output = re.sub(r"\bip [\da-f.:]+", "ip ADDRESS", output)
    parts = re.split(r"^== (.+)\n", output, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@functools.cache
def curator_with_apache() -> Mapping[str, str]:
    with APACHE.one() as service:
        return told_by_curator(service.hosts)


@pytest.fixture(scope="module")
def curator(service: Service) -> Mapping[str, str]:
    return told_by_curator(service.hosts)


@pytest.mark.parametrize("recipe", RECIPES)
def test_curator_recipe(
    recipe: str,
    target: Target,
    curator: Mapping[str, str],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("client", CURATOR)
    if recipe in REAPED and isinstance(target, Address):
        pytest.skip(f"it is about nodes that go by themselves; the settings of {target.name} decide when")
    told = curator[recipe]
    assert not re.search("BROKE OFF|NEVER|NO EVENT", told), told
    assert told == curator_with_apache()[recipe]


def told_across_a_restart(service: Service) -> str:
    command = java_command("SurvivesRestart", service.hosts)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdin
        assert client.stdout
        assert client.stdout.readline() == "READY\n"
        service.stop(1)
        service.start(1)
        told, _ = client.communicate("the server is back\n", timeout=RUN_SECONDS_MAX)
    return told


@functools.cache
def restart_with_apache() -> str:
    with APACHE.restartable() as service:
        return told_across_a_restart(service)


def test_session_ephemeral_node_and_watches_outlive_a_restart(
    restartable: Service, record_property: Callable[[str, object], None]
) -> None:
    """Watches of all five kinds are set anew by the client, and each fires as often as it should."""
    record_property("client", CURATOR)
    told = told_across_a_restart(restartable)
    assert "the session is the same true" in told
    assert told.endswith("further events: []\n== end\n")
    assert told == restart_with_apache()


def told_across_a_fail_over(service: Service) -> str:
    command = java_command("CuratorFailOver", service.hosts)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdin
        assert client.stdout
        said = []
        for line in client.stdout:
            if line == "READY\n":
                service.kill9(leader_of(service))
                print("it is gone", file=client.stdin, flush=True)
            else:
                said.append(line)
    return "".join(said)


@functools.cache
def fail_over_with_apache() -> str:
    with APACHE.ensemble() as service:
        return told_across_a_fail_over(service)


def test_recipes_in_use_outlive_a_fail_over_and_notice_a_lost_session(
    ensemble: Service, record_property: Callable[[str, object], None]
) -> None:
    """Locks, latch, lease, group, counter, cache: the leading server is killed, then a session ends."""
    record_property("client", CURATOR)
    told = told_across_a_fail_over(ensemble)
    assert not re.search("BROKE OFF|NEVER|NO EVENT", told), told
    assert told.endswith("counter 3\n== end\n")
    assert told == fail_over_with_apache()


def told_by_zkcli(hosts: str) -> list[str]:
    flags = ("-waitforconnection", "-server", hosts)
    return comparable(run_java("org.apache.zookeeper.ZooKeeperMain", *flags, lines=ZKCLI_LINES))


@functools.cache
def zkcli_with_apache() -> list[str]:
    with APACHE.restartable() as service:
        return told_by_zkcli(service.hosts)


def comparable(output: str) -> list[str]:
    """The lines of a zkCli session, then its watch events in order: they are printed by another thread."""
    output = re.sub(r"(?m)^Connecting to .*$", "Connecting", output)
    output = re.sub(r"(?m)^([cm]time) = .* 20\d\d$", r"\1 = now", output)
    output = re.sub(r"(?m)^\[/.*\]$", lambda ephemerals: f"{sorted(ephemerals[0][1:-1].split(', '))}", output)
    output = re.sub(r"(?m)^ip: [\da-f.:]+$", "ip: ADDRESS", output)
    output = re.sub(r"(?m)^(ip: .*)\n(digest: .*)$", r"\2\n\1", output)
    # Of its own end zkCli tells itself in another thread, for which it does not wait.
    dropped = ("WATCHER::", "WatchedEvent state:Closed type:None path:null zxid: -1")
    lines = [line for line in output.splitlines() if line and line not in dropped]
    events = [line for line in lines if line.startswith("WatchedEvent ")]
    return [line for line in lines if line not in events] + events


def test_zkcli(target: Target, record_property: Callable[[str, object], None]) -> None:
    """Every command of zkCli, with good and bad arguments; zxids, versions and counts included.

    Since zxids count, the server must be one that nobody else has used.
    """
    record_property("client", f"zkCli {find_reference().version}")
    try:
        with target.restartable() as service:
            told = told_by_zkcli(service.hosts)
    except TargetUnavailable:
        pytest.skip(
            f"it compares zxids, so it needs a server that nobody has used, and {target.name} is none"
        )
    assert told == zkcli_with_apache()
    assert sum(line.startswith("WatchedEvent ") for line in told) > 10
