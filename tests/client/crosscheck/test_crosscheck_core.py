"""The pure parts of the cross-check: pairing, order, likeness, and requests in words."""

import pytest

from client.crosscheck.answers import Field, fields_of
from client.crosscheck.command import EXIT_DIFFERENT, EXIT_INCOMPLETE, exit_code
from client.crosscheck.doubts import Doubts
from client.crosscheck.exchanges import Answered, Asked, Exchanges, Told, Unreadable, Welcomed
from client.crosscheck.findings import Findings
from client.crosscheck.likeness import Difference, Likeness
from client.crosscheck.ordering import HOLD_SECONDS, Order
from client.crosscheck.request_text import describe, translate
from jute.client_records import (
    ConnectRequest,
    ConnectResponse,
    CreateRequest,
    CreateResponse,
    DeleteRequest,
    GetDataRequest,
    GetDataResponse,
    MultiHeader,
    ReplyHeader,
    RequestHeader,
    SetDataRequest,
    SetWatches,
    Stat,
    WatcherEvent,
)
from jute.framing import frame
from jute.opcodes import EventType, OpCode
from jute.record import decode, encode

HELLO = ConnectRequest(0, 0, 10_000, 0, bytes(16))
WELCOME = ConnectResponse(0, 10_000, 77, bytes(16))
EVENT = WatcherEvent(3, 3, "/a")


def request(xid: int, op: int, body: bytes = b"") -> bytes:
    return frame(encode(RequestHeader(xid, op)) + body)


def reply(xid: int, zxid: int, err: int = 0, body: bytes = b"") -> bytes:
    return frame(encode(ReplyHeader(xid, zxid, err)) + body)


def greeted() -> Exchanges:
    exchanges = Exchanges()
    exchanges.client_said(frame(encode(HELLO) + b"\0"))
    assert exchanges.server_said(frame(encode(WELCOME) + b"\0")) == [Welcomed(HELLO, WELCOME)]
    return exchanges


def stat(**changed: int) -> Stat:
    values = dict.fromkeys(Stat.__match_args__, 0) | {"czxid": 5, "mzxid": 6, "ctime": 1, "mtime": 2}
    return Stat(**values | changed)


def data_reply(of: Stat, err: int = 0) -> Answered:
    return Answered(Asked(1, OpCode.GET_DATA, b""), 9, err, encode(GetDataResponse(b"x", of)))


# --- Pairing.


def test_replies_find_their_requests_however_the_bytes_are_cut() -> None:
    exchanges = greeted()
    asked = request(1, OpCode.GET_DATA, b"abc") + request(2, OpCode.PING)
    for at in range(len(asked)):
        exchanges.client_said(asked[at : at + 1])
    said = reply(1, 5, body=b"xyz") + reply(-1, 6, body=encode(EVENT)) + reply(2, 6)

    heard = [each for at in range(len(said)) for each in exchanges.server_said(said[at : at + 1])]

    first, second = Asked(1, OpCode.GET_DATA, b"abc"), Asked(2, OpCode.PING, b"")
    assert heard == [Answered(first, 5, 0, b"xyz"), Told(6, EVENT), Answered(second, 6, 0, b"")]


def test_the_answer_to_an_auth_may_overtake() -> None:
    exchanges = greeted()
    exchanges.client_said(request(1, OpCode.SYNC) + request(-4, OpCode.AUTH))
    heard = exchanges.server_said(reply(-4, 0) + reply(1, 5))
    assert [each.asked.op for each in heard if isinstance(each, Answered)] == [OpCode.AUTH, OpCode.SYNC]


def test_a_four_letter_word_is_nothing_to_compare() -> None:
    with pytest.raises(Unreadable, match="ruok"):
        Exchanges().client_said(b"ruok")


def test_an_answer_that_nobody_asked_for_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="xid 8"):
        greeted().server_said(reply(8, 1))


# --- Likeness.


def test_numbers_may_differ_if_they_do_so_consistently() -> None:
    likeness = Likeness()
    assert (
        likeness.compare(fields_of(data_reply(stat())), fields_of(data_reply(stat(czxid=1, mzxid=2)))) == []
    )
    once_more = fields_of(data_reply(stat(czxid=1, mzxid=3)))
    assert likeness.compare(fields_of(data_reply(stat())), once_more) == [Difference("stat.mzxid", 6, 3)]


def test_a_wrong_version_an_owner_and_an_error_are_differences() -> None:
    likeness = Likeness()
    first, second = stat(version=3), stat(version=4, ephemeral_owner=9)
    assert likeness.compare(fields_of(data_reply(first)), fields_of(data_reply(second))) == [
        Difference("stat.version", 3, 4),
        Difference("stat.ephemeral_owner", 0, 9),
    ]
    failed = likeness.compare(fields_of(data_reply(first)), fields_of(data_reply(first, -101)))
    assert failed[0] == Difference("error", 0, -101)


def test_names_are_in_no_order_and_times_only_set_or_not() -> None:
    likeness = Likeness()
    one = {"children": Field("names", ("a", "b")), "ctime": Field("time", 17)}
    other = {"children": Field("names", ("b", "a")), "ctime": Field("time", 99)}
    assert likeness.compare(one, other) == []
    assert likeness.compare(one, other | {"ctime": Field("time", 0)})
    assert likeness.compare(one, other | {"children": Field("names", ("a", "a"))})


def test_the_zxid_of_a_client_that_comes_back_means_the_same_at_the_other_server() -> None:
    likeness = Likeness()
    for first, second in ((10, 3), (20, 4), (30, 7)):
        likeness.learn_write(first, second)
    assert [likeness.second_zxid(zxid) for zxid in (5, 10, 25, 99)] == [0, 3, 4, 7]

    body = encode(SetWatches(25, ("/a",), (), ()))
    translated = translate(OpCode.SET_WATCHES, body, likeness.second_zxid)
    assert decode(SetWatches, translated)[0] == SetWatches(4, ("/a",), (), ())


# --- Order.


def test_the_order_is_that_of_the_first_servers_transactions() -> None:
    order: Order[str] = Order()
    order.add("write 7", zxid=7, is_write=True, now=0.0, size=1)
    order.add("read at 5", zxid=5, is_write=False, now=0.0, size=1)
    order.add("write 5", zxid=5, is_write=True, now=0.1, size=1)
    order.add("event of 7", zxid=7, is_write=False, now=0.1, size=1)

    assert order.due() == 0.1 + HOLD_SECONDS
    taken = [order.take()[1] for _ in range(4)]
    assert taken == ["write 5", "read at 5", "write 7", "event of 7"]
    assert (len(order), order.size, order.due()) == (0, 0, float("inf"))


# --- Words.


def test_requests_are_told_in_words() -> None:
    assert describe(OpCode.GET_DATA, encode(GetDataRequest("/a", True))) == "getData /a watch"
    assert describe(OpCode.SET_DATA, encode(SetDataRequest("/a", b"secret", 3))) == "setData /a version=3"
    assert describe(OpCode.PING, b"") == "ping"
    assert describe(4711, b"") == "request 4711"
    assert describe(OpCode.GET_DATA, b"\xff") == "getData that cannot be read"
    multi = (
        encode(MultiHeader(OpCode.DELETE, False, -1))
        + encode(DeleteRequest("/a", -1))
        + encode(MultiHeader(-1, True, -1))
    )
    assert describe(OpCode.MULTI, multi) == "multi [delete /a version=-1]"


# --- Doubts.


def test_an_ephemeral_of_a_session_is_near_itself_its_parent_and_nothing_else() -> None:
    doubts = Doubts()
    body = encode(CreateRequest("/locks/x-", b"", (), 3))
    made = encode(CreateResponse("/locks/x-0000000004"))
    doubts.note(8, Answered(Asked(1, OpCode.CREATE, body), 5, 0, made))

    for path in ("/locks/x-0000000004", "/locks"):
        assert doubts.sessions_near([path], [8]) == [8]
        assert doubts.sessions_near([path], []) == []
    assert doubts.sessions_near(["/locks/x-0000000005", "/", "/other"], [8]) == []
    doubts.forget(8)
    assert doubts.sessions_near(["/locks"], [8]) == []


CONTAINER = Answered(
    Asked(1, OpCode.CREATE_CONTAINER, encode(CreateRequest("/locks/a", b"", (), 4))), 5, 0, b""
)
GONE = [Difference("error", 0, -101), Difference("data", b"", "missing")]


def doubting() -> Doubts:
    """There is a container /locks/a, which either server may remove."""
    doubts = Doubts()
    doubts.note(8, CONTAINER)
    return doubts


@pytest.mark.parametrize("path", ["/locks/a", "/locks/a/lock-0000000001"])
def test_a_container_and_what_is_in_it_may_be_there_for_one_server_and_not_for_the_other(path: str) -> None:
    assert doubting().explain([path], GONE)
    assert not Doubts().explain([path], GONE)


def test_a_container_may_be_missing_in_its_parent_and_nothing_else_may() -> None:
    def lists(*names: str) -> list[Difference]:
        return [Difference("children", ("a", "b"), names), Difference("stat.cversion", 1, 2)]

    assert doubting().explain(["/locks"], lists("b"))
    assert not doubting().explain(["/locks"], lists("a"))
    assert not doubting().explain(["/locks/a"], [Difference("stat.cversion", 1, 2)])


@pytest.mark.parametrize("path", ["/locks", "/locks/a", "/locks/a/lock-0000000001"])
@pytest.mark.parametrize(
    "wrong",
    [
        Difference("stat.version", 3, 4),
        Difference("data", b"a", b"b"),
        Difference("error", -101, -110),
        Difference("error", 0, -102),
    ],
)
def test_a_container_explains_no_wrong_version_data_or_error(path: str, wrong: Difference) -> None:
    assert not doubting().explain([path], [wrong])


@pytest.mark.parametrize("error", [-101, -110])
def test_a_container_that_one_server_has_removed_is_another_until_both_make_it_again(error: int) -> None:
    """So are the watches on it: what was asked where it was not has left none."""
    doubts = doubting()
    versions = [Difference("stat.version", 0, 2)]
    event = WatcherEvent(EventType.NODE_CHILDREN_CHANGED, 3, "/locks/a")
    assert not doubts.explain_event(event)
    assert doubts.explain(["/locks/a"], [Difference("error", 0, error)])
    assert doubts.explain(["/locks/a"], versions)
    assert doubts.explain_event(event)
    doubts.agree(CONTAINER)
    assert not doubts.explain(["/locks/a"], versions)
    assert not doubts.explain_event(event)


def test_the_end_of_a_container_explains_its_own_events_alone() -> None:
    def explained(kind: int, path: str) -> bool:
        return doubting().explain_event(WatcherEvent(kind, 3, path))

    assert explained(EventType.NODE_DELETED, "/locks/a")
    assert explained(EventType.NODE_CHILDREN_CHANGED, "/locks")
    assert not explained(EventType.NODE_DELETED, "/locks/a/lock-0000000001")
    assert not explained(EventType.NODE_CHILDREN_CHANGED, "/locks/a")
    assert not explained(EventType.NODE_DATA_CHANGED, "/locks/a")


# --- The end.


def test_an_exit_code_of_0_means_that_all_was_compared_and_equal() -> None:
    findings = Findings("one", "other", lambda _: None)
    assert exit_code(findings, is_complete=True) == 0
    assert exit_code(findings, is_complete=False) == EXIT_INCOMPLETE
    findings.differ("session", "request", [])
    assert exit_code(findings, is_complete=False) == EXIT_DIFFERENT
