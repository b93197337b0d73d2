"""kombu and celery with ZooKeeper as their broker: messages and a task; run by test_celery.py.

python kombu_program.py 127.0.0.1:2181      says what it has done, and waits for a line after `restart`
"""

import sys
import time

from celery import Celery  # type: ignore[import-not-found,unused-ignore]
from celery.contrib.testing.worker import start_worker  # type: ignore[import-not-found,unused-ignore]
from kombu import Connection  # type: ignore[import-not-found,unused-ignore]

WAIT_SECONDS_MAX = 60


def main(hosts: str) -> None:
    url = f"zookeeper://{hosts}/kombu"
    with Connection(url) as connection:
        queue = connection.SimpleQueue("plain")
        for number in range(10):
            queue.put({"number": number})
        taken = []
        for _ in range(10):
            message = queue.get(block=True, timeout=WAIT_SECONDS_MAX)
            taken.append(message.payload["number"])
            message.ack()
        assert taken == list(range(10)), taken
        queue.close()
    print("ok queue", flush=True)

    app = Celery("app", broker=url, backend="cache+memory://")
    app.conf.broker_connection_retry_on_startup = True

    @app.task  # type: ignore[untyped-decorator,unused-ignore]
    def add(one: int, other: int) -> int:
        return one + other

    with start_worker(app, perform_ping_check=False, pool="solo", shutdown_timeout=30):
        assert add.delay(2, 3).get(timeout=WAIT_SECONDS_MAX) == 5
    print("ok task", flush=True)

    print("restart", flush=True)
    if sys.stdin.readline().strip() == "done":
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        with Connection(url) as connection:
            while True:
                try:
                    queue = connection.SimpleQueue("plain")
                    queue.put({"number": 10})
                    break
                except connection.connection_errors:
                    assert time.monotonic() < deadline
            message = queue.get(block=True, timeout=WAIT_SECONDS_MAX)
            assert message.payload == {"number": 10}
            message.ack()
        print("ok restart", flush=True)
    print("ok end", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
