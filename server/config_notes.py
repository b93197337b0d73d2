"""What the log says about settings that do not do what their author may expect.

Pure. Nothing in a configuration is passed over in silence: a key is honoured, or one of these notes names it.
"""

from collections.abc import Iterable, Mapping

from quorum.server_lines import is_membership_key
from quorum.setting_text import BadValue
from server.config import DEFAULT_METRICS_PROVIDER, Note, ServerConfig
from server.config_values import strict_bool, strict_int, strict_long
from server.settings import Origin, settings_of

SETTINGS = settings_of(ServerConfig)

# Keys that Apache parses strictly but that tune a JVM: checked like the others, then without effect.
JVM_NATIVE_KEYS = {
    "jvm.pause.monitor": strict_bool("jvm.pause.monitor"),
    "jvm.pause.warn-threshold.ms": strict_long,
    "jvm.pause.info-threshold.ms": strict_long,
    "jvm.pause.sleep.time.ms": strict_long,
    "quorum.cnxn.threads.size": strict_int,
}
NATIVE_KEYS = JVM_NATIVE_KEYS.keys() | {
    setting.key for setting in SETTINGS.values() if setting.origin is Origin.ZOO_CFG
}
METRICS_PREFIX = "metricsProvider."

# Read by config_loading.py in groups, hence not the key of one field.
GROUPED_KEYS = frozenset(
    {
        "4lw.commands.whitelist",
        "enforce.auth.enabled",
        "enforce.auth.schemes",
        "letAnySaslUserDoX",
        "superUser",
    }
)
GROUPED_PREFIXES = ("admin.", "authProvider.", "ssl.", "superUser.")

JVM_TUNING_KEYS = frozenset(
    """maxResponseCacheSize maxGetChildrenResponseCacheSize intBufferStartingSizeBytes watchManagerName
    request_throttler.shutdownTimeout maxInProcessingDeadWatchers bitHashCacheSize serverCnxnFactory
    learner.asyncSending learner.closeSocketAsync leader.closeSocketAsync leader.ackLoggingFrequency
    forward_learner_requests_to_commit_processor_disabled follower.skipLearnerRequestToNextProcessor
    leaderConnectDelayDuringRetryMs nio.numSelectorThreads nio.numWorkerThreads nio.directBufferBytes
    nio.shutdownTimeout flushDelay maxBatchSize maxWriteQueuePollTime""".split()
)
JVM_TUNING_PREFIXES = ("commitProcessor.", "jmx.", "messageTracker.", "netty.", "pathStats.", "watcherClean")
LOGGING_PROPERTIES = frozenset(
    """logback.configurationFile log4j.configuration zookeeper.root.logger zookeeper.console.threshold
    zookeeper.log.dir zookeeper.log.file zookeeper.log.threshold zookeeper.log.maxfilesize
    zookeeper.log.maxbackupindex""".split()
)

# Names that appear in documentation or manifests; the original server reads the key on the right.
MISNAMED_KEYS = {
    "requestThrottleLimit": "request_throttle_max_requests",
    "requestThrottleStallTime": "request_throttle_stall_time",
    "requestThrottleDropStale": "request_throttle_drop_stale",
    "requestStaleLatencyCheck": "request_stale_latency_check",
    "requestStaleConnectionCheck": "request_stale_connection_check",
    "throttledOpWaitTime": "throttled_op_wait_time",
    "connectionMaxTokens": "connection_throttle_tokens",
    "connectionTokenFillTime": "connection_throttle_fill_time",
    "connectionTokenFillCount": "connection_throttle_fill_count",
    "connectionFreezeTime": "connection_throttle_freeze_time",
    "connectionDropIncrease": "connection_throttle_drop_increase",
    "connectionDropDecrease": "connection_throttle_drop_decrease",
    "connectionDecreaseRatio": "connection_throttle_decrease_ratio",
    "maxConcurrentSnapSyncs": "leader.maxConcurrentSnapSyncs",
    "maxConcurrentDiffSyncs": "leader.maxConcurrentDiffSyncs",
    "maxTimeToWaitForEpoch": "leader.maxTimeToWaitForEpoch",
    "advancedFlowControlEnabled": "netty.advancedFlowControl.enabled",
    "outstandingHandshake.limit": "netty.server.outstandingHandshake.limit",
}
# Fields that nothing acts on, though they would have an effect of their own in the original.
UNSERVED_FIELDS = (
    "eager_acl_check_enabled",
    "ensemble_auth_names",
    "leader_max_concurrent_diff_syncs",
    "leader_max_concurrent_snap_syncs",
    "multi_address_check_timeout_ms",
    "request_stale_connection_check",
    "request_stale_latency_check",
    "request_throttle_drop_stale",
    "request_throttle_stall_ms",
)
KERBEROS_KEYS = ("kerberos.", "kinit", "security.auth_to_local", "audit.impl.class")

_PROPERTY_KEYS = {s.key for s in SETTINGS.values() if s.origin is Origin.PROPERTY}
_BARE_KEYS = {s.key for s in SETTINGS.values() if s.origin is Origin.BARE_PROPERTY}
_PROPERTIES = (
    {f"zookeeper.{key}" for key in _PROPERTY_KEYS}
    | _BARE_KEYS
    | {s.or_property for s in SETTINGS.values() if s.or_property is not None}
    | {"zookeeper.multiAddress.enabled"}
    | LOGGING_PROPERTIES
)


def is_native(key: str) -> bool:
    """Whether Apache parses the key itself; every other key becomes the Java property `zookeeper.<key>`."""
    return key in NATIVE_KEYS or key.startswith(METRICS_PREFIX)


def notes_on_keys(values: Mapping[str, str]) -> list[Note]:
    """One note for each key of zoo.cfg that does not take effect as written, and one for all JVM tuning."""
    tuning = sorted(key for key in values if _is_jvm_tuning(key))
    notes = [Note("info", f"Accepted and not needed by this server: {', '.join(tuning)}")] if tuning else []
    for key in sorted(values.keys() - set(tuning)):
        message = _note_on_key(key, values[key])
        if message is not None:
            notes.append(Note("warning", message))
    return notes


def _is_jvm_tuning(key: str) -> bool:
    return key in JVM_TUNING_KEYS or key in JVM_NATIVE_KEYS or key.startswith(JVM_TUNING_PREFIXES)


def _note_on_key(key: str, value: str) -> str | None:
    if key == "skipACL" and value.lower() == "true":
        return "skipACL=true has no effect: only skipACL=yes turns access checks off"
    if key.startswith(KERBEROS_KEYS):
        return f"{key} is not served by this version"
    if is_native(key) or is_membership_key(key) or key in _PROPERTY_KEYS:
        return None
    if key in GROUPED_KEYS or key.startswith(GROUPED_PREFIXES):
        return None
    if key in MISNAMED_KEYS:
        return f"{key} has no effect in zoo.cfg: the server reads {MISNAMED_KEYS[key]}"
    if key in _BARE_KEYS:
        return f"{key} has no effect in zoo.cfg: set -D{key}={value} in JVMFLAGS or java.env"
    if key.startswith("zookeeper."):
        return f"{key} has no effect: write {key.removeprefix('zookeeper.')} without the prefix in zoo.cfg"
    return f"{key} is not a known setting{_suggestion(key)}; kept as property zookeeper.{key}"


def _suggestion(key: str) -> str:
    from difflib import get_close_matches  # only needed for mistakes, and start-up time counts

    by_lower_case = {known.lower(): known for known in NATIVE_KEYS | _PROPERTY_KEYS | GROUPED_KEYS}
    close = get_close_matches(key.lower(), by_lower_case, n=1, cutoff=0.8)
    return f" (did you mean {by_lower_case[close[0]]}?)" if close else ""


def notes_on_flags(
    properties: Mapping[str, str], jvm_only: Iterable[str], unread: Iterable[str]
) -> list[Note]:
    """One note for all flags that only a JVM understands, and one for each line that needs a shell.

    Flags are named without their values, which may be secrets.
    """
    others = [f"-D{key}" for key in sorted(properties) if not _is_known_property(key)]
    jvm_flags = [flag.partition("=")[0] for flag in jvm_only] + others
    notes = [Note("info", f"JVM flags accepted and not needed: {' '.join(jvm_flags)}")] if jvm_flags else []
    prefixed = [key.removeprefix("zookeeper.") for key in sorted(properties) if key.startswith("zookeeper.")]
    notes += (
        Note("warning", f"-Dzookeeper.{key} has no effect: set {key} in zoo.cfg")
        for key in prefixed
        if is_native(key) and f"zookeeper.{key}" not in _PROPERTIES
    )
    notes += (Note("warning", f"Not understood without a shell, passed over: {line}") for line in unread)
    return notes


def _is_known_property(name: str) -> bool:
    if name in _PROPERTIES:
        return True
    return name.startswith("zookeeper.") and not _is_jvm_tuning(name.removeprefix("zookeeper."))


def notes_on_unserved(config: ServerConfig, keys: Iterable[str], set_fields: Iterable[str]) -> list[Note]:
    """One warning for each feature that the configuration asks for and this version does not have."""
    wanted = {
        "superUser, which is for SASL,": bool(config.super_users),
        "X509AuthenticationProvider.superUser, which is for TLS,": config.x509_super_user is not None,
        f"Metrics provider {config.metrics_provider_class}": config.metrics_provider_class
        != DEFAULT_METRICS_PROVIDER,
        "The audit log (audit.enable)": config.audit_enabled,
        "Reachability of several addresses (multiAddress.reachabilityCheckEnabled)": config.is_distributed
        and config.multi_address_enabled
        and config.multi_address_check_enabled,
        "leader.maxTimeToWaitForEpoch": config.is_distributed and config.leader_max_ms_to_wait_for_epoch >= 0,
        **{SETTINGS[name].key: True for name in UNSERVED_FIELDS if name in set_fields},
    }
    notes = _notes_on_unserved_protection(config)
    notes += (
        Note("warning", f"{feature} is not served by this version") for feature in wanted if wanted[feature]
    )
    if config.skip_acl:
        notes.append(Note("warning", 'zookeeper.skipACL=="yes", ACL checks will be skipped'))
    if (
        config.tls_client_settings
        and config.secure_client_port is None
        and not config.client_port_unification
    ):
        notes.append(_without_port("ssl", config.tls_client_settings, "secureClientPort"))
    if config.tls_quorum_settings and not (config.ssl_quorum or config.quorum_port_unification):
        notes.append(_without_port("ssl.quorum", config.tls_quorum_settings, "sslQuorum"))
    if config.admin_enabled:
        asked_for = any(key.startswith("admin.") for key in keys)
        notes.append(
            Note("warning" if asked_for else "info", "AdminServer (HTTP) is not served by this version")
        )
    return notes


def _notes_on_unserved_protection(config: ServerConfig) -> list[Note]:
    """What clients could use to protect themselves, and cannot here; what would bind them stops the start."""
    plaintext = f"clients are served in plaintext only, at port {config.client_port}"
    anonymous = "clients are served as anonymous ones, and nodes with ACLs for sasl ids stay closed to them"
    wanted = (
        (
            config.secure_client_port is not None,
            f"TLS on secureClientPort={config.secure_client_port}",
            f"nothing listens there, and {plaintext}",
        ),
        (config.client_port_unification, "TLS on the plaintext port (client.portUnification)", plaintext),
        (config.jaas_file is not None, "SASL (java.security.auth.login.config)", anonymous),
        (
            any("SASLAuthentication" in name for name in config.auth_providers.values()),
            "SASL (authProvider)",
            anonymous,
        ),
    )
    return [
        Note("warning", f"{feature} is not served by this version: {consequence}")
        for is_wanted, feature, consequence in wanted
        if is_wanted
    ]


def _without_port(prefix: str, settings: Mapping[str, str], switch: str) -> Note:
    keys = ", ".join(f"{prefix}.{key}" for key in sorted(settings))
    return Note(
        "warning", f"{keys}: no effect, since {switch} is not set and TLS is not served by this version"
    )


def notes_on_disk_use(config: ServerConfig) -> list[Note]:
    """A warning where nothing ever removes old files, which is the original's default."""
    if config.autopurge_interval_hours > 0:
        return []
    message = (
        "autopurge.purgeInterval=0: old snapshots and logs are never removed and fill the disk in the end; "
        "set it to 24 (hours), or run zkCleanup.sh"
    )
    return [Note("warning", message)]


def check_jvm_native(values: Mapping[str, str]) -> None:
    """The keys of a JVM's pause monitor are checked as strictly as the original does."""
    for key, read in JVM_NATIVE_KEYS.items():
        if key in values:
            try:
                read(values[key])
            except BadValue as problem:
                raise BadValue(problem.wording, problem.remedy, key) from None
