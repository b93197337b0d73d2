"""docs/TESTING-WITH-TRIOKEEPER.md, as somebody uses it who copies from it."""

import re
from pathlib import Path

from tests.testing.test_plugin import run_pytest

PAGE = Path(__file__).parents[2] / "docs" / "TESTING-WITH-TRIOKEEPER.md"
USES_THE_FIXTURE = """
def test_slow(slow_zookeeper):
    assert slow_zookeeper.is_running
"""


def test_the_examples_run_as_they_are_printed(tmp_path: Path) -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    finished = run_pytest(tmp_path, "\n".join([*examples, USES_THE_FIXTURE]))
    assert "4 passed" in finished.stdout, finished.stdout
