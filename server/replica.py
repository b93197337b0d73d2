"""One server's state and history, and the service it gives in its present role (quorum.replica.Replica).

Tasks, outermost first; the nesting is the shutdown order:

    storage            `write_log`: only owner of the log file, last to stop, after `writer.finish()`
    └── serving        clients, `work_off`, `tick`, `take_snapshots`, `reap_containers`, `purge_old_files`

A role is a pipeline. When it changes, all connections are closed and every front gets the new pipeline for
the next ones; listeners stay open.

The log takes proposals, committed or not, the tree only what is committed. `retire` brings the tree up to the
end of the log. What was never committed must not get into a snapshot then: it could not be taken back. So a
snapshot under way is given up, and none is taken while there is no role.
"""

import gc
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, Self

import trio

from eventlog import log
from jute.primitives import encode_ustring
from jute.zxid import format_zxid
from persistence.data_dirs import DataDirs, has_fetched, open_data_dirs
from persistence.errors import RESYNC_OR_RESTORE, DataDirError
from persistence.file_names import Compression
from persistence.log_format import zxid_of
from persistence.log_reader import list_logs, logs_holding
from persistence.log_writer import LogWriter
from persistence.recovery import (
    Progress,
    Recovered,
    RecoveryOptions,
    check_leads_to,
    ignore_progress,
    recover,
)
from persistence.snapshot_format import stream_chunks
from persistence.snapshots import SnapshotOptions, list_snapshots, newest_complete, purge, take_snapshot
from persistence.txn_log import TxnLog
from quorum.committed_log import CommittedLog
from quorum.replica import Proposer, Upstream
from server.acls import AccessRules, DigestScheme, IpScheme, Scheme
from server.client_protocol import ClientConnection
from server.client_sessions import Sessions, first_session_id
from server.config import ServerConfig
from server.connection_throttle import ConnectionThrottle
from server.data_tree import DataTree
from server.leading import LeadingPipeline
from server.learning import LearningPipeline
from server.local_sessions import LeaderSessions
from server.loop_meter import EXPIRY, LoopMeter
from server.not_serving import NotServingPipeline
from server.ordering import OrderingPipeline
from server.paths import CONFIG
from server.pipeline import Limits, Pipeline, ServerState
from server.prepare_txn import NewConfig, Preparer
from server.read_only import ReadOnlyPipeline
from server.seats import LeaderSeat, LearnerSeat
from server.standing import FOLLOWER, OBSERVER
from server.stored_tree import StoredTree, StreamedTree
from server.world import World

_SNAPSHOT_SIZE_FACTOR_DEFAULT = 0.33
_NO_DATA = -1


class Front(Protocol):
    """Whoever carries conversations with clients."""

    pipeline: Pipeline

    @property
    def connections(self) -> Iterable[ClientConnection]: ...

    def flush(self) -> None: ...

    def close_idle(self) -> None: ...


class Replica:
    """A server: its tree, its log and snapshots, and what it is at the moment."""

    keeps_committed = True  # in memory, for learners that missed a few

    def __init__(self, config: ServerConfig, world: World, server_id: int, dirs: DataDirs) -> None:
        self.config = config
        self.world = world
        self.server_id = server_id
        self.dirs = dirs
        self.committed_log = CommittedLog(config.commit_log_count)
        tree = DataTree(
            extended_types=config.extended_types_enabled, emulate_353_ttl=config.emulate_353_ttl_nodes
        )
        kept = self.committed_log if self.keeps_committed else None
        self.stored = StoredTree(tree, digests=config.digest_enabled, committed_log=kept)
        self.state = ServerState(
            tree,
            access_rules(config),
            limits(config),
            connection_throttle(config),
            handshake_weights=_handshake_weights(config),
            digests=config.digest_enabled,
            committed_log=kept,
            local_sessions=config.local_sessions_enabled,
            upgrades_sessions=config.local_sessions_upgrading_enabled,
            meter=LoopMeter(world.stopwatch, world.cpu_clock),
        )
        self.txn_log = _txn_log(config, world, dirs)
        self.writer = LogWriter(self.txn_log, world.log_offload, world.log_begin)
        self.fronts: list[Front] = []
        self.recovered = Recovered(zxid=_NO_DATA, snapshot=None, txns_replayed=0)
        self._next_session_id = first_session_id(server_id, world.clock.wall_ms())
        self.pipeline: Pipeline = NotServingPipeline(self.state, self._new_sessions())
        self._on_logged: Callable[[int], None] = ignore_logged
        self._work_left = trio.Event()
        self.state.on_work_left = self._call_for_work
        self._config_node: tuple[str, int] | None = None
        self._last_logged: bytes | None = None  # what was last handed to the log since the tree was loaded
        self._is_loaded = False  # the tree is what the disk leads to, or grew from it
        self._is_ahead_of_log = False  # it grew by what was not logged
        self._gapless_after = 0  # from where on the log can bring others up to date
        self._saving = trio.Lock()
        self._saving_scope: trio.CancelScope | None = None
        self._snapshot_due = trio.Event()
        self._txns_until_snapshot = 0
        self._bytes_until_snapshot: float = 0
        self._draw_snapshot_limits()

    @classmethod
    def open(
        cls, config: ServerConfig, world: World, *, server_id: int, progress: Progress = ignore_progress
    ) -> Self:
        """Read the data directory and be ready for a role. Blocks, and may take long."""
        dirs = open_data_dirs(
            world.disk, config.data_dir, config.data_log_dir, autocreate=config.datadir_autocreate
        )
        replica = cls(config, world, server_id, dirs)
        replica.load(progress)
        return replica

    def load(self, progress: Progress = ignore_progress) -> None:
        """Bring the tree, fresh or not, to the last transaction on disk. Blocks."""
        started_ms = self.world.clock.now_ms()
        self._is_loaded = False
        self.stored.reset()
        gc.disable()  # a tree is no garbage, and looking for some while it grows only costs time
        try:
            self.recovered = recover(
                self.world.disk,
                self.dirs.snap_dir,
                self.dirs.log_dir,
                self.stored,
                recovery_options(self.config),
                progress,
            )
            gc.freeze()  # what was loaded stays: no collection need look at it again
        finally:
            gc.enable()
        self._is_loaded = True
        self._is_ahead_of_log = False
        self._last_logged = None
        self._gapless_after = self.recovered.gapless_after
        self._write_config_node()
        stats = self.state.stats
        took_ms = self.world.clock.now_ms() - started_ms
        log.info(
            f"Snapshot loaded in {took_ms} ms, highest zxid is 0x{self.tree.last_zxid:x}, "
            f"digest is {self.tree.digest}"
        )
        stats.load_times.add(took_ms)
        stats.txns_replayed.add(self.recovered.txns_replayed)
        stats.digest_mismatches = self.stored.digest_mismatches

    # -- what others ask

    @property
    def tree(self) -> DataTree:
        return self.state.tree

    @property
    def last_zxid(self) -> int:
        """Of the last transaction applied; -1 while the database is empty and may not be."""
        if self.recovered.zxid == _NO_DATA and not self.tree.last_zxid:
            return _NO_DATA
        return self.tree.last_zxid

    @property
    def digest_mismatches(self) -> int:
        return self.stored.digest_mismatches

    def connections(self) -> Iterator[ClientConnection]:
        for front in self.fronts:
            yield from front.connections

    # -- batches

    def begin_batch(self) -> None:
        self.pipeline.begin_batch(self.world.clock.now_ms(), self.world.clock.wall_ms())

    def end_batch(self) -> None:
        self.flush()
        self.pipeline.end_batch(self.world.clock.now_ms())

    def flush(self) -> None:
        for front in self.fronts:
            front.flush()

    # -- the log

    def log(self, payload: bytes) -> None:
        self._last_logged = payload
        self.writer.append(payload)

    def flush_log(self) -> None:
        self.writer.flush()

    def on_logged(self, callback: Callable[[int], None]) -> None:
        """Whom to tell, from now on, that the oldest `count` unreported transactions are durable."""
        self._on_logged = callback

    async def log_drained(self) -> None:
        await self.writer.drained()

    async def write_log(self) -> None:
        """The storage task: ends after `writer.finish()`."""
        try:
            await self.writer.run(self._durable)
        finally:
            self.txn_log.close()

    def _durable(self, count: int) -> None:
        """Transactions are on disk: tell who waits for that, then see whether it is time for a snapshot."""
        if self.writer.is_flushing:
            self.pipeline.continue_batch(self.world.clock.now_ms(), self.world.clock.wall_ms())
        else:
            self.begin_batch()
        stats = self.state.stats
        stats.fsyncs.add(round(self.txn_log.last_sync_ms))
        stats.batch_sizes.add(count)
        self._on_logged(count)
        self.flush()
        if (
            self.writer.txns_since_roll > self._txns_until_snapshot
            or self.writer.bytes_since_roll > self._bytes_until_snapshot
        ):
            self.writer.roll()
            self._draw_snapshot_limits()
            self._snapshot_due.set()

    def logged_after(self, zxid: int) -> Iterator[bytes] | None:
        """Payloads on disk, from the beginning of the file that can hold `zxid`, if the files behind that one
        are small beside the newest snapshot, and the log reaches back that far without a gap. Blocks."""
        factor = self.config.snapshot_size_factor
        if factor < 0 or zxid < self._gapless_after:
            return None
        disk = self.world.disk
        files = logs_holding(list_logs(disk, self.dirs.log_dir), zxid)
        if not files or files[0].zxid > zxid:
            return None
        newest = newest_complete(disk, self.dirs.snap_dir, 1)
        if newest:
            factor = factor if factor <= 1 else _SNAPSHOT_SIZE_FACTOR_DEFAULT
            later_bytes = sum(disk.size(file.path) for file in files[1:])
            if later_bytes > factor * disk.size(newest[0].path):
                return None
        return _until_purged(self.txn_log.read_from(files[0].zxid))

    async def truncate(self, zxid: int) -> None:
        """Cut the log back behind `zxid` and load the tree again; a StorageError, and nothing is changed, if
        what is on disk does not lead there."""
        await self.log_drained()
        await self._give_up_snapshot()
        await self.world.snapshot_offload(self._truncate, zxid)

    def _truncate(self, zxid: int) -> None:
        check_leads_to(self.world.disk, self.dirs.snap_dir, self.dirs.log_dir, zxid)
        self._remove_snapshots_after(zxid)
        self.txn_log.truncate_after(zxid)
        self.load()
        if self.tree.last_zxid != zxid:
            raise DataDirError(
                f"cut back to zxid {format_zxid(zxid)}, the log leads to {format_zxid(self.tree.last_zxid)}",
                file=self.dirs.log_dir,
                remedy=RESYNC_OR_RESTORE,
            )

    def _remove_snapshots_after(self, zxid: int) -> None:
        """Of a future that will not be."""
        disk, directory = self.world.disk, self.dirs.snap_dir
        for snapshot in list_snapshots(disk, directory):
            if snapshot.zxid > zxid:
                log.info("snapshot_removed", file=str(snapshot.path), truncating_to=hex(zxid))
                disk.unlink(snapshot.path)
        disk.sync_directory(directory)

    # -- the tree

    def apply(self, payload: bytes) -> None:
        """Apply a committed transaction outside any service, while synchronising."""
        self.stored.replay(payload)

    def snapshot_stream(self) -> Iterator[bytes]:
        """The whole tree as SNAP sends it, in pieces; the tree may change while they are taken."""
        return stream_chunks(self.stored.view())

    async def begin_restore(self) -> "Restoring":
        """Empty the tree, to be filled from a leader's stream; `adopt_snapshot` makes it count.

        A snapshot that goes on from the last role would become one of half a tree, and pass for our history.
        """
        await self._give_up_snapshot()
        self._is_loaded = False
        return Restoring(self, self.stored.begin_stream())

    def restored(self) -> None:
        """The tree is whole, but not on disk."""
        if not self.config.reconfig_enabled:
            self._write_config_node()

    def leave_unlogged(self) -> None:
        self._is_ahead_of_log = True

    async def make_durable(self) -> None:
        """If anything was left unlogged, save the tree, and drop what does not lead up to it."""
        if self._is_ahead_of_log:
            await self.adopt_snapshot()

    async def adopt_snapshot(self) -> None:
        """The tree came from a leader: make it our history on disk.

        Of our own history, what lies beyond it was never committed: replayed over the tree it would change
        it. What lies before it may end too early, or may be wrong: a digest may have told. Whenever we are
        killed, what is on disk is one or the other (recovery.py finishes what is begun here).
        """
        self.stored.settled()
        await self.log_drained()
        await self._give_up_snapshot()
        offload, zxid = self.world.snapshot_offload, self.tree.last_zxid
        await offload(self._cut_log_after, zxid)
        await self.take_snapshot()
        await offload(self._remove_snapshots_after, zxid)
        await offload(self._remove_before, zxid)
        self._gapless_after = zxid
        self._is_loaded = True
        self._is_ahead_of_log = False
        self._last_logged = None

    async def fetched(self) -> None:
        """A leader's tree is our history on disk, and we have entered its epoch."""
        await self.world.snapshot_offload(has_fetched, self.world.disk, self.dirs.snap_dir)

    def _cut_log_after(self, zxid: int) -> None:
        if list_logs(self.world.disk, self.dirs.log_dir):
            self.txn_log.truncate_after(zxid)

    def _remove_before(self, zxid: int) -> None:
        """Remove what came before the snapshot just taken."""
        disk, dirs = self.world.disk, self.dirs
        for snapshot in list_snapshots(disk, dirs.snap_dir):
            if snapshot.zxid < zxid:
                log.info("snapshot_removed", file=str(snapshot.path), followed_by=hex(zxid))
                disk.unlink(snapshot.path)
        disk.sync_directory(dirs.snap_dir)
        for file in list_logs(disk, dirs.log_dir):
            log.info("log_removed", file=str(file.path), followed_by=hex(zxid))
            disk.unlink(file.path)
        disk.sync_directory(dirs.log_dir)

    async def reload(self) -> None:
        """Throw the tree away and load it from disk: what was in memory is not to be trusted."""
        await self.log_drained()
        await self._give_up_snapshot()
        await self.world.snapshot_offload(self.load)

    def set_config(self, text: str, version: int) -> None:
        """Let /zookeeper/config say this, on this server: no transaction is involved."""
        self._config_node = (text, version)
        self._write_config_node()

    def _write_config_node(self) -> None:
        if self._config_node is None:
            return
        text, version = self._config_node
        data = encode_ustring(text)
        self.tree.ensure_config_node()
        wall_ms = self.world.clock.wall_ms()
        self.tree.set_data(CONFIG, len(data).to_bytes(4, "big") + data, -1, version, wall_ms)

    # -- roles

    def lead(self, epoch: int, proposer: Proposer) -> LeaderSeat:
        """Serve as leader: zxids start above epoch << 32, which counts as processed."""
        self.tree.last_zxid = max(self.tree.last_zxid, epoch << 32)
        local = self._new_sessions()
        sessions = LeaderSessions(
            self.config.tick_ms, local.next_id, local, others_are_local=self.config.local_sessions_enabled
        )
        self._open_known(sessions)
        preparer = self.preparer(sessions, proposer.new_config)
        pipeline = LeadingPipeline(self.state, sessions, local, preparer, proposer)
        self._assume(pipeline)
        if not self.config.leader_serves:
            self._refuse_clients()
        pipeline.close_ownerless()
        log.info(ordering_sentence(self.server_id, self.config))
        return LeaderSeat(self, pipeline)

    def learn(self, upstream: Upstream, *, is_observer: bool) -> LearnerSeat:
        """Serve as follower or observer."""
        mode = OBSERVER if is_observer else FOLLOWER
        pipeline = LearningPipeline(self.state, self.stored, self._new_sessions(), upstream, mode)
        self._assume(pipeline)
        return LearnerSeat(self, pipeline)

    def serve_read_only(self) -> None:
        """Serve reads to clients that ask for no more, while there is no quorum."""
        self._assume(ReadOnlyPipeline(self.state, self._new_sessions()))

    async def caught_up(self) -> None:
        """Return as soon as all that is committed is applied."""
        while self.pipeline.is_behind:
            await trio.lowlevel.checkpoint()

    async def retire(self) -> None:
        """Stop serving, if anything is served: clients are let go. Then bring the tree up to the end of the
        log, committed or not: it is what the next vote stands for."""
        await self.caught_up()
        self._assume(NotServingPipeline(self.state, self._new_sessions()))
        self._on_logged = ignore_logged
        await self.log_drained()
        if not self._is_loaded:
            await self.reload()
        elif self._last_logged is not None and zxid_of(self._last_logged) > self.tree.last_zxid:
            await self._give_up_snapshot()
            for payload in await self.world.snapshot_offload(self._logged_unapplied):
                self.stored.replay(payload)

    def _logged_unapplied(self) -> list[bytes]:
        return list(self.txn_log.read_from(self.tree.last_zxid + 1))

    def _assume(self, pipeline: Pipeline) -> None:
        """Let clients go, and have the next ones served by this pipeline."""
        self.begin_batch()
        for connection in list(self.connections()):
            connection.close()
        self._next_session_id = max(self._next_session_id, self.pipeline.sessions.next_id)
        self.state.stats.digest_mismatches = self.stored.digest_mismatches
        self.tree.tracks_digest = self.config.digest_enabled and not isinstance(pipeline, OrderingPipeline)
        self.pipeline = pipeline
        self.begin_batch()
        for front in self.fronts:
            front.pipeline = pipeline
        self.flush()

    def _refuse_clients(self) -> None:
        """Leading is work enough (leaderServes=no): clients have to go to the others."""
        refusing = NotServingPipeline(self.state, self._new_sessions())
        refusing.begin_batch(self.world.clock.now_ms(), self.world.clock.wall_ms())
        for front in self.fronts:
            front.pipeline = refusing

    def _new_sessions(self) -> Sessions:
        """Ids go on from role to role, and from one start to the next as the clock does.

        A clock set back must not make them go on behind the last id of ours in use: those that follow it may
        have been given out too, to clients that would come back and be taken for the new owners.
        """
        started = first_session_id(self.server_id, self.world.clock.wall_ms())
        self._next_session_id = max(self._next_session_id, started)
        return Sessions(self.config.tick_ms, self._next_session_id, self.tree.session_timeouts_ms)

    def _open_known(self, sessions: Sessions) -> None:
        """Sessions survive restarts and leaders, each with its whole timeout ahead of it."""
        now_ms = self.world.clock.now_ms()
        for session_id, timeout_ms in self.tree.session_timeouts_ms.items():
            sessions.open(session_id, timeout_ms, now_ms)

    def preparer(self, sessions: Sessions, new_config: NewConfig | None = None) -> Preparer:
        config = self.config
        return Preparer(
            self.tree,
            sessions,
            self.state.rules,
            digests=config.digest_enabled,
            enforce_quota=config.enforce_quota,
            ttl_nodes=config.extended_types_enabled,
            lists_ephemerals=config.close_session_txn_enabled,
            reconfig_enabled=config.reconfig_enabled,
            new_config=new_config,
        )

    # -- tasks beside serving

    def _call_for_work(self) -> None:
        self._work_left.set()

    async def work_off(self) -> None:
        """Do what takes long, one slice between two looks at the sockets."""
        while True:
            await self._work_left.wait()
            self._work_left = trio.Event()
            self.begin_batch()
            self.pipeline.go_on()
            self.end_batch()
            await trio.lowlevel.checkpoint()

    async def tick(self) -> None:
        """Expire sessions and close silent connections, on every multiple of the tick.

        When that comes late (the process was stopped, or something took long), clients may have spoken while
        nobody listened: they are heard first, and judged a tick later.
        """
        tick_ms, clock = self.config.tick_ms, self.world.clock
        while True:
            now_ms = clock.now_ms()
            due_ms = (now_ms // tick_ms + 1) * tick_ms
            await trio.sleep((due_ms - now_ms) / 1000)
            if clock.now_ms() > due_ms + tick_ms // 2:
                await trio.sleep(tick_ms / 1000)
            self.begin_batch()
            self.pipeline.expire_sessions()
            self.state.meter.noted(EXPIRY, 0, 0)
            for front in self.fronts:
                front.close_idle()
            self.end_batch()

    def _draw_snapshot_limits(self) -> None:
        """A random part keeps the servers of an ensemble from saving at the same moment."""
        half = self.config.snap_count // 2
        self._txns_until_snapshot = half + self.world.random.randint(0, half)
        size = self.config.snap_size_limit_bytes
        self._bytes_until_snapshot = (
            size // 2 + self.world.random.randint(0, size // 2) if size > 0 else math.inf
        )

    async def take_snapshots(self) -> None:
        """Save the tree whenever enough has been logged; one that comes while there is no role is left out:
        the tree may hold what was never committed."""
        while True:
            await self._snapshot_due.wait()
            self._snapshot_due = trio.Event()
            if self.pipeline.is_serving and not self.pipeline.is_read_only:
                with trio.CancelScope() as self._saving_scope:
                    await self.take_snapshot()
                self._saving_scope = None

    async def take_snapshot(self) -> None:
        async with self._saving:
            started_ms = self.world.clock.now_ms()
            log.info(f"Snapshotting: 0x{self.tree.last_zxid:x} to {self.dirs.snap_dir}")
            await take_snapshot(
                self.world.disk,
                self.world.snapshot_offload,
                self.dirs.snap_dir,
                self.stored.view(),
                snapshot_options(self.config),
                self.log_drained,
            )
            elapsed_ms = self.world.clock.now_ms() - started_ms
            self.state.stats.snapshots += 1
            self.state.stats.snapshot_times.add(elapsed_ms)
            log.info(f"Snapshot taken in {elapsed_ms} ms")

    async def _give_up_snapshot(self) -> None:
        """Whatever is being saved is not to be finished; returns when nothing of it is left."""
        if self._saving_scope is not None:
            self._saving_scope.cancel()
        async with self._saving:
            pass

    async def reap_containers(self) -> None:
        """Delete container and TTL nodes whose time has come, not more of them a minute than is allowed."""
        while True:
            await trio.sleep(self.config.container_check_ms / 1000)
            pipeline = self.pipeline
            if isinstance(pipeline, OrderingPipeline):
                await self._reap_containers(pipeline)

    async def _reap_containers(self, pipeline: OrderingPipeline) -> None:
        config = self.config
        pause_s = 60 / max(1, config.container_max_per_minute)
        self.begin_batch()
        for path in pipeline.expired_containers(config.container_max_never_used_ms):
            if path is None:
                await trio.lowlevel.checkpoint()
                self.begin_batch()
            if self.pipeline is not pipeline:
                return
            if path is not None:
                log.info("container_or_ttl_node_expired", path=path.decode("utf-8", "replace"))
                pipeline.submit_delete_container(path)
                self.end_batch()
                await trio.sleep(pause_s)
                self.begin_batch()

    async def purge_old_files(self) -> None:
        config = self.config
        while config.autopurge_interval_hours > 0:
            log.info("Purge task started.")
            await self.world.snapshot_offload(
                purge,
                self.world.disk,
                self.dirs.snap_dir,
                self.dirs.log_dir,
                config.autopurge_snap_retain_count,
            )
            log.info("Purge task completed.")
            await trio.sleep(config.autopurge_interval_hours * 3600)


class Restoring:
    """A replica whose tree is being filled from a stream."""

    def __init__(self, replica: Replica, stream: StreamedTree) -> None:
        self._replica = replica
        self._stream = stream

    def feed(self, chunk: bytes) -> bytes | None:
        return self._stream.feed(chunk)

    def finish(self, zxid: int) -> None:
        self._stream.finish(zxid)
        self._replica.restored()


def _until_purged(payloads: Iterator[bytes]) -> Iterator[bytes]:
    """Old files may be removed while somebody reads on and on: then there is no more."""
    try:
        yield from payloads
    except FileNotFoundError:
        return


def ordering_sentence(server_id: int, config: ServerConfig) -> str:
    """What the original says once it orders writes."""
    reconfig = str(config.reconfig_enabled).lower()
    return f"PrepRequestProcessor (sid:{server_id}) started, reconfigEnabled={reconfig}"


def ignore_logged(count: int) -> None:
    """Nobody waits for these to be durable."""


def access_rules(config: ServerConfig) -> AccessRules:
    schemes: dict[str, Scheme] = {"ip": IpScheme()}
    if config.digest_auth_enabled:
        schemes["digest"] = DigestScheme(
            algorithm=config.digest_auth_algorithm, super_digest=config.super_digest
        )
    return AccessRules(schemes=schemes, skip_acl=config.skip_acl)


def limits(config: ServerConfig) -> Limits:
    return Limits(
        frame_bytes_max=config.jute_maxbuffer_bytes,
        session_ms_min=config.session_ms_min,
        session_ms_max=config.session_ms_max,
        outstanding_max=config.request_throttle_max_requests or config.global_outstanding_limit,
        multi_read_operations_max=config.multi_read_operations_max,
        multi_read_bytes_max=config.multi_read_bytes_max,
        unsent_bytes_max=config.unsent_bytes_max,
        large_request_threshold_bytes=config.large_request_threshold_bytes,
        large_request_bytes_max=config.large_request_max_bytes,
        throttled_op_wait_ms=config.throttled_op_wait_ms,
        enforced_schemes=frozenset(config.enforce_auth_schemes),
    )


def connection_throttle(config: ServerConfig) -> ConnectionThrottle:
    return ConnectionThrottle(
        config.connection_throttle_tokens,
        config.connection_throttle_fill_ms,
        config.connection_throttle_fill_count,
        config.connection_throttle_freeze_ms,
        config.connection_throttle_drop_increase,
        config.connection_throttle_drop_decrease,
        config.connection_throttle_decrease_ratio,
    )


def snapshot_options(config: ServerConfig) -> SnapshotOptions:
    return SnapshotOptions(
        compression=Compression(config.snapshot_compression),
        with_digest=config.digest_enabled,
        with_last_zxid=config.serialize_last_zxid,
    )


def recovery_options(config: ServerConfig) -> RecoveryOptions:
    return RecoveryOptions(
        has_leader=config.is_distributed,
        trust_empty=config.snapshot_trust_empty,
        db_autocreate=config.db_autocreate,
        snapshots=snapshot_options(config),
    )


def _txn_log(config: ServerConfig, world: World, dirs: DataDirs) -> TxnLog:
    return TxnLog(
        world.disk,
        dirs.log_dir,
        preallocate_bytes=config.preallocate_bytes,
        force_sync=config.force_sync,
        size_limit_bytes=config.txn_log_size_limit_bytes or None,
        slow_sync_ms=config.fsync_warning_ms,
        on_slow_sync=_report_slow_sync,
        clock=world.stopwatch,
    )


def _report_slow_sync(elapsed_ms: float, file_bytes: int) -> None:
    log.warning(
        f"fsync-ing the write ahead log in SyncThread:0 took {elapsed_ms:.0f}ms which will adversely effect "
        f"operation latency. File size is {file_bytes} bytes. See the ZooKeeper troubleshooting guide"
    )


def _handshake_weights(config: ServerConfig) -> tuple[int, int]:
    if not config.connection_throttle_weight_enabled:
        return 1, 1
    is_local = config.is_distributed and config.local_sessions_enabled
    return (
        config.connection_throttle_local_session_weight
        if is_local
        else config.connection_throttle_global_session_weight,
        config.connection_throttle_renew_session_weight,
    )
