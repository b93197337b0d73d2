"""Virtual environments with released Python packages, made once in ~/.cache/triokeeper."""

import subprocess
import sys
from pathlib import Path

from support.reference import cache_dir_of

INSTALL_SECONDS_MAX = 600


class AppUnavailable(Exception):
    """The application cannot be run here; the message says why."""


def python_with(name: str, *requirements: str) -> Path:
    """The interpreter of an environment that has these packages. Raises AppUnavailable."""
    folder = cache_dir_of(f"app-{name}", " ".join([sys.version, *requirements]).encode())
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        steps = (
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements],
        )
        for step in steps:
            try:
                subprocess.run(
                    step,
                    check=True,
                    timeout=INSTALL_SECONDS_MAX,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            except subprocess.CalledProcessError as failed:
                raise AppUnavailable(f"{name} cannot be installed: {failed.stdout[-400:]}") from None
            except subprocess.TimeoutExpired:
                raise AppUnavailable(f"{name} was not installed within {INSTALL_SECONDS_MAX} s") from None
        (folder / "complete").touch()
    return python
