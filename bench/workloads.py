"""What is measured, as data: each load and each figure with the ratio it is to reach.

Ratios are Triokeeper's figure over the Java server's, so more is better for throughput and less for all else.
A target has two marks: `first`, to be met by the first server worth running, and `goal`.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import attrs

Metric: TypeAlias = Literal["throughput", "cpu_us", "p50_us", "p99_us", "value"]
MORE_IS_BETTER: frozenset[Metric] = frozenset({"throughput"})

FOLDER_NODES = 1000  # loadgen.c fills by folders of so many


@attrs.frozen
class Target:
    """The mark that the ratio of one metric is held against."""

    metric: Metric
    first: float
    goal: float

    def is_met_by(self, ratio: float, mark: float) -> bool:
        return ratio >= mark if self.metric in MORE_IS_BETTER else ratio <= mark

    def describe(self, mark: float) -> str:
        sign = "≥" if self.metric in MORE_IS_BETTER else "≤"
        name = {"cpu_us": "CPU", "p50_us": "p50", "p99_us": "p99", "value": ""}.get(self.metric, self.metric)
        return f"{name} {sign} {mark:g}x".strip()


@attrs.frozen
class Load:
    """A run of the load generator: N connections with D requests outstanding each."""

    name: str
    op: str
    connections: int
    depth: int
    targets: Sequence[Target]
    bytes: int = 100


@attrs.frozen
class Figure:
    """One number about a server that is not a throughput."""

    name: str
    unit: str
    targets: Sequence[Target]
    is_ratio: bool = False  # of the server to itself: held against the marks without the other server


READ = (Target("throughput", 1.3, 2), Target("cpu_us", 0.7, 0.4))
READ_PIPELINED = (Target("throughput", 5, 20),)
WRITE = (Target("throughput", 1.1, 1.8), Target("cpu_us", 0.8, 0.5))
WRITE_PIPELINED = (Target("throughput", 1.8, 6),)

READS = [
    ("ping", "ping", 100),
    ("exists", "exists", 100),
    ("getData 100 B", "getData", 100),
    ("getData 1 KB", "getData", 1024),
    ("getChildren of 100", "getChildren", 100),
]
WRITES = [
    ("setData 100 B", "setData", 100),
    ("create + delete ephemeral sequential", "createDelete", 100),
]
SYNCHRONOUS, PIPELINED = ((50, 1), (250, 1)), ((50, 100),)


def _in_shapes(
    ops: Sequence[tuple[str, str, int]], shapes: Sequence[tuple[int, int]], targets: Sequence[Target]
) -> list[Load]:
    return [
        Load(f"{name}, {connections}x{depth}", op, connections, depth, targets, size)
        for connections, depth in shapes
        for name, op, size in ops
    ]


LOADS: Sequence[Load] = [
    *_in_shapes(READS, SYNCHRONOUS, READ),
    *_in_shapes(READS, PIPELINED, READ_PIPELINED),
    *_in_shapes(WRITES, SYNCHRONOUS, WRITE),
    *_in_shapes(WRITES, PIPELINED, WRITE_PIPELINED),
    Load("70/30 mixed, 50x1", "mixed", 50, 1, [Target("throughput", 1.2, 2)]),
    Load("read latency, 1x1", "getData", 1, 1, [Target("p50_us", 0.6, 0.3)]),
    Load("write latency, 1x1", "setData", 1, 1, [Target("p50_us", 1.0, 0.8)]),
    Load("connect storm (sessions), 50 at once", "connect", 50, 1, [Target("throughput", 1.2, 2)]),
    Load("watch fan-out to 1000 (events)", "fanout", 1000, 1, [Target("throughput", 1.3, 2)]),
]

COLD_START = Figure("cold start to first answered request", "ms", [Target("value", 0.4, 0.3)])
IDLE_RSS = Figure("idle RSS", "MB", [Target("value", 0.43, 0.4)])
LOADED_RSS = Figure("RSS after the bench's whole load", "MB", [Target("value", 0.4, 0.25)])


def znode_rss(nodes: int) -> Figure:
    return Figure(f"RSS per 100-byte znode, {nodes:,} of them", "B", [Target("value", 1.2, 0.8)])


def snapshot_p99(nodes: int) -> Figure:
    name = f"p99 during a snapshot of {nodes:,} znodes, over quiet p99"
    return Figure(name, "x", [Target("value", 2, 1.2)], is_ratio=True)


# Without a mark of their own: a p99 does not show a pause that is short and rare.
SNAPSHOT_LONGEST = Figure("longest answer while a snapshot is written", "ms", [])
QUIET_LONGEST = Figure("longest answer while none is", "ms", [])

# ---- what a neighbour feels

CAUSES_OF_PAUSES = {
    "nothing": "nothing",
    "checks": "a multi of a whole frame of checks on an ACL of 1,000 entries",
    "creates": "a multi of a whole frame of creates",
    "multiReads": "a multiRead of 200 getData on an ACL of 1,000 entries",
    "unread": "four multiReads for 60 MB each, left unread",
    "counts": "100 getAllChildrenNumber over 100,000 nodes",
    "quota": "50 creates and deletes of a quota's statistics over 100,000 nodes",
    "statistics": "0.8 MB of names in a quota's statistics",
    "text": "1 MB of invalid UTF-8",
    "leave": "1,000 clients with 800 watches each leave",
    "ephemerals": "a session with 100,000 ephemerals closes",
    "connect": "3,000 clients connect at the same moment",
    "setWatches": "3,000 clients send setWatches of 100 paths each",
    "event": "3,000 clients watch one node, and it changes",
    "close": "3,000 clients with 10 ephemerals each close their sessions",
    "expire": "3,000 sessions with 10 ephemerals each expire",
}


@attrs.frozen
class Pause(Figure):
    """How long a neighbour waits, who reads and writes 500 times a second, while something goes on."""

    cause: str = attrs.field(kw_only=True)
    percentile: float = attrs.field(kw_only=True)
    is_of_all: bool = attrs.field(kw_only=True, default=False)  # of the whole run, in which it happens once


PAUSES: Sequence[Pause] = [
    Pause(
        f"pause: {what}: {name}",
        "ms",
        [Target("value", 1.0, 0.5)],
        cause=cause,
        percentile=percentile,
        is_of_all=is_of_all,
    )
    for cause, what in CAUSES_OF_PAUSES.items()
    for name, percentile, is_of_all in (
        ("longest wait", 100.0, False),
        ("p99 while it lasts", 99.0, False),
        ("p99 of ten seconds", 99.0, True),
    )
]

# ---- three servers

Rejoin: TypeAlias = Literal["behind", "empty"]
WRITING: frozenset[str] = frozenset({"setData", "createDelete"})
TOGETHER = (Target("throughput", 1.0, 1.5),)
UNDISTURBED = (Target("value", 2, 1.5),)

THREE_LOADS: Sequence[Load] = [
    Load("three servers: writes through both followers, 25x1 each", "setData", 25, 1, TOGETHER),
    Load("three servers: writes through both followers, 25x100 each", "setData", 25, 100, TOGETHER),
    Load("three servers: reads at all of them, 25x1 each", "getData", 25, 1, TOGETHER),
    Load("three servers: reads at all of them, 25x100 each", "getData", 25, 100, TOGETHER),
]
FAIL_OVER = Figure(
    "three servers: leader's kill -9 to next acknowledged write", "ms", [Target("value", 1.0, 0.5)]
)


def _rejoining(how: Rejoin, size: int) -> str:
    state = f"{size:,} transactions behind" if how == "behind" else f"with an empty disk, {size:,} znodes"
    return f"three servers: a follower rejoins {state}"


def rejoin_p99_at_leader(how: Rejoin, size: int) -> Figure:
    name = f"{_rejoining(how, size)}: p99 at the leader, over quiet p99"
    return Figure(name, "x", UNDISTURBED, is_ratio=True)


def rejoin_p99_at_follower(how: Rejoin, size: int) -> Figure:
    name = f"{_rejoining(how, size)}: p99 at the other follower, over quiet p99"
    return Figure(name, "x", UNDISTURBED, is_ratio=True)


def rejoin_seconds(how: Rejoin, size: int) -> Figure:
    return Figure(f"{_rejoining(how, size)}: until it serves", "s", [])
