"""Lines of a zoo.cfg that is made from variables, and the names that variables have for its keys.

A variable can name any key: `ZOO_CFG_autopurge_purgeInterval`, `ZOO_CFG_AUTOPURGE_PURGEINTERVAL` and
Confluent's `ZOOKEEPER_AUTOPURGE_PURGE_INTERVAL` all mean `autopurge.purgeInterval`: case, dots, dashes and
underscores do not count. A key that is not known is taken as written, with dots for underscores; the server
says so in its log.

Pure.
"""

import re
from collections.abc import Iterable, Mapping

import attrs

from quorum.setting_text import BadValue
from server.config import ServerConfig
from server.config_notes import GROUPED_KEYS, JVM_NATIVE_KEYS, JVM_TUNING_KEYS, SETTINGS
from server.settings import SETTING, Origin

# Keys below a prefix that config.py reads as a group.
_KEYS_IN_GROUPS = frozenset(
    """metricsProvider.className metricsProvider.httpHost metricsProvider.httpPort
    metricsProvider.exportJvmInfo metricsProvider.numWorkerThreads metricsProvider.maxQueueSize
    metricsProvider.workerShutdownTimeoutMs ssl.authProvider ssl.clientAuth ssl.keyStore.location
    ssl.keyStore.password ssl.keyStore.passwordPath ssl.keyStore.type ssl.trustStore.location
    ssl.trustStore.password ssl.trustStore.passwordPath ssl.trustStore.type ssl.protocol ssl.enabledProtocols
    ssl.ciphersuites ssl.context.supplier.class ssl.hostnameVerification ssl.crl ssl.ocsp
    ssl.handshakeDetectionTimeoutMillis ssl.quorum.clientAuth ssl.quorum.keyStore.location
    ssl.quorum.keyStore.password ssl.quorum.keyStore.type ssl.quorum.trustStore.location
    ssl.quorum.trustStore.password ssl.quorum.trustStore.type ssl.quorum.protocol ssl.quorum.enabledProtocols
    ssl.quorum.ciphersuites ssl.quorum.hostnameVerification ssl.quorum.crl ssl.quorum.ocsp
    authProvider.sasl authProvider.x509""".split()
)
_NUMBERED = re.compile(r"(server|group|weight|authprovider)[._](\d+)")
_SETTING_OF_KEY = {setting.key: setting for setting in SETTINGS.values()}
_BARE_KEYS = {key for key, setting in _SETTING_OF_KEY.items() if setting.origin is Origin.BARE_PROPERTY}
KNOWN_KEYS = (
    frozenset(_SETTING_OF_KEY) | GROUPED_KEYS | JVM_TUNING_KEYS | JVM_NATIVE_KEYS.keys() | _KEYS_IN_GROUPS
)

_READERS = {key: setting.read for key, setting in _SETTING_OF_KEY.items()} | JVM_NATIVE_KEYS
_EXAMPLES = {
    "server": "server.1=zoo1:2888:3888;2181",
    "group": "1:2:3",
    "weight": "1",
    "clientPort": "2181",
    "initLimit": "10",
    "syncLimit": "5",
    "dataDir": "/data",
    "dataLogDir": "/datalog",
    "tickTime": "2000",
    "minSessionTimeout": "4000",
    "maxSessionTimeout": "40000",
    "peerType": "observer",
    "preAllocSize": "65536",
    "snapSizeLimitInKb": "4194304",
    "txnLogSizeLimitInKb": "1048576",
    "snapshot.compression.method": "gz",
}


def _without_separators(name: str) -> str:
    return re.sub(r"[._-]", "", name).lower()


_KEY_BY_BARE_LETTERS = {_without_separators(key): key for key in sorted(KNOWN_KEYS)}


def find_key(name: str) -> str | None:
    """The key of zoo.cfg that a variable's name means, if it is a known one."""
    if match := _NUMBERED.fullmatch(name.lower()):
        word = "authProvider" if match[1] == "authprovider" else match[1]
        return f"{word}.{match[2]}"
    return _KEY_BY_BARE_LETTERS.get(_without_separators(name))


def key_named(name: str) -> str:
    return find_key(name) or name.replace("_", ".")


def is_flag_only(key: str) -> bool:
    """Whether the server takes a key as -D flag and not in zoo.cfg."""
    return key in _BARE_KEYS


@attrs.frozen
class Line:
    """A setting, and the variable that asked for it: None for an image's default.

    `written` is the line as the variable has it, if that holds whole lines.
    """

    key: str
    value: str
    variable: str | None = None
    written: str | None = None

    @property
    def text(self) -> str:
        return self.written if self.written is not None else f"{self.key}={_escaped(self.value)}"


def _escaped(value: str) -> str:
    """The value as a Java properties file holds it, so that it is read back as it was."""
    return re.sub(r"[^ -~]", _unicode_escape, value.replace("\\", "\\\\"))


def _unicode_escape(match: re.Match[str]) -> str:
    code_units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{code_units[at : at + 4]}" for at in range(0, len(code_units), 4))


def lines_in(text: str, variable: str | None) -> list[Line]:
    """The lines that a variable holds, separated by blanks."""
    lines = []
    for word in text.split():
        key, _, value = re.sub("[:=]", "\n", word, count=1).partition("\n")
        lines.append(Line(key, value, variable, word))
    return lines


def with_overrides(lines: Iterable[Line], overrides: Mapping[str, Line]) -> list[Line]:
    """Lines with those of `overrides` in the place of lines with the same key, and the rest at the end."""
    replaced = [overrides.get(line.key, line) for line in lines]
    present = {line.key for line in replaced}
    return replaced + [line for key, line in overrides.items() if key not in present]


def problem_with(line: Line) -> BadValue | None:
    """What is wrong with the value of a known key."""
    reader = _READERS.get(line.key)
    if reader is None:
        return None
    try:
        reader(line.value)
    except BadValue as problem:
        return problem
    return None


def example_of(key: str) -> str:
    """A valid value of a key."""
    word = key.partition(".")[0]
    if key in _EXAMPLES or word in _EXAMPLES:
        return _EXAMPLES.get(key) or _EXAMPLES[word]
    for field in attrs.fields(ServerConfig):
        setting = field.metadata.get(SETTING)
        if setting is not None and setting.key == key and isinstance(field.default, int | float):
            return str(field.default).lower()
    return "0"
