"""Log lines: their shape, their level, and that no failure to write them reaches the server."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from server.logging_setup import choose_format, choose_level, configure_logging

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_plain_lines_have_the_shape_of_zookeepers_log(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("plain", my_id=3)

    structlog.get_logger().warning("session_expired", session="0x1", reason="no ping", tries=2)

    shape = (
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \[myid:3\] - WARN  \[main:test_logging_setup@\d+\] - "
        r"session_expired session=0x1 reason='no ping' tries=2\n"
    )
    assert re.fullmatch(shape, capsys.readouterr().out)


def test_no_text_from_outside_begins_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("plain")

    structlog.get_logger().info("a\n2026-01-01 forged", path="/b\nc")

    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert out.endswith("a\\n2026-01-01 forged path='/b\\nc'\n")


def test_an_exception_follows_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("plain")

    try:
        raise ValueError("why")
    except ValueError:
        structlog.get_logger().exception("failed")

    assert capsys.readouterr().out.endswith("ValueError: why\n")


@pytest.mark.parametrize(
    ("environ", "is_terminal", "form"),
    [
        ({}, True, "console"),
        ({}, False, "plain"),
        ({"TRIOKEEPER_LOG": "json"}, True, "json"),
        ({"TRIOKEEPER_LOG": "plain"}, True, "plain"),
        ({"TRIOKEEPER_LOG": "fancy"}, False, "plain"),
    ],
)
def test_the_format_follows_the_environment_then_the_terminal(
    environ: dict[str, str], is_terminal: bool, form: str
) -> None:
    assert choose_format(environ, is_terminal=is_terminal) == form


@pytest.mark.parametrize(
    ("environ", "properties", "level"),
    [
        ({}, {}, "info"),
        ({}, {"zookeeper.console.threshold": "WARN"}, "warning"),
        ({}, {"zookeeper.root.logger": "DEBUG, CONSOLE"}, "debug"),
        ({"TRIOKEEPER_LOG_LEVEL": "error"}, {"zookeeper.console.threshold": "WARN"}, "error"),
        ({"TRIOKEEPER_LOG_LEVEL": "loud"}, {}, "info"),
    ],
)
def test_the_level_follows_the_environment_then_the_properties(
    environ: dict[str, str], properties: dict[str, str], level: str
) -> None:
    assert choose_level(environ, properties) == level


@pytest.mark.parametrize("redirection", [">/dev/full", ">&-", "| true"])
def test_a_log_that_cannot_be_written_harms_nobody(redirection: str) -> None:
    program = (
        "import structlog; from server.logging_setup import configure_logging; configure_logging('plain');"
        "[structlog.get_logger().info('x' * 1000) for _ in range(200)]; raise SystemExit(7)"
    )
    command = f'set -o pipefail; "{sys.executable}" -c "{program}" {redirection}'

    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, timeout=30, check=False)

    assert (done.returncode, done.stderr) == (7, b"")
