"""Writes the scripts: each is `bin/front.sh` with its own name in it, and `bin/zkEnv.sh` stands beside them.

They name the `triokeeper` command that installed them by its path, so they work from any directory, whatever
the PATH is; the variable TRIOKEEPER names another.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

from server.tools.scripts import ENVIRONMENT_SCRIPT

TEMPLATES = Path(__file__).with_name("bin")


def write_scripts(directory: str, names: Sequence[str], command: str) -> None:
    """Write these scripts for `command`, the path of `triokeeper`."""
    target = Path(directory).absolute()
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        _write(target / name, "front.sh", {"script": name})
    _write(target / ENVIRONMENT_SCRIPT, ENVIRONMENT_SCRIPT, {"triokeeper": command, "bindir": str(target)})


def _write(file: Path, template: str, values: dict[str, str]) -> None:
    """A template with the lines `name=...` of these names set to these values."""
    lines = (TEMPLATES / template).read_text().splitlines(keepends=True)
    for at, line in enumerate(lines):
        name, equals, _ = line.partition("=")
        if equals and name in values:
            lines[at] = f"{name}={shlex.quote(values.pop(name))}\n"
    assert not values, f"{template} has a line for each of {list(values)}"
    file.write_text("".join(lines))
    file.chmod(0o755)
