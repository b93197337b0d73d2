"""The first story: pip install, five lines of pytest, green. No compiler, Java, Docker or network."""

import subprocess
from pathlib import Path

import pytest

from scripts.fresh_environment import make_environment

FIVE_LINES = """\
from kazoo.client import KazooClient
def test_zookeeper(zookeeper):
    client = KazooClient(hosts=zookeeper.hosts)
    client.start()
    assert client.create("/a", b"1") == "/a"
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("fresh"), "triokeeper", "kazoo", "pytest")


def run(python: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the environment where nothing else is on the path."""
    environ = {"PATH": str(python.parent), "HOME": str(cwd), "TMPDIR": str(cwd)}
    return subprocess.run(
        [python, *arguments],
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_five_lines_are_green(python: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(FIVE_LINES)

    done = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)

    assert done.stdout.splitlines()[-1].startswith("1 passed in"), done.stdout + done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"test_it.py", "__pycache__"}


def test_only_what_the_server_needs_was_installed(python: Path, tmp_path: Path) -> None:
    program = "from importlib.metadata import distributions; print(*sorted(d.name for d in distributions()))"

    names = set(run(python, "-c", program, cwd=tmp_path).stdout.split())

    assert {"trio", "click", "triokeeper"} <= names
    assert not names & {"prompt_toolkit", "prompt-toolkit", "rich", "cramjam", "mypy"}


def test_the_shell_works_without_its_extra_and_names_it(python: Path, tmp_path: Path) -> None:
    """One command needs none of it."""
    program = """
import pty, subprocess, sys
from triokeeper.testing import Server
with Server() as server:
    server.load({"/app": b""})
    command = [sys.executable, "-m", "triokeeper", "cli", "-s", server.hosts]
    print(subprocess.run([*command, "ls", "/"], capture_output=True, text=True, check=True).stdout)
    pty.spawn(command, stdin_read=lambda fd: b"quit\\n")
"""
    done = run(python, "-c", program, cwd=tmp_path)

    assert "app" in done.stdout.split(), done.stderr
    assert "pip install 'triokeeper[shell]'" in done.stdout


@pytest.mark.parametrize(
    "arguments", [["--version"], ["start", "--help"], ["status", "--help"], ["systemd-unit"]]
)
def test_every_part_of_the_command_is_there(arguments: list[str], python: Path, tmp_path: Path) -> None:
    done = run(python, "-m", "triokeeper", *arguments, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "(pure)" in done.stdout or "triokeeper" in done.stdout
