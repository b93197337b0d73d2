"""Every recipe of Kazoo, used once as its documentation shows it.

    python compat-tests/recipes/kazoo_recipes.py 127.0.0.1:2181

Two clients and a few threads are enough to make locks wait, elections change hands and barriers open. Each
recipe works below a node of its own.
"""

import datetime
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from queue import Queue
from threading import Barrier as ThreadBarrier
from threading import Event, Thread
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError
from kazoo.recipe.cache import TreeCache
from kazoo.recipe.partitioner import SetPartitioner

WAIT_SECONDS_MAX = 20.0
Recipe = Callable[[KazooClient, KazooClient, str], object]


def lock(one: KazooClient, other: KazooClient, top: str) -> None:
    """The second waits until the first lets go, and everybody sees who waits."""
    held, got_it = one.Lock(top, "one"), Event()
    assert held.acquire(timeout=WAIT_SECONDS_MAX)

    def wait_for_it() -> None:
        with other.Lock(top, "other"):
            got_it.set()

    with waiting(wait_for_it):
        wait_until(lambda: held.contenders() == ["one", "other"])
        assert not got_it.is_set()
        held.release()
    assert got_it.is_set()


def read_and_write_lock(one: KazooClient, other: KazooClient, top: str) -> None:
    """Readers share, a writer waits for them."""
    readers = [client.ReadLock(top) for client in (one, other)]
    for reader in readers:
        assert reader.acquire(timeout=WAIT_SECONDS_MAX)
    writer = one.WriteLock(top)
    assert not writer.acquire(blocking=False)
    for reader in readers:
        reader.release()
    with writer:
        assert not other.ReadLock(top).acquire(blocking=False)


def semaphore(one: KazooClient, other: KazooClient, top: str) -> None:
    """Two leases, not three."""
    leases = [client.Semaphore(top, max_leases=2) for client in (one, other)]
    for lease in leases:
        assert lease.acquire(timeout=WAIT_SECONDS_MAX)
    assert not other.Semaphore(top, max_leases=2).acquire(blocking=False)
    for lease in leases:
        lease.release()


def election(one: KazooClient, other: KazooClient, top: str) -> None:
    """Each leads once, one after the other."""
    led: Queue[str] = Queue()
    with ExitStack() as running:
        for name, client in (("one", one), ("other", other)):
            candidate = client.Election(top, name)
            running.enter_context(waiting(partial(candidate.run, led.put, name)))
    assert sorted(led.get_nowait() for _ in range(2)) == ["one", "other"]


def barrier(one: KazooClient, other: KazooClient, top: str) -> None:
    closed = one.Barrier(top)
    closed.create()
    with waiting(lambda: other.Barrier(top).wait(WAIT_SECONDS_MAX)):
        assert closed.remove()


def double_barrier(one: KazooClient, other: KazooClient, top: str) -> None:
    """Nobody begins before both are there, nobody leaves before both have ended."""

    def pass_through(client: KazooClient) -> None:
        both = client.DoubleBarrier(top, 2)
        both.enter()
        both.leave()

    with waiting(lambda: pass_through(other)):
        pass_through(one)


def queue(one: KazooClient, other: KazooClient, top: str) -> None:
    """Smaller priorities first, then first in, first out."""
    filled = one.Queue(top)
    for priority, value in ((100, b"late"), (1, b"early"), (100, b"later")):
        filled.put(value, priority)
    assert [other.Queue(top).get() for _ in range(3)] == [b"early", b"late", b"later"]


def locking_queue(one: KazooClient, other: KazooClient, top: str) -> None:
    """What one has taken, the other does not get; what was not consumed comes back."""
    one.LockingQueue(top).put_all([b"a", b"b"])
    first, second = one.LockingQueue(top), other.LockingQueue(top)
    assert {first.get(WAIT_SECONDS_MAX), second.get(WAIT_SECONDS_MAX)} == {b"a", b"b"}
    assert first.consume()
    assert second.release()
    assert len(one.LockingQueue(top)) == 1


def counter(one: KazooClient, other: KazooClient, top: str) -> None:
    """Nothing is lost when two count at once."""

    def count(client: KazooClient) -> None:
        shared = client.Counter(top)
        for _ in range(5):
            shared += 1

    with waiting(lambda: count(other)):
        count(one)
    assert one.Counter(top).value == 10


def party(one: KazooClient, other: KazooClient, top: str) -> None:
    members = [client.Party(top, name) for client, name in ((one, "one"), (other, "other"))]
    for member in members:
        member.join()
    assert sorted(members[0]) == ["one", "other"]
    members[1].leave()
    wait_until(lambda: list(members[0]) == ["one"])
    shallow = one.ShallowParty(f"{top}-shallow", "one")
    shallow.join()
    assert list(shallow) == ["one"]


def lease(one: KazooClient, other: KazooClient, top: str) -> None:
    assert one.NonBlockingLease(top, datetime.timedelta(minutes=5), "one")
    assert not other.NonBlockingLease(top, datetime.timedelta(minutes=5), "other")


def watchers(one: KazooClient, other: KazooClient, top: str) -> None:
    """A DataWatch and a ChildrenWatch follow every change of the other client's."""
    data: Queue[bytes | None] = Queue()
    children: Queue[list[str]] = Queue()
    one.ensure_path(f"{top}/family")
    one.DataWatch(f"{top}/value", lambda value, stat: data.put(value))
    one.ChildrenWatch(f"{top}/family", lambda names: children.put(sorted(names)))
    assert data.get(timeout=WAIT_SECONDS_MAX) is None
    assert children.get(timeout=WAIT_SECONDS_MAX) == []
    other.create(f"{top}/value", b"0")
    assert data.get(timeout=WAIT_SECONDS_MAX) == b"0"
    for number in range(1, 4):
        other.set(f"{top}/value", b"%d" % number)
        assert data.get(timeout=WAIT_SECONDS_MAX) == b"%d" % number
        other.create(f"{top}/family/{number}")
        assert len(children.get(timeout=WAIT_SECONDS_MAX)) == number


def tree_cache(one: KazooClient, other: KazooClient, top: str) -> None:
    one.ensure_path(f"{top}/a/b")
    cache = TreeCache(one, top)
    cache.start()
    try:
        wait_until(lambda: cache.get_children(f"{top}/a") == frozenset({"b"}))
        other.set(f"{top}/a/b", b"new")
        wait_until(lambda: (found := cache.get_data(f"{top}/a/b")) is not None and found.data == b"new")
    finally:
        cache.close()


def partitioner(one: KazooClient, other: KazooClient, top: str) -> None:
    """Three things are shared out between two; nobody has what the other has."""
    parts: list[SetPartitioner] = [
        client.SetPartitioner(top, set=("a", "b", "c"), identifier=name, time_boundary=0.5)
        for client, name in ((one, "one"), (other, "other"))
    ]
    acquired = Event()

    def share(partition: SetPartitioner) -> None:
        while not acquired.is_set():
            if partition.release:
                partition.release_set()
            elif partition.allocating:
                partition.wait_for_acquire(1)
            elif all(each.acquired for each in parts) and sum(len(list(each)) for each in parts) == 3:
                acquired.set()

    with waiting(lambda: share(parts[1])):
        share(parts[0])
    assert sorted([*parts[0], *parts[1]]) == ["a", "b", "c"]
    for each in parts:
        each.finish()


def transaction(one: KazooClient, other: KazooClient, top: str) -> None:
    """All or nothing, and each operation says why."""
    one.create(top, b"0")
    good = one.transaction()
    good.check(top, version=0)
    good.create(f"{top}/child")
    good.set_data(top, b"1")
    assert good.commit()[0] is True
    bad = other.transaction()
    bad.delete(f"{top}/child")
    bad.check(top, version=7)
    bad.create(f"{top}/never")
    results = bad.commit()
    assert isinstance(results[1], BadVersionError)
    assert other.exists(f"{top}/child")
    assert not other.exists(f"{top}/never")


def plain_nodes(one: KazooClient, other: KazooClient, top: str) -> None:
    one.create(top, b"")
    mistakes: list[tuple[type[KazooException], Callable[[], object]]] = [
        (NodeExistsError, lambda: other.create(top)),
        (NoNodeError, lambda: other.get(f"{top}/nobody")),
        (BadVersionError, lambda: other.set(top, b"", version=9)),
    ]
    for wrong, call in mistakes:
        try:
            call()
        except wrong:
            continue
        raise AssertionError(f"{wrong.__name__} was expected")
    for _ in range(3):
        other.create(f"{top}/n-", sequence=True)
    assert sorted(one.get_children(top)) == [f"n-{number:010}" for number in range(3)]
    one.delete(top, recursive=True)


RECIPES: dict[str, Recipe] = {
    recipe.__name__: recipe
    for recipe in (
        plain_nodes,
        transaction,
        lock,
        read_and_write_lock,
        semaphore,
        election,
        barrier,
        double_barrier,
        queue,
        locking_queue,
        counter,
        party,
        lease,
        watchers,
        tree_cache,
        partitioner,
    )
}


@contextmanager
def waiting(body: Callable[[], Any]) -> Iterator[None]:
    """Run something beside the block; fail if it has not ended well a while after the block."""
    began, failures = ThreadBarrier(2), []

    def run() -> None:
        began.wait()
        try:
            body()
        except BaseException as failure:  # for the thread that waits
            failures.append(failure)

    thread = Thread(target=run, daemon=True)
    thread.start()
    began.wait()
    yield
    thread.join(WAIT_SECONDS_MAX)
    assert not thread.is_alive(), "it still waits"
    if failures:
        raise failures[0]


def wait_until(is_so: Callable[[], bool]) -> None:
    pause = Event()
    for _ in range(int(WAIT_SECONDS_MAX / 0.02)):
        if is_so():
            return
        pause.wait(0.02)
    raise AssertionError("it never became so")


@contextmanager
def two_clients(hosts: str) -> Iterator[tuple[KazooClient, KazooClient]]:
    clients = KazooClient(hosts), KazooClient(hosts)
    try:
        for client in clients:
            client.start(WAIT_SECONDS_MAX)
        yield clients
    finally:
        for client in clients:
            client.stop()
            client.close()


def run_recipes(hosts: str, names: Sequence[str] = ()) -> None:
    with two_clients(hosts) as (one, other):
        for name in names or RECIPES:
            RECIPES[name](one, other, f"/recipes-{name}")
            print(name, flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(RECIPES):
        sys.exit(f"give the servers, such as 127.0.0.1:2181, and if you like some of: {' '.join(RECIPES)}")
    run_recipes(sys.argv[1], sys.argv[2:])
