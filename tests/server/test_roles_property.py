"""Clients of different servers of an ensemble, while messages between the servers come whenever they come."""

from collections import deque
from struct import pack, unpack_from

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from jute.client_records import Acl, CreateRequest, GetDataRequest, Id, SetDataRequest
from jute.opcodes import OpCode
from jute.record import encode
from tests.server.one_server import Client
from tests.server.toy_ensemble import ToyEnsemble, deliver, path_body
from tests.server.tree_checks import assert_sound

OPEN = (Acl(31, Id("world", "anyone")),)
LEARNERS = 2
CLIENTS = 4
STEPS = ("write", "own", "read", "read_own", "sync", "ping", "bad", "ephemeral", "up", "down", "commit")
PING_XID = -2


@attrs.define
class Asked:
    """A request on its way, and what must hold of its answer."""

    what: str
    xid: int
    version_min: int = -1  # of a read
    own: int = 0  # what this client has written so far


class Patron:
    """A client that knows what it asked, and checks each answer when it comes."""

    def __init__(self, client: Client, number: int) -> None:
        self.client = client
        self.path = f"/own{number}"
        self.asked: deque[Asked] = deque()
        self.next_xid = 1
        self.own = 0
        self.synced_version = -1  # at least this much must be seen by reads behind the last sync
        self.zxid = 0

    def ask(self, what: str, op: int, body: bytes, **expected: int) -> None:
        xid = PING_XID if what == "ping" else self.next_xid
        self.next_xid += what != "ping"
        self.asked.append(Asked(what, xid, own=self.own, **expected))
        self.client.send(xid, op, body)

    def look(self, acked_version: int) -> int:
        """Check what arrived; returns the highest version of /r that anybody was told is written."""
        for frame in self.client.frames():
            xid, zxid, err = unpack_from(">iqi", frame)
            asked = self.asked.popleft()
            assert xid == asked.xid
            assert err == (-5 if asked.what == "bad" else 0), asked
            assert zxid >= self.zxid
            self.zxid = zxid
            if asked.what == "write":
                acked_version = max(acked_version, unpack_from(">i", frame, len(frame) - 36)[0])
            elif asked.what == "read":
                assert unpack_from(">i", frame, len(frame) - 36)[0] >= asked.version_min
            elif asked.what == "read_own":
                assert frame[20:-68] == b"%d" % asked.own
        return acked_version


class Play:
    """The ensemble, its clients, and the steps they take."""

    def __init__(self) -> None:
        self.ensemble = ToyEnsemble(LEARNERS)
        servers = self.ensemble.servers
        self.patrons = [Patron(servers[i % len(servers)].connect(), i) for i in range(CLIENTS)]
        self.patrons[0].client.ask(OpCode.CREATE, CreateRequest("/r", b"", OPEN, 0))
        for patron in self.patrons:
            patron.client.ask(OpCode.CREATE, CreateRequest(patron.path, b"0", OPEN, 0))
        self.acked_version = -1

    def take(self, step: str, number: int) -> None:
        patron = self.patrons[number % CLIENTS]
        if step == "up":
            deliver(self.ensemble.learners[number % LEARNERS].up, 1 + number % 3)
        elif step == "down":
            deliver(self.ensemble.learners[number % LEARNERS].down, 1 + number % 5)
        elif step == "commit":
            self.ensemble.commit(1 + number % 4)
        else:
            self._ask(patron, step)
        for each in self.patrons:
            self.acked_version = each.look(self.acked_version)

    def _ask(self, patron: Patron, step: str) -> None:
        if step == "write":
            patron.ask(step, OpCode.SET_DATA, encode(SetDataRequest("/r", b"x", -1)))
        elif step == "own":
            patron.own += 1
            patron.ask(step, OpCode.SET_DATA, encode(SetDataRequest(patron.path, b"%d" % patron.own, -1)))
        elif step == "read":
            patron.ask(
                step, OpCode.GET_DATA, encode(GetDataRequest("/r", False)), version_min=patron.synced_version
            )
        elif step == "read_own":
            patron.ask(step, OpCode.GET_DATA, encode(GetDataRequest(patron.path, False)))
        elif step == "sync":
            patron.ask(step, OpCode.SYNC, path_body("/r"))
            patron.synced_version = self.acked_version
        elif step == "ping":
            patron.ask(step, OpCode.PING, b"")
        elif step == "bad":
            patron.ask(step, OpCode.SET_DATA, pack(">i", 1000))
        else:
            request = CreateRequest("/e", b"", OPEN, 3)
            patron.ask(step, OpCode.CREATE, encode(request))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 99)), max_size=120))
def test_clients_see_one_history_in_order(steps: list[tuple[str, int]]) -> None:
    """Replies come in the order of requests, a read sees all its client wrote before it and all that anybody
    was told is written before its last sync, and in the end all servers have the same tree."""
    play = Play()
    for step, number in steps:
        play.take(step, number)
    play.ensemble.settle()
    for patron in play.patrons:
        patron.look(play.acked_version)
        assert not patron.asked
    leader = play.ensemble.leader
    for server in play.ensemble.servers:
        assert server.tree.bodies == leader.tree.bodies
        assert server.tree.session_timeouts_ms == leader.tree.session_timeouts_ms
        assert server.tree.digest == leader.tree.digest == server.tree.compute_digest()
        assert server.tree.last_zxid == leader.tree.last_zxid
        assert list(server.committed_log) == list(leader.committed_log)
        assert server.stored.digest_mismatches == 0
        assert server.pipeline.outstanding == 0
        assert server.pipeline.outstanding_bytes == 0
        assert_sound(server.tree)
