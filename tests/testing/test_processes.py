"""The kit in processes of its own: event loops, workers, and parents that die."""

import os
import signal
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.testing.stories import wait_until

ROOT = Path(__file__).parents[2]

ASYNCIO = """
import asyncio

asyncio.run(asyncio.to_thread(use))
"""
TRIO = """
import trio

trio.run(trio.to_thread.run_sync, use)
"""
UNITTEST = """
import unittest

class Case(unittest.TestCase):
    def test(self):
        use()

unittest.main(argv=["program"], exit=False)
"""
BODY = """
from kazoo.client import KazooClient
from triokeeper.testing import Server

def use(**options):
    with Server() as server, server.namespace() as namespace:
        client = KazooClient(hosts=namespace.hosts, **options)
        client.start()
        client.create("/a", b"1")
        server.drop_connections()
        assert client.retry(client.get, "/a")[0] == b"1"
        client.stop()
        client.close()
    print("done")
"""
GEVENT = (
    "from gevent import monkey; monkey.patch_all()\n"
    + BODY
    + """
from kazoo.handlers.gevent import SequentialGeventHandler

use(handler=SequentialGeventHandler())
"""
)


def run_program(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "program",
    [BODY + ASYNCIO, BODY + TRIO, BODY + UNITTEST, GEVENT],
    ids=["asyncio", "trio", "unittest", "gevent"],
)
def test_one_body_passes_under(program: str) -> None:
    finished = run_program(program)
    assert "done" in finished.stdout, finished.stderr
    assert finished.returncode == 0


@pytest.mark.parametrize("is_paused", [False, True], ids=["running", "paused"])
def test_a_server_does_not_outlive_whoever_started_it(is_paused: bool) -> None:
    """Not even if that is killed with -9, and the server is stopped at that moment."""
    program = f"""
import sys, time
from triokeeper.testing import Server

with Server() as server:
    print(server._child.pid, server.data_dir, flush=True)
    {"server.pause()" if is_paused else ""}
    print("ready", flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid, data = parent.stdout.readline().split()
        assert parent.stdout.readline() == "ready\n"
        assert is_alive(int(pid))
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_alive(int(pid)))
    subprocess.run(["rm", "-r", Path(data).parent], check=True)


def is_alive(pid: int) -> bool:
    """A zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_project_with_packages_of_our_names_keeps_them(tmp_path: Path) -> None:
    """`PYTHONPATH=.` is common; the server's process is not led astray, nor is the test's."""
    for name in ("server", "eventlog", "jute", "quorum", "persistence", "client", "testing"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("OWNER = 'the project'\n")
    for name in ("trio", "attr", "click"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not the one that the server needs')\n")
    program = (
        BODY + "use()\nimport server, client, testing\nprint(server.OWNER, client.OWNER, testing.OWNER)\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": "."},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.stdout.splitlines() == ["done", "the project the project the project"], finished.stderr


def test_a_triokeeper_that_only_pythonpath_names_is_found(tmp_path: Path) -> None:
    """As after `pip install --target`. The rest of the environment is not the server's either."""
    places = os.pathsep.join([sysconfig.get_path("purelib"), str(ROOT)])
    venv.create(tmp_path / "empty", symlinks=True)
    finished = subprocess.run(
        [tmp_path / "empty" / "bin" / "python", "-P", "-c", BODY + "use()"],
        env=os.environ | {"PYTHONPATH": places, "PYTHONWARNINGS": "error", "PYTHONIOENCODING": "utf-16"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert "done" in finished.stdout.decode("utf-16"), finished.stderr.decode("utf-16")


def test_a_hostile_place_to_work_in(tmp_path: Path) -> None:
    """No home, no standard input, no current directory, and hundreds of open files."""
    gone = tmp_path / "gone"
    gone.mkdir()
    program = f"""
import os, resource
os.chdir({str(gone)!r})
os.rmdir({str(gone)!r})
os.close(0)
os.environ.pop("HOME", None)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1500)]
"""
    finished = run_program(program + BODY + "use()")
    assert finished.stdout == "done\n", finished.stderr
