"""`triokeeper systemd-unit`: the unit that comes with the package, for this installation."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import click

UNIT = Path(__file__).with_name("triokeeper.service")


@click.command(name="systemd-unit")
@click.argument("config", type=click.Path(), default="/etc/zookeeper/zoo.cfg", metavar="[CONFIGFILE]")
@click.option("--user", default="zookeeper", show_default=True, help="Whom the server runs as.")
def systemd_unit(config: str, user: str) -> None:
    """Print a systemd unit that runs this installation with CONFIGFILE (default: /etc/zookeeper/zoo.cfg).

    \b
    triokeeper systemd-unit | sudo tee /etc/systemd/system/triokeeper.service
    """
    if not re.fullmatch(r"[\w.-]+", user, re.ASCII):
        raise click.BadParameter(f"{user!r} is no user's name", param_hint="--user")
    config = os.path.abspath(config)
    for text in (config, *own_command()):
        if not text.isprintable():
            raise click.UsageError(f"{text!r} has characters that a unit cannot name")
    settings = {
        "ExecStart": " ".join(map(quoted, [*own_command(), "start", config])),
        "User": user,
        "ReadWritePaths": quoted(f"-{os.path.dirname(config)}"),
    }
    click.echo("\n".join(_replaced(line, settings) for line in UNIT.read_text().splitlines()))


def _replaced(line: str, settings: Mapping[str, str]) -> str:
    name = line.partition("=")[0]
    return f"{name}={settings[name]}" if name in settings else line


def own_command() -> list[str]:
    """How to run this very installation, whatever the PATH."""
    command = os.path.abspath(sys.argv[0])
    if os.path.basename(command) == "triokeeper" and os.access(command, os.X_OK):
        return [command]
    return [sys.executable, "-P", "-m", "triokeeper"]


def quoted(text: str) -> str:
    """A word of a unit: systemd reads quotes, backslashes, percent signs and dollars in it."""
    text = text.replace("%", "%%").replace("$", "$$")
    if re.fullmatch(r"[\w/.,:=+@%$-]+", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
