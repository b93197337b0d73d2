"""What the tests of the testing kit share: clients of Kazoo's, and waiting."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient

SECONDS_MAX = 30.0


@contextmanager
def kazoo(hosts: str, timeout: float = 30.0) -> Iterator[Any]:
    client = KazooClient(hosts=hosts, timeout=timeout)
    client.start(timeout=SECONDS_MAX)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def wait_until(condition: Callable[[], object], seconds: float = SECONDS_MAX) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.01)
