"""Where the server of this machine is: the client port of the zoo.cfg that the environment names, if any.

As zkServer.sh does: ZOOCFGDIR (in the image, ZOO_CONF_DIR) is the directory, ZOOCFG the file in it. The port
may stand in clientPort or, with a dynamic configuration, in the server's own line behind its semicolon.
"""

import re
from collections.abc import Mapping
from pathlib import Path

DEFAULT_PORT = 2181
LOCALHOST = "localhost"
_WILDCARDS = ("", "0.0.0.0", "::")


def default_address(environment: Mapping[str, str]) -> tuple[str, int]:
    """localhost and 2181, unless the configuration says otherwise."""
    directory = environment.get("ZOOCFGDIR") or environment.get("ZOO_CONF_DIR")
    if not directory:
        return LOCALHOST, DEFAULT_PORT
    settings = _read(Path(directory) / environment.get("ZOOCFG", "zoo.cfg"))
    if "dynamicConfigFile" in settings:
        settings = _read(Path(settings["dynamicConfigFile"])) | settings
    host, port = settings.get("clientPortAddress", ""), settings.get("clientPort", "")
    if not port:
        host, port = _own_line(settings)
    if not port.isdigit() or not 0 < int(port) < 65536:
        return LOCALHOST, DEFAULT_PORT
    return (LOCALHOST if host in _WILDCARDS else host), int(port)


def _own_line(settings: Mapping[str, str]) -> tuple[str, str]:
    """The client's address in the server line of this server."""
    try:
        my_id = (Path(settings.get("dataDir", "")) / "myid").read_text().strip()
    except OSError:
        return "", ""
    _, _, client = settings.get(f"server.{my_id}", "").partition(";")
    host, _, port = client.strip().rpartition(":")
    return host.strip("[]"), port


def _read(file: Path) -> dict[str, str]:
    """The keys of a properties file, as far as a health check needs to understand them."""
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return {}
    pairs = re.findall(r"^[ \t]*([^#!\s=:][^\s=:]*)[ \t]*[=:]?[ \t]*(.*?)[ \t]*$", text, re.MULTILINE)
    return dict(pairs)
