"""The differential test: the same random requests to Apache ZooKeeper and to Triokeeper, the same answers.

    make compat-differential                                 seeds 0 to 19
    make compat-differential ARGS='--seed 7 --shrink'        one seed, and if it fails the fewest steps

Both servers start empty with the same settings and take the same steps in lock-step (sides.py).
Compared are every reply with its header, zxids included, every event and its place among the replies, every
connection that is hung up, and at the end the whole tree. What differs on purpose is in
table.py, and is not asked for here.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TypeAlias, TypeVar, get_args

import attrs
import click

from protocol.differential.answers import Answer
from protocol.differential.scenarios import (
    AUDITOR,
    SLOTS,
    STILL,
    STILL_FLAGS,
    Profile,
    Scenario,
    Through,
    profile_of,
)
from protocol.differential.sides import Observation, Seen, Side
from protocol.differential.steps import Connect, Probe, Request, Send, Step, requests_of, weight_of
from support.ensembles import prepare_ensemble
from support.reference import ReferenceUnavailable
from support.servers import HOST, SMALL_FLAGS, Kind, Server, as_zoo_cfg, prepare_server

T = TypeVar("T")

KINDS: tuple[Kind, Kind] = ("reference", "triokeeper")
_STABLE_SRVR_LINES = (b"Zxid:", b"Mode:", b"Node count:")


@attrs.frozen
class Difference:
    """The first step at which the servers parted."""

    index: int
    step: Step
    reference: Observation
    triokeeper: Observation

    def __str__(self) -> str:
        lines = [f"step {self.index}: {describe(self.step)}"]
        for slot in sorted(self.reference.slots.keys() | self.triokeeper.slots.keys()):
            seen = [side.slots.get(slot, Seen()) for side in (self.reference, self.triokeeper)]
            if seen[0] != seen[1]:
                lines += [
                    f"slot {slot}, reference:\n    {seen[0]}",
                    f"slot {slot}, triokeeper:\n    {seen[1]}",
                ]
        if self.reference.probe != self.triokeeper.probe:
            lines += [f"reference: {self.reference.probe!r}", f"triokeeper: {self.triokeeper.probe!r}"]
        return "\n".join(lines)


def describe(step: Step) -> str:
    if not isinstance(step, Send | Connect):
        return str(step)
    head = f"slot {step.slot}" if isinstance(step, Send) else f"slot {step.slot}: {step.hello}"
    return "\n    ".join([head, *map(str, requests_of(step))])


@attrs.define
class Run:
    """What one seed came to."""

    seed: int
    steps: list[Step] = attrs.field(factory=list)
    operations: int = 0
    audited_nodes: int = 0
    difference: Difference | None = None
    share_ok: float = 0.0


@contextmanager
def both_sides(profile: Profile, through: Through) -> Iterator[list[Side]]:
    """The two servers, or a member of an ensemble of either kind."""
    if through == "standalone":
        with both_servers(profile) as sides:
            yield sides
        return
    with ExitStack() as running:
        sides = []
        for kind in KINDS:
            server = running.enter_context(member_of_ensemble(kind, profile, through))
            sides.append(Side(HOST, server.port, [None] * (SLOTS + 1)))
            running.callback(sides[-1].close)
        yield sides


@contextmanager
def member_of_ensemble(kind: Kind, profile: Profile, through: Through) -> Iterator[Server]:
    settings = as_zoo_cfg(STILL) + as_zoo_cfg(profile.settings)
    members = {"leader": 3, "follower": 1, "observer": 4}
    kinds = [kind] * max(3, members[through])
    flags = (*SMALL_FLAGS, *STILL_FLAGS)
    with prepare_ensemble(kinds, settings, observers=[members["observer"]], jvm_flags=flags) as ensemble:
        ensemble.begin(members["leader"])
        yield ensemble[members[through]]


@contextmanager
def both_servers(profile: Profile, *, may_end: bool = False) -> Iterator[list[Side]]:
    """The two servers, empty and configured alike; neither may end by itself, unless that is looked for."""
    with ExitStack() as running:
        servers = [_prepared(kind, profile) for kind in KINDS]
        for server in servers:
            running.enter_context(server).spawn()
        sides = []
        for server in servers:
            server.wait_until_serving()
            sides.append(Side(HOST, server.port, [None] * (SLOTS + 1)))
            running.callback(sides[-1].close)
        yield sides
        for server in servers:
            if server.has_ended and not may_end:
                raise server.failure("ended during the run")


def _prepared(kind: Kind, profile: Profile) -> Server:
    settings = as_zoo_cfg(STILL) + as_zoo_cfg(profile.settings)
    return prepare_server(kind, settings, jvm_flags=(*SMALL_FLAGS, *STILL_FLAGS))


def take(step: Step, sides: Sequence[Side]) -> tuple[Observation, Observation]:
    """One step with both servers, side by side."""
    for side in sides:
        side.begin(step)
    for side in sides:
        side.hear(step)
    for side in sides:
        side.ping()
    reference, triokeeper = (_masked(step, side.settle(step)) for side in sides)
    return reference, triokeeper


def _masked(step: Step, observed: Observation) -> Observation:
    """Of srvr only what is the server's state, rather than its history."""
    if isinstance(step, Probe) and step.data == b"srvr":
        lines = observed.probe.splitlines()
        observed.probe = [line for line in lines if line.startswith(_STABLE_SRVR_LINES)]
    return observed


def run_seed(seed: int, operations: int, through: Through = "standalone") -> Run:
    """Take random steps until there were enough operations or the servers differ; then compare the trees."""
    scenario, run = Scenario(seed, through), Run(seed)
    with both_sides(scenario.profile, through) as sides:
        while run.difference is None and run.operations < operations:
            _take_next(run, scenario.next_step(), scenario, sides)
            run.operations += weight_of(run.steps[-1])
        if run.difference is None:
            _take_next(run, scenario.begin_audit(), scenario, sides)
            _audit(run, scenario, sides)
    run.share_ok = scenario.world.replies_ok / max(1, scenario.world.replies)
    return run


def _take_next(run: Run, step: Step, scenario: Scenario, sides: Sequence[Side]) -> Observation:
    run.steps.append(step)
    reference, triokeeper = take(step, sides)
    if reference != triokeeper:
        run.difference = Difference(len(run.steps) - 1, step, reference, triokeeper)
    scenario.world.learn(step, reference)
    return reference


def _audit(run: Run, scenario: Scenario, sides: Sequence[Side]) -> None:
    todo = [b"/"]
    while todo and run.difference is None:
        path = todo.pop()
        observed = _take_next(run, scenario.audit(path), scenario, sides)
        listing = observed.slots[AUDITOR].frames[0]
        assert isinstance(listing, Answer)
        todo += [path.rstrip(b"/") + b"/" + name for name in listing.body["children"]]
        run.audited_nodes += 1


def replay(seed: int, steps: Sequence[Step], through: Through) -> Difference | None:
    """The first difference that these steps bring out on fresh servers."""
    with both_sides(profile_of(seed), through) as sides:
        for index, step in enumerate(steps):
            reference, triokeeper = take(step, sides)
            if reference != triokeeper:
                return Difference(index, step, reference, triokeeper)
    return None


def take_alone(kind: Kind, profile: Profile, steps: Sequence[Step]) -> list[Observation]:
    """What a fresh server of one kind says to each step."""
    with _prepared(kind, profile) as server:
        server.start()
        side = Side(HOST, server.port, [None] * (SLOTS + 1))
        try:
            return [_take_one(step, side) for step in steps]
        finally:
            side.close()


def _take_one(step: Step, side: Side) -> Observation:
    side.begin(step)
    side.hear(step)
    side.ping()
    return _masked(step, side.settle(step))


def shrink(
    seed: int, difference: Difference, steps: Sequence[Step], through: Through
) -> tuple[list[Step], Difference]:
    """The fewest steps, of the fewest requests, that still show a difference."""
    last = difference

    def differs(tried: list[Step]) -> int | None:
        nonlocal last
        found = replay(seed, tried, through)
        last = last if found is None else found
        return None if found is None else found.index

    kept = smallest(differs, list(steps[: difference.index + 1]))
    click.echo(f"{len(kept)} steps, leaving out single requests", err=True)
    return _follow(differs, kept, _without_requests), last


Differs: TypeAlias = Callable[[list[T]], int | None]  # the step at which these steps show a difference


def smallest(differs: Differs[T], steps: list[T]) -> list[T]:
    """Leave out as many steps as can be, from halves down to single ones; the last one always stays."""
    size = len(steps)
    while size := size // 2:
        click.echo(f"{len(steps)} steps, leaving out {size} at a time", err=True)
        steps = _follow(differs, steps, partial(_without_steps, size))
    return steps


def _follow(differs: Differs[T], steps: list[T], variants: Callable[[list[T]], list[list[T]]]) -> list[T]:
    """Follow the variants that still show a difference; `variants` makes all that leave out one thing, in
    order, so that after a success the next one to try stands at the same place.
    """
    at = 0
    while at < len(untried := variants(steps)):
        index = differs(untried[at])
        if index is None:
            at += 1
        else:
            steps = untried[at][: index + 1]
    return steps


def _without_steps(size: int, steps: list[T]) -> list[list[T]]:
    """All but the last step may go."""
    return [steps[:at] + steps[min(at + size, len(steps) - 1) :] for at in range(0, len(steps) - 1, size)]


def _without_requests(steps: list[Step]) -> list[list[Step]]:
    return [
        [
            *steps[:at],
            attrs.evolve(step, requests=_without(step.requests, out), cut_at=None),
            *steps[at + 1 :],
        ]
        for at, step in enumerate(steps)
        if isinstance(step, Send)
        for out in range(len(step.requests))
    ]


def _without(requests: tuple[Request, ...], out: int) -> tuple[Request, ...]:
    return requests[:out] + requests[out + 1 :]


def report(run: Run, seconds: float) -> None:
    verdict = "DIFFERENT" if run.difference else "same"
    click.echo(
        f"seed {run.seed:3} ({profile_of(run.seed).name}): {run.operations} operations in "
        f"{len(run.steps)} steps, {run.share_ok:.0%} succeeded, {run.audited_nodes} nodes at the end, "
        f"{seconds:.0f} s: {verdict}"
    )
    if run.difference:
        click.echo(run.difference)


def show_shrunk(run: Run, through: Through) -> None:
    assert run.difference is not None
    steps, difference = shrink(run.seed, run.difference, run.steps, through)
    click.echo(f"\n{len(steps)} steps are enough:")
    for step in steps:
        click.echo(describe(step))
    click.echo(f"\n{difference}")
    if through == "standalone":
        keep(run.seed, steps, difference)


def keep(seed: int, steps: Sequence[Step], difference: Difference) -> None:
    """Put the steps into the corpus that `make test` replays."""
    from protocol.differential.corpus import Case, answers_of, as_kept, save

    profile = profile_of(seed)
    why = f"found by seed {seed}: {describe(difference.step).splitlines()[-1].strip()}"
    kept = as_kept(steps)
    case = Case(f"seed-{seed}", why, profile.name, kept, answers_of("reference", profile, kept))
    click.echo(f"\nkept as {save(case)}: give it a name and a reason, and fix what is wrong")


@click.command()
@click.option("--seeds", default=20, help="How many seeds, from 0 on.")
@click.option("--seed", type=int, help="This one seed only.")
@click.option("--ops", default=1000, help="Operations for each seed.")
@click.option(
    "--shrink", "shrinks", is_flag=True, help="After a difference, find the fewest steps that show it."
)
@click.option("--keep-going", is_flag=True, help="Go on with the next seed after a difference.")
@click.option(
    "--through",
    type=click.Choice(get_args(Through)),
    default="standalone",
    help="Compare single servers, or this member of ensembles.",
)
def main(seeds: int, seed: int | None, ops: int, shrinks: bool, keep_going: bool, through: Through) -> None:
    """Send the same random requests to Apache ZooKeeper and to Triokeeper, and compare all answers."""
    total = differences = 0
    for each in range(seeds) if seed is None else [seed]:
        started = time.monotonic()
        try:
            run = run_seed(each, ops, through)
        except ReferenceUnavailable as reason:
            raise click.ClickException(f"there is nothing to compare with: {reason}") from None
        report(run, time.monotonic() - started)
        total += run.operations
        differences += run.difference is not None
        if run.difference and shrinks:
            show_shrunk(run, through)
        if run.difference and not keep_going:
            break
    click.echo(f"{total} operations compared, {differences} of the seeds differ")
    sys.exit(differences != 0)


if __name__ == "__main__":
    main()
