"""The two images that docker/Dockerfile starts from: present, pulled, or made here from Debian.

Where the registry cannot be reached, root on Debian makes them with debootstrap from the package mirror that
this machine uses, under the same names. A self-made pair and a public pair keep Python in different places,
so both come from one source: the virtual environment made in the first is moved to the second.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from docker.client import DockerClient
from docker.errors import APIError, DockerException, ImageNotFound, NotFound

from scripts.docker_engine import EngineUnavailable, install_packages

SUITE = "trixie"  # the Debian release that has the Python of the names below
RUN_IMAGE, BUILD_IMAGE = "python:3.13-slim", "python:3.13"
RUN_PACKAGES = (
    *("python3", "ca-certificates", "tzdata"),
    *(
        "netcat-openbsd",
        "curl",
        "wget",
        "openssl",
        "gosu",
        "procps",
        "hostname",
    ),  # for people's scripts and probes
)
BUILD_PACKAGES = (*RUN_PACKAGES, "gcc", "libc6-dev", "python3-dev", "python3-venv")

BUILD_FOLDER = Path(__file__).resolve().parent.parent / "build"
BOOTSTRAP_SECONDS_MAX = 900
TRIMMED = (
    "var/cache/apt",
    "var/lib/apt/lists",
    "var/log",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
)


def ensure_base_images(client: DockerClient) -> None:
    """Leave both images in the engine; raises EngineUnavailable if there is no way to get them."""
    if all(is_present(client, name) for name in (RUN_IMAGE, BUILD_IMAGE)):
        return
    problem = pull_both(client)
    if problem is None:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise EngineUnavailable(
            f"{RUN_IMAGE} cannot be pulled: {problem} (root on Debian can make it instead)"
        )
    if shutil.which("debootstrap") is None:
        install_packages("debootstrap")
    BUILD_FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD_FOLDER, prefix="base-images-") as folder:
        make_image(RUN_IMAGE, RUN_PACKAGES, Path(folder))
        make_image(BUILD_IMAGE, BUILD_PACKAGES, Path(folder))


def is_present(client: DockerClient, name: str) -> bool:
    try:
        client.images.get(name)
    except ImageNotFound:
        return False
    return True


def pull_both(client: DockerClient) -> str | None:
    """Pull them; None, or why that cannot be done."""
    try:
        for name in (RUN_IMAGE, BUILD_IMAGE):
            client.images.pull(name)
    except (APIError, NotFound, DockerException, OSError) as problem:
        return str(problem)
    return None


def make_image(name: str, packages: tuple[str, ...], folder: Path) -> None:
    """Install Debian into a folder, leave out what no container needs, and import it."""
    root, downloads = folder / "root", folder / "downloads"
    downloads.mkdir(exist_ok=True)
    options = ("--variant=minbase", f"--cache-dir={downloads}", f"--include={','.join(packages)}")
    _run("debootstrap", *options, SUITE, root, debian_mirror())
    trim(root)
    with subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE) as tar:
        imported = subprocess.run(
            ["docker", "import", "--change", 'CMD ["python3"]', "-", name],
            stdin=tar.stdout,
            capture_output=True,
            text=True,
            timeout=BOOTSTRAP_SECONDS_MAX,
        )
    if imported.returncode or tar.returncode:
        raise EngineUnavailable(f"{name} could not be imported: {imported.stderr[-2000:]}")
    shutil.rmtree(root)


def trim(root: Path) -> None:
    """Drop caches, manuals and byte code; folders stay, and so do the licences in usr/share/doc."""
    for name in TRIMMED:
        for path in (root / name).iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for path in root.glob("usr/share/doc/*/*"):
        if path.name != "copyright":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for path in root.glob("usr/lib/python3*/**/__pycache__"):
        shutil.rmtree(path)


def debian_mirror() -> str:
    """The mirror of the main archive that this machine's own apt uses."""
    listed = _run("apt-get", "indextargets", "--format", "$(REPO_URI)").split()
    mirror = next((uri for uri in listed if "security" not in uri), None)
    if mirror is None:
        raise EngineUnavailable("apt knows no Debian mirror to make base images from: run apt-get update")
    return mirror


def _run(*command: str | Path) -> str:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=BOOTSTRAP_SECONDS_MAX,
        text=True,
    )
    if done.returncode:
        raise EngineUnavailable(f"{command[0]} failed:\n{done.stdout[-2000:]}")
    return done.stdout
