"""The environment that zkEnv.sh hands to a script, and small programs that stand in for a server."""

from pathlib import Path


def script_environment(home: Path, **more: str) -> dict[str, str]:
    """As zkEnv.sh leaves it for a conf directory below `home`; `triokeeper` there is the command."""
    (home / "conf").mkdir(exist_ok=True)
    return {
        "PATH": "/usr/bin:/bin",
        "TRIOKEEPER": str(home / "triokeeper"),
        "TRIOKEEPER_SCRIPT": "bin/the-script",
        "ZOOCFGDIR": f"{home}/conf",
        "ZOOCFG": f"{home}/conf/zoo.cfg",
        "ZOO_LOG_DIR": f"{home}/logs",
        "USER": "zk",
        "HOSTNAME": "host",
    } | more


def write_config(home: Path, **keys: object) -> None:
    (home / "conf").mkdir(exist_ok=True)
    lines = [f"{key}={value}\n" for key, value in ({"dataDir": home / "data"} | keys).items()]
    (home / "conf" / "zoo.cfg").write_text("".join(lines))


def stand_in(home: Path, shell: str) -> None:
    """Make `triokeeper` a shell program."""
    (home / "triokeeper").write_text(f"#!/bin/sh\n{shell}\n")
    (home / "triokeeper").chmod(0o755)
