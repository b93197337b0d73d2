"""One sync of the leader's disk takes 4 s, twice syncLimit: `python -m bench.slow_sync`.

strace, attached to the leader, holds up its next fdatasync. Prints who leads before and afterwards, whether
the term of office is still the same, and the longest answer that clients of leader and follower got
meanwhile. With `--servers 2` one of the three is down, so nothing can be committed while the leader waits for
its disk.
"""

import argparse
import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import get_args

from bench.ensembles import run_side_by_side
from bench.load import LoadFailed
from bench.measure import SETTINGS
from bench.workloads import Load
from support.ensembles import Ensemble, start_ensemble
from support.servers import Kind

TICK_MS, SYNC_LIMIT = 500, 4
WRITES = Load("setData 100 B", "setData", 4, 1000, [])
WRITES_PER_SECOND = 200.0
RUN_SECONDS, ATTACH_AFTER_SECONDS = 12.0, 3.0


def measure(kind: Kind, servers: int, seconds: float) -> dict[str, object]:
    settings = {**SETTINGS, "tickTime": TICK_MS, "initLimit": 20, "syncLimit": SYNC_LIMIT}
    with start_ensemble([kind] * 3, settings, leader=2) as ensemble:
        if servers == 2:
            ensemble.stop(ensemble.followers()[-1])
        leader, epoch = ensemble.wait_for_leader(), epoch_of(ensemble)
        targets = [ensemble[leader], ensemble[ensemble.followers()[0]]]
        with ThreadPoolExecutor(1) as background:
            run = background.submit(run_side_by_side, WRITES, targets, RUN_SECONDS, rate=WRITES_PER_SECOND)
            time.sleep(ATTACH_AFTER_SECONDS)
            held_up = hold_up_a_sync(ensemble[leader].pid, seconds)
            try:
                longest = [f"{each.latencies.percentile_us(100) / 1e6:.2f} s" for each in run.result()]
            except LoadFailed as failed:
                longest = [str(failed)]
        return {
            "kind": kind,
            "servers": servers,
            "syncs held up": held_up,
            "for s": seconds,
            "syncLimit s": TICK_MS * SYNC_LIMIT / 1000,
            "leader": f"{leader} -> {ensemble.wait_for_leader()}",
            "epoch": f"{epoch} -> {epoch_of(ensemble)}",
            "longest answer at leader, follower": longest,
        }


def epoch_of(ensemble: Ensemble) -> int:
    return ensemble.zxid_of(ensemble.wait_for_leader()) >> 32


def hold_up_a_sync(pid: int, seconds: float) -> int:
    """Return once the sync that was held up has ended; says how many there were."""
    inject = f"inject=fdatasync:delay_enter={round(seconds * 1e6)}:when=1"
    command = ["strace", "-f", "-q", "-e", "trace=fdatasync", "-e", inject, "-p", str(pid)]
    strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    time.sleep(seconds + 1)
    strace.terminate()
    return strace.communicate()[1].count("(DELAYED)")


def main() -> None:
    parser = argparse.ArgumentParser(description="Hold up a sync of the leader's disk.")
    parser.add_argument("--kind", choices=get_args(Kind), default="triokeeper")
    parser.add_argument("--servers", type=int, choices=(2, 3), default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    print(json.dumps(measure(options.kind, options.servers, options.seconds)), flush=True)


if __name__ == "__main__":
    main()
