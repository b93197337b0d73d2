"""compat-tests/ sees a server from outside only, so whatever it asks of Triokeeper it can ask of Apache's."""

import ast
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
OURS = {
    "bench",
    "client",
    "eventlog",
    "jute",
    "persistence",
    "quorum",
    "server",
    "testing",
    "tests",
    "triokeeper",
}


def imported_by(file: Path) -> Iterator[str]:
    """The top-level packages that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_compat_tests_import_nothing_of_the_product() -> None:
    files = list((CHECKOUT / "compat-tests").rglob("*.py"))
    assert files
    assert {str(file): found for file in files if (found := OURS.intersection(imported_by(file)))} == {}


def test_every_folder_says_what_it_proves() -> None:
    """A README in each, so that a reader need not open the code to find a test."""
    folders = [path for path in (CHECKOUT / "compat-tests").iterdir() if any(path.glob("**/*.py"))]
    assert folders
    assert [folder.name for folder in folders if not (folder / "README.md").exists()] == []
