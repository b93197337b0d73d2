"""The configuration of an ensemble as zkCli reads and prints it."""

import javaproperties

from client.zkcli.failures import CommandFailed

_TABLE_SIZE = 16  # of Java's Properties, until three quarters of it are full


def client_addresses(config: str) -> str:
    """What `config -c` prints: the version, and where clients reach each member."""
    properties = javaproperties.loads(config)
    addresses = [
        _client_address(properties[name].partition(";")[2])
        for name in _in_java_order(list(properties))
        if name.startswith("server.")
    ]
    return f"{properties.get('version', '')} {','.join(addresses)}"


def members_of_file(text: str) -> str:
    """The lines of a dynamic configuration file, as a reconfig request carries them; raises CommandFailed."""
    properties = javaproperties.loads(text)
    for name in properties:
        if not name.startswith(("server.", "group", "weight")) and name != "version":
            raise CommandFailed(f"Unrecognised parameter: {name}")
    return "\n".join(f"{name}={value}" for name, value in properties.items() if name != "version")


def _client_address(text: str) -> str:
    """A port alone is that of every address of the member."""
    return text if ":" in text or not text else f"0.0.0.0:{text}"


def _in_java_order(names: list[str]) -> list[str]:
    """ConcurrentHashMap's order: by the buckets of the keys' hashes."""
    size = _TABLE_SIZE
    while len(names) > size * 3 // 4:
        size *= 2
    return sorted(names, key=lambda name: _java_hash(name) & (size - 1))


def _java_hash(text: str) -> int:
    """String.hashCode, its high bits spread over the low ones."""
    code = 0
    for letter in text:
        code = (code * 31 + ord(letter)) & 0xFFFFFFFF
    return code ^ (code >> 16)
