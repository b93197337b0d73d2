"""zkCli answers as Apache's did when the transcripts were recorded; see compat-tests/test_zkcli.py."""

from pathlib import Path

import pytest
from zkcli_transcripts import assert_equal, transcribe, transcripts
from zkcli_worlds import FOLDER, World

from tests.client.zkcli.one_shots import start_here

pytestmark = pytest.mark.usefixtures("utc")


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
