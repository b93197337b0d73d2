"""Every planted bug in turn, until a seed finds it: `python -m tests.sim.run_plants`.

Prints a table: the bug, the seed that found it, the CPU seconds that took, and what was noticed. Ends with 1
if one was not found. A seed that finds something without the bug does not count.
"""

import argparse
import multiprocessing
import re
import sys
import time
from collections.abc import Iterator
from functools import cache, partial

import attrs

from tests.sim.plants import NAMES, PLANTS
from tests.sim.run import run_seed

SEEDS_MAX = 200
_NOTICED_CHARACTERS = 90
# A plant that does not fit the code any more proves nothing: it has to be planted again.
_CLUMSY = re.compile(r"stops: \[(TypeError|AttributeError|NameError|IndexError|KeyError)")


@attrs.frozen
class Hunt:
    """What became of one planted bug."""

    name: str
    seed: int | None  # that found it
    cpu_s: float
    noticed: str

    def row(self) -> str:
        seed = "-" if self.seed is None else str(self.seed)
        return f"{self.name:44} {seed:>5} {self.cpu_s:8.1f}  {self.noticed[:_NOTICED_CHARACTERS]}"


def hunt(name: str, *, seeds: range, minutes: float) -> Hunt:
    started = time.process_time()
    for seed in seeds:
        report = run_seed(seed, minutes=minutes, is_ensemble=True, plant=name)
        if report.violations and is_clean(seed, minutes):
            noticed = report.violations[0].splitlines()[0]
            is_broken = bool(_CLUMSY.search(noticed))
            return Hunt(name, None if is_broken else seed, time.process_time() - started, noticed)
    return Hunt(name, None, time.process_time() - started, f"NOT FOUND: {PLANTS[name].behaviour}")


@cache
def is_clean(seed: int, minutes: float) -> bool:
    """Does the seed find nothing without a plant? Else it does not tell whether it found the plant."""
    return not run_seed(seed, minutes=minutes, is_ensemble=True).violations


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Plant bugs, and see which seed finds each.")
    parser.add_argument("plants", nargs="*", default=NAMES, metavar="PLANT", help="all, if none is given")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="at most, for each")
    parser.add_argument("--minutes", type=float, default=1.0, help="simulated, for each seed")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(arguments)
    if unknown := set(options.plants) - set(NAMES):
        parser.error(f"no such plant: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    print(f"{'planted bug':44} {'seed':>5} {'seconds':>8}  what was noticed", flush=True)
    seeds = range(1, options.seeds + 1)
    hunting = partial(hunt, seeds=seeds, minutes=options.minutes)
    missed = []
    for result in _results(hunting, options.plants, options.jobs):
        print(result.row(), flush=True)
        if result.seed is None:
            missed.append(result.name)
    print(f"{len(options.plants) - len(missed)} of {len(options.plants)} found within {options.seeds} seeds")
    return 1 if missed else 0


def _results(hunting: "partial[Hunt]", names: list[str], jobs: int) -> Iterator[Hunt]:
    if jobs == 1:
        yield from map(hunting, names)
    else:
        with multiprocessing.Pool(jobs, maxtasksperchild=1) as pool:
            yield from pool.imap(hunting, names)


if __name__ == "__main__":
    sys.exit(main())
