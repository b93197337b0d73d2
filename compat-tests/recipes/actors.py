"""The people in the stories: Kazoo clients that remember what their watches told them.

    with actors(service, "ann", "bob") as (ann, bob):
        assert not ann.watch_node("/x")
        fail_over(service, ann, bob)          the leading server is killed, both find another one
        bob.client.create("/x")
        assert ann.hear() == ("CREATED", "/x")
        assert told(bob) == []

Only what ZooKeeper itself offers is used, none of Kazoo's recipes: nodes, versions, watches, multi. Kazoo
drops plain watches with the connection, so an actor sets those it still waits for again, as recipes must.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from queue import Empty, Queue
from threading import Event
from typing import Any, Final

import attrs
from kazoo.client import KazooClient, KazooState
from kazoo.protocol.states import Callback, WatchedEvent, ZnodeStat
from kazoo.retry import KazooRetry

from support.targets import Service, leader_of

SESSION_SECONDS: Final = 10.0
WAIT_SECONDS_MAX: Final = 40.0
Heard = tuple[str, str]  # what happened, and to which node


@attrs.define(eq=False)
class Actor:
    """One client with a session of its own."""

    name: str
    client: KazooClient
    has_lost_its_session: bool = False
    _heard: "Queue[Heard]" = attrs.field(factory=Queue)
    _watched: list[tuple[str, str]] = attrs.field(factory=list)

    def watch_node(self, path: str) -> ZnodeStat | None:
        """Whether it exists; its creation, change or deletion is heard."""
        return self._watch("exists", path)

    def watch_data(self, path: str) -> bytes:
        """Its data; a change or the deletion is heard."""
        data: bytes = self._watch("get", path)[0]
        return data

    def watch_children(self, path: str) -> list[str]:
        """Its children; another list, or the deletion, is heard."""
        return sorted(self._watch("get_children", path))

    def _watch(self, call: str, path: str) -> Any:
        self._watched.append((call, path))
        return getattr(self.client, call)(path, watch=partial(self._see, (call, path)))

    def _see(self, watch: tuple[str, str], event: WatchedEvent) -> None:
        if event.path:  # else it is the connection that has changed
            self._watched.remove(watch)
            self._heard.put((event.type, event.path))

    def watch_again(self) -> None:
        """Set the watches that are still waited for, on a new connection."""
        watched, self._watched = self._watched, []
        for call, path in watched:
            self._watch(call, path)

    def hear(self) -> Heard:
        """The next event, waited for."""
        try:
            return self._heard.get(timeout=WAIT_SECONDS_MAX)
        except Empty:
            raise AssertionError(f"{self.name} was told nothing for {WAIT_SECONDS_MAX} s") from None

    def note_state(self, state: str) -> None:
        self.has_lost_its_session |= state == KazooState.LOST

    def catch_up(self) -> None:
        """Everything that was committed before has been seen when this returns, and its events heard.

        An event comes before any reply that could reveal its change, so it comes before the reply to a sync.
        """
        KazooRetry(max_tries=-1, deadline=WAIT_SECONDS_MAX, max_delay=0.2)(self._read)
        heard = Event()
        self.client.handler.dispatch_callback(Callback("watch", heard.set, ()))
        assert heard.wait(WAIT_SECONDS_MAX)

    def _read(self) -> None:
        self.client.sync("/")
        self.client.exists("/")

    def drain(self) -> list[Heard]:
        heard = []
        while not self._heard.empty():
            heard.append(self._heard.get_nowait())
        return heard

    def die(self) -> None:
        """End the session, and with it every ephemeral node."""
        self.client.stop()
        self.client.close()


@contextmanager
def actors(service: Service, *names: str) -> Iterator[tuple[Actor, ...]]:
    cast = tuple(Actor(name, KazooClient(service.hosts, timeout=SESSION_SECONDS)) for name in names)
    try:
        for actor in cast:
            actor.client.add_listener(actor.note_state)
            actor.client.start(WAIT_SECONDS_MAX)
        yield cast
        assert not any(actor.has_lost_its_session for actor in cast if actor.client.connected)
    finally:
        for actor in cast:
            actor.die()


def stage(actor: Actor) -> str:
    """A node of its own for a story."""
    path: str = actor.client.create(f"/story-{secrets.token_hex(4)}", b"")
    return path


def fail_over(service: Service, *cast: Actor) -> None:
    """Kill the leading server; return when everybody in the cast is served by another one."""
    service.kill9(leader_of(service))
    for actor in cast:
        actor.catch_up()
        actor.watch_again()


def told(*cast: Actor) -> list[tuple[str, Heard]]:
    """Everything that they were told by now and had not been asked for; it is over by then."""
    for actor in cast:
        actor.catch_up()
    return [(actor.name, heard) for actor in cast for heard in actor.drain()]
