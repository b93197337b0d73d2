"""What each role of a server does with its clients, by example."""

from struct import pack, unpack_from

import pytest

from jute.client_records import Acl, CreateRequest, GetDataRequest, Id, SetDataRequest
from jute.errors import EphemeralOnLocalSession, MarshallingError, NotReadOnly, SessionExpired, SessionMoved
from jute.opcodes import CreateMode, OpCode
from jute.record import encode
from server import slices
from server.client_protocol import OPENING
from server.client_sessions import first_session_id
from server.not_serving import NotServingPipeline
from server.standing import FOLLOWER, LEADER, READ_ONLY
from server.txns import CLOSE_SESSION, CONTAINER_OWNER, CREATE_SESSION, ERROR, decode_txn
from tests.server.one_server import START_MS, TICK_MS, Client
from tests.server.toy_ensemble import ToyEnsemble, ToyServer, deliver, path_body

OPEN = (Acl(31, Id("world", "anyone")),)
MULTI_END = pack(">i?i", -1, True, -1)


def create(path: str, flags: int = 0) -> CreateRequest:
    return CreateRequest(path, b"", OPEN, flags)


def set_data(path: str, data: bytes = b"x") -> bytes:
    return encode(SetDataRequest(path, data, -1))


def ephemeral_in_multi(path: str) -> bytes:
    operation = pack(">i?i", OpCode.CREATE, False, -1) + encode(create(path, CreateMode.EPHEMERAL))
    return operation + MULTI_END


def error_of(client: Client) -> int:
    """Of the only reply there is."""
    (frame,) = client.frames()
    err: int = unpack_from(">i", frame, 12)[0]
    return err


# -- digests


def test_a_learner_counts_transactions_that_do_not_lead_to_the_leaders_tree() -> None:
    ensemble = ToyEnsemble()
    wrong, right = ensemble.learners
    wrong.tree.digest ^= 1
    client = ensemble.leader.connect()
    before = wrong.state.stats.digest_mismatches
    client.ask(OpCode.CREATE, create("/a"))
    assert wrong.state.stats.digest_mismatches == before + 1
    assert right.state.stats.digest_mismatches == 0


# -- sessions


def test_ids_tell_which_server_gave_them_out() -> None:
    """The top byte of a session's id is the server's."""
    ensemble = ToyEnsemble()
    for server in ensemble.servers:
        client = server.connect()
        assert client.session_id >> 56 == server.server_id
        assert client.session_id == first_session_id(server.server_id, START_MS)
    assert len(ensemble.leader.tree.session_timeouts_ms) == 3


def test_a_session_moves_and_takes_its_writes_along() -> None:
    """A write that its old server still forwards is refused, and that connection closed without a word."""
    ensemble = ToyEnsemble()
    old, new = ensemble.learners
    client = old.connect()
    client.ask(OpCode.CREATE, create("/a"))
    moved = new.connect(session_of=client)
    assert moved.session_id == client.session_id
    client.send(5, OpCode.SET_DATA, set_data("/a", b"late"))
    ensemble.settle()
    assert client.is_closed
    assert not client.receive()
    assert decode_txn(ensemble.payloads[-1]).args == (SessionMoved.code,)
    assert moved.ask(OpCode.SET_DATA, set_data("/a", b"new"))[1] == 0


def test_reads_on_a_connection_that_was_left_are_still_answered() -> None:
    """Only the leader knows that the session has moved."""
    ensemble = ToyEnsemble()
    client = ensemble.learners[0].connect()
    ensemble.leader.connect(session_of=client)
    assert client.ask(OpCode.GET_DATA, GetDataRequest("/", False))[1] == 0


def test_a_session_that_leaves_the_leader_leaves_no_connection_there() -> None:
    """And the leader's own client may come back."""
    ensemble = ToyEnsemble()
    client = ensemble.leader.connect()
    moved = ensemble.learners[0].connect(session_of=client)
    assert client.is_closed
    back = ensemble.leader.connect(session_of=moved)
    assert back.ask(OpCode.CREATE, create("/a"))[1] == 0
    moved.send(9, OpCode.CREATE, encode(create("/b")))
    ensemble.settle()
    assert moved.is_closed


def test_a_session_that_leaves_a_learner_for_its_observer_leaves_no_connection_there() -> None:
    """What its client said last may still be on its way: it must not be done after what it says there."""
    ensemble = ToyEnsemble()
    learner = ensemble.learners[0]
    client, other = learner.connect(), learner.connect()
    client.send(5, OpCode.CREATE, encode(create("/a")))
    learner.learning.session_left(client.session_id)
    learner.learning.session_left(0x99)
    ensemble.settle()
    assert client.is_closed
    assert not other.is_closed
    assert b"/a" in learner.tree.bodies


def test_whoever_has_moved_may_close_the_session_from_its_old_server() -> None:
    """As in the original, closing asks for no owner."""
    ensemble = ToyEnsemble()
    client = ensemble.learners[0].connect()
    moved = ensemble.learners[1].connect(session_of=client)
    client.send(5, OpCode.CLOSE_SESSION)
    ensemble.settle()
    assert error_of(client) == 0
    assert moved.is_closed
    assert not ensemble.leader.tree.session_timeouts_ms


def test_an_unknown_session_is_refused_by_all() -> None:
    """With zeros, after the leader was asked."""
    ensemble = ToyEnsemble()
    for server in ensemble.servers:
        client = server.connect()
        client.ask(OpCode.CLOSE_SESSION)
        again = server.connect(session_of=client)
        assert again.session_id == 0
        assert again.is_closed


def test_a_client_waits_until_the_leader_has_said_that_its_session_lives() -> None:
    """What it sends meanwhile is served afterwards."""
    ensemble = ToyEnsemble()
    learner = ensemble.learners[0]
    client = learner.connect()
    client.connection.lost()
    again = learner.client()
    learner.greet(again, session_of=client)
    again.send(1, OpCode.GET_DATA, encode(GetDataRequest("/", False)))
    assert again.connection.state == OPENING
    assert not again.receive()
    ensemble.settle()
    handshake, reply = again.frames()
    assert unpack_from(">q", handshake, 8)[0] == client.session_id
    assert unpack_from(">iqi", reply)[::2] == (1, 0)


def test_a_client_that_asks_twice_is_answered_on_its_last_connection() -> None:
    """The one before is closed; two answers of the leader find whom they are for."""
    ensemble = ToyEnsemble()
    learner = ensemble.learners[0]
    client = learner.connect()
    first, second = learner.client(), learner.client()
    learner.greet(first, session_of=client)
    learner.greet(second, session_of=client)
    assert client.is_closed
    assert first.is_closed
    ensemble.settle()
    assert not first.receive()
    second.read_handshake()
    assert second.session_id == client.session_id
    assert second.ask(OpCode.CREATE, create("/a"))[1] == 0


def test_an_answer_for_a_client_that_went_away_meanwhile_is_for_nobody() -> None:
    """Not even for its next connection, which asks for itself."""
    ensemble = ToyEnsemble()
    learner = ensemble.learners[0]
    client = learner.connect()
    gone = learner.client()
    learner.greet(gone, session_of=client)
    gone.connection.lost()
    assert learner.connect(session_of=client).session_id == client.session_id
    assert not learner.learning._revalidating


def test_a_session_heard_on_a_learner_lives_on_the_leader() -> None:
    """Learners tell whom they heard; nobody else expires anything."""
    ensemble = ToyEnsemble()
    heard, silent = (learner.connect(timeout_ms=4000) for learner in ensemble.learners)
    for _ in range(5):
        ensemble.pass_time(TICK_MS)
        heard.send(-2, OpCode.PING)
        ensemble.touch()
        ensemble.settle()
    assert not heard.is_closed
    assert silent.is_closed
    assert list(ensemble.leader.tree.session_timeouts_ms) == [heard.session_id]


def test_a_learner_tells_of_whoever_was_heard_and_left() -> None:
    """Once, with the timeout."""
    ensemble = ToyEnsemble()
    learner = ensemble.learners[0]
    client = learner.connect()
    learner.learning.begin_batch(START_MS + 10, 0)
    learner.learning.touched()
    learner.learning.begin_batch(START_MS + 20, 0)
    assert learner.learning.touched() == []
    client.send(-2, OpCode.PING)
    client.connection.lost()
    learner.learning.begin_batch(START_MS + 30, 0)
    assert learner.learning.touched() == [(client.session_id, 10_000)]
    assert learner.learning.touched() == []


def test_a_client_that_has_seen_more_than_a_learner_must_go_elsewhere() -> None:
    """It would be shown the past."""
    ensemble = ToyEnsemble()
    writer = ensemble.leader.connect()
    writer.send(1, OpCode.CREATE, encode(create("/a")))
    ensemble.commit(1)
    late = ensemble.learners[0].client()
    late.send_raw(pack(">iqiq", 0, ensemble.leader.tree.last_zxid, 10_000, 0) + pack(">i16x?", 16, False))
    assert late.is_closed


# -- what learners forward


def last_txn(ensemble: ToyEnsemble) -> tuple[int, int, int, object]:
    txn = decode_txn(ensemble.payloads[-1])
    return txn.zxid, txn.cxid, txn.type, txn.args


def test_every_forwarded_request_takes_a_zxid_of_its_own() -> None:
    """Also one that cannot be read, or that nobody should have forwarded."""
    ensemble = ToyEnsemble()
    learner = ensemble.learners[0]
    client = learner.connect()
    zxid = ensemble.leading.preparer.zxid
    ensemble.leading.forwarded(learner, client.session_id, 7, OpCode.CREATE, b"\x00\x00", ())
    assert last_txn(ensemble) == (zxid + 1, 7, ERROR, (MarshallingError.code,))
    ensemble.leading.forwarded(learner, client.session_id, 8, OpCode.CHECK, b"", ())
    assert last_txn(ensemble)[:3] == (zxid + 2, 8, ERROR)
    ensemble.leading.forwarded(learner, 99, 9, OpCode.SET_DATA, set_data("/"), ())
    assert last_txn(ensemble) == (zxid + 3, 9, ERROR, (SessionExpired.code,))
    ensemble.leading.forwarded(learner, 99, 10, CREATE_SESSION, b"", ())
    assert last_txn(ensemble) == (zxid + 4, 10, ERROR, (MarshallingError.code,))
    ensemble.settle()


def test_a_session_created_again_through_a_learner_lives_no_longer_than_others() -> None:
    """Within the bounds of session timeouts: after a restart it would have lived for 25 days."""
    ensemble = ToyEnsemble()
    learner = ensemble.learners[0]
    client = learner.connect()
    for asked_ms, given_ms in ((2**31 - 1, 40_000), (1, 4_000), (5_000, 5_000)):
        client.send(1, CREATE_SESSION, pack(">i", asked_ms))
        ensemble.settle()
        for server in ensemble.servers:
            assert server.tree.session_timeouts_ms[client.session_id] == given_ms


@pytest.mark.parametrize("session", [0, CONTAINER_OWNER])
def test_what_no_session_owns_does_not_end_with_one(session: int) -> None:
    """No server gives out these ids: they mark nodes that are nobody's, or containers."""
    ensemble = ToyEnsemble()
    learner = ensemble.learners[0]
    ensemble.leading.forwarded(learner, session, 1, CREATE_SESSION, pack(">i", 10_000), ())
    for op, path in ((OpCode.CREATE, "/e"), (OpCode.CREATE_CONTAINER, "/c")):
        body = encode(create(path, CreateMode.EPHEMERAL if op == OpCode.CREATE else CreateMode.CONTAINER))
        ensemble.leading.forwarded(learner, session, 2, op, body, ())
    ensemble.leading.forwarded(learner, session, 3, CLOSE_SESSION, b"", ())
    assert last_txn(ensemble)[2:] == (CLOSE_SESSION, ([],))
    ensemble.settle()
    assert all({b"/", b"/c"} <= server.tree.bodies.keys() for server in ensemble.servers)


def test_what_cannot_be_read_is_answered_by_the_learner_itself() -> None:
    """In its turn, and the leader hears nothing of it."""
    ensemble = ToyEnsemble()
    client = ensemble.learners[0].connect()
    client.send(1, OpCode.CREATE, encode(create("/a")))
    client.send(2, OpCode.CREATE, b"\x00\x00")
    assert not client.receive()
    assert len(ensemble.learners[0].up) == 1
    ensemble.settle()
    assert [unpack_from(">iqi", frame)[::2] for frame in client.frames()] == [
        (1, 0),
        (2, MarshallingError.code),
    ]


def test_a_sync_waits_for_what_was_proposed_before_it() -> None:
    """On the leader, and through a learner; later proposals do not hold it up."""
    ensemble = ToyEnsemble()
    writer, own = ensemble.leader.connect(), ensemble.leader.connect()
    learner = ensemble.learners[0]
    theirs = learner.connect()
    writer.send(1, OpCode.CREATE, encode(create("/a")))
    own.send(1, OpCode.SYNC, path_body("/"))
    theirs.send(1, OpCode.SYNC, path_body("/"))
    deliver(learner.up, 1)
    writer.send(2, OpCode.CREATE, encode(create("/b")))
    assert not own.receive()
    ensemble.commit(1)
    assert error_of(own) == 0
    deliver(learner.down, 2)  # two proposals
    assert not theirs.receive()
    deliver(learner.down, 2)  # the commit, then the sync
    assert error_of(theirs) == 0
    assert b"/a" in learner.tree.bodies
    assert ensemble.uncommitted == 1


def test_a_sync_with_nothing_under_way_is_answered_at_once() -> None:
    """There is nothing to wait for."""
    client = ToyEnsemble().leader.connect()
    client.send(1, OpCode.SYNC, path_body("/"))
    assert error_of(client) == 0


@pytest.mark.parametrize("index", [0, 1])
def test_who_only_syncs_is_not_read_from_for_ever(index: int) -> None:
    """Each sync that waits is held by this server, and on a learner by the leader too."""
    ensemble = ToyEnsemble(1)
    server = ensemble.servers[index]
    client, other = server.connect(), ensemble.leader.connect()
    limits = server.state.limits
    other.send(1, OpCode.SET_DATA, set_data("/"))  # on its way: whoever syncs now waits for it
    syncs = pack(">i", 14) + pack(">ii", 7, OpCode.SYNC) + path_body("/a")
    client.connection.received(syncs * 2 * limits.outstanding_max)
    assert client.connection.is_paused
    assert limits.outstanding_max < server.pipeline.outstanding <= limits.outstanding_max + 2

    answered = 0
    for _ in range(4):
        ensemble.settle()
        answered += len(client.frames())
    assert answered == 2 * limits.outstanding_max
    assert server.pipeline.outstanding == server.pipeline.outstanding_bytes == 0


def test_what_learners_forward_is_proposed_in_slices_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left counts for the learner that it comes from, until it is proposed."""
    ensemble = ToyEnsemble(1)
    client = ensemble.learners[0].connect()
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 10)
    for xid in range(1, 21):
        client.send(xid, OpCode.SET_DATA, set_data("/"))
    client.send(21, OpCode.SYNC, path_body("/"))
    learner, leading = ensemble.learners[0], ensemble.leading
    leading.begin_batch(leading.now_ms, leading.wall_ms)
    deliver(learner.up, len(learner.up))
    assert 0 < ensemble.uncommitted < 20
    assert leading.deferred == 20 - ensemble.uncommitted

    ensemble.settle()
    assert leading.deferred == 0
    assert [unpack_from(">i", frame)[0] for frame in client.frames()] == list(range(1, 22))


def test_a_learners_long_transactions_leave_others_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the leader's own clients and of other learners that wait for the first of them."""
    ensemble = ToyEnsemble(2)
    dear, other = (learner.connect() for learner in ensemble.learners)
    own = ensemble.leader.connect()
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 10)
    monkeypatch.setattr("server.ordering.LONG_MULTI_BYTES", 0)
    sets = b"".join(pack(">i?i", OpCode.SET_DATA, False, -1) + set_data("/") for _ in range(20))
    for xid in range(1, 4):
        dear.send(xid, OpCode.MULTI, sets + pack(">i?i", -1, True, -1))
    other.send(1, OpCode.SET_DATA, set_data("/"))
    leading, zxid = ensemble.leading, ensemble.leading.preparer.zxid + 1
    leading.begin_batch(leading.now_ms, leading.wall_ms)
    for learner in ensemble.learners:
        deliver(learner.up, len(learner.up))
    own.send(1, OpCode.SET_DATA, set_data("/"))
    ensemble.settle()
    others = {unpack_from(">iq", frame)[1] for client in (own, other) for frame in client.frames()}
    assert others == {zxid + 1, zxid + 2}
    assert [unpack_from(">iq", frame) for frame in dear.frames()] == [(1, zxid), (2, zxid + 3), (3, zxid + 4)]


def test_an_epoch_ends_before_its_counter_does() -> None:
    """The last zxid but one of the counter is the last; nothing is proposed behind it."""
    ensemble = ToyEnsemble()
    own, theirs = ensemble.leader.connect(), ensemble.learners[0].connect()
    ensemble.leading.preparer.zxid = 0x1FFFFFFFD
    own.send(1, OpCode.SET_DATA, set_data("/"))
    assert ensemble.leading.preparer.zxid == 0x1FFFFFFFE
    proposed = len(ensemble.payloads)
    own.send(2, OpCode.SET_DATA, set_data("/"))
    theirs.send(2, OpCode.SET_DATA, set_data("/"))
    deliver(ensemble.learners[0].up, 1)
    assert len(ensemble.payloads) == proposed
    assert own.is_closed


def test_nodes_of_a_session_that_nobody_knows_go_everywhere() -> None:
    """A new leader has them deleted by a transaction."""
    ensemble = ToyEnsemble()
    client = ensemble.learners[0].connect()
    client.ask(OpCode.CREATE, create("/e", CreateMode.EPHEMERAL))
    for server in ensemble.servers:
        del server.tree.session_timeouts_ms[client.session_id]
    ensemble.leading.close_ownerless()
    assert last_txn(ensemble)[2:] == (CLOSE_SESSION, ([b"/e"],))
    ensemble.settle()
    assert all(b"/e" not in server.tree.bodies for server in ensemble.servers)


# -- local sessions


def local(*, upgrades: bool = False) -> ToyEnsemble:
    return ToyEnsemble(1, local_sessions=True, upgrades_sessions=upgrades)


def test_a_local_session_costs_no_transaction() -> None:
    """Neither its beginning nor its end; its writes are done as anybody's."""
    ensemble = local()
    for number, server in enumerate(ensemble.servers):
        ensemble.payloads.clear()
        client = server.connect()
        assert not ensemble.payloads
        assert client.ask(OpCode.CREATE, create(f"/{number}"))[1] == 0
        client.send(2, OpCode.SET_DATA, set_data(f"/{number}"))
        client.send(3, OpCode.CLOSE_SESSION)
        assert not client.receive()
        ensemble.settle()
        replies = [unpack_from(">iqi", frame)[::2] for frame in client.frames()]
        assert replies == [(2, 0), (3, 0)]
        assert client.is_closed
        assert not server.pipeline.local.by_id
        assert len(ensemble.payloads) == 2


def test_a_local_session_is_renewed_where_it_began_and_nowhere_else() -> None:
    """Nobody else knows it."""
    ensemble = local()
    leader, learner = ensemble.servers
    for here, there in ((leader, learner), (learner, leader)):
        client = here.connect()
        assert here.connect(session_of=client).session_id == client.session_id
        assert there.connect(session_of=client).session_id == 0


def test_a_leader_remembers_nothing_of_sessions_that_are_over() -> None:
    """Whether all servers knew them or only the leader, and however they ended."""
    for ensemble in (ToyEnsemble(1), local()):
        for server in ensemble.servers:
            server.connect().ask(OpCode.CLOSE_SESSION)
            server.connect()
        ensemble.pass_time(10_000 + TICK_MS)
        ensemble.settle()
        assert not ensemble.leading.sessions.by_id
        assert not ensemble.leading.owners


def test_local_sessions_expire_on_their_server() -> None:
    """Silently for all the others."""
    ensemble = local()
    clients = [server.connect(timeout_ms=4000) for server in ensemble.servers]
    ensemble.pass_time(4 * TICK_MS)
    assert all(client.is_closed for client in clients)
    assert not ensemble.payloads


@pytest.mark.parametrize("index", [0, 1])
def test_a_local_session_may_not_own_nodes(index: int) -> None:
    """A multi through a learner is the leader's to refuse, and it knows no such session."""
    ensemble = local()
    client = ensemble.servers[index].connect()
    ephemeral = create("/e", CreateMode.EPHEMERAL)
    assert client.ask(OpCode.CREATE, ephemeral)[1] == EphemeralOnLocalSession.code
    _, err, body = client.ask(OpCode.MULTI, ephemeral_in_multi("/e"))
    refusal = EphemeralOnLocalSession.code if index == 0 else SessionExpired.code
    assert (err, unpack_from(">i", body, 9)[0]) == (0, refusal)
    assert client.ask(OpCode.CREATE, create("/p"))[1] == 0


def test_a_session_that_all_knew_does_not_become_local_by_its_end() -> None:
    """Its server may have been cut off, and what it forwarded before arrives when the client was told."""
    ensemble = local(upgrades=True)
    [learner] = ensemble.learners
    client = learner.connect()
    client.ask(OpCode.CREATE, create("/e", CreateMode.EPHEMERAL))
    client.send(7, OpCode.CREATE, encode(create("/late")))
    ensemble.pass_time(20_000)
    ensemble.commit(1)
    assert not ensemble.leading.sessions.by_id
    ensemble.settle()
    assert decode_txn(ensemble.payloads[-1]).args == (SessionExpired.code,)


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("in_multi", [False, True])
def test_a_local_session_becomes_known_to_all_with_its_first_ephemeral(index: int, in_multi: bool) -> None:
    """And ends with it everywhere."""
    ensemble = local(upgrades=True)
    client = ensemble.servers[index].connect()
    client.ask(OpCode.CREATE, create("/p"))
    assert not ensemble.leader.tree.session_timeouts_ms
    client.send(0, OpCode.SET_DATA, set_data("/p"))
    if in_multi:
        client.send(0, OpCode.MULTI, ephemeral_in_multi("/e"))
    else:
        client.send(0, OpCode.CREATE, encode(create("/e", CreateMode.EPHEMERAL)))
    client.send(0, OpCode.SET_DATA, set_data("/p"))
    ensemble.settle()
    assert [unpack_from(">i", frame, 12)[0] for frame in client.frames()] == [0, 0, 0]
    for server in ensemble.servers:
        assert server.tree.session_timeouts_ms == {client.session_id: 10_000}
        assert server.tree.ephemerals == {client.session_id: {b"/e": None}}
    moved = ensemble.servers[1 - index].connect(session_of=client)
    assert moved.session_id == client.session_id
    moved.ask(OpCode.CLOSE_SESSION)
    assert all(not server.tree.ephemerals for server in ensemble.servers)


# -- no quorum


def greeted(server: ToyServer, flag: bytes = b"\1") -> Client:
    client = server.client()
    server.greet(client, flag=flag)
    return client


def test_a_read_only_server_reads() -> None:
    """Writes and syncs are refused, and the connection stays."""
    server = ToyEnsemble(local_sessions=True).leader
    server.serve_read_only()
    client = greeted(server)
    assert client.frames().popleft()[-1:] == b"\1"
    client.send(1, OpCode.GET_DATA, encode(GetDataRequest("/", False)))
    assert error_of(client) == 0
    for op, body in (
        (OpCode.SET_DATA, set_data("/")),
        (OpCode.MULTI, MULTI_END),
        (OpCode.SYNC, path_body("/")),
        (CREATE_SESSION, pack(">i", 1)),
    ):
        client.send(2, op, body)
        assert error_of(client) == NotReadOnly.code
    assert not client.is_closed
    client.send(3, OpCode.CLOSE_SESSION)
    assert error_of(client) == 0
    assert client.is_closed


def test_a_read_only_server_is_for_those_who_ask_for_it() -> None:
    """Nor does it take sessions that others know, or give out any if none may be local."""
    ensemble = ToyEnsemble()
    server = ensemble.leader
    known = server.connect()
    server.serve_read_only()
    assert greeted(server, b"\0").is_closed
    assert greeted(server, b"").is_closed
    assert greeted(server).is_closed
    again = server.client()
    server.greet(again, session_of=known, flag=b"\1")
    assert again.is_closed
    assert not again.receive()


def test_a_server_between_roles_lets_clients_go() -> None:
    """But answers four-letter words."""
    server = ToyEnsemble().leader
    server.pipeline = NotServingPipeline(server.state, server.sessions)
    client = greeted(server)
    assert client.is_closed
    assert not client.receive()
    server.state.answer_word = lambda connection, word: word.encode()
    asking = server.client()
    asking.connection.received(b"ruok")
    assert asking.receive() == b"ruok"


def test_every_role_has_a_name() -> None:
    """The one that operators know."""
    ensemble = ToyEnsemble()
    assert [server.pipeline.mode for server in ensemble.servers] == [LEADER, FOLLOWER, FOLLOWER]
    ensemble.leader.serve_read_only()
    assert ensemble.leader.pipeline.mode == READ_ONLY
