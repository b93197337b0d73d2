"""A standalone server put together: configuration in, a pipeline with its log and snapshots out.

    storage            the log writer: only owner of the log file, last to stop
    └── serving        clients, ticks, snapshots, reaping of containers, purging

The nesting is the shutdown order: `serving` is cancelled first, then the log writer finishes what it was
handed.
"""

import gc
import math
from collections.abc import Iterable, Iterator
from random import Random
from typing import Protocol

import attrs
import structlog
import trio

from persistence.data_dirs import DataDirs, open_data_dirs
from persistence.disk import Disk
from persistence.file_names import Compression
from persistence.log_writer import LogWriter
from persistence.offload import Offload
from persistence.recovery import Progress, Recovered, RecoveryOptions, ignore_progress, recover
from persistence.snapshots import SnapshotOptions, purge, take_snapshot, take_snapshot_now
from persistence.txn_log import TxnLog
from server.acls import AccessRules, DigestScheme, IpScheme, Scheme
from server.client_protocol import ClientConnection
from server.client_sessions import Sessions, first_session_id
from server.clock import Clock
from server.config import ServerConfig
from server.connection_throttle import ConnectionThrottle
from server.data_tree import DataTree
from server.pipeline import Limits, Pipeline
from server.prepare_txn import Preparer
from server.stored_tree import StoredTree

log = structlog.get_logger()

STANDALONE_SERVER_ID = 1


@attrs.frozen(kw_only=True)
class World:
    """Everything a server has to do with besides its clients: real, or a test's."""

    disk: Disk
    log_offload: Offload
    snapshot_offload: Offload
    random: Random
    clock: Clock


class Front(Protocol):
    """Whoever carries conversations with clients."""

    @property
    def connections(self) -> Iterable[ClientConnection]: ...

    def flush(self) -> None: ...

    def close_idle(self) -> None: ...


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


@attrs.define(eq=False)
class Standalone:
    """One server that orders its own writes."""

    config: ServerConfig
    world: World
    dirs: DataDirs
    recovered: Recovered
    stored: StoredTree
    pipeline: Pipeline
    txn_log: TxnLog
    writer: LogWriter
    fronts: list[Front] = attrs.field(factory=list)
    _snapshot_due: trio.Event = attrs.field(factory=trio.Event, init=False)
    _txns_until_snapshot: int = attrs.field(default=0, init=False)
    _bytes_until_snapshot: float = attrs.field(default=0, init=False)

    @classmethod
    def open(cls, config: ServerConfig, world: World, progress: Progress = ignore_progress) -> "Standalone":
        """Read the data directory and be ready to serve. Blocks, and may take long."""
        disk, clock = world.disk, world.clock
        tree = DataTree(
            extended_types=config.extended_types_enabled, emulate_353_ttl=config.emulate_353_ttl_nodes
        )
        stored = StoredTree(tree, digests=config.digest_enabled)
        dirs = open_data_dirs(
            disk, config.data_dir, config.data_log_dir, autocreate=config.datadir_autocreate
        )
        started_ms = clock.now_ms()
        gc.disable()  # a tree is no garbage, and looking for some while it grows only costs time
        recovered = recover(disk, dirs.snap_dir, dirs.log_dir, stored, _recovery_options(config), progress)
        gc.freeze()  # what was loaded stays: no collection need look at it again
        gc.enable()
        if _delete_ownerless_ephemerals(tree):
            # No transaction says so: without a snapshot, the next start would find them again, in the way
            # of what is created in their place from now on.
            take_snapshot_now(disk, dirs.snap_dir, stored, _snapshot_options(config))
        sessions = _known_sessions(tree, config.tick_ms, clock)
        rules = access_rules(config)
        txn_log = _txn_log(config, disk, dirs)
        writer = LogWriter(txn_log, world.log_offload)
        pipeline = Pipeline(
            tree=tree,
            sessions=sessions,
            rules=rules,
            preparer=_preparer(config, tree, sessions, rules),
            sink=writer,
            limits=limits(config),
            throttle=connection_throttle(config),
            handshake_weights=_handshake_weights(config),
        )
        pipeline.begin_batch(clock.now_ms(), clock.wall_ms())
        pipeline.stats.load_times.add(clock.now_ms() - started_ms)
        pipeline.stats.txns_replayed.add(recovered.txns_replayed)
        pipeline.stats.digest_mismatches = stored.digest_mismatches
        server = cls(config, world, dirs, recovered, stored, pipeline, txn_log, writer)
        server._draw_snapshot_limits()
        return server

    async def write_log(self) -> None:
        """The storage task: ends after `writer.finish()`."""
        try:
            await self.writer.run(self._durable)
        finally:
            self.txn_log.close()

    def _durable(self, count: int) -> None:
        """Transactions are on disk: apply and answer them, then see whether it is time for a snapshot."""
        self._begin_batch()
        self.pipeline.stats.fsyncs.add(round(self.txn_log.last_sync_ms))
        self.pipeline.stats.batch_sizes.add(count)
        self.pipeline.committed(count)
        self.flush()
        if (
            self.writer.txns_since_roll > self._txns_until_snapshot
            or self.writer.bytes_since_roll > self._bytes_until_snapshot
        ):
            self.writer.roll()
            self._draw_snapshot_limits()
            self._snapshot_due.set()

    def _begin_batch(self) -> None:
        self.pipeline.begin_batch(self.world.clock.now_ms(), self.world.clock.wall_ms())

    def _end_batch(self) -> None:
        self.flush()
        self.pipeline.end_batch(self.world.clock.now_ms())

    def connections(self) -> Iterator[ClientConnection]:
        for front in self.fronts:
            yield from front.connections

    def flush(self) -> None:
        for front in self.fronts:
            front.flush()

    def _draw_snapshot_limits(self) -> None:
        """A random part keeps the servers of an ensemble from saving at the same moment."""
        half = self.config.snap_count // 2
        self._txns_until_snapshot = half + self.world.random.randint(0, half)
        size = self.config.snap_size_limit_bytes
        self._bytes_until_snapshot = (
            size // 2 + self.world.random.randint(0, size // 2) if size > 0 else math.inf
        )

    # -- tasks beside serving

    async def tick(self) -> None:
        """Expire sessions and close silent connections, on every multiple of the tick.

        When that comes late (the process was stopped, or something took long), clients may have spoken while
        nobody listened: they are heard first, and judged a tick later.
        """
        tick_ms, clock = self.config.tick_ms, self.world.clock
        while True:
            due_ms = (clock.now_ms() // tick_ms + 1) * tick_ms
            await trio.sleep((due_ms - clock.now_ms()) / 1000)
            if clock.now_ms() > due_ms + tick_ms // 2:
                await trio.sleep(tick_ms / 1000)
            self._begin_batch()
            self.pipeline.expire_sessions()
            for front in self.fronts:
                front.close_idle()
            self._end_batch()

    async def take_snapshots(self) -> None:
        while True:
            await self._snapshot_due.wait()
            self._snapshot_due = trio.Event()
            await self.take_snapshot()

    async def take_snapshot(self) -> None:
        started_ms = self.world.clock.now_ms()
        log.info(f"Snapshotting: 0x{self.pipeline.tree.last_zxid:x} to {self.dirs.snap_dir}")
        options = _snapshot_options(self.config)
        await take_snapshot(
            self.world.disk, self.world.snapshot_offload, self.dirs.snap_dir, self.stored, options
        )
        elapsed_ms = self.world.clock.now_ms() - started_ms
        self.pipeline.stats.snapshots += 1
        self.pipeline.stats.snapshot_times.add(elapsed_ms)
        log.info(f"Snapshot taken in {elapsed_ms} ms")

    async def reap_containers(self) -> None:
        """Delete container and TTL nodes whose time has come, not more of them a minute than is allowed."""
        config = self.config
        pause_s = 60 / max(1, config.container_max_per_minute)
        while True:
            await trio.sleep(config.container_check_ms / 1000)
            self._begin_batch()
            for path in list(self.pipeline.expired_containers(config.container_max_never_used_ms)):
                log.info("container_or_ttl_node_expired", path=path.decode("utf-8", "replace"))
                self.pipeline.submit_delete_container(path)
                self._end_batch()
                await trio.sleep(pause_s)
                self._begin_batch()

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


def _snapshot_options(config: ServerConfig) -> SnapshotOptions:
    return SnapshotOptions(
        compression=Compression(config.snapshot_compression),
        with_digest=config.digest_enabled,
        with_last_zxid=config.serialize_last_zxid,
    )


def _recovery_options(config: ServerConfig) -> RecoveryOptions:
    return RecoveryOptions(
        trust_empty=config.snapshot_trust_empty,
        db_autocreate=config.db_autocreate,
        snapshots=_snapshot_options(config),
    )


def _txn_log(config: ServerConfig, disk: Disk, dirs: DataDirs) -> TxnLog:
    return TxnLog(
        disk,
        dirs.log_dir,
        preallocate_bytes=config.preallocate_bytes,
        force_sync=config.force_sync,
        size_limit_bytes=config.txn_log_size_limit_bytes or None,
        slow_sync_ms=config.fsync_warning_ms,
        on_slow_sync=_report_slow_sync,
    )


def _report_slow_sync(elapsed_ms: float, file_bytes: int) -> None:
    log.warning(
        f"fsync-ing the write ahead log in SyncThread:0 took {elapsed_ms:.0f}ms which will adversely effect "
        f"operation latency. File size is {file_bytes} bytes. See the ZooKeeper troubleshooting guide"
    )


def _preparer(config: ServerConfig, tree: DataTree, sessions: Sessions, rules: AccessRules) -> Preparer:
    return Preparer(
        tree,
        sessions,
        rules,
        digests=config.digest_enabled,
        enforce_quota=config.enforce_quota,
        ttl_nodes=config.extended_types_enabled,
        lists_ephemerals=config.close_session_txn_enabled,
        reconfig_enabled=config.reconfig_enabled,
    )


def _handshake_weights(config: ServerConfig) -> tuple[int, int]:
    if not config.connection_throttle_weight_enabled:
        return 1, 1
    return config.connection_throttle_global_session_weight, config.connection_throttle_renew_session_weight


def _known_sessions(tree: DataTree, tick_ms: int, clock: Clock) -> Sessions:
    """Sessions survive a restart, each with its whole timeout ahead of it.

    New ids start from the wall clock, beyond every id still in use: the original starts from the machine's
    uptime and can repeat itself after a reboot.
    """
    started = first_session_id(STANDALONE_SERVER_ID, clock.wall_ms())
    mine = [known for known in tree.session_timeouts_ms if known >> 56 == started >> 56]
    sessions = Sessions(tick_ms, max([started, *(known + 1 for known in mine)]))
    for session_id, timeout_ms in tree.session_timeouts_ms.items():
        sessions.open(session_id, timeout_ms, clock.now_ms())
    return sessions


def _delete_ownerless_ephemerals(tree: DataTree) -> bool:
    """A session missing from the table is closed: its nodes go, as they should have. Were there any?"""
    ownerless = [owner for owner in tree.ephemerals if owner not in tree.session_timeouts_ms]
    for session_id in ownerless:
        for path in list(tree.ephemerals[session_id]):
            tree.delete(path, tree.last_zxid)
    return bool(ownerless)
