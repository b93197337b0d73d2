"""Rounds into tables: medians of both servers, the ratio with its spread, and whether it meets its marks.

Ratios are taken within a round, between neighbours in time, and then the median of them; so a machine that
gets slower in the course of a bench favours nobody. With one server alone there are figures but no ratios.
"""

from collections.abc import Sequence
from statistics import median

import attrs

from bench.measure import Round, Sample
from bench.workloads import Figure, Load, Metric, Target

NOTHING = "-"


@attrs.frozen
class Comparison:
    """All rounds of two servers; `base` is empty when there was nothing to compare with."""

    base: Sequence[Round]
    candidate: Sequence[Round]

    def values(self, side: Sequence[Round], row: Load | Figure, metric: Metric) -> list[float]:
        return [
            value for sample in samples_of(side, row) if (value := sample.figures.get(metric)) is not None
        ]

    def ratios(self, row: Load | Figure, metric: Metric) -> list[float]:
        """Candidate to base, round by round; of a figure that is a ratio by itself, the candidate's own."""
        if isinstance(row, Figure) and row.is_ratio:
            return self.values(self.candidate, row, metric)
        pairs = zip(samples_of(self.base, row), samples_of(self.candidate, row), strict=False)
        return [
            ours.figures[metric] / theirs.figures[metric]
            for theirs, ours in pairs
            if theirs.figures.get(metric) and metric in ours.figures
        ]

    def failures(self, row: Load | Figure) -> list[str]:
        both = (*samples_of(self.base, row), *samples_of(self.candidate, row))
        return sorted({sample.failure for sample in both if sample.failure})


def samples_of(side: Sequence[Round], row: Load | Figure) -> list[Sample]:
    return [measured[row.name] for measured in side if row.name in measured]


# ---- cells


def middle(values: Sequence[float], form: str = ",.0f") -> str:
    return format(median(values), form) if values else NOTHING


def ratio_with_spread(ratios: Sequence[float]) -> str:
    if not ratios:
        return NOTHING
    spread = f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else ""
    return f"{median(ratios):.2f}x{spread}"


def verdict(comparison: Comparison, row: Load | Figure, targets: Sequence[Target], mark: str) -> str:
    """The marks in words, each with "met" or "missed" once there is a ratio to say so."""
    return ", ".join(
        judge(target, comparison.ratios(row, target.metric), getattr(target, mark)) for target in targets
    )


def judge(target: Target, ratios: Sequence[float], mark: float) -> str:
    words = target.describe(mark)
    if not ratios:
        return words
    return f"{words} {'met' if target.is_met_by(median(ratios), mark) else '**missed**'}"


# ---- tables


def load_table(comparison: Comparison, loads: Sequence[Load], names: tuple[str, str]) -> str:
    theirs, ours = names
    header = [
        "load",
        f"{theirs}, per s",
        f"{ours}, per s",
        "ratio (spread)",
        "CPU µs per request",
        "ratio (spread)",
        "p50 µs",
        "ratio",
        "p99 µs",
        "ratio",
        "generator's CPU",
        "first landing",
        "goal",
    ]
    return markdown(header, [load_cells(comparison, load) for load in loads])


def load_cells(comparison: Comparison, load: Load) -> list[str]:
    failures = comparison.failures(load)
    return [
        load.name,
        middle(comparison.values(comparison.base, load, "throughput")),
        "; ".join(failures) or middle(comparison.values(comparison.candidate, load, "throughput")),
        ratio_with_spread(comparison.ratios(load, "throughput")),
        both_sides(comparison, load, "cpu_us", ",.1f"),
        ratio_with_spread(comparison.ratios(load, "cpu_us")),
        both_sides(comparison, load, "p50_us"),
        middle(comparison.ratios(load, "p50_us"), ".2f"),
        both_sides(comparison, load, "p99_us"),
        middle(comparison.ratios(load, "p99_us"), ".2f"),
        generator_shares(comparison, load),
        verdict(comparison, load, load.targets, "first"),
        verdict(comparison, load, load.targets, "goal"),
    ]


def both_sides(comparison: Comparison, row: Load | Figure, metric: Metric, form: str = ",.0f") -> str:
    sides = (side for side in (comparison.base, comparison.candidate) if side)
    return " → ".join(middle(comparison.values(side, row, metric), form) for side in sides)


def generator_shares(comparison: Comparison, load: Load) -> str:
    sides = (side for side in (comparison.base, comparison.candidate) if side)
    shares = (
        [sample.generator_share for sample in samples_of(side, load) if sample.figures] for side in sides
    )
    return " / ".join(middle(values, ".0%") for values in shares)


def figure_table(comparison: Comparison, figures: Sequence[Figure], names: tuple[str, str]) -> str:
    header = ["figure", *names, "ratio (spread)", "first landing", "goal"]
    return markdown(header, [figure_cells(comparison, figure) for figure in figures])


def figure_cells(comparison: Comparison, figure: Figure) -> list[str]:
    form = ",.2f" if figure.is_ratio else ",.0f"
    return [
        f"{figure.name}, {figure.unit}",
        middle(comparison.values(comparison.base, figure, "value"), form),
        "; ".join(comparison.failures(figure))
        or middle(comparison.values(comparison.candidate, figure, "value"), form),
        ratio_with_spread(comparison.ratios(figure, "value")),
        verdict(comparison, figure, figure.targets, "first"),
        verdict(comparison, figure, figure.targets, "goal"),
    ]


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with its columns aligned, so that a terminal shows it well too."""
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in lines
    )
