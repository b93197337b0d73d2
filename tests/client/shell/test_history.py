"""The lines that a person typed: kept where that is possible, and never in the way."""

from pathlib import Path

import pytest
from prompt_toolkit.history import FileHistory, InMemoryHistory

from client.shell.completion import kept_history


def test_lines_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    history = kept_history()
    assert isinstance(history, FileHistory)
    assert history.filename == str(tmp_path / "triokeeper" / "cli_history")


def test_a_file_that_cannot_be_written_is_done_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "triokeeper" / "cli_history").mkdir(parents=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert isinstance(kept_history(), InMemoryHistory)


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a container's random uid."""

    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", fail)
    assert isinstance(kept_history(), InMemoryHistory)
