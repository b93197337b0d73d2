"""Arguments, files and streams that are not what they should be: an answer in words, never a traceback."""

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from client.status.command import status
from client.status.members import parse_members
from support.servers import CHECKOUT
from tests.client.shell.cli_runner import Cli
from tests.client.shell.test_shell_processes import COMMAND

NO_HOST = "a" * 70  # longer than a label of a host name may be


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["set", "/", "x", "-v", "99999999999"], "99999999999 is not in the range"),
        (["rm", "/x", "-v", "99999999999"], "99999999999 is not in the range"),
        (["import", "/dev/null", "/x", "-v", "99999999999"], "99999999999 is not in the range"),
        (["create", "/x", "-t", "9" * 30], "is not in the range"),
        (["--session-timeout", "1e10", "ls"], "is not in the range"),
        (["--session-timeout", "nan", "ls"], "'nan' is no number"),
        (["--session-timeout", "-5", "ls"], "is not in the range"),
        (["--wait", "nan", "ls"], "'nan' is no number"),
        (["lock", "/x", "--timeout", "nan", "true"], "'nan' is no number"),
        (["create", "-p", "foo"], "Path must start with / character"),
        (["cp", "-f", "/", ""], "names neither a node nor a file"),
    ],
)
def test_arguments_that_mean_nothing(cli: Cli, words: list[str], said: str) -> None:
    assert said in cli.fails(2, *words)


def test_data_and_credentials_need_not_be_text(cli: Cli) -> None:
    cli.ok("--auth", "digest:u:\udcff", "create", "/x", "\udcff\udcfe")
    assert cli.json("get", "/x")["base64"] == "//4="


def test_names_that_no_host_can_have() -> None:
    for words in (["ls"], ["watch"]):
        assert "no host can have this name" in Cli(f"{NO_HOST}:1").fails(3, "--wait", "0.2", *words)
    for option in ([], ["--ready"]):
        assert CliRunner().invoke(status, [NO_HOST, *option]).exit_code == 3
    assert CliRunner().invoke(status, ["--timeout", "nan", NO_HOST]).exit_code == 64


def test_ports_that_nobody_can_have() -> None:
    members = parse_members("server.1=a:1:2;99999\nserver.2=b:1:2;²", 2181)
    assert [member.address for member in members] == [None, None]


def test_a_file_deeper_than_the_stack(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "deep.json"
    file.write_text("[" * 200_000)
    assert "no JSON" in cli.fails(1, "cp", "-r", str(file).replace("/", "file:/", 1), "/x")


def test_streams_that_are_closed(cli: Cli) -> None:
    cli.ok("create", "/x", "old")
    for words in ("get /x --json >&-", "get /x >&- 2>&-", "<&-", "set /x - <&-"):
        shell = ["bash", "-c", f'"$@" {words}', "bash", *COMMAND, "-s", cli.hosts]
        done = subprocess.run(shell, capture_output=True, cwd=CHECKOUT, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
    assert cli.ok("get", "/x") == ""
