"""The server as PID 1, in a PID namespace of its own, which any user of Linux can make."""

import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.server.zoo_cfg_files import write_zoo_cfg

ROOT = Path(__file__).parents[3]
AS_PID_1 = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")

HELPERS = f"""\
import os, signal, sys
START = "from server.cli import main; main()"

def start():
    os.execv({sys.executable!r}, [{sys.executable!r}, "-c", START, "start", sys.argv[1]])
"""


@cache
def can_be_pid_1() -> bool:
    try:
        return subprocess.run([*AS_PID_1, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture(autouse=True)
def a_pid_namespace() -> None:
    if not can_be_pid_1():
        pytest.skip("this system lets nobody make a PID namespace (unshare --user --pid)")


def pid_1(program: str, *arguments: str | Path) -> subprocess.Popen[str]:
    command = [*AS_PID_1, sys.executable, "-c", HELPERS + program, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_signal_stops_a_server_that_is_pid_1(tmp_path: Path) -> None:
    file = write_zoo_cfg(tmp_path, "dataDir=DIR/data\nclientPort=0")
    program = """\
if os.fork() == 0:
    sys.stdin.readline()
    os.kill(1, signal.SIGTERM)
    os._exit(0)
start()
"""
    with pid_1(program, file) as server:
        assert server.stdout is not None
        assert any("serving on" in line for line in server.stdout)
        _, _ = server.communicate("now\n", timeout=60)

        assert server.returncode == 0


def test_an_entrypoint_hears_signals_before_the_rest_is_imported() -> None:
    program = """\
from server import command
from server.container import process_one
def ended():
    print("click" in sys.modules, "attrs" in sys.modules)
    sys.exit()
process_one.end_on_signals = ended
sys.argv = ["triokeeper", "entrypoint"]
command.main()
"""
    with pid_1(program) as process:
        out, _ = process.communicate(timeout=60)

        assert (process.returncode, out) == (0, "False False\n")


def test_a_signal_that_comes_while_the_server_is_being_started_is_not_lost(tmp_path: Path) -> None:
    """It waits across the exec, and ends the server before it serves anybody."""
    file = write_zoo_cfg(tmp_path, "dataDir=DIR/data\nclientPort=0")
    program = """\
from server.container.process_one import hold_signals_back
hold_signals_back()
os.kill(1, signal.SIGTERM)
start()
"""
    with pid_1(program, file) as server:
        out, _ = server.communicate(timeout=60)

        assert (server.returncode, out) == (128 + signal.SIGTERM, "")


def test_orphans_do_not_stay_as_zombies() -> None:
    """PID 1 inherits the grandchild; `wait` has nobody to wait for once it has ended."""
    program = """\
from server.container.process_one import take_note_of_orphans
take_note_of_orphans()
if os.fork() == 0:
    if os.fork() != 0:
        os._exit(0)
    os._exit(0)
try:
    print("a zombie:", os.wait())
except ChildProcessError:
    print("none")
"""
    with pid_1(program) as process:
        out, _ = process.communicate(timeout=60)

        assert out == "none\n"


def test_elsewhere_signals_keep_their_usual_meaning() -> None:
    program = """\
import signal
from server.container.process_one import end_on_signals, take_note_of_orphans
end_on_signals()
take_note_of_orphans()
print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == "True True\n"
