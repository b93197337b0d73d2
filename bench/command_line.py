"""The command line of the bench: choose, measure in alternation, print and write the tables."""

import os
import platform
import signal
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from types import FrameType

import attrs
import click

from bench.ensembles import figures_of_rejoining, measure_rejoining, measure_three
from bench.load import LoadgenUnavailable, build_loadgen
from bench.measure import QUICK, Plan, Round, figures_of_sizes, measure_loads, measure_sizes
from bench.pauses import measure_pauses
from bench.report import Comparison, figure_table, load_table
from bench.workloads import (
    COLD_START,
    FAIL_OVER,
    IDLE_RSS,
    LOADED_RSS,
    LOADS,
    PAUSES,
    THREE_LOADS,
    Figure,
    Load,
    Pause,
)
from scripts.compile_hot_modules import CompilationFailed, CompilerUnavailable, compile_hot_modules
from support.reference import ReferenceUnavailable, find_reference
from support.servers import Kind, ServerFailed

KINDS: Sequence[Kind] = ("reference", "triokeeper")
TRIOKEEPER_NAMES = ("Triokeeper, pure Python", "Triokeeper, compiled")


@attrs.frozen
class Choice:
    """Which rows are wanted: those whose name is like one of the patterns, all if there are none."""

    patterns: Sequence[str]

    def wants(self, row: Load | Figure) -> bool:
        return not self.patterns or any(fnmatch(row.name.lower(), like.lower()) for like in self.patterns)


@click.command()
@click.option("--quick", is_flag=True, help="A smoke of some seconds: everything runs, no figure means much.")
@click.option(
    "--workload",
    "patterns",
    multiple=True,
    help="Only this row, or rows like '*50x1' or '*znode*'; repeatable.",
)
@click.option("--rounds", type=click.IntRange(min=1), help="How often each server takes its turn.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the tables here, too.")
@click.option(
    "--side",
    "sides",
    multiple=True,
    type=click.Choice(KINDS),
    default=KINDS,
    help="Once: this server alone. Twice: the base, then the candidate; the same two show the noise.",
)
@click.option("--pure", is_flag=True, help="Triokeeper from the sources, without compiling its hot modules.")
def main(
    quick: bool,
    patterns: tuple[str, ...],
    rounds: int | None,
    output: Path | None,
    sides: Sequence[Kind],
    pure: bool,
) -> None:
    """Run Triokeeper and the Java server in turns through the same loads and print the ratios."""
    signal.signal(signal.SIGTERM, _exit_in_order)
    plan = QUICK if quick else Plan()
    if rounds is not None:
        plan = attrs.evolve(plan, rounds=rounds)
    if len(sides) > 2:
        raise click.UsageError("--side: two servers are compared, not more")
    try:
        build_loadgen()
    except LoadgenUnavailable as unavailable:
        raise click.ClickException(str(unavailable)) from None
    if not pure and "triokeeper" in sides:
        os.environ["TRIOKEEPER_CODE"] = str(compiled_code())
    sides = available(sides)
    if not sides:
        raise click.ClickException("no server to measure")
    report = ""
    try:
        for report in reports(sides, Choice(patterns), plan):
            if output is not None:  # after every round: a bench takes long, and may be cut short
                output.write_text(report + "\n")
    except ServerFailed as failed:
        raise click.ClickException(str(failed)) from None
    click.echo(report)


def compiled_code() -> Path:
    try:
        return compile_hot_modules(say=partial(click.echo, err=True))
    except (CompilerUnavailable, CompilationFailed) as failure:
        raise click.ClickException(f"{failure}; --pure measures the sources as they are") from None


def _exit_in_order(_number: int, _frame: FrameType | None) -> None:
    sys.exit("terminated")


def available(sides: Sequence[Kind]) -> Sequence[Kind]:
    """The sides asked for, or where there is no Java server those that are left; says why."""
    if "reference" not in sides:
        return sides
    try:
        find_reference()
    except ReferenceUnavailable as unavailable:
        click.echo(f"Without the Java server, so there are no ratios: {unavailable}", err=True)
        return [side for side in sides if side != "reference"]
    return sides


def reports(sides: Sequence[Kind], choice: Choice, plan: Plan) -> Iterator[str]:
    """The report after each round, of all rounds so far."""
    rows = Rows.chosen(choice, plan)
    if not (rows.loads or rows.figures):
        raise click.ClickException("--workload: there is no such row")
    measured: list[list[Round]] = [[] for _ in sides]
    for number in range(1, plan.rounds + 1):
        click.echo(f"round {number} of {plan.rounds}", err=True)
        # Who goes first changes from round to round, in case it matters.
        order = list(range(len(sides))) if number % 2 else list(reversed(range(len(sides))))
        turns = measure_round([sides[side] for side in order], rows, plan)
        for side, result in zip(order, turns, strict=True):
            measured[side].append(result)
        yield render(measured, sides, rows.loads, rows.figures, plan)


@attrs.frozen
class Rows:
    """What is to be measured, by what has to be started for it."""

    of_one: Sequence[Load]
    of_one_life: Sequence[Figure]
    of_sizes: Sequence[Figure]
    of_three: Sequence[Load]
    of_fail_over: Sequence[Figure]
    of_rejoining: Sequence[Figure]
    of_pauses: Sequence[Pause]

    @classmethod
    def chosen(cls, choice: Choice, plan: Plan) -> "Rows":
        return cls(
            of_one=[load for load in LOADS if choice.wants(load)],
            of_one_life=[figure for figure in (COLD_START, IDLE_RSS, LOADED_RSS) if choice.wants(figure)],
            of_sizes=[figure for figure in figures_of_sizes(plan) if choice.wants(figure)],
            of_three=[load for load in THREE_LOADS if choice.wants(load)],
            of_fail_over=[figure for figure in (FAIL_OVER,) if choice.wants(figure)],
            of_rejoining=[figure for figure in figures_of_rejoining(plan) if choice.wants(figure)],
            of_pauses=[pause for pause in PAUSES if choice.wants(pause)],
        )

    @property
    def loads(self) -> list[Load]:
        return [*self.of_one, *self.of_three]

    @property
    def figures(self) -> list[Figure]:
        return [
            *self.of_one_life,
            *self.of_sizes,
            *self.of_pauses,
            *self.of_fail_over,
            *self.of_rejoining,
        ]


def measure_round(kinds: Sequence[Kind], rows: Rows, plan: Plan) -> list[Round]:
    rounds: list[Round] = [{} for _ in kinds]
    if rows.of_one or rows.of_one_life:
        rounds = measure_loads(kinds, rows.of_one, plan)
    if rows.of_sizes:
        rounds = [result | measure_sizes(kind, plan) for kind, result in zip(kinds, rounds, strict=True)]
    if rows.of_pauses:
        felt = measure_pauses(kinds, rows.of_pauses, plan)
        rounds = [result | pauses for result, pauses in zip(rounds, felt, strict=True)]
    if rows.of_three or rows.of_fail_over:
        together = measure_three(kinds, rows.of_three, rows.of_fail_over, plan)
        rounds = [result | three for result, three in zip(rounds, together, strict=True)]
    if rows.of_rejoining:
        rounds = [result | measure_rejoining(kind, plan) for kind, result in zip(kinds, rounds, strict=True)]
    return rounds


def render(
    measured: Sequence[Sequence[Round]],
    sides: Sequence[Kind],
    loads: Sequence[Load],
    figures: Sequence[Figure],
    plan: Plan,
) -> str:
    comparison = Comparison(base=measured[0] if len(sides) == 2 else [], candidate=measured[-1])
    names = (name_of(sides[0]) if len(sides) == 2 else "nothing to compare with", name_of(sides[-1]))
    parts = [description(sides, len(measured[-1]), plan)]
    if loads:
        parts.append(load_table(comparison, loads, names))
    if figures:
        parts.append(figure_table(comparison, figures, names))
    return "\n\n".join(parts)


def name_of(kind: Kind) -> str:
    if kind == "reference":
        return f"ZooKeeper {find_reference().version}"
    return TRIOKEEPER_NAMES["TRIOKEEPER_CODE" in os.environ]


def description(sides: Sequence[Kind], rounds: int, plan: Plan) -> str:
    machine = f"{platform.machine()}, Linux {platform.release()}, Python {platform.python_version()}"
    return (
        f"{' and '.join(map(name_of, sides))} in turns, {rounds} rounds, {plan.seconds:g} s per load "
        f"after {plan.warm_up_seconds:g} s of warming up; medians, ratios within a round. NxD is N "
        f"connections with D requests outstanding each. Every reply was checked. Load generator and server "
        f"share {os.cpu_count()} cores ({machine})."
    )
