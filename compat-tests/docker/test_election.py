"""The script with three Kazoo processes, on a container."""

import pytest
from docker_containers import Lab
from leader_election import CANDIDATES, run_election

pytestmark = [pytest.mark.long, pytest.mark.timeout(300, func_only=True)]


def test_candidates_of_one_container(lab: Lab) -> None:
    assert len(run_election(lab.run().host_port)) == CANDIDATES
