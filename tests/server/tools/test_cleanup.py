"""zkCleanup.sh: which files go, and what is said; bad arguments are in compat-tests/tools/."""

import os
from pathlib import Path

import pytest

from server.tools.cleanup import main
from tests.server.tools.script_environment import script_environment, write_config
from tests.server.tools.snapshot_files import write_snapshot

CHANGED = 1_794_784_808


def write_data(snapshots: Path, logs: Path) -> None:
    """Four snapshots, and a log that begins behind each."""
    for directory in (snapshots, logs):
        (directory / "version-2").mkdir(parents=True, exist_ok=True)
    for number in range(4):
        write_snapshot(snapshots / "version-2" / f"snapshot.{number}0", {})
        (logs / "version-2" / f"log.{number}1").write_bytes(b"")
    for file in [*snapshots.rglob("*.*"), *logs.rglob("*.*")]:
        os.utime(file, (CHANGED, CHANGED))


def names(directory: Path) -> list[str]:
    return sorted(file.name for file in (directory / "version-2").iterdir())


def test_the_newest_snapshots_and_the_logs_they_need_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    write_config(tmp_path)
    write_data(data, data)

    assert main(["-n", "3"], script_environment(tmp_path)) == 0

    assert names(data) == ["log.01", "log.11", "log.21", "log.31", *(f"snapshot.{n}0" for n in (1, 2, 3))]
    assert capsys.readouterr().out == (
        f"Removing file: Nov 15, 2026, 11:20:08 PM\t{data}/version-2/snapshot.00\n"
    )


def test_logs_in_a_directory_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, logs = tmp_path / "data", tmp_path / "logs"
    write_config(tmp_path, dataLogDir=logs)
    write_data(data, logs)
    (logs / "version-2" / "log.0a").write_bytes(b"")

    assert main(["-n", "3"], script_environment(tmp_path)) == 0

    assert names(logs) == ["log.0a", "log.11", "log.21", "log.31"]
    assert capsys.readouterr().out.count("Removing file: ") == 2


@pytest.mark.parametrize(
    ("strayed", "said"),
    [
        ("data/version-2/log.1", "Snapshot directory has log files."),
        ("logs/version-2/snapshot.1", "Log directory has snapshot files."),
    ],
)
def test_directories_that_are_mixed_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], strayed: str, said: str
) -> None:
    write_config(tmp_path, dataLogDir=tmp_path / "logs")
    write_data(tmp_path / "data", tmp_path / "logs")
    (tmp_path / strayed).touch()

    assert main(["-n", "3"], script_environment(tmp_path)) == 1
    assert capsys.readouterr().err.startswith(said)
    assert len(names(tmp_path / "data")) >= 4


def test_no_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-n", "3"], script_environment(tmp_path)) == 1
    assert capsys.readouterr().err == f"{tmp_path}/conf/zoo.cfg: No such file or directory\n"


def test_a_file_that_cannot_be_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are still removed."""
    write_config(tmp_path)
    write_data(tmp_path / "data", tmp_path / "data")
    stubborn = tmp_path / "data" / "version-2" / "snapshot.00"
    monkeypatch.setattr("server.tools.cleanup.purgeable", lambda *_: [stubborn, stubborn.with_name("log.01")])
    monkeypatch.setattr(
        "persistence.disk.RealDisk.unlink",
        lambda _disk, path: os.unlink(path if path != stubborn else tmp_path),
    )

    assert main(["-n", "3"], script_environment(tmp_path)) == 0
    assert capsys.readouterr().err == f"Failed to remove {stubborn}\n"
    assert "log.01" not in names(tmp_path / "data")
