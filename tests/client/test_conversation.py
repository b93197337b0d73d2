"""The conversation with servers real and made up: answers, events, reconnects, time, and nonsense."""

from collections.abc import Callable
from contextlib import suppress
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client import requests
from client.acls import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE
from client.conversation import Conversation, ServerSilent
from client.errors import (
    AuthFailed,
    BadVersion,
    ConnectionLost,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    NoWatcher,
    ProtocolError,
    ServerError,
    SessionExpired,
)
from client.events import State, WatchedEvent
from client.multi import Check, Create, Delete, GetChildren, GetData, SetData
from client.paths import Chroot, InvalidPath
from client.requests import AnyRequest
from jute.client_records import AuthPacket, ConnectRequest, SetWatches, Stat, WatcherEvent
from jute.framing import FrameBuffer
from jute.opcodes import AddWatchMode, CreateMode, EventType, KeeperState, OpCode, WatcherType
from jute.record import decode, encode
from tests.client.pure_talk import PASSWORD, SESSION_ID, PureTalk, accepted, answer, framed

WHOLE = Chroot()
SYNC_CONNECTED = WatchedEvent(KeeperState.SYNC_CONNECTED)
DISCONNECTED = WatchedEvent(KeeperState.DISCONNECTED)
CLOSED = WatchedEvent(KeeperState.CLOSED)


def create(path: str, data: bytes | None = b"", chroot: Chroot = WHOLE) -> AnyRequest:
    return requests.create(chroot, Create(path, data))


def fired(kind: EventType, path: str, zxid: int) -> WatchedEvent:
    return WatchedEvent(KeeperState.SYNC_CONNECTED, kind, path, zxid)


# --- Requests and their answers, on a real server.


def tell_a_story(talk: PureTalk) -> list[Any]:
    """Every request once, on a server with TTL nodes; what each gave."""
    told: list[Any] = []
    for ask in story():
        try:
            told.append(talk.ask(ask))
        except ServerError as error:
            told.append((type(error), error.code, error.path))
    return told


def story() -> list[AnyRequest]:
    ttl = Create("/ttl", b"", mode=CreateMode.PERSISTENT_WITH_TTL, ttl_ms=5000)
    return [
        create("/a", b"1"),
        create("/a", b"2"),
        create("/a/b", None),
        requests.create(WHOLE, Create("/a/s-", mode=CreateMode.EPHEMERAL_SEQUENTIAL)),
        requests.create(WHOLE, Create("/c", mode=CreateMode.CONTAINER)),
        requests.create(WHOLE, ttl),
        requests.exists(WHOLE, "/a", False),
        requests.exists(WHOLE, "/nowhere", False),
        requests.get_data(WHOLE, "/a", False),
        requests.get_data(WHOLE, "/a/b", False),
        requests.set_data(WHOLE, SetData("/a", b"3", 0)),
        requests.set_data(WHOLE, SetData("/a", b"4", 0)),
        requests.get_children(WHOLE, "/a", False),
        requests.get_acl(WHOLE, "/a"),
        requests.set_acl(WHOLE, "/a", READ_ACL_UNSAFE, -1),
        requests.create(WHOLE, Create("/d", acl=CREATOR_ALL_ACL)),
        requests.sync(WHOLE, "/"),
        requests.get_ephemerals(WHOLE, "/"),
        requests.get_all_children_number(WHOLE, "/"),
        requests.add_watch(WHOLE, "/a", AddWatchMode.PERSISTENT),
        requests.check_watches(WHOLE, "/a", WatcherType.ANY),
        requests.check_watches(WHOLE, "/c", WatcherType.ANY),
        requests.remove_watches(WHOLE, "/a", WatcherType.ANY, is_local=False),
        requests.remove_watches(WHOLE, "/a", WatcherType.ANY, is_local=False),
        requests.reconfig("server.1=x:1:2;3", None, None, -1),
        requests.get_config(False),
        requests.who_am_i(),
        requests.delete(WHOLE, Delete("/a")),
        requests.delete(WHOLE, Delete("/c", 7)),
        requests.delete(WHOLE, Delete("/c")),
        requests.multi(WHOLE, [Create("/m"), Check("/m", 0), SetData("/m", b"x"), Delete("/m", 1)]),
        requests.multi(WHOLE, [Create("/m"), Check("/m", 5), Delete("/m")]),
        requests.multi_read(WHOLE, [GetData("/a/b"), GetChildren("/c"), GetChildren("/a")]),
    ]


def test_every_request_is_answered() -> None:
    told = tell_a_story(PureTalk(ttl_nodes=True))
    names = [outcome[0] for outcome in told if isinstance(outcome, tuple) and isinstance(outcome[0], str)]
    assert names == ["/a", "/a/b", "/a/s-0000000001", "/c", "/ttl"]
    errors = [outcome for outcome in told if isinstance(outcome, tuple) and isinstance(outcome[0], type)]
    assert errors == [
        (NodeExists, -110, "/a"),
        (NoNode, -101, "/nowhere"),
        (BadVersion, -103, "/a"),
        (ServerError, -114, "/d"),
        (NoWatcher, -121, "/c"),
        (NoWatcher, -121, "/a"),
        (ServerError, -123, None),
        (NotEmpty, -111, "/a"),
        (BadVersion, -103, "/c"),
        (MultiFailed, -103, "/m"),
    ]
    assert (told[8][0], told[9][0]) == (b"1", None)
    assert told[17] == ["/a/s-0000000001"]
    assert told[18] == 8
    made, checked, changed, deleted = told[30]
    assert (made[0], checked, deleted) == ("/m", None, None)
    assert isinstance(changed, Stat)
    read, missing, children = told[32]
    assert read[0] is None
    assert missing.code == -101
    assert sorted(children) == ["b", "s-0000000001"]


@settings(max_examples=25)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_the_servers_bytes_may_be_cut_anywhere(cuts: list[int]) -> None:
    """What comes in pieces means what it means as a whole."""
    told = tell_a_story(PureTalk(ttl_nodes=True, cuts=cuts))
    assert repr(told) == repr(tell_a_story(PureTalk(ttl_nodes=True)))


def test_the_servers_bytes_may_come_one_by_one() -> None:
    told = tell_a_story(PureTalk(ttl_nodes=True, cuts=[1]))
    assert repr(told) == repr(tell_a_story(PureTalk(ttl_nodes=True)))


def test_a_path_is_checked_before_it_is_sent() -> None:
    makers: list[Callable[[str], AnyRequest]] = [
        lambda path: create(path),
        lambda path: requests.delete(WHOLE, Delete(path)),
        lambda path: requests.set_data(WHOLE, SetData(path, b"")),
        lambda path: requests.exists(WHOLE, path, False),
        lambda path: requests.get_data(WHOLE, path, False),
        lambda path: requests.get_children(WHOLE, path, False),
        lambda path: requests.get_acl(WHOLE, path),
        lambda path: requests.set_acl(WHOLE, path, OPEN_ACL_UNSAFE, -1),
        lambda path: requests.sync(WHOLE, path),
        lambda path: requests.get_ephemerals(WHOLE, path),
        lambda path: requests.get_all_children_number(WHOLE, path),
        lambda path: requests.add_watch(WHOLE, path, AddWatchMode.PERSISTENT),
        lambda path: requests.remove_watches(WHOLE, path, WatcherType.ANY, is_local=False),
        lambda path: requests.check_watches(WHOLE, path, WatcherType.ANY),
        lambda path: requests.multi(WHOLE, [Check(path)]),
        lambda path: requests.multi_read(WHOLE, [GetData(path)]),
        lambda path: requests.multi_read(WHOLE, [GetChildren(path)]),
    ]
    for make in makers:
        with pytest.raises(InvalidPath):
            make("no/slash")


def test_a_time_to_live_and_its_mode_go_together() -> None:
    with pytest.raises(ValueError, match="PERSISTENT_WITH_TTL needs a time to live"):
        requests.create(WHOLE, Create("/a", mode=CreateMode.PERSISTENT_WITH_TTL))
    with pytest.raises(ValueError, match="a time to live needs a mode that has one"):
        requests.create(WHOLE, Create("/a", ttl_ms=5))


def test_a_chroot_is_added_and_taken_off() -> None:
    talk = PureTalk()
    talk.ask(create("/app"))
    inside = PureTalk(server=talk.server, chroot="/app")
    chroot = inside.conversation.chroot
    path, _ = inside.ask(requests.create(chroot, Create("/x", mode=CreateMode.EPHEMERAL)))
    assert path == "/x"
    assert inside.ask(requests.get_ephemerals(chroot, "/")) == ["/x"]
    children, _ = inside.ask(requests.get_children(chroot, "/", True))
    assert children == ["x"]
    inside.take_events()
    assert inside.ask(requests.multi(chroot, [Create("/y")]))[0][0] == "/y"
    assert inside.take_events() == [fired(EventType.NODE_CHILDREN_CHANGED, "/", 5)]
    assert talk.ask(requests.exists(WHOLE, "/app/y", False))
    inside.ask(requests.get_config(True))


# --- Watches.


def test_events_come_before_the_answer_that_shows_their_change() -> None:
    talk = PureTalk()
    with pytest.raises(NoNode):
        talk.ask(requests.exists(WHOLE, "/a", True))
    talk.take_events()
    made = create("/a")
    talk.ask(made)
    assert talk.outputs == [fired(EventType.NODE_CREATED, "/a", 2), made]


def test_only_watches_that_were_asked_for_fire() -> None:
    talk = PureTalk()
    talk.ask(create("/a"))
    talk.ask(requests.get_data(WHOLE, "/a", False))
    talk.ask(requests.get_children(WHOLE, "/a", True))
    with pytest.raises(NoNode):
        talk.ask(requests.get_data(WHOLE, "/nowhere", True))
    talk.take_events()
    talk.ask(requests.set_data(WHOLE, SetData("/a", b"")))
    assert talk.take_events() == []
    talk.ask(create("/a/b"))
    assert talk.take_events() == [fired(EventType.NODE_CHILDREN_CHANGED, "/a", 4)]
    assert not talk.conversation.watches.data


def test_watches_survive_a_lost_connection() -> None:
    """What happened meanwhile is told at once, the others fire later, and each only once."""
    talk = PureTalk()
    other = PureTalk(server=talk.server)
    for path in ("/a", "/b", "/p"):
        talk.ask(create(path))
    talk.ask(requests.get_data(WHOLE, "/a", True))
    talk.ask(requests.get_data(WHOLE, "/b", True))
    talk.ask(requests.get_children(WHOLE, "/b", True))
    with pytest.raises(NoNode):
        talk.ask(requests.exists(WHOLE, "/later", True))
    talk.ask(requests.add_watch(WHOLE, "/p", AddWatchMode.PERSISTENT_RECURSIVE))
    talk.ask(requests.add_watch(WHOLE, "/q", AddWatchMode.PERSISTENT))
    talk.take_events()

    talk.lose_connection()
    other.ask(requests.set_data(WHOLE, SetData("/a", b"changed")))
    talk.connect()
    assert talk.take_events() == [DISCONNECTED, SYNC_CONNECTED, fired(EventType.NODE_DATA_CHANGED, "/a", -1)]

    for change in (create("/later"), create("/b/c"), create("/p/x"), create("/q"), create("/later2")):
        other.ask(change)
    other.ask(requests.set_data(WHOLE, SetData("/b", b"")))
    talk.exchange()
    assert [(event.type, event.path) for event in talk.take_events()] == [
        (EventType.NODE_CREATED, "/later"),
        (EventType.NODE_CHILDREN_CHANGED, "/b"),
        (EventType.NODE_CREATED, "/p/x"),
        (EventType.NODE_CREATED, "/q"),
        (EventType.NODE_DATA_CHANGED, "/b"),
    ]


def test_removed_watches_are_reported_and_silent() -> None:
    talk = PureTalk()
    talk.ask(create("/a"))
    talk.ask(requests.get_data(WHOLE, "/a", True))
    talk.take_events()
    talk.ask(requests.remove_watches(WHOLE, "/a", WatcherType.DATA, is_local=False))
    assert talk.take_events() == [fired(EventType.DATA_WATCH_REMOVED, "/a", -1)]
    talk.ask(requests.set_data(WHOLE, SetData("/a", b"")))
    assert talk.take_events() == []


def test_watches_can_be_removed_here_alone() -> None:
    """Without a server, `local` removes what is held here; without `local` nothing happens."""
    talk = PureTalk()
    talk.ask(create("/a"))
    talk.ask(requests.get_data(WHOLE, "/a", True))
    talk.lose_connection()
    talk.take_events()
    asked = requests.remove_watches(WHOLE, "/a", WatcherType.DATA, is_local=False)
    local = requests.remove_watches(WHOLE, "/a", WatcherType.DATA, is_local=True)
    for request in (asked, local):
        talk.conversation.submit(request)
    talk.conversation.fail_queued()
    assert talk.conversation.take_outputs() == [
        asked,
        WatchedEvent(KeeperState.DISCONNECTED, EventType.DATA_WATCH_REMOVED, "/a"),
        local,
    ]
    with pytest.raises(ConnectionLost):
        asked.result()
    local.result()


# --- Sessions, with servers that say what the test wants.


def started(**options: bool) -> Conversation:
    """A conversation that has sent its handshake."""
    conversation = Conversation(
        WHOLE, timeout_ms=10_000, hosts=2, is_read_only_fine=options.get("read_only", False)
    )
    conversation.connection_made(0)
    conversation.bytes_to_send(0)
    return conversation


def opened() -> Conversation:
    """A conversation with a session."""
    conversation = started()
    conversation.received(accepted(), 0)
    conversation.take_outputs()
    return conversation


def frames(data: bytes) -> list[bytes]:
    buffer = FrameBuffer(1_000_000)
    buffer.feed(data)
    found = []
    while (payload := buffer.next_frame()) is not None:
        found.append(payload)
    return found


def operations(data: bytes) -> list[tuple[int, int]]:
    """xid and opcode of each request."""
    return [(int.from_bytes(f[:4], signed=True), int.from_bytes(f[4:8], signed=True)) for f in frames(data)]


def test_the_first_handshake_asks_for_a_new_session() -> None:
    conversation = Conversation(WHOLE, timeout_ms=10_000)
    conversation.connection_made(0)
    (payload,) = frames(conversation.bytes_to_send(0))
    assert payload == encode(ConnectRequest(0, 0, 10_000, 0, bytes(16))) + b"\0"


def test_a_later_handshake_shows_the_session_and_the_last_zxid() -> None:
    conversation = opened()
    conversation.submit(create("/a"))
    conversation.received(answer(1, encode_created("/a"), zxid=77), 0)
    conversation.connection_lost()
    conversation.connection_made(1)
    (payload,) = frames(conversation.bytes_to_send(1))
    assert payload == encode(ConnectRequest(0, 77, 10_000, SESSION_ID, PASSWORD)) + b"\0"


def encode_created(path: str) -> bytes:
    return pack(">i", len(path)) + path.encode() + bytes(68)


def test_nothing_but_the_handshake_is_sent_before_its_answer() -> None:
    conversation = Conversation(WHOLE, timeout_ms=10_000)
    conversation.submit(create("/a"))
    conversation.add_auth("digest", b"u:p")
    conversation.connection_made(0)
    assert len(frames(conversation.bytes_to_send(0))) == 1
    conversation.received(accepted(), 0)
    assert operations(conversation.bytes_to_send(0)) == [(-4, OpCode.AUTH), (1, OpCode.CREATE2)]


def test_credentials_then_watches_then_requests() -> None:
    """Credentials are shown on every connection; a request that waited for its answer is answered once."""
    conversation = opened()
    shown = conversation.add_auth("digest", b"u:p")
    conversation.submit(requests.get_data(WHOLE, "/a", True))
    conversation.received(answer(-4, zxid=0) + answer(1, b"\xff" * 4 + bytes(68), zxid=9), 0)
    assert shown.is_done
    conversation.connection_lost()
    conversation.take_outputs()
    second = conversation.add_auth("digest", b"v:q")
    conversation.submit(create("/b"))
    conversation.connection_made(1)
    conversation.bytes_to_send(1)
    conversation.received(accepted(), 1)
    sent = conversation.bytes_to_send(1)
    assert operations(sent) == [
        (-4, OpCode.AUTH),
        (-4, OpCode.AUTH),
        (-8, OpCode.SET_WATCHES),
        (2, OpCode.CREATE2),
    ]
    credentials = [decode(AuthPacket, payload, 8)[0].auth for payload in frames(sent)[:2]]
    assert credentials == [b"u:p", b"v:q"]
    assert decode(SetWatches, frames(sent)[2], 8)[0] == SetWatches(9, ("/a",), (), ())
    conversation.received(answer(-4, zxid=0) + answer(-4, zxid=0) + answer(-8), 1)
    assert conversation.take_outputs() == [SYNC_CONNECTED, second]


def test_refused_credentials_end_the_session() -> None:
    conversation = opened()
    waiting = create("/a")
    conversation.submit(waiting)
    shown = conversation.add_auth("bogus", b"")
    conversation.received(answer(-4, zxid=0, err=-115), 0)
    assert conversation.state is State.AUTH_FAILED
    assert conversation.take_outputs() == [shown, waiting, WatchedEvent(KeeperState.AUTH_FAILED), CLOSED]
    for request in (shown, waiting, late(conversation), conversation.add_auth("digest", b"")):
        with pytest.raises(AuthFailed):
            request.result()


def late(conversation: Conversation) -> AnyRequest:
    """A request after the end."""
    request = create("/late")
    conversation.submit(request)
    return request


def test_an_expired_session_is_over() -> None:
    conversation = opened()
    conversation.connection_lost()
    waiting = create("/a")
    conversation.submit(waiting)
    conversation.connection_made(1)
    conversation.take_outputs()
    conversation.received(accepted(timeout_ms=0, session_id=0), 1)
    assert conversation.state is State.EXPIRED
    assert conversation.take_outputs() == [waiting, WatchedEvent(KeeperState.EXPIRED), CLOSED]
    for request in (waiting, late(conversation)):
        with pytest.raises(SessionExpired):
            request.result()


def test_what_was_sent_is_lost_with_the_connection_and_never_sent_again() -> None:
    conversation = opened()
    sent = create("/a")
    conversation.submit(sent)
    shown = conversation.add_auth("digest", b"u:p")
    conversation.connection_lost()
    assert conversation.take_outputs() == [sent, shown, DISCONNECTED]
    with pytest.raises(ConnectionLost, match="KeeperErrorCode = ConnectionLoss for /a"):
        sent.result()
    assert conversation.state is State.CONNECTING
    conversation.connection_made(1)
    conversation.bytes_to_send(1)
    conversation.received(accepted(), 1)
    assert operations(conversation.bytes_to_send(1)) == [(-4, OpCode.AUTH)]


def test_who_waits_is_told_when_nobody_can_be_reached() -> None:
    conversation = started()
    waiting = create("/a")
    conversation.submit(waiting)
    conversation.connection_lost()
    assert conversation.take_outputs() == []
    conversation.fail_queued()
    assert conversation.take_outputs() == [waiting]
    with pytest.raises(ConnectionLost):
        waiting.result()


def test_closing_waits_for_the_answer() -> None:
    conversation = opened()
    closing = conversation.close()
    assert operations(conversation.bytes_to_send(0)) == [(1, OpCode.CLOSE_SESSION)]
    behind = create("/behind")
    conversation.submit(behind)
    conversation.received(answer(1), 0)
    assert conversation.state is State.CLOSED
    assert conversation.take_outputs() == [closing, behind, CLOSED]
    with pytest.raises(SessionExpired):
        behind.result()
    assert conversation.close() is None


def test_a_connection_lost_while_closing_ends_the_session() -> None:
    conversation = opened()
    closing = conversation.close()
    conversation.connection_lost()
    assert conversation.state is State.CLOSED
    assert conversation.take_outputs() == [closing, CLOSED]


def test_without_a_connection_a_session_closes_at_once() -> None:
    conversation = started()
    assert conversation.close() is None
    assert conversation.state is State.CLOSED


def test_leaving_says_nothing_to_the_server() -> None:
    conversation = opened()
    conversation.abandon()
    assert conversation.bytes_to_send(0) == b""
    assert conversation.take_outputs() == [CLOSED]


def test_a_read_only_server_will_do_only_if_asked_for() -> None:
    conversation = started(read_only=True)
    conversation.received(accepted(read_only=True), 0)
    assert conversation.state is State.CONNECTED_READ_ONLY
    assert conversation.take_outputs() == [WatchedEvent(KeeperState.CONNECTED_READ_ONLY)]
    conversation.connection_lost()
    conversation.connection_made(1)
    (payload,) = frames(conversation.bytes_to_send(1))
    assert decode(ConnectRequest, payload)[0].session_id == 0, "its session is of no use elsewhere"
    assert payload.endswith(b"\1")
    with pytest.raises(ProtocolError, match="a read-only server accepted a session that may write"):
        started().received(accepted(read_only=True), 0)


def test_an_old_server_leaves_out_the_last_byte() -> None:
    conversation = started()
    conversation.received(framed(accepted()[4:-1]), 0)
    assert conversation.state is State.CONNECTED


# --- Time.


def test_a_ping_is_sent_after_a_third_of_the_sessions_time() -> None:
    conversation = opened()  # with 9 s
    assert conversation.due_s == 3
    conversation.pass_time(2.9)
    assert conversation.bytes_to_send(2.9) == b""
    conversation.pass_time(3)
    assert operations(conversation.bytes_to_send(3)) == [(-2, OpCode.PING)]
    conversation.received(answer(-2), 3)
    assert conversation.due_s == 6
    conversation.submit(create("/a"))
    conversation.bytes_to_send(5)
    assert conversation.due_s == 8, "a request is as good as a ping"


def test_long_sessions_are_pinged_every_ten_seconds() -> None:
    conversation = started()
    conversation.received(accepted(timeout_ms=600_000), 0)
    assert conversation.due_s == 10


def test_a_silent_server_is_given_up_after_two_thirds_of_the_sessions_time() -> None:
    conversation = opened()
    conversation.received(answer(-2)[:10], 4)  # half a frame is no sign of life
    conversation.pass_time(5.9)
    with pytest.raises(ServerSilent, match=r"has not been heard for 6\.0 s"):
        conversation.pass_time(6)


def test_a_server_must_accept_the_session_in_its_share_of_the_time() -> None:
    conversation = started()  # 10 s for 2 hosts
    assert conversation.due_s == 5
    conversation.pass_time(4.9)
    with pytest.raises(ServerSilent):
        conversation.pass_time(5)


def test_without_a_connection_there_is_nothing_to_wait_for() -> None:
    conversation = Conversation(WHOLE, timeout_ms=10_000)
    assert conversation.due_s == float("inf")
    conversation.pass_time(1_000_000)


# --- Nonsense.


def event(kind: int, path: str | None) -> bytes:
    return answer(-1, encode(WatcherEvent(kind, 3, path)))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "frame length 1213486160"),
        (pack(">i", -1), "frame length -1"),
        (framed(b"short"), "ReplyHeader"),
        (answer(7), "xid 7, but nothing was asked"),
        (answer(-4), "credentials that were not shown"),
        (event(9, "/a"), "an event of type 9"),
        (event(1, None), "for the path None"),
        (event(1, "no-slash"), "for the path 'no-slash'"),
        (answer(-1), "WatcherEvent"),
    ],
)
def test_a_server_that_talks_nonsense_is_left(data: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        opened().received(data, 0)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (framed(b""), "ConnectResponse"),
        (framed(pack(">iiqi", 0, 9000, 1, 16)), "a string or buffer"),
        (framed(pack(">iiqi", 0, 9000, 1, -1)), "a session without a password"),
    ],
)
def test_a_handshake_that_is_none_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        started().received(data, 0)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "MultiHeader"),
        (pack(">i?i", -1, True, -1), "the answer to 1 operations has 0 results"),
        (pack(">i?i", 99, False, 0), "a result of type 99"),
        (pack(">i?i", 2, False, 0) * 2 + pack(">i?i", -1, True, -1), "has more results"),
        (pack(">i?ii", -1, False, 0, 0) + pack(">i?i", -1, True, -1), "no operation of it says why"),
    ],
)
def test_the_answer_to_a_multi_must_fit_it(body: bytes, words: str) -> None:
    conversation = opened()
    asked = requests.multi(WHOLE, [Delete("/a")])
    conversation.submit(asked)
    with pytest.raises(ProtocolError, match=words):
        conversation.received(answer(1, body), 0)
    conversation.connection_lost()
    with pytest.raises(ConnectionLost):
        asked.result()


def test_an_answer_out_of_turn_ends_the_connection() -> None:
    conversation = opened()
    first, second = create("/a"), create("/b")
    conversation.submit(first)
    conversation.submit(second)
    with pytest.raises(ProtocolError, match="xid 2; the next one must have 1"):
        conversation.received(answer(2, encode_created("/b")), 0)


def test_a_null_path_where_one_must_be() -> None:
    conversation = opened()
    conversation.submit(create("/a"))
    with pytest.raises(ProtocolError, match="a null string"):
        conversation.received(answer(1, pack(">i", -1) + bytes(68)), 0)


@settings(max_examples=200)
@given(st.data())
def test_whatever_a_server_sends_every_request_gets_one_answer(data: st.DataObject) -> None:
    """Random bytes, or sound answers spoilt at random: understood or refused, and nobody waits for ever."""
    conversation = opened()
    asked: list[AnyRequest] = [
        create("/a"),
        requests.get_children(WHOLE, "/", True),
        requests.multi(WHOLE, [Create("/m"), Delete("/m")]),
        requests.who_am_i(),
    ]
    for request in asked:
        conversation.submit(request)
    sound = answer(1, encode_created("/a")) + answer(2, pack(">ii", 1, 1) + b"x" + bytes(68)) + event(4, "/")
    stream = bytearray(data.draw(st.one_of(st.just(sound), st.binary(max_size=60))))
    for _ in range(data.draw(st.integers(0, 3))):
        if stream:
            stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        conversation.received(bytes(stream), 0)
    if not conversation.state.is_over:
        conversation.connection_lost()
    answered = [output for output in conversation.take_outputs() if not isinstance(output, WatchedEvent)]
    assert sorted(map(id, answered)) == sorted(map(id, asked))
    assert all(request.is_done for request in asked)


def test_requests_are_answered_after_watches_were_set_again() -> None:
    talk = PureTalk()
    talk.ask(requests.exists(Chroot(), "/", True))
    talk.lose_connection()
    talk.connect()
    for _ in range(2):
        assert talk.ask(requests.exists(Chroot(), "/", False)) is not None
