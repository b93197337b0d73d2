"""Three servers at once: what they do together, and what their clients feel when one is lost or comes back.

Load generators run side by side, one for each server that they talk to; their figures are added up.
"""

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from statistics import median

from bench.cold_start import SET_ROOT, wait_for_answer
from bench.load import LoadFailed, LoadResult, joined, run_load
from bench.measure import SETTINGS, SNAPSHOT_LOAD, WINDOW_SECONDS, Plan, Round, Sample, figure_sample, fill
from bench.snapshots import Span, split_windows
from bench.workloads import (
    FAIL_OVER,
    FOLDER_NODES,
    WRITING,
    Figure,
    Load,
    Rejoin,
    rejoin_p99_at_follower,
    rejoin_p99_at_leader,
    rejoin_seconds,
)
from support.ensembles import Ensemble, prepare_ensemble
from support.servers import OWN_SCRIPT_FLAGS, Kind, Server

SERVERS = 3
ANSWER_SECONDS_MAX = 60.0
SETTLE_SECONDS = 1.0  # from when all serve again to the next kill
QUIET_SHARE = 0.4  # of a run that measures a rejoining server: before it starts
REJOIN_SECONDS_MAX = 300.0
REJOIN_POLL_SECONDS = 0.25  # to be asked how far it is costs a server more than many a request
REJOINS: tuple[Rejoin, ...] = ("behind", "empty")


def figures_of_rejoining(plan: Plan) -> list[Figure]:
    makers = (rejoin_p99_at_leader, rejoin_p99_at_follower, rejoin_seconds)
    return [make(how, plan.rejoin_size) for how in REJOINS for make in makers]


@contextmanager
def three_servers(kind: Kind, snap_count: int) -> Iterator[Ensemble]:
    settings = {**SETTINGS, "tickTime": 2000, "snapCount": snap_count}
    with prepare_ensemble([kind] * SERVERS, settings, jvm_flags=OWN_SCRIPT_FLAGS) as ensemble:
        ensemble.begin()
        yield ensemble
    for server in ensemble.servers.values():
        shutil.rmtree(server.data_dir, ignore_errors=True)


# ---- loads, and the loss of the leader


def measure_three(
    kinds: Sequence[Kind], loads: Sequence[Load], figures: Sequence[Figure], plan: Plan
) -> list[Round]:
    """A Round for each kind. All ensembles live at the same time, and take turns load by load."""
    rounds: list[Round] = [{} for _ in kinds]
    with ExitStack() as running:
        ensembles = [running.enter_context(three_servers(kind, plan.snap_count)) for kind in kinds]
        for load in loads if plan.warm_up_seconds else []:
            for ensemble in ensembles:
                run_side_by_side(load, targets_of(load, ensemble), plan.warm_up_seconds / len(loads))
        for load in loads:
            for ensemble, samples in zip(ensembles, rounds, strict=True):
                samples[load.name] = measure_load(load, ensemble, plan)
        if FAIL_OVER in figures:
            for ensemble, samples in zip(ensembles, rounds, strict=True):
                samples[FAIL_OVER.name] = measure_fail_over(ensemble, plan)
    return rounds


def targets_of(load: Load, ensemble: Ensemble) -> list[Server]:
    """Writes go to the followers, which have to hand them on; reads go to all."""
    ids = ensemble.followers() if load.op in WRITING else ensemble.running
    return [ensemble[server_id] for server_id in ids]


def measure_load(load: Load, ensemble: Ensemble, plan: Plan) -> Sample:
    """All members' CPU time counts, from before the clients connect: a little more than the load's own."""
    before = cpu_seconds(ensemble)
    try:
        results = run_side_by_side(load, targets_of(load, ensemble), plan.seconds, plan.lead_in)
    except LoadFailed as failed:
        return Sample(failure=str(failed))
    cpu_used = cpu_seconds(ensemble) - before
    latencies = joined(window for result in results for window in result.windows)
    return Sample(
        {
            "throughput": sum(result.throughput for result in results),
            "cpu_us": cpu_used / sum(result.requests for result in results) * 1e6,
            "p50_us": latencies.percentile_us(50),
            "p99_us": latencies.percentile_us(99),
        },
        sum(result.generator_share for result in results),
    )


def cpu_seconds(ensemble: Ensemble) -> float:
    return sum(server.cpu_seconds for server in ensemble.servers.values())


def run_side_by_side(
    load: Load, servers: Sequence[Server], seconds: float, lead_in: float = 0.0, **options: float
) -> list[LoadResult]:
    """One generator for each of the servers, at the same time."""
    with ThreadPoolExecutor(len(servers)) as generators:
        runs = [
            generators.submit(run_load, load, server.port, seconds=seconds, lead_in=lead_in, **options)
            for server in servers
        ]
        return [run.result() for run in runs]


def measure_fail_over(ensemble: Ensemble, plan: Plan) -> Sample:
    """The median of several kills: each time the next acknowledged write is one at any other member."""
    times = [fail_over_seconds(ensemble) for _ in range(plan.kills)]
    return figure_sample(median(times) * 1000)


def fail_over_seconds(ensemble: Ensemble) -> float:
    time.sleep(SETTLE_SECONDS)
    leader = ensemble.wait_for_leader()
    others = [ensemble[server_id] for server_id in ensemble.others(leader)]
    began = time.monotonic()
    ensemble[leader].kill9()
    wait_for_answer(others, began + ANSWER_SECONDS_MAX, SET_ROOT)
    seconds = time.monotonic() - began
    ensemble.start(leader)
    return seconds


# ---- a follower that comes back


def measure_rejoining(kind: Kind, plan: Plan) -> Round:
    """What clients of the leader and of a follower feel while the other follower catches up."""
    samples = {figure.name: Sample(failure="not reached") for figure in figures_of_rejoining(plan)}
    for how in REJOINS:
        # Both kinds send a tree where the log since then is long beside a snapshot. So whoever is to be sent
        # transactions is behind a leader that has taken none.
        snap_count = 10 * plan.rejoin_size if how == "behind" else plan.snap_count
        with three_servers(kind, snap_count) as ensemble:
            try:
                samples |= measure_rejoin(how, ensemble, plan)
            except LoadFailed as failed:
                samples |= {name: Sample(failure=str(failed)) for name in samples if how in name}
    return samples


def measure_rejoin(how: Rejoin, ensemble: Ensemble, plan: Plan) -> Round:
    """Clients send at a steady rate, first while all is quiet and then while the follower comes back."""
    leader, size = ensemble.wait_for_leader(), plan.rejoin_size
    learner, other = ensemble.others(leader)
    fill(ensemble[leader], 0, FOLDER_NODES)  # what it has before it is behind
    ensemble[learner].stop()
    if how == "empty":
        ensemble.erase(learner)
    fill(ensemble[leader], FOLDER_NODES, size + FOLDER_NODES)
    os.sync()  # what was deleted before this, and is discarded only now, would be felt for half a minute
    with ThreadPoolExecutor(1) as background:
        run = background.submit(
            run_side_by_side,
            SNAPSHOT_LOAD,
            [ensemble[leader], ensemble[other]],
            plan.rejoin_run_seconds,
            rate=plan.rejoin_load_per_second,
            window=WINDOW_SECONDS,
        )
        time.sleep(QUIET_SHARE * plan.rejoin_run_seconds)
        began = time.monotonic()
        ensemble.spawn(learner)
        ensemble[learner].wait_until_serving(REJOIN_SECONDS_MAX, REJOIN_POLL_SECONDS)
        span = (began, time.monotonic())
        at_leader, at_other = run.result()
    return {
        rejoin_p99_at_leader(how, size).name: p99_meanwhile(at_leader, span),
        rejoin_p99_at_follower(how, size).name: p99_meanwhile(at_other, span),
        rejoin_seconds(how, size).name: figure_sample(span[1] - span[0]),
    }


def p99_meanwhile(result: LoadResult, span: Span) -> Sample:
    during, quiet = split_windows(result, [span])
    if not during or not quiet:
        return Sample(failure=f"{during.total()} requests meanwhile, {quiet.total()} when quiet")
    return figure_sample(during.percentile_us(99) / quiet.percentile_us(99))
