"""What a zoo.cfg, -D flags and the files beside it mean."""

import ast
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import server.config
from quorum.server_lines import Address, ClientAddress, Member, Role
from server.config import FOUR_LETTER_WORDS, ServerConfig
from server.config_error import ConfigError
from server.config_loading import load_config, load_defaults, load_direct_form
from server.config_notes import SETTINGS, UNSERVED_FIELDS
from server.ensemble_loading import version_in_name
from tests.server.zoo_cfg_files import config_from, load_text, messages, write_zoo_cfg

SYNTAX = [
    ("tickTime = 2000", 2000),
    ("tickTime:2000", 2000),
    ("tickTime 2000", 2000),
    ("  tickTime=2000  \t", 2000),
    ("tickTime=2000\r", 2000),
    ("tickTime=\\\n   2000", 2000),
    ("tick\\\n  Time=2000", 2000),
    ("tickTime=\\u0032000", 2000),
    ("tickTime=1\ntickTime=2000", 2000),
    ("#tickTime=1\n!tickTime=2\n  # tickTime=3\ntickTime=+2000", 2000),
]


@pytest.mark.parametrize(("text", "tick_ms"), SYNTAX)
def test_zoo_cfg_is_a_java_properties_file(text: str, tick_ms: int, tmp_path: Path) -> None:
    assert config_from(tmp_path, text).tick_ms == tick_ms


def test_latin_1_bytes_and_escapes_make_a_path(tmp_path: Path) -> None:
    """A backslash before any other character is dropped, as in every Java properties file."""
    file = tmp_path / "zoo.cfg"
    file.write_bytes(b"dataDir=/d\xe9p\\u00f4t/\\x\n")

    assert load_config(file, {}).config.data_dir == Path("/dépôt/x")


@given(content=st.binary(max_size=60))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_can_do_worse_than_a_config_error(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "zoo.cfg"
    file.write_bytes(b"dataDir=/nowhere\n" + content)

    with suppress(ConfigError):
        load_config(file, {})


def test_without_a_file_a_server_for_this_machine_is_meant() -> None:
    loaded = load_defaults({})

    config = loaded.config
    assert (config.client_port_address, config.client_port) == ("127.0.0.1", 2181)
    assert (config.data_dir, config.data_log_dir, config.tick_ms) == (Path("data"), Path("data"), 2000)
    assert (loaded.path, loaded.raw_text, loaded.properties) == (None, "", {})


def test_the_direct_form_has_no_limit_of_connections(tmp_path: Path) -> None:
    config = load_direct_form(["2182", str(tmp_path)], {}).config

    assert (config.client_port, config.data_dir, config.tick_ms) == (2182, tmp_path, 3000)
    assert (config.client_port_address, config.max_client_cnxns) == (None, 0)


def test_the_direct_form_takes_tick_and_connections(tmp_path: Path) -> None:
    config = load_direct_form(["2182", str(tmp_path), "100", "7"], {}).config

    assert (config.tick_ms, config.session_ms_min, config.max_client_cnxns) == (100, 200, 7)


def test_unset_settings_have_the_defaults_of_the_original(tmp_path: Path) -> None:
    config = config_from(tmp_path, "")

    assert config.tick_ms == 3000
    assert (config.session_ms_min, config.session_ms_max) == (6000, 60_000)
    assert config.data_log_dir == config.data_dir == tmp_path / "data"
    assert config.max_client_cnxns == 60
    assert config.jute_maxbuffer_bytes == config.jute_extrasize_bytes == 1_048_575
    assert config.preallocate_bytes == 64 * 1024 * 1024
    assert config.snap_size_limit_bytes == 4 * 1024**3
    assert config.four_letter_words_whitelist == {"srvr"}


VALUES = [
    ("dataLogDir=/logs", "data_log_dir", Path("/logs")),
    ("minSessionTimeout=-1", "session_ms_min", 6000),
    ("maxSessionTimeout=9000", "session_ms_max", 9000),
    ("standaloneEnabled=FALSE\nserver.1=a:1:2\ninitLimit=1\nsyncLimit=1", "standalone_enabled", False),
    ("preAllocSize=1", "preallocate_bytes", 1024),
    ("snapSizeLimitInKb=-5", "snap_size_limit_bytes", 0),
    ("txnLogSizeLimitInKb=2", "txn_log_size_limit_bytes", 2048),
    ("snapCount=0x10", "snap_count", 16),
    ("snapCount=1", "snap_count", 2),
    ("snapCount=many", "snap_count", 100_000),
    ("commitLogCount=1", "commit_log_count", 500),
    ("jute.maxbuffer.extrasize=1", "jute_extrasize_bytes", 1024),
    ("autopurge.snapRetainCount=1", "autopurge_snap_retain_count", 3),
    ("autopurge.purgeInterval=24", "autopurge_interval_hours", 24),
    ("forceSync=no", "force_sync", False),
    ("forceSync=false", "force_sync", True),
    ("skipACL=yes", "skip_acl", True),
    ("skipACL=true", "skip_acl", False),
    ("leaderServes=no", "leader_serves", False),
    ("digest.enabled=False", "digest_enabled", False),
    ("digest.enabled=on", "digest_enabled", False),
    ("admin.enableServer=no", "admin_enabled", True),
    ("admin.enableServer=false", "admin_enabled", False),
    ("snapshot.compression.method=gz", "snapshot_compression", "gz"),
    ("snapshot.compression.method=zstd", "snapshot_compression", ""),
    ("connection_throttle_drop_increase=0.5", "connection_throttle_drop_increase", 0.5),
    ("superUser=bob\nsuperUser.2=eve\nsuperUsers=x", "super_users", frozenset({"bob", "eve"})),
    ("enforce.auth.enabled=true\nenforce.auth.schemes=digest,ip", "enforce_auth_schemes", ("digest", "ip")),
    ("enforce.auth.schemes=sasl", "enforce_auth_schemes", ()),
    ("metricsProvider.httpPort=7000", "metrics_provider_settings", {"httpPort": "7000"}),
    ("ssl.protocol=a\nssl.quorum.protocol=b", "tls_client_settings", {"protocol": "a"}),
    ("ssl.protocol=a\nssl.quorum.protocol=b", "tls_quorum_settings", {"protocol": "b"}),
    ("peerType=Observer", "peer_type", Role.OBSERVER),
]


@pytest.mark.parametrize(("text", "field", "value"), VALUES)
def test_a_setting_means_what_it_means_to_the_original(
    text: str, field: str, value: object, tmp_path: Path
) -> None:
    file = write_zoo_cfg(tmp_path, f"dataDir=DIR/data\nclientPort=2181\n{text}", my_id="1")

    assert getattr(load_config(file, {}).config, field) == value


WHITELISTS = [
    ("", "", {"srvr"}),
    ("4lw.commands.whitelist=ruok, stat ,", "", {"srvr", "ruok", "stat"}),
    ("4lw.commands.whitelist=*", "", FOUR_LETTER_WORDS),
    ("4lw.commands.whitelist=ruok,*", "", FOUR_LETTER_WORDS),
    ("4lw.commands.whitelist=lead", "", {"srvr"}),
    ("", "-Dreadonlymode.enabled=true", {"srvr", "isro"}),
    ("", "-Dreadonlymode.enabled=True", {"srvr"}),
    ("", "-Dzookeeper.4lw.commands.whitelist=mntr", {"srvr", "mntr"}),
    ("4lw.commands.whitelist=ruok", "-Dzookeeper.4lw.commands.whitelist=mntr", {"srvr", "ruok"}),
]


@pytest.mark.parametrize(("text", "flags", "words"), WHITELISTS)
def test_the_whitelist_is_expanded_and_always_has_srvr(
    text: str, flags: str, words: set[str], tmp_path: Path
) -> None:
    assert config_from(tmp_path, text, {"JVMFLAGS": flags}).four_letter_words_whitelist == words


PRECEDENCE = [
    ("", "-Dzookeeper.snapCount=7", "snap_count", 7),
    ("snapCount=8", "-Dzookeeper.snapCount=7", "snap_count", 8),
    ("", "-DsnapCount=7", "snap_count", 100_000),
    ("zookeeper.snapCount=8", "", "snap_count", 100_000),
    ("", "-Dzookeeper.tickTime=7", "tick_ms", 3000),
    ("", "-Djute.maxbuffer=4000", "jute_maxbuffer_bytes", 4000),
    ("", "-Djute.maxbuffer=4000", "jute_extrasize_bytes", 4000),
    ("jute.maxbuffer=4000", "", "jute_maxbuffer_bytes", 1_048_575),
    ("", "-Dzookeeper.jute.maxbuffer=4000", "jute_maxbuffer_bytes", 1_048_575),
    ("", "-Dfsync.warningthresholdms=5", "fsync_warning_ms", 5),
    ("fsync.warningthresholdms=6", "-Dfsync.warningthresholdms=5", "fsync_warning_ms", 6),
    ("", "-Dzookeeper.snapCount=3 -Dzookeeper.snapCount=4", "snap_count", 4),
]


@pytest.mark.parametrize(("text", "flags", "field", "value"), PRECEDENCE)
def test_zoo_cfg_comes_before_flags_and_the_prefix_matters(
    text: str, flags: str, field: str, value: object, tmp_path: Path
) -> None:
    assert getattr(config_from(tmp_path, text, {"JVMFLAGS": flags}), field) == value


def test_files_beside_zoo_cfg_set_flags(tmp_path: Path) -> None:
    (tmp_path / "java.env").write_text('export JVMFLAGS="$JVMFLAGS -Djute.maxbuffer=4000"\n')

    config = config_from(tmp_path, "", {"JVMFLAGS": "-Dzookeeper.snapCount=7"})

    assert (config.jute_maxbuffer_bytes, config.snap_count) == (4000, 7)


def test_other_keys_are_kept_as_properties(tmp_path: Path) -> None:
    loaded = load_text(tmp_path, "my.key=x\nsnapCount=7", {"JVMFLAGS": "-Dzookeeper.snapCount=1 -Da=b"})

    assert loaded.properties == {"zookeeper.my.key": "x", "zookeeper.snapCount": "7", "a": "b"}


def test_the_raw_text_is_the_file_as_read(tmp_path: Path) -> None:
    loaded = load_text(tmp_path, "# note")

    assert loaded.raw_text == (tmp_path / "zoo.cfg").read_text()
    assert loaded.path == tmp_path / "zoo.cfg"


NOTES = [
    ("requestThrottleLimit=5", "requestThrottleLimit has no effect in zoo.cfg: the server reads request_throttle_max_requests"),
    ("maxTimeToWaitForEpoch=5", "maxTimeToWaitForEpoch has no effect in zoo.cfg: the server reads leader.maxTimeToWaitForEpoch"),
    ("jute.maxbuffer=5", "jute.maxbuffer has no effect in zoo.cfg: set -Djute.maxbuffer=5 in JVMFLAGS or java.env"),
    ("zookeeper.snapCount=5", "zookeeper.snapCount has no effect: write snapCount without the prefix in zoo.cfg"),
    ("skipACL=yes", 'zookeeper.skipACL=="yes", ACL checks will be skipped'),
    ("superUser=bob", "superUser, which is for SASL, is not served by this version"),
    ("ssl.keyStore.location=/k\nssl.trustStore.location=/t", "ssl.keyStore.location, ssl.trustStore.location: no effect, since secureClientPort is not set and TLS is not served by this version"),
    ("ssl.quorum.keyStore.location=/k", "ssl.quorum.keyStore.location: no effect, since sslQuorum is not set and TLS is not served by this version"),
    ("skipACL=true", "skipACL=true has no effect: only skipACL=yes turns access checks off"),
    ("ticktime=5", "ticktime is not a known setting (did you mean tickTime?); kept as property zookeeper.ticktime"),
    ("xyzzy=5", "xyzzy is not a known setting; kept as property zookeeper.xyzzy"),
    ("snapCount=1", "Invalid snapCount: 1. Defaulting to 2"),
    ("autopurge.snapRetainCount=1", "Invalid autopurge.snapRetainCount: 1. Defaulting to 3"),
    ("authProvider.1=com.example.Mine", "Problems loading com.example.Mine: no such authentication provider is known"),
    ("dataLogDir=logs", "logs is relative. Prepend ./ to indicate that you're sure!"),
    ("secureClientPort=2281", "TLS on secureClientPort=2281 is not served by this version: nothing listens there, and clients are served in plaintext only, at port 2181"),
    ("client.portUnification=true", "TLS on the plaintext port (client.portUnification) is not served by this version: clients are served in plaintext only, at port 2181"),
    ("authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", "SASL (authProvider) is not served by this version: clients are served as anonymous ones, and nodes with ACLs for sasl ids stay closed to them"),
    ("audit.enable=true", "The audit log (audit.enable) is not served by this version"),
    ("admin.serverPort=9090", "AdminServer (HTTP) is not served by this version"),
    ("metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider", "Metrics provider org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider is not served by this version"),
    ("leader.maxConcurrentSnapSyncs=1", "leader.maxConcurrentSnapSyncs is not served by this version"),
    ("leader.maxConcurrentDiffSyncs=1", "leader.maxConcurrentDiffSyncs is not served by this version"),
    ("multiAddress.reachabilityCheckTimeoutMs=5", "multiAddress.reachabilityCheckTimeoutMs is not served by this version"),
    ("enableEagerACLCheck=true", "enableEagerACLCheck is not served by this version"),
    ("cnxTimeout=-1", "cnxTimeout=-1: -1 is below zero, so the default counts; write 0 or more"),
    ("electionPortBindRetry=-1", "electionPortBindRetry=-1: -1 is below zero, so the default counts; write 0 or more"),
    ("fastleader.minNotificationInterval=0", "Invalid fastleader.minNotificationInterval: 0. Defaulting to 1"),
    ("fastleader.maxNotificationInterval=0", "Invalid fastleader.maxNotificationInterval: 0. Defaulting to 1"),
    ("kerberos.removeHostFromPrincipal=true", "kerberos.removeHostFromPrincipal is not served by this version"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "warning"), NOTES)
def test_a_setting_without_its_expected_effect_is_named_in_a_warning(
    text: str, warning: str, tmp_path: Path
) -> None:
    assert messages(load_text(tmp_path, text), "warning") == [warning]


def test_a_bad_number_of_a_property_is_a_warning_and_the_default_counts(tmp_path: Path) -> None:
    (warning,) = messages(load_text(tmp_path, "globalOutstandingLimit=lots"), "warning")

    assert warning.startswith('globalOutstandingLimit=lots: For input string: "lots", so the default counts')


def test_tuning_of_a_jvm_is_accepted_with_one_note_for_keys_and_one_for_flags(tmp_path: Path) -> None:
    text = "nio.numWorkerThreads=4\ncommitProcessor.numWorkerThreads=2\njvm.pause.monitor=true"
    flags = "-Xmx1g -XX:+UseG1GC -Dcom.sun.management.jmxremote.port=1 -Dzookeeper.tickTime=1"

    loaded = load_text(tmp_path, text, {"JVMFLAGS": flags})

    accepted = [note for note in messages(loaded, "info") if "accepted" in note.lower()]
    assert accepted == [
        "Accepted and not needed by this server:"
        " commitProcessor.numWorkerThreads, jvm.pause.monitor, nio.numWorkerThreads",
        "JVM flags accepted and not needed: -Xmx1g -XX:+UseG1GC -Dcom.sun.management.jmxremote.port",
    ]
    assert messages(loaded, "warning") == ["-Dzookeeper.tickTime has no effect: set tickTime in zoo.cfg"]


def test_what_tunes_a_jvm_or_is_not_served_is_named_where_a_flag_sets_it_too(tmp_path: Path) -> None:
    flags = "-Dzookeeper.leader.maxConcurrentSnapSyncs=1 -Dzookeeper.flushDelay=5 -Dleader.nodelay=false"

    loaded = load_text(tmp_path, "", {"JVMFLAGS": flags})

    (accepted,) = (note for note in messages(loaded, "info") if "accepted" in note)
    assert accepted == "JVM flags accepted and not needed: -Dleader.nodelay -Dzookeeper.flushDelay"
    assert messages(loaded, "warning") == ["leader.maxConcurrentSnapSyncs is not served by this version"]


# Settings of features that are refused or named as a whole: TLS, SASL and the AdminServer.
OF_UNSERVED_FEATURES = {
    "allow_sasl_failed_clients",
    "client_cert_reload",
    "fips_mode",
    "ip_auth_uses_forwarded_for",
    "quorum_learner_login_context",
    "quorum_server_login_context",
    "quorum_service_principal",
    "sasl_super_password",
    "session_require_sasl",
    "ssl_quorum_reload_cert_files",
    "x509_super_user",
}


def test_every_setting_is_acted_on_or_named_in_the_log() -> None:
    sources = [file for file in Path(server.config.__file__).parent.glob("*.py") if file.name != "config.py"]
    read = {
        node.attr
        for file in sources
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute)
    }
    passed_over = SETTINGS.keys() - read - set(UNSERVED_FIELDS) - OF_UNSERVED_FEATURES

    assert {name for name in passed_over if not name.startswith("admin_")} == set()


def test_the_log_opens_as_the_original_does(tmp_path: Path) -> None:
    loaded = load_text(tmp_path, "clientPortAddress=127.0.0.1\nadmin.enableServer=false")

    assert messages(loaded, "info") == [
        f"Reading configuration from: {tmp_path}/zoo.cfg",
        "clientPortAddress is 127.0.0.1:2181",
        "secureClientPort is not set",
    ]
    assert messages(loaded, "warning") == []


def test_a_server_without_client_port_is_allowed(tmp_path: Path) -> None:
    loaded = load_config(write_zoo_cfg(tmp_path, "dataDir=DIR/data"), {})

    assert loaded.config.client_port is None
    assert "clientPort is not set" in messages(loaded, "info")


def test_secrets_stay_out_of_the_text_of_a_configuration(tmp_path: Path) -> None:
    text = "DigestAuthenticationProvider.superDigest=super:hush\nssl.keyStore.password=hush"

    config = config_from(tmp_path, text)

    assert config.super_digest == "super:hush"
    assert "hush" not in repr(config)


def test_no_two_fields_read_the_same_key() -> None:
    keys = [(setting.key, setting.origin) for setting in SETTINGS.values()]

    assert len(keys) == len(set(keys))


def test_every_field_is_a_setting_or_is_gathered_from_several() -> None:
    gathered = {
        "auth_providers",
        "enforce_auth_schemes",
        "ensemble",
        "four_letter_words_whitelist",
        "metrics_provider_settings",
        "my_id",
        "super_users",
        "tls_client_settings",
        "tls_quorum_settings",
    }

    assert {field.name for field in attrs.fields(ServerConfig)} - SETTINGS.keys() == gathered


ONE_SERVER = "dataDir=DIR/data\ntickTime=2000\nserver.1=localhost:2888:3888;2181\n"


def test_a_single_server_line_runs_standalone_on_its_client_port(tmp_path: Path) -> None:
    """The official image's default configuration."""
    loaded = load_config(write_zoo_cfg(tmp_path, ONE_SERVER, my_id="1\n"), {})

    config = loaded.config
    assert not config.is_distributed
    assert (config.my_id, config.client_port, config.client_port_address) == (1, 2181, "0.0.0.0")
    assert messages(loaded, "error") == ["Invalid configuration, only one server specified (ignoring)"]


def test_a_client_port_nobody_can_be_given_is_warned_of(tmp_path: Path) -> None:
    loaded = load_config(write_zoo_cfg(tmp_path, ONE_SERVER), {})

    assert loaded.config.client_port is None
    warning, *_ = messages(loaded, "warning")
    assert warning.startswith("No client port is opened")


THREE_SERVERS = """\
dataDir=DIR/data
initLimit=10
syncLimit=5
server.2=zoo2:2888:3888:OBSERVER
server.1=zoo1:2888:3888
server.10=[fe80::1]:2888:3888:participant;[::1]:2181
"""


@pytest.mark.parametrize("key", ["sslQuorum", "portUnification", "quorum.auth.enableSasl"])
def test_an_ensemble_that_asks_for_protected_links_does_not_start_without(key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"{key}=true: this version speaks to other servers in plain text"):
        load_config(write_zoo_cfg(tmp_path, THREE_SERVERS + f"{key}=true\n", my_id="1"), {})


def test_server_lines_are_read_in_the_order_of_their_ids(tmp_path: Path) -> None:
    config = load_config(write_zoo_cfg(tmp_path, THREE_SERVERS, my_id="10"), {}).config

    assert config.is_distributed
    assert list(config.ensemble.members.values()) == [
        Member(server_id=1, addresses=(Address("zoo1", 2888, 3888),)),
        Member(server_id=2, addresses=(Address("zoo2", 2888, 3888),), role=Role.OBSERVER),
        Member(server_id=10, addresses=(Address("fe80::1", 2888, 3888),), client=ClientAddress("::1", 2181)),
    ]
    assert (config.client_port_address, config.client_port) == ("::1", 2181)
    assert str(config.ensemble.members[10]) == "[fe80::1]:2888:3888:participant;[::1]:2181"


def test_two_servers_at_one_address_are_warned_of(tmp_path: Path) -> None:
    lines = "server.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=b:2889:3888\n"
    file = write_zoo_cfg(tmp_path, f"dataDir=DIR/data\ninitLimit=5\nsyncLimit=2\n{lines}", my_id="1")

    warnings = messages(load_config(file, {}), "warning")

    assert [warning for warning in warnings if "autopurge" not in warning] == [
        "server.2 and server.3 are both at b:3888; one of them is wrong"
    ]


def test_old_files_that_nothing_removes_are_warned_of(tmp_path: Path) -> None:
    """The default is the original's, and the disk fills: whoever runs it should know."""
    off = load_text(tmp_path, "autopurge.purgeInterval=0")
    on = load_text(tmp_path, "autopurge.purgeInterval=24")

    assert [message.partition(":")[0] for message in messages(off, "warning")] == [
        "autopurge.purgeInterval=0"
    ]
    assert messages(on, "warning") == []


def test_the_client_port_of_zoo_cfg_fills_an_own_line_without_one(tmp_path: Path) -> None:
    config = load_config(write_zoo_cfg(tmp_path, THREE_SERVERS + "clientPort=2181", my_id="1"), {}).config

    assert config.ensemble.members[1].client == ClientAddress("0.0.0.0", 2181)
    assert config.ensemble.members[1].client_is_static


def test_the_servers_list_decides_the_role(tmp_path: Path) -> None:
    loaded = load_config(write_zoo_cfg(tmp_path, THREE_SERVERS, my_id="2"), {})

    assert loaded.config.peer_type is Role.OBSERVER
    assert any("Defaulting to servers list." in warning for warning in messages(loaded, "warning"))


def test_a_dynamic_file_lists_the_servers_and_its_name_their_version(tmp_path: Path) -> None:
    (tmp_path / "zoo.cfg.dynamic.100000008").write_text("server.1=a:1:2;3\nserver.2=b:1:2;3\n")
    text = "dataDir=DIR/data\ninitLimit=1\nsyncLimit=1\ndynamicConfigFile=DIR/zoo.cfg.dynamic.100000008"

    config = load_config(write_zoo_cfg(tmp_path, text, my_id="2"), {}).config

    assert list(config.ensemble.members) == [1, 2]
    assert config.ensemble.version == 0x100000008
    assert config.client_port == 3


@pytest.mark.parametrize(
    ("name", "version"),
    [("dynamic.7fffffffffffffff", (1 << 63) - 1), ("dynamic.8000000000000000", 0), ("dynamic.old", 0)],
)
def test_a_name_that_ends_in_no_version_means_none(name: str, version: int) -> None:
    """A version is a zxid; what is too long for one would fit into no message."""
    assert version_in_name(Path(name)) == version


def test_groups_and_weights_make_quorums_hierarchical(tmp_path: Path) -> None:
    text = THREE_SERVERS + "group.1=1:10\nweight.1=2\n"

    ensemble = load_config(write_zoo_cfg(tmp_path, text, my_id="1"), {}).config.ensemble

    assert ensemble.groups == {1: (1, 10)}
    assert ensemble.weights == {1: 2, 10: 1}


def test_an_oracle_leaves_no_room_for_groups(tmp_path: Path) -> None:
    text = THREE_SERVERS + "group.1=1:10\nweight.1=2\noraclePath=DIR/oracle\n"

    loaded = load_config(write_zoo_cfg(tmp_path, text, my_id="1"), {})

    assert not loaded.config.ensemble.is_hierarchical
    assert "group and weight lines have no effect: with oraclePath a majority counts" in messages(
        loaded, "warning"
    )


@pytest.mark.parametrize(
    ("key", "flags"), [("multiAddress.enabled=true", ""), ("", "-Dzookeeper.multiAddress.enabled=true")]
)
def test_a_server_may_have_several_addresses_where_that_is_allowed(
    key: str, flags: str, tmp_path: Path
) -> None:
    text = f"server.1=a:1:2|b:3:4:participant;5\n{key}"

    config = config_from(tmp_path, text, {"JVMFLAGS": flags})

    (member,) = config.ensemble.members.values()
    assert config.multi_address_enabled
    assert member.addresses == (Address("a", 1, 2), Address("b", 3, 4))
    assert str(member) == "a:1:2|b:3:4:participant;0.0.0.0:5"


def test_without_standalone_even_one_server_is_an_ensemble(tmp_path: Path) -> None:
    text = "dataDir=DIR/data\nstandaloneEnabled=false\ninitLimit=1\nsyncLimit=1\nserver.1=localhost:2888:3888"

    assert load_config(write_zoo_cfg(tmp_path, text, my_id="1"), {}).config.is_distributed


def test_the_sample_configuration_is_without_fault() -> None:
    loaded = load_config(Path(__file__).parents[2] / "docs" / "zoo.cfg", {})

    assert messages(loaded, "warning") + messages(loaded, "error") == []
    assert loaded.config.four_letter_words_whitelist == {"srvr", "ruok", "stat", "mntr", "conf"}
