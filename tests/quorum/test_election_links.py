"""The connections between electors, from the side of server 2; servers 1 and 3 are played by the tests."""

from collections.abc import AsyncIterator
from functools import partial

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from jute.framing import frame
from jute.quorum_records import Initiation, decode_initiation, encode_initiation
from persistence.open_files import strangers_max
from quorum.election_links import (
    HALF_OPEN_MAX,
    KNOCK_PATIENCE_S,
    STRANGERS_MAX,
    UNCONFIRMED_S,
    ElectionLinks,
    LinkSettings,
)
from quorum.errors import CannotListen
from tests.captured_logs import capture_logs
from tests.quorum.election_scenario import ensemble_of
from tests.quorum.memory_network import MemoryNetwork

PORT = 3888
THREE = ensemble_of([1, 2, 3])
ADDRESS_1 = ("zoo1", PORT)
ADDRESS_2 = ("zoo2", PORT)
ADDRESS_3 = ("zoo3", PORT)


@attrs.define
class Told:
    """Remembers what the links told."""

    received_: list[tuple[int, bytes]] = attrs.field(factory=list)
    first: list[bytes] = attrs.field(factory=list)
    at_home: list[bytes] = attrs.field(factory=list)
    failed: list[int] = attrs.field(factory=list)
    lost: list[int] = attrs.field(factory=list)

    def received(self, sid: int, message: bytes, *, is_first: bool, is_at_home: bool) -> None:
        self.received_.append((sid, message))
        self.at_home += [message] if is_at_home else []
        self.first += [message] if is_first else []

    def dial_failed(self, sid: int) -> None:
        self.failed.append(sid)

    def link_lost(self, sid: int) -> None:
        self.lost.append(sid)


@attrs.frozen
class Two:
    """Server 2 and its network."""

    network: MemoryNetwork
    told: Told
    links: ElectionLinks

    async def call(self, sid: int, address: str = "", *, also: bytes = b"") -> trio.abc.Stream:
        """Server `sid` dials it."""
        stream = await self.network.dial(*ADDRESS_2)
        hello = encode_initiation(Initiation(sid, (address or f"zoo{sid}:{PORT}",)))
        await stream.send_all(hello + also)
        await wait_all_tasks_blocked()
        return stream

    async def listen_as(self, address: tuple[str, int]) -> trio.abc.Listener[trio.abc.Stream]:
        (listener,) = await self.network.listen(*address)
        return listener


@pytest.fixture
async def two(nursery: trio.Nursery) -> AsyncIterator[Two]:
    server = make_two()
    await nursery.start(server.links.run)
    yield server
    nursery.cancel_scope.cancel()


def make_two(**settings: float) -> Two:
    network, told = MemoryNetwork(), Told()
    links = ElectionLinks(2, network, LinkSettings(**settings), told)  # type: ignore[arg-type]
    links.set_members(THREE, THREE)
    return Two(network, told, links)


async def read(stream: trio.abc.Stream) -> bytes:
    """All that has arrived once everything has settled; nothing at all is b"nothing"."""
    await wait_all_tasks_blocked()
    with trio.move_on_after(0.001):
        return bytes(await stream.receive_some(65536))
    return b"nothing"


INITIATION_OF_2 = encode_initiation(Initiation(2, (f"zoo2:{PORT}",)))


async def test_a_larger_id_is_knocked_at_and_calls_back(two: Two, autojump_clock: MockClock) -> None:
    """The message waits for the call."""
    listener = await two.listen_as(ADDRESS_3)
    two.links.send(3, b"vote")
    knock = await listener.accept()
    assert await knock.receive_some(1000) == INITIATION_OF_2
    assert await knock.receive_some(1000) == b""

    call = await two.call(3)
    assert await read(call) == frame(b"vote")
    assert two.told.failed == []


async def test_a_smaller_id_is_dialled_and_the_connection_kept(two: Two, autojump_clock: MockClock) -> None:
    """First it is told who we are, then our vote; its own votes come the other way."""
    listener = await two.listen_as(ADDRESS_1)
    two.links.send(1, b"vote")
    stream = await listener.accept()
    assert await read(stream) == INITIATION_OF_2 + frame(b"vote")
    await stream.send_all(frame(b"theirs") + frame(b"more")[:3])
    await stream.send_all(frame(b"more")[3:])
    await wait_all_tasks_blocked()
    assert two.told.received_ == [(1, b"theirs"), (1, b"more")]
    assert two.told.first == [b"theirs"]


async def test_a_link_is_given_up_soon_once_nothing_is_confirmed(
    two: Two, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a server that was cut off for a minute is heard again half a minute after it is not."""
    limits: list[float] = []
    repeated_soon: list[trio.abc.Stream] = []
    monkeypatch.setattr("quorum.election_links.give_up_after", lambda _, seconds: limits.append(seconds))
    monkeypatch.setattr("quorum.election_links.repeat_soon", repeated_soon.append)
    await two.call(3)
    listener = await two.listen_as(ADDRESS_1)
    two.links.send(1, b"vote")
    await listener.accept()
    await wait_all_tasks_blocked()
    assert limits == [UNCONFIRMED_S, UNCONFIRMED_S]
    assert len(repeated_soon) == 2


async def test_it_is_told_whether_a_server_speaks_from_its_own_address(
    two: Two, autojump_clock: MockClock
) -> None:
    """Whoever dials can claim any id."""
    for caller in ("zoo3", "elsewhere"):
        two.network.caller = caller
        stream = await two.call(3)
        await stream.send_all(frame(caller.encode()))
        await wait_all_tasks_blocked()
        await (await two.call(9)).send_all(frame(b"unlisted"))
        await wait_all_tasks_blocked()
    assert len(two.told.received_) == 4
    assert two.told.at_home == [b"zoo3"]


async def test_the_first_word_waits_until_it_is_known_where_it_comes_from(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Where members may change: the next word may be long in coming."""
    server = make_two(waits_for_address=True)
    await nursery.start(server.links.run)
    server.network.caller = "zoo3"
    await server.call(3, also=frame(b"first"))
    assert server.told.at_home == [b"first"]
    nursery.cancel_scope.cancel()


async def test_a_smaller_id_that_knocks_is_called_back(two: Two, autojump_clock: MockClock) -> None:
    """At the address it names, although another is configured; the old connection goes."""
    old, new = await two.listen_as(ADDRESS_1), await two.listen_as(("elsewhere", 77))
    two.links.send(1, b"vote")
    stream = await old.accept()
    await trio.sleep(KNOCK_PATIENCE_S)
    knock = await two.call(1, "elsewhere:77")
    assert await knock.receive_some(1000) == b""
    called = await new.accept()
    assert await read(stream) == INITIATION_OF_2 + frame(b"vote")
    assert await read(stream) == b""
    assert await read(called) == INITIATION_OF_2 + frame(b"vote")  # again: it may have been lost
    assert two.told.lost == []


async def test_a_knock_that_crossed_our_dial_changes_nothing(two: Two, autojump_clock: MockClock) -> None:
    """Both sides had something to say at once; unless our dial fails, then the knock is news."""
    listener = await two.listen_as(ADDRESS_1)
    two.links.send(1, b"vote")
    stream = await listener.accept()
    await two.call(1)
    assert await read(stream) == INITIATION_OF_2 + frame(b"vote")
    assert await read(stream) == b"nothing"
    await stream.aclose()
    await wait_all_tasks_blocked()
    await two.call(1)
    assert await read(await listener.accept()) == INITIATION_OF_2 + frame(b"vote")


async def test_a_knock_that_comes_late_does_not_cost_the_link(two: Two, autojump_clock: MockClock) -> None:
    """The way may be long, and the caller connected by now: our link stays until the next one is there."""
    listener = await two.listen_as(ADDRESS_1)
    two.links.send(1, b"vote")
    stream = await listener.accept()
    await read(stream)
    two.network.silent.add("zoo1")
    await trio.sleep(KNOCK_PATIENCE_S)
    await two.call(1)
    two.links.send(1, b"another")
    assert await read(stream) == frame(b"another")


async def test_a_caller_that_names_no_real_host_is_called_where_it_is_listed(two: Two) -> None:
    listener = await two.listen_as(ADDRESS_1)
    await two.call(1, "0.0.0.0:3888")
    assert await (await listener.accept()).receive_some(1000) == INITIATION_OF_2


async def test_only_the_newest_message_waits(two: Two, autojump_clock: MockClock) -> None:
    for vote in (b"old", b"older", b"new"):
        two.links.send(3, vote)
    assert await read(await two.call(3)) == frame(b"new")


async def test_a_new_connection_repeats_the_last_message(two: Two, autojump_clock: MockClock) -> None:
    """And only that: it may have been lost with the old one."""
    first = await two.call(3)
    two.links.send(3, b"vote")
    assert await read(first) == frame(b"vote")
    second = await two.call(3)
    assert await read(first) == b""
    assert await read(second) == frame(b"vote")
    assert await read(second) == b"nothing"


async def test_a_failed_dial_is_told_and_not_repeated(two: Two, autojump_clock: MockClock) -> None:
    two.links.send(3, b"vote")
    await trio.sleep(100)
    assert two.told.failed == [3]
    assert two.network.dials == [ADDRESS_3]


async def test_a_server_that_is_down_is_reported_once(two: Two, autojump_clock: MockClock) -> None:
    """It is dialled for as long as there is no leader: the log must stay readable. What is new is said."""
    with capture_logs() as lines:
        for _ in range(5):
            two.links.send(1, b"vote")
            await wait_all_tasks_blocked()
        two.network.silent.add("zoo1")
        two.links.send(1, b"vote")
        await trio.sleep(6)
    assert two.told.failed == [1] * 6
    assert len([line for line in lines if line["event"] == "election_dial_failed"]) == 2


async def test_a_dial_without_answer_fails_after_five_seconds(two: Two, autojump_clock: MockClock) -> None:
    two.network.silent.add("zoo3")
    two.links.send(3, b"vote")
    await trio.sleep(4.9)
    two.links.send(3, b"newer")  # does not dial a second time meanwhile
    assert two.told.failed == []
    await trio.sleep(0.2)
    assert two.told.failed == [3]
    assert two.network.dials == [ADDRESS_3]


async def test_a_call_while_a_dial_is_failing_is_answered(two: Two, autojump_clock: MockClock) -> None:
    """It came up just after we had dialled: the call is the better news."""
    two.network.silent.add("zoo1")
    two.links.send(1, b"vote")
    listener = await two.listen_as(("elsewhere", 1))
    await trio.sleep(KNOCK_PATIENCE_S)
    await two.call(1, "elsewhere:1")
    assert await read(await listener.accept()) == INITIATION_OF_2 + frame(b"vote")
    assert two.told.failed == []


@pytest.mark.parametrize("steps", range(5))
async def test_a_call_before_our_dial_has_begun_is_answered(
    two: Two, autojump_clock: MockClock, steps: int
) -> None:
    """Both sides have something to say in the same moment."""
    listener = await two.listen_as(ADDRESS_1)
    knock = await two.network.dial(*ADDRESS_2)
    await wait_all_tasks_blocked()
    await knock.send_all(encode_initiation(Initiation(1, (f"zoo1:{PORT}",))))
    for _ in range(steps):
        await trio.lowlevel.checkpoint()
    two.links.send(1, b"vote")
    await wait_all_tasks_blocked()
    assert two.told.failed == []
    assert await read(await listener.accept()) == INITIATION_OF_2 + frame(b"vote")


async def test_a_larger_id_is_not_knocked_at_twice_in_a_row(two: Two, autojump_clock: MockClock) -> None:
    """It would drop the connection it is just making; later, it may have missed the first knock."""
    await two.listen_as(ADDRESS_3)
    two.links.send(3, b"vote")
    await trio.sleep(0.05)
    two.links.send(3, b"another")
    await trio.sleep(0.1)
    assert two.network.dials == [ADDRESS_3]
    two.links.send(3, b"third")
    await trio.sleep(0.1)
    assert two.network.dials == [ADDRESS_3, ADDRESS_3]


async def test_a_lost_link_is_told_and_not_dialled_again(two: Two, autojump_clock: MockClock) -> None:
    stream = await two.call(3)
    await stream.aclose()
    await trio.sleep(10)
    assert two.told.lost == [3]
    assert ADDRESS_3 not in two.network.dials


async def test_a_server_that_is_not_listed_is_heard_and_answered(two: Two, autojump_clock: MockClock) -> None:
    """A larger id on its own connection, a smaller one where it says it is; both are forgotten afterwards."""
    stranger = await two.call(9, also=frame(b"who leads?"))
    two.links.send(9, b"vote")
    assert await read(stranger) == frame(b"vote")
    listener = await two.listen_as(("nowhere", 1))
    await two.call(0, "nowhere:1")
    called = await listener.accept()
    two.links.send(0, b"vote")
    assert await read(called) == INITIATION_OF_2 + frame(b"vote")
    assert two.told.received_ == [(9, b"who leads?")]
    await stranger.aclose()
    await called.aclose()
    await wait_all_tasks_blocked()
    assert two.told.lost == [9, 0]
    two.links.send(9, b"vote")
    await wait_all_tasks_blocked()
    assert two.links._peers.keys() <= {1, 3}


async def test_only_so_many_servers_that_nobody_lists(two: Two, autojump_clock: MockClock) -> None:
    """A listed server is let in however many there are."""
    limit = round(strangers_max(STRANGERS_MAX))
    strangers = [await two.call(10 + number) for number in range(limit)]
    one_too_many = await two.call(10 + limit)
    assert await read(one_too_many) == b""
    assert await read(strangers[0]) == b"nothing"
    await two.call(3, also=frame(b"vote"))
    assert two.told.received_ == [(3, b"vote")]


REFUSED = {
    "our own id": encode_initiation(Initiation(2, ("zoo2:3888",))),
    "an unknown version": bytes.fromhex("fffffffffffffff0 0000000000000003 00000001 61"),
    "no address": bytes.fromhex("ffffffffffff0000 0000000000000001 00000000"),
    "a bad address": encode_initiation(Initiation(1, ("zoo1",))),
    "a bad port": encode_initiation(Initiation(1, ("zoo1:99999",))),
    "an open bracket": encode_initiation(Initiation(1, ("[::1:3888",))),
    "bytes that are no text": bytes.fromhex("ffffffffffff0000 0000000000000001 00000002 ff3a"),
    "HTTP": b"\xff" * 3 + b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("name", REFUSED)
async def test_who_does_not_open_properly_is_refused_with_one_line(two: Two, name: str) -> None:
    with capture_logs() as lines:
        stream = await two.network.dial(*ADDRESS_2)
        await stream.send_all(REFUSED[name])
        assert await stream.receive_some(1000) == b""
        await wait_all_tasks_blocked()
    assert [line["event"] for line in lines] == ["election_connection_refused"]
    assert lines[0]["reason"]
    assert lines[0]["address"]


@pytest.mark.parametrize("length", [0, -1, 524_289])
async def test_a_message_of_impossible_length_ends_the_link(
    two: Two, length: int, autojump_clock: MockClock
) -> None:
    stream = await two.call(3)
    await stream.send_all(length.to_bytes(4, "big", signed=True))
    assert await read(stream) == b""
    assert two.told.lost == [3]


async def test_the_largest_message_arrives(two: Two) -> None:
    stream = await two.call(3)
    await stream.send_all(frame(b"x" * 524_288))
    await wait_all_tasks_blocked()
    assert [len(message) for _, message in two.told.received_] == [524_288]


async def test_who_says_nothing_is_let_go_and_holds_nobody_up(two: Two, autojump_clock: MockClock) -> None:
    silent = await two.network.dial(*ADDRESS_2)
    other = await two.call(3, also=frame(b"vote"))
    assert two.told.received_ == [(3, b"vote")]
    before = trio.current_time()
    assert await silent.receive_some(1000) == b""
    assert trio.current_time() == before + LinkSettings().initiation_timeout_s
    assert await read(other) == b"nothing"


async def test_of_many_who_say_nothing_the_oldest_goes(two: Two, autojump_clock: MockClock) -> None:
    """So that a server is let in however many there are."""
    silent = [await two.network.dial(*ADDRESS_2) for _ in range(HALF_OPEN_MAX)]
    await wait_all_tasks_blocked()
    await two.call(3, also=frame(b"vote"))
    assert two.told.received_ == [(3, b"vote")]
    assert await read(silent[0]) == b""
    assert await read(silent[1]) == b"nothing"


async def test_a_flood_of_those_who_say_nothing_is_held_back_too(two: Two, autojump_clock: MockClock) -> None:
    """Many come between the moment one is told to go and the moment it has gone."""
    flood = [await two.network.dial(*ADDRESS_2) for _ in range(5 * HALF_OPEN_MAX)]
    await wait_all_tasks_blocked()
    answers = [await read(each) for each in flood]
    assert answers.count(b"nothing") == HALF_OPEN_MAX


async def test_who_moved_is_met_at_its_new_address(two: Two, autojump_clock: MockClock) -> None:
    """The port is bound anew if we are the one; links to others are not touched."""
    stream = await two.call(3)
    kept = await two.call(4)
    member = attrs.evolve(
        THREE.members[3], addresses=(attrs.evolve(THREE.members[3].addresses[0], host="new"),)
    )
    me = attrs.evolve(THREE.members[2], addresses=(attrs.evolve(THREE.members[2].addresses[0], host="here"),))
    moved = attrs.evolve(THREE, members={**THREE.members, 2: me, 3: member}, version=5)
    two.links.set_members(moved, moved)
    await wait_all_tasks_blocked()
    assert two.network.listeners.keys() == {("here", PORT)}
    assert await read(stream) == b""
    assert await read(kept) == b"nothing"
    two.links.send(3, b"vote")
    await wait_all_tasks_blocked()
    assert two.network.dials[-1] == ("new", PORT)


async def test_a_port_in_use_is_tried_three_times(autojump_clock: MockClock) -> None:
    two = make_two()
    await two.listen_as(ADDRESS_2)
    with pytest.raises(ExceptionGroup) as caught:
        await two.links.run()
    address = f"{ADDRESS_2[0]}:{ADDRESS_2[1]}"
    wording = f"election port {address} \\(server.2\\): .* in use.*correct the server line, or myid"
    assert caught.group_contains(CannotListen, match=wording)
    assert trio.current_time() == 2


async def test_a_port_that_becomes_free_is_taken(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    two = make_two()
    listener = await two.listen_as(ADDRESS_2)
    nursery.start_soon(two.links.run)
    await trio.sleep(1.5)
    await listener.aclose()
    await trio.sleep(1)
    await two.call(3, also=frame(b"vote"))
    assert two.told.received_ == [(3, b"vote")]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("silent", [(), ("zoo1",)])
async def test_a_server_with_several_addresses_listens_on_and_tells_all(
    nursery: trio.Nursery, autojump_clock: MockClock, silent: tuple[str, ...]
) -> None:
    """And tries all of another's, without waiting for long where one does not answer."""
    two = make_two(sends_all_addresses=True)
    twice = {
        sid: attrs.evolve(
            member,
            addresses=(*member.addresses, attrs.evolve(member.addresses[0], host=f"alt{sid}")),
        )
        for sid, member in THREE.members.items()
    }
    ensemble = attrs.evolve(THREE, members=twice)
    two.links.set_members(ensemble, ensemble)
    await nursery.start(two.links.run)
    assert two.network.listeners.keys() == {("zoo2", PORT), ("alt2", PORT)}
    listener = await two.listen_as(("alt1", PORT))
    two.network.silent.update(silent)
    two.links.send(1, b"vote")
    with trio.fail_after(0.5):
        stream = await listener.accept()
    initiation, _ = decode_initiation(bytes(await stream.receive_some(1000)))
    assert initiation == Initiation(2, (f"zoo2:{PORT}", f"alt2:{PORT}"))
    nursery.cancel_scope.cancel()


async def test_connections_that_do_not_last_are_not_all_we_do(two: Two, autojump_clock: MockClock) -> None:
    """A second server with our id pushes us out as soon as we are in, and we it: each of us slows down."""
    listener = await two.listen_as(ADDRESS_1)
    times = []
    for _ in range(8):
        two.links.send(1, b"vote")
        stream = await listener.accept()
        times.append(trio.current_time())
        assert await stream.receive_some(1000) == INITIATION_OF_2
        await stream.aclose()
        await wait_all_tasks_blocked()
    assert times == [0, 0, 0, 1, 2, 3, 4, 5]


async def test_a_connection_that_lasts_is_replaced_at_once(two: Two, autojump_clock: MockClock) -> None:
    """However many before it did not last."""
    listener = await two.listen_as(ADDRESS_1)
    for seconds in (0, 0, 0, 5):
        two.links.send(1, b"vote")
        stream = await listener.accept()
        await trio.sleep(seconds)
        await stream.aclose()
        await wait_all_tasks_blocked()
    lost_at = trio.current_time()
    two.links.send(1, b"vote")
    await listener.accept()
    assert trio.current_time() == lost_at


async def test_who_calls_while_we_wait_to_dial_is_not_called(two: Two, autojump_clock: MockClock) -> None:
    for _ in range(3):
        await (await two.call(3)).aclose()
    await wait_all_tasks_blocked()
    listener = await two.listen_as(ADDRESS_3)
    two.links.send(3, b"vote")
    call = await two.call(3)
    assert await read(call) == frame(b"vote")
    with trio.move_on_after(5):
        await listener.accept()
        pytest.fail("it was knocked at")


async def test_two_servers_with_one_id_are_told_of(two: Two, autojump_clock: MockClock) -> None:
    """Once."""
    with capture_logs() as logs:
        for address in ("zoo3:3888", "zoo3:3888", "zoo4:3888", "zoo3:3888"):
            await two.call(3, address)
    (warning,) = [each for each in logs if each["log_level"] == "warning"]
    assert (warning["event"], warning["before"], warning["now"]) == (
        "server_calls_from_elsewhere",
        "zoo3:3888",
        "zoo4:3888",
    )
    assert "myid" in warning["remedy"]


@given(st.binary(max_size=80), st.booleans())
def test_no_bytes_bring_the_links_down(noise: bytes, is_after_opening: bool) -> None:
    """Whatever comes in, first thing or behind a proper opening."""

    async def main() -> None:
        two = make_two()
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(two.links.run))
            stream = await two.network.dial(*ADDRESS_2)
            opening = encode_initiation(Initiation(3, ("zoo3:3888",))) if is_after_opening else b""
            await stream.send_all(opening + noise)
            await stream.aclose()
            await wait_all_tasks_blocked()
            await two.call(7, also=frame(b"vote"))
            assert two.told.received_[-1] == (7, b"vote")
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def test_with_whom_there_is_a_connection_and_with_whom_not(two: Two, autojump_clock: MockClock) -> None:
    await two.call(3)
    assert (two.links.reachable(), two.links.unreachable()) == ([3], {1: "does not answer"})
    two.links.send(1, b"vote")
    await wait_all_tasks_blocked()
    assert two.links.unreachable() == {1: "zoo1:3888: [Errno 111] connection refused"}
