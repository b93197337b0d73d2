"""What is in the image: rows 14 and 59 of the checklist, and what the Dockerfile promises."""

import pytest
from docker.client import DockerClient

from support.docker_containers import Box, Lab

pytestmark = [pytest.mark.long, pytest.mark.timeout(600, func_only=True)]

SCRIPTS = (
    "zkCleanup.sh zkCli.sh zkEnv.sh zkServer-initialize.sh zkServer.sh zkSnapShotToolkit.sh"
    " zkSnapshotComparer.sh zkSnapshotRecursiveSummaryToolkit.sh zkTxnLogToolkit.sh"
).split()
TOOLS = "bash nc curl wget openssl gosu ps hostname sed grep awk triokeeper zookeeper-shell cub".split()


def test_the_hot_modules_are_compiled(plain: Box) -> None:
    assert plain.run("triokeeper", "--version").stdout.strip().endswith("(compiled)")
    assert "(compiled) serving on" in plain.log


def test_row_14_the_version(plain: Box) -> None:
    assert plain.run("zkServer.sh", "version").stdout.startswith("Apache ZooKeeper, version 3.9.5 ")


def test_row_59_scripts_are_where_people_look(plain: Box) -> None:
    assert set(SCRIPTS) <= set(plain.shell("ls /apache-zookeeper-*/bin").stdout.split())
    assert plain.run("./bin/zkCli.sh", "ls", "/").lines[-1].startswith("[")
    for script in SCRIPTS:
        assert plain.shell(f"command -v {script}").code == 0, script


def test_tools_that_probes_call(plain: Box) -> None:
    for tool in TOOLS:
        assert plain.shell(f"command -v {tool}").code == 0, tool


def test_configuration_of_the_image(docker_client: DockerClient, image: str) -> None:
    config = docker_client.images.get(image).attrs["Config"]

    assert set(config["Volumes"]) == {"/data", "/datalog", "/logs"}
    assert set(config["ExposedPorts"]) == {"2181/tcp", "2888/tcp", "3888/tcp", "8080/tcp"}
    assert config["WorkingDir"] == "/apache-zookeeper-3.9.5-bin"
    assert config["Entrypoint"] == ["/docker-entrypoint.sh"]
    assert config["Cmd"] == ["zkServer.sh", "start-foreground"]
    assert config["User"] == ""
    assert config["Healthcheck"]["Test"] == ["CMD", "triokeeper-healthcheck"]
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert "ZOOCFGDIR=/conf" in config["Env"]


def test_lists_of_what_is_in_it(plain: Box) -> None:
    python = plain.read("/usr/share/doc/triokeeper/python-packages.txt")

    assert "trio==" in python
    assert "triokeeper" in python
    assert "netcat-openbsd" in plain.read("/usr/share/doc/triokeeper/debian-packages.txt")


def test_a_command_of_its_own_starts_no_server(lab: Lab) -> None:
    ended = lab.run_to_end("sh", "-c", "echo this; echo that >&2; exit 5")

    assert (ended.code, ended.stdout) == (5, "this\n")
    assert "that" in ended.stderr


def test_a_command_that_is_not_there(lab: Lab) -> None:
    assert lab.run_to_end("no-such-command").code == 127
