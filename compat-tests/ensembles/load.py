"""Clients of an ensemble that check what they are told, while its members come and go.

Writers remember every acknowledged write (support/checked_writer.py). When their connection ends they go to
another member with the same session, find all of it there, and learn about what was in flight. Readers wander
from member to member all the time. None of them may ever see time go back, or lose a session in time.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final, Protocol, TypeAlias

import attrs

from support import session_client as wire
from support.checked_writer import BASE, SESSION_MS, Ledger, Writer
from support.ensembles import Ensemble
from support.raw_client import Reader
from support.servers import Server
from support.session_client import Lost, SessionClient
from support.whole_tree import Seen, differences, read_tree
from support.write_model import Violation

OUTAGE_SECONDS_MAX: Final = 25.0  # less than a session's timeout
RETRY_SECONDS: Final = 0.02
DIGEST_INTERVAL: Final = 128  # of zxids: every so many, `hash` tells the digest
DIGEST_TRIES_MAX: Final = 5
FILLER: Final = "/filler"
DIGEST_ALARMS: Final = ("digest_mismatch", "Digests are not matching", "First digest mismatch")
LOCAL: Final = "/zookeeper/config"  # its Stat is every server's own


class Client(Protocol):
    """The body of a thread; `failure` is what ended it too early."""

    failure: Exception | None

    def run(self, stop: Event) -> None: ...


@attrs.define(eq=False)
class Roamer:
    """Chooses the member to go to next; `moves` counts."""

    ports: Sequence[int]
    rng: random.Random
    seconds_max: float = OUTAGE_SECONDS_MAX
    moves: int = 0

    def visit(self, attach: Callable[[int], object]) -> None:
        """Attach to some member; Violation if there is none for too long."""
        deadline = time.monotonic() + self.seconds_max
        while True:
            try:
                attach(self.rng.choice(self.ports))
            except (Lost, TimeoutError):
                if time.monotonic() > deadline:
                    raise Violation(f"no member took a session in {self.seconds_max} s") from None
                time.sleep(RETRY_SECONDS)
            else:
                self.moves += 1
                return


@attrs.define(eq=False)
class RoamingWriter:
    """Writes through whichever member has its session."""

    writer: Writer
    roamer: Roamer
    failure: Exception | None = None

    def run(self, stop: Event) -> None:
        try:
            while not stop.is_set():
                self.writer.run(stop)
                if self.writer.failure is not None:
                    raise self.writer.failure
                if not self.writer.is_settled or not stop.is_set():
                    self.roamer.visit(self.go_on)
        except Exception as failure:  # kept for the thread that waits for us
            self.failure = failure

    def go_on(self, port: int) -> None:
        """At another member, which knows the session and all that was acknowledged."""
        if not self.writer.attach(port):
            raise Violation(f"the session of {self.writer.acked.root} is gone")
        self.writer.settle_alone()


@attrs.define(eq=False)
class RoamingReader:
    """Reads what the writers write, at one member after the other, in one session."""

    client: SessionClient
    roamer: Roamer
    roots: Sequence[str]
    failure: Exception | None = None
    reads: int = 0
    _seen: dict[str, tuple[int, int]] = attrs.field(factory=dict)

    def run(self, stop: Event) -> None:
        try:
            while not stop.wait(0.05):
                self.roamer.visit(self._look)
        except Exception as failure:  # kept for the thread that waits for us
            self.failure = failure

    def _look(self, port: int) -> None:
        self.client.attach(port)
        for root in self.roots:
            stat = self._stat(root)
            before = self._seen.get(root, (0, 0))
            if stat < before:
                raise Violation(f"{root} had pzxid and cversion {before}, and now {stat}")
            self._seen[root] = stat
            self.reads += 1

    def _stat(self, root: str) -> tuple[int, int]:
        reader = Reader(self.client.call(wire.get_children(root)).body)
        wire.read_names(reader)
        stat = wire.read_stat(reader)
        return stat.pzxid, stat.cversion


@attrs.define(eq=False)
class EnsembleLoad:
    """The clients of one ensemble."""

    ensemble: Ensemble
    writers: list[RoamingWriter]
    readers: list[RoamingReader]
    ledger: Ledger

    @classmethod
    def begin(
        cls, ensemble: Ensemble, seed: int, *, writers: int = 3, readers: int = 1, pause_seconds: float = 0.0
    ) -> "EnsembleLoad":
        ports = [server.port for server in ensemble.servers.values()]
        with SessionClient.open(ports[0], SESSION_MS) as client:
            client.call(wire.create(BASE, b""))
            client.close()
        ledger = Ledger()
        load = cls(ensemble, [], [], ledger)
        for index in range(writers):
            rng = random.Random(f"{seed} writer {index}")
            writer = Writer(index, ports[0], rng, ledger, stays_apart=True, pause_seconds=pause_seconds)
            writer.begin()
            load.writers.append(RoamingWriter(writer, Roamer(ports, rng)))
        roots = [each.writer.acked.root for each in load.writers]
        for index in range(readers):
            roamer = Roamer(ports, random.Random(f"{seed} reader {index}"))
            load.readers.append(RoamingReader(SessionClient.open(ports[0], SESSION_MS), roamer, roots))
        return load

    @property
    def acknowledged(self) -> int:
        return sum(each.writer.acked_count for each in self.writers)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The clients are at it until the block ends; then nothing is in flight any more."""
        stop = Event()
        clients: list[Client] = [*self.writers, *self.readers]
        threads = [Thread(target=client.run, args=(stop,)) for client in clients]
        for thread in threads:
            thread.start()
        try:
            yield
            self._wait_for_progress()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        for client in clients:
            if client.failure is not None:
                raise client.failure

    def _wait_for_progress(self) -> None:
        """What happened last was felt by the clients, and overcome."""
        before = [each.writer.acked_count for each in self.writers]
        deadline = time.monotonic() + OUTAGE_SECONDS_MAX
        while any(
            each.writer.acked_count == count and each.failure is None
            for each, count in zip(self.writers, before, strict=True)
        ):
            if time.monotonic() > deadline:
                raise self.ensemble.failure("acknowledges nothing any more")
            time.sleep(RETRY_SECONDS)

    def audit(self) -> None:
        """All members have the same tree and digests; every acknowledged write is in it."""
        for each in self.writers:
            each.roamer.visit(each.go_on)
        assert_all_equal(self.ensemble)

    def close(self) -> None:
        for each in self.writers:
            each.writer.drop()
        for reader in self.readers:
            reader.client.drop()


Greet: TypeAlias = Callable[[SessionClient], None]  # what a client does first, to be let see everything


def assert_all_equal(ensemble: Ensemble, greet: Greet = lambda _: None) -> None:
    """Every running member shows the same tree, and has had the same digests on the way."""
    reach_a_digest(ensemble)
    first, *others = ensemble.running
    expected = tree_of(ensemble, first, greet)
    for server_id in others:
        found = differences(expected, tree_of(ensemble, server_id, greet))
        assert not found, f"server {first} and server {server_id}:\n" + "\n".join(found[:20])
    assert_same_digests(ensemble)


def tree_of(ensemble: Ensemble, server_id: int, greet: Greet) -> dict[str, Seen]:
    with SessionClient.open(ensemble[server_id].port, SESSION_MS) as client:
        greet(client)
        tree = read_tree(client)
        client.close()
    tree.pop(LOCAL, None)
    return tree


def reach_a_digest(ensemble: Ensemble) -> None:
    """Write until the last transaction is one whose digest all members tell; hardly anyone else writes.

    A member that is brought up to date just then does not: on a busy machine one may have lost its leader.
    """
    for _ in range(DIGEST_TRIES_MAX):
        with SessionClient.open(ensemble[ensemble.wait_for_leader()].port, SESSION_MS) as client:
            client.call(wire.create(FILLER, b""))
            zxid = client.call(wire.set_data(FILLER, b"")).zxid
            while missing := -zxid % DIGEST_INTERVAL:
                for reply in client.call_all([wire.set_data(FILLER, b"")] * missing):
                    zxid = reply.zxid
        ensemble.wait_until_all_at(zxid)
        if all(zxid in digests_of(ensemble, server_id) for server_id in ensemble.running):
            return


def assert_same_digests(ensemble: Ensemble) -> None:
    """At every zxid that several members tell of; and none of them ever noticed a mismatch itself."""
    histories = {server_id: digests_of(ensemble, server_id) for server_id in ensemble.running}
    last = {max(history, default=0) for history in histories.values()}
    assert len(last) == 1, f"the last digests are of {last}"
    seen: dict[int, tuple[int, str]] = {}
    for server_id, history in histories.items():
        for zxid, digest in history.items():
            other, expected = seen.setdefault(zxid, (server_id, digest))
            assert digest == expected, f"at 0x{zxid:x} server {server_id} differs from server {other}"
        assert not (alarms := digest_alarms(ensemble[server_id])), f"server {server_id}: {alarms[:3]}"


def digest_alarms(server: Server) -> list[str]:
    """What it said about digests that do not match.

    Apache does so without reason now and then, and alone, too: it compares while it applies what it was sent
    on top of a snapshot that was taken meanwhile (QuorumPeer), and again when it starts from the copy of that
    snapshot on its disk (main). What it says while it serves counts.
    """
    lines = [line for line in server.log_text.splitlines() if any(word in line for word in DIGEST_ALARMS)]
    if server.kind == "triokeeper":
        return lines
    return [line for line in lines if "[QuorumPeer[" not in line and "[main:" not in line]


def digests_of(ensemble: Ensemble, server_id: int) -> dict[int, str]:
    """The digests that this member tells, by zxid."""
    lines = ensemble[server_id].four_letter_word("hash").splitlines()
    return {int(zxid, 16): digest for zxid, digest in (line.split(": ") for line in lines)}
