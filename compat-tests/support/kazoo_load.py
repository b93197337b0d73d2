"""Continuous load by stock Kazoo clients that keep book: what was acknowledged must be there, once, for ever.

Each client counts in a node of its own and appends to a list of sequential nodes, holds a lock and an
ephemeral node, and never lets go of its session. A write whose connection broke is looked up before the next
one is made: so nothing is ever written twice, and it is known of every write whether it happened.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Event, Thread
from typing import Any, Final

import attrs
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.protocol.states import KazooState

ROOT: Final = "/load"
SESSION_SECONDS: Final = 15.0
OUTAGE_SECONDS_MAX: Final = 30.0
RETRY_SECONDS: Final = 0.02
LIST_MAX: Final = 200  # of which the older half is then deleted


class Broken(Exception):
    """A promise was broken; the message says which."""


@attrs.define(eq=False)
class Counter:
    """One client. `count` and `listed` are what it knows to be there."""

    name: str
    client: KazooClient
    pause_seconds: float
    count: int = 0
    listed: list[str] = attrs.field(factory=list)
    acknowledged: int = 0
    looked_up: int = 0  # writes whose answer was lost
    longest_gap: float = 0.0
    lost_sessions: int = 0
    failure: Exception | None = None
    _serial: int = 0
    _last_ack: float = attrs.field(factory=time.monotonic)

    @property
    def path(self) -> str:
        return f"{ROOT}/{self.name}"

    def begin(self) -> None:
        self.client.add_listener(self._note_state)
        self.client.create(self.path, b"0", makepath=True)
        self.client.create(f"{self.path}/list", b"")
        self.client.create(f"{self.path}/here", b"", ephemeral=True)
        assert self.client.Lock(f"{self.path}/lock", self.name).acquire(timeout=10)

    def _note_state(self, state: str) -> None:
        self.lost_sessions += state == KazooState.LOST

    def run(self, stop: Event) -> None:
        """The body of a thread."""
        self._last_ack = time.monotonic()
        try:
            while not stop.wait(self.pause_seconds):
                self._increase()
                self._append()
                if len(self.listed) > LIST_MAX:
                    self._shorten()
        except Exception as failure:  # kept for the thread that waits for us
            self.failure = failure

    def _increase(self) -> None:
        """The node's version makes it impossible to do it twice."""
        value = b"%d" % (self.count + 1)
        try:
            stat = self.client.set(self.path, value, version=self.count)
        except KazooException:
            data, stat = retrying(lambda: self._synced(lambda: self.client.get(self.path)))
            self.looked_up += 1
            if (data, stat.version) == (b"%d" % self.count, self.count):
                return
        if stat.version != self.count + 1:
            raise Broken(f"{self.path} should have version {self.count + 1} and has {stat.version}")
        self.count += 1
        self._acknowledge()

    def _append(self) -> None:
        self._serial += 1
        data = b"%d" % self._serial
        try:
            self.listed.append(
                self.client.create(f"{self.path}/list/n-", data, sequence=True).rpartition("/")[2]
            )
        except KazooException:
            names = set(retrying(lambda: self._synced(lambda: self.client.get_children(f"{self.path}/list"))))
            self.looked_up += 1
            news = names - set(self.listed)
            if len(news) > 1:
                raise Broken(f"one write made {news} in {self.path}/list") from None
            self.listed += news
        self._acknowledge()

    def _shorten(self) -> None:
        for name in self.listed[: LIST_MAX // 2]:
            retrying(partial(self._delete, f"{self.path}/list/{name}"))
        del self.listed[: LIST_MAX // 2]

    def _delete(self, path: str) -> None:
        if self.client.exists(path):
            self.client.delete(path)
            self._acknowledge()

    def _acknowledge(self) -> None:
        now = time.monotonic()
        self.longest_gap = max(self.longest_gap, now - self._last_ack)
        self._last_ack = now
        self.acknowledged += 1

    def _synced(self, read: Callable[[], Any]) -> Any:
        self.client.sync(self.path)
        return read()

    def check(self, reader: KazooClient) -> None:
        """All of it is there, read by whomever."""
        reader.sync(self.path)
        data, stat = reader.get(self.path)
        if (data, stat.version) != (b"%d" % self.count, self.count):
            raise Broken(f"{self.path} is {data!r} at version {stat.version}, after {self.count} writes")
        if missing := set(self.listed) ^ set(reader.get_children(f"{self.path}/list")):
            raise Broken(f"{self.path}/list: lost or never asked for: {sorted(missing)[:10]}")
        session = self.client.client_id[0]
        here = reader.exists(f"{self.path}/here")
        if here is None or here.owner_session_id != session:
            raise Broken(f"{self.path}/here belongs to session 0x{session:x}, and is {here}")
        if reader.Lock(f"{self.path}/lock").contenders() != [self.name]:
            raise Broken(f"the lock of {self.name} is lost")
        if self.lost_sessions:
            raise Broken(f"{self.name} lost its session")


def retrying(call: Callable[[], Any]) -> Any:
    """Its result, once it does not fail any more: reads, and what does no harm twice."""
    deadline = time.monotonic() + OUTAGE_SECONDS_MAX
    while True:
        try:
            return call()
        except KazooException as failure:
            if time.monotonic() > deadline:
                raise Broken(f"no answer for {OUTAGE_SECONDS_MAX} s") from failure
            time.sleep(RETRY_SECONDS)


@contextmanager
def kazoo_client(hosts: str, seconds: float = SESSION_SECONDS) -> Iterator[KazooClient]:
    client = KazooClient(hosts=hosts, timeout=seconds, randomize_hosts=True)
    client.start(timeout=OUTAGE_SECONDS_MAX)
    try:
        yield client
    finally:
        client.stop()
        client.close()


@contextmanager
def counting(hosts: str, clients: int = 4, pause_seconds: float = 0.01) -> Iterator[Sequence[Counter]]:
    """Clients that count until the block ends; what they know is then checked at every server."""
    with ExitStack() as running:
        counters = [
            Counter(f"c{number}", running.enter_context(kazoo_client(hosts)), pause_seconds)
            for number in range(clients)
        ]
        for counter in counters:
            counter.begin()
        with in_threads(counters):
            yield counters
        for host in hosts.split(","):
            with kazoo_client(host) as reader:
                for counter in counters:
                    counter.check(reader)


@contextmanager
def in_threads(counters: Sequence[Counter]) -> Iterator[None]:
    stop = Event()
    threads = [Thread(target=counter.run, args=(stop,)) for counter in counters]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for counter in counters:
        if counter.failure is not None:
            raise counter.failure
