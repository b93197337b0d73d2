"""The variables, paths and commands of Bitnami's and Confluent's images: rows 60 and 61 of the checklist."""

import pytest

from support.docker_containers import HOST, Lab, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(600, func_only=True)]


def test_row_60_one_server_as_bitnamis(lab: Lab) -> None:
    volume = lab.volume()
    box = lab.run(
        "/opt/bitnami/scripts/zookeeper/run.sh",
        environment={"ALLOW_ANONYMOUS_LOGIN": "yes"},
        volumes={volume: {"bind": "/bitnami/zookeeper"}},
    )

    assert box.run("/opt/bitnami/scripts/zookeeper/healthcheck.sh").code == 0
    assert "clientPort=2181" in box.read("/opt/bitnami/zookeeper/conf/zoo.cfg").splitlines()
    assert box.run("ls", "/bitnami/zookeeper/data").stdout.split() == ["myid", "version-2"]
    assert box.run("/opt/bitnami/zookeeper/bin/zkServer.sh", "status").code == 0


def test_row_60_without_permission_to_be_open_it_does_not_start(lab: Lab) -> None:
    ended = lab.run_to_end("/opt/bitnami/scripts/zookeeper/run.sh")

    assert ended.code != 0
    assert "ALLOW_ANONYMOUS_LOGIN" in ended.stderr


def test_row_60_a_chosen_user_as_in_bitnamis_chart(lab: Lab) -> None:
    box = lab.run(
        "/run.sh", entrypoint="/entrypoint.sh", user="1001:0", environment={"ALLOW_ANONYMOUS_LOGIN": "yes"}
    )

    assert box.run("/opt/bitnami/scripts/zookeeper/healthcheck.sh").code == 0


def test_row_60_an_ensemble_as_bitnamis(lab: Lab) -> None:
    network = lab.network()
    servers = ",".join(f"zoo{number}:2888:3888" for number in (1, 2, 3))
    boxes = [
        lab.start(
            environment={
                "ALLOW_ANONYMOUS_LOGIN": "yes",
                "ZOO_SERVER_ID": str(number),
                "ZOO_SERVERS": servers,
            },
            network=network,
            aliases=[f"zoo{number}"],
            hostname=f"zoo{number}",
            volumes={lab.volume(): {"bind": "/bitnami/zookeeper"}},
        )
        for number in (1, 2, 3)
    ]

    wait_for(lambda: sorted(str(box.mode) for box in boxes) == ["follower", "follower", "leader"], boxes[0])
    for box in boxes:
        assert box.run("/opt/bitnami/scripts/zookeeper/healthcheck.sh").code == 0


def test_row_61_one_server_as_confluents(lab: Lab) -> None:
    box = lab.start(
        "/etc/confluent/docker/run",
        environment={
            "ZOOKEEPER_CLIENT_PORT": "32181",
            "KAFKA_OPTS": "-Dzookeeper.4lw.commands.whitelist=*",
        },
        ports={"32181/tcp": (HOST, None)},
    )
    wait_for(lambda: box.run("triokeeper-healthcheck").code == 0, box)

    assert box.word("ruok", port=32181) == "imok"
    assert "clientPort=32181" in box.read("/etc/kafka/zookeeper.properties").splitlines()
    shell = box.run("zookeeper-shell", "localhost:32181", "ls", "/")
    assert (shell.code, shell.lines[5], shell.lines[-1]) == (0, "[zookeeper]", "[zookeeper]")
    assert box.run("cub", "zk-ready", "localhost:32181", "40").code == 0


def test_row_61_an_ensemble_as_confluents(lab: Lab) -> None:
    network = lab.network()
    servers = ";".join(f"zoo{number}:2888:3888" for number in (1, 2, 3))
    boxes = [
        lab.start(
            environment={
                "ZOOKEEPER_CLIENT_PORT": "2181",
                "ZOOKEEPER_SERVER_ID": str(number),
                "ZOOKEEPER_SERVERS": servers,
                "ZOOKEEPER_TICK_TIME": "2000",
            },
            network=network,
            aliases=[f"zoo{number}"],
            hostname=f"zoo{number}",
        )
        for number in (1, 2, 3)
    ]

    wait_for(lambda: sorted(str(box.mode) for box in boxes) == ["follower", "follower", "leader"], boxes[0])
    assert boxes[0].read("/var/lib/zookeeper/data/myid").strip() == "1"
