"""The properties of a client, from the file of -client-configuration and -D flags in the environment.

TLS and SASL are not there: a configuration that asks for TLS is refused, so that nothing that was meant to be
encrypted ever travels in the clear. Others that have an effect on Apache's zkCli, but none here, are named.
"""

import os
import re
from pathlib import Path

from jute.properties_text import read_properties

EXIT_INVALID_INVOCATION = 2
SECURE = "zookeeper.client.secure"

# Their default, and why.
_WITHOUT_EFFECT = {
    "java.security.auth.login.config": ("", "SASL is not supported yet"),
    "zookeeper.disableAutoWatchReset": ("false", "watches are always set again after a reconnect"),
    "zookeeper.request.timeout": ("0", "an answer is waited for until the connection is lost"),
}
_FLAG = re.compile(r"(?:^|\s)-D([\w.]+)=(\S*)")


class SettingsRefused(Exception):
    """zkCli cannot go on with these settings; the text says why."""


def check_settings(file: str | None) -> list[str]:
    """What is to be said about settings without effect.

    Raises SettingsRefused if the file cannot be read, or if TLS is asked for.
    """
    flags = " ".join(os.environ.get(name, "") for name in ("JVMFLAGS", "CLIENT_JVMFLAGS"))
    properties = dict(_FLAG.findall(flags))
    if file is not None:
        properties |= _load(Path(file))
    if properties.get(SECURE, "").strip().lower() == "true":
        raise SettingsRefused(
            f"{SECURE}=true: TLS is not supported yet; connect to the plain clientPort without it"
        )
    return [
        f"{name}={properties[name]} has no effect: {why}"
        for name, (default, why) in _WITHOUT_EFFECT.items()
        if properties.get(name, default) != default
    ]


def _load(file: Path) -> dict[str, str]:
    try:
        return read_properties(file.read_bytes().decode("latin-1"))
    except OSError as problem:
        kind = "org.apache.zookeeper.server.quorum.QuorumPeerConfig$ConfigException"
        why = f"{file.absolute()} file is missing" if isinstance(problem, FileNotFoundError) else str(problem)
        raise SettingsRefused(
            f"{kind}: Error while processing {file.absolute()}\n"
            f"Caused by: java.lang.IllegalArgumentException: {why}"
        ) from None
