"""Variables that ask for TLS or SASL, which this version does not serve.

A server that was to be protected never runs open: what asks for it stops the start, by name, whether it is a
variable, a line of a zoo.cfg that was made or mounted, or a -D flag, which java.env may hold as well. A
switch that is off is fine, and so is what belongs to it; a switch that is neither on nor off counts as on.

Pure.
"""

import re
from collections.abc import Iterable, Mapping

from server.container.config_lines import Line
from server.container.variables import FLAG_VARIABLES, Refused, Variables, is_no

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
}
_MISSING_BY_SWITCH = {key.lower(): missing for key, missing in _SWITCH_KEYS.items()}
_KEYS = re.compile(
    r"(?P<tls>secureClientPort(Address)?|ssl\.\w.*)"
    r"|(?P<sasl>authProvider\..*|requireClientAuthScheme|java\.security\.auth\.login\.config)",
    re.IGNORECASE,
)
_ENFORCED = "enforce.auth.schemes"
_SERVED_SCHEMES = frozenset({"digest", "ip"})
_SERVED_PROVIDERS = ("DigestAuthenticationProvider", "IPAuthenticationProvider")
_FLAG = re.compile(r"-D([\w.-]+)=?([^\s\"']*)")
_COMMENT = re.compile(r"(^|\s)#.*")


def is_about_security(name: str) -> bool:
    patterns = [pattern for _, pattern, _ in _SWITCHES] + [pattern for pattern, _ in _ALWAYS]
    return any(pattern.fullmatch(name) for pattern in patterns)


def refuse_security(variables: Variables) -> None:
    """Raise `Refused` for the first variable that asks for what is not served."""
    for name in sorted(variables.values):
        for switch, belongs, missing in _SWITCHES:
            if belongs.fullmatch(name):
                if switch in variables and is_no(variables.get(switch)):
                    break  # switched off
                raise _refusal(name, missing, f"set {switch}=false")
        else:
            for pattern, missing in _ALWAYS:
                if pattern.fullmatch(name):
                    raise _refusal(name, missing, f"remove {name}")


def refuse_security_lines(lines: Iterable[Line]) -> None:
    """The same for lines of zoo.cfg that variables hold."""
    for line in lines:
        if line.variable is not None:
            _refuse(line.key, line.value, line.variable)


def refuse_security_settings(settings: Mapping[str, str], file: str) -> None:
    """The same for the settings in a zoo.cfg that was there already."""
    for key, value in settings.items():
        _refuse(key, value, file)


def refuse_security_flags(variables: Variables) -> None:
    """The same for -D flags in variables that the server, and not only a client, reads."""
    for name in (*FLAG_VARIABLES, "JAVA_TOOL_OPTIONS"):
        if name != "CLIENT_JVMFLAGS":
            _refuse_flags(variables.get(name), name)


def refuse_security_script(text: str, file: str) -> None:
    """The same for -D flags in java.env and its like: wherever they stand, for no shell has run yet."""
    for line in text.splitlines():
        if "CLIENT_JVMFLAGS=" not in line:
            _refuse_flags(_COMMENT.sub("", line), file)


def _refuse_flags(text: str, where: str) -> None:
    for key, value in _FLAG.findall(text):
        _refuse(key, value, where)


def _refuse(key: str, value: str, where: str) -> None:
    missing = _missing_for(key.removeprefix("zookeeper."), value)
    if missing is not None:
        raise _refusal(f"{key} in {where}", missing, "remove it")


def _missing_for(key: str, value: str) -> str | None:
    """What a setting asks for and this version lacks; in any case of letters, for nobody asks by accident."""
    if key.lower() in _MISSING_BY_SWITCH:
        return None if is_no(value) else _MISSING_BY_SWITCH[key.lower()]
    if key.lower() == _ENFORCED:
        schemes = {scheme.strip() for scheme in value.split(",")}
        return None if schemes <= _SERVED_SCHEMES else _SASL
    match = _KEYS.fullmatch(key)
    if match is None or value.rpartition(".")[2] in _SERVED_PROVIDERS:
        return None
    return _TLS if match["tls"] else _SASL


def _refusal(what: str, missing: str, remedy: str) -> Refused:
    return Refused(f"{what}: {missing}, and a server that should be protected does not run open; {remedy}")
