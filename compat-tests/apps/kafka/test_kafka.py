"""Kafka 3.9 in ZooKeeper mode: topics and messages while ZooKeeper is restarted and killed under a broker."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apps.environments import AppUnavailable, python_with
from apps.java_programs import JavaApp, end_of, run_tool, running
from support.crosschecks import start_crosscheck
from support.reference import ReferenceUnavailable
from support.servers import HOST, SMALL_FLAGS, Kind, free_ports, start_server
from support.targets import Service

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
POM = Path(__file__).with_name("pom.xml")
PROGRAM = Path(__file__).with_name("kafka_program.py")
KAFKA = "Kafka 3.9.1"
MESSAGES = 200
KAFKA_PYTHON = "kafka-python==2.2.15"
LOG4J = """\
log4j.rootLogger=WARN, CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d %p %m (%c)%n
"""


@contextmanager
def broker(kafka: JavaApp, folder: Path, zookeeper: str) -> Iterator[str]:
    """A broker, ended with the block; its address."""
    (port,) = free_ports(1)
    settings = {
        "broker.id": 1,
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": folder / "logs",
        "zookeeper.connect": zookeeper,
        "zookeeper.session.timeout.ms": 18_000,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    properties = folder / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    (folder / "log4j.properties").write_text(LOG4J)
    logging = {"log4j.configuration": f"file:{folder}/log4j.properties"}
    with running(kafka.command("kafka.Kafka", properties, properties=logging), folder / "broker.log"):
        yield f"{HOST}:{port}"


def use(python: Path, folder: Path, bootstrap: str, topic: str) -> None:
    said = run_tool([str(python), str(PROGRAM), bootstrap, topic, str(MESSAGES)])
    assert f"ok {topic}\n" in said, f"{said[-3000:]}\n{end_of(folder / 'broker.log')}"


def test_topics_and_messages_while_zookeeper_restarts(
    restartable: Service, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """A topic is made before, after a restart and after a kill: each goes through the controller."""
    record_property("client", KAFKA)
    try:
        python = python_with("kafka", KAFKA_PYTHON)
        kafka = JavaApp.fetched("kafka", POM)
    except (AppUnavailable, ReferenceUnavailable) as reason:
        pytest.skip(str(reason))
    with broker(kafka, tmp_path, restartable.hosts) as bootstrap:
        use(python, tmp_path, bootstrap, "first")
        restartable.stop(1)
        restartable.start(1)
        use(python, tmp_path, bootstrap, "restarted")
        restartable.kill9(1)
        restartable.start(1)
        use(python, tmp_path, bootstrap, "killed")


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize(("first", "second"), [("reference", "triokeeper"), ("triokeeper", "reference")])
def test_kafka_sees_no_difference_through_the_crosscheck(
    first: Kind, second: Kind, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("client", KAFKA)
    settings = {"maxSessionTimeout": 40_000, "maxClientCnxns": 0}
    try:
        python, kafka = python_with("kafka", KAFKA_PYTHON), JavaApp.fetched("kafka", POM)
    except (AppUnavailable, ReferenceUnavailable) as reason:
        pytest.skip(str(reason))
    with (
        start_server(first, settings, jvm_flags=SMALL_FLAGS) as one,
        start_server(second, settings, jvm_flags=SMALL_FLAGS) as other,
        start_crosscheck(one.host_port, other.host_port) as check,
        broker(kafka, tmp_path, check.hosts) as bootstrap,
    ):
        use(python, tmp_path, bootstrap, "first")
        use(python, tmp_path, bootstrap, "second")
    check.assert_equal(requests_min=100)
