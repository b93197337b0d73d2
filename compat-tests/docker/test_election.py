"""The script with three Kazoo processes, on a container."""

import pytest

from recipes.leader_election import CANDIDATES, run_election
from support.docker_containers import Lab

pytestmark = [pytest.mark.long, pytest.mark.timeout(300, func_only=True)]


def test_candidates_of_one_container(lab: Lab) -> None:
    assert len(run_election(lab.run().host_port)) == CANDIDATES
