"""`make crash`: kill -9 at random moments under load, and look at what the server still knows.

No acknowledged write may be lost, none may appear twice, every restart must succeed. Snapshots, rolled logs
and purges happen all the time, so kills hit them too; some kills hit a server that is still starting, others
one that hangs. Whether to believe the checks themselves: test_crash_smoke.py, and `--server reference`.

A seed fixes what is drawn, but not the moments at which two processes get to run.
"""

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from signal import SIGCONT, SIGSTOP
from threading import Event, Thread
from typing import Final

import attrs
import click

from faults.crash.audit import (
    GUESTS,
    Guests,
    auditor,
    compare_ballast,
    count_ballast,
    create_ballast,
    settle_writers,
)
from support import session_client as wire
from support.checked_writer import BASE, QUEUE, SESSION_MS, Ledger, Writer
from support.raw_client import Malformed
from support.reference import ReferenceUnavailable
from support.servers import SMALL_FLAGS, Kind, Server, ServerFailed, prepare_server
from support.session_client import Lost, SessionClient
from support.write_model import Violation

WRITERS: Final = 5
TICK_MS: Final = 200
GUEST_MS: Final = (2 * TICK_MS, 10 * TICK_MS)
LOAD_SECONDS: Final = (0.02, 0.9)
SNAPSHOT_SECONDS_MAX: Final = 3.0
EXPIRY_EVERY: Final = 8  # rounds

SETTINGS: Final = {
    "tickTime": TICK_MS,
    "maxSessionTimeout": SESSION_MS,
    "maxClientCnxns": 0,
    "snapCount": 400,
    "preAllocSize": 64,
    "autopurge.purgeInterval": 1,  # and so once at every start
    "autopurge.snapRetainCount": 3,
}

# What a server says of data that is not what was written; and what it says of ordinary work.
ALARMS: Final = (
    *("digest_mismatch", "Traceback", "snapshot_unusable"),
    *("log_ends_before_snapshot", "log_skips_zxids", "log_zxid_not_rising"),
    *("Digests are not matching", "First digest mismatch", "of snapshot digest does not exist"),
)
NOTES: Final = {
    "snapshots taken": ("snapshot_taken",),
    "unfinished files removed at a start": ("leftover_removed", "empty_log_removed"),
    "torn tails cut off": ("log_torn_tail_cut",),
    "files purged": ("purged file", "Removing file"),
    "sessions expired": ("Expiring session",),
}


def alarms_of(server: Server) -> list[str]:
    return [line for line in server.log_text.splitlines() if any(alarm in line for alarm in ALARMS)]


@attrs.define(eq=False)
class CrashTest:
    """A server, the clients that write to it, and what has happened so far."""

    server: Server
    rng: random.Random
    writers: list[Writer] = attrs.field(factory=list)
    guests: Guests = attrs.field(factory=Guests)
    counts: Counter[str] = attrs.field(factory=Counter)
    start_seconds_max: float = 0.0
    _ledger: Ledger = attrs.field(factory=Ledger)
    _start_seconds: float = 1.0
    _spawned: list[float] = attrs.field(factory=list)  # when, since the last kill under load

    def begin(self) -> None:
        self.start()
        with SessionClient.open(self.server.port, SESSION_MS) as client:
            for path in (BASE, QUEUE, GUESTS):
                client.call(wire.create(path, b""))
            create_ballast(client)
            client.close()
        for index in range(WRITERS):
            rng = random.Random(f"{self.rng.random()} writer {index}")
            self.writers.append(Writer(index, self.server.port, rng, self._ledger))
            self.writers[-1].begin()

    def round(self) -> None:
        """Load, a kill, perhaps more of them while starting, a start, and the audit."""
        with self.under_load():
            self._pause_perhaps()
            self._wait_and_kill()
        killed = time.monotonic()
        self._spawned.clear()
        while self.rng.random() < 0.3:
            self._kill_while_starting()
        self.start()
        self.audit(killed)

    def end(self) -> None:
        """A last round without a kill: everything is acknowledged, and everything is compared."""
        with self.under_load(stops=True):
            time.sleep(0.5)
        self.audit(time.monotonic(), is_last=True)
        self.server.stop()
        self.start()
        self.audit(time.monotonic(), is_last=True)

    def audit(self, killed: float, *, is_last: bool = False) -> None:
        self.counts["audits"] += 1
        with auditor(self.server.port, SESSION_MS, self._ledger.last_zxid) as client:
            self.guests.settle(client, killed=killed, spawned=self._spawned)
            settle_writers(client, self.writers, self.server.port)
            count_ballast(client)
            if is_last or self.counts["audits"] % EXPIRY_EVERY == 0:
                self.guests.wait_until_gone(client)
                compare_ballast(client)
            client.close()
        if alarms := alarms_of(self.server):
            raise self.server.failure(f"logged {alarms}")

    def close(self) -> None:
        """Hang up."""
        for writer in self.writers:
            writer.drop()

    # -- load

    @contextmanager
    def under_load(self, *, stops: bool = False) -> Iterator[None]:
        """The clients write until the block ends; it either kills the server or asks them to stop."""
        stop = Event()
        threads = [Thread(target=writer.run, args=(stop,)) for writer in self.writers]
        threads.append(Thread(target=self._invite, args=(stop,)))
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        for writer in self.writers:
            if writer.failure is not None:
                raise writer.failure
        assert stops or self.server.has_ended

    def _invite(self, stop: Event) -> None:
        rng = random.Random(self.counts["audits"])
        try:
            while not stop.wait(rng.uniform(0, 0.1)):
                self.guests.come_and_go(self.server.port, rng.choice(GUEST_MS))
        except (Lost, TimeoutError):
            pass

    # -- kills

    def _pause_perhaps(self) -> None:
        if self.rng.random() < 0.2:
            time.sleep(self.rng.uniform(0, 0.3))
            self.server.send_signal(SIGSTOP)
            time.sleep(self.rng.uniform(0.02, 0.3))
            self.server.send_signal(SIGCONT)
            self.counts["pauses"] += 1

    def _wait_and_kill(self) -> None:
        how = self.rng.choices(("under load", "during a snapshot", "while it hangs"), (5, 3, 1))[0]
        if how == "during a snapshot" and not self._wait_for_snapshot():
            how = "under load"
        if how != "during a snapshot":
            time.sleep(self.rng.uniform(*LOAD_SECONDS))
        if how == "while it hangs":
            self.server.send_signal(SIGSTOP)
            time.sleep(self.rng.uniform(0, 0.2))
        self._kill(how)

    def _wait_for_snapshot(self) -> bool:
        """Until one is being written, and then for a random while."""
        before = self._snapshot_names()
        deadline = time.monotonic() + SNAPSHOT_SECONDS_MAX
        while time.monotonic() < deadline and not self.server.has_ended:
            if self._snapshot_names() - before:
                time.sleep(self.rng.choice((0, 0, 0.001, 0.005, 0.02)))
                return True
            time.sleep(0.001)
        return False

    def _snapshot_names(self) -> set[str]:
        names = (path.name for path in (self.server.data_dir / "version-2").iterdir())
        return {name for name in names if name.startswith("snapshot.")}

    def _kill_while_starting(self) -> None:
        self._spawned.append(time.monotonic())
        self.server.spawn()
        time.sleep(self.rng.uniform(0, 1.2 * self._start_seconds))
        self._kill("while starting")

    def _kill(self, how: str) -> None:
        if self.server.has_ended:
            raise self.server.failure("ended by itself")
        self.server.kill9()
        self.counts["kills"] += 1
        self.counts[f"kills {how}"] += 1

    def start(self) -> None:
        self._spawned.append(time.monotonic())
        self.server.start()
        self._start_seconds = time.monotonic() - self._spawned[-1]
        self.start_seconds_max = max(self.start_seconds_max, self._start_seconds)
        self.counts["starts"] += 1

    # -- telling

    def report(self) -> dict[str, int | float]:
        writers, text = self.writers, self.server.log_text
        return {
            **dict(sorted(self.counts.items())),
            "slowest start, s": round(self.start_seconds_max, 1),
            "writes acknowledged": sum(writer.acked_count for writer in writers),
            "writes in flight that happened": sum(writer.in_flight_happened for writer in writers),
            "writes in flight that did not": sum(writer.in_flight_lost for writer in writers),
            "sessions closed by writers": sum(writer.sessions_closed for writer in writers),
            "abandoned sessions found alive": self.guests.kept,
            "abandoned sessions found expired": self.guests.expired,
            **{what: sum(map(text.count, words)) for what, words in NOTES.items()},
        }


def run(kind: Kind, kills: int, seed: int, *, shows_progress: bool = False) -> dict[str, int | float]:
    """Kill at least so many times; Violation or ServerFailed if the server did not stand it."""
    with prepare_server(kind, SETTINGS, jvm_flags=SMALL_FLAGS) as server:
        with closing(CrashTest(server, random.Random(seed))) as test:
            test.begin()
            while test.counts["kills"] < kills:
                test.round()
                if shows_progress:
                    click.echo(f"{test.counts['kills']} kills", err=True)
            test.end()
        return test.report()


@click.command()
@click.option("--kills", default=200, help="How often to kill the server.")
@click.option("--seed", type=int, help="Drawn and printed unless given.")
@click.option("--server", "kind", type=click.Choice(["triokeeper", "reference"]), default="triokeeper")
def main(kills: int, seed: int | None, kind: Kind) -> None:
    """Kill a server under load, again and again: every acknowledged write must survive, each once."""
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    try:
        report = run(kind, kills, seed, shows_progress=sys.stderr.isatty())
    except ReferenceUnavailable as reason:
        raise click.ClickException(str(reason)) from None
    except (Violation, Malformed, ServerFailed) as failure:
        raise click.ClickException(f"after seed {seed}: {failure}") from failure
    for what, number in report.items():
        click.echo(f"{number:>10} {what}")


if __name__ == "__main__":
    main()
