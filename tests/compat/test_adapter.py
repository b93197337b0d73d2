"""What `--server` may say, and the report of a run."""

from pathlib import Path

import pytest

from support.report import MARK, Result, counts, page, table, write_tables
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


def test_the_document_gets_its_counts_from_the_run(tmp_path: Path) -> None:
    begin, end = (MARK.format(command="compat", end=each) for each in ("begin", "end"))
    document = tmp_path / "COMPATIBILITY.md"
    document.write_text(f"before\n{begin}\nyesterday\n{end}\nafter\n")
    write_tables(
        document, "compat", RESULTS, {"triokeeper": "Triokeeper", "reference": "Apache ZooKeeper 3.9.5"}
    )

    written = document.read_text()
    assert "yesterday" not in written
    assert "| client or folder | Triokeeper | Apache ZooKeeper 3.9.5 |" in written
    assert "| Kazoo 2.11.0 | 1 passed, 1 failed (12 tests of its own) | 1 passed, 1 skipped |" in written
    assert written.startswith(f"before\n{begin}\n2 passed, 1 failed, 1 skipped on ")
    assert written.endswith(f"{end}\nafter\n")
