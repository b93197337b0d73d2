"""Apache ZooKeeper and Triokeeper as members of one ensemble: in any mix, with either kind leading.

Everything ends with the same tree and the same digests at all members. `make compat-mixed` runs all of it,
`make test` a little. With `--server=reference` all members are Apache's, which shows that the tests ask for
nothing that it does not do.
"""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from threading import Event, Thread

import pytest
from kazoo.client import KazooClient

from ensembles.load import assert_all_equal
from ensembles.sync_modes import BEGUN_AS_LEADER, SITUATIONS, Situation, SyncMode, come_back, told_mode
from ensembles.troubles import SETTINGS as TROUBLE_SETTINGS
from ensembles.troubles import TROUBLES, Trouble, under_load
from support import session_client as wire
from support.ensembles import Ensemble, prepare_ensemble, start_ensemble, wait_until
from support.raw_client import Reader
from support.sample_data import LoadWriter, authenticate, catalogue
from support.servers import SMALL_FLAGS, Kind
from support.session_client import Lost, Refused, SessionClient
from support.super_user import SUPER, SUPER_DIGEST

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("reference")]

TICK_MS = 500
SESSION_MS = 40_000
GUEST_MS = 2 * TICK_MS
GONE_SECONDS_MAX = 15.0
LOAD_SECONDS = 2.0
REPLIES_MIN = 1000
SESSION_MOVED = -118

SETTINGS = {
    "tickTime": TICK_MS,
    "initLimit": 20,
    "syncLimit": 6,
    "maxSessionTimeout": SESSION_MS,
    "maxClientCnxns": 0,
    "preAllocSize": 64,
    "extendedTypesEnabled": "true",
    "DigestAuthenticationProvider.superDigest": SUPER_DIGEST,
}
RECONFIG_SETTINGS = {**SETTINGS, "reconfigEnabled": "true", "standaloneEnabled": "false"}
NEVER_REAP = "-Dznode.container.checkIntervalMs=100000000"

Mix = tuple[str, ...]  # of "apache" and "ours"
TWO_AND_ONE: Mix = ("apache", "apache", "ours")
ONE_AND_TWO: Mix = ("ours", "ours", "apache")
PAIRS = [("apache", "ours"), ("ours", "apache")]  # a leader's kind, a learner's


def led_by_each(*quick: tuple[Mix, int]) -> pytest.MarkDecorator:
    """Each mix with each kind leading: the third member or the second. All but the quick ones take long."""
    return pytest.mark.parametrize(
        ("mix", "leader"),
        [
            pytest.param(
                mix,
                leader,
                id=f"{'-'.join(mix)} led by {leader}",
                marks=[] if (mix, leader) in quick else [pytest.mark.long],
            )
            for mix in (TWO_AND_ONE, ONE_AND_TWO)
            for leader in (3, 2)
        ],
    )


of_each_kind = pytest.mark.parametrize("pair", PAIRS, ids=" leads ".join)


def kinds_of(mix: Sequence[str], ours: Kind) -> list[Kind]:
    return ["reference" if name == "apache" else ours for name in mix]


# -- working together


@led_by_each((TWO_AND_ONE, 3), (ONE_AND_TWO, 3))
def test_writes_of_every_kind_through_every_member(kind: Kind, mix: Mix, leader: int) -> None:
    """Under load from all sides; what cannot be done is refused alike, and then all trees are the same."""
    with (
        prepare_ensemble(kinds_of(mix, kind), SETTINGS, jvm_flags=(*SMALL_FLAGS, NEVER_REAP)) as ensemble,
        ExitStack() as running,
    ):
        ensemble.begin(leader)
        first = running.enter_context(as_super(ensemble[1].port))
        for _ in first.call_all(list(catalogue())):
            pass
        writers = [
            LoadWriter(
                random.Random(f"{server_id} {is_super}"),
                SessionClient.open(ensemble[server_id].port, SESSION_MS),
                f"writer-{server_id}-{is_super}",
                is_super,
            )
            for server_id in ensemble.ids
            for is_super in (True, False)
        ]
        for writer in writers:
            running.callback(drop_client, writer)
        write_for_a_while(writers)
        assert sum(writer.replies for writer in writers) > REPLIES_MIN
        assert_all_equal(ensemble, greet=authenticate)
        assert ensemble.leader() == leader


def drop_client(writer: LoadWriter) -> None:
    """The one it has by then: it renews its session now and then."""
    writer.client.drop()


def write_for_a_while(writers: Sequence[LoadWriter]) -> None:
    stop = Event()
    for writer in writers:
        writer.greet()
    threads = [Thread(target=writer.run, args=(stop,)) for writer in writers]
    for thread in threads:
        thread.start()
    time.sleep(LOAD_SECONDS)
    deadline = time.monotonic() + GONE_SECONDS_MAX
    while sum(writer.replies for writer in writers) <= REPLIES_MIN and time.monotonic() < deadline:
        time.sleep(0.1)  # a busy machine takes longer
    stop.set()
    for thread in threads:
        thread.join()
    for writer in writers:
        if writer.failure is not None:
            raise writer.failure


@led_by_each()
def test_what_one_member_acknowledged_another_shows_after_a_sync(kind: Kind, mix: Mix, leader: int) -> None:
    """To a leader of Apache's a sync is like any read: others may have been told of a write before it is."""
    with start_ensemble(kinds_of(mix, kind), SETTINGS, leader=leader) as ensemble, ExitStack() as running:
        clients = {
            server_id: running.enter_context(SessionClient.open(ensemble[server_id].port, SESSION_MS))
            for server_id in ensemble.ids
        }
        readers = [n for n in ensemble.ids if n != leader or ensemble[n].kind == "triokeeper"]
        clients[1].call(wire.create("/shared", b""))
        for number in range(150):
            draw = random.Random(number)
            reader = draw.choice(readers)
            writer = draw.choice([n for n in ensemble.ids if n != reader])
            assert clients[writer].call(wire.set_data("/shared", b"%d" % number)).err == 0
            synced, read = clients[reader].call_all([wire.sync("/shared"), wire.get_data("/shared")])
            assert synced.err == 0
            assert Reader(read.body).read_buffer() == b"%d" % number


@led_by_each()
def test_watches_fire_at_the_other_kind(kind: Kind, mix: Mix, leader: int) -> None:
    with start_ensemble(kinds_of(mix, kind), SETTINGS, leader=leader) as ensemble, ExitStack() as running:
        clients = [running.enter_context(kazoo(ensemble[n].host_port)) for n in ensemble.ids]
        clients[0].create("/watched", b"")
        for client in clients:
            client.sync("/watched")
        for writer in clients:
            fired = [Event() for _ in clients]
            for client, event in zip(clients, fired, strict=True):
                client.get("/watched", watch=lambda _, event=event: event.set())
            writer.set("/watched", b"new")
            assert all(event.wait(10) for event in fired)


# -- sessions


@led_by_each()
def test_a_session_moves_between_kinds(kind: Kind, mix: Mix, leader: int) -> None:
    """With its id, password and ephemeral nodes; also when the leader has changed; and ends everywhere."""
    with start_ensemble(kinds_of(mix, kind), SETTINGS, leader=leader) as ensemble:
        client = SessionClient.open(ensemble[1].port, SESSION_MS)
        expected: set[str] = set()
        for round_number in range(3):
            for server_id in ensemble.running:
                refuses_a_wrong_password(client, ensemble[server_id].port)
                move(client, ensemble, server_id)
                assert ephemerals_of(client) == expected
                path = f"/e-{round_number}-{server_id}"
                assert client.call(wire.create(path, b"", flags=wire.EPHEMERAL)).err == 0
                expected.add(path)
            if round_number == 0:
                move(client, ensemble, other_than(ensemble, leader))
                ensemble[leader].kill9()
                ensemble.wait_for_leader()
                ensemble.wait_until_serving()
            if round_number == 1:
                ensemble.start(leader)
        client.close()
        assert_all_equal(ensemble)
        for server_id in ensemble.ids:
            with SessionClient.open(ensemble[server_id].port, SESSION_MS) as look:
                assert not any(name.startswith("e-") for name in top_names(look))
            with pytest.raises(Refused):
                client.attach(ensemble[server_id].port)


@led_by_each()
def test_the_connection_that_a_session_left_can_write_no_more(kind: Kind, mix: Mix, leader: int) -> None:
    """Its client may have a write on its way; that one must not happen after the session has moved."""
    with start_ensemble(kinds_of(mix, kind), SETTINGS, leader=leader) as ensemble:
        for old, new in ((1, 2), (2, 3), (3, 1)):
            left = SessionClient.open(ensemble[old].port, SESSION_MS)
            with SessionClient(ensemble[new].port, SESSION_MS, left.id, left.password) as moved:
                moved.attach()
                moved.call(wire.sync("/"))
                with suppress(Lost):
                    assert left.call(wire.create(f"/too-late-{old}", b"")).err == SESSION_MOVED
                assert f"too-late-{old}" not in top_names(moved)
                assert moved.call(wire.create(f"/in-time-{new}", b"")).err == 0
                moved.close()
        assert_all_equal(ensemble)


@led_by_each()
def test_sessions_live_as_long_as_they_are_heard_at_any_member(kind: Kind, mix: Mix, leader: int) -> None:
    """The leader ends those that fall silent, and only those, wherever their clients are."""
    with start_ensemble(kinds_of(mix, kind), SETTINGS, leader=leader) as ensemble, ExitStack() as running:
        kept = [running.enter_context(kazoo(ensemble[n].host_port, seconds=2.0)) for n in ensemble.ids]
        for client in kept:
            client.create("/kept-", b"", ephemeral=True, sequence=True)
        for server_id in ensemble.ids:
            with SessionClient.open(ensemble[server_id].port, GUEST_MS) as guest:
                assert guest.call(wire.create(f"/guest-{server_id}", b"", flags=wire.EPHEMERAL)).err == 0
        look = running.enter_context(SessionClient.open(ensemble[1].port, SESSION_MS))
        wait_until(
            lambda: not any(name.startswith("guest-") for name in top_names(look)),
            lambda: ensemble.failure("lets sessions live for ever"),
            GONE_SECONDS_MAX,
        )
        time.sleep(3 * 2.0)  # a session that is heard outlives its timeout several times
        assert sum(name.startswith("kept-") for name in top_names(look)) == 3
        assert_all_equal(ensemble)


# -- coming back


@pytest.mark.long
@of_each_kind
@pytest.mark.parametrize(
    ("situation", "expected"), SITUATIONS.items(), ids=lambda each: getattr(each, "__name__", each)
)
def test_a_follower_is_brought_up_to_date(
    kind: Kind, pair: tuple[str, str], situation: Situation, expected: SyncMode
) -> None:
    """In each of the three ways; then from its own disk again; then it leads with what it has got."""
    kinds = kinds_of((pair[0], pair[0], pair[1]), kind)
    learner = 3
    with start_ensemble(kinds, SETTINGS, leader=3 if situation in BEGUN_AS_LEADER else 2) as ensemble:
        come_back(ensemble, learner, situation, expected)


@pytest.mark.long
@of_each_kind
def test_an_observer(kind: Kind, pair: tuple[str, str]) -> None:
    """Follows a leader of the other kind: from nothing, after missing a little, and on to the next leader."""
    kinds = kinds_of((pair[0], pair[0], pair[0], pair[1]), kind)
    observer = 4
    with start_ensemble(kinds, SETTINGS, observers=[observer]) as ensemble:
        assert ensemble[observer].mode == "observer"
        client = SessionClient.open(ensemble[observer].port, SESSION_MS)
        assert client.call(wire.create("/mine", b"", flags=wire.EPHEMERAL)).err == 0
        for situation in ("miss_some", "lose_the_disk"):
            do, expected = next((do, mode) for do, mode in SITUATIONS.items() if do.__name__ == situation)
            do(ensemble, observer)
            leader = ensemble.wait_for_leader()
            lengths = len(ensemble[leader].log_text), len(ensemble[observer].log_text)
            ensemble.start(observer)
            assert told_mode(ensemble[leader], ensemble[observer], observer, lengths) == expected
            assert_all_equal(ensemble)
        leader = ensemble.wait_for_leader()
        ensemble[leader].kill9()
        ensemble.wait_for_leader()
        ensemble.wait_until_serving()
        client.attach()
        assert ephemerals_of(client) == {"/mine"}
        assert client.call(wire.set_data("/mine", b"through the observer")).err == 0
        ensemble.start(leader)
        assert_all_equal(ensemble)
        client.close()


# -- trouble


@pytest.mark.long
@pytest.mark.parametrize("mix", [TWO_AND_ONE, ONE_AND_TWO], ids="-".join)
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
def test_under_load(kind: Kind, trouble: Trouble, mix: Mix) -> None:
    """Nothing acknowledged is lost, time never goes back, all members end up the same."""
    with start_ensemble(kinds_of(mix, kind), TROUBLE_SETTINGS) as ensemble, under_load(ensemble):
        for _ in range(3):
            trouble(ensemble)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_all_sorts_of_trouble(kind: Kind, seed: int) -> None:
    """In five servers, two or three of them Apache's, and in random order."""
    rng = random.Random(seed)
    names = ["apache", "ours", "apache", "ours", rng.choice(("apache", "ours"))]
    rng.shuffle(names)
    with start_ensemble(kinds_of(names, kind), TROUBLE_SETTINGS) as ensemble, under_load(ensemble, seed):
        for trouble in rng.choices(TROUBLES, k=6):
            trouble(ensemble)
            time.sleep(rng.choice((0, 0, 0.3, 1.0)))


# -- reconfiguration


@led_by_each()
def test_a_mixed_ensemble_is_reconfigured(kind: Kind, mix: Mix, leader: int) -> None:
    """A member of either kind joins, votes, becomes an observer; the leader is removed; all agree always."""
    with prepare_ensemble(kinds_of(mix, kind), RECONFIG_SETTINGS) as ensemble:
        ensemble.begin(leader)
        with kazoo(ensemble.hosts) as client:
            client.add_auth("digest", SUPER.decode())
            for name in ("apache", "ours"):
                joiner = ensemble.add(kinds_of([name], kind)[0])
                ensemble.spawn(joiner)
                reconfigure(client, joining=f"server.{joiner}={ensemble.places[joiner].line}")
                ensemble.wait_until_serving()
                wait_for_same_config(ensemble, voters={*ensemble.voters})
            line = ensemble.places[4].line.replace("participant", "observer")
            reconfigure(client, joining=f"server.4={line}")
            wait_for_same_config(ensemble, voters={1, 2, 3, 5})
            wait_until(lambda: ensemble[4].mode == "observer", lambda: ensemble.failure("has none"), 15)

            leader = ensemble.wait_for_leader()
            reconfigure(client, leaving=str(leader))
            wait_until(
                lambda: ensemble.leader() not in (None, leader), lambda: ensemble.failure("keeps it"), 15
            )
            ensemble[leader].stop()
            wait_for_same_config(ensemble, voters={1, 2, 3, 5} - {leader})
            client.create("/after", b"")
        assert_all_equal(ensemble)
        remaining = ensemble.running
        ensemble.kill9()
        ensemble.start(*remaining)
        wait_for_same_config(ensemble, voters={1, 2, 3, 5} - {leader})
        assert_all_equal(ensemble)


def reconfigure(client: KazooClient, joining: str = "", leaving: str = "") -> None:
    """A joiner is only taken in once it follows, and connections are lost when members change."""
    client.retry(client.reconfig, joining=joining or None, leaving=leaving or None, new_members=None)


def wait_for_same_config(ensemble: Ensemble, *, voters: set[int]) -> None:
    wait_until(
        lambda: all(voters_told_by(ensemble, server_id) == voters for server_id in ensemble.running),
        lambda: ensemble.failure(
            f"should have the voters {voters}: {[voters_told_by(ensemble, n) for n in ensemble.running]}"
        ),
        GONE_SECONDS_MAX,
    )


def voters_told_by(ensemble: Ensemble, server_id: int) -> set[int]:
    try:
        with SessionClient.open(ensemble[server_id].port, SESSION_MS) as client:
            text = Reader(client.call(wire.get_data("/zookeeper/config")).body).read_buffer() or b""
    except (Lost, Refused, TimeoutError):
        return set()
    members = (line.split("=", 1) for line in text.decode().splitlines() if line.startswith("server."))
    return {int(key.removeprefix("server.")) for key, value in members if ":participant" in value}


# -- small things


@contextmanager
def as_super(port: int) -> Iterator[SessionClient]:
    with SessionClient.open(port, SESSION_MS) as client:
        authenticate(client)
        yield client


@contextmanager
def kazoo(hosts: str, seconds: float = 10.0) -> Iterator[KazooClient]:
    client = KazooClient(hosts=hosts, timeout=seconds, command_retry={"max_tries": -1, "max_delay": 1})
    client.start(timeout=15)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def move(client: SessionClient, ensemble: Ensemble, server_id: int) -> None:
    """To a server that knows all that the client has seen: one that does not hangs up."""
    ensemble.wait_until_all_at(client.last_zxid)
    client.attach(ensemble[server_id].port)


def refuses_a_wrong_password(client: SessionClient, port: int) -> None:
    stranger = SessionClient(port, SESSION_MS, client.id, client.password[::-1])
    with pytest.raises(Refused):
        stranger.attach()


def ephemerals_of(client: SessionClient) -> set[str]:
    return set(wire.read_names(Reader(client.call(wire.get_ephemerals("/")).body)))


def top_names(client: SessionClient) -> set[str]:
    client.call(wire.sync("/"))
    return set(wire.read_names(Reader(client.call(wire.get_children("/")).body)))


def other_than(ensemble: Ensemble, server_id: int) -> int:
    return ensemble.others(server_id)[0]
