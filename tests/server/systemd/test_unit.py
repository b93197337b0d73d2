"""The unit that `triokeeper systemd-unit` prints."""

import shutil
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from server.cli import main
from server.systemd.unit_command import UNIT, quoted


def unit(*arguments: str | Path) -> str:
    result = CliRunner().invoke(
        main, ["systemd-unit", *(str(argument) for argument in arguments)], catch_exceptions=False
    )
    assert result.exit_code == 0, result.stderr
    return result.stdout


def service_of(text: str) -> dict[str, str]:
    parser = RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return dict(parser["Service"])


def test_it_names_this_installation_and_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "bin" / "triokeeper"
    command.parent.mkdir()
    command.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(command), "systemd-unit"])

    service = service_of(unit(tmp_path / "zoo.cfg", "--user", "keeper"))

    assert service["ExecStart"] == f"{command} start {tmp_path}/zoo.cfg"
    assert (service["Type"], service["User"]) == ("notify", "keeper")
    assert service["ReadWritePaths"] == f"-{tmp_path}"


def test_run_as_a_module_it_names_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/x/triokeeper/__main__.py"])

    started = service_of(unit())["ExecStart"]

    assert started == f"{sys.executable} -P -m triokeeper start /etc/zookeeper/zoo.cfg"


def test_nothing_but_its_paths_and_user_differs_from_the_unit_in_the_package() -> None:
    ours, printed = (service_of(text) for text in (UNIT.read_text(), unit("/a/zoo.cfg", "--user", "me")))

    assert {name for name in ours if ours[name] != printed[name]} == {"ExecStart", "User", "ReadWritePaths"}


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("/a/zoo.cfg", "/a/zoo.cfg"),
        ("/a b/zoo.cfg", '"/a b/zoo.cfg"'),
        ("/50%/$HOME", "/50%%/$$HOME"),
        ('/a"b\\c', '"/a\\"b\\\\c"'),
        ("/a;b", '"/a;b"'),
    ],
)
def test_words_are_quoted_as_systemd_reads_them(word: str, written: str) -> None:
    assert quoted(word) == written


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["--user", "me\nExecStart=/bin/sh"], "no user's name"), (["/a\nb/zoo.cfg"], "a unit cannot name")],
)
def test_what_would_add_lines_is_refused(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(main, ["systemd-unit", *arguments])

    assert result.exit_code == 2
    assert told in result.stderr


def test_systemd_accepts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    command = tmp_path / "with space" / "triokeeper"
    command.parent.mkdir()
    command.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(command)])
    file = tmp_path / "triokeeper.service"
    file.write_text(unit(tmp_path / "50%" / "zoo.cfg", "--user", "root"))

    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", file], capture_output=True, text=True, timeout=60
    )

    complaints = [line for line in done.stderr.splitlines() if str(file) in line or file.name in line]
    assert complaints == []
