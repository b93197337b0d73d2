"""From rounds to verdicts, and from windows of latencies to the part that a snapshot touched."""

import pytest

from bench.load import Histogram, LoadResult
from bench.measure import Round, Sample, figure_sample
from bench.report import Comparison, figure_table, load_table, markdown
from bench.snapshots import Span, note_growth, split_windows
from bench.workloads import IDLE_RSS, LOADS, READ, Load, Target, snapshot_p99

GET = Load("getData", "getData", 50, 1, READ)


def round_of(throughput: float, cpu_us: float) -> Round:
    return {GET.name: Sample({"throughput": throughput, "cpu_us": cpu_us, "p50_us": 1, "p99_us": 2}, 0.25)}


def test_a_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    """A machine that slows down between rounds changes the figures, not the ratio."""
    comparison = Comparison(
        base=[round_of(100, 40), round_of(50, 80), round_of(10, 400)],
        candidate=[round_of(200, 20), round_of(100, 40), round_of(30, 100)],
    )

    assert comparison.ratios(GET, "throughput") == [2, 2, 3]
    row = load_table(comparison, [GET], ("theirs", "ours")).splitlines()[2]
    assert "2.00x (2.00 to 3.00)" in row
    assert "throughput ≥ 1.3x met, CPU ≤ 0.7x met" in row
    assert "throughput ≥ 2x met, CPU ≤ 0.4x **missed**" in row
    assert "25% / 25%" in row


def test_one_server_alone_has_figures_but_no_ratio() -> None:
    row = load_table(Comparison([], [round_of(100, 40)]), [GET], ("", "ours")).splitlines()[2]

    assert "| 100 " in row
    assert "met" not in row
    assert "missed" not in row


def test_a_failed_load_says_so_in_place_of_its_figure() -> None:
    failed: Round = {GET.name: Sample(failure="connection 3: error -101 for opcode 4")}
    table = load_table(Comparison([round_of(100, 40)], [failed]), [GET], ("theirs", "ours"))

    assert "connection 3: error -101 for opcode 4" in table
    assert "missed" not in table


def test_a_figure_that_is_a_ratio_is_judged_without_the_other_server() -> None:
    figure = snapshot_p99(1_000_000)
    base, ours = {figure.name: figure_sample(9.0)}, {figure.name: figure_sample(1.5)}

    row = figure_table(Comparison([base], [ours]), [figure], ("theirs", "ours")).splitlines()[2]
    assert "≤ 2x met" in row
    assert "≤ 1.2x **missed**" in row


def test_less_memory_is_better() -> None:
    (target,) = IDLE_RSS.targets

    assert target.is_met_by(0.42, target.first)
    assert not target.is_met_by(0.42, target.goal)


def test_more_throughput_is_better() -> None:
    assert Target("throughput", 1.3, 2).is_met_by(1.4, 1.3)
    assert not Target("throughput", 1.3, 2).is_met_by(1.4, 2)


def test_every_load_has_a_name_of_its_own() -> None:
    """Rounds are kept by name."""
    assert len({load.name for load in LOADS}) == len(LOADS)


@pytest.mark.parametrize(("percent", "expected_us"), [(0, 1), (50, 2), (98, 2), (99, 3), (100, 3)])
def test_a_percentile_is_the_latency_that_so_many_did_not_exceed(percent: float, expected_us: float) -> None:
    histogram = Histogram({1000: 10, 2000: 88, 3000: 2})

    assert histogram.percentile_us(percent) == expected_us


def test_growth_within_a_pause_is_one_snapshot() -> None:
    spans: list[Span] = []
    for now in (1.0, 1.1, 1.35, 5.0, 5.2):
        note_growth(spans, now)

    assert spans == [(1.0, 1.35), (5.0, 5.2)]


def test_a_window_that_a_snapshot_touches_is_not_quiet() -> None:
    """Half a second before the file is seen belongs to the snapshot in part: a server may prepare it."""
    windows = [Histogram({number: 1}) for number in range(10)]  # of one second each, from 100 on
    result = LoadResult(10, 10, 10, 0, 0, started_at=100, window_seconds=1, windows=windows)

    during, quiet = split_windows(result, [(104.5, 106.5)])
    assert sorted(during) == [4, 5, 6]
    assert sorted(quiet) == [0, 1, 2, 3, 7, 8, 9]


def test_a_table_is_aligned() -> None:
    assert markdown(["a", "bcd"], [["long", "x"]]) == "| a    | bcd |\n| ---- | --- |\n| long | x   |"
