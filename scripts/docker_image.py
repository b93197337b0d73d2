"""`make image`: triokeeper:latest in the engine that runs, or in one that is brought up for it.

Nothing inside the build needs the network: the wheels are collected first, for the image's Python and the
engine's processor, into docker/wheels.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from docker.client import DockerClient
from docker.errors import BuildError

from scripts.docker_base_images import RUN_IMAGE, ensure_base_images
from scripts.docker_engine import CALL_SECONDS_MAX, EngineUnavailable, ensure_engine
from server import VERSION

CHECKOUT = Path(__file__).resolve().parent.parent
WHEELS = CHECKOUT / "docker" / "wheels"
IMAGE = "triokeeper:latest"
PYTHON_VERSION = RUN_IMAGE.removeprefix("python:").removesuffix("-slim")
EXTRAS = "compile,shell,snappy"
PLATFORMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
COLLECT_SECONDS_MAX = 600


def build_image(client: DockerClient) -> str:
    """Build it and give its id; what has not changed since the last time comes from the engine's cache."""
    ensure_base_images(client)
    collect_wheels(architecture=client.info()["Architecture"])
    try:
        image, _ = client.images.build(
            path=str(CHECKOUT),
            dockerfile="docker/Dockerfile",
            tag=IMAGE,
            rm=True,
            forcerm=True,
            buildargs={"VERSION": VERSION, "REVISION": revision()},
        )
    except BuildError as failure:
        output = "".join(line.get("stream", "") for line in failure.build_log)
        raise EngineUnavailable(f"the build failed: {failure.msg}\n{output[-4000:]}") from None
    return str(image.id)


def collect_wheels(architecture: str) -> None:
    """Replace docker/wheels by what the server, its extras and its build need."""
    abi = f"cp{PYTHON_VERSION.replace('.', '')}"
    platforms = [f"--platform={name}_{architecture}" for name in PLATFORMS]
    with tempfile.TemporaryDirectory(dir=CHECKOUT / "docker") as folder:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
                *("--only-binary=:all:", f"--python-version={PYTHON_VERSION}", "--implementation=cp"),
                *(f"--abi={abi}", "--abi=abi3", "--abi=none", *platforms, "--platform=any"),
                *("--dest", folder, f"{CHECKOUT}[{EXTRAS}]", "hatchling"),
            ],
            env=os.environ | {"HATCH_BUILD_NO_HOOKS": "true"},
            capture_output=True,
            text=True,
            timeout=COLLECT_SECONDS_MAX,
        )
        if done.returncode:
            raise EngineUnavailable(f"wheels could not be collected:\n{done.stderr[-2000:]}")
        for old in WHEELS.glob("*.whl"):
            old.unlink()
        for wheel in Path(folder).glob("*.whl"):
            shutil.move(wheel, WHEELS)


def revision() -> str:
    """The commit that is built, as far as the checkout knows."""
    command = ["git", "-C", str(CHECKOUT), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def main() -> None:
    started = ensure_engine()
    if started:
        print("No engine answered, so one was started; stop it with: make docker-engine-stop")
    client = DockerClient.from_env(timeout=CALL_SECONDS_MAX)
    try:
        image = build_image(client)
    finally:
        client.close()
    print(f"{IMAGE} {image}")


if __name__ == "__main__":
    try:
        main()
    except EngineUnavailable as problem:
        sys.exit(str(problem))
