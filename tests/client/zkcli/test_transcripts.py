"""zkCli answers as Apache's did when the transcripts were recorded; see compat-tests/test_zkcli.py."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from zkcli_transcripts import assert_equal, transcribe, transcripts
from zkcli_worlds import FOLDER, World, start_world

from tests.client.zkcli.one_shots import start_here


@pytest.fixture(scope="module")
def one_server() -> Iterator[World]:
    with start_world("standalone") as world:
        yield world


@pytest.fixture(scope="module")
def three_servers() -> Iterator[World]:
    with start_world("ensemble") as world:
        yield world


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


@pytest.mark.parametrize("file", transcripts(FOLDER / "standalone"), ids=lambda file: file.stem)
def test_one_server(file: Path, one_server: World) -> None:
    assert_answers_as_recorded(file, one_server)


@pytest.mark.parametrize("file", transcripts(FOLDER / "ensemble"), ids=lambda file: file.stem)
def test_three_servers(file: Path, three_servers: World) -> None:
    assert_answers_as_recorded(file, three_servers)


def assert_answers_as_recorded(file: Path, world: World) -> None:
    recorded = file.read_text()
    try:
        answered = transcribe(recorded, world.names, start_here)
    finally:
        world.reset()
    assert_equal(recorded, answered)
