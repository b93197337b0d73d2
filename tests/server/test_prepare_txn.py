"""Writes prepared against what is pending: counters at their end, sessions at theirs, changes taken back."""

from struct import pack
from typing import Any

import pytest

from jute.client_records import (
    Acl,
    CreateRequest,
    CreateTtlRequest,
    DeleteRequest,
    Id,
    ReconfigRequest,
    SetAclRequest,
    SetDataRequest,
)
from jute.errors import BadVersion, NoAuth, SessionExpired, UnknownSession
from jute.opcodes import OpCode
from jute.record import DecodeError, encode
from server.acls import AccessRules, AuthIds
from server.apply_txn import apply_txn
from server.client_sessions import Sessions
from server.data_tree import CREATES_MAX, DataTree
from server.prepare_txn import Preparer
from server.txns import CLOSE_SESSION, ERROR, MULTI, Txn, decode_txn
from tests.server.tree_checks import assert_sound, stat_of

OPEN = (Acl(31, Id("world", "anyone")),)
IDS: AuthIds = (("ip", "127.0.0.1"),)
SESSION, OTHER = 7, 8


class Bench:
    """A preparer, its tree, and transactions waiting between them."""

    def __init__(
        self, tree: DataTree | None = None, rules: AccessRules | None = None, **options: Any
    ) -> None:
        self.tree = tree or DataTree(extended_types=True)
        self.tree.tracks_digest = True
        self.sessions = Sessions(2000, 1)
        for session_id in (SESSION, OTHER):
            self.sessions.open(session_id, 10_000, 0)
        self._rules, self._options = rules or AccessRules(), options
        self.waiting: list[Txn] = []
        self.begin()

    def begin(self) -> None:
        """Prepare from what the tree is now, whatever changed it."""
        self.preparer = Preparer(self.tree, self.sessions, self._rules, **self._options)

    def ask(self, op: int, request: object, session: int = SESSION) -> Txn:
        body = request if isinstance(request, bytes) else encode(request)
        txn = self.preparer.prepare(session, 1, op, body, IDS, 1000)
        self.waiting.append(txn)
        return txn

    def create(self, path: str, flags: int = 0, session: int = SESSION) -> Txn:
        return self.ask(OpCode.CREATE, CreateRequest(path, b"", OPEN, flags), session)

    def multi(self, *operations: tuple[int, object]) -> Txn:
        parts = [pack(">i?i", op, False, -1) + encode(request) for op, request in operations]
        return self.ask(OpCode.MULTI, b"".join(parts) + pack(">i?i", -1, True, -1))

    def close(self, session: int = SESSION) -> Txn:
        txn = self.preparer.close_session(session, 1, 1000)
        self.waiting.append(txn)
        return txn

    def apply(self) -> None:
        """All that waits; the digest that each carries must come true."""
        for txn in self.waiting:
            apply_txn(self.tree, decode_txn(txn.payload))
            self.preparer.applied(txn)
            assert txn.digest is None or txn.digest == self.tree.digest
        self.waiting.clear()
        assert not self.preparer.pending
        assert_sound(self.tree)


def counted_to(creates: int) -> Bench:
    """A server on which /p has had so many children."""
    bench = Bench()
    bench.create("/p")
    bench.apply()
    bench.tree.note_create(b"/p", creates, bench.tree.last_zxid)
    bench.begin()
    return bench


def path_of(txn: Txn) -> bytes:
    path: bytes = txn.args[0]
    return path


def test_the_last_sequence_number_is_given_once() -> None:
    """Then the counter sticks, and the next one asks for the same name."""
    bench = counted_to(CREATES_MAX)
    before = stat_of(bench.tree, b"/p").pzxid
    assert path_of(bench.create("/p/n", 2)) == b"/p/n2147483647"
    bench.apply()
    assert bench.tree.creates[b"/p"] == CREATES_MAX
    assert stat_of(bench.tree, b"/p").pzxid == before
    assert stat_of(bench.tree, b"/p").num_children == 1
    assert bench.create("/p/n", 2).type == ERROR
    assert path_of(bench.create("/p/m", 2)) == b"/p/m2147483647"
    bench.apply()


def test_pending_sequence_numbers_go_on_beyond_the_last() -> None:
    """Wrapped, as long as nothing is applied; the digests hold all the same."""
    bench = counted_to(CREATES_MAX - 1)
    names = [path_of(bench.create("/p/n", 2)) for _ in range(4)]
    assert names == [b"/p/n2147483646", b"/p/n2147483647", b"/p/n-2147483648", b"/p/n-2147483647"]
    bench.ask(OpCode.SET_DATA, SetDataRequest("/p", b"x", -1))
    bench.ask(OpCode.DELETE, DeleteRequest("/p/n2147483647", -1))
    assert path_of(bench.create("/p/n", 2)) == b"/p/n-2147483646"
    bench.apply()
    assert bench.tree.creates[b"/p"] == CREATES_MAX


def test_sequence_numbers_wrap_within_one_multi() -> None:
    """As the original's do."""
    bench = counted_to(CREATES_MAX)
    sequential = (OpCode.CREATE, CreateRequest("/p/n", b"", OPEN, 2))
    txn = bench.multi(sequential, sequential, sequential)
    assert [args[0] for _, args in txn.args] == [b"/p/n2147483647", b"/p/n-2147483648", b"/p/n-2147483647"]
    bench.apply()


@pytest.mark.parametrize(
    ("creates", "name"),
    [
        (0, b"/p/n0000000000"),
        (41, b"/p/n0000000041"),
        (-3, b"/p/n-000000003"),
        (-(1 << 31), b"/p/n-2147483648"),
    ],
)
def test_sequence_numbers_are_ten_characters_wide(creates: int, name: bytes) -> None:
    """The sign is one of them, except where there is no room for it."""
    bench = Bench()
    bench.create("/p")
    bench.apply()
    bench.tree.creates[b"/p"] = creates
    bench.tree._restat(b"/p", 1)
    bench.tree.digest = bench.tree.compute_digest()
    bench.begin()
    assert path_of(bench.create("/p/n", 2)) == name
    bench.apply()


def test_versions_wrap() -> None:
    """2147483647 is followed by -2147483648, of data and of ACLs."""
    bench = Bench()
    bench.create("/n")
    bench.apply()
    bench.tree.set_data(b"/n", b"\0\0\0\0", CREATES_MAX, 1, 1)
    bench.tree.set_acl(b"/n", bench.tree.acl_of(b"/n"), CREATES_MAX)
    bench.begin()
    assert bench.ask(OpCode.SET_DATA, SetDataRequest("/n", b"", CREATES_MAX)).args[2] == -(1 << 31)
    assert bench.ask(OpCode.SET_ACL, SetAclRequest("/n", OPEN, CREATES_MAX)).args[2] == -(1 << 31)
    assert bench.ask(OpCode.SET_DATA, SetDataRequest("/n", b"", -(1 << 31))).args[2] == -(1 << 31) + 1
    bench.apply()


def test_a_session_takes_with_it_what_it_has_made_and_is_making() -> None:
    """But not what it has deleted, nor what others own, nor what lost its owner meanwhile."""
    bench = Bench()
    bench.create("/applied", 1)
    bench.create("/deleted", 1)
    bench.apply()
    bench.create("/pending", 1)
    bench.create("/others", 1, OTHER)
    bench.create("/both", 1)
    bench.ask(OpCode.SET_DATA, SetDataRequest("/pending", b"x", -1))
    bench.ask(OpCode.DELETE, DeleteRequest("/both", -1))
    bench.create("/both", 1, OTHER)
    bench.ask(OpCode.DELETE, DeleteRequest("/deleted", -1))
    bench.multi(
        (OpCode.CREATE, CreateRequest("/multi", b"", OPEN, 1)),
        (OpCode.CREATE2, CreateRequest("/kept", b"", OPEN, 0)),
    )
    close = bench.close()
    assert close.type == CLOSE_SESSION
    assert sorted(close.args[0]) == [b"/applied", b"/multi", b"/pending"]
    bench.apply()
    assert set(bench.tree.ephemerals) == {OTHER}
    assert b"/kept" in bench.tree.bodies


def test_what_a_session_asks_behind_its_close_is_refused() -> None:
    """Its ephemerals would outlive it."""
    bench = Bench()
    bench.close()
    assert bench.create("/late", 1).args == (SessionExpired.code,)
    assert bench.ask(OpCode.DELETE, DeleteRequest("/x", -1)).args == (SessionExpired.code,)
    assert bench.multi((OpCode.CREATE, CreateRequest("/late", b"", OPEN, 0))).args == [
        (ERROR, (SessionExpired.code,))
    ]
    bench.apply()
    assert b"/late" not in bench.tree.bodies


@pytest.mark.parametrize(
    ("flags", "code"), [(0, UnknownSession.code), (1, SessionExpired.code), (3, SessionExpired.code)]
)
def test_a_session_that_never_was(flags: int, code: int) -> None:
    """Who wants an ephemeral is told otherwise than who does not."""
    assert Bench().create("/n", flags, session=99).args == (code,)


def test_a_second_close_takes_nothing() -> None:
    """A client may ask for it while its session is already expiring."""
    bench = Bench()
    bench.create("/e", 1)
    assert bench.close().args == ([b"/e"],)
    assert bench.close().args == ([],)
    bench.apply()


def test_ephemerals_may_be_left_out_of_the_close() -> None:
    """As zookeeper.closeSessionTxn.enabled=false asks; they go all the same, and the digest knows."""
    bench = Bench(lists_ephemerals=False)
    bench.create("/e", 1)
    assert bench.close().args == (None,)
    bench.apply()
    assert not bench.tree.ephemerals


def test_a_failed_multi_is_taken_back_to_the_last_byte() -> None:
    """What was pending before it is pending after it, also where it was changed several times."""
    bench = Bench()
    bench.create("/a")
    bench.ask(OpCode.SET_DATA, SetDataRequest("/a", b"1", -1))
    digest, pending = bench.preparer.digest, dict(bench.preparer.pending)
    for failing in (DeleteRequest("/missing", -1), DeleteRequest("/a", 9), DeleteRequest("/", -1)):
        txn = bench.multi(
            (OpCode.SET_DATA, SetDataRequest("/a", b"2", -1)),
            (OpCode.CREATE, CreateRequest("/a/b", b"", OPEN, 2)),
            (OpCode.CREATE, CreateRequest("/a/b", b"", OPEN, 1)),
            (OpCode.DELETE, DeleteRequest("/a/b", -1)),
            (OpCode.SET_DATA, SetDataRequest("/a", b"3", 2)),
            (OpCode.DELETE, failing),
            (OpCode.CREATE, CreateRequest("/c", b"", OPEN, 0)),
        )
        assert txn.type == MULTI
        assert [type_ for type_, _ in txn.args][5:] == [ERROR, ERROR]
        assert bench.preparer.digest == digest
        assert bench.preparer.pending == pending
    bench.apply()
    assert bench.tree.bodies[b"/a"].startswith(b"\0\0\0\x011")


def test_the_reaper_deletes_containers_alone() -> None:
    """It is session 0, whom no ACL stops."""
    bench = Bench(ttl_nodes=True)
    closed = (Acl(1, Id("world", "anyone")),)
    bench.ask(OpCode.CREATE_CONTAINER, CreateRequest("/box", b"", OPEN, 0))
    bench.ask(OpCode.CREATE_CONTAINER, CreateRequest("/box/inner", b"", OPEN, 0))
    bench.ask(OpCode.CREATE_TTL, CreateTtlRequest("/ttl", b"", OPEN, 5, 1000))
    bench.create("/plain")
    bench.ask(OpCode.SET_ACL, SetAclRequest("/box", closed, -1))
    bench.apply()
    codes = {}
    for path in (b"/box", b"/box/inner", b"/ttl", b"/plain", b"/missing", b"/"):
        txn = bench.preparer.delete_container(path, 1)
        codes[path] = txn.args[0] if txn.type == ERROR else 0
        bench.waiting.append(txn)
    assert codes == {
        b"/box": -111,
        b"/box/inner": 0,
        b"/ttl": 0,
        b"/plain": -103,
        b"/missing": -101,
        b"/": -8,
    }
    bench.apply()


def test_a_body_that_cannot_be_read_costs_nothing() -> None:
    """No transaction, no zxid, no change."""
    bench = Bench()
    zxid = bench.preparer.zxid
    with pytest.raises(DecodeError):
        bench.ask(OpCode.CREATE, b"\0\0\0\7/a")
    assert bench.preparer.zxid == zxid


def test_without_digests_none_are_computed() -> None:
    """zookeeper.digest.enabled=false."""
    bench = Bench(digests=False)
    assert bench.create("/a").digest is None
    bench.apply()


# --- Reconfiguration: what may be asked for is decided elsewhere (tests/quorum/test_reconfiguration.py).


def new_config(
    joining: str | None, leaving: str | None, members: str | None, from_version: int, zxid: int
) -> str:
    if from_version != -1:
        raise BadVersion
    return f"{joining} {leaving} {members} {zxid}"


def reconfigure(bench: Bench, from_version: int = -1) -> Txn:
    return bench.ask(OpCode.RECONFIG, ReconfigRequest("a", None, "b", from_version))


def test_a_reconfiguration_writes_the_config_node_and_is_answered_with_it() -> None:
    """Its version stays -1, and no digest covers it."""
    rules = AccessRules(skip_acl=True)
    bench = Bench(rules=rules, reconfig_enabled=True, new_config=new_config)
    digest = bench.preparer.digest
    txn = reconfigure(bench)
    assert (txn.type, txn.args) == (OpCode.RECONFIG, (b"/zookeeper/config", b"\0\0\0\x0aa None b 1", -1))
    assert bench.preparer.digest == digest
    assert decode_txn(txn.payload).args == txn.args
    err, reply = apply_txn(bench.tree, txn)
    assert err == 0
    assert reply == bench.tree.bodies[b"/zookeeper/config"]
    stat = stat_of(bench.tree, b"/zookeeper/config")
    assert (stat.version, stat.mzxid, stat.mtime) == (-1, 1, 1000)


def test_who_may_not_write_the_config_node_hears_so_last() -> None:
    bench = Bench(reconfig_enabled=True, new_config=new_config)
    assert reconfigure(bench).args == (NoAuth.code,)
    assert reconfigure(bench, from_version=5).args == (BadVersion.code,)
    bench.sessions.mark_closing(SESSION)
    assert reconfigure(bench, from_version=5).args == (SessionExpired.code,)
