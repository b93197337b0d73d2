"""Three Kazoo processes elect leaders on a plain server; `make docker-test` does it on a container."""

import pytest

from recipes.leader_election import CANDIDATES, run_election
from support.servers import start_triokeeper


@pytest.mark.timeout(60)
def test_the_next_candidate_leads_when_the_leader_is_killed() -> None:
    with start_triokeeper({"tickTime": 100, "maxSessionTimeout": 40_000}) as server:
        led = run_election(server.host_port, session_seconds=1.0)

    assert len(led) == CANDIDATES
    assert led == sorted(led)
