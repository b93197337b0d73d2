"""What `--server` may say, and the report of a run."""

from pathlib import Path

import attrs
import pytest

from support.report import BEGIN, END, Report, Result, counts, page, table, write_rows
from support.targets import Address, Containers, OwnServers, TargetUnavailable, parse_targets

RESULTS = [
    Result("Kazoo 2.11.0", "locks", "triokeeper", "passed", tests=12),
    Result("Kazoo 2.11.0", "locks", "reference", "passed"),
    Result("Kazoo 2.11.0", "TLS", "triokeeper", "failed", "no <TLS> yet"),
    Result("Kazoo 2.11.0", "TLS", "reference", "skipped", "no certificate"),
]


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("both", [OwnServers("triokeeper"), OwnServers("reference")]),
        ("reference", [OwnServers("reference")]),
        ("docker:zookeeper:3.9", [Containers("zookeeper:3.9")]),
        ("zk1:2181,zk2:2181", [Address("zk1:2181,zk2:2181")]),
        ("[::1]:2181", [Address("[::1]:2181")]),
    ],
)
def test_targets(text: str, targets: list[object]) -> None:
    assert parse_targets(text) == targets


@pytest.mark.parametrize("text", ["", "apache", "docker:", "zk1", "zk1:", ":2181", "zk1:2181,zk2"])
def test_what_is_no_target_is_refused_with_all_that_are(text: str) -> None:
    with pytest.raises(ValueError, match="is none of triokeeper, reference, both"):
        parse_targets(text)


def test_servers_of_somebody_else_are_not_restarted() -> None:
    with pytest.raises(TargetUnavailable, match="those at zk1:2181 are not its own"):
        Address("zk1:2181").restartable()


def test_a_run_ends_with_its_counts() -> None:
    assert counts(RESULTS) == "2 passed, 1 failed, 1 skipped"


def test_a_row_is_a_feature_and_a_column_a_server() -> None:
    assert table(RESULTS, ["triokeeper", "reference"]) == [
        "client or folder  feature  triokeeper  reference",
        "Kazoo 2.11.0      TLS      FAILED      -",
        "Kazoo 2.11.0      locks    ok          ok",
    ]


def test_the_page_gives_the_reason_of_every_test_that_did_not_pass() -> None:
    shown = page(RESULTS, ["triokeeper", "reference"], {"triokeeper": "Triokeeper"})
    assert "failed: no &lt;TLS&gt; yet" in shown
    assert "skipped: no certificate" in shown


def test_of_several_tests_of_one_name_the_worst_is_shown() -> None:
    twice = [Result("disk", "either", "triokeeper", outcome) for outcome in ("passed", "failed", "skipped")]
    for results in (twice, twice[::-1]):
        assert table(results, ["triokeeper"])[1].split() == ["disk", "either", "FAILED"]


# -- the table in docs/COMPATIBILITY.md

TITLES = {"triokeeper": "Triokeeper 1.0", "reference": "Apache ZooKeeper 3.9.5"}
QUIETLY = [
    "-q",
    "--import-mode=importlib",
    *(f"-pno:{name}" for name in ("cacheprovider", "timeout", "trio")),
]
HEAD = "| client or tests | in `compat-tests/` | Triokeeper 1.0 | Apache ZooKeeper 3.9.5 | run on |"


def document(folder: Path, *lines: str) -> Path:
    path = folder / "COMPATIBILITY.md"
    path.write_text("\n".join(["before", BEGIN, *lines, END, "after"]))
    return path


def test_the_document_gets_its_counts_from_the_run(tmp_path: Path) -> None:
    written = document(tmp_path)
    write_rows(written, [attrs.evolve(each, folder="clients/kazoo") for each in RESULTS], TITLES, "today")
    cells = "1 passed, 1 failed (12 tests of its own) | 1 passed, 1 skipped"
    row = f"| Kazoo 2.11.0 | `clients/kazoo` | {cells} | today |"
    assert written.read_text().splitlines() == [
        *("before", BEGIN, "2 passed, 1 failed, 1 skipped.", ""),
        *(HEAD, "|---|---|---|---|---|", row, END, "after"),
    ]


def test_rows_of_other_folders_stay_as_they_were(tmp_path: Path) -> None:
    old = "| disk | `disk` | 3 passed | 2 passed, 1 skipped | yesterday |"
    stale = "| Kazoo 2.10.0 | `clients/kazoo` | 9 passed | 9 passed | yesterday |"
    written = document(tmp_path, "", HEAD, "|---|---|---|---|---|", stale, old)
    write_rows(written, [attrs.evolve(each, folder="clients/kazoo") for each in RESULTS], TITLES, "today")
    text = written.read_text()
    assert old in text
    assert stale not in text
    assert "\n7 passed, 1 failed, 2 skipped.\n" in text


def test_rows_of_another_release_are_not_kept(tmp_path: Path) -> None:
    old = "| disk | `disk` | 3 passed | 2 passed, 1 skipped | yesterday |"
    written = document(tmp_path, HEAD.replace("3.9.5", "3.9.4"), old)
    write_rows(written, [], TITLES)
    assert old not in written.read_text()


@pytest.mark.parametrize(
    ("arguments", "complete"),
    [
        ([], ["clients/two", "disk"]),
        (["-k", "not second"], ["clients/two"]),
        (["compat-tests/disk/test_first.py"], []),
        (["compat-tests/disk"], ["disk"]),
        (["--maxfail=1"], ["clients/two"]),
    ],
)
def test_a_folder_counts_if_all_of_its_tests_were_run(
    arguments: list[str], complete: list[str], tmp_path: Path
) -> None:
    """A failed test has been run; what stood behind it in a run that was broken off has not."""
    for name, text in {
        "clients/two/test_client.py": "def test_client(): pass",
        "disk/test_first.py": "def test_first(): assert False",
        "disk/test_second.py": "def test_second(): pass",
    }.items():
        file = tmp_path / "compat-tests" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "compat-tests" / "disk" / "conftest.py").touch()  # as docker/ has one of its own
    report = Report(tmp_path / "report", parse_targets("both"), tests=tmp_path / "compat-tests")
    where = arguments if any("/" in each for each in arguments) else [*arguments, "compat-tests"]
    paths = [str(tmp_path / each) if "/" in each or each == "compat-tests" else each for each in where]
    pytest.main([*QUIETLY, "-c", str(tmp_path / "pytest.ini"), *paths], [report])
    assert sorted(report.complete_folders()) == complete
