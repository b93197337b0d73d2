"""Options of the whole test suite, and how Hypothesis looks for counterexamples.

A test run is the same every time, whatever the machine is busy with. To look where nobody looked before:
`pytest --hypothesis-profile=explore`.
"""

import signal

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("repeatable")

# In the background and under nohup these signals are ignored, and every process that a test starts would
# inherit that. A handler that does nothing is not inherited.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda _number, _frame: None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write what happens into testdata/*.txt, to be reviewed"
    )
