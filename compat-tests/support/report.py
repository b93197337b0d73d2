"""What passed on which server: a table for people, and the same for programs.

    report.txt    the table that a run prints
    report.html   the same, with every skipped and failed test and its reason
    report.json   the same, for programs
    junit.xml     is pytest's own (`--junitxml`)

A row is a feature of one client or one folder of tests, a column a server. A test that takes a target counts
for that target. One that compares both servers counts for both, one that is about Triokeeper alone for it,
and one that looks at the tests themselves (the mark `self_check`) for none. A test that runs somebody's own
suite records the property `tests`: how many of theirs have passed.

`write_rows` puts the counts into docs/COMPATIBILITY.md, so that nothing there is typed by hand: a run
replaces the rows of those folders of which it ran all tests to their end, and leaves the others as an earlier
run wrote them. So a run that is interrupted, or of a few tests, claims nothing.
"""

import datetime
import html
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import attrs
import pytest

from support.targets import Target, TargetUnavailable

Outcome: TypeAlias = Literal["passed", "failed", "skipped"]
COMPAT_TESTS: Final = Path(__file__).resolve().parents[1]
COMPARED: Final = ("triokeeper", "reference")
MARKS: Final[dict[Outcome, str]] = {"passed": "ok", "failed": "FAILED", "skipped": "-"}
SEVERITY: Final[tuple[Outcome | None, ...]] = (
    "failed",
    "passed",
    "skipped",
    None,
)  # what a row shows of several
BEGIN: Final = "<!-- written by make compat and make compat-apps: begin -->"
END: Final = "<!-- written by make compat and make compat-apps: end -->"


@attrs.frozen
class Result:
    """One test on one server."""

    suite: str  # the client, or the folder
    feature: str
    target: str
    outcome: Outcome
    reason: str = ""
    tests: int = 0  # of somebody's own suite, that it stands for
    folder: str = ""  # below compat-tests/


@attrs.define(eq=False)
class Report:
    """A pytest plug-in that collects the results of a run and writes them down at its end."""

    folder: Path
    targets: Sequence[Target]
    docs: Path | None = None
    tests: Path = COMPAT_TESTS
    results: list[Result] = attrs.field(factory=list)
    _places: dict[str, tuple[str, str, tuple[str, ...]]] = attrs.field(factory=dict)
    _partial: set[str] = attrs.field(factory=set)  # folders of which something was left out
    _left: dict[str, str] = attrs.field(factory=dict)  # tests that have not ended, with their folders

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self._partial |= {self._folder_of(item.path) for item in items if self.tests in item.path.parents}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        files = {item.path for item in session.items}
        for item in session.items:
            if self.tests in item.path.parents and not item.get_closest_marker("self_check"):
                folder = self._folder_of(item.path)
                self._places[item.nodeid] = (folder, *self._feature_of(item))
                self._left[item.nodeid] = folder
        self._partial |= {
            self._folder_of(path) for path in self.tests.rglob("test_*.py") if path not in files
        }

    def _folder_of(self, path: Path) -> str:
        parts = path.relative_to(self.tests).parts
        return "/".join(parts[:2]) if parts[0] in ("clients", "apps") and len(parts) > 2 else parts[0]

    def complete_folders(self) -> set[str]:
        """Those of which this run has run every test."""
        folders = {folder for folder, *_ in self._places.values()}
        return folders - self._partial - set(self._left.values())

    def _feature_of(self, item: pytest.Item) -> tuple[str, tuple[str, ...]]:
        name = str(getattr(item, "originalname", item.name)).removeprefix("test_").replace("_", " ")
        callspec = getattr(item, "callspec", None)
        if callspec is None:
            own, ids = None, []
        else:
            own, ids = callspec.params.get("target"), [str(each) for each in callspec._idlist]
        kind = callspec.params.get("kind") if callspec is not None else None
        for alone in (own and own.name, kind):
            if alone in ids:
                ids.remove(alone)
        feature = ", ".join([name, *ids])
        if own is not None:
            return feature, (own.name,)
        if kind in COMPARED:
            return feature, (kind,)
        if all(target.kind is None for target in self.targets):
            return feature, tuple(target.name for target in self.targets)  # it is skipped
        return feature, COMPARED[:1] if item.get_closest_marker("triokeeper_alone") else COMPARED

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.nodeid not in self._places:
            return
        if report.when == "teardown":
            self._left.pop(report.nodeid, None)
        if report.when != "call" and report.passed:
            return
        folder, feature, targets = self._places[report.nodeid]
        told = dict(report.user_properties)
        client, tests = str(told.get("client") or folder), int(str(told.get("tests") or 0))
        reason = _reason_of(report)
        for target in targets:
            self.results.append(Result(client, feature, target, report.outcome, reason, tests, folder))

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        columns = list(dict.fromkeys(result.target for result in self.results))
        lines = [*table(self.results, columns), "", counts(self.results)]
        (self.folder / "report.txt").write_text("\n".join(lines) + "\n")
        (self.folder / "report.json").write_text(json.dumps(self.as_data(), indent=1) + "\n")
        (self.folder / "report.html").write_text(page(self.results, columns, self.titles()))
        if self.docs is not None and all(map(_is_available, self.targets)):
            folders = self.complete_folders()
            write_rows(self.docs, [each for each in self.results if each.folder in folders], self.titles())
        print("", *lines, sep="\n", flush=True)

    def titles(self) -> dict[str, str]:
        """The servers of this run, with their versions."""
        found = {}
        for target in self.targets:
            try:
                found[target.name] = target.title()
            except TargetUnavailable as reason:
                found[target.name] = f"{target.name}: {reason}"
        return found

    def as_data(self) -> dict[str, object]:
        return {
            "date": _today(),
            "servers": self.titles(),
            "results": [attrs.asdict(result) for result in self.results],
        }


def _is_available(target: Target) -> bool:
    try:
        target.title()
    except TargetUnavailable:
        return False
    return True


def _reason_of(report: pytest.TestReport) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return report.longreprtext.strip().rpartition("\n")[2] if report.failed else ""


# -- what people read


def counts(results: Sequence[Result]) -> str:
    """The last line of a run."""
    number = {outcome: sum(result.outcome == outcome for result in results) for outcome in get_args(Outcome)}
    return f"{number['passed']} passed, {number['failed']} failed, {number['skipped']} skipped"


def rows(results: Sequence[Result], columns: Sequence[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Suite, feature, and a word for each column."""
    features = sorted({(result.suite, result.feature) for result in results})
    found: dict[tuple[str, str, str], Outcome] = {}
    for each in results:  # of several tests of one name, the worst is shown
        key = (each.suite, each.feature, each.target)
        found[key] = min(each.outcome, found.get(key, each.outcome), key=SEVERITY.index)
    for suite, feature in features:
        outcomes = [found.get((suite, feature, column)) for column in columns]
        yield suite, feature, [MARKS[outcome] if outcome else "" for outcome in outcomes]


def table(results: Sequence[Result], columns: Sequence[str]) -> list[str]:
    head = ("client or folder", "feature", list(columns))
    body = [head, *rows(results, columns)]
    widths = [max(len(row[at]) for row in body) for at in (0, 1)]
    return [
        f"{suite:{widths[0]}}  {feature:{widths[1]}}  "
        + "  ".join(f"{mark:{len(column)}}" for mark, column in zip(marks, columns, strict=True)).rstrip()
        for suite, feature, marks in body
    ]


def page(results: Sequence[Result], columns: Sequence[str], titles: dict[str, str]) -> str:
    """One HTML file, without anything from elsewhere."""
    cell = html.escape
    lines = [
        "<!doctype html><meta charset=utf-8><title>Compatibility</title>",
        "<style>body{font:15px sans-serif;margin:2em}td,th{padding:.2em .8em;text-align:left}"
        "td.ok{color:#075}td.FAILED{color:#b00;font-weight:bold}tr:nth-child(even){background:#f4f4f4}</style>",
        f"<h1>Compatibility</h1><p>{cell(', '.join(titles.values()))}. {counts(results)}.",
        "<table><tr><th>client or folder<th>feature" + "".join(f"<th>{cell(column)}" for column in columns),
    ]
    lines += [
        f"<tr><td>{cell(suite)}<td>{cell(feature)}" + "".join(f'<td class="{mark}">{mark}' for mark in marks)
        for suite, feature, marks in rows(results, columns)
    ]
    lines.append("</table><h2>Skipped and failed</h2><ul>")
    lines += [
        f"<li>{cell(result.suite)}, {cell(result.feature)}, {cell(result.target)}: "
        f"{result.outcome}: {cell(result.reason)}"
        for result in results
        if result.outcome != "passed"
    ]
    return "\n".join([*lines, "</ul>", ""])


# -- docs/COMPATIBILITY.md


def write_rows(document: Path, results: Sequence[Result], titles: dict[str, str], date: str = "") -> None:
    """Replace the rows of the folders that the results are of, in the table between the two marks."""
    text = document.read_text()
    before, _, rest = text.partition(BEGIN)
    table, end, after = rest.partition(END)
    assert end, f"{document} has the marks {BEGIN} and {END}"
    columns = [titles[column] for column in COMPARED]
    head = _row("client or tests", "in `compat-tests/`", *columns, "run on")
    kept = [line for line in table.splitlines() if line.startswith("| ")] if head in table else []
    replaced = {f"| `{result.folder}` |" for result in results}
    kept = [line for line in kept[1:] if not any(folder in line for folder in replaced)]
    rows = sorted([*kept, *_rows_of(results, date or _today())], key=_by_folder)
    lines = [BEGIN, f"{_sum_of(rows)}.", "", head, "|---" * (3 + len(columns)) + "|", *rows, END]
    document.write_text(before + "\n".join(lines) + after)


def _rows_of(results: Sequence[Result], date: str) -> Iterator[str]:
    """How many features of each client, on each server."""
    for folder, suite in {(result.folder, result.suite): None for result in results}:
        own = [each for each in results if (each.folder, each.suite) == (folder, suite)]
        cells = [_cell([each for each in own if each.target == column]) for column in COMPARED]
        yield _row(suite, f"`{folder}`", *cells, date)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _by_folder(row: str) -> tuple[str, str]:
    suite, folder = row.split("|")[1:3]
    return folder, suite


def _sum_of(rows: Sequence[str]) -> str:
    counted = {
        each: sum(map(int, re.findall(rf"(\d+) {each}\b", "\n".join(rows)))) for each in get_args(Outcome)
    }
    return ", ".join(f"{number} {outcome}" for outcome, number in counted.items())


def _cell(results: Sequence[Result]) -> str:
    numbers = {outcome: sum(r.outcome == outcome for r in results) for outcome in get_args(Outcome)}
    cell = ", ".join(f"{number} {outcome}" for outcome, number in numbers.items() if number)
    tests = sum(result.tests for result in results)
    return f"{cell} ({tests} tests of its own)" if tests else cell


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()
