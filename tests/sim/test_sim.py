"""A bounded number of simulations, and that they can be repeated."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.captured_logs import logging_restored
from tests.sim.run import run_seed

MINUTES = 0.25


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A run silences the servers' log, for the whole process."""
    with logging_restored():
        yield


@pytest.mark.parametrize("seed", range(1, 11))
def test_ensemble(seed: int) -> None:
    """Servers under faults keep every promise that the checkers know of."""
    report = run_seed(seed, minutes=MINUTES, is_ensemble=True)
    assert not report.violations, f"to see it again: make sim SEED={seed} MINUTES={MINUTES}"


@pytest.mark.parametrize("seed", range(1, 6))
def test_standalone(seed: int) -> None:
    """So does a server alone."""
    report = run_seed(seed, minutes=MINUTES, is_ensemble=False)
    assert not report.violations, f"to see it again: make sim SEED={seed} MINUTES={MINUTES} STANDALONE=1"


@pytest.mark.parametrize("seed", [7])
def test_the_same_seed_gives_the_same_run_in_every_process(seed: int) -> None:
    """Whatever Python hashes strings to."""
    command = (
        f"from tests.sim.run import run_seed; "
        f"print(run_seed({seed}, minutes={MINUTES}, is_ensemble=True).fingerprint)"
    )
    fingerprints = {
        subprocess.run(
            [sys.executable, "-c", command],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in (1, 2)
    }
    assert len(fingerprints) == 1


@pytest.mark.parametrize(
    "plant",
    [
        "commit-out-of-order",
        "links-never-closed",
        "multi-not-atomic",
        "touches-ignored",
        "watch-fires-twice",
    ],
)
def test_a_planted_bug_is_noticed(plant: str) -> None:
    """Within a few seeds, for bugs that show soon; `make sim PLANT=...` tries the others."""
    reports = (run_seed(seed, minutes=MINUTES, is_ensemble=True, plant=plant) for seed in range(1, 8))
    assert any(report.violations for report in reports)
