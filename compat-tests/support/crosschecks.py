"""`triokeeper crosscheck` as a process: clients connect to `hosts`, and its lines are read at the end."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIGTERM

import attrs

from support.servers import CHECKOUT

END_SECONDS_MAX = 30
SUMMARY = r"(?P<requests>\d+) requests and .*, (?P<unchecked>\d+) not compared"


@attrs.define
class Crosscheck:
    """One that runs; once it has ended, `lines` is all it said and `exit_code` what it found."""

    hosts: str
    lines: list[str] = attrs.field(factory=list)
    exit_code: int | None = None

    @property
    def differences(self) -> list[str]:
        return [line for line in self.lines if line.startswith("difference: ")]

    def assert_equal(self, requests_min: int) -> None:
        """It has ended by itself after so many requests, all of them compared and equal."""
        assert self.differences == [], "\n".join(self.lines)
        summary = self.lines[-1]
        found = re.fullmatch(SUMMARY, summary)
        assert found, summary
        assert int(found["requests"]) >= requests_min, summary
        assert found["unchecked"] == "0", self.lines
        assert self.exit_code == 0, self.lines


@contextmanager
def start_crosscheck(first: str, second: str) -> Iterator[Crosscheck]:
    """Answers from the first server, and compares with the second; ended with the block."""
    main = [sys.executable, "-c", "from server.command import main; main()", "crosscheck"]
    options = ["--server", first, "--against", second, "--listen", "0"]
    environment = os.environ | {"PYTHONPATH": os.environ.get("TRIOKEEPER_CODE", str(CHECKOUT))}
    with subprocess.Popen([*main, *options], env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        begun = process.stdout.readline()
        assert begun.startswith("listening at "), begun
        running = Crosscheck(begun.split()[2].rstrip(":"))
        try:
            yield running
        finally:
            process.send_signal(SIGTERM)
            running.lines = process.communicate(timeout=END_SECONDS_MAX)[0].splitlines()
            running.exit_code = process.returncode
