"""Virtual environments as users make them, without the network: `pip install` from wheels collected here.

The wheel of this checkout is built; those of its dependencies are packed again from what is installed beside
this program, so that they are the versions under test.
"""

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Sequence
from email import message_from_string
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

CHECKOUT = Path(__file__).resolve().parent.parent
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", "--no-cache-dir")
_MADE_BY_PIP = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")


def make_environment(folder: Path, *requirements: str, is_pure: bool = True) -> Path:
    """Install the requirements, triokeeper among them, in a new environment; returns its Python."""
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    build_wheel(wheels, is_pure=is_pure)
    for name in sorted(closure(requirements) - {"triokeeper"}):
        pack_again(distribution(name), wheels)
    environment = folder / "venv"
    run_python("-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    # Offline, and on a path without a compiler: whatever is not a wheel cannot be installed.
    install = ("--python", str(python), "install", "--no-index", "--find-links", str(wheels))
    run_python(
        *(*PIP, *install, *requirements),
        environ={"PATH": "/nowhere", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull},
    )
    return python


def build_wheel(wheels: Path, *, is_pure: bool) -> None:
    """The wheel of this checkout, built with what is installed here."""
    run_python(
        "-m",
        "hatchling",
        *("build", "-t", "wheel", "-d", wheels),
        environ={"HATCH_BUILD_NO_HOOKS": "true"} if is_pure else {},
    )


def run_python(*arguments: str | Path, environ: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=CHECKOUT,
        env=os.environ | (environ or {}),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, arguments))} failed:\n{done.stdout}{done.stderr}")


def closure(requirements: Iterable[str]) -> set[str]:
    """The names of these distributions and of all that they need on this platform."""
    found: set[str] = set()
    waiting = [Requirement(each) for each in requirements]
    while waiting:
        requirement = waiting.pop()
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name in found and not requirement.extras:
            continue
        found.add(name)
        for text in distribution(name).requires or ():
            needed = Requirement(text)
            extras = requirement.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(needed)
    return found


def pack_again(installed: Distribution, wheels: Path) -> Path:
    """Make a wheel of an installed distribution, as it was before it was installed."""
    tags = message_from_string(installed.read_text("WHEEL") or "").get_all("Tag", [])
    tag = "-".join(
        ".".join(sorted(set(part))) for part in zip(*(tag.split("-") for tag in tags), strict=True)
    )
    path = wheels / f"{re.sub('[-.]+', '_', installed.name)}-{installed.version}-{tag}.whl"
    files = [file for file in installed.files or () if _is_of_the_wheel(file.parts)]
    (info,) = {file.parts[0] for file in files if file.parts[0].endswith(".dist-info")}
    with zipfile.ZipFile(path, "w") as wheel:
        for file in files:
            wheel.write(str(file.locate()), str(file))
        record = f"{info}/RECORD"
        wheel.writestr(record, "".join(f'"{name}",,\n' for name in [*map(str, files), record]))
    return path


def _is_of_the_wheel(parts: Sequence[str]) -> bool:
    if parts[0].endswith(".dist-info") and parts[-1] in _MADE_BY_PIP:
        return False
    return ".." not in parts and "__pycache__" not in parts
