"""Every metric of the server under its ZooKeeper name, read at one moment.

Names and kinds are those of ZooKeeper 3.9: dashboards and alerts ask for them. A name whose matter cannot
arise here is there all the same, with 0: elections of a standalone server, stages of the original's pipeline
that ours does not have. Where one measurement of ours is what several names mean, they all show it. What the
original does not measure has names of our own, which begin with OWN_PREFIX.

Three surfaces show what is read here: the word mntr, the AdminServer and the Prometheus endpoint. `spelled`
is the flat form of the first two.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol, TypeVar

import attrs

from jute.opcodes import EventType
from jute.primitives import decode_ustring
from server.client_protocol import ClientConnection
from server.data_tree import DataTree
from server.loop_meter import LoopMeter
from server.paths import QUOTA
from server.pipeline import Pipeline
from server.quotas import LIMITS, STATS, numbers_in
from server.server_stats import ServerStats
from server.standing import Standing
from server.summaries import PercentileSummary, Summary

Number = int | float
_T = TypeVar("_T")

COUNTERS: Final = """
    snapshot_error_count snapshot_rate_limited_count restore_error_count restore_rate_limited_count
    looking_count diff_count snap_count commit_count connection_request_count connection_rejected
    bytes_received_count unrecoverable_error_count add_dead_watcher_stall_time dead_watchers_queued
    dead_watchers_cleared response_packet_cache_hits response_packet_cache_misses
    response_packet_get_children_cache_hits response_packet_get_children_cache_misses
    ensemble_auth_success ensemble_auth_fail ensemble_auth_skip prep_processor_request_queued
    outstanding_changes_queued outstanding_changes_removed revalidate_count connection_drop_count
    connection_revalidate_count sessionless_connections_expired stale_sessions_expired
    request_commit_queued throttled_ops learner_proposal_received_count learner_commit_received_count
    sync_processor_request_queued proposal_count quit_leading_due_to_disloyal_voter stale_requests
    stale_requests_dropped stale_replies request_throttle_wait_count large_requests_rejected
    digest_mismatches_count unsuccessful_handshake insecure_admin_count tls_handshake_exceeded
    cnxn_closed_without_zk_server_running skip_learner_request_to_next_processor_count
    requests_not_forwarded_to_commit_processor response_bytes watch_bytes
""".split()

SUMMARIES: Final = """
    fsynctime snapshottime restore_time dbinittime follower_sync_time observer_sync_time election_time
    connection_token_deficit inflight_snap_count inflight_diff_count node_created_watch_count
    node_deleted_watch_count node_changed_watch_count node_children_watch_count
    prep_processor_queue_size prep_process_time proposal_process_time unavailable_time
    leader_unavailable_time requests_in_session_queue pending_session_queue_size
    reads_after_write_in_session_queue reads_issued_from_session_queue session_queues_drained
    time_waiting_empty_pool_in_commit_processor_read_ms write_batch_time_in_commit_processor
    concurrent_request_processing_in_commit_processor read_commit_proc_req_queued
    write_commit_proc_req_queued commit_commit_proc_req_queued read_commit_proc_issued
    write_commit_proc_issued commit_process_time startup_txns_loaded startup_txns_load_time
    startup_snap_load_time sync_processor_queue_size sync_process_time sync_processor_batch_size
    netty_queued_buffer_capacity learner_request_processor_queue_size socket_closing_time
""".split()

PERCENTILE_SUMMARIES: Final = """
    readlatency updatelatency propagation_latency dead_watchers_cleaner_latency
    prep_processor_queue_time_ms close_session_prep_time read_commitproc_time_ms
    write_commitproc_time_ms local_write_committed_time_ms server_write_committed_time_ms
    om_proposal_process_time_ms om_commit_process_time_ms read_final_proc_time_ms
    write_final_proc_time_ms proposal_latency proposal_ack_creation_latency commit_propagation_latency
    sync_processor_queue_and_flush_time_ms sync_processor_queue_time_ms
    sync_processor_queue_flush_time_ms quorum_ack_latency request_throttle_queue_time_ms
    jvm_pause_time_ms
""".split()

OWN_PREFIX: Final = "triokeeper_"
_PERCENTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_LENGTH_PREFIX_BYTES: Final = 4
_NOT_IN_A_NAME: Final = re.compile(r"^[.-]|[^\w.-]", re.ASCII)


class Host(Protocol):
    """What the machine knows about this process; host_facts.py in a running server."""

    def open_files(self) -> int: ...

    def open_files_max(self) -> int: ...

    def directory_bytes(self, directory: Path) -> int:
        """The size of all files at and below a directory."""

    def environment(self) -> Mapping[str, str]:
        """What the word envi shows, in its order."""


@attrs.frozen(kw_only=True)
class Metrics:
    """All metrics by kind; a set holds one value for each namespace."""

    gauges: Mapping[str, Number]
    gauge_sets: Mapping[str, Mapping[str, int]]
    counters: Mapping[str, int]
    counter_sets: Mapping[str, Mapping[str, int]]
    summaries: Mapping[str, Summary]
    percentile_summaries: Mapping[str, PercentileSummary]
    own: Mapping[str, Number]  # what the original does not know


@attrs.frozen(eq=False)
class MetricsReader:
    """Knows where every number is kept."""

    current_pipeline: Callable[[], Pipeline]  # it changes with the role
    connections: Callable[[], Iterable[ClientConnection]]
    host: Host
    started_ms: int  # of the clock that Pipeline.now_ms shows

    @property
    def pipeline(self) -> Pipeline:
        return self.current_pipeline()

    @property
    def connection_count(self) -> int:
        """Of all connections, those without a session included."""
        return sum(1 for _ in self.connections())

    def read(self, standing: Standing) -> Metrics:
        stats = self.pipeline.stats
        return Metrics(
            gauges={**self._gauges(), **standing.gauges},
            gauge_sets=quota_gauges(self.pipeline.tree),
            counters=_in_order(COUNTERS, self._counters(), 0),
            counter_sets={"quota_exceeded_error_per_namespace": _by_name(self.pipeline.tree.quotas.refusals)},
            summaries=_in_order(SUMMARIES, _summaries(stats), Summary()),
            percentile_summaries=_in_order(
                PERCENTILE_SUMMARIES, _percentile_summaries(stats), PercentileSummary()
            ),
            own=_loop_gauges(self.pipeline.meter),
        )

    def _gauges(self) -> dict[str, Number]:
        pipeline, stats = self.pipeline, self.pipeline.stats
        requests = stats.requests
        return {
            "avg_latency": requests.average,
            "max_latency": requests.greatest,
            "min_latency": requests.least,
            "packets_received": stats.packets_received,
            "packets_sent": stats.packets_sent,
            "num_alive_connections": self.connection_count,
            "outstanding_requests": pipeline.outstanding,
            "uptime": pipeline.now_ms - self.started_ms,
            **_tree_gauges(pipeline),
            "open_file_descriptor_count": self.host.open_files(),
            "max_file_descriptor_count": self.host.open_files_max(),
            "connection_drop_probability": float(pipeline.throttle.drop_chance),
            "last_client_response_size": _without_prefix(stats.responses.last),
            "max_client_response_size": _without_prefix(stats.responses.largest),
            "min_client_response_size": _without_prefix(stats.responses.smallest),
            "outstanding_tls_handshake": 0,
            "auth_failed_count": stats.auth_failures,
            "non_mtls_remote_conn_count": 0,
            "non_mtls_local_conn_count": 0,
        }

    def _counters(self) -> dict[str, int]:
        """What happened so far.

        The original counts at the entrance of each stage of its pipeline. Ours has fewer: all requests enter
        the server, writes alone enter the log, and a write's changes are outstanding until it is committed.
        """
        stats, in_flight = self.pipeline.stats, len(self.pipeline.in_flight)
        return {
            **self._ensemble_counters(),
            "snapshot_error_count": stats.snapshot_errors,
            "snapshot_rate_limited_count": stats.snapshots_rate_limited,
            "restore_error_count": stats.restore_errors,
            "restore_rate_limited_count": stats.restores_rate_limited,
            "connection_request_count": stats.connect_requests,
            "connection_rejected": stats.connections_rejected,
            "bytes_received_count": stats.bytes_received,
            "unrecoverable_error_count": stats.unrecoverable_errors,
            "prep_processor_request_queued": stats.requests.count + self.pipeline.outstanding,
            "outstanding_changes_queued": stats.commits + in_flight,
            "outstanding_changes_removed": stats.commits,
            "connection_drop_count": stats.connections_lost,
            "connection_revalidate_count": stats.sessions_renewed,
            "sessionless_connections_expired": stats.connections_idle,
            "stale_sessions_expired": stats.sessions_expired,
            "throttled_ops": stats.throttled_ops,
            "sync_processor_request_queued": stats.commits + in_flight,
            "large_requests_rejected": stats.large_requests_rejected,
            "digest_mismatches_count": stats.digest_mismatches,
            "response_bytes": max(0, stats.bytes_sent - stats.watch_bytes - stats.word_bytes),
            "watch_bytes": stats.watch_bytes,
        }

    def _ensemble_counters(self) -> dict[str, int]:
        stats = self.pipeline.stats
        ensemble = stats.ensemble
        return {
            "looking_count": ensemble.looks,
            "diff_count": ensemble.diffs,
            "snap_count": ensemble.snapshots,
            "commit_count": ensemble.commits,
            "proposal_count": ensemble.proposals,
            "revalidate_count": ensemble.revalidations,
            "request_commit_queued": ensemble.commits + ensemble.commits_received,
            "learner_proposal_received_count": ensemble.proposals_received,
            "learner_commit_received_count": ensemble.commits_received,
        }


def _tree_gauges(pipeline: Pipeline) -> dict[str, Number]:
    tree = pipeline.tree
    return {
        "znode_count": tree.node_count,
        "watch_count": sum(connection.watched.count() for connection in pipeline.connections.values()),
        "ephemerals_count": sum(map(len, tree.ephemerals.values())),
        "approximate_data_size": tree.approximate_data_bytes,
        "global_sessions": len(tree.session_timeouts_ms),
        "local_sessions": len(pipeline.local.by_id),
    }


def _summaries(stats: ServerStats) -> dict[str, Summary]:
    told, ensemble = stats.watchers_told, stats.ensemble
    return {
        "follower_sync_time": ensemble.follower_sync_times,
        "observer_sync_time": ensemble.observer_sync_times,
        "election_time": ensemble.election_times,
        "unavailable_time": ensemble.unavailable_times,
        "leader_unavailable_time": ensemble.leader_unavailable_times,
        "inflight_snap_count": ensemble.snapshots_under_way,
        "inflight_diff_count": ensemble.diffs_under_way,
        "fsynctime": stats.fsyncs,
        "snapshottime": stats.snapshot_times,
        "restore_time": stats.restore_times,
        "dbinittime": stats.load_times,
        "connection_token_deficit": stats.token_deficits,
        "node_created_watch_count": told[EventType.NODE_CREATED],
        "node_deleted_watch_count": told[EventType.NODE_DELETED],
        "node_changed_watch_count": told[EventType.NODE_DATA_CHANGED],
        "node_children_watch_count": told[EventType.NODE_CHILDREN_CHANGED],
        "startup_txns_loaded": stats.txns_replayed,
        "startup_txns_load_time": stats.replay_times,
        "startup_snap_load_time": stats.snapshot_load_times,
        "sync_processor_batch_size": stats.batch_sizes,
    }


def _percentile_summaries(stats: ServerStats) -> dict[str, PercentileSummary]:
    """A write is prepared and handed to the log when it arrives, applied and answered when it is durable.

    Hence one measurement is the latency of the update, of its propagation, and of queue and flush together.
    In an ensemble a write is propagated to servers that were not asked for it.
    """
    ensemble = stats.ensemble
    return {
        "readlatency": stats.reads,
        "updatelatency": stats.writes,
        "propagation_latency": ensemble.propagations if ensemble.propagations.count else stats.writes,
        "quorum_ack_latency": ensemble.quorum_acks,
        "commit_propagation_latency": ensemble.commit_propagations,
        "sync_processor_queue_and_flush_time_ms": stats.writes,
        "sync_processor_queue_flush_time_ms": stats.fsyncs,
    }


def _loop_gauges(meter: LoopMeter) -> dict[str, Number]:
    """How long the loop was held, and how often for too long by what; see loop_meter.py."""
    holds = meter.holds
    percentiles = zip(_PERCENTILES, holds.percentiles(_PERCENTILES.values()), strict=True)
    long_holds = {
        f"loop_held_long_{_NOT_IN_A_NAME.sub('_', kind)}{f'_{op}' if op else ''}": count
        for (kind, op), count in sorted(meter.long_holds.items())
    }
    return {
        "loop_held_us_avg": holds.average,
        "loop_held_us_max": holds.greatest,
        "loop_held_us_cnt": holds.count,
        "loop_held_us_sum": holds.total,
        **{f"loop_held_us_{name}": value for name, value in percentiles},
        "loop_held_long": sum(meter.long_holds.values()),
        **long_holds,
    }


def quota_gauges(tree: DataTree) -> dict[str, dict[str, int]]:
    """Limits and usage of all quotas, added up for each namespace; a hard limit counts before a soft one."""
    found: dict[str, dict[str, int]] = {
        f"quota_{what}_per_namespace": {}
        for what in ("count_limit", "bytes_limit", "count_usage", "bytes_usage")
    }
    count_limit, bytes_limit, count_usage, bytes_usage = found.values()
    for path in sorted(tree.quotas.paths):
        namespace = decode_ustring(path.split(b"/")[1])
        limits, usage = _quota_numbers(tree, path, LIMITS), _quota_numbers(tree, path, STATS)
        if limits is not None:
            _increase(count_limit, namespace, _limit(limits, "countHardLimit", "count"))
            _increase(bytes_limit, namespace, _limit(limits, "byteHardLimit", "bytes"))
        if usage is not None:
            _increase(count_usage, namespace, usage.get("count", -1))
            _increase(bytes_usage, namespace, usage.get("bytes", -1))
    return found


def _quota_numbers(tree: DataTree, path: bytes, name: bytes) -> dict[str, int] | None:
    body = tree.bodies.get(QUOTA + path + b"/" + name)
    try:
        return None if body is None else numbers_in(body)
    except ValueError:
        return None


def _limit(limits: Mapping[str, int], hard: str, soft: str) -> int:
    limit = limits.get(hard, -1)
    return limit if limit > -1 else limits.get(soft, -1)


def _increase(totals: dict[str, int], namespace: str, more: int) -> None:
    totals[namespace] = totals.get(namespace, 0) + more


def _without_prefix(frame_bytes: int) -> int:
    return frame_bytes - _LENGTH_PREFIX_BYTES if frame_bytes >= 0 else frame_bytes


def _in_order(names: Iterable[str], known: Mapping[str, _T], otherwise: _T) -> dict[str, _T]:
    return {name: known.get(name, otherwise) for name in names}


def _by_name(by_namespace: Mapping[bytes, _T]) -> dict[str, _T]:
    return {decode_ustring(namespace): value for namespace, value in by_namespace.items()}


# -- the flat form


def spelled(metrics: Metrics) -> Iterator[tuple[str, Number]]:
    """Names and values one after the other; the order of the kinds is the original's. Our own come last.

    Whatever its node is called, the name of a namespace's value has only letters, digits, `_`, `.` and `-`:
    Telegraf discards a whole answer for one name that does not.
    """
    yield from metrics.gauges.items()
    yield from _spelled_sets(metrics.gauge_sets)
    yield from metrics.counters.items()
    yield from _spelled_sets(metrics.counter_sets)
    for name, summary in metrics.summaries.items():
        yield from _spelled_summary(name, summary)
    for name, percentile_summary in metrics.percentile_summaries.items():
        yield from _spelled_summary(name, percentile_summary)
        values = percentile_summary.percentiles(_PERCENTILES.values())
        for prefix, value in zip(_PERCENTILES, values, strict=True):
            yield f"{prefix}_{name}", value
    for name, number in metrics.own.items():
        yield f"{OWN_PREFIX}{name}", number


def _spelled_sets(sets: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, int]]:
    for name, members in sets.items():
        for key, value in members.items():
            yield _member_name(key, name), value


def _member_name(key: str, name: str) -> str:
    return f"{_NOT_IN_A_NAME.sub('_', key)}_{name}"


def _spelled_summary(name: str, summary: Summary) -> Iterator[tuple[str, Number]]:
    yield f"avg_{name}", summary.average
    yield f"min_{name}", summary.least
    yield f"max_{name}", summary.greatest
    yield f"cnt_{name}", summary.count
    yield f"sum_{name}", summary.total
