"""A Kafka client that makes a topic and sends and receives messages; run by test_kafka.py.

python kafka_program.py BOOTSTRAP TOPIC COUNT
"""

import sys
import time

from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-not-found,unused-ignore]
from kafka.admin import KafkaAdminClient, NewTopic  # type: ignore[import-not-found,unused-ignore]
from kafka.errors import KafkaError  # type: ignore[import-not-found,unused-ignore]

WAIT_SECONDS_MAX = 90
BROKER_SECONDS_MAX = 400  # until it takes topics: a busy machine needs minutes to start one


def create_topic(bootstrap: str, topic: str) -> None:
    """A new topic goes through the controller, and so through ZooKeeper."""
    deadline = time.monotonic() + BROKER_SECONDS_MAX
    while True:
        try:
            admin = KafkaAdminClient(bootstrap_servers=bootstrap)
            admin.create_topics([NewTopic(topic, num_partitions=3, replication_factor=1)], timeout_ms=20_000)
            return
        except KafkaError as problem:
            if "TopicAlreadyExists" in type(problem).__name__:
                return
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def main(bootstrap: str, topic: str, count: int) -> None:
    create_topic(bootstrap, topic)
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", retries=10)
    for number in range(count):
        producer.send(topic, b"%d" % number)
    producer.flush(WAIT_SECONDS_MAX)
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        group_id=f"group-{topic}",
        consumer_timeout_ms=WAIT_SECONDS_MAX * 1000,
    )
    received = set()
    for message in consumer:
        received.add(int(message.value))
        if len(received) == count:
            break
    assert received == set(range(count)), f"{len(received)} of {count}"
    print(f"ok {topic}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
