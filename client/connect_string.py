"""`host:port,host:port/chroot`: where the servers of an ensemble are, and which part of the tree is meant."""

import re

import attrs

from client.paths import Chroot, validate_path

DEFAULT_PORT = 2181
PORT_MAX = 65535


class InvalidConnectString(ValueError):
    """A text that names no servers."""


@attrs.frozen
class ConnectString:
    """At least one server, in the order given; an empty chroot is the whole tree."""

    hosts: tuple[tuple[str, int], ...]
    chroot: Chroot = attrs.field(factory=Chroot)

    def __str__(self) -> str:
        return ",".join(host_port(*address) for address in self.hosts) + self.chroot.prefix


def host_port(host: str, port: int) -> str:
    """An address as connect strings spell it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_connect_string(text: str) -> ConnectString:
    """Raise InvalidConnectString, or InvalidPath for the chroot, if it is none."""
    servers, slash, rest = text.partition("/")
    chroot = ""
    if rest:
        chroot = slash + rest
        validate_path(chroot)
    hosts = tuple(_parse_host(part.strip()) for part in servers.split(",") if part.strip())
    if not hosts:
        raise InvalidConnectString(f'"{text}" names no server: expected host:port, e.g. localhost:2181')
    return ConnectString(hosts, Chroot(chroot))


def _parse_host(text: str) -> tuple[str, int]:
    bracketed = re.fullmatch(r"\[([^\[\]]+)\](?::(.*))?", text)
    if bracketed:
        host, port = bracketed[1], bracketed[2] or ""
    elif text.startswith("["):
        raise InvalidConnectString(f"{text}: an IPv6 address is written [address]:port")
    else:
        host, _, port = text.rpartition(":") if ":" in text else (text, "", "")
    if not host:
        raise InvalidConnectString(f"{text}: the host is missing")
    return host, _parse_port(port, text) if port else DEFAULT_PORT


def _parse_port(port: str, text: str) -> int:
    if not (port.isascii() and port.isdigit()) or not 0 < int(port) <= PORT_MAX:
        raise InvalidConnectString(f"{text}: the port {port!r} is no number from 1 to {PORT_MAX}")
    return int(port)
