"""`triokeeper status` on servers that run."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from client.status.command import status
from support.ensembles import Ensemble, start_ensemble
from support.servers import CHECKOUT, Server, start_server


def run(*arguments: str) -> Result:
    return CliRunner().invoke(status, list(arguments))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with start_server("triokeeper", {"4lw.commands.whitelist": "srvr"}) as running:
        yield running


@pytest.fixture(scope="module")
def ensemble() -> Iterator[Ensemble]:
    with start_ensemble(
        ["triokeeper"] * 3, {"reconfigEnabled": "true", "4lw.commands.whitelist": "srvr"}, leader=3
    ) as running:
        yield running


@pytest.fixture
def unused() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    return f"127.0.0.1:{port}"


def test_a_standalone_server(server: Server) -> None:
    result = run(server.host_port)
    assert result.exit_code == 0
    assert "standalone" in result.output
    assert result.output.endswith("the server is serving\n")


def test_nobody_there(unused: str) -> None:
    result = run(unused)
    assert result.exit_code == 3
    assert f"{unused}: Connection refused" in result.output
    assert run(unused, "--wait", "0.3").exit_code == 3


def test_ready(server: Server, unused: str) -> None:
    for arguments, code in (((server.host_port,), 0), ((unused,), 3), ((server.host_port, "--wait", "9"), 0)):
        result = run(*arguments, "--ready")
        assert (result.exit_code, result.output) == (code, "")


def test_ready_means_serving_not_only_alive() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        assert run(address, "--ready", "--timeout", "0.1").exit_code == 3


def test_wrong_use_is_no_state_of_an_ensemble() -> None:
    for arguments in (
        ["a:x"],
        ["a,b", "--ready"],
        ["--bogus"],
        ["--ready", "--json"],
        ["--watch", "--wait", "1"],
    ):
        assert run(*arguments).exit_code == 64


def test_a_health_check_imports_no_more_than_it_needs(server: Server) -> None:
    program = (
        "import sys; from client.status.command import status\n"
        "try: status()\n"
        "except SystemExit as end: code = end.code\n"
        "print(int(code), {'trio', 'rich', 'attrs', 'jute', 'ssl', 'asyncio'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, server.host_port, "--ready"],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        check=True,
    )
    assert done.stdout == "0 {'attrs'}\n"


def test_one_member_tells_of_all(ensemble: Ensemble) -> None:
    """With the whitelist that every server has: the others are found in /zookeeper/config."""
    result = run(ensemble[1].host_port, "--json")
    told = json.loads(result.output)
    assert (result.exit_code, told["verdict"], told["leader"]) == (0, "all-in", 3)
    assert [(s["id"], s["port"], s["role"]) for s in told["servers"]] == [
        (1, ensemble[1].port, "follower"),
        (2, ensemble[2].port, "follower"),
        (3, ensemble[3].port, "leader"),
    ]


def test_members_that_are_gone(ensemble: Ensemble) -> None:
    ensemble[1].kill9()
    result = run(ensemble[2].host_port)
    assert result.exit_code == 1
    assert "there is a quorum, but a member is missing (2 of 3 serving)" in result.output
    ensemble[3].kill9()
    while ensemble[2].is_serving():
        pass
    result = run(ensemble.hosts)
    assert result.exit_code == 2
    assert "not serving" in result.output
    assert run(ensemble[2].host_port, "--ready").exit_code == 2
    ensemble.spawn(1, 3)
    assert run(ensemble[2].host_port, "--wait", "60").exit_code == 0


def test_a_reader_that_has_seen_enough_is_no_missing_member(server: Server) -> None:
    words = [sys.executable, "-c", "from server.cli import main; main()", "status", server.host_port]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=CHECKOUT) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == b""
