"""Variables that ask for TLS or SASL, which this version does not serve.

A server that was to be protected never runs open: such a variable stops the start, by name. A switch that is
off is fine, and so is what belongs to it.

Pure.
"""

import re
from collections.abc import Iterable

from server.container.config_lines import Line
from server.container.variables import Refused, Variables, is_yes

_TLS = "TLS is not served by this version"
_SASL = "SASL authentication is not served by this version"

# A switch, the variables that only mean something while it is on, and what it switches on.
_SWITCHES = (
    ("ZOO_TLS_CLIENT_ENABLE", re.compile(r"ZOO_TLS_(CLIENT_\w+|PORT_NUMBER)"), _TLS),
    ("ZOO_TLS_QUORUM_ENABLE", re.compile(r"ZOO_TLS_QUORUM_\w+"), _TLS),
    (
        "ZOO_ENABLE_AUTH",
        re.compile(r"ZOO_ENABLE_AUTH|ZOO_(CLIENT_USER|CLIENT_PASSWORD|SERVER_USERS|SERVER_PASSWORDS)"),
        _SASL,
    ),
    (
        "ZOO_ENABLE_QUORUM_AUTH",
        re.compile(r"ZOO_ENABLE_QUORUM_AUTH|ZOO_QUORUM_(LEARNER|SERVER)_(USERS?|PASSWORDS?)"),
        _SASL,
    ),
    ("ZOOKEEPER_SSL_QUORUM", re.compile(r"ZOOKEEPER_SSL_QUORUM(_\w+)?"), _TLS),
    ("ZOOKEEPER_CLIENT_PORT_UNIFICATION", re.compile(r"ZOOKEEPER_CLIENT_PORT_UNIFICATION"), _TLS),
    ("ZOOKEEPER_SASL_ENABLED", re.compile(r"ZOOKEEPER_SASL_ENABLED"), _SASL),
)
_ALWAYS = (
    (re.compile(r"ZOO_TLS_\w+|ZOOKEEPER_SSL_\w+|ZOOKEEPER_SECURE_CLIENT_PORT\w*"), _TLS),
    (re.compile(r"ZOOKEEPER_(AUTH_PROVIDER_\w+|REQUIRE_CLIENT_AUTH_SCHEME|QUORUM_AUTH_\w+)"), _SASL),
)
_SWITCH_KEYS = {
    "sslQuorum": _TLS,
    "portUnification": _TLS,
    "client.portUnification": _TLS,
    "client.secure": _TLS,
    "admin.forceHttps": _TLS,
    "quorum.auth.enableSasl": _SASL,
    "quorum.auth.learnerRequireSasl": _SASL,
    "quorum.auth.serverRequireSasl": _SASL,
    "sessionRequireClientSASLAuth": _SASL,
    "enforce.auth.enabled": _SASL,
}
_KEYS = re.compile(r"(?P<tls>secureClientPort(Address)?|ssl\.\w.*)|(?P<sasl>authProvider\..*)")
_SERVED_PROVIDERS = ("DigestAuthenticationProvider", "IPAuthenticationProvider")


def is_about_security(name: str) -> bool:
    patterns = [pattern for _, pattern, _ in _SWITCHES] + [pattern for pattern, _ in _ALWAYS]
    return any(pattern.fullmatch(name) for pattern in patterns)


def refuse_security(variables: Variables) -> None:
    """Raise `Refused` for the first variable that asks for what is not served."""
    for name in sorted(variables.values):
        for switch, belongs, missing in _SWITCHES:
            if belongs.fullmatch(name):
                if switch in variables and not is_yes(variables.get(switch)):
                    break  # switched off
                raise _refusal(name, missing, f"set {switch}=false")
        else:
            for pattern, missing in _ALWAYS:
                if pattern.fullmatch(name):
                    raise _refusal(name, missing, f"remove {name}")


def refuse_security_lines(lines: Iterable[Line]) -> None:
    """The same for lines of zoo.cfg that variables hold."""
    for line in lines:
        missing = _missing_for(line)
        if missing is not None and line.variable is not None:
            raise _refusal(f"{line.key} in {line.variable}", missing, "remove it")


def _missing_for(line: Line) -> str | None:
    if line.key in _SWITCH_KEYS:
        return _SWITCH_KEYS[line.key] if is_yes(line.value) else None
    match = _KEYS.fullmatch(line.key)
    if match is None or line.value.rpartition(".")[2] in _SERVED_PROVIDERS:
        return None
    return _TLS if match["tls"] else _SASL


def _refusal(what: str, missing: str, remedy: str) -> Refused:
    return Refused(f"{what}: {missing}, and a server that should be protected does not run open; {remedy}")
