"""Connect strings as Java's client reads them, with its exceptions for those that are none."""

from client.connect_string import ConnectString, InvalidConnectString, parse_connect_string
from client.paths import InvalidPath
from client.zkcli.failures import ILLEGAL_ARGUMENT, JavaException
from client.zkcli.java_values import parse_int

_PORT_MAX = 65535


def parse_servers(text: str) -> ConnectString:
    """Raise JavaException if it names no servers."""
    hosts = [part.strip() for part in text.partition("/")[0].split(",")]
    try:
        for host in filter(None, hosts):
            _check_port(host)
        if not any(hosts):
            raise JavaException(ILLEGAL_ARGUMENT, "A HostProvider may not be empty!")
        return parse_connect_string(text)
    except (InvalidPath, InvalidConnectString) as problem:
        raise JavaException(ILLEGAL_ARGUMENT, str(problem)) from None


def _check_port(host: str) -> None:
    port = host.rpartition(":")[2] if ":" in host.rpartition("]")[2] else ""
    if port and not 0 <= (number := parse_int(port)) <= _PORT_MAX:
        raise JavaException(ILLEGAL_ARGUMENT, f"port out of range:{number}")
