"""`triokeeper zkcli` hands all its arguments to zkCli, those that look like its own options too."""

from collections.abc import Sequence

import pytest
from click.testing import CliRunner

from client.zkcli import main as zkcli_main
from server.cli import main


def test_arguments_are_handed_on_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    def zkcli(arguments: Sequence[str]) -> int:
        given.extend(arguments)
        return 127

    monkeypatch.setattr(zkcli_main, "main", zkcli)
    arguments = ["-server", "a:1", "--help", "-h", "--", "ls", "-R", "--version"]

    assert CliRunner().invoke(main, ["zkcli", *arguments]).exit_code == 127
    assert given == arguments
