"""Configuration, rendezvous, group membership and two-phase commit, with a server killed in the middle."""

import pytest
from kazoo.exceptions import NoNodeError

from recipes.actors import Actor, actors, fail_over, stage, told
from support.targets import Service

pytestmark = pytest.mark.timeout(180)


def read_configuration(actor: Actor, top: str) -> dict[str, bytes] | None:
    """All settings, or None while they are being changed: the node `ready` says which."""
    if not actor.watch_node(f"{top}/ready"):
        return None
    names = [name for name in actor.client.get_children(top) if name != "ready"]
    return {name: actor.client.get(f"{top}/{name}")[0] for name in names}


def test_nobody_sees_half_a_configuration(ensemble: Service) -> None:
    """The writer takes `ready` away, changes what it likes, and puts it back. Events come before new data."""
    with actors(ensemble, "writer", "reader") as (writer, reader):
        top = stage(writer)
        old = {f"setting-{number}": b"old" for number in range(5)}
        for name, value in old.items():
            writer.client.create(f"{top}/{name}", value)
        writer.client.create(f"{top}/ready")
        reader.catch_up()
        assert read_configuration(reader, top) == old

        writer.client.delete(f"{top}/ready")
        for name in list(old)[:3]:
            writer.client.set(f"{top}/{name}", b"new")
        assert reader.hear() == ("DELETED", f"{top}/ready")
        assert read_configuration(reader, top) is None
        fail_over(ensemble, writer, reader)
        assert read_configuration(reader, top) is None
        for name in list(old)[3:]:
            writer.client.set(f"{top}/{name}", b"new")
        writer.client.create(f"{top}/ready")

        assert reader.hear() == ("CREATED", f"{top}/ready")
        assert read_configuration(reader, top) == dict.fromkeys(old, b"new")


def test_a_configuration_can_be_changed_at_once_by_a_multi(ensemble: Service) -> None:
    with actors(ensemble, "writer", "reader") as (writer, reader):
        top = stage(writer)
        for name in "ab":
            writer.client.create(f"{top}/{name}", b"old")
        fail_over(ensemble, writer, reader)
        change = writer.client.transaction()
        for name in "ab":
            change.set_data(f"{top}/{name}", b"new", version=0)
        change.commit()

        reader.catch_up()
        assert {reader.client.get(f"{top}/{name}")[1].mzxid for name in "ab"} == {
            writer.client.get(f"{top}/a")[1].mzxid
        }


def test_a_worker_finds_its_master_at_the_rendezvous(ensemble: Service) -> None:
    """The place is agreed on beforehand; the address is written there once it is known."""
    with actors(ensemble, "worker", "master") as (worker, master):
        place = f"{stage(worker)}/rendezvous"
        worker.client.create(place, b"")
        assert worker.watch_data(place) == b""
        fail_over(ensemble, worker, master)

        master.client.set(place, b"10.0.0.7:4000", version=0)

        assert worker.hear() == ("CHANGED", place)
        assert worker.client.get(place)[0] == b"10.0.0.7:4000"


def test_a_group_knows_its_members(ensemble: Service) -> None:
    """A member is an ephemeral node: it goes with its process, and not with the server it talks to."""
    with actors(ensemble, "watcher", "ann", "bob") as (watcher, ann, bob):
        top = stage(watcher)
        for member in (ann, bob):
            member.catch_up()
            member.client.create(f"{top}/{member.name}", ephemeral=True)
        watcher.catch_up()
        assert watcher.watch_children(top) == ["ann", "bob"]
        fail_over(ensemble, watcher, ann, bob)
        assert told(watcher) == []

        bob.die()

        assert watcher.hear() == ("CHILD", top)
        assert watcher.client.get_children(top) == ["ann"]


@pytest.mark.parametrize("votes", [(b"yes", b"yes"), (b"yes", b"no")], ids=["all agree", "one refuses"])
def test_a_two_phase_commit_is_decided_once(ensemble: Service, votes: tuple[bytes, bytes]) -> None:
    """Sites vote below the transaction's node; the coordinator decides when the last vote is there."""
    with actors(ensemble, "coordinator", "site-1", "site-2") as (coordinator, *sites):
        top = stage(coordinator)
        transaction = f"{top}/transaction"
        coordinator.client.create(transaction, b"open")
        for site in sites:
            coordinator.client.create(f"{transaction}/{site.name}", b"")
            coordinator.watch_data(f"{transaction}/{site.name}")
        for site in sites:
            site.catch_up()
            assert site.watch_data(transaction) == b"open"
        sites[0].client.set(f"{transaction}/{sites[0].name}", votes[0])
        assert coordinator.hear() == ("CHANGED", f"{transaction}/{sites[0].name}")
        fail_over(ensemble, coordinator, *sites)
        assert told(*sites) == []
        sites[1].client.set(f"{transaction}/{sites[1].name}", votes[1])
        assert coordinator.hear() == ("CHANGED", f"{transaction}/{sites[1].name}")

        seen = {coordinator.client.get(f"{transaction}/{site.name}")[0] for site in sites}
        decision = b"commit" if seen == {b"yes"} else b"abort"
        coordinator.client.set(transaction, decision, version=0)

        for site in sites:
            assert site.hear() == ("CHANGED", transaction)
            assert site.client.get(transaction)[0] == decision
        assert decision == (b"commit" if votes == (b"yes", b"yes") else b"abort")


def test_what_a_dead_writer_left_half_done_is_told_by_its_ephemeral(ensemble: Service) -> None:
    """Work is marked by an ephemeral: if that is gone and there is no result, it is done again."""
    with actors(ensemble, "worker", "helper") as (worker, helper):
        top = stage(worker)
        worker.client.create(f"{top}/task", b"")
        worker.client.create(f"{top}/claim", ephemeral=True)
        helper.catch_up()
        assert helper.watch_node(f"{top}/claim")
        fail_over(ensemble, worker, helper)

        worker.die()

        assert helper.hear() == ("DELETED", f"{top}/claim")
        with pytest.raises(NoNodeError):
            helper.client.get(f"{top}/result")
        helper.client.create(f"{top}/claim", ephemeral=True)
