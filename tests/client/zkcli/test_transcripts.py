"""zkCli answers as Apache's did when the transcripts were recorded; see compat-tests/tools/zkcli."""

from pathlib import Path

import pytest

from tests.client.zkcli.one_shots import start_here
from tools.zkcli.transcripts import assert_equal, transcribe
from tools.zkcli.worlds import TRANSCRIPTS, Worlds


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_answers_are_those_recorded(file: Path, worlds: Worlds) -> None:
    recorded = file.read_text()
    world = worlds.of(file)
    try:
        answered = transcribe(recorded, world.names, start_here)
    finally:
        world.reset()
    assert_equal(recorded, answered)
