"""Leader election by watching one's predecessor, a coordinator with fencing epochs, a versioned counter.

Who dies decides who is told: of the leader's death one candidate, of a death in the middle of the line the
one behind it, and nobody else. leader_election.py is the same with three processes that are killed.
"""

import pytest
from kazoo.exceptions import BadVersionError

from recipes.actors import Actor, actors, fail_over, stage, told
from support.targets import Service

pytestmark = pytest.mark.timeout(180)


def stand(actor: Actor, top: str) -> str:
    path: str = actor.client.create(f"{top}/node_", actor.name.encode(), ephemeral=True, sequence=True)
    return path


def watch_predecessor(actor: Actor, top: str, own: str) -> str | None:
    """Watch whoever is before this candidate; None if it leads."""
    queue = sorted(f"{top}/{name}" for name in actor.client.get_children(top))
    at = queue.index(own)
    while at > 0:
        if actor.watch_node(queue[at - 1]):
            return queue[at - 1]
        at -= 1  # it has gone since
    return None


def stand_in_line(cast: tuple[Actor, ...], top: str) -> list[str]:
    nodes = [stand(actor, top) for actor in cast]
    for at, actor in enumerate(cast):
        assert watch_predecessor(actor, top, nodes[at]) == (nodes[at - 1] if at else None)
    return nodes


def test_only_the_next_candidate_is_told_of_the_leaders_death(ensemble: Service) -> None:
    with actors(ensemble, *"abcde") as cast:
        top = stage(cast[1])
        nodes = stand_in_line(cast, top)
        fail_over(ensemble, *cast)

        cast[0].die()

        assert cast[1].hear() == ("DELETED", nodes[0])
        assert watch_predecessor(cast[1], top, nodes[1]) is None
        assert told(*cast[1:]) == []


def test_a_death_in_the_middle_of_the_line_elects_nobody(ensemble: Service) -> None:
    with actors(ensemble, *"abcde") as cast:
        top = stage(cast[0])
        nodes = stand_in_line(cast, top)
        fail_over(ensemble, *cast)

        cast[2].die()

        assert cast[3].hear() == ("DELETED", nodes[2])
        assert watch_predecessor(cast[3], top, nodes[3]) == nodes[1]
        assert told(cast[0], cast[1], cast[3], cast[4]) == []
        assert watch_predecessor(cast[0], top, nodes[0]) is None  # the same one leads


def test_two_deaths_at_once_make_two_candidates_look_again(ensemble: Service) -> None:
    with actors(ensemble, *"abcdef") as cast:
        top = stage(cast[0])
        nodes = stand_in_line(cast, top)
        fail_over(ensemble, *cast)

        cast[1].die()
        cast[3].die()

        assert cast[2].hear() == ("DELETED", nodes[1])
        assert cast[4].hear() == ("DELETED", nodes[3])
        assert watch_predecessor(cast[2], top, nodes[2]) == nodes[0]
        assert watch_predecessor(cast[4], top, nodes[4]) == nodes[2]
        assert told(cast[0], cast[2], cast[4], cast[5]) == []


def test_a_coordinator_that_was_replaced_can_write_no_more(ensemble: Service) -> None:
    """The epoch is a version: whoever takes over raises it, and every write of a coordinator checks it."""
    with actors(ensemble, "old", "new") as (old, new):
        top = stage(old)
        old.client.create(f"{top}/epoch", b"")
        old.client.create(f"{top}/state", b"")
        old_epoch = old.client.set(f"{top}/epoch", b"old").version

        def write(actor: Actor, epoch: int, value: bytes) -> list[object]:
            writing = actor.client.transaction()
            writing.check(f"{top}/epoch", epoch)
            writing.set_data(f"{top}/state", value)
            results: list[object] = writing.commit()
            return results

        assert write(old, old_epoch, b"1")[0] is True
        fail_over(ensemble, old, new)
        new_epoch = new.client.set(f"{top}/epoch", b"new", version=old_epoch).version
        assert new_epoch == old_epoch + 1

        assert isinstance(write(old, old_epoch, b"too late")[0], BadVersionError)
        assert write(new, new_epoch, b"2")[0] is True
        old.catch_up()
        assert old.client.get(f"{top}/state")[0] == b"2"


def test_a_counter_by_versions_loses_no_step(ensemble: Service) -> None:
    """Everybody adds with the version that was read; who is too late reads again."""
    with actors(ensemble, "ann", "bob", "eve") as cast:
        path = stage(cast[0])
        steps = 0
        for turn in range(30):
            if turn == 15:
                fail_over(ensemble, *cast)
            for actor in cast:
                actor.client.sync(path)
            read = [(actor, *actor.client.get(path)) for actor in cast]
            done = []
            for actor, data, stat in read:
                try:
                    actor.client.set(path, b"%d" % (int(data or b"0") + 1), version=stat.version)
                    done.append(actor)
                except BadVersionError:
                    continue
            assert done == [cast[0]]  # the others read the same version
            steps += 1
        cast[1].catch_up()
        data, stat = cast[1].client.get(path)
        assert (int(data), stat.version) == (steps, steps)
