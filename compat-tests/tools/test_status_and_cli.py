"""`triokeeper status` and `triokeeper cli` with Apache's servers."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from support.ensembles import start_ensemble
from support.servers import CHECKOUT

COMMAND = [sys.executable, "-c", "from server.command import main; main()"]


def triokeeper(*words: str) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"PYTHONPATH": os.environ.get("TRIOKEEPER_CODE", str(CHECKOUT))}
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, env=environment, timeout=60)


def status(*words: str) -> tuple[int, dict[str, Any]]:
    done = triokeeper("status", "--json", *words)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


@pytest.mark.usefixtures("reference")
def test_a_mixed_ensemble() -> None:
    """Both kinds of server tell of themselves and of each other, and hold what the shell wrote."""
    settings = {"reconfigEnabled": "true", "4lw.commands.whitelist": "srvr"}
    with start_ensemble(["reference", "triokeeper", "reference"], settings, leader=3) as ensemble:
        for asked in (1, 2):
            code, told = status(ensemble[asked].host_port)
            assert (code, told["verdict"], told["leader"]) == (0, "all-in", 3)
            assert [server["role"] for server in told["servers"]] == ["follower", "follower", "leader"]
            assert [server["port"] for server in told["servers"]] == [ensemble[i].port for i in (1, 2, 3)]
            assert {server["version"] for server in told["servers"]} == {"3.9.5"}

        apache, ours = ensemble[1].host_port, ensemble[2].host_port
        assert triokeeper("cli", "-s", apache, "create", "-p", "/app/db", "host=a").stdout == "/app/db\n"
        copied = triokeeper("cli", "-s", ours, "cp", "-r", f"zk://{apache}/app", "/copy")
        assert (copied.returncode, copied.stderr) == (0, "")
        assert triokeeper("cli", "-s", apache, "diff", "/app", f"zk://{ours}/copy").returncode == 0

        ensemble.kill9(1)
        code, told = status(ours)
        assert (code, told["verdict"]) == (1, "member-missing")
        assert triokeeper("status", ours, "--ready").returncode == 0
        assert triokeeper("status", apache, "--ready").returncode == 3
