"""Ensembles: rows 5, 6, 11, 12, 19, 35, 39, 42, 43 and 57; members killed, paused, cut off and replaced."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from docker.client import DockerClient

from support.docker_containers import Box, Lab, server_lines, wait_for
from support.kazoo_load import counting, kazoo_client
from support.monitor_rules import check_mntr, check_stat
from support.servers import free_ports

pytestmark = [pytest.mark.long, pytest.mark.timeout(900, func_only=True)]

THREE = {1: "zoo1", 2: "zoo2", 3: "zoo3"}
COMPOSE = Path(__file__).parents[2] / "docker" / "compose" / "three-servers.yml"


def start_members(
    lab: Lab, network: str, numbers: Sequence[int] = (1, 2, 3), **environment: str
) -> list[Box]:
    common = {"ZOO_SERVERS": server_lines(THREE), "ZOO_4LW_COMMANDS_WHITELIST": "*", **environment}
    return [
        lab.start(
            environment={"ZOO_MY_ID": str(number), **common},
            network=network,
            aliases=[f"zoo{number}"],
            hostname=f"zoo{number}",
        )
        for number in numbers
    ]


def modes(boxes: Sequence[Box]) -> list[str | None]:
    return sorted((box.mode for box in boxes), key=str)


def wait_for_all(boxes: Sequence[Box]) -> None:
    others = ["follower"] * (len(boxes) - 1)
    wait_for(lambda: modes(boxes) == [*others, "leader"], boxes[0])


def leader_of(boxes: Sequence[Box]) -> Box:
    return next(box for box in boxes if box.mode == "leader")


def hosts_of(boxes: Sequence[Box]) -> str:
    return ",".join(box.host_port for box in boxes)


def test_rows_5_11_and_12_three_servers_then_one_alone(lab: Lab) -> None:
    boxes = start_members(lab, lab.network())
    wait_for_all(boxes)
    states = [box.shell("echo mntr | nc localhost 2181 | grep zk_server_state").stdout for box in boxes]
    assert sorted(states) == ["zk_server_state\tfollower\n"] * 2 + ["zk_server_state\tleader\n"]
    asked = leader_of(boxes).shell("echo mntr | nc localhost 2181 | grep zk_server_state").stdout
    assert asked == "zk_server_state\tleader\n"
    left = boxes[0]
    for box in boxes[1:]:
        box.kill()

    wait_for(lambda: left.mode is None, left)

    refusal = "This ZooKeeper instance is not currently serving requests\n"
    assert (left.word("ruok"), left.word("srvr"), left.word("mntr")) == ("imok", refusal, refusal)
    status = left.run("zkServer.sh", "status")
    assert (status.code, status.lines[-1]) == (1, "Error contacting service. It is probably not running.")
    shell = left.run("zkCli.sh", "ls", "/")
    assert (shell.code, shell.stderr) == (1, "KeeperErrorCode = ConnectionLoss for /\n")
    assert left.run("triokeeper-healthcheck").code != 0


def test_row_35_words_that_monitors_parse_of_each_role(lab: Lab) -> None:
    boxes = start_members(lab, lab.network())
    wait_for_all(boxes)
    leader = leader_of(boxes)

    for box in boxes:
        role = "leader" if box is leader else "follower"
        check_mntr(box.word("mntr\n"), role)
        check_stat(box.word("stat\n"), role)


def test_row_6_an_observer(lab: Lab) -> None:
    network = lab.network()
    servers = f"{server_lines({1: 'zoo1', 2: 'zoo2'})} server.3=zoo3:2888:3888:observer;2181"
    boxes = start_members(lab, network, (1, 2), ZOO_SERVERS=servers)
    boxes += start_members(lab, network, (3,), ZOO_SERVERS=servers, ZOO_CFG_EXTRA="peerType=observer")

    wait_for(lambda: modes(boxes) == ["follower", "leader", "observer"], boxes[2])
    assert boxes[2].run("zkServer.sh", "status").lines[-1] == "Mode: observer"


def test_rows_19_and_43_chroots_and_the_configuration(lab: Lab) -> None:
    network = lab.network()
    boxes = start_members(lab, network)
    wait_for_all(boxes)
    boxes[0].run("zkCli.sh", "create", "/chroot")
    boxes[0].run("zkCli.sh", "create", "/chroot/inside")

    ended = lab.run_to_end("zkCli.sh", "-server", "zoo1:2181,zoo2:2181/chroot", "ls", "/", network=network)
    config = boxes[1].shell("zkCli.sh config | grep ^server.")

    assert (ended.code, ended.lines[-1]) == (0, "[inside]")
    assert config.lines == [
        f"server.{number}=zoo{number}:2888:3888:participant;0.0.0.0:2181" for number in THREE
    ]


def test_own_line_as_wildcard_survives_the_loss_of_each_leader(lab: Lab) -> None:
    """People write 0.0.0.0 for the server itself; the others must find it all the same."""
    network = lab.network()
    boxes = []
    for number in THREE:
        servers = server_lines({**THREE, number: "0.0.0.0"})
        boxes += start_members(lab, network, (number,), ZOO_SERVERS=servers)
    wait_for_all(boxes)
    for _ in range(3):
        leader = leader_of(boxes)
        leader.kill()
        others = [box for box in boxes if box is not leader]
        wait_for_all(others)
        leader.start()
        wait_for_all(boxes)


def test_row_39_reading_without_a_quorum(lab: Lab) -> None:
    boxes = start_members(lab, lab.network(), JVMFLAGS="-Dreadonlymode.enabled=true")
    wait_for_all(boxes)
    for box in boxes[1:]:
        box.kill()

    wait_for(lambda: boxes[0].mode == "read-only", boxes[0], 120)

    assert boxes[0].word("isro") == "ro"
    assert "READ-ONLY mode; serving only read-only clients" in boxes[0].word("srvr").splitlines()


def test_row_42_reconfiguration_writes_the_configuration(lab: Lab) -> None:
    boxes = start_members(lab, lab.network(), ZOO_CFG_EXTRA="reconfigEnabled=true skipACL=yes")
    wait_for_all(boxes)

    ended = boxes[0].run("zkCli.sh", "reconfig", "-remove", "3")

    assert (ended.code, ended.lines.count("Committed new configuration:")) == (0, 1)
    wait_for(lambda: "zoo.cfg.dynamic." in boxes[0].read("/conf/zoo.cfg"), boxes[0])
    last = boxes[0].read("/conf/zoo.cfg").splitlines()[-1]
    assert last.startswith("dynamicConfigFile=/conf/zoo.cfg.dynamic.")
    dynamic = boxes[0].read(last.partition("=")[2])
    assert "server.1=" in dynamic
    assert "server.3=" not in dynamic


def test_row_57_peers_whose_names_resolve_late(lab: Lab) -> None:
    """The first one waits for its peers, and finds them once their names are known."""
    network = lab.network()
    first = start_members(lab, network, (1,), ZOO_CFG_EXTRA="electionPortBindRetry=0")
    wait_for(lambda: "zoo2" in first[0].log, first[0])
    time.sleep(5)
    assert first[0].state()["Status"] == "running"

    boxes = first + start_members(lab, network, (2, 3))

    wait_for_all(boxes)


def test_row_57_its_own_name_resolves_late(lab: Lab) -> None:
    """A pod whose own name is not known yet keeps trying instead of ending, if it is told to."""
    network = lab.network()
    environment = {
        "ZOO_MY_ID": "1",
        "ZOO_SERVERS": server_lines(THREE),
        "ZOO_CFG_EXTRA": "electionPortBindRetry=0",
    }
    first = lab.start(environment=environment, hostname="not-yet")
    first.wait_for_line("zoo1")
    docker_network = lab.client.networks.get(network)
    docker_network.connect(first.container, aliases=["zoo1"])
    others = start_members(lab, network, (2, 3))

    wait_for_all([first, *others])
    docker_network.disconnect(first.container)


def test_row_57_a_peer_that_comes_back_at_another_address(lab: Lab) -> None:
    """Its name is resolved again when the others connect to it."""
    network = lab.network()
    boxes = start_members(lab, network)
    wait_for_all(boxes)
    victim = leader_of(boxes)
    others = [box for box in boxes if box is not victim]
    before = address_of(victim, network)
    victim.kill()
    wait_for_all(others)
    lab.start("sleep", "600", network=network, ports={})  # in the place where it was

    victim.start()

    wait_for_all(boxes)
    assert address_of(victim, network) != before


def address_of(box: Box, network: str) -> str:
    box.container.reload()
    return str(box.container.attrs["NetworkSettings"]["Networks"][network]["IPAddress"])


@pytest.fixture
def composed(docker_client: DockerClient, image: str) -> Iterator[list[Box]]:
    """The three servers of docker/compose/three-servers.yml."""
    ports = {f"ZOO{number}_PORT": str(port) for number, port in zip(THREE, free_ports(3), strict=True)}
    project = f"triokeeper-test-{os.getpid()}-{time.monotonic_ns()}"
    environment = os.environ | {**ports, "TRIOKEEPER_IMAGE": image}
    command = [*compose_command(), "-f", str(COMPOSE), "-p", project]

    def compose(*arguments: str) -> None:
        done = subprocess.run(
            [*command, *arguments], env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr

    try:
        compose("up", "-d")
        label = f"com.docker.compose.project={project}"
        found = docker_client.containers.list(all=True, filters={"label": label})
        yield [Box(container) for container in sorted(found, key=lambda container: str(container.name))]
    finally:
        compose("down", "-v")


def compose_command() -> list[str]:
    """Compose v2 if it is there, else v1."""
    with suppress(OSError):
        if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0:
            return ["docker", "compose"]
    return ["docker-compose"]


@contextmanager
def killed(box: Box) -> Iterator[None]:
    box.kill()
    yield
    box.start()


@contextmanager
def paused(box: Box) -> Iterator[None]:
    box.pause()
    yield
    box.container.unpause()


@contextmanager
def cut_off(box: Box) -> Iterator[None]:
    (name, settings) = next(iter(box.container.attrs["NetworkSettings"]["Networks"].items()))
    network = box.container.client.networks.get(name)
    network.disconnect(box.container)
    yield
    network.connect(box.container, aliases=settings["Aliases"])


def test_composed_ensemble_under_load_loses_nothing(composed: list[Box]) -> None:
    """Each kind of trouble for a follower and for the leader, while Kazoo clients on the host keep book."""
    wait_for_all(composed)
    troubles: list[Callable[[Box], object]] = [killed, paused, cut_off]
    with counting(hosts_of(composed), clients=2) as counters:
        for trouble in troubles:
            for is_leader in (False, True):
                victim = next(box for box in composed if (box.mode == "leader") == is_leader)
                others = [box for box in composed if box is not victim]
                before = counters[0].acknowledged
                with trouble(victim):  # type: ignore[attr-defined]
                    wait_for_all(others)
                    wait_for(lambda: counters[0].acknowledged > before + 20, victim)  # noqa: B023
                wait_for_all(composed)
    wait_for(lambda: {box.health for box in composed} == {"healthy"}, composed[0])
    assert sum(counter.acknowledged for counter in counters) > 200


def test_a_member_replaced_by_a_new_container_with_nothing(lab: Lab) -> None:
    """Killed and removed with its data; its successor gets everything from the others."""
    network = lab.network()
    boxes = start_members(lab, network)
    wait_for_all(boxes)
    with counting(hosts_of(boxes[:2]), clients=2) as counters:
        boxes[2].container.remove(force=True, v=True)
        boxes[2:] = start_members(lab, network, (3,))
        wait_for_all(boxes)
        before = counters[0].acknowledged
        wait_for(lambda: counters[0].acknowledged > before + 20, boxes[2])
    with kazoo_client(boxes[2].host_port) as reader:
        for counter in counters:
            reader.sync("/")
            assert reader.get(counter.path)[0] == b"%d" % counter.count
