"""Strangers at the quorum and election ports of a live ensemble, while its clients work.

    make fuzz-peers ARGS='--rounds 10000 --seed 7 --seconds 1800'

Each round is one stranger (peer_attacks.py) at the leader's quorum port or at a member's election port.
A client on each member writes and reads all the time. In the end the same server leads in the same epoch, no
role has ended, no client has lost its connection, and no member holds more files or memory than before.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final

import attrs
import click

from faults.fuzz.peer_attacks import Strangers
from support.ensembles import Ensemble, start_ensemble
from support.raw_client import Malformed
from support.servers import HOST, Server
from support.session_client import Lost, Refused, SessionClient, create, get_data, set_data

MIB: Final = 1 << 20
RSS_GROWTH_MAX: Final = 16 * MIB  # from the first tenth of the run to its end
FILES_MORE_MAX: Final = 6  # links between members come and go
SETTLE_SECONDS_MAX: Final = 60.0
SETTINGS: Final = {"tickTime": 1000, "maxClientCnxns": 0}
_EVENTS_OF_TROUBLE: Final = ("role_ended", "election_started", "Traceback", "digest_mismatch")


@attrs.define
class Client:
    """A client of one member: writes and reads, and must not notice anything."""

    port: int
    name: str
    calls: int = 0
    slowest_s: float = 0.0
    trouble: str | None = None
    over: threading.Event = attrs.field(factory=threading.Event)

    def work(self) -> None:
        try:
            with SessionClient.open(self.port, 10_000) as session:
                session.call(create(self.name, b""))
                while not self.over.is_set():
                    self._one(session)
                    time.sleep(0.01)
        except (Lost, Refused, Malformed, OSError, AssertionError) as problem:
            self.trouble = f"the client of {self.name} after {self.calls} calls: {problem!r}"

    def _one(self, session: SessionClient) -> None:
        started = time.monotonic()
        value = str(self.calls).encode()
        written, read = session.call(set_data(self.name, value)), session.call(get_data(self.name))
        assert (written.err, read.err) == (0, 0), (written, read)
        assert value in read.body, read
        self.calls += 2
        self.slowest_s = max(self.slowest_s, time.monotonic() - started)


@attrs.frozen
class Held:
    """What a member holds."""

    files: int
    rss_bytes: int

    @classmethod
    def by(cls, server: Server) -> "Held":
        return cls(len(list(Path(f"/proc/{server.pid}/fd").iterdir())), server.rss_bytes)


@attrs.define
class Outcome:
    rounds: dict[str, int] = attrs.field(factory=lambda: {"quorum": 0, "election": 0})
    faults: list[str] = attrs.field(factory=list)
    calls: int = 0
    slowest_s: float = 0.0
    seconds: float = 0.0
    growth_mib: dict[int, float] = attrs.field(factory=dict)

    def __str__(self) -> str:
        growth = ", ".join(f"server {n} {mib:+.1f} MiB" for n, mib in self.growth_mib.items())
        return (
            f"{self.rounds['quorum']} rounds at the quorum port, {self.rounds['election']} at election "
            f"ports, {self.seconds:.0f} s; clients: {self.calls} calls, "
            f"slowest pair {self.slowest_s * 1000:.0f} ms; "
            f"memory: {growth}"
        )


@contextmanager
def working_clients(ensemble: Ensemble) -> Iterator[list[Client]]:
    clients = [Client(ensemble[n].port, f"/witness-{n}") for n in ensemble.ids]
    threads = [threading.Thread(target=client.work, daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield clients
    finally:
        for client in clients:
            client.over.set()
        for thread in threads:
            thread.join(SETTLE_SECONDS_MAX)


def fuzz_peers(rounds: int, seed: int, seconds: float, tell: Callable[[str], None] = print) -> Outcome:
    """So many rounds at each kind of port, or as many as there is time for."""
    outcome = Outcome()
    with start_ensemble(["triokeeper"] * 3, SETTINGS) as ensemble:
        _attack(ensemble, outcome, rounds, Random(seed), time.monotonic() + seconds, tell)
    return outcome


def _attack(
    ensemble: Ensemble,
    outcome: Outcome,
    rounds: int,
    rng: Random,
    deadline: float,
    tell: Callable[[str], None],
) -> None:
    leader = ensemble.wait_for_leader()
    ensemble.barrier()
    standing = _standing(ensemble)
    logs = {n: len(ensemble[n].log_text) for n in ensemble.ids}
    lines = {n: f"{HOST}:{place.election_port}" for n, place in ensemble.places.items()}
    strangers = Strangers(rng, ensemble.ids, lines)
    started = time.monotonic()
    with working_clients(ensemble) as clients:
        _play(ensemble, strangers, max(rounds // 10, 1), outcome, leader, deadline)
        before = _settled(ensemble, strangers, None)
        tell(f"after a tenth: {outcome}")
        _play(ensemble, strangers, rounds, outcome, leader, deadline)
        after = _settled(ensemble, strangers, before)
    outcome.seconds = time.monotonic() - started
    outcome.calls = sum(client.calls for client in clients)
    outcome.slowest_s = max(client.slowest_s for client in clients)
    outcome.faults += [client.trouble for client in clients if client.trouble]
    if _standing(ensemble) != standing:
        outcome.faults.append(f"{standing} became {_standing(ensemble)}")
    for n in ensemble.ids:
        outcome.growth_mib[n] = (after[n].rss_bytes - before[n].rss_bytes) / MIB
        if after[n].rss_bytes > before[n].rss_bytes + RSS_GROWTH_MAX:
            outcome.faults.append(f"server {n} grew by {outcome.growth_mib[n]:.1f} MiB")
        if after[n].files > before[n].files + FILES_MORE_MAX:
            outcome.faults.append(f"server {n} has {after[n].files} open files, before {before[n].files}")
        new_lines = ensemble[n].log_text[logs[n] :].splitlines()
        outcome.faults += [
            f"server {n}: {line}" for line in new_lines if any(name in line for name in _EVENTS_OF_TROUBLE)
        ]


def _play(
    ensemble: Ensemble, strangers: Strangers, rounds: int, outcome: Outcome, leader: int, deadline: float
) -> None:
    """Until there were so many rounds at each kind of port."""
    while min(outcome.rounds.values()) < rounds and time.monotonic() < deadline:
        strangers.at_quorum_port(ensemble.places[leader].quorum_port)
        outcome.rounds["quorum"] += 1
        target = strangers.rng.choice(ensemble.ids)
        strangers.at_election_port(ensemble.places[target].election_port)
        outcome.rounds["election"] += 1
        if any(ensemble[n].has_ended for n in ensemble.ids):
            outcome.faults += [f"server {n} has ended" for n in ensemble.ids if ensemble[n].has_ended]
            return


def _settled(ensemble: Ensemble, strangers: Strangers, wanted: dict[int, Held] | None) -> dict[int, Held]:
    """What members hold once the strangers have left and that was noticed."""
    strangers.leave_all()
    deadline = time.monotonic() + (SETTLE_SECONDS_MAX if wanted else 15)
    while True:
        held = {n: Held.by(ensemble[n]) for n in ensemble.ids if not ensemble[n].has_ended}
        is_back = wanted and all(held[n].files <= wanted[n].files + FILES_MORE_MAX for n in held)
        if is_back or time.monotonic() > deadline:
            return held | {n: Held(0, 0) for n in ensemble.ids if n not in held}
        time.sleep(0.2)


def _standing(ensemble: Ensemble) -> dict[int, str]:
    """Who leads, and in which epoch."""
    answers = {n: ensemble[n].srvr() for n in ensemble.ids}
    return {
        n: f"{said.get('Mode')} in epoch {int(said.get('Zxid', '0'), 16) >> 32}"
        for n, said in answers.items()
    }


@click.command(help=__doc__.split("\n", maxsplit=1)[0])
@click.option("--rounds", default=10_000, show_default=True, help="At each kind of port.")
@click.option("--seed", default=7, show_default=True)
@click.option("--seconds", default=1800.0, show_default=True, help="At most.")
def main(rounds: int, seed: int, seconds: float) -> None:
    outcome = fuzz_peers(rounds, seed, seconds)
    print(outcome)
    for fault in outcome.faults[:50]:
        print(f"FAULT {fault}")
    if outcome.faults:
        sys.exit(1)
    if min(outcome.rounds.values()) < rounds:
        print("There was no time for more rounds; none of these hurt anybody.")


if __name__ == "__main__":
    main()
