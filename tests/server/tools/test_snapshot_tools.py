"""zkSnapShotToolkit.sh, zkSnapshotComparer.sh and zkSnapshotRecursiveSummaryToolkit.sh on small snapshots.

That their output is Apache's is shown by compat-tests/tools; here is what each part of it means.
"""

import gzip
import io
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from jute.java_hash_order import hash_order, string_hash
from persistence.snapshot_compression import SNAPPY_MAGIC
from server.tools import snapshot_comparer, snapshot_summary, snapshot_toolkit
from tests.server.tools.snapshot_files import ALWAYS, write_snapshot

Tool = Callable[[Sequence[str], Mapping[str, str]], int]
SESSION = 0x100000E21370000


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    nodes = {"/a": b"hello", "/a/b": None, "/a/b/c": b"xyz", "/e": b'"\\\x01', "/ä": b"1"}
    return write_snapshot(tmp_path / "snapshot.7", nodes, {SESSION: 20_000}, {"/e": SESSION})


def run(capsys: pytest.CaptureFixture[str], tool: Tool, *arguments: object) -> tuple[int, str, str]:
    code = tool([str(argument) for argument in arguments], {})
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# -- zkSnapShotToolkit.sh


def test_a_node_with_all_its_fields(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, snapshot_toolkit.main, snapshot)

    blocks = out.split("----\n")
    assert blocks[0] == "ZNode Details (count=10):\n"
    assert "/a\n" in out
    assert blocks[[block.split("\n")[0] for block in blocks].index("/e")] == (
        "/e\n"
        "  cZxid = 0x00000000000007\n"
        "  ctime = Sun Nov 15 23:20:08 UTC 2026\n"
        "  mZxid = 0x00000000000007\n"
        "  mtime = Sun Nov 15 23:20:08 UTC 2026\n"
        "  pZxid = 0x00000000000007\n"
        "  cversion = 2\n"
        "  dataVersion = 1\n"
        "  aclVersion = 3\n"
        "  ephemeralOwner = 0x100000e21370000\n"
        "  dataLength = 3\n"
    )
    assert blocks[-2:] == [
        "Session Details (sid, timeout, ephemeralCount):\n0x100000e21370000, 20000, 1\n",
        "Last zxid: 0x8\n",
    ]
    assert code == 0


def test_a_node_comes_before_its_children_which_are_in_javas_order(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, snapshot_toolkit.main, snapshot)

    paths = [line for line in out.splitlines() if line.startswith("/")]
    assert paths[0] == "/"
    assert paths[paths.index("/a") :][:3] == ["/a", "/a/b", "/a/b/c"]
    top = [path[1:] for path in paths if path.count("/") == 1 and path != "/"]
    assert top == hash_order(["zookeeper", "a", "e", "ä"], string_hash, 8)


def test_the_last_zxid_may_be_that_of_the_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, snapshot_toolkit.main, write_snapshot(tmp_path / "snapshot.ff", {}))

    assert out.endswith("----\nLast zxid: 0xff\n")


def test_a_time_that_is_no_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(
        capsys, snapshot_toolkit.main, write_snapshot(tmp_path / "snapshot.1", {}, time_ms=1 << 62)
    )

    assert f"  ctime = {1 << 62}ms\n" in out


def test_a_library_that_is_not_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    packed = tmp_path / "snapshot.1.snappy"
    packed.write_bytes(SNAPPY_MAGIC + bytes(100))

    code, _, err = run(capsys, snapshot_toolkit.main, packed)

    assert code == 1
    assert err.startswith(f"{packed}: snappy snapshots need the cramjam library")


def test_data_is_shown_as_base64(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, snapshot_toolkit.main, "-d", snapshot)

    assert re.findall("data = (.+)", out) == ["aGVsbG8=", "eHl6", "MQ==", "IlwB"]
    assert "dataLength" not in out


def test_json_is_for_ncdu(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, snapshot_toolkit.main, "-json", snapshot)

    major, minor, about, tree = json.loads(out)
    assert (major, minor, about["progname"]) == (1, 0, "SnapshotFormatter.java")
    assert not out.endswith("\n")
    assert tree[0] == {"name": "/", "asize": 0, "dsize": 0, "dev": 0, "ino": 1001}
    (with_children,) = (part for part in tree if isinstance(part, list) and part[0]["name"] == "a")
    assert [part["asize"] for part in (with_children[0], *with_children[1])] == [5, 0, 3]
    inodes = sorted(int(number) for number in re.findall(r'"ino":(\d+)', out))
    assert inodes == list(range(1001, 1001 + len(ALWAYS) + 5))


def test_names_are_escaped_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(
        capsys, snapshot_toolkit.main, "-json", write_snapshot(tmp_path / "snapshot.1", {'/"\\\n\x1f日': b""})
    )

    assert r'"name":"\"\\\n\u001F日"' in out


def test_quotas_are_counted_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A snapshot may hold a usage from before its last nodes: loading it counts, in Apache's tool too."""
    quota = "/zookeeper/quota/a"
    nodes = {"/a": b"12345", "/a/b": b"", quota: b""}
    nodes |= {f"{quota}/zookeeper_limits": b"count=9,bytes=9", f"{quota}/zookeeper_stats": b""}

    _, out, _ = run(capsys, snapshot_toolkit.main, write_snapshot(tmp_path / "snapshot.1", nodes))

    stats = out.partition("zookeeper_stats\n")[2]
    assert re.search(r"dataLength = (\d+)", stats)[1] == str(len("count=2,bytes=5"))  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "USAGE: SnapshotFormatter [-d|-json] snapshot_file\n"),
        (["-d"], "USAGE: SnapshotFormatter [-d|-json] snapshot_file\n"),
        (["a", "b"], "USAGE: SnapshotFormatter [-d|-json] snapshot_file\n"),
        (["{home}/none"], "File '{home}/none' does not exist.\n"),
        (["{home}"], "'{home}' is a directory. it must be a file.\n"),
        (["-d", "-json", "{home}/snapshot.7"], "Cannot specify both data dump (-d) and json mode (-json)"),
    ],
)
def test_arguments_that_make_no_sense(
    snapshot: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    home = str(snapshot.parent)
    code, out, err = run(capsys, snapshot_toolkit.main, *(word.format(home=home) for word in arguments))

    assert (code, out) == (2, "")
    assert err.startswith(said.format(home=home))


@pytest.mark.parametrize("tool", [(snapshot_toolkit.main, []), (snapshot_summary.main, ["/", "0"])])
def test_a_damaged_snapshot(
    snapshot: Path, capsys: pytest.CaptureFixture[str], tool: tuple[Tool, list[str]]
) -> None:
    snapshot.write_bytes(snapshot.read_bytes()[:300])

    code, out, err = run(capsys, tool[0], snapshot, *tool[1])

    assert (code, out) == (1, "")
    assert err.startswith(f"{snapshot}: the file ends too early")


def test_a_packed_snapshot_is_unpacked(
    tmp_path: Path, snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = tmp_path / "snapshot.7.gz"
    packed.write_bytes(gzip.compress(snapshot.read_bytes()))

    assert run(capsys, snapshot_toolkit.main, packed) == run(capsys, snapshot_toolkit.main, snapshot)


# -- zkSnapshotRecursiveSummaryToolkit.sh


def test_sums_of_nodes_and_data(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, snapshot_summary.main, snapshot, "/a", "0") == (
        0,
        " /a\n   children: 2\n   data: 8\n-- /a/b\n--   children: 1\n--   data: 3\n\n",
        "",
    )


def test_depth_bounds_what_is_printed_and_not_what_is_counted(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, snapshot_summary.main, snapshot, "/", "1")

    assert out.startswith(" /\n   children: 8\n   data: 12\n")
    assert "-- /a\n--   children: 2\n--   data: 8\n" in out
    assert "/a/b" not in out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "USAGE:\n\n\nSnapshotRecursiveSummary "),
        (["{file}", "/"], 2, "USAGE:"),
        (["{file}", "/", "all"], 2, "USAGE:"),
        (["{file}", "/nope", "1"], 1, "/nope is not in {file}; name a node of the snapshot\n"),
        (["nothing", "/", "1"], 1, "nothing (No such file or directory)\n"),
    ],
)
def test_summaries_that_cannot_be(
    snapshot: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    given = [word.format(file=snapshot) for word in arguments]
    ended, out, err = run(capsys, snapshot_summary.main, *given)

    assert (ended, out) == (code, "")
    assert err.startswith(said.format(file=snapshot))


# -- zkSnapshotComparer.sh


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Without /e and /ä, with /a/b2, and with more below /a/b."""
    nodes = {"/a": b"hello", "/a/b": b"", "/a/b/c": b"xyz" * 5, "/a/b2": b"new", "/a/b2/x": b"", "/q": b""}
    return write_snapshot(tmp_path / "snapshot.9", nodes)


def compare(
    capsys: pytest.CaptureFixture[str], left: Path, right: Path, *options: str
) -> tuple[int, list[str], str]:
    arguments = ["-l", left, "-r", right, "-b", "1", "-n", "0", *options]
    code, out, err = run(capsys, snapshot_comparer.main, *arguments)
    return code, re.sub(r"\d+\.\d{6} seconds", "N seconds", out).splitlines(), err


HEADS = [
    "Successfully parsed options!",
    "Deserialized snapshot in snapshot.7 in N seconds",
    "Processed data tree in N seconds",
    "Deserialized snapshot in snapshot.9 in N seconds",
    "Processed data tree in N seconds",
    "Node count: 9",
    "Total size: 12",
    "Max depth: 4",
    "Count of nodes at depth 0: 1",
    "Count of nodes at depth 1: 4",
    "Count of nodes at depth 2: 3",
    "Count of nodes at depth 3: 1",
    "",
    "Node count: 10",
    "Total size: 23",
    "Max depth: 4",
    "Count of nodes at depth 0: 1",
    "Count of nodes at depth 1: 3",
    "Count of nodes at depth 2: 4",
    "Count of nodes at depth 3: 2",
    "",
]
THRESHOLDS = (
    "Printing analysis for nodes difference larger than 1 bytes or node count difference larger than 0."
)


def test_two_snapshots_level_by_level(
    snapshot: Path, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines, _ = compare(capsys, snapshot, other)

    assert lines == [
        *HEADS,
        THRESHOLDS,
        "Analysis for depth 0",
        "Node  found in both trees. Delta: 11 bytes, 1 descendants",
        "Analysis for depth 1",
        "Node /a found in both trees. Delta: 15 bytes, 2 descendants",
        "Node /e found only in left tree. Descendant size: 3. Descendant count: 0",
        "Analysis for depth 2",
        "Node /a/b found in both trees. Delta: 12 bytes, 0 descendants",
        "Node /a/b2 found only in right tree. Descendant size: 3. Descendant count: 1",
        "Analysis for depth 3",
        "Node /a/b/c found in both trees. Delta: 12 bytes, 0 descendants",
        "All layers compared.",
    ]
    assert code == 0


def test_debugging_shows_every_comparison(
    snapshot: Path, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, lines, _ = compare(capsys, snapshot, other, "-d")

    first = lines.index("Analysis for depth 1") + 1
    assert lines[first : lines.index("Analysis for depth 2")] == [
        "Comparing /a to /a",
        "same",
        "Node /a found in both trees. Delta: 15 bytes, 2 descendants",
        "Comparing /e to /q",
        "left is less",
        "Node /e found only in left tree. Descendant size: 3. Descendant count: 0",
        "Comparing /zookeeper to /q",
        "right is less",
        "Filtered right node /q of size 0",
        "Comparing /zookeeper to /zookeeper",
        "same",
        "Filtered node /zookeeper of left size 0, right size 0",
        "Filtered left node /ä of size 1",
    ]


def test_labels_are_compared_as_java_compares_strings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By 16-bit units: U+FF21 comes behind the surrogates of U+1F600."""
    left = write_snapshot(tmp_path / "snapshot.1", {"/\uff21": b"12"})
    right = write_snapshot(tmp_path / "snapshot.2", {"/\U0001f600": b"12"})

    _, lines, _ = compare(capsys, left, right, "-d")

    assert lines[lines.index("Comparing /\uff21 to /\U0001f600") + 1] == "right is less"


def test_a_conversation(
    snapshot: Path, other: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enter goes on to the next level, a number jumps there, a path shows a node's children."""
    monkeypatch.setattr("sys.stdin", io.StringIO("3\n/a\n/none\nwhat\n9\n\n"))
    code, lines, _ = compare(capsys, snapshot, other, "-i")

    prompt = snapshot_comparer.PROMPT.splitlines()
    assert code == 0
    assert lines[len(HEADS) :] == [
        *("Current depth is 0", *prompt, THRESHOLDS, "Analysis for depth 3"),
        "Node /a/b/c found in both trees. Delta: 12 bytes, 0 descendants",
        *("Filtered right node /a/b2/x of size 0", ""),
        *("Current depth is 3", *prompt, THRESHOLDS, "Analysis for node /a"),
        "Node /a/b found in both trees. Delta: 12 bytes, 0 descendants",
        "Node /a/b2 found only in right tree. Descendant size: 3. Descendant count: 1",
        "",
        *("Current depth is 3", *prompt, THRESHOLDS, "Analysis for node /none"),
        *("Path /none is neither found in left tree nor right tree.", ""),
        *("Current depth is 3", *prompt, THRESHOLDS),
        "Input what is not valid. Depth must be in range [0, 3]. "
        "Path must be an absolute path which starts with '/'.",
        "",
        *("Current depth is 3", *prompt, THRESHOLDS, "Depth must be in range [0, 3]"),
        *("Current depth is 3", *prompt, THRESHOLDS, "Analysis for depth 3"),
        "Node /a/b/c found in both trees. Delta: 12 bytes, 0 descendants",
        *("Filtered right node /a/b2/x of size 0", "", "All layers compared."),
    ]


def test_a_conversation_that_ends_early(
    snapshot: Path, other: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    code, _, err = compare(capsys, snapshot, other, "-i")

    assert (code, err) == (1, "The input ended before all levels were compared\n")


def test_comparisons_that_cannot_be(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, snapshot_comparer.main, "-l", "x")
    assert (code, err) == (2, "Missing required options: r, b, n\n")
    assert out.startswith(
        "usage: java -cp <classPath> org.apache.zookeeper.server.SnapshotComparer\n -b,--bytes"
    )
    code, lines, err = compare(capsys, snapshot, Path("none"))
    assert (code, lines[-1]) == (1, "Processed data tree in N seconds")
    assert err == "none (No such file or directory)\n"
    arguments = ["-l", snapshot, "-r", snapshot, "-b", "1k", "-n", "1"]
    assert run(capsys, snapshot_comparer.main, *arguments) == (
        1,
        "",
        "-b 1k -n 1: both must be whole numbers\n",
    )
