"""What servers say about themselves: the texts of srvr, mntr and conf, as values.

Nothing here trusts a server to say everything: what a text does not say is None.
"""

import re
from collections.abc import Mapping

import attrs

from client.printable import printable

NOT_SERVING = "not currently serving requests"
NOT_ALLOWED = "is not executed because it is not in the whitelist"
QUORUM_MODES = frozenset({"leader", "follower", "observer", "standalone"})


@attrs.frozen
class ServerFacts:
    """One server that answered."""

    mode: str | None = None  # leader, follower, observer, standalone, read-only; None: it does not serve
    version: str | None = None
    zxid: int | None = None
    connections: int | None = None
    nodes: int | None = None
    latency_avg_ms: float | None = None
    latency_max_ms: float | None = None
    outstanding: int | None = None
    # The rest is what mntr says, where it is allowed.
    sessions: int | None = None
    data_bytes: int | None = None
    synced_followers: int | None = None
    synced_observers: int | None = None

    @property
    def is_serving(self) -> bool:
        """It serves, and writes too: it is part of a quorum."""
        return self.mode in QUORUM_MODES


def parse_srvr(text: str) -> ServerFacts:
    """What `srvr` says."""
    lines = _pairs(text, ": ")
    latency = lines.get("Latency min/avg/max", "").split("/")
    has_latency = len(latency) == 3
    return ServerFacts(
        mode=printable(lines["Mode"]) if "Mode" in lines else None,
        version=brief_version(lines.get("Zookeeper version")),
        zxid=_integer(lines.get("Zxid"), 16),
        connections=_integer(lines.get("Connections")),
        nodes=_integer(lines.get("Node count")),
        latency_avg_ms=_number(latency[1]) if has_latency else None,
        latency_max_ms=_number(latency[2]) if has_latency else None,
        outstanding=_integer(lines.get("Outstanding")),
    )


def add_mntr(facts: ServerFacts, text: str) -> ServerFacts:
    """The facts with what `mntr` says; unchanged if it was not allowed."""
    lines = _pairs(text, "\t")
    return attrs.evolve(
        facts,
        sessions=_sum(lines, "zk_global_sessions", "zk_local_sessions"),
        data_bytes=_integer(lines.get("zk_approximate_data_size")),
        synced_followers=_integer(lines.get("zk_synced_followers")),
        synced_observers=_integer(lines.get("zk_synced_observers")),
    )


def server_id_of(conf: str) -> int | None:
    """The server's id, out of what `conf` says."""
    return _integer(_pairs(conf, "=").get("serverId"))


def brief_version(text: str | None) -> str | None:
    """3.9.5 out of "3.9.5-293c..., built on ..."."""
    match = re.match(r"\d[\w.]*", text or "")
    return match[0] if match else None


def _pairs(text: str, separator: str) -> dict[str, str]:
    return dict(line.split(separator, 1) for line in text.splitlines() if separator in line)


def _integer(text: str | None, base: int = 10) -> int | None:
    try:
        return int(text or "", base)
    except ValueError:
        return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _sum(lines: Mapping[str, str], *names: str) -> int | None:
    found = [value for name in names if (value := _integer(lines.get(name))) is not None]
    return sum(found) if found else None
