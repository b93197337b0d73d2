"""From zoo.cfg, -D flags and the files beside them to a checked configuration.

Precedence is the original's: its own keys are read from zoo.cfg alone; any other key K of zoo.cfg is the Java
property `zookeeper.K` and overrides -Dzookeeper.K; properties without that prefix come by -D alone. A bad
value of an own key stops the server, a bad value of a property means the default, and says so.
"""

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from quorum.server_lines import ALL_INTERFACES, bracketed
from quorum.setting_text import BadValue
from server.acls import digest_id
from server.auth_settings import read_auth_providers, read_enforced_schemes
from server.config import DEFAULT_METRICS_PROVIDER, FOUR_LETTER_WORDS, LoadedConfig, Note, ServerConfig
from server.config_error import EXIT_UNEXPECTED, INVALID_ARGUMENTS, UNEXPECTED, ConfigError
from server.config_notes import (
    METRICS_PREFIX,
    SETTINGS,
    check_jvm_native,
    notes_on_disk_use,
    notes_on_flags,
    notes_on_keys,
    notes_on_unserved,
)
from server.config_sources import Entry, Sources
from server.config_values import comma_list
from server.ensemble_loading import with_ensemble
from server.jvm_flags import JvmFlags, read_jvm_flags
from server.settings import Origin, Setting

WITHOUT_A_FILE = {
    "dataDir": "./data",
    "clientPort": "2181",
    "clientPortAddress": "127.0.0.1",
    "tickTime": "2000",
}
DIRECT_FORM = "port datadir [ticktime] [maxcnxns]"
METRICS_PROVIDERS = (
    DEFAULT_METRICS_PROVIDER,
    "org.apache.zookeeper.metrics.impl.NullMetricsProvider",
    "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
)


def load_defaults(environ: Mapping[str, str], chosen: Mapping[str, str] | None = None) -> LoadedConfig:
    """A server without a configuration file: for this machine alone, at 127.0.0.1:2181, from ./data.

    `chosen` holds settings that replace these, by their key.
    """
    values = WITHOUT_A_FILE | dict(chosen or {})
    return _load(_standing_in_for_a_file(values, read_jvm_flags(environ, None)), "")


def load_config(path: Path, environ: Mapping[str, str]) -> LoadedConfig:
    """The configuration in a zoo.cfg."""
    from server.zoo_cfg_syntax import read_properties  # a server without a file does without

    nothing_read = Sources(path, {}, JvmFlags({}))
    try:
        content = path.read_bytes()
        sources = Sources(path, read_properties(content), read_jvm_flags(environ, path.parent))
    except FileNotFoundError:
        remedy = "check the path, or give none to start with the defaults"
        raise nothing_read.error(f"{path} file is missing", remedy) from None
    except (OSError, ValueError) as error:
        remedy = "name a file that this user may read"
        raise nothing_read.error(f"{path} ({getattr(error, 'strerror', error)})", remedy) from None
    except BadValue as problem:
        raise nothing_read.error_from(problem) from None
    return _load(sources, content.decode(errors="replace"))


def load_direct_form(arguments: Sequence[str], environ: Mapping[str, str]) -> LoadedConfig:
    """The configuration given on the command line as `port datadir [ticktime] [maxcnxns]`."""
    if not 2 <= len(arguments) <= 4:
        raise ConfigError(
            wording=f"Invalid number of arguments:[{', '.join(arguments)}]",
            remedy=f"give a configuration file, or {DIRECT_FORM}",
            summary=INVALID_ARGUMENTS,
        )
    keys = ("clientPort", "dataDir", "tickTime", "maxClientCnxns")
    values = {"maxClientCnxns": "0"} | dict(zip(keys, arguments, strict=False))
    try:
        return _load(_standing_in_for_a_file(values, read_jvm_flags(environ, None)), "")
    except ConfigError as error:
        raise attrs.evolve(error, summary=INVALID_ARGUMENTS) from None


def _standing_in_for_a_file(values: Mapping[str, str], flags: JvmFlags) -> Sources:
    return Sources(None, {key: Entry(value) for key, value in values.items()}, flags)


def _load(sources: Sources, raw_text: str) -> LoadedConfig:
    fields = _read_settings(sources) | _read_groups(sources)
    _check_addresses(sources)
    config = with_ensemble(ServerConfig(**fields), sources)
    _check_values(config, sources)
    _check_quorum_sasl(config, sources)
    _check_quorum_security(config, sources)
    flags = sources.flags
    notes = [
        *_opening_notes(config, sources),
        *sources.notes,
        *notes_on_keys(sources.values),
        *notes_on_flags(flags.properties, flags.jvm_only, flags.unread),
        *notes_on_unserved(config, sources.entries, fields),
        *(notes_on_disk_use(config) if sources.file is not None else ()),
    ]
    return LoadedConfig(
        config=config,
        path=sources.file,
        raw_text=raw_text,
        notes=tuple(notes),
        properties=sources.properties,
    )


def _read_settings(sources: Sources) -> dict[str, Any]:
    """The fields that somebody set, by name."""
    try:
        check_jvm_native(sources.values)
    except BadValue as problem:
        raise sources.error_from(problem) from None
    read = {name: _read_setting(setting, sources) for name, setting in SETTINGS.items()}
    fields = {name: value for name, value in read.items() if value is not None}
    if "data_dir" not in fields:
        raise sources.error("dataDir is not set", "add a line such as dataDir=/var/lib/zookeeper")
    return fields


def _read_setting(setting: Setting, sources: Sources) -> Any:
    text = sources.text_of(setting)
    if text is None:
        return None
    try:
        value = setting.read(text)
    except BadValue as problem:
        if setting.origin is Origin.ZOO_CFG:
            raise sources.error_from(problem, setting.key) from None
        sources.warn(f"{setting.key}={text}: {problem.wording}, so the default counts; {problem.remedy}")
        return None
    if setting.minimum is not None and value < setting.minimum:
        sources.warn(f"Invalid {setting.key}: {value}. Defaulting to {setting.minimum}")
        return setting.minimum
    return value


def _read_groups(sources: Sources) -> dict[str, Any]:
    """The fields that gather several keys."""
    properties = sources.properties
    tls = _below("zookeeper.ssl.", properties)
    return {
        "four_letter_words_whitelist": _read_whitelist(sources),
        "super_users": frozenset(
            value for key, value in properties.items() if f"{key}.".startswith("zookeeper.superUser.")
        ),
        "auth_providers": read_auth_providers(sources),
        "enforce_auth_schemes": read_enforced_schemes(sources),
        "metrics_provider_settings": _below(METRICS_PREFIX, sources.values),
        "tls_client_settings": {key: tls[key] for key in tls if not key.startswith("quorum.")},
        "tls_quorum_settings": _below("quorum.", tls),
    }


def _below(prefix: str, values: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}


def _read_whitelist(sources: Sources) -> frozenset[str]:
    """The four-letter words that are answered: `*` means all, and `srvr` is always among them."""
    properties = sources.properties
    asked_for = set(comma_list(properties.get("zookeeper.4lw.commands.whitelist", "")))
    if "*" in asked_for:
        return FOUR_LETTER_WORDS
    for word in sorted(asked_for - FOUR_LETTER_WORDS):
        known = " ".join(sorted(FOUR_LETTER_WORDS))
        sources.warn(f"4lw.commands.whitelist: there is no word {word!r}; known are {known}")
    always = {"srvr", "isro"} if properties.get("readonlymode.enabled") == "true" else {"srvr"}
    return FOUR_LETTER_WORDS & (always | asked_for)


def _check_addresses(sources: Sources) -> None:
    for port_key in ("clientPort", "secureClientPort"):
        address_key = f"{port_key}Address"
        address = sources.entries.get(address_key)
        if address is None:
            continue
        if port_key not in sources.entries:
            wording = f"{address_key} is set but {port_key} is not set"
            raise sources.error(wording, f"add a line {port_key}=2181", address_key)
        try:
            socket.getaddrinfo(address.value, None)
        except (OSError, ValueError):
            wording = f"{address.value}: Name or service not known"
            raise sources.error(wording, "name an address of this machine", address_key) from None


def _check_values(config: ServerConfig, sources: Sources) -> None:
    """What no single key can tell."""
    if config.tick_ms == 0:
        raise sources.error("tickTime is not set", "write milliseconds, such as tickTime=2000", "tickTime")
    if config.tick_ms < 0:
        raise sources.error("tickTime must be above zero", "write milliseconds, such as 2000", "tickTime")
    if config.session_ms_min > config.session_ms_max:
        key = "minSessionTimeout" if "minSessionTimeout" in sources.entries else "maxSessionTimeout"
        wording = "minSessionTimeout must not be larger than maxSessionTimeout"
        bounds = f"they are {config.session_ms_min} and {config.session_ms_max} ms now"
        raise sources.error(wording, f"{bounds}; unset they are 2 and 20 ticks", key)
    if config.election_alg != 3:
        raise sources.error(
            "Invalid electionAlg value. Only 3 is supported.", "remove the line", "electionAlg"
        )
    if config.client_port is None and config.secure_client_port is not None:
        wording = "secureClientPort is set and clientPort is not: without TLS, nobody could connect"
        raise sources.error(wording, "set clientPort: this version serves no TLS", "secureClientPort")
    try:
        digest_id(b"", config.digest_auth_algorithm)
    except ValueError:
        wording = f"{config.digest_auth_algorithm} is no digest algorithm of this system"
        remedy = "write SHA1, SHA-256, SHA-512 or SHA3-256"
        raise sources.error(wording, remedy, "DigestAuthenticationProvider.digestAlg") from None
    if config.metrics_provider_class not in METRICS_PROVIDERS:
        remedy = f"remove the line, or write {METRICS_PROVIDERS[-1]}"
        raise sources.error("metrics provider class was not found", remedy, "metricsProvider.className")
    if config.jaas_file is not None and not config.jaas_file.is_file():
        wording = (
            f"No JAAS configuration section named '{config.sasl_server_section}' was found in"
            f" '{config.jaas_file}'."
        )
        remedy = "correct -Djava.security.auth.login.config, or leave it out"
        raise sources.error(wording, remedy, summary=UNEXPECTED, exit_code=EXIT_UNEXPECTED)


def _check_quorum_sasl(config: ServerConfig, sources: Sources) -> None:
    """Requiring SASL of others needs offering it ourselves, and that needs it switched on."""
    enable, server, learner = (
        f"quorum.auth.{name}" for name in ("enableSasl", "serverRequireSasl", "learnerRequireSasl")
    )
    needs = (
        (server, config.quorum_server_require_sasl, enable, config.quorum_sasl_enabled),
        (learner, config.quorum_learner_require_sasl, enable, config.quorum_sasl_enabled),
        (server, config.quorum_server_require_sasl, learner, config.quorum_learner_require_sasl),
    )
    for key, is_wanted, needed_key, is_there in needs:
        if is_wanted and not is_there:
            wording = f"{needed_key} is disabled, so cannot enable {key}"
            raise sources.error(wording, f"add a line {needed_key}=true", key)


def _check_quorum_security(config: ServerConfig, sources: Sources) -> None:
    """What should protect the links between servers, and would not, stops the start: nobody reads the log."""
    wanted = {
        "sslQuorum": config.ssl_quorum,
        "portUnification": config.quorum_port_unification,
        "quorum.auth.enableSasl": config.quorum_sasl_enabled,
    }
    for key, is_wanted in wanted.items():
        if is_wanted and config.is_distributed:
            wording = f"{key}=true: this version speaks to other servers in plain text only"
            raise sources.error(wording, f"remove {key}, and protect the network between the servers", key)


def _opening_notes(config: ServerConfig, sources: Sources) -> list[Note]:
    """The lines with which the original begins its log."""
    notes = [] if sources.file is None else [Note("info", f"Reading configuration from: {sources.file}")]
    for key in ("dataDir", "dataLogDir"):
        path = sources.values.get(key, "/")
        if not path.startswith(("/", ".")):
            notes.append(Note("warning", f"{path} is relative. Prepend ./ to indicate that you're sure!"))
    for name, address, port in (
        ("clientPort", config.client_port_address, config.client_port),
        ("secureClientPort", config.secure_client_port_address, config.secure_client_port),
    ):
        listens_at = f"{bracketed(address or ALL_INTERFACES)}:{port}"
        message = f"{name} is not set" if port is None else f"{name}Address is {listens_at}"
        notes.append(Note("info", message))
    return notes
