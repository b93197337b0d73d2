"""The catalogue of planted bugs: each is put into the running servers for as long as its context lasts.

A simulator that finds nothing proves little. `make sim-plants` plants every bug in turn and shows how many
seeds it takes until a checker notices; `make sim PLANT=name` does it for one. A bug is named by what a server
does wrong, and its docstring says it in a sentence: the place in the code that it replaces will move.

To add one, write a function under `@plant`. It is called in place of the named function, with the original
in front of its arguments. A plant must leave a server that looks sound: one that stops with a traceback
proves nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from typing import Any

import attrs
import trio

import persistence.log_format
import persistence.recovery
import persistence.snapshot_format
import persistence.snapshots
import quorum.epochs
import quorum.leader
import quorum.learner_sync
import quorum.synchronization
import server.apply_txn
import server.pipeline
import server.replica
from persistence.data_dirs import has_fetched
from persistence.log_reader import list_logs
from persistence.log_writer import LogWriter
from persistence.txn_log import TxnLog
from quorum.broadcast import Broadcast
from quorum.discovery import ALREADY_ACCEPTED, EpochAgreement, Summary
from quorum.election import Vote
from quorum.epochs import EpochKeeper
from quorum.leader import Leader
from quorum.learner import Learning
from quorum.learner_links import LearnerLink
from quorum.membership import Membership
from quorum.proposals import Proposals
from server.client_protocol import ClientConnection
from server.client_sessions import Sessions
from server.data_tree import DataTree
from server.leading import LeadingPipeline
from server.learning import LearningPipeline
from server.ordering import OrderingPipeline
from server.pipeline import Pipeline
from server.prepare_txn import Preparer
from server.replica import Replica
from server.stored_tree import StoredTree
from server.watches import Watches
from tests.sim.disk import Killed, MountedDisk, OpenedForWriting

Planted = Callable[..., Any]


@attrs.frozen
class Plant:
    """One bug: what it does, and which functions do it."""

    name: str
    behaviour: str
    replaced: tuple[tuple[Any, str, Planted], ...]


PLANTS: dict[str, Plant] = {}


def plant(name: str, *places: tuple[Any, str]) -> Callable[[Planted], Planted]:
    """Let the decorated function stand in for those at `places`."""

    def register(planted: Planted) -> Planted:
        behaviour = " ".join((planted.__doc__ or "").split())
        PLANTS[name] = Plant(
            name, behaviour, tuple((owner, attribute, planted) for owner, attribute in places)
        )
        return planted

    return register


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Put the bug of this name into all servers; None is no bug."""
    with ExitStack() as stack:
        for place in PLANTS[name].replaced if name is not None else ():
            stack.enter_context(replaced(*place))
        yield


@contextmanager
def replaced(owner: Any, name: str, planted: Planted) -> Iterator[None]:
    """`planted` is called with the original in front of its arguments."""
    original = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
    if isinstance(original, property):
        stand_in: Any = property(lambda *args: planted(original.fget, *args))
    else:
        stand_in = lambda *args, **named: planted(original, *args, **named)  # noqa: E731
    setattr(owner, name, stand_in)
    try:
        yield
    finally:
        setattr(owner, name, original)


# --- The log and the disk.


@plant("ack-before-fsync", (TxnLog, "_sync"))
def _(original: Planted, log: TxnLog, file: object) -> None:
    """The log is written, but not synced, when its entries are acknowledged."""


@plant("no-directory-fsync", (MountedDisk, "sync_directory"))
def _(original: Planted, mounted: MountedDisk, path: object) -> None:
    """A new file's name is taken to be safe without a sync of its directory."""


@plant("renamed-before-synced", (OpenedForWriting, "sync"))
def _(original: Planted, file: OpenedForWriting) -> None:
    """What is written is never synced, only the names of files are."""
    file._mounted._act("sync")


@plant("batch-reported-with-what-waits", (LogWriter, "_report"))
def _(original: Planted, writer: LogWriter, count: int) -> None:
    """What waits to be written is reported durable together with the batch before it."""
    waiting = len(writer._pending)
    fresh = count - getattr(writer, "reported_early", 0) + waiting
    writer.reported_early = waiting  # type: ignore[attr-defined]
    if fresh:
        original(writer, fresh)


@plant("log-not-replayed", (persistence.recovery, "logs_holding"))
def _(original: Planted, files: Any, zxid: int) -> list[Any]:
    """A restarted server has its last snapshot, and nothing of its log."""
    return []


@plant("last-entry-not-replayed", (Replica, "load"))
def _(original: Planted, replica: Replica, *args: Any) -> None:
    """A restarted server passes over the last entry of its log."""
    stored, held = replica.stored, list[bytes]()

    def replay(payload: bytes) -> None:
        if held:
            StoredTree.replay(stored, held.pop())
        held.append(payload)

    stored.replay = replay  # type: ignore[method-assign]
    try:
        original(replica, *args)
    finally:
        del stored.replay


@plant("log-entries-not-checksummed", (persistence.log_format, "adler32"))
def _(original: Planted, *args: Any) -> int:
    """A changed entry of a log is taken for what was written."""
    return 0


@plant("snapshots-not-checksummed", (persistence.snapshot_format, "adler32"))
def _(original: Planted, *args: Any) -> int:
    """A changed snapshot is taken for what was written."""
    return 0


@plant("snapshot-named-by-its-end", (server.replica, "take_snapshot"))
async def _(original: Planted, disk: Any, offload: Any, directory: Any, source: Any, *args: Any) -> Any:
    """A snapshot claims all that was applied while it was written, though it holds only a part of it."""
    begun = source.last_zxid

    class Late:
        def __getattr__(self, name: str) -> Any:
            return getattr(source, name)

        def last_zxid(self) -> int:
            return int(begun() + 2)

    return await original(disk, offload, directory, Late(), *args)


@plant("purge-removes-needed-logs", (server.replica, "purge"), (persistence.snapshots, "purge"))
def _(original: Planted, disk: Any, snap_dir: Any, log_dir: Any, retain_count: int) -> list[Any]:
    """Purging removes every log but the last, whatever the snapshots that stay need."""
    removed: list[Any] = original(disk, snap_dir, log_dir, retain_count)
    for file in list_logs(disk, log_dir)[:-1]:
        disk.unlink(file.path)
    return removed


# --- Epochs: who may lead.


@plant("epoch-after-ack", (quorum.epochs, "write_epoch"))
def _(original: Planted, *args: Any) -> None:
    """An epoch's file is written a moment after the acknowledgement that relies on it."""

    async def write() -> None:
        await trio.sleep(0.2)
        with suppress(Killed, OSError):  # it may be too late
            original(*args)

    trio.lowlevel.spawn_system_task(write)


@plant("accepted-epoch-forgotten", (EpochKeeper, "accept"))
def _(original: Planted, keeper: EpochKeeper, epoch: int) -> None:
    """The promise to follow no earlier leader is kept in memory alone."""
    keeper.accepted = epoch


@plant("promise-counted-twice", (Learning, "_accept"))
def _(original: Planted, learning: Learning, epoch: int) -> int:
    """A learner that has promised an epoch to one leader promises it to another as well."""
    current: int = original(learning, epoch)
    return learning._epochs.current if current == ALREADY_ACCEPTED else current


@plant("epoch-used-again", (EpochAgreement, "connected"))
def _(
    original: Planted, agreement: EpochAgreement, server_id: int, accepted_epoch: int, **named: Any
) -> bool:
    """A leader begins the latest epoch that anybody has promised, not the one behind it."""
    is_complete: bool = original(agreement, server_id, max(0, accepted_epoch - 1), **named)
    return is_complete


@plant("fetching-server-votes", (Replica, "last_zxid"))
def _(original: Planted, replica: Replica) -> int:
    """A server that is to fetch everything counts as one that never had anything."""
    last_zxid: int = original(replica)
    return max(0, last_zxid)


@plant("fetching-forgotten-by-a-restart", (persistence.recovery, "is_to_fetch"))
def _(original: Planted, disk: Any, snap_dir: Any) -> bool:
    """A server that was told to fetch everything, and stops before it has, starts as an empty one."""
    is_told: bool = original(disk, snap_dir)
    if is_told:
        has_fetched(disk, snap_dir)
    return is_told


@plant("discovery-check-off", (EpochAgreement, "acked"))
def _(original: Planted, agreement: EpochAgreement, server_id: int, theirs: Summary, **named: Any) -> bool:
    """A leader goes on although a follower it counts on has more history than it has."""
    if theirs.current_epoch != ALREADY_ACCEPTED:
        theirs = min(theirs, agreement._mine)
    is_complete: bool = original(agreement, server_id, theirs, **named)
    return is_complete


@plant("served-before-a-quorum-synced", (Leader, "_new_leader_acked"))
def _(original: Planted, leader: Leader, *args: Any) -> None:
    """A leader serves as soon as it has its own history, before a quorum has taken it over."""
    original(leader, *args)
    leader._quorum_synced.set()


@plant("votes-by-id-alone", (Vote, "merit"))
def _(original: Planted, vote: Vote) -> tuple[int, int, int]:
    """The highest id wins an election, whatever it lacks."""
    return 0, 0, vote.leader


@plant("vote-without-log", (Replica, "retire"))
async def _(original: Planted, replica: Replica) -> None:
    """Between two roles the tree is not brought up to the end of the log (ZOOKEEPER-2845)."""
    read = replica._logged_unapplied
    replica._logged_unapplied = list  # type: ignore[method-assign]
    try:
        await original(replica)
    finally:
        replica._logged_unapplied = read  # type: ignore[method-assign]


@plant("connectivity-check-off", (Leader, "_alive"))
def _(original: Planted, leader: Leader) -> set[int]:
    """A leader never notices that its followers are gone."""
    return {*leader._membership.committed.members}


# --- Synchronisation: how a learner takes over the leader's history.


@plant("newleader-acked-before-the-log-is-durable", (Learning, "_take_over"))
async def _(original: Planted, learning: Learning, link: LearnerLink, mode: int, zxid: int) -> None:
    """A learner enters the epoch and says so while what it was sent is still on its way to the disk."""
    replica = learning._replica
    drained = replica.log_drained
    replica.log_drained = trio.lowlevel.checkpoint  # type: ignore[method-assign]
    try:
        await original(learning, link, mode, zxid)
    finally:
        replica.log_drained = drained  # type: ignore[method-assign]
    await replica.log_drained()


@plant("epoch-entered-before-the-history", (Learning, "_take_over"))
async def _(original: Planted, learning: Learning, link: LearnerLink, mode: int, zxid: int) -> None:
    """currentEpoch is written before the leader's history is on disk."""
    learning._epochs.enter(learning._epoch)
    await trio.sleep(0.05)
    await original(learning, link, mode, zxid)


@plant("old-log-kept-after-snap", (Replica, "_remove_before"))
def _(original: Planted, replica: Replica, zxid: int) -> None:
    """What was logged before a leader's snapshot stays, though it does not lead up to it."""


@plant("log-not-cut-by-snap", (Replica, "_cut_log_after"))
def _(original: Planted, replica: Replica, zxid: int) -> int | None:
    """What was logged beyond a leader's snapshot stays, and is replayed over it."""
    return zxid


@plant("snapshot-not-given-up", (Replica, "_give_up_snapshot"))
async def _(original: Planted, replica: Replica) -> None:
    """A snapshot under way goes on while the tree under it is replaced or cut back."""


@plant("snapshot-taken-without-a-role", (Replica, "take_snapshots"))
async def _(original: Planted, replica: Replica) -> None:
    """Between two roles the tree is saved with what was never committed."""
    while True:
        await trio.sleep(0.05)
        if not replica.pipeline.is_serving and replica._is_loaded:
            await replica.take_snapshot()


@plant("truncate-ignored", (Replica, "truncate"))
async def _(original: Planted, replica: Replica, zxid: int) -> None:
    """A follower told to cut back its log does not."""


@plant("truncated-in-memory-alone", (TxnLog, "truncate_after"))
def _(original: Planted, log: TxnLog, zxid: int) -> int | None:
    """A follower told to cut back its log removes later files only, and leaves the entries in the last."""
    cut = TxnLog._cut_after

    def cut_nothing(self: TxnLog, file: Any, zxid: int) -> int | None:
        return _last_up_to(cut, self, file, zxid)

    TxnLog._cut_after = cut_nothing  # type: ignore[method-assign]
    try:
        last: int | None = original(log, zxid)
        return last
    finally:
        TxnLog._cut_after = cut  # type: ignore[method-assign]


def _last_up_to(cut: Planted, log: TxnLog, file: Any, zxid: int) -> int | None:
    truncate, log._disk.truncate = log._disk.truncate, lambda *args: None  # type: ignore[method-assign]
    try:
        last: int | None = cut(log, file, zxid)
        return last
    finally:
        log._disk.truncate = truncate  # type: ignore[method-assign]


@plant("diff-for-whoever-is-behind", (quorum.learner_sync, "plan_from_memory"))
def _(original: Planted, peer_zxid: int, last_zxid: int, committed: Any, **named: Any) -> Any:
    """A learner with a history that parts from the leader's is sent what follows, and cuts nothing off."""
    plan = original(peer_zxid, last_zxid, committed, **named)
    if plan is not None and plan.mode is quorum.synchronization.SyncMode.TRUNC:
        return quorum.synchronization.Plan(quorum.synchronization.SyncMode.DIFF, last_zxid, plan.after)
    return plan


# --- Broadcast: what may be committed.


@plant("commit-alone", (Broadcast, "_agreed_by"))
def _(original: Planted, broadcast: Broadcast, verifier: object) -> int:
    """One durable log is enough."""
    return max(broadcast._acked.values(), default=0)


@plant("observers-counted", (Broadcast, "_agreed_by"), (Leader, "_acked"))
def _(original: Planted, one: Any, *args: Any) -> Any:
    """The acks of servers without a vote count."""
    if isinstance(one, Leader):
        learner, zxid = args
        was, learner.is_observer = learner.is_observer, False
        try:
            return original(one, learner, zxid)
        finally:
            learner.is_observer = was
    (verifier,) = args
    acked = sorted(one._acked.values(), reverse=True)
    needed = len(verifier.voters) // 2
    return acked[needed] if len(acked) > needed else 0


@plant("leader-acks-what-it-proposes", (Proposals, "append"))
def _(original: Planted, proposals: Proposals, payload: bytes) -> None:
    """A leader counts its own log before the transaction is in it."""
    original(proposals, payload)
    proposals._broadcast.acked(proposals._my_id, proposals.last_proposed)


@plant("acks-outlive-their-learner", (Broadcast, "forget"))
def _(original: Planted, broadcast: Broadcast, server_id: int) -> None:
    """What a learner acknowledged counts after it has left."""


@plant("one-quorum-in-a-reconfiguration", (Broadcast, "propose_members"), (Membership, "pending_verifier"))
def _(original: Planted, one: Any, *verifier: Any) -> None:
    """While members change, the old quorum alone decides."""
    if isinstance(one, Broadcast):
        one._rules.append(quorum.broadcast.Rule(one._rules[-1].verifier, one.last_proposed + 1))


@plant("commit-out-of-order", (LearningPipeline, "committed"))
def _(original: Planted, pipeline: LearningPipeline, count: int) -> None:
    """A follower that may commit two transactions at once begins with the second."""
    if count > 1:
        first, second = pipeline.in_flight.popleft(), pipeline.in_flight.popleft()
        pipeline.in_flight.extendleft((first, second))
    original(pipeline, count)


@plant("applied-when-proposed", (LearningPipeline, "proposed"), (LearningPipeline, "committed"))
def _(original: Planted, pipeline: LearningPipeline, what: Any) -> None:
    """A follower applies what is proposed, without waiting for the commit."""
    if isinstance(what, bytes):
        original(pipeline, what)
        Pipeline.committed(pipeline, 1)


# --- Sessions.


@plant("touches-ignored", (LeadingPipeline, "touch"))
def _(original: Planted, pipeline: LeadingPipeline, session: int, timeout_ms: int) -> None:
    """What learners heard from their clients does not renew a session."""


@plant("known-sessions-begin-half-spent", (Replica, "_open_known"))
def _(original: Planted, replica: Replica, sessions: Sessions) -> None:
    """A new leader gives the sessions it finds half of their timeout."""
    now_ms = replica.world.clock.now_ms()
    for session_id, timeout_ms in replica.tree.session_timeouts_ms.items():
        sessions.open(session_id, timeout_ms, now_ms - timeout_ms // 2)


@plant("sessions-expire-a-tick-early", (Sessions, "_bucket_for"))
def _(original: Planted, sessions: Sessions, session: Any) -> int:
    """A session ends one tick before its timeout is over."""
    return int(original(sessions, session)) - 2 * sessions._tick_ms


@plant("known-sessions-never-expire", (Replica, "_open_known"))
def _(original: Planted, replica: Replica, sessions: Sessions) -> None:
    """Sessions from before a leader's time are known to it, and never end."""
    for session_id, timeout_ms in replica.tree.session_timeouts_ms.items():
        sessions.open(session_id, timeout_ms, replica.world.clock.now_ms())
    sessions._buckets.clear()


@plant("dead-session-revalidated", (LeadingPipeline, "revalidate"))
def _(original: Planted, pipeline: LeadingPipeline, origin: object, session: int, timeout_ms: int) -> bool:
    """A client that comes back to a follower goes on with a session that was closed."""
    original(pipeline, origin, session, timeout_ms)
    return True


@plant("moved-session-not-refused", (LeadingPipeline, "_prepare"))
def _(original: Planted, pipeline: LeadingPipeline, origin: Any, session: int, *args: Any) -> Any:
    """What a client asked for on a connection it has left is done after what it asked for since."""
    if session in pipeline.owners:
        pipeline.owners[session] = origin
    return original(pipeline, origin, session, *args)


@plant("ephemerals-stay-on-learners", (server.apply_txn, "_close_session"))
def _(original: Planted, tree: DataTree, txn: Any) -> None:
    """The close of a session deletes what it names, and nothing if it names nothing."""
    owned = list(txn.args[0] or ())
    tree.session_timeouts_ms.pop(txn.session, None)
    for path in owned[:-1] if len(owned) > 1 else owned:
        if path in tree.bodies:
            tree.delete(path, txn.zxid)


@plant("session-ids-used-again", (server.replica, "first_session_id"))
def _(original: Planted, server_id: int, now_ms: int) -> int:
    """A server that starts again gives out the same session ids again."""
    first: int = original(server_id, 1_700_000_000_000)
    return first


# --- Answers.


@plant("reads-overtake-writes", (ClientConnection, "_wait_in_order"))
def _(original: Planted, connection: ClientConnection, xid: int, op: int, body: bytes) -> None:
    """A read is answered although a write of the same connection is on its way ahead of it."""
    if op > 0:
        connection._answer_read(op, xid, body, 0, len(body)) if op != 11 else original(
            connection, xid, op, body
        )
    else:
        original(connection, xid, op, body)


@plant("client-served-by-one-that-is-behind", (Pipeline, "_is_behind"))
def _(original: Planted, pipeline: Pipeline, connection: object, request: object) -> bool:
    """A client that has seen more than this server has is served all the same."""
    return False


@plant("sync-answered-at-once", (LearningPipeline, "sync"))
def _(original: Planted, pipeline: LearningPipeline, connection: Any, xid: int, path: bytes) -> None:
    """A follower answers a sync without asking the leader."""
    connection.write_committed(xid, 9, pipeline.tree.last_zxid, 0, path, 0)


@plant("multi-not-atomic", (Preparer, "_take_back"))
def _(original: Planted, preparer: Preparer, undo: Any, digest: int) -> None:
    """What a multi that fails had prepared is not taken back: the next request is judged by it."""
    if len(undo) > 1:
        preparer.digest = digest
    else:
        original(preparer, undo, digest)


@plant("sequence-numbers-used-again", (Preparer, "_get"))
def _(original: Planted, preparer: Preparer, path: bytes) -> Any:
    """The number of a sequential node is how many children there are, not how many there have been."""
    change = original(preparer, path)
    if change.zxid != preparer.zxid and change.creates > change.children:
        change = copy(change)
        change.creates = max(change.children, change.creates - 1)
    return change


@plant(
    "container-reaped-with-children",
    (OrderingPipeline, "expired_containers"),
    (Preparer, "_delete_container"),
)
def _(original: Planted, one: Any, *args: Any) -> Any:
    """A container whose children are on their way is reaped all the same."""
    if isinstance(one, OrderingPipeline):
        return [path for path, owner in one.tree.owners.items() if path in one.tree.bodies and owner]
    children, node = 0, one._get(args[0][0])
    children, node.children = node.children, 0
    try:
        return original(one, *args)
    finally:
        node.children = children


@plant("watch-fires-twice", (Watches, "_tell"))
def _(original: Planted, watches: Watches, told: object, *event: Any, **of_what: Any) -> None:
    """Every watcher is told twice."""
    original(watches, told, *event, **of_what)
    original(watches, told, *event, **of_what)


@plant("missed-changes-not-told", (Watches, "renew_children"))
def _(original: Planted, watches: Watches, tree: DataTree, path: bytes, since: int, watcher: Any) -> None:
    """A client that sets its watches again is not told of children that came or went meanwhile."""
    watches.watch_children(path, watcher)


@plant("watch-of-a-missing-node-dropped", (Watches, "renew_exists"))
def _(original: Planted, watches: Watches, tree: DataTree, path: bytes, watcher: Any) -> None:
    """A watch for a node to be created is lost when its client reconnects."""
    if path in tree.bodies:
        original(watches, tree, path, watcher)


# --- What is left behind.


@plant("links-never-closed", (LearnerLink, "close"))
async def _(original: Planted, link: LearnerLink) -> None:
    """A connection between servers that has ended is not closed."""
    await trio.lowlevel.checkpoint()


@plant("watches-outlive-their-client", (Watches, "drop_watcher"))
def _(original: Planted, watches: Watches, watcher: Any, steps_max: int) -> int:
    """The watches of a connection stay when it is gone."""
    return 0


@plant("owners-never-forgotten", (LeadingPipeline, "_session_closed"))
def _(original: Planted, pipeline: LeadingPipeline, session_id: int, connection: Any) -> None:
    """A leader remembers who owned a session that was closed."""
    Pipeline._session_closed(pipeline, session_id, connection)


NAMES = tuple(PLANTS)


def described(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield f"{name}: {PLANTS[name].behaviour}"
