"""Our zkCli answers as Apache's does: every line of stdout and stderr, every prompt, watch event and exit code.

`zkcli/*/*.txt` are transcripts recorded from Apache's zkCli (`record_zkcli.py`). Ours must answer the same on our
server; that needs no Java. The comparison of both, live on the same servers, is long but for a part of it.
"""

import difflib
from collections.abc import Iterator
from pathlib import Path

import pytest
from zk_servers import Kind
from zkcli_transcripts import transcribe, transcripts
from zkcli_worlds import FOLDER, World, start_world

STANDALONE = transcripts(FOLDER / "standalone")
ENSEMBLE = transcripts(FOLDER / "ensemble")


@pytest.fixture(scope="module")
def standalone() -> Iterator[World]:
    with start_world("standalone") as world:
        yield world


@pytest.fixture(scope="module")
def ensemble() -> Iterator[World]:
    with start_world("ensemble") as world:
        yield world


@pytest.mark.parametrize("file", STANDALONE, ids=lambda file: file.stem)
def test_one_server(file: Path, standalone: World) -> None:
    assert_answers_as_recorded(file, standalone)


@pytest.mark.parametrize("file", ENSEMBLE, ids=lambda file: file.stem)
def test_three_servers(file: Path, ensemble: World) -> None:
    assert_answers_as_recorded(file, ensemble)


def assert_answers_as_recorded(file: Path, world: World) -> None:
    try:
        answered = transcribe("triokeeper", file.read_text(), world.names)
    finally:
        world.reset()
    assert_equal(file.read_text(), answered)


def assert_equal(apache: str, ours: str) -> None:
    difference = difflib.unified_diff(apache.splitlines(), ours.splitlines(), "Apache's", "ours", lineterm="")
    assert apache == ours, "\n".join(difference)
