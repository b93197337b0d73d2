"""The variables and paths of Confluent's image, `confluentinc/cp-zookeeper`. Pure.

Every `ZOOKEEPER_<KEY>` is a key of the file, by the names of config_lines.py: that image has a list of some
seventy, and those that people miss there (the whitelist of four-letter words) work here.
"""

from server.container.config_lines import Line, find_key, with_overrides
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
from server.container.refused_security import is_about_security
from server.container.variables import Variables

PREFIX = "ZOOKEEPER_"
CONFIG_FILE = "/etc/kafka/zookeeper.properties"
DATA_DIR = "/var/lib/zookeeper/data"
LOG_DIR = "/var/lib/zookeeper/log"

_LISTS = {"ZOOKEEPER_SERVERS": "server", "ZOOKEEPER_GROUPS": "group", "ZOOKEEPER_WEIGHTS": "weight"}
_LEVELS = ("ZOOKEEPER_LOG4J_ROOT_LOGLEVEL", "KAFKA_LOG4J_ROOT_LOGLEVEL", "ZOO_LOG_LEVEL")
_OTHERS = frozenset({"ZOOKEEPER_SERVER_ID", "ZOOKEEPER_LOG4J_ROOT_LOGLEVEL"})


def key_of(name: str) -> str | None:
    """The key that a variable sets, if it is one of this image's."""
    if name in _LISTS or name in _OTHERS or is_about_security(name) or not name.startswith(PREFIX):
        return None
    return find_key(name.removeprefix(PREFIX))


def asks_for_confluent(variables: Variables) -> bool:
    """Whether any variable is one that this image's users set."""
    return any(
        name in _LISTS or name in _OTHERS or key_of(name) is not None or is_about_security(name)
        for name in variables.starting_with(PREFIX)
    )


def draft_confluent(variables: Variables) -> Draft:
    lines = with_overrides(_lines(variables), named_lines(variables))
    in_file, flags = split_flags(lines)
    flags += variables.get("KAFKA_OPTS").split()
    unknown = [
        name for name in unknown_names(variables, PREFIX, _LISTS.keys() | _OTHERS) if key_of(name) is None
    ] + unknown_names(variables, "ZOO_", DIRECTORIES.keys() | {*_LEVELS})
    return Draft(
        config_file=CONFIG_FILE,
        lines=in_file,
        data_dir=value_in(lines, "dataDir"),
        directories=(value_in(lines, "dataDir"), value_in(lines, "dataLogDir")),
        id_variable="ZOOKEEPER_SERVER_ID",
        my_id=variables.get("ZOOKEEPER_SERVER_ID"),
        is_made_at_each_start=True,
        needs_id=False,
        exports=exports_of(variables, flags, _LEVELS),
        notes=notes_on_variables(variables, _LEVELS, unknown),
    )


def _lines(variables: Variables) -> list[Line]:
    lines = [Line("dataDir", DATA_DIR), Line("dataLogDir", LOG_DIR)]
    keys = {name: key_of(name) for name in variables.starting_with(PREFIX)}
    lines += [Line(key, variables.get(name), name) for name, key in keys.items() if key is not None]
    if "ZOOKEEPER_SERVERS" in variables:
        present = {line.key for line in lines}
        limits = (("initLimit", "10"), ("syncLimit", "5"))
        lines += [Line(key, usual) for key, usual in limits if key not in present]
    for variable, word in _LISTS.items():
        parts = [part.strip() for part in variables.get(variable).split(";") if part.strip()]
        lines += [Line(f"{word}.{number}", part, variable) for number, part in enumerate(parts, start=1)]
    return lines + extra_lines(variables)
