"""Our zkCli beside Apache's on the same servers: every line, prompt, watch event and exit code is equal.

What is said to both is in `recordings/*/*.txt`, with what Apache's answered when it was recorded. That ours
answers as recorded is in tests/client/zkcli/test_transcripts.py and needs no Java. All of it live is long.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.zkcli.processes import Shell, command_line, start_process
from tools.zkcli.transcripts import assert_equal, transcribe
from tools.zkcli.worlds import FOLDER, TRANSCRIPTS, World, Worlds, start_world, worlds_of

pytestmark = pytest.mark.usefixtures("reference")

SMOKE = FOLDER / "standalone" / "chroot.txt"


def compare(file: Path, world: World) -> None:
    """Apache's zkCli first, ours next, on a tree that is empty for both."""
    text = file.read_text()
    told = []
    shells: tuple[Shell, ...] = ("reference", "triokeeper")
    for shell in shells:
        try:
            told.append(transcribe(text, world.names, start_process(shell)))
        finally:
            world.reset()
    assert_equal(*told)


def test_a_session() -> None:
    with start_world("standalone") as world:
        compare(SMOKE, world)


def test_one_shot_to_the_byte() -> None:
    """Nothing is masked here: the event of the connection comes first in both."""
    with start_world("standalone") as world:
        arguments = ["-server", world.hosts, "ls", "/"]
        told = [
            subprocess.run(command_line(shell, arguments), capture_output=True, check=True, timeout=60).stdout
            for shell in ("reference", "triokeeper")
        ]
    assert told[0] == told[1]
    assert told[0].endswith(b"[zookeeper]\n")


@pytest.fixture(scope="module", params=["triokeeper", "reference"])
def worlds(request: pytest.FixtureRequest) -> Iterator[Worlds]:
    with worlds_of(request.param) as worlds:
        yield worlds


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_everything(file: Path, worlds: Worlds) -> None:
    compare(file, worlds.of(file))
