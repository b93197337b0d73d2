"""The fuzz: malformed and hostile bytes at the client port of a live Triokeeper.

    make fuzz ARGS='--frames 1000000 --seed 7 --seconds 900'

A run has rounds of the same load. In a round spoilt requests come over many connections (storm.py),
other clients misbehave in other ways (hostile.py), and a witness in lock-step sees to it that nobody
else notices (witness.py). After a round what was created is deleted, sessions expire, and the server
must hold what it held before: connections, sessions, watches, ephemerals, znodes, open files. Its memory may
grow in the first rounds, as any allocator's does, but not from round to round.
"""

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Final

import attrs
import click

from faults.fuzz.frames import BIG, ROOT, WIDE, Frames, frame
from faults.fuzz.hostile import Hostile
from faults.fuzz.storm import Storm, Tally, Wrong
from faults.fuzz.vitals import Vitals, faults_in, long_holds_in, wait_until, watched_memory
from faults.fuzz.witness import SUPER, Disturbed, LockStep
from support.opcodes import Op
from support.raw_client import Reader, wire_buffer, wire_byte, wire_int, wire_string, wire_vector
from support.servers import COMPAT_TESTS, Server, start_triokeeper

SOURCES: Final = [f"127.0.0.{n}" for n in range(2, 8)]
MIB: Final = 1 << 20
WIDE_CHILDREN: Final = 5000
RSS_MAX: Final = 400 * MIB  # at any moment, whatever clients do not read
RSS_GROWTH_MAX: Final = 16 * MIB  # from the middle of the run to its end
_OPEN: Final = wire_vector([wire_int(31) + wire_string(b"world") + wire_string(b"anyone")])
_KEPT: Final = frozenset((b"/", b"/zookeeper", b"/zookeeper/quota", b"/zookeeper/config", b"/witness"))
_SUPER_DIGEST: Final = "super:" + base64.b64encode(hashlib.sha1(SUPER).digest()).decode()

SETTINGS: Final = {
    "tickTime": 500,
    "extendedTypesEnabled": "true",
    "DigestAuthenticationProvider.superDigest": _SUPER_DIGEST,
    "nio.sessionlessCnxnTimeout": 2000,
}


@attrs.frozen
class Round:
    """What one round came to."""

    spoilt: int  # frames of the storm
    others: int  # frames of other attacks, which may be well-formed
    connects: int
    seconds: float
    cpu_seconds: float
    rss_bytes: int
    rss_peak_bytes: int
    vitals: Vitals
    witness: dict[str, float]

    def __str__(self) -> str:
        times = " ".join(f"{name} {number}" for name, number in self.witness.items())
        return (
            f"{self.spoilt} spoilt frames, {self.others} others, {self.connects} connects, "
            f"{self.seconds:.1f} s, server cpu {self.cpu_seconds:.1f} s, "
            f"memory {self.rss_bytes / MIB:.1f} MiB, at most {self.rss_peak_bytes / MIB:.1f}; witness {times}"
        )


class Witness:
    """The witness's process."""

    def __init__(self, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "faults.fuzz.witness", str(port)],
            env=os.environ | {"PYTHONPATH": str(COMPAT_TESTS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._hear()

    def tell(self, command: str) -> dict[str, float]:
        """What it saw since the last command; Disturbed if that was anything unexpected."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # then it says why on its way out
            print(command, file=self._process.stdin, flush=True)
        return self._hear()

    def _hear(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Disturbed("it ended")
        heard: dict[str, float] = json.loads(line)
        if "disturbed" in heard:
            raise Disturbed(heard["disturbed"])
        return heard

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@attrs.define
class Fuzz:
    """One server under attack.

    `long_holds` are turns of its loop that took too long. They depend on the machine, so only the long run
    judges them; tests/server/test_slices.py counts the same work in steps.
    """

    server: Server
    seed: int
    deadline: float
    scale: float
    tell: Callable[[str], None]
    rounds: list[Round] = attrs.field(factory=list)
    faults: list[str] = attrs.field(factory=list)
    long_holds: list[str] = attrs.field(factory=list)
    total: Tally = attrs.field(factory=Tally)

    def run(self, frames: int, rounds: int) -> None:
        witness = Witness(self.server.port)
        try:
            self._clean_up()
            baseline = Vitals.of(self.server)
            self.tell(f"baseline: {baseline}")
            for number in range(rounds):
                if self.faults or time.monotonic() > self.deadline:
                    break
                self._round(number, frames // rounds, baseline, witness)
            witness.tell("stop")
            self._come_again(baseline.znodes)
        except Disturbed as failure:
            self.faults.append(f"the witness was disturbed: {failure}")
        finally:
            witness.close()
        if self.server.has_ended:
            self.faults.append("the server ended")
        self.faults += faults_in(self.server.log_text)[:20]
        self.long_holds = long_holds_in(self.server.log_text)[:20]
        self._judge_memory()

    def _come_again(self, znodes: int) -> None:
        """Whatever was logged can be read again: the server stops in order and finds all of it."""
        if self.server.has_ended:
            return
        code = self.server.stop()
        if code != 0:
            self.faults.append(f"the server stopped with code {code}")
        self.server.start()
        found = Vitals.of(self.server).znodes
        if found != znodes:
            self.faults.append(f"after a restart there are {found} znodes instead of {znodes}")

    def _round(self, number: int, frames: int, baseline: Vitals, witness: Witness) -> None:
        started, cpu = time.monotonic(), self.server.cpu_seconds
        self._prepare()
        with watched_memory(self.server) as peak:
            witness.tell("go")
            storm, hostile = self._attack(number, frames)
            seen = witness.tell("pause")
        self._clean_up()
        vitals = wait_until(self.server, baseline)
        if vitals != baseline:
            self.faults.append(f"after round {number} the server holds {vitals} instead of {baseline}")
        if peak.rss_bytes > RSS_MAX:
            self.faults.append(f"in round {number} memory grew to {peak.rss_bytes / MIB:.0f} MiB")
        done = Round(
            spoilt=storm.frames,
            others=hostile.frames,
            connects=storm.connects + hostile.connects,
            seconds=time.monotonic() - started,
            cpu_seconds=self.server.cpu_seconds - cpu,
            rss_bytes=self.server.rss_bytes,
            rss_peak_bytes=peak.rss_bytes,
            vitals=vitals,
            witness=seen,
        )
        self.rounds.append(done)
        self.tell(f"round {number}: {done}")

    def _attack(self, number: int, frames: int) -> tuple[Tally, Tally]:
        """The storm and the other attacks, side by side."""
        seed = self.seed * 1000 + number
        storm = Storm(self.server.port, Frames(Random(seed)), SOURCES[:4])
        hostile = Hostile(self.server.port, Frames(Random(-seed - 1)), SOURCES[4:], scale=self.scale)
        aside = threading.Thread(target=self._attack_aside, args=(hostile,), daemon=True)
        aside.start()
        try:
            storm.run(frames, self.deadline)
        except (Wrong, OSError) as failure:
            self.faults.append(f"storm: {failure!r}")
        aside.join()
        log_text = self.server.log_text
        for session in storm.cut_short:
            if f"Expiring session 0x{session:x}," not in log_text:
                self.faults.append(f"session 0x{session:x} was cut short by requests that last")
        self.total.by_error += storm.tally.by_error
        self.total.events += storm.tally.events
        return storm.tally, hostile.tally

    def _attack_aside(self, hostile: Hostile) -> None:
        for attack in hostile.attacks():
            if self.faults or self.server.has_ended or time.monotonic() > self.deadline:
                return
            try:
                attack()
            except (Wrong, OSError) as failure:
                self.faults.append(f"{attack.__name__}: {failure!r}")

    # -- the tree before and after

    def _prepare(self) -> None:
        """What requests speak of: some nodes, one with much data, one with many children."""
        keeper = LockStep(self.server.port)
        large = bytes(0xFFFFF - 1000)
        for path, data in ((ROOT, b""), (ROOT + b"/a", b""), (ROOT + b"/b", b"b"), (BIG, large), (WIDE, b"")):
            keeper.call(Op.CREATE, wire_string(path), wire_buffer(data), _OPEN, wire_int(0))
        keeper.pipeline(
            [
                frame(1, Op.CREATE, wire_string(WIDE + b"/%d" % n) + wire_buffer(b"") + _OPEN + wire_int(0))
                for n in range(WIDE_CHILDREN)
            ]
        )
        keeper.close_session()

    def _clean_up(self) -> None:
        """Delete whatever any request has created, and open the root again should one have closed it."""
        keeper = LockStep(self.server.port)
        for _ in range(5):  # ephemerals of dying sessions come and go meanwhile
            found = [path for path in self._walk(keeper) if path not in _KEPT]
            if not found:
                break
            keeper.pipeline(
                [frame(1, Op.DELETE, wire_string(path) + wire_int(-1)) for path in reversed(found)]
            )
        keeper.call(Op.SET_ACL, wire_string(b"/"), _OPEN, wire_int(-1))
        keeper.close_session()

    def _walk(self, keeper: LockStep) -> list[bytes]:
        """Every path, parents first; the witness's own stay out of it."""
        found, level = [b"/"], [b"/"]
        while level:
            asked = [frame(1, Op.GET_CHILDREN, wire_string(path) + wire_byte(0)) for path in level]
            below: list[bytes] = []
            for path, (err, body) in zip(level, keeper.pipeline(asked), strict=True):
                if err == 0 and path != b"/witness":
                    below += [path.rstrip(b"/") + b"/" + name for name in _names(body)]
            found += below
            level = below
        return found

    def _judge_memory(self) -> None:
        if len(self.rounds) < 4:
            return
        middle, last = self.rounds[len(self.rounds) // 2], self.rounds[-1]
        if last.rss_bytes > middle.rss_bytes + RSS_GROWTH_MAX:
            growth = (last.rss_bytes - middle.rss_bytes) / MIB
            self.faults.append(f"memory grew by {growth:.0f} MiB from the middle round to the last")


def _names(body: Reader) -> list[bytes]:
    return [body.read_buffer() or b"" for _ in range(body.read_int())]


def fuzz(
    frames: int,
    *,
    seed: int,
    seconds: float,
    rounds: int,
    scale: float = 1.0,
    tell: Callable[[str], None] = lambda _line: None,
) -> Fuzz:
    """Start a server, attack it, and return what came of it; `tell` is given a line after each round."""
    with start_triokeeper(SETTINGS) as server:
        tell(f"seed {seed}, {server.rss_bytes / MIB:.1f} MiB at the start")
        attacked = Fuzz(server, seed, time.monotonic() + seconds, scale, tell)
        attacked.run(frames, rounds)
        return attacked


def report(attacked: Fuzz, frames: int) -> Sequence[str]:
    """The whole run in a few lines."""
    rounds = attacked.rounds
    spoilt, others = sum(each.spoilt for each in rounds), sum(each.others for each in rounds)
    errors = ", ".join(f"{code}: {count}" for code, count in attacked.total.by_error.most_common())
    lines = [
        f"{spoilt} spoilt frames, {others} others and {sum(each.connects for each in rounds)} connects in "
        f"{sum(each.seconds for each in rounds):.0f} s",
        f"replies to the spoilt ones by error: {errors}; {attacked.total.events} events",
    ]
    if spoilt < frames:
        lines.append(f"time was up before all {frames} were sent")
    return lines


@click.command()
@click.option("--frames", default=1_000_000, help="Spoilt frames to send; other attacks come on top.")
@click.option("--seed", default=0, help="The same seed sends the same bytes, as far as time allows.")
@click.option("--seconds", default=1200, help="The most time to take.")
@click.option("--rounds", default=10, help="Into how many equal rounds to divide them.")
def main(frames: int, seed: int, seconds: int, rounds: int) -> None:
    """Attack a Triokeeper at its client port with malformed and hostile bytes."""
    attacked = fuzz(frames, seed=seed, seconds=seconds, rounds=rounds, tell=click.echo)
    for line in report(attacked, frames):
        click.echo(line)
    faults = attacked.faults + attacked.long_holds
    for fault in faults:
        click.echo(f"FAULT {fault}")
    click.echo("the server held" if not faults else f"{len(faults)} faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
