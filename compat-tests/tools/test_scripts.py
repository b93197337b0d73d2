"""ZooKeeper's scripts without Java say what Apache's say, to the same streams, with the same exit codes.

The shell scripts are held against recordings, the tools behind them against Apache's own classes on the same
files: those that this server wrote and those that Apache's wrote.
"""

import os
import shutil
from pathlib import Path

import attrs
import pytest

from support.reference import ReferenceUnavailable, find_reference
from support.servers import Kind
from tools.installed_scripts import install_scripts
from tools.script_recordings import RECORDINGS, Scenario, read_scenarios
from tools.script_tools import (
    assert_same,
    contents,
    copied,
    run_apaches,
    run_ours,
    write_damaged_files,
    write_data,
)

SCENARIOS = read_scenarios(RECORDINGS.read_text())
APACHE_HOME = os.environ.get("APACHE_ZOOKEEPER_HOME")
RELEASE_NEEDED = (
    pytest.mark.long,
    pytest.mark.skipif(
        APACHE_HOME is None,
        reason="Apache's shell scripts are in its release archive alone: "
        "unpack one and let APACHE_ZOOKEEPER_HOME name the folder",
    ),
)
KINDS: list[Kind] = ["reference", "triokeeper"]

LOG, SNAPSHOT, COMPARER, SUMMARY = (
    "zkTxnLogToolkit.sh",
    "zkSnapShotToolkit.sh",
    "zkSnapshotComparer.sh",
    "zkSnapshotRecursiveSummaryToolkit.sh",
)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with our scripts."""
    return install_scripts(tmp_path_factory.mktemp("scripts"))


@pytest.mark.parametrize("kind", ["triokeeper", pytest.param("reference", marks=RELEASE_NEEDED)])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_script_says_what_was_recorded(scenario: Scenario, kind: Kind, scripts: Path, tmp_path: Path) -> None:
    """Recorded from Apache's scripts; where a release is at hand, they still say it."""
    scenario.check(scripts if kind == "triokeeper" else Path(APACHE_HOME or "") / "bin", tmp_path)


@attrs.frozen
class Workplace:
    """A folder for each side with the same files: what both servers wrote, and damaged copies of it.

    The file names in arguments may be patterns; all cases work in the same two folders, one after the other.
    """

    scripts: Path
    ours: Path
    apaches: Path

    def check(self, script: str, arguments: list[str], typed: str = "") -> None:
        """Run a tool on both sides, and compare what it says and what it leaves behind."""
        named = [self._resolved(argument) for argument in arguments]
        ours = run_ours(self.scripts, script, named, self.ours, typed)
        assert_same(ours, run_apaches(script, named, self.apaches, typed))
        assert contents(self.ours) == contents(self.apaches)

    def _resolved(self, argument: str) -> str:
        """The largest file that matches, in place of a pattern, which may stand behind an option."""
        option, equals, pattern = argument.rpartition("=")
        if "*" not in pattern:
            return argument
        largest = max(self.ours.glob(pattern), key=lambda file: file.stat().st_size)
        return f"{option}{equals}{largest.relative_to(self.ours)}"


@pytest.fixture(scope="module")
def workplace(scripts: Path, tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    try:
        find_reference()
    except ReferenceUnavailable as unavailable:
        pytest.skip(str(unavailable))
    folder = tmp_path_factory.mktemp("workplace")
    for kind in KINDS:
        (folder / "ours" / kind).mkdir(parents=True)
        write_data(kind, folder / "ours" / kind)
    files = folder / "ours" / "reference" / "version-2"
    write_damaged_files(folder / "ours" / "damaged", files / "log.1", files / "snapshot.0")
    return Workplace(scripts, folder / "ours", copied(folder / "ours", folder / "apaches"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        (LOG, ["{kind}/version-2/log.1"]),
        (SNAPSHOT, ["-d", "{kind}/version-2/snapshot.*"]),
        (COMPARER, ["-l", "{kind}/version-2/snapshot.0", "-r", "{kind}/version-2/snapshot.*", "-b1", "-n1"]),
        (SUMMARY, ["{kind}/version-2/snapshot.*", "/", "0"]),
    ],
)
def test_tool_on_files_of_either_server(
    workplace: Workplace, kind: Kind, script: str, arguments: list[str]
) -> None:
    workplace.check(script, [argument.format(kind=kind) for argument in arguments])


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("script", "arguments", "typed"),
    [
        (LOG, ["--dump", "{kind}/version-2/log.*"], ""),
        (LOG, ["-r", "{kind}/version-2/log.1"], ""),
        (LOG, ["-c", "-z", "0x20", "{kind}/version-2/log.1"], ""),
        (LOG, ["--chop", "--zxid=9999", "{kind}/version-2/log.1"], ""),
        (SNAPSHOT, ["{kind}/version-2/snapshot.*"], ""),
        (SNAPSHOT, ["-json", "{kind}/version-2/snapshot.*"], ""),
        (SUMMARY, ["{kind}/version-2/snapshot.*", "/exchange", "1"], ""),
        (SUMMARY, ["{kind}/version-2/snapshot.*", "/", "2"], ""),
        (
            COMPARER,
            ["-d", "--left={kind}/version-2/snapshot.*", "-r{kind}/version-2/snapshot.0", "-b=1", "-n1"],
            "",
        ),
        (
            COMPARER,
            ["-i", "-l", "{kind}/version-2/snapshot.0", "-r", "{kind}/version-2/snapshot.*", "-b1", "-n1"],
            "\n2\n/exchange\n/nope\nxyz\n99\n-1\n\n\n\n\n\n\n\n",
        ),
    ],
)
def test_tool_with_other_options(
    workplace: Workplace, kind: Kind, script: str, arguments: list[str], typed: str
) -> None:
    workplace.check(script, [argument.format(kind=kind) for argument in arguments], typed)


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "arguments", "typed"),
    [
        (LOG, [], ""),
        (LOG, ["-h"], ""),
        (LOG, ["-x", "damaged/log.gap"], ""),
        (LOG, ["-c", "-z"], ""),
        (LOG, ["-c", "-z", "zz", "damaged/log.gap"], ""),
        (LOG, ["-vrq", "damaged/log.gap"], ""),
        (LOG, ["--ver", "damaged/log.gap"], ""),
        (LOG, ["-zx"], ""),
        (LOG, ["--chop=1"], ""),
        (LOG, ["nothing"], ""),
        (LOG, ["damaged"], ""),
        (LOG, ["damaged/snapshot.7"], ""),
        (LOG, ["damaged/log.bad-checksums"], ""),
        (LOG, ["damaged/log.bad-payload"], ""),
        (LOG, ["damaged/log.cut-in-entry"], ""),
        (LOG, ["damaged/log.cut-before-end-mark"], ""),
        (LOG, ["damaged/log.cut-after-entry"], ""),
        (LOG, ["damaged/log.no-end-mark"], ""),
        (LOG, ["damaged/log.long-entry"], ""),
        (LOG, ["damaged/log.header-only"], ""),
        (LOG, ["damaged/log.cut-in-header"], ""),
        (LOG, ["-r", "-y", "damaged/log.bad-checksums"], ""),
        (LOG, ["-r", "damaged/log.bad-checksums"], ""),
        (LOG, ["-r", "-v", "damaged/log.bad-payload"], "what\nno\n"),
        (LOG, ["-r", "damaged/log.bad-payload.fixed"], "maybe yes\n"),
        (LOG, ["-r", "damaged/log.bad-checksums.fixed"], ""),
        (LOG, ["-c", "-z", "4", "damaged/log.gap"], ""),
        (LOG, ["-c", "-z", "010", "damaged/log.gap"], ""),
        (LOG, ["-c", "-z", "#9", "damaged/log.bad-payload"], ""),
        (LOG, ["-c", "-z", "9", "damaged/log.no-end-mark"], ""),
        (LOG, ["-c", "-z", "9", "damaged/log.cut-before-end-mark"], ""),
        (LOG, ["-c", "-z", "9", "damaged/snapshot.7"], ""),
        (LOG, ["-c", "damaged/log.cut-after-entry"], ""),
        (SNAPSHOT, [], ""),
        (SNAPSHOT, ["-d"], ""),
        (SNAPSHOT, ["-d", "-json", "damaged/snapshot.7"], ""),
        (SNAPSHOT, ["nothing"], ""),
        (SNAPSHOT, ["damaged"], ""),
        (SNAPSHOT, ["damaged/snapshot.7"], ""),
        (SNAPSHOT, ["damaged/snapshot.7", "damaged/snapshot.7"], ""),
        (SNAPSHOT, ["damaged/snapshot.other"], ""),
        (SNAPSHOT, ["damaged/not-a-snapshot"], ""),
        (SNAPSHOT, ["damaged/log.gap"], ""),
        (COMPARER, [], ""),
        (COMPARER, ["-l", "damaged/snapshot.7", "-r"], ""),
        (COMPARER, ["-l", "damaged/snapshot.7", "-r", "nothing", "-b", "1", "-n", "1"], ""),
        (COMPARER, ["-l", "damaged/snapshot.7", "-r", "damaged/snapshot.7", "-b", "x", "-n", "1"], ""),
        (
            COMPARER,
            ["-l", "damaged/snapshot.7", "-r", "damaged/snapshot.7", "-b", "1", "-n", "1", "-i"],
            "\n",
        ),
        (SUMMARY, [], ""),
        (SUMMARY, ["damaged/snapshot.7", "/", "x"], ""),
        (SUMMARY, ["damaged/snapshot.7", "/nope", "1"], ""),
        (SUMMARY, ["damaged/not-a-snapshot", "/", "1"], ""),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else None,
)
def test_tool_where_something_is_wrong(
    workplace: Workplace, script: str, arguments: list[str], typed: str
) -> None:
    workplace.check(script, arguments, typed)


def test_version_has_the_form_of_apaches(workplace: Workplace) -> None:
    """The number is the same, the date our own."""
    ours = run_ours(workplace.scripts, "zkServer.sh", ["version"], workplace.ours)
    apaches = run_apaches("zkServer.sh", [], workplace.apaches)

    assert (ours.out, ours.exit_code) == (apaches.out, apaches.exit_code)


def test_cleanup_removes_what_apache_removes(workplace: Workplace, tmp_path: Path) -> None:
    """Five snapshots, one of them incomplete: the three newest sound ones stay, and the logs they need."""
    data = tmp_path / "ours" / "data" / "version-2"
    data.mkdir(parents=True)
    files = workplace.ours / "reference" / "version-2"
    for name in ("snapshot.0", "snapshot.40", "snapshot.80", "snapshot.c0", "snapshot.100"):
        shutil.copy2(files / "snapshot.0", data / name)
    (data / "snapshot.100").write_bytes((files / "snapshot.0").read_bytes()[:-3])
    for name in ("log.1", "log.20", "log.41", "log.81"):
        shutil.copy2(files / "log.1", data / name)
    (tmp_path / "ours" / "conf").mkdir()
    (tmp_path / "ours" / "conf" / "zoo.cfg").write_text("dataDir=data\n")
    apaches_side = copied(tmp_path / "ours", tmp_path / "apaches")

    ours = run_ours(workplace.scripts, "zkCleanup.sh", ["-n", "3"], tmp_path / "ours")
    apaches = run_apaches("zkCleanup.sh", ["data", "-n", "3"], apaches_side)

    assert sorted(ours.out) == sorted(apaches.out)
    assert (ours.err, ours.exit_code) == (apaches.err, apaches.exit_code)
    assert {file.name for file in data.iterdir()} == {
        file.name for file in (apaches_side / "data" / "version-2").iterdir()
    }
