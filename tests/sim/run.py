"""Simulations from the command line: `python -m tests.sim.run --seeds 1:100 --minutes 1`.

Prints a line for every seed that fails, with how to run it again, and a summary.
"""

import argparse
import gc
import multiprocessing
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FrameType

from eventlog import Level, log
from tests.sim.plants import NAMES, planted
from tests.sim.scenario import draw_scenario
from tests.sim.simulation import Report, simulate

CPU_SECONDS_MAX = 200  # for one seed
LOOK_EVERY_S = 60.0
PROGRESS_EVERY = 50


def run_seed(
    seed: int,
    *,
    minutes: float,
    is_ensemble: bool,
    is_traced: bool = False,
    plant: str | None = None,
) -> Report:
    scenario = draw_scenario(seed, minutes * 60, is_ensemble=is_ensemble)
    if is_traced:
        print(scenario)
        _log_everything()
    else:
        log.least = "critical"
    with ends_in_time(seed), planted(plant):
        return simulate(scenario, print if is_traced else None)


@contextmanager
def ends_in_time(seed: int) -> Iterator[None]:
    """Raise RuntimeError if a seed uses too much CPU time, or none at all between two looks: then it waits
    for ever. Real time alone says nothing: the machine may be busy, or we may be stopped for a while."""
    started = last = time.process_time()
    idle_looks = 0

    def look(signum: int, frame: FrameType | None) -> None:
        nonlocal last, idle_looks
        now = time.process_time()
        idle_looks = idle_looks + 1 if now - last < 0.01 else 0
        last = now
        if idle_looks == 2 or now > started + CPU_SECONDS_MAX:
            raise RuntimeError(f"seed {seed} does not end")

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_EVERY_S, LOOK_EVERY_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _log_everything() -> None:
    """What servers log, among the events of the trace."""
    import trio

    from tests.sim.virtual_time import PROCESS

    def show(_: Level, event: str, fields: Mapping[str, object]) -> None:
        pairs = " ".join(f"{key}={value}" for key, value in fields.items())
        try:
            when = trio.current_time()
        except RuntimeError:
            when = 0.0
        print(f"{when:12.6f} {PROCESS.get():8} | {event} {pairs}")

    log.sink, log.least = show, "debug"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Simulate servers under faults, from seeds.")
    parser.add_argument("--seeds", default="1:20", help="A:B (without B), or one seed")
    parser.add_argument("--minutes", type=float, default=1.0, help="simulated, for each seed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--standalone", action="store_true", help="one server instead of an ensemble")
    parser.add_argument("--trace", action="store_true", help="print every event")
    parser.add_argument(
        "--plant", choices=NAMES, help="put a bug in, and stop at the first seed that finds it"
    )
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition(":")
    seeds = range(int(first), int(last) if last else int(first) + 1)
    run = partial(
        run_seed,
        minutes=options.minutes,
        is_ensemble=not options.standalone,
        is_traced=options.trace,
        plant=options.plant,
    )
    _collect_garbage_rarely()
    started = time.monotonic()
    total = Summary(options.minutes, options.standalone)
    for report in _reports(run, seeds, options.jobs):
        total.add(report)
        if options.plant and report.violations:
            break
    total.show(time.monotonic() - started)
    return 1 if total.failed else 0


def _collect_garbage_rarely() -> None:
    """A seed leaves little garbage behind, and what was imported none: a tenth of the time is spared."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def _reports(run: "partial[Report]", seeds: range, jobs: int) -> Iterator[Report]:
    if jobs == 1:
        yield from map(run, seeds)
    else:
        with multiprocessing.Pool(jobs, maxtasksperchild=50) as pool:
            yield from pool.imap_unordered(run, seeds)


class Summary:
    def __init__(self, minutes: float, is_standalone: bool) -> None:
        self.failed: list[int] = []
        self._minutes = minutes
        self._is_standalone = is_standalone
        self._seeds = 0
        self._simulated_s = 0.0
        self._cpu_s = 0.0
        self._counts: Counter[str] = Counter()

    def add(self, report: Report) -> None:
        self._seeds += 1
        self._simulated_s += report.simulated_s
        self._cpu_s += report.cpu_s
        self._counts += report.counts
        if self._seeds % PROGRESS_EVERY == 0:
            print(f"{self._seeds} seeds, {len(self.failed)} failed so far", file=sys.stderr, flush=True)
        if report.violations:
            self.failed.append(report.seed)
            options = " STANDALONE=1" if self._is_standalone else ""
            print(f"seed {report.seed}: {report.violations[0]}")
            print(
                f"    to see it again: make sim SEED={report.seed} MINUTES={self._minutes:g}{options}",
                flush=True,
            )

    def show(self, elapsed_s: float) -> None:
        faults = {key[6:]: count for key, count in sorted(self._counts.items()) if key.startswith("fault ")}
        others = {key: count for key, count in sorted(self._counts.items()) if not key.startswith("fault ")}
        print(f"{self._seeds} seeds, {len(self.failed)} failed, {elapsed_s:.0f} s")
        print(
            f"{self._simulated_s / 3600:.2f} simulated hours, "
            f"{self._simulated_s / max(self._cpu_s, 1e-9):.1f} of them in an hour of one core"
        )
        print("faults:", ", ".join(f"{count} {name}" for name, count in faults.items()))
        print("events:", ", ".join(f"{count} {name}" for name, count in others.items()))


if __name__ == "__main__":
    sys.exit(main())
