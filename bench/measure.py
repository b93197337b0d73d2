"""Measuring servers: started fresh, taken through the loads, asked for their memory, stopped.

A round gives, for each server, a Sample per load or figure. Servers take turns within seconds, because what
the machine does meanwhile (it is never quite idle) shall fall on both.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

import attrs

from bench.cold_start import cold_start_seconds
from bench.load import LoadFailed, LoadResult, run_load
from bench.snapshots import split_windows, watch_snapshots
from bench.workloads import (
    COLD_START,
    FOLDER_NODES,
    IDLE_RSS,
    LOADED_RSS,
    QUIET_LONGEST,
    SNAPSHOT_LONGEST,
    Figure,
    Load,
    Metric,
    snapshot_p99,
    znode_rss,
)
from support.servers import Kind, Server, prepare_server

MB = 1e6
SETTINGS = {"maxClientCnxns": 0}  # else defaults: fsync on, and the same on both sides
# Sent at a steady rate, however slow the answers: else a pause would hold back the load that would feel it.
SNAPSHOT_LOAD = Load("mixed load during snapshots", "mixed", 50, 5000, [])
SNAPSHOT_LOAD_PER_SECOND = 10_000
WINDOW_SECONDS = 0.05
FILL = Load("fill", "fill", 10, 100, [])


@attrs.frozen
class Plan:
    """How long and how much; the defaults are what a figure worth quoting takes."""

    rounds: int = 5
    seconds: float = 2.0
    lead_in: float = 0.3
    warm_up_seconds: float = 12.0  # of the same loads, so that a just-in-time compiler has seen them all
    idle_seconds: float = 2.0
    sizes: Sequence[int] = (100_000, 1_000_000)
    snapshot_seconds: float = 40.0
    snap_count: int = 100_000  # ZooKeeper's default: a snapshot after 50,000 to 100,000 transactions
    pause_seconds: float = 8.0  # that a cause of a pause may take
    crowd: int = 3000  # clients in a crowd
    kills: int = 5  # of leaders
    rejoin_size: int = 1_000_000
    rejoin_run_seconds: float = 75.0
    rejoin_load_per_second: float = 1000.0  # at each of two servers


QUICK = Plan(
    rounds=1,
    seconds=0.15,
    lead_in=0.05,
    warm_up_seconds=0,
    idle_seconds=0.2,
    sizes=(2_000, 10_000),
    snapshot_seconds=1.5,
    snap_count=4_000,
    pause_seconds=1.0,
    crowd=10,
    kills=1,
    rejoin_size=10_000,
    rejoin_run_seconds=5.0,
    rejoin_load_per_second=500.0,
)


def figures_of_sizes(plan: Plan) -> list[Figure]:
    return [*map(znode_rss, plan.sizes), snapshot_p99(plan.sizes[-1]), SNAPSHOT_LONGEST, QUIET_LONGEST]


@attrs.frozen
class Sample:
    """What one round gave for one row: figures, or the reason why there are none."""

    figures: Mapping[Metric, float] = attrs.field(factory=dict)
    generator_share: float = 0.0
    failure: str = ""


Round: TypeAlias = dict[str, Sample]  # by the name of the load or figure


def figure_sample(value: float) -> Sample:
    return Sample({"value": value})


def load_sample(result: LoadResult) -> Sample:
    latencies = result.latencies
    return Sample(
        {
            "throughput": result.throughput,
            "cpu_us": result.server_cpu_us,
            "p50_us": latencies.percentile_us(50),
            "p99_us": latencies.percentile_us(99),
        },
        result.generator_share,
    )


@contextmanager
def fresh_server(kind: Kind, snap_count: int) -> Iterator[Server]:
    """A server that was not started yet, on an empty folder that goes away with it."""
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with prepare_server(kind, {**SETTINGS, "snapCount": snap_count}, data_dir=folder) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_loads(kinds: Sequence[Kind], loads: Sequence[Load], plan: Plan) -> list[Round]:
    """Cold start, idle memory, every load, and memory after all of them; a Round for each server.

    All servers live at the same time, but only one of them has work to do, and they take turns load by load.
    """
    with ExitStack() as running:
        servers = [running.enter_context(fresh_server(kind, plan.snap_count)) for kind in kinds]
        rounds = [measure_start(server, plan) for server in servers]
        for server in servers:
            warm_up(server, loads, plan)
        for load in loads:
            for server, samples in zip(servers, rounds, strict=True):
                samples[load.name] = measure_load(server, load, plan)
        for server, samples in zip(servers, rounds, strict=True):
            samples[LOADED_RSS.name] = figure_sample(server.rss_bytes / MB)
    return rounds


def measure_start(server: Server, plan: Plan) -> Round:
    start_seconds = cold_start_seconds(server)
    time.sleep(plan.idle_seconds)
    return {
        COLD_START.name: figure_sample(start_seconds * 1000),
        IDLE_RSS.name: figure_sample(server.rss_bytes / MB),
    }


def measure_load(server: Server, load: Load, plan: Plan) -> Sample:
    try:
        result = run_load(
            load, server.port, seconds=plan.seconds, lead_in=plan.lead_in, server_pid=server.pid
        )
    except LoadFailed as failed:
        return Sample(failure=str(failed))
    return load_sample(result)


def warm_up(server: Server, loads: Sequence[Load], plan: Plan) -> None:
    for load in loads if plan.warm_up_seconds else []:
        try:
            run_load(load, server.port, seconds=plan.warm_up_seconds / len(loads), lead_in=0)
        except LoadFailed:
            continue  # the measured run will fail as well, and is where it is told


def measure_sizes(kind: Kind, plan: Plan) -> Round:
    """Memory per znode as the tree grows, then latency while the whole of it is written to a snapshot."""
    samples = {figure.name: Sample(failure="not reached") for figure in figures_of_sizes(plan)}
    with fresh_server(kind, plan.snap_count) as server:
        cold_start_seconds(server)
        time.sleep(plan.idle_seconds)
        empty_bytes, filled = server.rss_bytes, 0
        for size in plan.sizes:
            try:
                fill(server, filled, size)
            except LoadFailed as failed:
                return samples | {znode_rss(size).name: Sample(failure=str(failed))}
            filled = size
            samples[znode_rss(size).name] = figure_sample((server.rss_bytes - empty_bytes) / size)
        samples |= measure_snapshot(server, plan)
    return samples


def fill(server: Server, filled: int, size: int) -> None:
    run_load(FILL, server.port, count=size - filled, first_folder=filled // FOLDER_NODES)


def measure_snapshot(server: Server, plan: Plan) -> Round:
    factor = snapshot_p99(plan.sizes[-1])
    try:
        with watch_snapshots(server.data_dir / "version-2") as spans:
            result = run_load(
                SNAPSHOT_LOAD,
                server.port,
                rate=SNAPSHOT_LOAD_PER_SECOND,
                seconds=plan.snapshot_seconds,
                window=WINDOW_SECONDS,
            )
    except LoadFailed as failed:
        return {factor.name: Sample(failure=str(failed))}
    during, quiet = split_windows(result, spans)
    if not during or not quiet:
        return {factor.name: Sample(failure=f"{len(spans)} snapshots seen, {quiet.total()} quiet requests")}
    return {
        factor.name: figure_sample(during.percentile_us(99) / quiet.percentile_us(99)),
        SNAPSHOT_LONGEST.name: figure_sample(during.percentile_us(100) / 1000),
        QUIET_LONGEST.name: figure_sample(quiet.percentile_us(100) / 1000),
    }
