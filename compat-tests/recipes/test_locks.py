"""Locks from ZooKeeper's own documentation, made of nodes and watches, with a server killed in the middle."""

import pytest

from recipes.actors import Actor, actors, fail_over, stage, told
from support.targets import Service

pytestmark = pytest.mark.timeout(180)
WAITERS = 5


def queue_up(actor: Actor, top: str, prefix: str = "lock-") -> str:
    """Take a ticket; its name without the path."""
    path: str = actor.client.create(f"{top}/{prefix}", actor.name.encode(), ephemeral=True, sequence=True)
    return path.rpartition("/")[2]


def number(ticket: str) -> int:
    return int(ticket[-10:])


def tickets(actor: Actor, top: str) -> list[str]:
    """All tickets by their number, whatever they are for."""
    return sorted(actor.client.get_children(top), key=number)


def before(actor: Actor, top: str, ticket: str) -> list[str]:
    queue = tickets(actor, top)
    return queue[: queue.index(ticket)]


def test_a_simple_lock_wakes_the_whole_herd(ensemble: Service) -> None:
    """One node is the lock. It is right, but each release is told to all: the herd."""
    with actors(ensemble, "holder", *(f"waiter {n}" for n in range(WAITERS))) as (holder, *waiters):
        top = stage(holder)
        holder.client.create(f"{top}/lock", ephemeral=True)
        for waiter in waiters:
            assert waiter.watch_node(f"{top}/lock")
        fail_over(ensemble, holder, *waiters)
        assert holder.client.exists(f"{top}/lock").ephemeralOwner == holder.client.client_id[0]

        holder.die()

        assert [waiter.hear() for waiter in waiters] == [("DELETED", f"{top}/lock")] * WAITERS
        winner, *losers = waiters
        winner.client.create(f"{top}/lock", ephemeral=True)
        assert all(loser.client.exists(f"{top}/lock") for loser in losers)


def test_a_lock_without_a_herd_wakes_exactly_one(ensemble: Service) -> None:
    """Each waiter watches the ticket before its own, so a release is told once, to the next in line."""
    with actors(ensemble, "holder", *(f"waiter {n}" for n in range(WAITERS))) as cast:
        top = stage(cast[0])
        queue = [queue_up(actor, top) for actor in cast]
        for actor, ticket in zip(cast[1:], queue[1:], strict=True):
            predecessor = before(actor, top, ticket)[-1]
            assert actor.watch_node(f"{top}/{predecessor}")
        fail_over(ensemble, *cast)

        for at in range(WAITERS):
            holder, following, others = cast[at], cast[at + 1], cast[at + 2 :]
            holder.client.delete(f"{top}/{queue[at]}")
            assert following.hear() == ("DELETED", f"{top}/{queue[at]}")
            assert before(following, top, queue[at + 1]) == []
            assert told(*others) == []


def test_readers_share_a_lock_and_a_writer_waits_for_the_last_of_them(ensemble: Service) -> None:
    """A reader waits for the writer before it, a writer for whoever is before it."""
    with actors(ensemble, "reader 1", "reader 2", "writer", "reader 3") as cast:
        first, second, writer, third = cast
        top = stage(first)
        one, two = queue_up(first, top, "read-"), queue_up(second, top, "read-")
        write, three = queue_up(writer, top, "write-"), queue_up(third, top, "read-")
        assert [ticket for ticket in before(second, top, two) if ticket.startswith("write-")] == []
        assert writer.watch_node(f"{top}/{two}")
        assert third.watch_node(f"{top}/{write}")
        fail_over(ensemble, *cast)

        first.client.delete(f"{top}/{one}")
        assert told(*cast) == []  # another reader still holds it
        second.die()
        assert writer.hear() == ("DELETED", f"{top}/{two}")
        assert before(writer, top, write) == []
        assert told(third) == []
        writer.client.delete(f"{top}/{write}")
        assert third.hear() == ("DELETED", f"{top}/{write}")
        assert before(third, top, three) == []


def test_a_ticket_that_was_taken_while_the_connection_was_lost_is_found_again(ensemble: Service) -> None:
    """Whether a create was done is known from a mark in its name, so nobody stands in line twice."""
    with actors(ensemble, "ann") as (ann,):
        top = stage(ann)
        mark = f"{ann.client.client_id[0]:x}-"
        ticket = queue_up(ann, top, mark)
        fail_over(ensemble, ann)  # as if the answer to the create had been lost with it

        mine = [name for name in tickets(ann, top) if name.startswith(mark)]
        assert mine == [ticket]
