"""The bench runs: Triokeeper alone, shortest form, one load of each kind."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.load import LoadgenUnavailable, build_loadgen

CHECKOUT = Path(__file__).resolve().parents[2]
ROWS = [
    "getData 100 B, 50x1",
    "create + delete ephemeral sequential, 50x100",
    "70/30 mixed, 50x1",
    "connect storm (sessions), 50 at once",
]

PAUSE_ROWS = [
    "pause: a multi of a whole frame of creates: longest wait",
    "pause: 3,000 clients connect at the same moment: longest wait",
]
THREE_ROWS = [
    "three servers: writes through both followers, 25x1 each",
    "three servers: reads at all of them, 25x100 each",
    "three servers: leader's kill -9 to next acknowledged write",
]


@pytest.mark.parametrize(
    "names", [ROWS, PAUSE_ROWS, THREE_ROWS], ids=["one server", "pauses", "three servers"]
)
def test_a_quick_bench_gives_a_figure_for_each_row(names: list[str], tmp_path: Path) -> None:
    """Every reply was right, else the row would hold the generator's complaint instead of a figure."""
    try:
        build_loadgen()
    except LoadgenUnavailable as unavailable:
        pytest.skip(str(unavailable))
    output = tmp_path / "tables.md"
    chosen = [f"--workload={row}" for row in names]
    command = [sys.executable, "bench/run.py", "--quick", "--pure", "--side=triokeeper", f"--output={output}"]
    finished = subprocess.run([*command, *chosen], cwd=CHECKOUT, capture_output=True, text=True, timeout=100)

    assert finished.returncode == 0, finished.stderr
    lines = [[cell.strip() for cell in line.split("|")] for line in output.read_text().splitlines()]
    rows = {cells[1].removesuffix(", ms"): cells[3] for cells in lines if len(cells) > 3}
    for name in names:
        assert rows[name].replace(",", "").isdigit(), rows[name]
