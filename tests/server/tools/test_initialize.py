"""zkServer-initialize.sh: what is on disk afterwards; its output is in compat-tests/tools/."""

from pathlib import Path

import pytest

from server.tools.initialize import main
from tests.server.tools.script_environment import script_environment, write_config


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_config(tmp_path, dataLogDir=tmp_path / "log")
    return tmp_path


def files(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*") if "conf" not in path.parts}


NEW = {"data", "data/version-2", "data/initialize", "log", "log/version-2"}


def test_directories_are_made(home: Path) -> None:
    assert main(["--myid", "3"], script_environment(home)) == 0

    assert files(home) == {*NEW, "data/myid"}
    assert (home / "data" / "myid").read_text() == "3\n"


def test_force_removes_the_servers_files_and_no_others(home: Path) -> None:
    main(["--myid=3"], script_environment(home))
    for name in ("data/version-2/snapshot.0", "data/mine", "log/version-2/log.1"):
        (home / name).touch()

    assert main([], script_environment(home)) == 1
    assert (home / "data/version-2/snapshot.0").exists()
    assert main(["--force"], script_environment(home)) == 0

    assert files(home) == {*NEW, "data/mine"}


def test_a_log_directory_in_use_is_refused_too(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "log" / "version-2").mkdir(parents=True)

    assert main([], script_environment(home)) == 1
    assert f"txnlog directory already exists at {home}/log" in capsys.readouterr().out
    assert not (home / "data").exists()


@pytest.mark.parametrize("arguments", [["--myid"], ["--myid="], ["--force=1"], ["help"]])
def test_arguments_that_make_no_sense(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(arguments, script_environment(home)) == 1
    assert capsys.readouterr().out.startswith(f"Unknown option: {arguments[0]}\nusage: bin/the-script ")
    assert files(home) == set()


def test_a_directory_that_cannot_be_made(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "data").touch()

    assert main([], script_environment(home)) == 1
    assert capsys.readouterr().err == f"{home}/data/myid: Not a directory\n"


def test_a_link_is_replaced_and_what_it_leads_to_stays(home: Path) -> None:
    (home / "data").mkdir()
    (home / "disk").mkdir()
    (home / "disk" / "log.1").touch()
    (home / "data" / "version-2").symlink_to(home / "disk")
    (home / "log").mkdir()
    (home / "log" / "version-2").touch()

    assert main(["--force"], script_environment(home)) == 0

    assert files(home) == {*NEW, "disk", "disk/log.1"}
    assert not (home / "data" / "version-2").is_symlink()
    assert (home / "log" / "version-2").is_dir()


def test_the_id_that_is_used_is_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--myid=3"], script_environment(home))

    assert capsys.readouterr().out == "Using myid of 3\n"
