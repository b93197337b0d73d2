"""How soon a test has its ZooKeeper: `make bench-testing`.

In a fresh virtual environment with the wheel of this checkout: the time from importing `triokeeper.testing`
to a server that is ready; a whole run of pytest with one test of five lines; and, to compare, a run with a
test that only imports the client library.
"""

import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click

from scripts.fresh_environment import make_environment

START = """\
import time
started = time.perf_counter()
from triokeeper.testing import Server
with Server() as server:
    print(time.perf_counter() - started)
"""
FIVE_LINES = """\
from kazoo.client import KazooClient
def test_zookeeper(zookeeper):
    client = KazooClient(hosts=zookeeper.hosts)
    client.start()
    assert client.create("/a", b"1") == "/a"
"""
IMPORT_ALONE = """\
import kazoo.client
def test_nothing():
    pass
"""


@click.command()
@click.option("--rounds", default=9, show_default=True, type=click.IntRange(min=1))
@click.option("--pure", is_flag=True, help="The wheel without compiled modules.")
def main(rounds: int, pure: bool) -> None:
    """Measure, and print medians with their spread."""
    with tempfile.TemporaryDirectory(prefix="bench-testing-") as name:
        folder = Path(name)
        click.echo("making a fresh environment", err=True)
        python = make_environment(folder, "triokeeper", "kazoo", "pytest", is_pure=pure)
        version = run(python, folder, "-m", "triokeeper", "--version").strip()
        measures: dict[str, Callable[[], float]] = {
            "import to a server that is ready": lambda: float(run(python, folder, "-c", START)),
            "whole run of pytest, five lines": lambda: seconds_of_pytest(python, folder, FIVE_LINES),
            "whole run of pytest without a server": lambda: seconds_of_pytest(python, folder, IMPORT_ALONE),
        }
        for measure in measures.values():
            measure()  # once for the byte code
        taken: dict[str, list[float]] = {what: [] for what in measures}
        for _ in range(rounds):
            for what, measure in measures.items():
                taken[what].append(measure())
    click.echo(f"{version}, {rounds} rounds, medians (least to most)\n")
    for what, seconds in taken.items():
        spread = f"({min(seconds) * 1000:.0f} to {max(seconds) * 1000:.0f})"
        click.echo(f"{what:<38} {statistics.median(seconds) * 1000:5.0f} ms {spread}")


def seconds_of_pytest(python: Path, folder: Path, test: str) -> float:
    (folder / "test_it.py").write_text(test)
    started = time.perf_counter()
    run(python, folder, "-m", "pytest", "-q", "test_it.py")
    return time.perf_counter() - started


def run(python: Path, folder: Path, *arguments: str) -> str:
    done = subprocess.run([python, *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise click.ClickException(f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
