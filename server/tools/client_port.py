"""Where a server answers its clients, found in its configuration as `zkServer.sh status` does. Pure.

First `clientPort`, then the part behind `;` of this server's own line in zoo.cfg or else in the dynamic file,
at last `secureClientPort`. What is said on the way is part of the script's output.
"""

from collections.abc import Callable, Mapping

LOCALHOST = "localhost"


class Endpoint:
    """An address and port as the configuration writes them: the port may turn out to be no number."""

    def __init__(self, address: str, port: str, *, is_secure: bool) -> None:
        self.address = address
        self.port = port
        self.is_secure = is_secure


def find_client_port(
    config: Mapping[str, str],
    read_my_id: Callable[[], str],
    read_dynamic: Callable[[str], Mapping[str, str]],
    say: Callable[[str], None],
) -> Endpoint | None:
    """Where to ask, or None if the configuration does not tell; `read_dynamic` gets a file's name."""
    address, port = config.get("clientPortAddress") or LOCALHOST, config.get("clientPort", "")
    if not _is_number(port):
        found = _client_part(config, read_my_id(), read_dynamic, say)
        if found:
            host, _, port = found.rpartition(":")
            address = host.strip("[]") or address
    if port:
        return Endpoint(address, port, is_secure=False)
    say("Client port not found. Looking for secureClientPort in the static config.")
    port = config.get("secureClientPort", "")
    if port:
        return Endpoint(config.get("secureClientPortAddress") or LOCALHOST, port, is_secure=True)
    say("Unable to find either secure or unsecure client port in any configs. Terminating.")
    return None


def _client_part(
    config: Mapping[str, str],
    my_id: str,
    read_dynamic: Callable[[str], Mapping[str, str]],
    say: Callable[[str], None],
) -> str:
    """`[host:]port` of the line `server.<my_id>`, or nothing."""
    if not _is_number(my_id):
        say("myid could not be determined, will not able to locate clientPort in the server configs.")
        return ""
    found = _behind_semicolon(config.get(f"server.{my_id}", ""))
    if not found:
        say("Client port not found in static config file. Looking in dynamic config file.")
        dynamic = read_dynamic(config.get("dynamicConfigFile", ""))
        found = _behind_semicolon(dynamic.get(f"server.{my_id}", ""))
    if not found:
        say("Client port not found in the server configs")
    return found


def _behind_semicolon(server_line: str) -> str:
    _, semicolon, client_part = server_line.rpartition(";")
    return client_part.strip() if semicolon else ""


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
