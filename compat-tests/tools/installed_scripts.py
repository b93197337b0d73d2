"""This checkout's scripts, installed into a folder with a `triokeeper` command that runs it."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from support.servers import CHECKOUT


def install_scripts(folder: Path) -> Path:
    """Install the scripts below the folder; the folder they are in."""
    command = folder / "triokeeper"
    code = os.environ.get("TRIOKEEPER_CODE", str(CHECKOUT))
    run = shlex.join([sys.executable, "-c", "from server.command import main; main()"])
    command.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(code)} exec {run} "$@"\n')
    command.chmod(0o755)
    scripts = folder / "bin"
    subprocess.run([command, "scripts", "install", scripts, "--command", command], check=True)
    return scripts
