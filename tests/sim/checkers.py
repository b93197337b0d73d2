"""What must hold, whatever breaks: watched from outside the servers.

Servers are seen at four points (observed.py): what they log, what they apply, when one begins to lead, and
what their trees are at the end. Clients tell what they sent and what came back. From this follows the one
history, and everything else is held against it:

  one order         a zxid means the same transaction on every server, for ever, and none is left out
  one leader        no two servers lead in the same epoch, and no server promises an epoch twice
  on disk first     nothing is committed, or led from, before the disks of a quorum have it
  nothing lost      whoever begins to lead has all that was committed; what a client was told is part of it
  right decisions   a transaction is what the request calls for in the state before it, or its proper error
  exactly once      the requests of a connection become transactions in order, none twice, none left out
  real time         a write is ordered behind all that anybody was shown before it was asked for; so is a
                    sync, within an epoch (a leader that was deposed without knowing may still answer one, as
                    the original's does)
  exact reads       an answer is what the history makes of its zxid: data, children, and every field of a Stat
  no way back       the zxids a session sees never fall, wherever it reconnects
  watches           an event is the first thing that happened to what is watched, it comes once, and before
                    any answer that shows its effect; one that stays is told everything, once
  sessions          expire when nobody was heard for their timeout, not before and not much later
                    (watchman.py); ephemerals go with them
  stored history    from the newest snapshot to the last entry of a log, and from its first entry on, nothing
                    committed is missing: on every disk, whenever a machine goes down or a server serves; and
                    no tree is saved while it is replaced, or holds what is not committed
  equal trees       whenever it begins to serve or has read its disk, and once all is quiet, every server has
                    the tree that the history makes
"""

from collections.abc import Callable, Iterable
from typing import NoReturn

import attrs

from jute.errors import (
    BadArguments,
    SessionExpired,
    SessionMoved,
    UnknownSession,
)
from jute.opcodes import OpCode
from jute.txn_records import (
    CreateSessionTxn,
    DeleteTxn,
)
from persistence.log_format import zxid_of
from tests.sim.decisions import Operation, judge
from tests.sim.disk import VirtualDisk
from tests.sim.model import Entry, History, Node, follows
from tests.sim.stored_history import gap_on

STANDALONE_EPOCH = 0
SESSION_ERRORS = (SessionExpired.code, SessionMoved.code, UnknownSession.code)


class Violation(AssertionError):
    """Something that must never happen has happened."""


@attrs.define(eq=False)
class Conversation:
    """One connection of a client: the writes it sent, in order, and how many of them became transactions."""

    client: str
    session_id: int
    number: int  # they come one after the other
    is_left: bool = False  # the client does not listen to it any more
    writes: list["Request"] = attrs.field(factory=list)
    ordered: int = 0


@attrs.define(eq=False)
class Request:
    """What a client asked for."""

    xid: int
    op: int
    operations: tuple[Operation, ...]  # of a write: one, or those of a multi
    path: str
    is_watching: bool
    asked_at: float
    floor: int  # the highest zxid acknowledged to anybody before this was sent
    conversation: Conversation = attrs.field(repr=False)
    entry: Entry | None = None

    @property
    def is_write(self) -> bool:
        return bool(self.operations) or self.op in (OpCode.CLOSE_SESSION, OpCode.RECONFIG)


@attrs.define
class SeenSession:
    """What the clients know of a session."""

    created_zxid: int
    timeout_ms: int
    client: str
    last_heard_at: float  # sent then, and answered
    last_said_at: float  # sent then, and perhaps answered to nobody: its client may have hung up
    heard_by: dict[str, float] = attrs.field(factory=dict)  # the same, by the server that answered
    is_closing: bool = False  # its client has asked for its end


class Checker:
    """`has_local_sessions`: a session may be known to one server alone, so there is less to say of it.
    `clock_drift`: so much faster or slower than ours a server's clock may run. `sync_limit_s`: for so long a
    follower may serve clients of which a new leader hears nothing."""

    def __init__(
        self,
        now: Callable[[], float],
        on_violation: Callable[[], None],
        *,
        has_local_sessions: bool = False,
        clock_drift: float = 0.0,
        sync_limit_s: float = 0.0,
    ) -> None:
        self.history = History()
        self.violations: list[str] = []
        self.acked_zxid = 0  # the highest that anybody was shown
        self.acked_count = 0
        self.stale_syncs = 0
        self.leaders: dict[int, str] = {}  # by epoch
        self.led_from: dict[int, float] = {}  # by epoch: when its leader began
        self.logged: dict[int, bytes] = {}  # by zxid: what any server ever logged under it
        self.logged_at: dict[int, float] = {}
        self.requests: dict[tuple[int, int], Request] = {}  # by session and xid
        self.seen_sessions: dict[int, SeenSession] = {}
        self.disturbed_at = 0.0  # when anything was last done to hosts, disks or links
        self.is_disturbed = False
        self.applied_zxid: dict[str, int] = {}
        self._latest: dict[int, Conversation] = {}  # by session: on which a write was last ordered
        self._digest: int | None = None
        self._has_local_sessions = has_local_sessions
        self.holders: Callable[[int], tuple[bool, list[str]]] = _nobody_asks
        self.members_taken_over: Callable[[str], object] = _no_others
        self._promises: dict[tuple[str, int, int], str] = {}  # by server, epoch and disk: to whom
        self._sync_limit_s = sync_limit_s
        self._patience = 1 - 2 * clock_drift  # of a server that counts seconds, in our seconds
        self._now = now
        self._on_violation = on_violation

    def fail(self, what: str) -> NoReturn:
        self.note(what)
        raise Violation(what)

    def note(self, what: str) -> None:
        """A violation found where nothing may be raised."""
        self.violations.append(f"at {self._now():.3f} s: {what}")
        self._on_violation()

    # -- servers

    def server_logged(self, server: str, payloads: Iterable[bytes]) -> None:
        for payload in payloads:
            zxid = zxid_of(payload)
            known = self.logged.setdefault(zxid, payload)
            self.logged_at.setdefault(zxid, self._now())
            if known != payload:
                self.note(f"{server} logs another transaction under 0x{zxid:x} than was logged before")

    def server_leads(self, server: str, epoch: int, last_zxid: int) -> None:
        """A server begins to order transactions: all that it has is committed by that.

        What we do not know of yet is of one epoch: its leader, too, had everything before it committed when
        it began.
        """
        if epoch == STANDALONE_EPOCH:  # a zxid whose transaction was never written is given again
            self.logged = {zxid: payload for zxid, payload in self.logged.items() if zxid <= last_zxid}
            self.logged_at = {zxid: at for zxid, at in self.logged_at.items() if zxid <= last_zxid}
        leader = self.leaders.setdefault(epoch, server)
        if leader != server:
            self.note(f"{server} leads in epoch {epoch}, and so did {leader}")
        if last_zxid < self.history.last_zxid:
            self.note(
                f"{server} leads from 0x{last_zxid:x} on, but 0x{self.history.last_zxid:x} was committed"
            )
        self.members_taken_over(server)
        is_held, _ = self.holders(last_zxid)
        if last_zxid in self.logged and not is_held:
            self.note(f"{server} leads from 0x{last_zxid:x} on, which is not on the disks of a quorum")
        for zxid in range(max(self.history.last_zxid, last_zxid >> 32 << 32) + 1, last_zxid + 1):
            if zxid not in self.logged:
                self.note(f"{server} leads from 0x{last_zxid:x} on, but nobody ever logged 0x{zxid:x}")
                return
            self._commit(server, self.logged[zxid])  # by a server alone: in its last life
        self.led_from[epoch] = self._now()

    def server_applied(self, server: str, payload: bytes) -> None:
        zxid = zxid_of(payload)
        if zxid > self.history.last_zxid:
            self._commit(server, payload)
        elif zxid not in self.history.entries:
            self.note(f"{server} applies 0x{zxid:x}, which is no part of the history")
        elif self.history.entries[zxid].payload != payload:
            self.note(f"{server} applies 0x{zxid:x} with another content than was committed")
        before = self.applied_zxid.get(server)
        if before is not None and not follows(before, zxid):
            self.note(f"{server} applies 0x{zxid:x} after 0x{before:x}")
        self.applied_zxid[server] = zxid

    def check_role(self, server: str, zxid: int, nodes: dict[str, Node]) -> None:
        """A server that begins to serve has the tree that the history makes, and nothing else."""
        if zxid <= self.history.last_zxid:
            self._compare_trees(server, self.history.existing(zxid), nodes)

    def check_loaded(
        self, server: str, zxid: int, nodes: dict[str, Node], *, is_damaged: bool = False
    ) -> None:
        """What a disk leads to is what the history makes of its last transaction. If that was never committed
        nobody can tell yet. A damaged log may end like a torn one, before what came into the snapshot while
        it was written: a leader brings the rest, and `check_role` looks at that."""
        is_ahead = any(max(node.mzxid, node.pzxid) > zxid for node in nodes.values())
        if zxid in self.history.entries and not (is_damaged and is_ahead):
            self._compare_trees(f"{server}, from its disk,", self.history.existing(zxid), nodes)

    def log_cut(self, server: str, zxid: int, left: set[int]) -> None:
        """What was cut off a log does not come back, whatever happens now."""
        if beyond := [f"0x{each:x}" for each in sorted(left) if each > zxid]:
            self.note(f"{server} cuts its log at 0x{zxid:x}, and has {beyond} on its disk")

    def epoch_entered(self, server: str, zxid: int, holds: Callable[[int], bool]) -> None:
        """It says from now on that it has this epoch's history."""
        if zxid in self.logged and not holds(zxid):
            self.note(f"{server} enters an epoch with 0x{zxid:x} as its last, which is not on its disk")

    def epoch_promised(self, server: str, epoch: int, leader: str, disk: int) -> None:
        """A server that promises an epoch is counted for it once, even by the same leader."""
        before = self._promises.get((server, epoch, disk))
        if before is not None:
            self.note(f"{server} promises epoch {epoch} to {leader}, and has promised it to {before}")
        self._promises[server, epoch, disk] = leader

    def check_disk(
        self,
        server: str,
        disk: VirtualDisk,
        *,
        must_reach_snapshot: bool = False,
        has_old_logs: bool = False,
        gapless_after: int | None = None,
    ) -> None:
        """Nothing that was committed is missing between its files."""
        if not disk.is_damaged:
            gap = gap_on(
                disk,
                self.history.zxids,
                must_reach_snapshot=must_reach_snapshot,
                has_old_logs=has_old_logs,
                gapless_after=gapless_after,
            )
            if gap is not None:
                self.note(f"on the disk of {server}, {gap}")

    def server_restarts_from(self, server: str, zxid: int | None) -> None:
        """Its tree was replaced: what it applies next follows this, if that is known."""
        if zxid is None:
            self.applied_zxid.pop(server, None)
        else:
            self.applied_zxid[server] = zxid

    def _commit(self, server: str, payload: bytes) -> None:
        zxid = zxid_of(payload)
        if not follows(self.history.last_zxid, zxid):
            self.note(f"{server} commits 0x{zxid:x} after 0x{self.history.last_zxid:x}")
        before = self.history.last_zxid
        containers = self.history.containers.copy() if self.history.containers else set[str]()
        entry = self.history.append(payload)
        is_quorum, holders = self.holders(zxid)
        if not is_quorum:
            self.note(f"{server} commits 0x{zxid:x}, which only {holders} have on disk")
        if entry.header.type == OpCode.DELETE_CONTAINER and not entry.failure:
            self._check_reaping(entry, before, containers)
        self._check_session(entry)
        self._check_request(entry, before)

    def _check_reaping(self, entry: Entry, before: int, containers: set[str]) -> None:
        """Only a container goes by itself, once it has had children and has none any more."""
        assert isinstance(entry.record, DeleteTxn)
        node = self.history.node(entry.record.path or "", before)
        if entry.record.path not in containers or node is None or node.children or not node.creates:
            self.note(f"0x{entry.zxid:x} reaps {entry.record.path}, which is {node}")

    def _check_session(self, entry: Entry) -> None:
        session_id, is_create = entry.header.client_id, isinstance(entry.record, CreateSessionTxn)
        session = self.history.sessions.get(session_id)
        if entry.header.type == OpCode.CLOSE_SESSION:
            if session is not None and session.closed_zxid == entry.zxid and entry.header.cxid == 0:
                self._check_expiry(entry, session.timeout_ms)
        elif not is_create and session_id and not entry.failure:
            if session is None and self._has_local_sessions:
                return
            if session is None:
                self.note(f"0x{entry.zxid:x} is of session 0x{session_id:x}, which was never created")
            elif session.closed_zxid is not None:
                self.note(f"0x{entry.zxid:x} is of session 0x{session_id:x}, which was closed before")

    def _check_expiry(self, entry: Entry, timeout_ms: int) -> None:
        """Nobody was heard for the whole timeout, as far as that can be told from here."""
        seen = self.seen_sessions.get(entry.header.client_id)
        expired_at = self.logged_at.get(entry.zxid, self._now())
        self._check_expiry_by_leader(entry, expired_at, timeout_ms, seen)
        timeout_ms = int(timeout_ms * self._patience)
        if seen is None or not self._was_quiet(expired_at - 2 * timeout_ms / 1000):
            return
        if seen.last_heard_at > expired_at - timeout_ms / 1000:
            self.note(
                f"session 0x{entry.header.client_id:x} of {seen.client} expires "
                f"{expired_at - seen.last_heard_at:.3f} s after it was heard, its timeout is {timeout_ms} ms"
            )

    def _check_expiry_by_leader(
        self, entry: Entry, expired_at: float, timeout_ms: int, seen: SeenSession | None
    ) -> None:
        """Whatever is disturbed: a leader gives all sessions their whole timeout when it begins, and again to
        those it hears itself."""
        epoch, timeout_s = entry.zxid >> 32, timeout_ms / 1000 * self._patience - 0.002
        began_at, leader = self.led_from.get(epoch), self.leaders.get(epoch, "")
        session = f"session 0x{entry.header.client_id:x}"
        if began_at is None or entry.header.client_id not in self.history.sessions:
            return
        if expired_at - began_at < timeout_s:
            self.note(f"{session} expires {expired_at - began_at:.3f} s after {leader} began to lead")
        heard_at = -1.0 if seen is None else seen.heard_by.get(leader, -1.0)
        if heard_at >= began_at and expired_at - heard_at < timeout_s:
            self.note(
                f"{session} expires {expired_at - heard_at:.3f} s after {leader}, which leads, heard it; its "
                f"timeout is {timeout_ms} ms"
            )

    # -- requests and what became of them

    def asked(self, request: Request) -> None:
        conversation = request.conversation
        self.session_said(conversation.session_id)
        if request.op == OpCode.CLOSE_SESSION:
            self.seen_sessions[conversation.session_id].is_closing = True
        if request.is_write:
            conversation.writes.append(request)
            self.requests[conversation.session_id, request.xid] = request

    def _check_request(self, entry: Entry, zxid_before: int) -> None:
        request = self.requests.get((entry.header.client_id, entry.header.cxid))
        if request is None:
            if entry.header.cxid:
                self.note(f"0x{entry.zxid:x} answers a request that nobody sent: {entry.header}")
            return
        if request.entry is not None:
            self.note(f"0x{entry.zxid:x} does again what 0x{request.entry.zxid:x} did: {request}")
        request.entry = entry
        if entry.zxid <= request.floor:
            self.note(f"0x{entry.zxid:x} was asked for when 0x{request.floor:x} was already acknowledged")
        conversation = request.conversation
        is_refused = _is_refused(request, entry)
        # A session is closed wherever its client asked for that, as with the original.
        may_have_left = self._has_local_sessions or request.op == OpCode.CLOSE_SESSION
        if not may_have_left and not is_refused:
            latest = self._latest.setdefault(conversation.session_id, conversation)
            if latest.number > conversation.number:
                self.note(
                    f"0x{entry.zxid:x} was asked for on a connection that its client has left: {request}"
                )
            self._latest[conversation.session_id] = conversation
        if conversation.writes[conversation.ordered] is not request:
            left_out = conversation.writes[conversation.ordered]
            self.note(f"0x{entry.zxid:x} has xid {request.xid}, but xid {left_out.xid} came before it")
        conversation.ordered = conversation.writes.index(request) + 1
        if request.operations and not is_refused:
            problem = judge(self.history, request.op, request.operations, entry, zxid_before)
            if problem:
                self.note(
                    f"0x{entry.zxid:x}: {problem}; asked for: {request.operations}, got: {entry.record}"
                )

    def write_acknowledged(self, request: Request, zxid: int, error: int) -> Entry:
        entry = self.history.entries.get(zxid)
        if entry is None:
            self.fail(f"a client was told of 0x{zxid:x}, which is no part of the history: {request}")
        if entry is not request.entry:
            self.fail(f"a client was told that 0x{zxid:x} answers its request, which is another's: {request}")
        if error != entry.error:
            self.fail(f"a client was told {error} of 0x{zxid:x}, whose result is {entry.error}")
        self.acked_zxid = max(self.acked_zxid, zxid)
        self.acked_count += 1
        return entry

    def close_acknowledged(self, request: Request, zxid: int) -> None:
        """A session known to one server alone ends without a transaction."""
        if request.entry is not None or not self._has_local_sessions:
            self.write_acknowledged(request, zxid, 0)

    def sync_answered(self, request: Request, zxid: int) -> None:
        if zxid >= request.floor:
            return
        if zxid >> 32 == request.floor >> 32:
            self.fail(f"a sync ended at 0x{zxid:x}, 0x{request.floor:x} was acknowledged before it was sent")
        self.stale_syncs += 1

    def shown(self, zxid: int) -> None:
        """Somebody was shown a state: whatever is written, or synced, from now on comes behind it."""
        self.acked_zxid = max(self.acked_zxid, zxid)

    def session_opened(
        self, client: str, server: str, session_id: int, timeout_ms: int, sent_at: float
    ) -> None:
        record = self.history.sessions.get(session_id)
        if record is None and not self._has_local_sessions:
            self.fail(f"{client} was given session 0x{session_id:x}, which is no part of the history")
        if record is not None and record.closed_zxid is not None:
            closed_at = self.logged_at.get(record.closed_zxid, sent_at)
            is_quiet = self._was_quiet(closed_at - timeout_ms / 1000)
            if is_quiet and closed_at < sent_at:
                self.fail(f"{client} goes on with session 0x{session_id:x}, which was closed before it asked")
        created_zxid = 0 if record is None else record.created_zxid
        seen = self.seen_sessions.get(session_id)
        # A clock set back repeats ids.
        if seen is None or (seen.created_zxid or created_zxid) != created_zxid:
            seen = SeenSession(created_zxid, timeout_ms, client, last_heard_at=sent_at, last_said_at=sent_at)
            self.seen_sessions[session_id] = seen
        if seen.client != client:
            self.fail(f"session 0x{session_id:x} of {seen.client} was given to {client}")
        seen.timeout_ms = timeout_ms
        self.session_heard(session_id, sent_at, server)

    def session_refused(self, session_id: int) -> None:
        """A client was told that its session is gone.

        What counts is when it ended. It may be told late: a follower whose leader does not know it any more
        notices that after syncLimit only, and answers its clients meanwhile, unheard by the leader.
        """
        seen, record = self.seen_sessions.get(session_id), self.history.sessions.get(session_id)
        if seen is None or seen.is_closing or self._has_local_sessions:
            return
        ended_at = self._now()
        if record is not None and record.closed_zxid is not None:
            ended_at = self.logged_at.get(record.closed_zxid, ended_at)
        timeout_s, silent_s = seen.timeout_ms / 1000 * self._patience, ended_at - seen.last_heard_at
        if self._was_quiet(ended_at - 2 * timeout_s) and silent_s < timeout_s:
            self.fail(
                f"session 0x{session_id:x} of {seen.client} is refused {silent_s:.3f} s after it was heard, "
                f"its timeout is {seen.timeout_ms} ms"
            )

    def _was_quiet(self, since: float) -> bool:
        """Was nothing disturbed since then, nor so shortly before that somebody may not have noticed?"""
        return not self.is_disturbed and self.disturbed_at + self._sync_limit_s < since

    def session_said(self, session_id: int) -> None:
        self.seen_sessions[session_id].last_said_at = self._now()

    def session_heard(self, session_id: int, sent_at: float, server: str) -> None:
        seen = self.seen_sessions[session_id]
        seen.last_heard_at = max(seen.last_heard_at, sent_at)
        seen.heard_by[server] = max(seen.heard_by.get(server, 0.0), sent_at)

    # -- the end

    def check_late_sessions(self, now: float, quiet_since: float, slack_s: float) -> None:
        """Nothing was disturbed since then: sessions that nobody has used for their timeout are gone.

        When a leader begins, be it the one that led before, all have their whole timeout ahead of them."""
        quiet_since = max([quiet_since, *self.led_from.values()])
        for session_id, record in self.history.open_sessions.items():
            seen = self.seen_sessions.get(session_id)
            if seen is None or seen.created_zxid not in (0, record.created_zxid):
                continue
            silent_s = now - max(seen.last_heard_at, seen.last_said_at, quiet_since)
            if silent_s > seen.timeout_ms / 1000 / self._patience + slack_s:
                self.note(
                    f"session 0x{session_id:x} of {seen.client} lives on {silent_s:.1f} s after it was heard"
                )
                return

    def check_tree(self, server: str, last_zxid: int, nodes: dict[str, Node], digest: int | None) -> None:
        """A server's tree, without what is under /zookeeper, is the one the history makes."""
        if self._digest is None:
            self._digest = digest
        if digest != self._digest:
            self.note(f"{server} has digest {digest}, others have {self._digest}")
        if last_zxid >> 32 == self.history.last_zxid >> 32 and last_zxid != self.history.last_zxid:
            self.note(f"{server} stands at 0x{last_zxid:x}, the history at 0x{self.history.last_zxid:x}")
        self._compare_trees(server, self.history.existing(self.history.last_zxid), nodes)

    def _compare_trees(self, server: str, expected: dict[str, Node], nodes: dict[str, Node]) -> None:
        for path in sorted(expected.keys() | nodes.keys()):
            if path != "/" and expected.get(path) != nodes.get(path):
                self.note(f"{server} has at {path} {nodes.get(path)}, expected was {expected.get(path)}")
                return


def _is_refused(request: Request, entry: Entry) -> bool:
    """Whether nothing was done because of who asked. What comes late from a connection that its client has
    left is refused by an observer's master with another request in its place (learner.py). Nobody is told."""
    is_replaced = entry.failure == BadArguments.code and request.conversation.is_left
    return entry.failure in SESSION_ERRORS or is_replaced


def _no_others(leader: str) -> None:
    """Where the members are always the same."""


def _nobody_asks(zxid: int) -> tuple[bool, list[str]]:
    """Where nobody knows who has to have it."""
    return True, []
