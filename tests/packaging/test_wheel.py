"""The installed wheel, pure and compiled, beside a project that has packages named `server` and `jute` too.

Both are built from the source distribution, so that has all it takes.
"""

import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import attrs
import pytest

from scripts.compile_hot_modules import CompilerUnavailable, compile_hot_modules, extension_modules
from server import VERSION
from server.build_kind import BuildKind

ROOT = Path(__file__).parents[2]


CONNECT_REQUEST = struct.Struct(">iqiqi")  # version, last zxid, timeout, session, then the password
CONNECT_RESPONSE = struct.Struct(">iiqi")  # version, timeout, session, then the password
PASSWORD_BYTES = 16


@attrs.frozen
class Installation:
    """A virtual environment with the wheel, and a project whose packages have the same names as ours."""

    kind: BuildKind
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


@pytest.fixture(scope="module", params=["pure", "compiled"])
def installation(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    directory = tmp_path_factory.mktemp("installed")
    environment = directory / "venv"
    run_python("-m", "venv", "--without-pip", environment)
    source = unpack_sdist(directory)
    wheel = build_pure_wheel(source) if request.param == "pure" else build_compiled_wheel(source)
    run_python(
        "-m", "pip", "--python", environment / "bin" / "python", *OFFLINE, "install", "--no-deps", wheel
    )
    lend_dependencies(environment)
    project = directory / "project"
    for package in ("server", "jute"):
        (project / package).mkdir(parents=True)
        (project / package / "__init__.py").write_text("OWNER = 'the project'\n")
    return Installation(request.param, environment / "bin", project)


OFFLINE = ("--quiet", "--disable-pip-version-check", "--no-input", "--no-cache-dir")


def run_python(*arguments: str | Path, path: str = os.environ["PATH"], cwd: Path | None = None) -> None:
    subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=os.environ | {"PATH": path},
        check=True,
        capture_output=True,
        text=True,
    )


def unpack_sdist(directory: Path) -> Path:
    run_python("-m", "hatchling", "build", "-t", "sdist", "-d", directory / "sdist", cwd=ROOT)
    (archive,) = (directory / "sdist").iterdir()
    with tarfile.open(archive) as sdist:
        sdist.extractall(directory, filter="data")
    return directory / f"triokeeper-{VERSION}"


def build_pure_wheel(source: Path) -> Path:
    """As on a machine without a compiler: nothing is on the PATH."""
    return build_wheel(source, path="")


def build_compiled_wheel(source: Path) -> Path:
    """The checkout's compiled modules, made a minute ago by other tests, are of the very same sources."""
    try:
        shutil.copytree(compile_hot_modules(), source / "build" / "compiled")
    except CompilerUnavailable as unavailable:
        pytest.skip(str(unavailable))
    return build_wheel(source, path=os.environ["PATH"])


def build_wheel(source: Path, path: str) -> Path:
    """With the build backend installed here, so without the network."""
    wheels = source.parent / "wheels"
    run_python(
        "-m", "pip", *OFFLINE, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, source, path=path
    )
    (wheel,) = wheels.iterdir()
    return wheel


def lend_dependencies(environment: Path) -> None:
    """Let the environment import what is installed here, behind what is installed in it."""
    (site_packages,) = environment.glob("lib/python*/site-packages")
    (site_packages / "lent.pth").write_text(sysconfig.get_path("purelib"))


def test_the_command_runs_our_packages_and_not_the_projects(installation: Installation) -> None:
    expected = f"triokeeper {VERSION} ({installation.kind})\n"

    assert installation.run("triokeeper", "--version") == expected


@pytest.mark.parametrize("first", ["", "import triokeeper; "])
def test_the_project_still_imports_its_own(installation: Installation, first: str) -> None:
    program = f"{first}import server, jute; print(server.OWNER, '/', jute.OWNER)"

    assert installation.run("python", "-c", program) == "the project / the project\n"


def test_the_wheel_brings_nothing_but_its_own_folder(installation: Installation) -> None:
    (site_packages,) = installation.bin.parent.glob("lib/python*/site-packages")

    names = {path.name for path in site_packages.iterdir()}

    assert names == {"triokeeper", f"triokeeper-{VERSION}.dist-info", "lent.pth"}


def test_type_checkers_know_the_testing_kit(installation: Installation, tmp_path: Path) -> None:
    """The package says that it is typed, in the place where checkers look."""
    (tmp_path / "user.py").write_text(
        "from triokeeper.testing import Server\nport: str = Server(tick_time=1).port\n"
    )
    mypy = ("-m", "mypy", "--no-incremental", "--config-file=", "--python-executable")

    done = subprocess.run(
        [sys.executable, *mypy, str(installation.bin / "python"), "user.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert [line for line in done.stdout.splitlines() if " error: " in line] == [
        'user.py:2: error: Incompatible types in assignment (expression has type "int", '
        'variable has type "str")  [assignment]'
    ]


def test_compiled_modules_come_with_byte_code_for_the_rest(installation: Installation) -> None:
    (folder,) = installation.bin.parent.glob("lib/python*/site-packages/triokeeper")
    compiled = {path.relative_to(folder) for path in extension_modules(folder)}

    assert (folder / "server" / "__pycache__" / f"cli.{sys.implementation.cache_tag}.pyc").exists()
    if installation.kind == "pure":
        assert not compiled
    else:
        made = compile_hot_modules()
        assert compiled == {path.relative_to(made) for path in extension_modules(made)}


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
            reply = connect(serving_port(process, installation.kind))
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


def serving_port(process: subprocess.Popen[str], kind: BuildKind) -> int:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if match := re.search(rf"\({kind}\) serving on \S+:(\d+)", line):
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
