"""The variables of the official image, `zookeeper`. Pure."""

from quorum.server_lines import is_membership_key
from server.container.config_lines import Line, lines_in, with_overrides
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
from server.container.variables import Refused, Variables

# What the image sets itself: equal values say nothing about what its user wants.
DIRECTORIES = {
    "ZOO_CONF_DIR": "/conf",
    "ZOO_DATA_DIR": "/data",
    "ZOO_DATA_LOG_DIR": "/datalog",
    "ZOO_LOG_DIR": "/logs",
}
# In the order of the file.
_SETTINGS = (
    ("dataDir", "ZOO_DATA_DIR", "/data"),
    ("dataLogDir", "ZOO_DATA_LOG_DIR", "/datalog"),
    ("tickTime", "ZOO_TICK_TIME", "2000"),
    ("initLimit", "ZOO_INIT_LIMIT", "5"),
    ("syncLimit", "ZOO_SYNC_LIMIT", "2"),
    ("autopurge.snapRetainCount", "ZOO_AUTOPURGE_SNAPRETAINCOUNT", "3"),
    ("autopurge.purgeInterval", "ZOO_AUTOPURGE_PURGEINTERVAL", "0"),
    ("maxClientCnxns", "ZOO_MAX_CLIENT_CNXNS", "60"),
    ("standaloneEnabled", "ZOO_STANDALONE_ENABLED", "true"),
    ("admin.enableServer", "ZOO_ADMINSERVER_ENABLED", "true"),
)
_ONE_SERVER = "server.1=localhost:2888:3888"
_CLIENT_PORT = ";2181"
_LEVELS = ("ZOO_LOG_LEVEL", "ZOO_LOG4J_PROP")
_OTHERS = frozenset(
    "ZOO_SERVERS ZOO_MY_ID ZOO_4LW_COMMANDS_WHITELIST ZOO_LOG_FILE ZOO_DATADIR_AUTOCREATE_DISABLE"
    " ZOO_NOEXEC".split()
)


def draft_official(variables: Variables) -> Draft:
    lines = with_overrides(_lines(variables), named_lines(variables))
    in_file, flags = split_flags(lines)
    known = {name for _, name, _ in _SETTINGS} | DIRECTORIES.keys() | {*_LEVELS} | _OTHERS
    return Draft(
        config_file=_config_file(variables),
        lines=in_file,
        data_dir=value_in(lines, "dataDir"),
        directories=(
            value_in(lines, "dataDir"),
            value_in(lines, "dataLogDir"),
            variables.get("ZOO_LOG_DIR", DIRECTORIES["ZOO_LOG_DIR"]),
        ),
        id_variable="ZOO_MY_ID",
        my_id=variables.get("ZOO_MY_ID"),
        exports=exports_of(variables, flags, _LEVELS),
        notes=notes_on_variables(variables, _LEVELS, unknown_names(variables, ("ZOO_", "KAFKA_OPTS"), known)),
    )


def _config_file(variables: Variables) -> str:
    """The file that zkServer.sh would read. ZOOCFGDIR is the scripts' own variable; the image sets it too."""
    directory = variables.get("ZOOCFGDIR")
    if directory in ("", DIRECTORIES["ZOO_CONF_DIR"]):
        directory = variables.get("ZOO_CONF_DIR", DIRECTORIES["ZOO_CONF_DIR"])
    return f"{directory}/{variables.get('ZOOCFG', 'zoo.cfg')}"


def _lines(variables: Variables) -> list[Line]:
    lines = []
    for key, name, default in _SETTINGS:
        value = variables.get(name, default)
        lines.append(Line(key, value, name if value != default else None))
    lines += _server_lines(variables)
    words = variables.get("ZOO_4LW_COMMANDS_WHITELIST")
    if words:
        lines.append(Line("4lw.commands.whitelist", words, "ZOO_4LW_COMMANDS_WHITELIST"))
    return lines + extra_lines(variables)


def _server_lines(variables: Variables) -> list[Line]:
    """The words of ZOO_SERVERS; without it a single server, unless another file lists them."""
    servers = variables.get("ZOO_SERVERS")
    if not servers:
        others = {line.key for line in [*extra_lines(variables), *named_lines(variables).values()]}
        if "dynamicConfigFile" in others:
            return []
        return lines_in(_ONE_SERVER if "clientPort" in others else _ONE_SERVER + _CLIENT_PORT, None)
    lines = lines_in(servers, "ZOO_SERVERS")
    for line in lines:
        if not is_membership_key(line.key):
            raise Refused(
                f"ZOO_SERVERS: {line.text} is no server line; write it like "
                f"ZOO_SERVERS=server.1=zoo1:2888:3888;2181 server.2=zoo2:2888:3888;2181"
            )
    return lines
