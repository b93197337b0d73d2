"""What a seed stands for: how many servers and clients, how fast, and what goes wrong how often.

Swarm mode: each seed draws which kinds of faults there are at all. A run with few kinds goes deeper into
those than a run with all of them.
"""

from random import Random
from typing import Literal

import attrs

from tests.sim.clients import Habits
from tests.sim.thresholds import draw_thresholds

FAULTS = (
    "kill",
    "power_loss",
    "kill_all",
    "power_loss_all",
    "crash_in_disk",
    "pause",
    "partition",
    "one_way_cut",
    "isolate",
    "slow_link",
    "reset",
    "silence",
    "disk_error",
    "disk_full",
    "slow_disk",
    "clock_step",
)
# Thought of later, and drawn apart from the others, so that a seed still stands for what it stood for.
LATER_FAULTS = ("crash_in_recovery", "blackout_in_disk", "disk_unable", "purge", "stalled_leader")
TOLD_PER_S_MAX = 300  # requests of all clients, times the servers: what a simulated second costs
STANDALONE_FAULTS = tuple(
    fault for fault in FAULTS if fault not in ("kill_all", "power_loss_all", "partition", "isolate")
)


@attrs.frozen(kw_only=True)
class Scenario:
    seed: int
    duration_s: float
    voters: int
    observers: int
    clients: int
    tick_ms: int
    snap_count: int
    commit_log_count: int
    snapshot_compression: Literal["", "gz"]
    snapshot_size_factor: float
    force_snapshot_sync: bool
    log_size_limit_bytes: int
    has_own_log_dir: bool
    has_digests: bool
    observers_log: bool
    is_reconfigured: bool
    leader_serves: bool
    has_observer_masters: bool
    has_local_sessions: bool
    group_lines: tuple[str, ...]  # group.N and weight.N of the configuration: none, and the majority decides
    delay_s: float
    jitter_s: float
    sync_s: tuple[float, float]
    cut_anywhere: float
    faults: tuple[str, ...]
    fault_every_s: float
    leader_bias: float  # how often a fault looks for the leader
    habits: tuple[Habits, ...]
    clock_drift: float  # by how much a machine's clock may run faster or slower than others
    retransmits_late: bool  # after a long cut TCP's next try may be as far away as the cut was long
    purges: bool
    reaps: bool
    has_stranger: bool  # somebody on the network who is no member, and may say that it is
    has_oracle: bool  # of two voters one may go on alone, if it says so
    has_read_only_mode: bool
    snapshot_write_s: float  # what each write of a snapshot takes longer
    finds_old_logs: bool  # from a time when Apache's servers used the directories
    acks_early: bool  # some followers acknowledge proposals before NEWLEADER, as some of Apache's do
    thresholds: tuple[tuple[str, int], ...]  # sizes that are far smaller than in production

    @property
    def epochs_are_short(self) -> bool:
        """A leader resigns when the zxids of its epoch are used up."""
        return any(name == "quorum.proposals.LAST_COUNTER" for name, _ in self.thresholds)

    @property
    def is_ensemble(self) -> bool:
        return self.voters > 1


def draw_scenario(seed: int, duration_s: float, *, is_ensemble: bool) -> Scenario:
    chance = Random(f"scenario {seed}")
    possible = FAULTS if is_ensemble else STANDALONE_FAULTS
    share = chance.choice((0.2, 0.4, 0.7, 1.0))
    faults = tuple(fault for fault in possible if chance.random() < share) or (chance.choice(possible),)
    tick_ms = chance.choice((100, 200, 500, 1000, 2000))
    clients = chance.randint(2, 6)
    is_reconfigured = is_ensemble and chance.random() < 0.3
    delay_s = chance.choice([each for each in (0.0002, 0.001, 0.005, 0.02) if each * 100_000 <= 4 * tick_ms])
    voters = chance.choice((3, 3, 3, 5, 5, 7)) if is_ensemble else 1
    more = Random(f"scenario {seed}, more")  # what was thought of later: leaves the other draws as they were
    if is_ensemble and not is_reconfigured and more.random() < 0.25:
        faults += ("lost_disk",)
    has_groups = is_ensemble and not is_reconfigured and more.random() < 0.25
    group_lines = _draw_groups(more, voters) if has_groups else ()
    # After so many a leader resigns, as if the counter of its epoch were at its end.
    zxids_per_epoch = more.choice((60, 300, 1000)) if is_ensemble and more.random() < 0.15 else None
    later = Random(f"scenario {seed}, later")
    faults += tuple(fault for fault in LATER_FAULTS if later.random() < share)
    is_damaged, is_crashed = later.random() < 0.5, later.random() < share
    if is_damaged and is_ensemble and not is_reconfigured:
        faults += ("damage",)
    reaps = later.random() < 0.3
    has_stranger = is_ensemble and later.random() < 0.3
    has_oracle = is_ensemble and not is_reconfigured and not group_lines and later.random() < 0.15
    if has_oracle:  # whose disk is lost or damaged must not be the one that goes on alone
        voters, faults = 2, tuple(fault for fault in faults if fault not in ("lost_disk", "damage"))
    # Ids of local sessions come from the wall clock, and a clock set back repeats them.
    has_local_sessions = is_ensemble and "clock_step" not in faults and later.random() < 0.25
    if is_crashed:
        faults += ("crash_in_adoption",)
    own_thresholds: dict[str, int] = {}
    if zxids_per_epoch is not None:
        own_thresholds["quorum.proposals.LAST_COUNTER"] = zxids_per_epoch
    newer = Random(f"scenario {seed}, newer")
    lingers = 0.5 if newer.random() < 0.5 and not has_local_sessions else 0.0
    snapshot_write_s = 0.0
    if newer.random() < 0.3:  # a role may end before its last snapshot does
        snapshot_write_s = tick_ms / 1000 * newer.choice((0.01, 0.05))
        own_thresholds |= {
            "persistence.snapshot_format.SLICE_NODES_MAX": 1,
            "persistence.snapshots._WRITE_BYTES": 100,
        }
    if is_ensemble and (snapshot_write_s or newer.random() < share):
        faults += ("deposed",)
    newest = Random(f"scenario {seed}, newest")
    if is_ensemble and not is_reconfigured and not has_oracle and newest.random() < share:
        faults += ("told_to_fetch",)
    observers = chance.choice((0, 0, 0, 1, 2)) if is_ensemble else 0
    return Scenario(
        seed=seed,
        duration_s=duration_s,
        voters=voters,
        observers=observers,
        clients=clients,
        tick_ms=tick_ms,
        snap_count=min(chance.choice((10, 50, 200, 2000)), 50 if snapshot_write_s else 2000),
        commit_log_count=chance.choice((2, 10, 50, 500)),
        snapshot_compression="gz" if chance.random() < 0.2 else "",
        snapshot_size_factor=chance.choice((-1, 0.33, 0.33, 1, 1)),
        force_snapshot_sync=chance.random() < 0.05,
        log_size_limit_bytes=chance.choice((0, 0, 5000)),
        has_own_log_dir=chance.random() < 0.5,
        has_digests=chance.random() < 0.8,
        observers_log=chance.random() < 0.8,
        is_reconfigured=is_reconfigured,
        leader_serves=not is_ensemble or chance.random() < 0.9,
        has_observer_masters=chance.random() < 0.3,
        has_local_sessions=has_local_sessions,
        group_lines=group_lines,
        delay_s=delay_s,
        jitter_s=delay_s * chance.choice((0.1, 1, 5)),
        sync_s=chance.choice(((0.0001, 0.0008), (0.0005, 0.01), (0.002, tick_ms / 10_000))),
        cut_anywhere=chance.choice((0.0, 0.02, 0.2)),
        faults=faults,
        fault_every_s=chance.choice((0.5, 1.5, 4, 10)),
        leader_bias=chance.choice((0.0, 0.3, 0.8)),
        habits=_slowed_down(
            voters + observers,
            [
                attrs.evolve(
                    habits := _draw_habits(
                        chance, tick_ms, reconfigures=0.05 if is_reconfigured and not number else 0.0
                    ),
                    cuts_off=0.15 if later.random() < 0.2 else habits.cuts_off,
                    watches_for_good=more.choice((0.0, 0.0, 0.02, 0.1)),
                    containers=0.3 if reaps else 0.0,
                    lingers=lingers,
                    accepts_read_only=has_local_sessions and number % 2 == 0,
                )
                for number in range(clients)
            ],
        ),
        clock_drift=later.choice((0.0, 0.0001, 0.01)),
        retransmits_late=later.random() < 0.3,
        purges=later.random() < 0.3,
        reaps=reaps,
        has_stranger=has_stranger,
        has_oracle=has_oracle,
        has_read_only_mode=has_local_sessions and later.random() < 0.6,
        snapshot_write_s=snapshot_write_s,
        finds_old_logs=later.random() < 0.4,
        acks_early=is_ensemble and Random(f"scenario {seed}, early").random() < 0.3,
        thresholds=tuple({**dict(draw_thresholds(later)), **own_thresholds}.items()),
    )


def _draw_groups(chance: Random, voters: int) -> tuple[str, ...]:
    """Any groups and weights, as long as there is a quorum at all."""
    servers = range(1, voters + 1)
    groups = chance.randint(1, voters)
    group_of = {server: chance.randint(1, groups) for server in servers}
    weight_of = {server: chance.choice((0, 1, 1, 1, 2, 3)) for server in servers}
    if not any(weight_of.values()):
        weight_of[voters] = 1
    members = {
        group: [str(server) for server in servers if group_of[server] == group]
        for group in sorted(set(group_of.values()))
    }
    return (
        *(f"group.{group}={':'.join(names)}" for group, names in members.items()),
        *(f"weight.{server}={weight}" for server, weight in weight_of.items()),
    )


def _slowed_down(servers: int, habits: list[Habits]) -> tuple[Habits, ...]:
    """Let clients think longer where there are many, who ask for much, and many servers: a few seeds would
    take most of the time of all, and find no more than others do."""
    told_per_s = servers * sum((1 + each.pipelined_max) / 2 / each.think_s for each in habits)
    slower = max(1.0, told_per_s / TOLD_PER_S_MAX)
    return tuple(attrs.evolve(each, think_s=each.think_s * slower) for each in habits)


def _draw_habits(chance: Random, tick_ms: int, *, reconfigures: float) -> Habits:
    is_wild = chance.random() < 0.3
    return Habits(
        think_s=chance.choice((0.05, 0.1, 0.2, 0.5)),
        pipelined_max=chance.choice((1, 3, 8)),
        timeout_ms=tick_ms * chance.choice((2, 4, 10, 20)),
        writes=chance.choice((0.2, 0.5, 0.8)),
        watches=chance.choice((0.0, 0.3, 0.8)),
        multis=chance.choice((0.0, 0.1)),
        syncs=chance.choice((0.0, 0.05, 0.1)),
        ephemerals=chance.choice((0.0, 0.3, 0.7)),
        sequences=chance.choice((0.0, 0.2)),
        reconfigures=reconfigures,
        falls_silent=0.01 if is_wild else 0.001,
        moves=0.05 if is_wild else 0.005,
        cuts_off=0.03 if is_wild else 0.003,
        ends_session=0.02 if is_wild else 0.003,
    )
