"""What the variables of an image ask for, before anybody has looked at the disk. Pure."""

from collections.abc import Collection, Mapping, Sequence

import attrs

from server.config import Note
from server.container.config_lines import Line, is_flag_only, key_named, lines_in
from server.container.refused_security import is_about_security, refuse_security_lines
from server.container.variables import CONFIG_EXTRA, CONFIG_KEY_PREFIX, Refused, Variables

LOG_LEVELS = {"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF", "ALL"}

# Settings of a JVM, of its management port and of scripts; the server itself names -X flags in JVMFLAGS.
_NOT_NEEDED = frozenset(
    "JMXAUTH JMXDISABLE JMXLOG4J JMXPORT JMXSSL KAFKA_HEAP_OPTS KAFKA_JMX_HOSTNAME KAFKA_JMX_OPTS"
    " KAFKA_JMX_PORT KAFKA_JVM_PERFORMANCE_OPTS KAFKA_GC_LOG_OPTS ZOO_FIPS_MODE ZOO_HEAP_SIZE ZOO_HC_TIMEOUT"
    " ZOOKEEPER_LOG4J_LOGGERS ZOOKEEPER_TOOLS_LOG4J_LOGLEVEL ZOOKEEPER_CLIENT_CNXN_SOCKET"
    " ZOOKEEPER_SERVER_CNXN_SOCKET ZOOKEEPER_TRACE_FILE".split()
)


@attrs.frozen(kw_only=True)
class Draft:
    """A configuration to be written, where it goes, and what the server's environment must hold.

    `directories` are to belong to the server's user. `my_id` is what `id_variable` says, empty if that is not
    set. `is_made_at_each_start`: the file is written at every start, not only if there is none. `needs_id`:
    a server without others has a file myid too.
    """

    config_file: str
    lines: tuple[Line, ...]
    data_dir: str
    directories: tuple[str, ...]
    id_variable: str
    my_id: str
    is_made_at_each_start: bool = False
    needs_id: bool = True
    exports: Mapping[str, str] = attrs.field(factory=dict)
    notes: tuple[Note, ...] = ()


def extra_lines(variables: Variables) -> list[Line]:
    """The lines of ZOO_CFG_EXTRA."""
    return lines_in(variables.get(CONFIG_EXTRA), CONFIG_EXTRA)


def named_lines(variables: Variables) -> dict[str, Line]:
    """The lines of all `ZOO_CFG_<key>`, by key."""
    lines: dict[str, Line] = {}
    for name in variables.starting_with(CONFIG_KEY_PREFIX):
        key = key_named(name.removeprefix(CONFIG_KEY_PREFIX))
        if key in lines:
            raise Refused(f"{lines[key].variable} and {name} both set {key}: keep one of them")
        if name != CONFIG_EXTRA:
            lines[key] = Line(key, variables.get(name), name)
    return lines


def value_in(lines: Sequence[Line], key: str) -> str:
    """The value of a key that counts, which is the last one; empty if there is none."""
    return next((line.value for line in reversed(lines) if line.key == key), "")


def split_flags(lines: list[Line]) -> tuple[tuple[Line, ...], list[str]]:
    """The lines that belong into zoo.cfg, and -D flags for those that the server only takes there.

    `Refused` if one of them asks for TLS or SASL.
    """
    refuse_security_lines(lines)
    flags = [f"-D{line.key}={line.value}" for line in lines if is_flag_only(line.key)]
    return tuple(line for line in lines if not is_flag_only(line.key)), flags


def exports_of(variables: Variables, flags: list[str], level_variables: tuple[str, ...]) -> dict[str, str]:
    """What the server's environment holds beside the container's own: flags, and the level of its log."""
    exports: dict[str, str] = {
        name: variables.get(name) for name in ("JVMFLAGS", "CLIENT_JVMFLAGS") if name in variables.secret
    }
    if flags or "SERVER_JVMFLAGS" in variables.secret:
        exports["SERVER_JVMFLAGS"] = " ".join([*flags, variables.get("SERVER_JVMFLAGS")]).strip()
    level = next((_level(variables.get(name)) for name in level_variables if name in variables), "")
    if level and "TRIOKEEPER_LOG_LEVEL" not in variables:
        exports["TRIOKEEPER_LOG_LEVEL"] = level
    return exports


def _level(text: str) -> str:
    """The level in `INFO` or, as log4j has it, in `INFO, CONSOLE`."""
    word = text.partition(",")[0].strip().upper()
    return word.lower() if word in LOG_LEVELS else ""


def unknown_names(variables: Variables, prefix: str | tuple[str, ...], known: Collection[str]) -> list[str]:
    """The variables of an image's family that mean nothing to it."""
    return [
        name
        for name in variables.starting_with(prefix)
        if name not in known
        and name not in _NOT_NEEDED
        and not name.startswith(CONFIG_KEY_PREFIX)
        and not is_about_security(name)
    ]


def notes_on_variables(
    variables: Variables, level_variables: tuple[str, ...], unknown: list[str]
) -> tuple[Note, ...]:
    """What the log says about variables that do nothing, or less than they say."""
    notes = []
    not_needed = sorted(_NOT_NEEDED & variables.values.keys())
    if not_needed:
        notes.append(Note("info", f"Accepted and not needed by this server: {', '.join(not_needed)}"))
    for name in level_variables:
        text = variables.get(name)
        _, _, appenders = text.partition(",")
        if text and not _level(text):
            notes.append(
                Note("warning", f"{name}={text} names no level: write one of DEBUG, INFO, WARN, ERROR")
            )
        elif appenders and appenders.strip().upper() != "CONSOLE":
            notes.append(Note("warning", f"{name}={text}: the level counts; the log goes to standard output"))
    if unknown:
        notes.append(Note("warning", f"No setting of this image, without effect: {', '.join(unknown)}"))
    return tuple(notes)
