"""Start-up time and memory: what a server has imported once it serves."""

import os
import re
import signal
import subprocess
import sys
from itertools import accumulate
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Each of them takes milliseconds and megabytes, and no server needs it before it is asked for.
HEAVY = {
    *("asyncio", "concurrent.futures", "email", "http", "multiprocessing", "pdb", "unittest", "xml"),
    *("urllib.request", "click", "construct", "cramjam", "javaproperties", "prompt_toolkit", "rich"),
    *("structlog", "docker", "hypothesis", "kazoo", "client", "testing", "server.tools", "server.under_test"),
}
OF_ENSEMBLES = {"server.ensemble_member", "quorum.elector", "quorum.leader", "quorum.learner", "quorum.peer"}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules of a standalone server that serves, and the packages around them."""
    folder = tmp_path_factory.mktemp("idle")
    (folder / "zoo.cfg").write_text(f"dataDir={folder}/data\nclientPort=0\nclientPortAddress=127.0.0.1\n")
    program = "from server.command import main; main()"
    with (
        (folder / "imports").open("w") as imports,
        subprocess.Popen(
            [sys.executable, "-X", "importtime", "-c", program, "start", str(folder / "zoo.cfg")],
            cwd=ROOT,
            env={**os.environ, "TRIOKEEPER_LOG": "plain"},
            stdout=subprocess.PIPE,
            stderr=imports,
            text=True,
        ) as server,
    ):
        assert server.stdout is not None
        assert any(" serving on " in line for line in server.stdout), "it came up"
        server.send_signal(signal.SIGTERM)
    modules = re.findall(r"^import time:.*\| +([\w.]+)$", (folder / "imports").read_text(), re.MULTILINE)
    return {package for module in modules for package in accumulate(module.split("."), "{}.{}".format)}


def test_what_is_heavy_stays_out_of_a_server(imported: set[str]) -> None:
    assert "server.run" in imported
    assert imported & HEAVY == set()


def test_a_standalone_server_does_without_the_code_of_ensembles(imported: set[str]) -> None:
    assert imported & OF_ENSEMBLES == set()
