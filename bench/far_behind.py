"""A follower comes back 12,000 transactions of 1 KB behind, under load: `python -m bench.far_behind`.

The leader and the other follower are of the given kind and serve 1,000 requests a second each, 30 in 100 of
them writes; the one that comes back is Triokeeper. With `--as txns` the tree is so large beside what is
missing that both kinds of leader send transactions, else they send the tree. Prints how long the follower
took from the start of its process and from its leader's first word, and the p99 of clients before and
meanwhile.
"""

import argparse
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeAlias, get_args

from bench.ensembles import run_side_by_side
from bench.load import LoadResult, run_load
from bench.measure import SETTINGS, SNAPSHOT_LOAD, WINDOW_SECONDS
from bench.snapshots import Span, split_windows
from bench.workloads import FOLDER_NODES, Load
from support.ensembles import Ensemble, prepare_ensemble
from support.servers import OWN_SCRIPT_FLAGS, Kind

Way: TypeAlias = Literal["tree", "txns"]
FILL = Load("fill", "fill", 10, 100, [], bytes=1024)
LEARNER = 3
QUIET_SECONDS, RUN_SECONDS = 12.0, 26.0
LOAD_PER_SECOND = 1000.0


def measure(kind: Kind, way: Way, behind: int) -> dict[str, object]:
    tree_nodes = 5 * behind if way == "txns" else FOLDER_NODES
    settings = {**SETTINGS, "tickTime": 2000, "snapCount": 2 * behind, "preAllocSize": 1024}
    with prepare_ensemble([kind, kind, "triokeeper"], settings, jvm_flags=OWN_SCRIPT_FLAGS) as ensemble:
        ensemble.begin(leader=2)
        leader = ensemble.wait_for_leader()
        run_load(FILL, ensemble[leader].port, count=tree_nodes, first_folder=0)
        ensemble.barrier()
        ensemble.stop(LEARNER)
        run_load(FILL, ensemble[leader].port, count=behind, first_folder=tree_nodes // FOLDER_NODES)
        return come_back(ensemble, leader) | {"leader": kind, "as": way, "behind": behind}


def come_back(ensemble: Ensemble, leader: int) -> dict[str, object]:
    other = next(iter(set(ensemble.running) - {leader}))
    with ThreadPoolExecutor(1) as background:
        run = background.submit(
            run_side_by_side,
            SNAPSHOT_LOAD,
            [ensemble[leader], ensemble[other]],
            RUN_SECONDS,
            rate=LOAD_PER_SECOND,
            window=WINDOW_SECONDS,
        )
        time.sleep(QUIET_SECONDS)
        began = time.monotonic()
        ensemble.spawn(LEARNER)
        ensemble[LEARNER].wait_until_serving()
        span = (began, time.monotonic())
        at_leader, at_other = run.result()
    text = ensemble[LEARNER].log_text
    return {
        "seconds": round(span[1] - span[0], 2),
        "of these in synchronisation": int(re.findall(r"following.*took_ms[\"=: ]+(\d+)", text)[-1]) / 1000,
        "mode": re.findall(r"following.*mode[\"=: ]+(\w+)", text)[-1],
        "p99 at the leader": p99_meanwhile(at_leader, span),
        "p99 at the other follower": p99_meanwhile(at_other, span),
    }


def p99_meanwhile(result: LoadResult, span: Span) -> str:
    during, quiet = split_windows(result, [span])
    before, meanwhile = quiet.percentile_us(99), during.percentile_us(99)
    return f"{before / 1000:.2f} -> {meanwhile / 1000:.2f} ms ({meanwhile / before:.2f}x)"


def main() -> None:
    parser = argparse.ArgumentParser(description="Let a follower come back that is far behind.")
    parser.add_argument("--leader", choices=get_args(Kind), default="triokeeper")
    parser.add_argument("--as", dest="way", choices=get_args(Way), default="txns")
    parser.add_argument("--behind", type=int, default=12_000, help="transactions, a multiple of 1,000")
    options = parser.parse_args()
    print(json.dumps(measure(options.leader, options.way, options.behind)), flush=True)


if __name__ == "__main__":
    main()
