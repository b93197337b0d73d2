"""What ZooKeeper says over HTTP: the AdminServer and metrics for Prometheus.

A server that does not have one yet is not asked for it, and the report says so: what docs/COMPATIBILITY.md
lists under "What is not there yet" is skipped on Triokeeper, and tested as soon as it is taken off that list.
"""

import re
import time
import urllib.request
from collections.abc import Mapping

import pytest

from support.servers import CHECKOUT, HOST, SMALL_FLAGS, Kind, free_ports, start_server

COMPATIBILITY = CHECKOUT / "docs" / "COMPATIBILITY.md"
ANSWER_SECONDS_MAX = 60.0
POLL_SECONDS = 0.1
PROMETHEUS = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
# By the name that it has in the list: where it listens, what is asked, and what is in the answer.
FEATURES: Mapping[str, tuple[Mapping[str, str], str, str]] = {
    "AdminServer over HTTP": (
        {"admin.enableServer": "true", "admin.serverAddress": HOST, "admin.serverPort": "{port}"},
        "/commands/ruok",
        '"command"',
    ),
    "Prometheus metrics": (
        {
            "metricsProvider.className": PROMETHEUS,
            "metricsProvider.httpHost": HOST,
            "metricsProvider.httpPort": "{port}",
        },
        "/metrics",
        "znode_count",
    ),
}


def not_there_yet() -> str:
    """What docs/COMPATIBILITY.md says of it."""
    section = r"^## What is not there yet\n(.*?)^## "
    found = re.search(section, COMPATIBILITY.read_text(), re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def ask(url: str) -> str:
    """The answer, once somebody listens there."""
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while True:
        try:
            with urllib.request.urlopen(url, timeout=ANSWER_SECONDS_MAX) as answer:
                told: bytes = answer.read()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)
        else:
            return told.decode()


@pytest.mark.parametrize("feature", FEATURES)
def test_answers_over_http(feature: str, kind: Kind) -> None:
    if kind == "triokeeper" and feature in not_there_yet():
        pytest.skip(f"{feature}: not built yet")
    settings, path, expected = FEATURES[feature]
    (port,) = free_ports(1)
    config = {key: value.format(port=port) for key, value in settings.items()}
    with start_server(kind, config, jvm_flags=SMALL_FLAGS):
        assert expected in ask(f"http://{HOST}:{port}{path}")
