"""Runs `triokeeper cli` in this process, against a server in another one."""

import json
from typing import Any

from click.testing import CliRunner, Result

from client.shell.command import cli


class Cli:
    """The shell, with a server."""

    def __init__(self, hosts: str) -> None:
        self.hosts = hosts

    def run(self, *words: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(cli, ["-s", self.hosts, *words], input=stdin)

    def ok(self, *words: str, stdin: str | bytes | None = None) -> str:
        """What a command that must succeed prints."""
        result = self.run(*words, stdin=stdin)
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        return result.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.ok(*words, "--json"))

    def fails(self, exit_code: int, *words: str, stdin: str | None = None) -> str:
        """What a command that must fail says; it prints no result."""
        result = self.run(*words, stdin=stdin)
        assert result.exit_code == exit_code, result.output
        assert result.stdout == ""
        return result.stderr.strip()
