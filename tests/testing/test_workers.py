"""The second story: many workers, again and again. Ports never clash, and nothing is left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testing.stories import wait_until

RUN_SECONDS_MAX = 300
TEST = """
import pytest
from kazoo.client import KazooClient

@pytest.mark.parametrize("number", range({tests}))
def test_it(zookeeper_server, zookeeper, make_zookeeper, number):
    client = KazooClient(hosts=zookeeper.hosts, timeout=30)
    client.start(timeout=60)
    client.create(f"/{{number}}", ephemeral=True)
    assert list(zookeeper_server.tree(zookeeper.path)) == [zookeeper.path, f"{{zookeeper.path}}/{{number}}"]
    if number % 4 == 0:
        make_zookeeper(data_dir=zookeeper_server.data_dir.parent / f"data-{{number}}").restart()
    client.stop()
    client.close()
"""


def run_workers(folder: Path, *, workers: int, tests: int) -> None:
    """Run a suite, and see it pass and leave neither files nor processes."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    (folder / "test_it.py").write_text(TEST.format(tests=tests))
    command = ("-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(workers), str(folder))
    finished = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        | {"TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
    )
    assert f"{tests} passed" in finished.stdout, finished.stdout[-8000:]
    assert [path for path in temporary.iterdir() if not path.name.startswith("pytest-of-")] == []
    wait_until(lambda: not processes_with(f"TMPDIR={temporary}"))


def processes_with(variable: str) -> list[str]:
    """The pids of all processes that have this in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environ = (process / "environ").read_bytes()
        except (PermissionError, ProcessLookupError, FileNotFoundError):
            continue
        if variable.encode() in environ.split(b"\0"):
            found.append(process.name)
    return found


@pytest.mark.timeout(RUN_SECONDS_MAX)
def test_four_workers(tmp_path: Path) -> None:
    run_workers(tmp_path, workers=4, tests=8)


@pytest.mark.long
@pytest.mark.timeout(RUN_SECONDS_MAX)
@pytest.mark.parametrize("_number", range(50))
def test_eight_workers_fifty_times(_number: int, tmp_path: Path) -> None:
    run_workers(tmp_path, workers=8, tests=16)


def test_what_is_left_behind_would_be_seen(tmp_path: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=os.environ | {"TMPDIR": str(tmp_path)}) as left:
        assert processes_with(f"TMPDIR={tmp_path}") == [str(left.pid)]
