"""The configuration of an ensemble as zkCli reads and prints it."""

from client.zkcli.failures import CommandFailed
from jute.java_hash_order import hash_order, string_hash
from jute.properties_text import read_properties

PROPERTIES_BUCKETS = 16  # Java's Properties begin with


def client_addresses(config: str) -> str:
    """What `config -c` prints: the version, and where clients reach each member, in Java's order."""
    properties = read_properties(config)
    addresses = [
        _client_address(properties[name].partition(";")[2])
        for name in hash_order(properties, string_hash, PROPERTIES_BUCKETS)
        if name.startswith("server.")
    ]
    return f"{properties.get('version', '')} {','.join(addresses)}"


def members_of_file(text: str) -> str:
    """The lines of a dynamic configuration file, as a reconfig request carries them; raises CommandFailed."""
    properties = read_properties(text)
    for name in properties:
        if not name.startswith(("server.", "group", "weight")) and name != "version":
            raise CommandFailed(f"Unrecognised parameter: {name}")
    return "\n".join(f"{name}={value}" for name, value in properties.items() if name != "version")


def _client_address(text: str) -> str:
    """A port alone is that of every address of the member."""
    return text if ":" in text or not text else f"0.0.0.0:{text}"
