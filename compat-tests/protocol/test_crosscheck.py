"""Stock clients through `triokeeper crosscheck`, between Apache ZooKeeper and Triokeeper: no difference."""

import pytest

from recipes.kazoo_recipes import run_recipes
from recipes.leader_election import run_election
from support.crosschecks import start_crosscheck
from support.servers import SMALL_FLAGS, Kind, start_server

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("reference")]
ORDERS: list[tuple[Kind, Kind]] = [("reference", "triokeeper"), ("triokeeper", "reference")]
SETTINGS = {"tickTime": 200, "maxSessionTimeout": 40_000}


@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_kazoos_recipes_see_no_difference(first: Kind, second: Kind) -> None:
    with (
        start_server(first, SETTINGS, jvm_flags=SMALL_FLAGS) as one,
        start_server(second, SETTINGS, jvm_flags=SMALL_FLAGS) as other,
        start_crosscheck(one.host_port, other.host_port) as check,
    ):
        run_recipes(check.hosts)

    assert check.differences == []
    assert check.exit_code == 0
    assert int(check.lines[-1].split()[0]) > 200


@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_sessions_that_expire_are_no_difference(first: Kind, second: Kind) -> None:
    """Candidates are killed, so that each server ends their sessions at a moment of its own."""
    with (
        start_server(first, SETTINGS, jvm_flags=SMALL_FLAGS) as one,
        start_server(second, SETTINGS, jvm_flags=SMALL_FLAGS) as other,
        start_crosscheck(one.host_port, other.host_port) as check,
    ):
        run_election(check.hosts, session_seconds=2.0)

    assert check.differences == []
    assert check.exit_code == 0
