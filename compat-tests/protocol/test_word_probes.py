"""The probes of word_probes.py, a few of them; `make probes` sends 100,000."""

import pytest

from protocol.word_probes import ANSWER, WAYS, probe_often
from support.servers import start_server

pytestmark = pytest.mark.triokeeper_alone

COUNT = 900


def test_no_probe_gets_an_empty_answer() -> None:
    with start_server("triokeeper") as server:
        answers = probe_often(server.port, COUNT)
    assert answers == {(way.__name__, ANSWER): COUNT // len(WAYS) for way in WAYS}
