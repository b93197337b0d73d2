"""What `triokeeper` and `triokeeper start` make of their arguments."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from server import command, run, starting
from server.cli import main
from server.config import LoadedConfig
from tests.captured_logs import logging_restored

SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[LoadedConfig]]:
    """The configurations with which a server was started; none of them really runs."""
    configurations: list[LoadedConfig] = []

    def serve(loaded: LoadedConfig, **_: object) -> int:
        configurations.append(loaded)
        return 7

    for variable in ("JVMFLAGS", "SERVER_JVMFLAGS", "TRIOKEEPER_LOG", "TRIOKEEPER_LOG_LEVEL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(run, "serve_until_signalled", serve)
    monkeypatch.chdir(tmp_path)
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    with logging_restored():
        yield configurations
    for number, handler in handlers.items():
        signal.signal(number, handler)


def triokeeper(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


def test_without_a_command_the_default_server_starts(started: list[LoadedConfig]) -> None:
    assert triokeeper().exit_code == 7

    config = started[0].config
    assert (config.client_port_address, config.client_port) == ("127.0.0.1", 2181)
    assert config.data_dir == Path("data")


@pytest.mark.parametrize("words", [[], ["start"]])
def test_the_command_itself_starts_it_too(
    words: list[str], started: list[LoadedConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["triokeeper", *words])

    with pytest.raises(SystemExit) as ended:
        command.main()

    assert ended.value.code == 7
    assert started[0].config.client_port == 2181


@pytest.mark.parametrize(
    "words", [["start", "zoo.cfg"], ["start", "0", "/dev/null"], ["serve-for-tests", "zoo.cfg"]]
)
def test_a_server_starts_without_what_only_others_need(words: list[str], tmp_path: Path) -> None:
    """Neither the library of the command line, nor the client, nor what draws for people.

    This one gets as far as its data, which it cannot have there.
    """
    (tmp_path / "zoo.cfg").write_text("dataDir=/dev/null\nclientPort=0\n")
    program = (
        "import atexit, sys; from server.command import main\n"
        "atexit.register(lambda: print('loaded', *sys.modules, file=sys.stderr))\n"
        "main()"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 3
    loaded = {name.partition(".")[0] for name in done.stderr.splitlines()[-1].split()}
    assert {"loaded", "trio", "server"} <= loaded
    assert not loaded & {"click", "client", "kazoo", "pygments"}


def test_options_choose_port_data_and_address(started: list[LoadedConfig], tmp_path: Path) -> None:
    result = triokeeper("start", "--port", "0", "--data", "my data", "--address", "::1")

    assert result.exit_code == 7
    config = started[0].config
    assert (config.client_port, config.client_port_address) == (0, "::1")
    assert config.data_dir == tmp_path / "my data"
    assert "relative" not in result.stdout


def test_an_option_leaves_the_other_defaults(started: list[LoadedConfig]) -> None:
    assert triokeeper("start", "--port=24001").exit_code == 7

    config = started[0].config
    assert (config.client_port, config.client_port_address) == (24001, "127.0.0.1")
    assert config.data_dir == Path("data")


def test_a_lone_number_explains_itself(started: list[LoadedConfig]) -> None:
    result = triokeeper("start", "24001")

    assert result.exit_code == 2
    assert result.stderr.splitlines()[:3] == [
        "Invalid arguments, exiting abnormally",
        "24001 file is missing, and a port needs a data directory",
        "  Remedy: triokeeper start --port 24001 keeps its data under ./data; "
        "triokeeper start 24001 DATADIR chooses where",
    ]
    assert not started


def test_a_lone_number_that_is_a_file_is_a_configuration(started: list[LoadedConfig], tmp_path: Path) -> None:
    (tmp_path / "24001").write_text("dataDir=/somewhere\n")

    assert triokeeper("start", "24001").exit_code == 7
    assert started[0].config.data_dir == Path("/somewhere")


def test_a_directory_alone_explains_itself(started: list[LoadedConfig], tmp_path: Path) -> None:
    (tmp_path / "my data").mkdir()

    result = triokeeper("start", "my data")

    assert result.exit_code == 2
    assert "my data is a directory, not a configuration file" in result.stderr
    assert "triokeeper start --data 'my data'" in result.stderr
    assert not started


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["zoo.cfg", "--port", "1"], "--port cannot be combined with zoo.cfg"),
        (["zoo.cfg", "--port", "1"], "a configuration file sets clientPort"),
        (["2181", "/d", "--data", "/d"], "--data cannot be combined with 2181 /d"),
        (["x", "--data", "/d", "--address", "::"], "--data, --address cannot be combined with x"),
        ([""], "the name of the configuration file is empty"),
        (["--address", "no.such.host.invalid"], "--address=no.such.host.invalid: "),
        (["--address", ""], "it is empty"),
        (["--data", " "], "it is empty"),
        (["--port", "70000"], "70000 is not in the range"),
        (["--port", "-1"], "-1 is not in the range"),
        (["--port", "http"], "'http' is not a valid integer"),
        (["--port"], "Option '--port' requires an argument"),
        (["--prot", "1"], "--port"),
    ],
)
def test_wrong_options_are_explained(words: list[str], told: str, started: list[LoadedConfig]) -> None:
    result = triokeeper("start", *words)

    assert result.exit_code == 2
    assert told in result.stderr
    assert not started


def test_an_option_is_not_blamed_for_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JVMFLAGS", "-Dzookeeper.DigestAuthenticationProvider.digestAlg=none")

    result = triokeeper("start", "--port", "1")

    assert result.stderr.startswith(
        "Invalid config, exiting abnormally\nDigestAuthenticationProvider.digestAlg"
    )
    assert "Usage" not in result.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--port", "24001"], "Did you mean: triokeeper start --port 24001"),
        (["24001"], "Did you mean: triokeeper start 24001"),
        (["my zoo.cfg"], "Did you mean: triokeeper start 'my zoo.cfg'"),
    ],
)
def test_who_leaves_out_start_is_told_so(words: list[str], told: str, tmp_path: Path) -> None:
    (tmp_path / "my zoo.cfg").touch()

    result = triokeeper(*words)

    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


def test_an_unknown_command_is_only_that() -> None:
    result = triokeeper("strat")

    assert result.exit_code == 2
    assert "triokeeper start strat" not in result.stderr


def test_every_option_is_listed_with_its_setting() -> None:
    (start,) = (each for name, each in main.commands.items() if name == "start")

    options = {name for parameter in start.params for name in parameter.opts if name.startswith("--")}
    assert options == set(starting.OPTIONS.values())
