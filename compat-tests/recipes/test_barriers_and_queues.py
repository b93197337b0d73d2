"""Barriers, double barriers, queues and priority queues, made of nodes and watches, with a server killed."""

import pytest
from kazoo.exceptions import NoNodeError

from recipes.actors import Actor, actors, fail_over, stage, told
from support.targets import Service

pytestmark = pytest.mark.timeout(180)


def test_a_barrier_holds_everybody_until_it_is_removed(ensemble: Service) -> None:
    with actors(ensemble, "guard", "ann", "bob") as (guard, ann, bob):
        gate = f"{stage(guard)}/gate"
        guard.client.create(gate)
        for actor in (ann, bob):
            assert actor.watch_node(gate)
        fail_over(ensemble, guard, ann, bob)
        assert told(ann, bob) == []

        guard.client.delete(gate)

        assert (ann.hear(), bob.hear()) == (("DELETED", gate), ("DELETED", gate))


def test_a_double_barrier_lets_all_begin_and_all_leave_together(ensemble: Service) -> None:
    """The last to come makes the node `ready`; nobody has left before the last one goes."""
    with actors(ensemble, "ann", "bob", "eve") as cast:
        top = stage(cast[0])
        cast[0].client.create(f"{top}/members")
        for actor in cast[:-1]:
            assert not actor.watch_node(f"{top}/ready")
            actor.client.create(f"{top}/members/{actor.name}", ephemeral=True)
        fail_over(ensemble, *cast)
        assert told(*cast) == []
        last = cast[-1]
        last.client.create(f"{top}/members/{last.name}", ephemeral=True)
        last.catch_up()
        assert len(last.client.get_children(f"{top}/members")) == len(cast)
        last.client.create(f"{top}/ready")
        assert [actor.hear() for actor in cast[:-1]] == [("CREATED", f"{top}/ready")] * 2

        # Leaving: each waits for the children to be gone.
        for actor in cast:
            actor.client.delete(f"{top}/members/{actor.name}")
        for actor in cast:
            actor.catch_up()
            assert actor.client.get_children(f"{top}/members") == []


def take(actor: Actor, top: str) -> bytes | None:
    """The first item; None if there is none. Two who want the same one cannot both delete it."""
    for name in sorted(actor.client.get_children(top)):
        try:
            data: bytes = actor.client.get(f"{top}/{name}")[0]
            actor.client.delete(f"{top}/{name}")
        except NoNodeError:
            continue
        return data
    return None


def test_a_queue_hands_out_every_item_once_and_in_order(ensemble: Service) -> None:
    with actors(ensemble, "producer", "ann", "bob") as (producer, ann, bob):
        top = stage(producer)
        items = [b"%d" % number for number in range(12)]
        for item in items:
            producer.client.create(f"{top}/item-", item, sequence=True)
        ann.catch_up()
        taken = [take(ann, top) for _ in range(3)]
        fail_over(ensemble, producer, ann, bob)

        for _ in range(5):
            for actor in (bob, ann):
                actor.catch_up()
                if (item_taken := take(actor, top)) is not None:
                    taken.append(item_taken)

        assert taken == items
        assert take(bob, top) is None


def test_who_waits_for_an_empty_queue_is_told_of_the_first_item(ensemble: Service) -> None:
    with actors(ensemble, "producer", "consumer") as (producer, consumer):
        top = stage(producer)
        consumer.catch_up()
        assert consumer.watch_children(top) == []
        fail_over(ensemble, producer, consumer)

        producer.client.create(f"{top}/item-", b"at last", sequence=True)

        assert consumer.hear() == ("CHILD", top)
        assert take(consumer, top) == b"at last"


def test_a_priority_queue_serves_the_smallest_number_first(ensemble: Service) -> None:
    with actors(ensemble, "producer", "consumer") as (producer, consumer):
        top = stage(producer)
        for priority, value in ((500, b"c"), (1, b"a"), (500, b"d"), (20, b"b")):
            producer.client.create(f"{top}/{priority:03}-", value, sequence=True)
        fail_over(ensemble, producer, consumer)

        assert [take(consumer, top) for _ in range(5)] == [b"a", b"b", b"c", b"d", None]
