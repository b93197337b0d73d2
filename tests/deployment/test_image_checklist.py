"""The checklist of the image, in compat-tests/docker/README.md: every row has its tests, or waits."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "compat-tests" / "docker"
LAST_ROW = 61
WAITING = "not there yet"
# The AdminServer, Prometheus, TLS, SASL, the audit log and the configuration of logging.
MAY_WAIT = {*range(26, 35), 40, *range(48, 55)}


def table() -> Iterator[tuple[set[int], str]]:
    """The rows of each line, and its last column."""
    for line in (FOLDER / "README.md").read_text().splitlines():
        if found := re.fullmatch(r"\| (\d[\d, to]*) \| .+ \| (.+) \|", line):
            yield numbers(found[1]), found[2]


def numbers(text: str) -> set[int]:
    """`26 to 32`, `9, 10` or `1`."""
    first, is_range, last = text.partition(" to ")
    return set(range(int(first), int(last) + 1)) if is_range else {int(each) for each in text.split(", ")}


def named_tests(column: str) -> Iterator[tuple[str, str]]:
    """Each test with its file; a file's name counts until the next one."""
    file = ""
    for name in re.findall(r"`([^`]+)`", column):
        if name.endswith(".py"):
            file = name
        else:
            yield file, name


def written_in(file: str) -> set[str]:
    tree = ast.parse((FOLDER / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def rows_in_name(test: str) -> set[int]:
    found = re.match(r"test_rows?_((?:\d+_|and_|to_)+)", test)
    words = found[1].strip("_").replace("_and_", "_").replace("_to_", "_to ").split("_") if found else []
    rows: set[int] = set()
    for word in words:
        if word.startswith("to "):
            rows |= set(range(max(rows), int(word.removeprefix("to ")) + 1))
        else:
            rows.add(int(word))
    return rows


def test_every_row_is_there_once() -> None:
    listed = [row for rows, _ in table() for row in sorted(rows)]

    assert listed == list(range(1, LAST_ROW + 1))


def test_only_rows_of_what_is_not_served_wait() -> None:
    assert {row for rows, column in table() if column == WAITING for row in rows} == MAY_WAIT


def test_every_other_row_names_tests_that_are_there_and_are_named_after_it() -> None:
    for rows, column in table():
        if column == WAITING:
            continue
        tests = list(named_tests(column))
        assert [name for file, name in tests if name not in written_in(file)] == []
        assert rows <= {row for _, name in tests for row in rows_in_name(name)}, rows


def test_every_test_named_after_a_row_is_in_the_table() -> None:
    listed = {name for _, column in table() for _, name in named_tests(column)}
    written = {
        name for file in FOLDER.glob("test_*.py") for name in written_in(file.name) if rows_in_name(name)
    }

    assert written - listed == set()
