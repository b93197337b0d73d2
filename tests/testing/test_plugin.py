"""The pytest plug-in, in runs of pytest of its own."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from testing.server import Server

RUN_SECONDS_MAX = 100


def run_pytest(folder: Path, test: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A project with this one test file, and nothing of ours on its path but what is installed."""
    (folder / "test_it.py").write_text(test)
    return subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "-rs", *options, str(folder)],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
    )


FIRST_TEST = """
from kazoo.client import KazooClient

def test_first(zookeeper):
    client = KazooClient(hosts=zookeeper.hosts)
    client.start()
    client.create("/a", b"1")
    assert client.get("/a")[0] == b"1"
    client.stop()

def test_second_sees_nothing_of_it(zookeeper, zookeeper_server):
    client = KazooClient(hosts=zookeeper.hosts)
    client.start()
    assert client.get_children("/") == []
    assert len(zookeeper_server.tree()) == 2
    client.stop()
"""


def test_each_test_has_a_part_of_the_tree_to_itself(tmp_path: Path) -> None:
    finished = run_pytest(tmp_path, FIRST_TEST)
    assert "2 passed" in finished.stdout, finished.stdout


def test_a_failing_test_shows_what_its_servers_logged_while_it_ran(tmp_path: Path) -> None:
    """And, if they are kept, where their data is. One that needs no server shows nothing."""
    test = """
import pytest

def test_before(zookeeper_server):
    zookeeper_server.load({"no-slash": b""})

def test_it(zookeeper_server):
    zookeeper_server.restart()
    assert False, zookeeper_server.data_dir

def test_without():
    assert False

@pytest.mark.zookeeper("positional")
def test_marked(make_zookeeper):
    make_zookeeper()
"""
    finished = run_pytest(tmp_path, test, "--zookeeper-keep")
    shown = dict(zip(("before", "it", "without", "marked"), finished.stdout.split("\n____")[1:], strict=True))
    assert "log of ZooKeeper at 127.0.0.1:" in shown["before"]
    assert "log of ZooKeeper at 127.0.0.1:" in shown["it"]
    assert shown["it"].count("PrepRequestProcessor (sid:0) started") == 1
    assert "log of ZooKeeper" not in shown["without"]
    assert "takes options by name alone, not ('positional',)" in shown["marked"]
    data = re.search(r"its data kept in (\S+)/data", shown["it"])
    assert data is not None
    shutil.rmtree(data[1])


def test_hosts_that_are_none_are_named(tmp_path: Path) -> None:
    finished = run_pytest(tmp_path, "def test_it(zookeeper): pass", "--zookeeper-hosts=127.0.0.1:foo")
    assert "at 127.0.0.1:foo: 127.0.0.1:foo: the port 'foo' is no number" in finished.stdout
    assert 'File "' not in finished.stdout


def test_a_server_that_is_there_already_serves_the_same_tests(tmp_path: Path) -> None:
    """Tests that need a server of their own are skipped, and nothing is left behind."""
    with Server() as server:
        server.load({"/app": b""})
        test = FIRST_TEST.replace(", zookeeper_server", "").replace(
            "    assert len(zookeeper_server.tree()) == 2\n", ""
        )
        test += "\ndef test_own(make_zookeeper):\n    make_zookeeper()\n"
        finished = run_pytest(tmp_path, test, f"--zookeeper-hosts={server.hosts}/app")
        assert "2 passed, 1 skipped" in finished.stdout, finished.stdout
        assert "starts and controls a server of its own" in finished.stdout
        assert server.tree() == {"/": b"", "/app": b""}


def test_marked_tests_and_the_factory_have_the_options_they_ask_for(tmp_path: Path) -> None:
    test = """
import pytest

@pytest.mark.zookeeper(config={"tickTime": 123})
def test_marked(zookeeper, make_zookeeper):
    server = make_zookeeper(tick_time=0.5)
    assert "tickTime=123" in (server.data_dir.parent / "zoo.cfg").read_text()
    other = make_zookeeper(config={}, tick_time=0.5)
    assert "tickTime=500" in (other.data_dir.parent / "zoo.cfg").read_text()
    assert other.port != server.port

@pytest.mark.zookeeper(size=1)
def test_ensemble(zookeeper_ensemble):
    assert len(zookeeper_ensemble) == 1
"""
    finished = run_pytest(tmp_path, test)
    assert "2 passed" in finished.stdout, finished.stdout


def test_what_a_test_leaves_is_kept_if_asked_for(tmp_path: Path) -> None:
    test = """
def test_it(zookeeper_server):
    zookeeper_server.load({"/a": b""})
    print("data in", zookeeper_server.data_dir)
"""
    finished = run_pytest(tmp_path, test, "--zookeeper-keep", "-s")
    data = Path(next(line for line in finished.stdout.splitlines() if "data in " in line).split()[-1])
    assert list(data.glob("version-2/log.*"))
    shutil.rmtree(data.parent)


def test_importing_the_plug_in_changes_nothing() -> None:
    """No path, no signal handler, no event loop; and little time, for it is part of every run."""
    program = """
import signal, sys
import pytest
before = list(sys.path), {number: signal.getsignal(number) for number in signal.valid_signals()}
loaded = set(sys.modules)
import triokeeper.testing.plugin
assert before == (sys.path, {number: signal.getsignal(number) for number in signal.valid_signals()})
print(*sorted(set(sys.modules) - loaded))
"""
    finished = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    assert finished.stdout.split() == ["triokeeper", "triokeeper.testing", "triokeeper.testing.plugin"]
