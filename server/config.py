"""The settings of one server, as a value.

Field names are ZooKeeper's keys in snake case with their unit (tickTime is milliseconds, initLimit ticks),
and each field states its key. How files and flags become a `ServerConfig` is in config_loading.py.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import attrs

from quorum.server_lines import Ensemble, Role, read_role
from quorum.setting_text import BadValue, port_number
from server.config_values import (
    anything_but,
    comma_list,
    exactly,
    file_path,
    kilobytes_in_bytes,
    lenient_float,
    lenient_int,
    lenient_long,
    lenient_natural,
    strict_int,
    strict_int_or_unset,
    true_only,
)
from server.settings import bare, from_self, native, native_bool, prop

DEFAULT_METRICS_PROVIDER = "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider"
DEFAULT_MAX_BUFFER_BYTES = 0xFFFFF
SMALLEST_EXTRA_SIZE_BYTES = 1024
FOUR_LETTER_WORDS = frozenset(
    "conf cons crst dirs dump envi gtmk hash isro mntr ruok srst srvr stat stmk wchc wchp wchs".split()
)
NOTHING: Mapping[str, str] = MappingProxyType({})


def compression_method(text: str) -> str:
    if text not in ("", "gz", "snappy"):
        raise BadValue(f"unknown snapshot compression {text}", "write gz, snappy or nothing")
    return text


@attrs.frozen(kw_only=True, eq=False)
class ServerConfig:
    """The settings of one server, already checked: code that holds one need not doubt it.

    A limit that is off is 0, or -1 where the comment says so.
    """

    # Directories and recovery
    data_dir: Path = native("dataDir", file_path, attrs.NOTHING)
    data_log_dir: Path = native("dataLogDir", file_path, from_self(lambda self: self.data_dir))
    datadir_autocreate: bool = prop("datadir.autocreate", true_only, True)
    db_autocreate: bool = prop("db.autocreate", true_only, True)
    snapshot_trust_empty: bool = prop("snapshot.trust.empty", true_only, False)

    # The client port; the address is None for all interfaces, the port None for no plaintext listener
    client_port: int | None = native("clientPort", port_number, None)
    client_port_address: str | None = native("clientPortAddress", str, None)
    client_port_listen_backlog: int = native("clientPortListenBacklog", strict_int, -1)  # -1: the most
    client_tcp_keepalive: bool = prop("clientTcpKeepAlive", true_only, False)
    client_port_unification: bool = prop("client.portUnification", true_only, False)

    # Time and sessions
    tick_ms: int = native("tickTime", strict_int, 3000)
    session_ms_min: int = native(
        "minSessionTimeout", strict_int_or_unset, from_self(lambda self: 2 * self.tick_ms)
    )
    session_ms_max: int = native(
        "maxSessionTimeout", strict_int_or_unset, from_self(lambda self: 20 * self.tick_ms)
    )
    sessionless_cnxn_timeout_ms: int = prop("nio.sessionlessCnxnTimeout", lenient_int, 10_000)
    local_sessions_enabled: bool = native_bool("localSessionsEnabled", False)
    local_sessions_upgrading_enabled: bool = native_bool("localSessionsUpgradingEnabled", False)
    close_session_txn_enabled: bool = prop("closeSessionTxn.enabled", true_only, True)
    read_only_mode_enabled: bool = bare("readonlymode.enabled", exactly("true"), False)

    # Limits on clients
    max_client_cnxns: int = native("maxClientCnxns", strict_int, 60)  # for each source address
    max_cnxns: int = prop("maxCnxns", lenient_int, 0, minimum=0)
    jute_maxbuffer_bytes: int = bare("jute.maxbuffer", lenient_int, DEFAULT_MAX_BUFFER_BYTES)
    jute_extrasize_bytes: int = prop(
        "jute.maxbuffer.extrasize",
        lenient_int,
        from_self(lambda self: max(SMALLEST_EXTRA_SIZE_BYTES, self.jute_maxbuffer_bytes)),
        minimum=SMALLEST_EXTRA_SIZE_BYTES,
    )
    global_outstanding_limit: int = prop("globalOutstandingLimit", lenient_int, 1000)
    large_request_max_bytes: int = prop("largeRequestMaxBytes", lenient_int, 100 * 1024 * 1024)
    large_request_threshold_bytes: int = prop("largeRequestThreshold", lenient_int, -1)  # -1: off
    request_throttle_max_requests: int = prop("request_throttle_max_requests", lenient_int, 0)
    request_throttle_stall_ms: int = prop("request_throttle_stall_time", lenient_int, 100)
    request_throttle_drop_stale: bool = prop("request_throttle_drop_stale", true_only, True)
    request_stale_latency_check: bool = prop("request_stale_latency_check", true_only, False)
    request_stale_connection_check: bool = prop("request_stale_connection_check", true_only, True)
    throttled_op_wait_ms: int = prop("throttled_op_wait_time", lenient_int, 0)
    connection_throttle_tokens: int = prop("connection_throttle_tokens", lenient_int, 0)
    connection_throttle_fill_ms: int = prop("connection_throttle_fill_time", lenient_int, 1)
    connection_throttle_fill_count: int = prop("connection_throttle_fill_count", lenient_int, 1)
    connection_throttle_freeze_ms: int = prop("connection_throttle_freeze_time", lenient_int, -1)  # -1: off
    connection_throttle_drop_increase: float = prop("connection_throttle_drop_increase", lenient_float, 0.02)
    connection_throttle_drop_decrease: float = prop("connection_throttle_drop_decrease", lenient_float, 0.002)
    connection_throttle_decrease_ratio: float = prop("connection_throttle_decrease_ratio", lenient_float, 0.0)
    connection_throttle_weight_enabled: bool = prop("connection_throttle_weight_enabled", true_only, False)
    connection_throttle_global_session_weight: int = prop(
        "connection_throttle_global_session_weight", lenient_int, 3
    )
    connection_throttle_renew_session_weight: int = prop(
        "connection_throttle_renew_session_weight", lenient_int, 2
    )
    connection_throttle_local_session_weight: int = prop(
        "connection_throttle_local_session_weight", lenient_int, 1
    )

    # Limits of our own
    multi_read_operations_max: int = prop("triokeeper.multiReadMaxOperations", lenient_int, 4000, minimum=1)
    multi_read_bytes_max: int = prop("triokeeper.multiReadMaxBytes", lenient_long, 64 << 20, minimum=1)
    unsent_bytes_max: int = prop("triokeeper.unsentMaxBytes", lenient_long, 256 << 20, minimum=1 << 20)

    # The log and snapshots
    snap_count: int = prop("snapCount", lenient_int, 100_000, minimum=2)
    snap_size_limit_bytes: int = prop("snapSizeLimitInKb", kilobytes_in_bytes, 4 * 1024**3)
    preallocate_bytes: int = prop("preAllocSize", kilobytes_in_bytes, 64 * 1024 * 1024)
    txn_log_size_limit_bytes: int = prop("txnLogSizeLimitInKb", kilobytes_in_bytes, 0)
    commit_log_count: int = prop("commitLogCount", lenient_int, 500, minimum=500)
    force_sync: bool = prop("forceSync", anything_but("no"), True)
    fsync_warning_ms: int = prop(
        "fsync.warningthresholdms", lenient_long, 1000, or_property="fsync.warningthresholdms"
    )
    snapshot_compression: Literal["", "gz", "snappy"] = prop(
        "snapshot.compression.method", compression_method, ""
    )
    serialize_last_zxid: bool = prop("serializeLastProcessedZxid.enabled", true_only, True)
    digest_enabled: bool = prop("digest.enabled", true_only, True)
    autopurge_snap_retain_count: int = native("autopurge.snapRetainCount", strict_int, 3, minimum=3)
    autopurge_interval_hours: int = native("autopurge.purgeInterval", strict_int, 0)

    # Znodes
    extended_types_enabled: bool = prop("extendedTypesEnabled", true_only, False)
    emulate_353_ttl_nodes: bool = prop("emulate353TTLNodes", true_only, False)
    enforce_quota: bool = prop("enforceQuota", true_only, False)
    container_check_ms: int = bare("znode.container.checkIntervalMs", lenient_int, 60_000)
    container_max_per_minute: int = bare("znode.container.maxPerMinute", lenient_int, 10_000)
    container_max_never_used_ms: int = bare("znode.container.maxNeverUsedIntervalMs", lenient_long, 0)

    # Who may do what
    skip_acl: bool = prop("skipACL", exactly("yes"), False)
    eager_acl_check_enabled: bool = prop("enableEagerACLCheck", true_only, False)
    digest_auth_enabled: bool = prop("DigestAuthenticationProvider.enabled", true_only, True)
    digest_auth_algorithm: str = prop("DigestAuthenticationProvider.digestAlg", str, "SHA1")
    super_digest: str | None = prop("DigestAuthenticationProvider.superDigest", str, None, secret=True)
    super_users: frozenset[str] = frozenset()  # superUser and superUser.<x>: SASL ids
    x509_super_user: str | None = prop("X509AuthenticationProvider.superUser", str, None)
    auth_providers: Mapping[str, str] = NOTHING  # <n> of authProvider.<n>, and its class
    enforce_auth_schemes: tuple[str, ...] = ()  # empty: not enforced
    session_require_sasl: bool = prop("sessionRequireClientSASLAuth", true_only, False)
    allow_sasl_failed_clients: bool = prop("allowSaslFailedClients", true_only, False)
    sasl_server_section: str = prop("sasl.serverconfig", str, "Server")
    sasl_super_password: str | None = prop("SASLAuthenticationProvider.superPassword", str, None, secret=True)
    jaas_file: Path | None = bare("java.security.auth.login.config", file_path, None)
    ensemble_auth_names: tuple[str, ...] = prop("ensembleAuthName", comma_list, ())
    ip_auth_uses_forwarded_for: bool = prop("IPAuthenticationProvider.usexforwardedfor", true_only, False)

    # What operators look at
    four_letter_words_whitelist: frozenset[str] = frozenset({"srvr"})  # what may be asked
    audit_enabled: bool = prop("audit.enable", true_only, False)
    metrics_provider_class: str = native("metricsProvider.className", str, DEFAULT_METRICS_PROVIDER)
    metrics_provider_settings: Mapping[str, str] = NOTHING  # metricsProvider.<x>, without the prefix
    admin_enabled: bool = prop("admin.enableServer", anything_but("false"), True)
    admin_address: str = prop("admin.serverAddress", str, "0.0.0.0")
    admin_port: int = prop("admin.serverPort", lenient_int, 8080)
    admin_command_url: str = prop("admin.commandURL", str, "/commands")
    admin_idle_timeout_ms: int = prop("admin.idleTimeout", lenient_int, 30_000)
    admin_port_unification: bool = prop("admin.portUnification", true_only, False)
    admin_force_https: bool = prop("admin.forceHttps", true_only, False)
    admin_need_client_auth: bool = prop("admin.needClientAuth", true_only, False)
    admin_snapshot_enabled: bool = prop("admin.snapshot.enabled", true_only, True)
    admin_restore_enabled: bool = prop("admin.restore.enabled", true_only, True)
    admin_rate_limiter_interval_ms: int = prop("admin.rateLimiterIntervalInMS", lenient_long, 300_000)

    # TLS: the stores' keys stay text until a listener needs them
    secure_client_port: int | None = native("secureClientPort", port_number, None)
    secure_client_port_address: str | None = native("secureClientPortAddress", str, None)
    client_cert_reload: bool = prop("client.certReload", true_only, False)
    tls_client_settings: Mapping[str, str] = attrs.field(default=NOTHING, repr=False)  # ssl.<x>
    tls_quorum_settings: Mapping[str, str] = attrs.field(default=NOTHING, repr=False)  # ssl.quorum.<x>
    fips_mode: bool = prop("fips-mode", true_only, True)

    # The ensemble
    ensemble: Ensemble = attrs.field(factory=Ensemble)
    my_id: int | None = None  # from the file myid
    peer_type: Role = native("peerType", read_role, Role.PARTICIPANT)  # the servers list has the last word
    standalone_enabled: bool = native_bool("standaloneEnabled", True)
    reconfig_enabled: bool = native_bool("reconfigEnabled", False)
    dynamic_config_file: Path | None = native("dynamicConfigFile", file_path, None)
    init_limit_ticks: int = native("initLimit", strict_int, 0)
    sync_limit_ticks: int = native("syncLimit", strict_int, 0)
    connect_to_learner_master_limit_ticks: int = native("connectToLearnerMasterLimit", strict_int, 0)
    election_alg: int = native("electionAlg", strict_int, 3)
    leader_serves: bool = prop("leaderServes", anything_but("no"), True)
    observer_sync_enabled: bool = native_bool("syncEnabled", True)
    observer_master_port: int = native("observerMasterPort", port_number, 0)  # 0: off
    observer_master_size_limit_bytes: int = prop("observerMaster.sizeLimit", lenient_int, 32 * 1024 * 1024)
    observer_reconnect_delay_ms: int = prop("observer.reconnectDelayMs", lenient_long, 0)
    observer_election_delay_ms: int = prop("observer.election.DelayMs", lenient_long, 200)
    quorum_listen_on_all_ips: bool = native_bool("quorumListenOnAllIPs", False)
    tcp_keepalive: bool = prop("tcpKeepAlive", true_only, False)
    cnx_timeout_ms: int = prop("cnxTimeout", lenient_natural, 5000)  # 0: no limit
    quorum_cnxn_timeout_ms: int = prop("quorumCnxnTimeoutMs", lenient_int, -1)  # -1: syncLimit ticks
    election_port_bind_retry: int = prop("electionPortBindRetry", lenient_natural, 3)  # 0: for ever
    election_notification_min_ms: int = prop(
        "fastleader.minNotificationInterval", lenient_int, 200, minimum=1
    )
    election_notification_max_ms: int = prop(
        "fastleader.maxNotificationInterval", lenient_int, 2_000, minimum=1
    )
    leader_max_concurrent_snap_syncs: int = prop("leader.maxConcurrentSnapSyncs", lenient_int, 10)
    leader_max_concurrent_diff_syncs: int = prop("leader.maxConcurrentDiffSyncs", lenient_int, 100)
    leader_max_ms_to_wait_for_epoch: int = prop("leader.maxTimeToWaitForEpoch", lenient_int, -1)  # -1: off
    snapshot_size_factor: float = prop("snapshotSizeFactor", lenient_float, 0.33)
    force_snapshot_sync: bool = prop("forceSnapshotSync", true_only, False)
    multi_address_enabled: bool = native_bool("multiAddress.enabled", False)
    multi_address_check_enabled: bool = native_bool("multiAddress.reachabilityCheckEnabled", True)
    multi_address_check_timeout_ms: int = native("multiAddress.reachabilityCheckTimeoutMs", strict_int, 1000)
    oracle_path: Path | None = native("oraclePath", file_path, None)
    ssl_quorum: bool = native_bool("sslQuorum", False)
    quorum_port_unification: bool = native_bool("portUnification", False)
    ssl_quorum_reload_cert_files: bool = native_bool("sslQuorumReloadCertFiles", False)
    quorum_sasl_enabled: bool = native_bool("quorum.auth.enableSasl", False)
    quorum_server_require_sasl: bool = native_bool("quorum.auth.serverRequireSasl", False)
    quorum_learner_require_sasl: bool = native_bool("quorum.auth.learnerRequireSasl", False)
    quorum_server_login_context: str = native("quorum.auth.server.saslLoginContext", str, "QuorumServer")
    quorum_learner_login_context: str = native("quorum.auth.learner.saslLoginContext", str, "QuorumLearner")
    quorum_service_principal: str = native("quorum.auth.kerberos.servicePrincipal", str, "zkquorum/localhost")

    @property
    def is_distributed(self) -> bool:
        """Whether this server is one of several: one participant alone runs standalone unless told not to."""
        if not self.ensemble.members:
            return False
        return not self.standalone_enabled or len(self.ensemble.with_role(Role.PARTICIPANT)) > 1


@attrs.frozen
class Note:
    """Something the loader noticed and the log should say, in the order noticed."""

    level: Literal["info", "warning", "error"]
    message: str


@attrs.frozen(kw_only=True)
class LoadedConfig:
    """A configuration together with where it came from.

    `raw_text` is zoo.cfg as first read, empty without a file. `properties` are the Java system properties
    that the original server would have: the -D settings, and zoo.cfg's other keys with `zookeeper.` in front.
    """

    config: ServerConfig
    path: Path | None = None
    raw_text: str = ""
    notes: tuple[Note, ...] = ()
    properties: Mapping[str, str] = NOTHING
