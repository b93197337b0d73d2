"""The variables and paths of Bitnami's image, `bitnami/zookeeper`. Pure."""

import re

from server.container.config_lines import Line, with_overrides
from server.container.draft import (
    Draft,
    exports_of,
    extra_lines,
    named_lines,
    notes_on_variables,
    split_flags,
    unknown_names,
    value_in,
)
from server.container.official import DIRECTORIES
from server.container.variables import Refused, Variables, is_yes

VOLUME = "/bitnami/zookeeper"
CONFIG_FILE = "/opt/bitnami/zookeeper/conf/zoo.cfg"
PROMETHEUS_PROVIDER = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
ALLOWS_OPEN = ("ALLOW_ANONYMOUS_LOGIN", "ALLOW_EMPTY_PASSWORD")

# In the order of the file, without the directories. Where the last word is True, yes and no become true and
# false.
_SETTINGS = (
    ("tickTime", "ZOO_TICK_TIME", "2000", False),
    ("initLimit", "ZOO_INIT_LIMIT", "10", False),
    ("syncLimit", "ZOO_SYNC_LIMIT", "5", False),
    ("preAllocSize", "ZOO_PRE_ALLOC_SIZE", "65536", False),
    ("snapCount", "ZOO_SNAPCOUNT", "100000", False),
    ("clientPort", "ZOO_PORT_NUMBER", "2181", False),
    ("maxCnxns", "ZOO_MAX_CNXNS", "0", False),
    ("maxClientCnxns", "ZOO_MAX_CLIENT_CNXNS", "60", False),
    ("reconfigEnabled", "ZOO_RECONFIG_ENABLED", "no", True),
    ("quorumListenOnAllIPs", "ZOO_LISTEN_ALLIPS_ENABLED", "no", True),
    ("autopurge.purgeInterval", "ZOO_AUTOPURGE_INTERVAL", "0", False),
    ("autopurge.snapRetainCount", "ZOO_AUTOPURGE_RETAIN_COUNT", "3", False),
    ("4lw.commands.whitelist", "ZOO_4LW_COMMANDS_WHITELIST", "srvr, mntr", False),
    ("maxSessionTimeout", "ZOO_MAX_SESSION_TIMEOUT", "40000", False),
    ("admin.serverAddress", "ZOO_ADMIN_SERVER_ADDRESS", "127.0.0.1", False),
    ("admin.serverPort", "ZOO_ADMIN_SERVER_PORT_NUMBER", "8080", False),
    ("admin.enableServer", "ZOO_ENABLE_ADMIN_SERVER", "no", True),
)
_LEVELS = ("ZOO_LOG_LEVEL", "ZOO_LOG4J_PROP")
_OTHERS = frozenset(
    "ZOO_SERVERS ZOO_SERVER_ID ZOO_PEER_TYPE ZOO_ENABLE_PROMETHEUS_METRICS ZOO_PROMETHEUS_METRICS_PORT_NUMBER"
    " ZOO_LOG_FILE".split()
)
_SERVER = re.compile(r"(?P<address>\S+?:\d+:\d+(:(observer|participant))?)(::(?P<id>\d+))?")


def draft_bitnami(variables: Variables) -> Draft:
    _check_open_is_allowed(variables)
    data_dir = _directory(variables, "ZOO_DATA_DIR") or f"{VOLUME}/data"
    log_dir = _directory(variables, "ZOO_DATA_LOG_DIR")
    lines = with_overrides(_lines(variables, data_dir, log_dir), named_lines(variables))
    data_dir, log_dir = value_in(lines, "dataDir"), value_in(lines, "dataLogDir")
    in_file, flags = split_flags(lines)
    known = {name for _, name, _, _ in _SETTINGS} | DIRECTORIES.keys() | {*_LEVELS} | _OTHERS
    conf_dir = _directory(variables, "ZOO_CONF_DIR")
    return Draft(
        config_file=f"{conf_dir}/zoo.cfg" if conf_dir else CONFIG_FILE,
        lines=in_file,
        data_dir=data_dir,
        directories=(data_dir, log_dir) if log_dir else (data_dir,),
        id_variable="ZOO_SERVER_ID",
        my_id=variables.get("ZOO_SERVER_ID"),
        exports=exports_of(variables, flags, _LEVELS),
        notes=notes_on_variables(variables, _LEVELS, unknown_names(variables, ("ZOO_", "KAFKA_OPTS"), known)),
    )


def _directory(variables: Variables, name: str) -> str:
    """A directory that somebody asked for: the image sets these variables too, to the official image's."""
    value = variables.get(name)
    return "" if value == DIRECTORIES[name] else value


def _check_open_is_allowed(variables: Variables) -> None:
    """That image runs without authentication only if told so."""
    if not any(is_yes(variables.get(name)) for name in ALLOWS_OPEN):
        raise Refused(
            "ALLOW_ANONYMOUS_LOGIN is not yes, and this version serves no authentication: "
            "set ALLOW_ANONYMOUS_LOGIN=yes to let every client in"
        )


def _lines(variables: Variables, data_dir: str, log_dir: str) -> list[Line]:
    lines = [Line("dataDir", data_dir)]
    if log_dir:
        lines.append(Line("dataLogDir", log_dir, "ZOO_DATA_LOG_DIR"))
    for key, name, default, is_switch in _SETTINGS:
        value = variables.get(name, default)
        shown = str(is_yes(value)).lower() if is_switch else value
        lines.append(Line(key, shown, name if value != default else None))
    lines += _server_lines(variables)
    if "ZOO_PEER_TYPE" in variables:
        lines.append(Line("peerType", variables.get("ZOO_PEER_TYPE"), "ZOO_PEER_TYPE"))
    if is_yes(variables.get("ZOO_ENABLE_PROMETHEUS_METRICS")):
        port = variables.get("ZOO_PROMETHEUS_METRICS_PORT_NUMBER", "7000")
        lines.append(Line("metricsProvider.className", PROMETHEUS_PROVIDER, "ZOO_ENABLE_PROMETHEUS_METRICS"))
        lines.append(Line("metricsProvider.httpPort", port, "ZOO_PROMETHEUS_METRICS_PORT_NUMBER"))
    # The other pods' names may resolve only minutes later.
    return [*lines, Line("electionPortBindRetry", "0"), *extra_lines(variables)]


def _server_lines(variables: Variables) -> list[Line]:
    """One line for each server, if there are several: `host:2888:3888[:observer][::id]`."""
    words = re.split(r"[;,\s]+", variables.get("ZOO_SERVERS").strip(";, \t\n"))
    if len(words) < 2:
        return []
    port = variables.get("ZOO_PORT_NUMBER", "2181")
    lines = []
    for position, word in enumerate(words, start=1):
        match = _SERVER.fullmatch(word)
        if match is None:
            raise Refused(
                f"ZOO_SERVERS: {word} is no server; write it like "
                "ZOO_SERVERS=zoo1:2888:3888,zoo2:2888:3888,zoo3:2888:3888"
            )
        server_id = match["id"] or str(position)
        lines.append(Line(f"server.{server_id}", f"{match['address']};{port}", "ZOO_SERVERS"))
    return lines
