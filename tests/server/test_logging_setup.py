"""Log lines: their shape, their level, and that no failure to write them reaches the server."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog import Level, Logger, log
from server.logging_setup import choose_format, choose_level, configure_logging
from tests.captured_logs import logging_restored

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    with logging_restored():
        yield


def test_plain_lines_have_the_shape_of_zookeepers_log(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("plain", my_id=3)

    log.warning("session_expired", session="0x1", reason="no ping", tries=2)

    shape = (
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \[myid:3\] - WARN  \[main:test_logging_setup@\d+\] - "
        r"session_expired session=0x1 reason='no ping' tries=2\n"
    )
    assert re.fullmatch(shape, capsys.readouterr().out)


def test_no_text_from_outside_begins_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("plain")

    log.info("a\n2026-01-01 forged", path="/b\nc")

    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert out.endswith("a\\n2026-01-01 forged path='/b\\nc'\n")


def test_console_lines_are_coloured_and_sort_their_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("console")

    log.warning("session_expired", session="0x1", reason="no ping", expr="a=1", tries=2, zxid=None)

    shown = re.sub(r"\x1b\[(\d+)m", r"<\1>", capsys.readouterr().out)
    assert re.sub(r"\d\d:\d\d:\d\d", "TIME", shown) == (
        "<2>TIME<0> [<33><1>warning  <0>] <1>session_expired<0> <36>expr<0>=<35>'a=1'<0> "
        "<36>reason<0>=<35>'no ping'<0> <36>session<0>=<35>0x1<0> <36>tries<0>=<35>2<0> "
        "<36>zxid<0>=<35>None<0>\n"
    )


def test_no_text_from_outside_commands_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Nor does it begin a line. What a client names, a scheme or a path, is in the log as it came."""
    configure_logging("console")

    log.info("a\n\x1b[2Jb", path="/\x1b]0;title\x07", end="/\u2028", code=b"\x1b", why=OSError(1, "\x9b2J"))

    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "a\\n\\x1b[2Jb" in out
    assert re.sub(r"\x1b\[\d+m", "", out).removesuffix("\n").isprintable()


@pytest.mark.parametrize(("level", "colour"), [("debug", 32), ("info", 32), ("warning", 33), ("error", 31)])
def test_each_level_has_its_colour(level: Level, colour: int, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("console", "debug")

    log.at(level, "seen")

    assert f"[\x1b[{colour}m\x1b[1m{level:<9}\x1b[0m] \x1b[1mseen\x1b[0m\n" in capsys.readouterr().out


def test_json_lines_are_objects_with_the_fields_first(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("json")

    log.error("session_expired", session="0x1", tries=2, where=Path("/a"), text="\u00e4\n")

    line = capsys.readouterr().out
    assert line.count("\n") == 1
    found = json.loads(line)
    assert list(found) == ["session", "tries", "where", "text", "event", "level", "timestamp"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", found.pop("timestamp"))
    fields = {"session": "0x1", "tries": 2, "where": "/a", "text": "\u00e4\n"}
    assert found == {**fields, "event": "session_expired", "level": "error"}


@pytest.mark.parametrize(
    ("least", "written"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
        ("critical", []),
    ],
)
def test_events_below_the_level_are_not_written(
    least: Level, written: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("plain", least)

    log.debug("debug")
    log.info("info")
    log.warning("warning")
    log.error("error")

    assert [line.rpartition(" ")[2] for line in capsys.readouterr().out.splitlines()] == written


def test_until_a_process_decides_events_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    Logger().info("started", port=2181)

    assert capsys.readouterr().out == "[info] started port=2181\n"


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
        "from eventlog import log; from server.logging_setup import configure_logging\n"
        "configure_logging('plain'); [log.info('x' * 1000) for _ in range(200)]; raise SystemExit(7)"
    )
    command = f'set -o pipefail; "{sys.executable}" -c "{program}" {redirection}'

    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, timeout=30, check=False)

    assert (done.returncode, done.stderr) == (7, b"")
