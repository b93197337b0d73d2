"""The environment of a container, as far as it configures a server.

`NAME_FILE` stands for the contents of a file wherever `NAME` stands for a value, as is usual for secrets.
Variables that Docker's links and Kubernetes' services inject (`ZOOKEEPER_CLIENT_PORT=tcp://10.0.0.7:2181` for
a service called zookeeper-client) are nobody's settings and are passed over.

Pure: whoever calls hands in how to read a file.
"""

import re
from collections.abc import Callable, Mapping

import attrs

from server.container.config_lines import find_key

EXIT_BAD_VARIABLE = 2
EXIT_DATA_DIR = 3

CONFIG_KEY_PREFIX = "ZOO_CFG_"
CONFIG_EXTRA = "ZOO_CFG_EXTRA"
FLAG_VARIABLES = ("JVMFLAGS", "SERVER_JVMFLAGS", "CLIENT_JVMFLAGS", "KAFKA_OPTS")

_OURS = re.compile(r"(ZOO|ZOOKEEPER|ALLOW|KAFKA)_\w+|" + "|".join(FLAG_VARIABLES))
_NAMES_A_FILE_ITSELF = re.compile(r"ZOO_LOG_FILE|ZOOKEEPER_TRACE_FILE|\w+_(KEYSTORE|TRUSTSTORE)_FILE")
_SERVICE_LINK = re.compile(r"(tcp|udp|sctp)://")
_INJECTED = re.compile(
    r"(ZOO|ZOOKEEPER)_(NAME|ENV_\w+|(\w+_)?(SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP|SCTP))(_\w+)?)"
)
_YES = frozenset({"1", "yes", "true", "on"})
_NO = frozenset({"0", "no", "false", "off"})


@attrs.frozen(slots=False)
class Refused(Exception):
    """The container cannot start like this. The message says what is wrong and what to do, on one line."""

    message: str
    exit_code: int = EXIT_BAD_VARIABLE

    def __str__(self) -> str:
        return self.message


def is_yes(text: str) -> bool:
    """Whether a switch is on: yes, true, on and 1 in any case, as the images that have switches take it."""
    return text.strip().lower() in _YES


def is_no(text: str) -> bool:
    """Whether a switch is off: said, and not only not said to be on."""
    return text.strip().lower() in _NO


@attrs.frozen
class Variables:
    """The variables that are set; an empty one counts as unset. Values of `secret` ones are never shown."""

    values: Mapping[str, str]
    secret: frozenset[str] = frozenset()

    def __contains__(self, name: object) -> bool:
        return name in self.values

    def get(self, name: str, default: str = "") -> str:
        return self.values.get(name, default)

    def starting_with(self, prefix: str | tuple[str, ...]) -> list[str]:
        return sorted(name for name in self.values if name.startswith(prefix))

    def shown(self, name: str) -> str:
        """The variable as a message may show it."""
        if name in self.secret:
            return f"{name} (from {name}_FILE)"
        value = self.get(name)
        return f"{name}={value if value.isprintable() else ascii(value)}"


def read_variables(environ: Mapping[str, str], read_file: Callable[[str], str]) -> Variables:
    """The settings in an environment. `read_file` raises OSError if there is no such file."""
    values = {
        name: value
        for name, value in environ.items()
        if value
        and not _INJECTED.fullmatch(name)
        and not (_OURS.fullmatch(name) and _SERVICE_LINK.match(value))
    }
    secret = set()
    for file_variable in [name for name in values if _stands_for_a_file(name)]:
        name = file_variable.removesuffix("_FILE")
        if name in values:
            raise Refused(f"{name} and {file_variable} are both set: keep one of them")
        values[name] = _secret(file_variable, values.pop(file_variable), read_file)
        secret.add(name)
    return Variables(values, frozenset(secret))


def _stands_for_a_file(name: str) -> bool:
    if not name.endswith("_FILE") or not _OURS.fullmatch(name.removesuffix("_FILE")):
        return False
    if name.startswith(CONFIG_KEY_PREFIX) and find_key(name.removeprefix(CONFIG_KEY_PREFIX)):
        return False  # dynamicConfigFile is the name of a setting
    return _NAMES_A_FILE_ITSELF.fullmatch(name) is None


def _secret(variable: str, path: str, read_file: Callable[[str], str]) -> str:
    try:
        text = read_file(path)
        if "\0" in text:
            raise ValueError
        return text.rstrip("\r\n")
    except (OSError, ValueError) as failure:
        reason = getattr(failure, "strerror", None) or "not a text file"
        raise Refused(
            f"{variable}={path}: cannot be read ({reason}); "
            f"name a file that holds the value, such as {variable}=/run/secrets/{variable.lower()}"
        ) from None
