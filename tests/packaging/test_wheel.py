"""The installed wheel beside a project that has packages named `server` and `jute` of its own."""

import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path

import attrs
import pytest

from server import VERSION

ROOT = Path(__file__).parents[2]
PACKAGES = ("client", "jute", "persistence", "quorum", "server", "testing")
SOURCES = (*PACKAGES, "pyproject.toml", "README.md", "LICENSE")


CONNECT_REQUEST = struct.Struct(">iqiqi")  # version, last zxid, timeout, session, then the password
CONNECT_RESPONSE = struct.Struct(">iiqi")  # version, timeout, session, then the password
PASSWORD_BYTES = 16


@attrs.frozen
class Installation:
    """A virtual environment with the wheel, and a project whose packages have the same names as ours."""

    bin: Path
    project: Path

    def run(self, command: str, *arguments: str) -> str:
        """Run a command of the environment in the project, with PYTHONPATH=. as such projects often have."""
        done = subprocess.run(
            [self.bin / command, *arguments],
            cwd=self.project,
            env=self.environ,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def environ(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("TRIOKEEPER")}
        return own | {"PYTHONPATH": "."}


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    directory = tmp_path_factory.mktemp("installed")
    environment = directory / "venv"
    run_python("-m", "venv", "--without-pip", environment)
    wheel = build_wheel(directory)
    run_python(
        "-m", "pip", "--python", environment / "bin" / "python", *OFFLINE, "install", "--no-deps", wheel
    )
    lend_dependencies(environment)
    project = directory / "project"
    for package in ("server", "jute"):
        (project / package).mkdir(parents=True)
        (project / package / "__init__.py").write_text("OWNER = 'the project'\n")
    return Installation(environment / "bin", project)


OFFLINE = ("--quiet", "--disable-pip-version-check", "--no-input", "--no-cache-dir")


def run_python(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True)


def build_wheel(directory: Path) -> Path:
    """Build from a copy, so that the checkout stays as it is, with the build backend installed here."""
    source = directory / "source"
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source)
    run_python(
        "-m", "pip", *OFFLINE, "wheel", "--no-deps", "--no-build-isolation", "-w", directory / "dist", source
    )
    (wheel,) = (directory / "dist").glob("*.whl")
    return wheel


def lend_dependencies(environment: Path) -> None:
    """Let the environment import what is installed here, behind what is installed in it."""
    (site_packages,) = environment.glob("lib/python*/site-packages")
    (site_packages / "lent.pth").write_text(sysconfig.get_path("purelib"))


def test_the_command_runs_our_packages_and_not_the_projects(installation: Installation) -> None:
    assert installation.run("triokeeper", "--version") == f"triokeeper {VERSION}\n"


@pytest.mark.parametrize("first", ["", "import triokeeper; "])
def test_the_project_still_imports_its_own(installation: Installation, first: str) -> None:
    program = f"{first}import server, jute; print(server.OWNER, '/', jute.OWNER)"

    assert installation.run("python", "-c", program) == "the project / the project\n"


def test_the_wheel_brings_nothing_but_its_own_folder(installation: Installation) -> None:
    (site_packages,) = installation.bin.parent.glob("lib/python*/site-packages")

    names = {path.name for path in site_packages.iterdir()}

    assert names == {"triokeeper", f"triokeeper-{VERSION}.dist-info", "lent.pth"}


def test_the_installed_server_serves(installation: Installation, tmp_path: Path) -> None:
    """On a port of the system's choice, which the log names; SIGTERM ends it."""
    process = subprocess.Popen(
        [installation.bin / "triokeeper", "start", "0", tmp_path / "data"],
        cwd=installation.project,
        env=installation.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            reply = connect(serving_port(process))
        finally:
            process.terminate()

    _, timeout_ms, session_id, password_bytes = CONNECT_RESPONSE.unpack_from(reply)
    assert (timeout_ms, password_bytes) == (10_000, PASSWORD_BYTES)
    assert session_id != 0
    assert process.returncode in (0, 143)


def test_the_installed_scripts_run(installation: Installation, tmp_path: Path) -> None:
    """Shell files travel in the wheel, and the scripts run the command that installed them."""
    installation.run("triokeeper", "scripts", "install", str(tmp_path / "bin"))

    done = subprocess.run(
        [tmp_path / "bin" / "zkServer.sh", "version"],
        cwd=installation.project,
        env=installation.environ,
        capture_output=True,
        text=True,
    )

    assert done.stdout.startswith("Apache ZooKeeper, version 3.9.5 ")
    assert done.returncode == 0


def serving_port(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if match := re.search(r"serving on \S+:(\d+)", line):
            return int(match[1])
    raise AssertionError(f"the server ended before it served: {''.join(lines)}")


def connect(port: int) -> bytes:
    """Open a session and answer the server's whole response."""
    request = CONNECT_REQUEST.pack(0, 0, 10_000, 0, PASSWORD_BYTES) + bytes(PASSWORD_BYTES + 1)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as replies:
            (length,) = struct.unpack(">i", replies.read(4))
            return replies.read(length)
