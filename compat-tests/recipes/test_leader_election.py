"""Three Kazoo processes elect leaders; `make docker-test` does it on a container."""

import pytest

from recipes.leader_election import CANDIDATES, run_election
from support.targets import Service


@pytest.mark.timeout(60)
def test_the_next_candidate_leads_when_the_leader_is_killed(service: Service) -> None:
    led = run_election(service.hosts, session_seconds=1.0)

    assert len(led) == CANDIDATES
    assert led == sorted(led)
