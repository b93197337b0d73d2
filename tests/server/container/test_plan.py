"""The files in testdata/: what an environment leads to; see plan_language.py for their language.

`pytest --rewrite` writes down what is planned now; whoever commits the result has read it.
"""

from pathlib import Path

import pytest

from tests.server.container.plan_language import play

TESTDATA = Path(__file__).with_name("testdata")


@pytest.mark.parametrize("path", sorted(TESTDATA.glob("*.txt")), ids=lambda path: path.stem)
def test_an_environment_leads_to_the_plan_as_written_down(path: Path, request: pytest.FixtureRequest) -> None:
    """Every file, note, export and command is as the file says, or the refusal is."""
    written = path.read_text()
    planned = play(written)
    if request.config.getoption("--rewrite"):
        path.write_text(planned)
    else:
        assert planned.splitlines() == written.splitlines()
